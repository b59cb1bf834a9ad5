//! The metadata of an entry, as restic writes it (`internal/fs/node.go` and `internal/data/node.go`),
//! so that a directory that did not change has the same tree, whichever of both made the snapshot.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use archive::Users;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gate::fs::Time;
use jiff::Timestamp;
use ondisk::Dev;
use rustic_core::repofile::{Metadata, Node, NodeType};
use serde_json::{Value, json};
use walk::{Meta, Type};

/// What is read of an entry beside its metadata.
#[derive(Default)]
pub(crate) struct Extra {
    /// The target of a symlink.
    pub(crate) link: Vec<u8>,
    /// The names and values of extended attributes.
    pub(crate) attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

/// An entry with its name. Contents and subtree are left to the engine.
pub(crate) fn node(name: &[u8], meta: &Meta, extra: Extra, users: &Users) -> Node {
    let device = st_dev(meta.rdev);
    let kind = match meta.kind() {
        Type::Directory => NodeType::Dir,
        Type::Symlink => NodeType::from_link(Path::new(OsStr::from_bytes(&extra.link))),
        Type::Block => NodeType::Dev { device },
        Type::Char => NodeType::Chardev { device },
        Type::Fifo => NodeType::Fifo,
        Type::Socket => NodeType::Socket,
        _ => NodeType::File,
    };
    let has_links = matches!(
        meta.kind(),
        Type::File | Type::Symlink | Type::Block | Type::Char
    );
    let named = |name: &[u8]| {
        let name = String::from_utf8_lossy(name).into_owned();
        Some(name).filter(|name| !name.is_empty())
    };
    let metadata = Metadata {
        mode: Some(go_mode(meta.mode)),
        mtime: Some(timestamp(meta.mtime)),
        // As restic does without --with-atime.
        atime: Some(timestamp(meta.mtime)),
        ctime: Some(timestamp(meta.ctime)),
        uid: Some(meta.uid),
        gid: Some(meta.gid),
        user: named(users.user(meta.uid)),
        group: named(users.group(meta.gid)),
        inode: meta.ino,
        device_id: st_dev(meta.dev),
        size: match meta.kind() {
            Type::File => meta.size,
            _ => 0,
        },
        links: if has_links { u64::from(meta.nlink) } else { 0 },
        ..attributes(&extra.attributes)
    };
    Node::new_node(OsStr::from_bytes(name), kind, metadata)
}

/// Metadata with these extended attributes alone. The engine does not export their type, but reads
/// its JSON. A name that is not UTF-8 is given lossily, as restic does.
fn attributes(attributes: &[(Vec<u8>, Vec<u8>)]) -> Metadata {
    if attributes.is_empty() {
        return Metadata::default();
    }
    let one = |(name, value): &(Vec<u8>, Vec<u8>)| json!({ "name": String::from_utf8_lossy(name), "value": STANDARD.encode(value) });
    let all: Vec<Value> = attributes.iter().map(one).collect();
    serde_json::from_value(json!({ "extended_attributes": all })).unwrap_or_default()
}

/// A time; restic, too, moves years that RFC 3339 does not have to the nearest that it has.
fn timestamp(time: Time) -> Timestamp {
    let nearest = match time.sec < 0 {
        true => Timestamp::MIN,
        false => Timestamp::MAX,
    };
    Timestamp::new(time.sec, time.nsec as i32).unwrap_or(nearest)
}

/// The mode in the form of Go's [`fs.FileMode`](https://pkg.go.dev/io/fs#FileMode).
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
    let kind = match Type::from_mode(mode) {
        Type::Directory => DIR,
        Type::Symlink => SYMLINK,
        Type::Block => DEVICE,
        Type::Char => DEVICE | CHAR_DEVICE,
        Type::Fifo => NAMED_PIPE,
        Type::Socket => SOCKET,
        _ => 0,
    };
    let special = [(0o4000, SETUID), (0o2000, SETGID), (0o1000, STICKY)];
    let set = special.iter().filter(|(bit, _)| mode & bit != 0);
    mode & 0o777 | kind | set.map(|(_, go)| go).sum::<u32>()
}

/// A device number as in `st_dev`; see
/// [makedev(3)](https://man7.org/linux/man-pages/man3/makedev.3.html).
fn st_dev(dev: Dev) -> u64 {
    let (major, minor) = (u64::from(dev.major), u64::from(dev.minor));
    (major & 0xffff_f000) << 32 | (major & 0xfff) << 8 | (minor & 0xffff_ff00) << 12 | minor & 0xff
}

#[cfg(test)]
mod tests {
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
        assert_eq!(st_dev(Dev::from((8, 1))), 0x801);
        assert_eq!(st_dev(Dev::from((0x1234, 0x56789))), 0x1000_5672_3489);
    }

    #[test]
    fn attributes_keep_every_byte() {
        let metadata = attributes(&[
            (b"user.a".to_vec(), vec![0, 255]),
            (b"user.b".to_vec(), vec![]),
        ]);
        let json = serde_json::to_value(&metadata).unwrap();
        let expected =
            json!([{ "name": "user.a", "value": "AP8=" }, { "name": "user.b", "value": "" }]);
        assert_eq!(json["extended_attributes"], expected);
    }

    #[test]
    fn times_out_of_range_are_moved() {
        let at = |sec| timestamp(Time { sec, nsec: 0 });
        assert_eq!(at(i64::MAX), Timestamp::MAX);
        assert_eq!(at(i64::MIN), Timestamp::MIN);
        assert_eq!(at(-1).as_second(), -1);
    }
}
