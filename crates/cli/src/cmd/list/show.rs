//! The output of `fathom list`: a line per member like `tar -tv`, or JSON.

use archive::find::FileVersion;
use archive::increment::history::History;
use ondisk::Time;
use ondisk::pax::{Base, Lineage, Member, MemberKind};
use show::json_object;
use show::name::printable;
use show::shell::quoted;
use show::units::size;
use walk::FileType;

use crate::cmd::levels::{local_date, utc_date};
use crate::date::Zone;

pub(crate) struct Entry<'a> {
    pub(crate) archive: &'a [u8],
    /// The offset of the member's headers in the archive, in bytes.
    pub(crate) at: u64,
    pub(crate) member: &'a Member,
}

/// An archive, with the id and base that it records.
pub(crate) struct ListedArchive<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) lineage: Option<Lineage>,
}

json_object!(ListedArchive<'_>, |archive| {
    name "archive": Some(archive.name),
    "id": archive.lineage.map(|lineage| lineage.id.to_string()),
    "base": archive.lineage.and_then(|lineage| match lineage.base {
        Base::Nothing => None,
        Base::Unknown => Some("unknown".to_owned()),
        Base::Archive(id) => Some(id.to_string()),
    }),
});

json_object!(Entry<'_>, |entry| {
    name "archive": Some(entry.archive),
    "at": entry.at,
    name "path": Some(&entry.member.path),
    "type": name_and_letter(entry.member.kind).0,
    name "link": non_empty(&entry.member.link),
    "mode": format!("{:04o}", entry.member.mode),
    "uid": entry.member.uid,
    "gid": entry.member.gid,
    name "uname": non_empty(&entry.member.uname),
    name "gname": non_empty(&entry.member.gname),
    "size": entry.member.size,
    "stored": entry.member.stored,
    "rdev": is_device(entry.member.kind).then(|| entry.member.rdev.to_string()),
    "mtime": timestamp(entry.member.mtime),
    "atime": entry.member.atime.map(timestamp),
    "ctime": entry.member.ctime.map(timestamp),
    "sparse": entry.member.sparse.is_some(),
    "acl": entry.member.acl_access.is_some() || entry.member.acl_default.is_some(),
    names "xattrs": Some(&entry.member.xattrs.iter().map(|(name, _)| name).collect::<Vec<_>>()),
    "dumpdir": entry.member.dumpdir.is_some(),
    "blake3": entry.member.blake3.map(hex),
});

/// The versions of files that were found in the dumps of a state directory.
pub(crate) struct FoundVersions<'a> {
    pub(crate) state: &'a [u8],
    pub(crate) history: &'a History,
    pub(crate) versions: &'a [FileVersion],
}

json_object!(FoundVersions<'_>, |found| {
    "versions": found.versions.iter().map(|version| OneVersion { found, version }).collect::<Vec<_>>(),
});

struct OneVersion<'a> {
    found: &'a FoundVersions<'a>,
    version: &'a FileVersion,
}

json_object!(OneVersion<'_>, |one| {
    name "path": Some(&one.version.path),
    "type": FileType::from_mode(one.version.mode).name(),
    "mode": permissions(one.version.mode),
    "size": one.version.size,
    "mtime": timestamp(one.version.mtime),
    "dumps": one.version.dumps.iter().map(|&at| utc_date(&one.found.history.dumps()[at])).collect::<Vec<_>>(),
});

impl FoundVersions<'_> {
    /// The date of the last dump that contains a version.
    fn last(&self, version: &FileVersion, zone: &Zone) -> String {
        let last = version.dumps.last();
        last.map_or(String::new(), |&at| {
            local_date(&self.history.dumps()[at], zone)
        })
    }

    /// A line for each version.
    pub(crate) fn lines(&self, zone: &Zone) -> Vec<u8> {
        let mut out = Vec::new();
        let last = self.versions.iter().map(|version| self.last(version, zone));
        let last: Vec<String> = last.collect();
        let width = last.iter().map(String::len).fold(19, usize::max);
        let line = |out: &mut Vec<u8>, cells: [&str; 5]| {
            let [mode, size, time, dumps, last] = cells;
            let columns = format!("{mode:>4} {size:>10} {time:<19} {dumps:>5} {last:<width$} ");
            out.extend(columns.as_bytes());
        };
        let head = ["MODE", "SIZE", "MODIFIED", "DUMPS", "LAST DUMP (--at)"];
        line(&mut out, head);
        out.extend(b"PATH\n");
        for (version, last) in self.versions.iter().zip(&last) {
            let (bytes, time) = (size(version.size), zone.text(version.mtime.sec));
            let dumps = version.dumps.len().to_string();
            let mode = permissions(version.mode);
            line(&mut out, [&mode, &bytes, &time, &dumps, last]);
            out.extend_from_slice(printable(&version.path).as_bytes());
            out.push(b'\n');
        }
        out
    }

    /// The command that restores the newest version of the first file; empty without versions.
    pub(crate) fn command(&self, zone: &Zone) -> String {
        let Some(version) = self.versions.first() else {
            return String::new();
        };
        let (state, path) = (quoted(self.state), quoted(&literal(&version.path)));
        let at = self.last(version, zone);
        format!("fathom restore --state {state} --at '{at}' -C DIR -- {path}")
    }
}

