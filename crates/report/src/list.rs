//! Members of archives: a line each, as `tar -tv` has them, or JSON.

use std::borrow::Cow;

use ondisk::pax::{Kind, Member};
use ondisk::{Dev, Time};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use show::name::{entries, entry, printable};
use show::time::utc;

/// The name of a kind of file.
pub fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Link => "link",
        Kind::Symlink => "symlink",
        Kind::Char => "char",
        Kind::Block => "block",
        Kind::Directory => "directory",
        Kind::Fifo => "fifo",
        Kind::Unknown(_) => "unknown",
    }
}

/// Type and permissions as ls(1) shows them; `h` is another name of a member before.
fn mode_text(kind: Kind, mode: u32) -> [u8; 10] {
    let kind = match kind {
        Kind::File => b'-',
        Kind::Link => b'h',
        Kind::Symlink => b'l',
        Kind::Char => b'c',
        Kind::Block => b'b',
        Kind::Directory => b'd',
        Kind::Fifo => b'p',
        Kind::Unknown(letter) if letter.is_ascii_graphic() => letter,
        Kind::Unknown(_) => b'?',
    };
    let mut text = [kind, b'r', b'w', b'x', b'r', b'w', b'x', b'r', b'w', b'x'];
    for (bit, letter) in (0..9).rev().zip(&mut text[1..]) {
        if mode >> bit & 1 == 0 {
            *letter = b'-';
        }
    }
    for (bit, at, with, without) in [(11, 3, b's', b'S'), (10, 6, b's', b'S'), (9, 9, b't', b'T')] {
        if mode >> bit & 1 != 0 {
            text[at] = if text[at] == b'x' { with } else { without };
        }
    }
    text
}

/// Lines for people.
#[derive(Clone, Debug)]
pub struct Lines {
    /// Names as they are, whatever is in them.
    is_exact: bool,
    /// How wide owner, group and size have been so far.
    width: usize,
}

impl Lines {
    /// Names are printable, or, for what is no terminal, exact.
    pub fn new(is_exact: bool) -> Lines {
        Lines {
            is_exact,
            width: 19,
        }
    }

    /// Adds the line of a member.
    pub fn line(&mut self, member: &Member, out: &mut Vec<u8>) {
        let named = |name: &[u8], id: u32| match name {
            b"" => id.to_string(),
            name => printable(name).into_owned(),
        };
        let owner = format!(
            "{}/{}",
            named(&member.uname, member.uid),
            named(&member.gname, member.gid)
        );
        let size = match member.kind {
            Kind::Char | Kind::Block => format!("{},{}", member.rdev.major, member.rdev.minor),
            _ => member.size.to_string(),
        };
        self.width = self.width.max(owner.len() + 1 + size.len());
        let blanks = self.width - owner.len();
        out.extend_from_slice(&mode_text(member.kind, member.mode));
        out.extend_from_slice(
            format!(
                " {owner}{size:>blanks$} {} ",
                utc(member.mtime.sec).replace('T', " ")
            )
            .as_bytes(),
        );
        self.name(&member.path, out);
        match member.kind {
            Kind::Symlink => out.extend_from_slice(b" -> "),
            Kind::Link => out.extend_from_slice(b" link to "),
            _ => {}
        }
        self.name(&member.link, out);
        out.push(b'\n');
    }

    fn name(&self, name: &[u8], out: &mut Vec<u8>) {
        let shown = if self.is_exact {
            Cow::Borrowed(name)
        } else {
            Cow::Owned(printable(name).as_bytes().to_vec())
        };
        out.extend_from_slice(&shown);
    }
}

/// A member, as in the JSON.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The archive's name.
    pub archive: &'a [u8],
    /// Where in it the headers begin.
    pub at: u64,
    /// What they say.
    pub member: &'a Member,
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Row {
            archive,
            at,
            member,
        } = *self;
        let stamp = |time: Time| format!("{}.{:09}", time.sec, time.nsec);
        let device =
            |dev: Dev| matches!(member.kind, Kind::Char | Kind::Block).then(|| dev.to_string());
        let mut map = serializer.serialize_map(None)?;
        entry(&mut map, "archive", Some(archive))?;
        map.serialize_entry("at", &at)?;
        entry(&mut map, "path", Some(&member.path))?;
        map.serialize_entry("type", kind_name(member.kind))?;
        entry(
            &mut map,
            "link",
            (!member.link.is_empty()).then_some(&member.link[..]),
        )?;
        map.serialize_entry("mode", &format!("{:04o}", member.mode))?;
        map.serialize_entry("uid", &member.uid)?;
        map.serialize_entry("gid", &member.gid)?;
        entry(
            &mut map,
            "uname",
            (!member.uname.is_empty()).then_some(&member.uname[..]),
        )?;
        entry(
            &mut map,
            "gname",
            (!member.gname.is_empty()).then_some(&member.gname[..]),
        )?;
        map.serialize_entry("size", &member.size)?;
        map.serialize_entry("stored", &member.stored)?;
        map.serialize_entry("rdev", &device(member.rdev))?;
        map.serialize_entry("mtime", &stamp(member.mtime))?;
        map.serialize_entry("atime", &member.atime.map(stamp))?;
        map.serialize_entry("ctime", &member.ctime.map(stamp))?;
        map.serialize_entry("sparse", &member.sparse.is_some())?;
        map.serialize_entry(
            "acl",
            &(member.acl_access.is_some() || member.acl_default.is_some()),
        )?;
        entries(
            &mut map,
            "xattrs",
            &member
                .xattrs
                .iter()
                .map(|(name, _)| &name[..])
                .collect::<Vec<_>>(),
        )?;
        map.serialize_entry("dumpdir", &member.dumpdir.is_some())?;
        map.serialize_entry("blake3", &member.blake3.map(hex))?;
        map.end()
    }
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: [u8; 32]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
