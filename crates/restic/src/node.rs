//! The JSON of an entry in its directory's tree, byte for byte as restic writes it
//! (`internal/data/node.go` and `internal/fs/node.go`), so that an unchanged directory has the same
//! tree in snapshots by either program.

use std::io::Write;

use archive::Users;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::tz::TimeZone;
use ondisk::Dev;
use walk::{FileType, Meta};

use crate::id::Id;
use crate::text::{write_name, write_text};
use crate::times::Times;

/// Data of an entry besides its metadata.
#[derive(Clone, Copy, Default)]
pub(crate) struct Extra<'a> {
    /// The target of a symbolic link.
    pub(crate) link: &'a [u8],
    pub(crate) attributes: Attributes<'a>,
}

/// The names and values of extended attributes.
pub(crate) type ReadAttributes = Vec<(Vec<u8>, Vec<u8>)>;

/// Collects the extended attributes that `read` passes to its callback, and returns its result.
pub(crate) fn collect_attributes<T>(
    read: impl FnOnce(&mut dyn FnMut(&[u8], &[u8])) -> T,
) -> (ReadAttributes, T) {
    let mut found = Vec::new();
    let result = read(&mut |name, value| found.push((name.to_vec(), value.to_vec())));
    (found, result)
}

/// The extended attributes of an entry, as values or as JSON.
#[derive(Clone, Copy)]
pub(crate) enum Attributes<'a> {
    /// Names and values of the attributes.
    Read(&'a [(Vec<u8>, Vec<u8>)]),
    /// The JSON of an existing node.
    Encoded(&'a str),
}

impl Default for Attributes<'_> {
    fn default() -> Self {
        Attributes::Read(&[])
    }
}

/// The nodes that contain the device number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DeviceIds {
    /// All nodes.
    #[default]
    All,
    /// Only nodes of files with hard links, which the device number helps to identify, as with
    /// restic's feature flag `device-id-for-hardlinks`. The trees of a file system do not change
    /// when its device number does, except where files have hard links.
    HardLinks,
}

/// Encodes nodes.
pub(crate) struct NodeEncoder<'a> {
    users: &'a Users,
    device_ids: DeviceIds,
    pub(crate) times: Times,
}

impl<'a> NodeEncoder<'a> {
    pub(crate) fn new(users: &'a Users, device_ids: DeviceIds, zone: &TimeZone) -> NodeEncoder<'a> {
        NodeEncoder {
            users,
            device_ids,
            times: Times::new(zone.clone()),
        }
    }

    /// Writes a node up to its contents; [`write_contents`] or [`write_subtree`] completes it.
    pub(crate) fn write(&mut self, name: &[u8], meta: &Meta, extra: Extra<'_>, out: &mut Vec<u8>) {
        let kind = meta.kind();
        out.extend_from_slice(b"{\"name\":\"");
        write_name(name, out);
        out.extend_from_slice(b"\",\"type\":\"");
        out.extend_from_slice(type_name(kind).as_bytes());
        out.push(b'"');
        number("mode", go_mode(meta.mode).into(), out);
        // restic without --with-atime records the modification time as access time.
        for (key, time) in [
            ("mtime", meta.mtime),
            ("atime", meta.mtime),
            ("ctime", meta.ctime),
        ] {
            out.extend_from_slice(b",\"");
            out.extend_from_slice(key.as_bytes());
            out.extend_from_slice(b"\":\"");
            self.times.write(time, out);
            out.push(b'"');
        }
        // Writing into a Vec cannot fail.
        let _ = write!(out, r#","uid":{},"gid":{}"#, meta.uid, meta.gid);
        text("user", self.users.user(meta.uid), out);
        text("group", self.users.group(meta.gid), out);
        number("inode", meta.ino, out);
        let has_links = matches!(
            kind,
            FileType::Regular | FileType::Symlink | FileType::Block | FileType::Char
        );
        // Like restic, which records no link count of FIFOs and sockets.
        let has_one_name = kind == FileType::Directory || has_links && meta.nlink == 1;
        if self.device_ids == DeviceIds::All || !has_one_name {
            number("device_id", st_dev(meta.dev), out);
        }
        if kind == FileType::Regular {
            number("size", meta.size, out);
        }
        if has_links {
            number("links", meta.nlink.into(), out);
        }
        text("linktarget", extra.link, out);
        if std::str::from_utf8(extra.link).is_err() {
            text(
                "linktarget_raw",
                STANDARD.encode(extra.link).as_bytes(),
                out,
            );
        }
        write_attributes(extra.attributes, out);
        if matches!(kind, FileType::Block | FileType::Char) {
            number("device", st_dev(meta.rdev), out);
        }
    }
}

/// Completes the node of an entry; `blobs` is `None` unless it is a regular file.
pub(crate) fn write_contents(blobs: Option<&[Id]>, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"content\":");
    let Some(blobs) = blobs else {
        out.extend_from_slice(b"null}");
        return;
    };
    out.push(b'[');
    for (nth, id) in blobs.iter().enumerate() {
        out.extend_from_slice(if nth > 0 { b",\"" } else { b"\"" });
        id.write_hex(out);
        out.push(b'"');
    }
    out.extend_from_slice(b"]}");
}

/// Completes the node of a directory.
pub(crate) fn write_subtree(tree: Id, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"content\":null,\"subtree\":\"");
    tree.write_hex(out);
    out.extend_from_slice(b"\"}");
}