/// Escapes wildcards in a PATH, so that the PATH selects only this file.
fn literal(path: &[u8]) -> Vec<u8> {
    let is_wild = |byte: &u8| matches!(byte, b'*' | b'?' | b'[');
    if !path.iter().any(is_wild) {
        return path.to_vec();
    }
    let escaped = path.iter().map(|byte| match byte {
        b'\\' => b"\\\\".to_vec(),
        wild if is_wild(wild) => vec![b'[', *wild, b']'],
        other => vec![*other],
    });
    escaped.flatten().collect()
}

/// The name of a member type in the JSON, and its letter as in ls(1); `h` is a hard link to an
/// earlier member.
fn name_and_letter(kind: MemberKind) -> (&'static str, u8) {
    match kind {
        MemberKind::File => ("file", b'-'),
        MemberKind::Link => ("link", b'h'),
        MemberKind::Symlink => ("symlink", b'l'),
        MemberKind::Char => ("char", b'c'),
        MemberKind::Block => ("block", b'b'),
        MemberKind::Directory => ("directory", b'd'),
        MemberKind::Fifo => ("fifo", b'p'),
        MemberKind::Label => ("label", b'V'),
        MemberKind::Continuation => ("continuation", b'M'),
    }
}

fn is_device(kind: MemberKind) -> bool {
    matches!(kind, MemberKind::Char | MemberKind::Block)
}

fn non_empty(name: &[u8]) -> Option<&[u8]> {
    (!name.is_empty()).then_some(name)
}

fn timestamp(time: Time) -> String {
    format!("{}.{:09}", time.sec, time.nsec)
}

/// The permissions of a mode, in octal.
pub(crate) fn permissions(mode: u32) -> String {
    format!("{:04o}", mode & 0o7777)
}

fn hex(bytes: [u8; 32]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Type and permissions in the form of ls(1).
fn mode_text(kind: MemberKind, mode: u32) -> [u8; 10] {
    let mut text = *b"?rwxrwxrwx";
    text[0] = name_and_letter(kind).1;
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

/// Formats members as lines that are aligned like those of `tar -tv`.
pub(crate) struct Lines {
    /// The time zone of the times.
    zone: Zone,
    /// The width of owner, group and size together: the maximum of the lines so far.
    width: usize,
}

impl Lines {
    pub(crate) fn new(zone: Zone) -> Lines {
        /// The output is streamed, so the first width has room for root/root and 12 digits.
        const WIDTH: usize = 22;
        Lines { zone, width: WIDTH }
    }

    pub(crate) fn line(&mut self, member: &Member, out: &mut Vec<u8>) {
        let named = |name: &[u8], id: u32| match name {
            b"" => id.to_string(),
            name => printable(name).into_owned(),
        };
        let user = named(&member.uname, member.uid);
        let owner = format!("{user}/{}", named(&member.gname, member.gid));
        let size = match is_device(member.kind) {
            true => format!("{},{}", member.rdev.major, member.rdev.minor),
            false => member.size.to_string(),
        };
        self.width = self.width.max(owner.len() + 1 + size.len());
        let blanks = self.width - owner.len();
        let time = self.zone.text(member.mtime.sec);
        out.extend_from_slice(&mode_text(member.kind, member.mode));
        out.extend_from_slice(format!(" {owner}{size:>blanks$} {time} ").as_bytes());
        out.extend_from_slice(printable(&member.path).as_bytes());
        match member.kind {
            MemberKind::Symlink => out.extend_from_slice(b" -> "),
            MemberKind::Link => out.extend_from_slice(b" link to "),
            _ => {}
        }
        out.extend_from_slice(printable(&member.link).as_bytes());
        out.push(b'\n');
    }
}