/// The type of a node in the JSON.
pub(crate) fn type_name(kind: FileType) -> &'static str {
    match kind {
        FileType::Directory => "dir",
        FileType::Symlink => "symlink",
        FileType::Block => "dev",
        FileType::Char => "chardev",
        FileType::Fifo => "fifo",
        FileType::Socket => "socket",
        FileType::Regular | FileType::Unknown => "file",
    }
}

fn number(key: &str, value: u64, out: &mut Vec<u8>) {
    if value > 0 {
        let _ = write!(out, r#","{key}":{value}"#);
    }
}

fn text(key: &str, value: &[u8], out: &mut Vec<u8>) {
    if !value.is_empty() {
        let _ = write!(out, r#","{key}":""#);
        write_text(value, out);
        out.push(b'"');
    }
}

fn write_attributes(attributes: Attributes<'_>, out: &mut Vec<u8>) {
    const KEY: &[u8] = b",\"extended_attributes\":";
    match attributes {
        Attributes::Read([]) | Attributes::Encoded("") => {}
        Attributes::Encoded(json) => {
            out.extend_from_slice(KEY);
            out.extend_from_slice(json.as_bytes());
        }
        Attributes::Read(all) => {
            out.extend_from_slice(KEY);
            for (nth, (name, value)) in all.iter().enumerate() {
                out.extend_from_slice(if nth > 0 {
                    b",{\"name\":\""
                } else {
                    b"[{\"name\":\""
                });
                write_text(name, out);
                let _ = write!(out, r#"","value":"{}"}}"#, STANDARD.encode(value));
            }
            out.push(b']');
        }
    }
}

/// Converts a mode to Go's [`fs.FileMode`](https://pkg.go.dev/io/fs#FileMode).
fn go_mode(mode: u32) -> u32 {
    const DIR: u32 = 1 << 31;
    const SYMLINK: u32 = 1 << 27;
    const DEVICE: u32 = 1 << 26;
    const NAMED_PIPE: u32 = 1 << 25;
    const SOCKET: u32 = 1 << 24;
    const SETUID: u32 = 1 << 23;
    const SETGID: u32 = 1 << 22;
    const CHAR_DEVICE: u32 = 1 << 21;
    const STICKY: u32 = 1 << 20;
    let kind = match FileType::from_mode(mode) {
        FileType::Directory => DIR,
        FileType::Symlink => SYMLINK,
        FileType::Block => DEVICE,
        FileType::Char => DEVICE | CHAR_DEVICE,
        FileType::Fifo => NAMED_PIPE,
        FileType::Socket => SOCKET,
        _ => 0,
    };
    let special = [(0o4000, SETUID), (0o2000, SETGID), (0o1000, STICKY)];
    let set = special.iter().filter(|(bit, _)| mode & bit != 0);
    mode & 0o777 | kind | set.map(|(_, go)| go).sum::<u32>()
}

/// Encodes a device number like `st_dev`; see
/// [makedev(3)](https://man7.org/linux/man-pages/man3/makedev.3.html).
fn st_dev(dev: Dev) -> u64 {
    let (major, minor) = (u64::from(dev.major), u64::from(dev.minor));
    (major & 0xffff_f000) << 32 | (major & 0xfff) << 8 | (minor & 0xffff_ff00) << 12 | minor & 0xff
}

#[cfg(test)]
mod tests {
    use gate::fs::Time;

    use super::*;

    #[test]
    fn modes_are_those_of_go() {
        assert_eq!(go_mode(0o100_644), 0o644);
        assert_eq!(go_mode(0o040_755), 1 << 31 | 0o755);
        assert_eq!(go_mode(0o041_777), 1 << 31 | 1 << 20 | 0o777);
        assert_eq!(go_mode(0o106_755), 1 << 23 | 1 << 22 | 0o755);
        assert_eq!(go_mode(0o020_600), 1 << 26 | 1 << 21 | 0o600);
    }

    #[test]
    fn devices_are_those_of_makedev() {
        assert_eq!(st_dev(Dev::new(8, 1)), 0x801);
        assert_eq!(st_dev(Dev::new(0x1234, 0x56789)), 0x1000_5672_3489);
    }

    fn encode(name: &[u8], meta: &Meta, extra: Extra<'_>) -> String {
        let (users, mut json) = (Users::default(), Vec::new());
        let mut encoder = NodeEncoder::new(&users, DeviceIds::All, &TimeZone::UTC);
        encoder.write(name, meta, extra, &mut json);
        String::from_utf8(json).unwrap()
    }

    #[test]
    fn nodes_have_the_fields_of_restic_in_its_order() {
        let time = |sec| Time::new(sec, 0);
        let meta = Meta {
            ino: 7,
            mode: 0o100_640,
            nlink: 1,
            uid: 5,
            size: 12,
            mtime: time(1),
            ctime: time(2),
            dev: Dev::new(0, 9),
            ..Meta::default()
        };
        let attributes = [
            (b"user.a".to_vec(), vec![0, 255]),
            (b"user.b".to_vec(), vec![]),
        ];
        let read = Extra {
            attributes: Attributes::Read(&attributes),
            ..Extra::default()
        };
        let json = encode(b"a", &meta, read);
        let xattrs = r#"[{"name":"user.a","value":"AP8="},{"name":"user.b","value":""}]"#;
        let expected = format!(
            r#"{{"name":"a","type":"file","mode":416,"mtime":"1970-01-01T00:00:01Z","atime":"1970-01-01T00:00:01Z","ctime":"1970-01-01T00:00:02Z","uid":5,"gid":0,"inode":7,"device_id":9,"size":12,"links":1,"extended_attributes":{xattrs}"#
        );
        assert_eq!(json, expected);
        let encoded = Extra {
            attributes: Attributes::Encoded(xattrs),
            ..Extra::default()
        };
        assert_eq!(encode(b"a", &meta, encoded), expected);
        let link = Meta {
            mode: 0o120_000,
            ..meta
        };
        let json = encode(
            b"l",
            &link,
            Extra {
                link: b"\xff<",
                ..Extra::default()
            },
        );
        let end = r#""links":1,"linktarget":"\ufffd\u003c","linktarget_raw":"/zw=""#;
        assert!(json.ends_with(end), "{json}");
        let device = Meta {
            mode: 0o020_600,
            rdev: Dev::new(1, 3),
            ..meta
        };
        assert!(encode(b"d", &device, Extra::default()).ends_with(r#""links":1,"device":259"#));
    }

    #[test]
    fn contents_and_subtrees_complete_a_node() {
        let completed = |with: &dyn Fn(&mut Vec<u8>)| {
            let mut json = b"{".to_vec();
            with(&mut json);
            String::from_utf8(json).unwrap()
        };
        let id = Id::hash(b"");
        assert_eq!(
            completed(&|out| write_contents(None, out)),
            r#"{,"content":null}"#
        );
        assert_eq!(
            completed(&|out| write_contents(Some(&[]), out)),
            r#"{,"content":[]}"#
        );
        assert_eq!(
            completed(&|out| write_contents(Some(&[id, id]), out)),
            format!(r#"{{,"content":["{id}","{id}"]}}"#)
        );
        assert_eq!(
            completed(&|out| write_subtree(id, out)),
            format!(r#"{{,"content":null,"subtree":"{id}"}}"#)
        );
    }
}
