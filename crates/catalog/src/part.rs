//! The file systems of a tree, identified by properties that survive a change of device numbers.

use std::slice::from_ref;

use gate::Fd;
use gate::btrfs::{BTRFS_SUPER_MAGIC, get_subvol_info};
use gate::fs::{Attributes, Open, Statx, StatxMask, fs_uuid, fstat, fstatfs, openat};
use gate::long::open_long;
use gate::sync::{Mutex, MutexGuard};
use mounts::root::absolute_file;
use ondisk::Dev;
use ondisk::btrfs::Subvolume;
use serde::{Deserialize, Serialize};
use walk::engine::btrfs::since::ancestors;
use walk::entry::{Time, append};
use walk::moment::{Granularity, may_be_since};
use walk::{EngineKind, Meta, MountContext};

use crate::error::FileSystemId;
use crate::stored;
use crate::token::Token;

/// A mount in a tree, or a subvolume, within which inode numbers are unique. Fields are sorted by
/// their names in a catalog.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Part {
    /// `st_dev` at the time of the walk.
    #[serde(with = "stored::dev")]
    pub dev: Dev,
    /// The engine that walked the mount; `None` if it was not entered, or for a subvolume that is
    /// no separate mount.
    pub engine: Option<String>,
    /// `f_fsid` of statfs(2).
    pub fsid: [u32; 2],
    /// The directory of the file system that is mounted, if the mount table has it.
    #[serde(flatten, with = "stored::fsroot")]
    pub fsroot: Option<Vec<u8>>,
    /// File system type, if the mount table has it.
    #[serde(flatten, with = "stored::fstype")]
    pub fstype: Option<Vec<u8>>,
    /// Inode number of the mount's top directory.
    pub ino: u64,
    /// `f_type` of statfs(2).
    pub magic: u64,
    /// Absolute path of the mount point, if the mount table has it; `None` in older catalogs.
    #[serde(
        flatten,
        with = "stored::mount_point",
        skip_serializing_if = "Option::is_none"
    )]
    pub mount_point: Option<Vec<u8>>,
    /// Path of the top directory, relative to DIR.
    #[serde(flatten, with = "stored::path")]
    pub path: Vec<u8>,
    /// Device or other source, if the mount table has it.
    #[serde(flatten, with = "stored::source")]
    pub source: Option<Vec<u8>>,
    /// UUIDs of a btrfs subvolume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subvolume: Option<SubvolumeIds>,
    /// The file system's token, taken before any entry was read.
    #[serde(with = "stored::text")]
    pub token: Option<Token>,
    /// Index of the DIR that contains the mount.
    pub top: u32,
    /// UUID, if the kernel reports it.
    #[serde(with = "stored::uuid")]
    pub uuid: Option<[u8; 16]>,
}

/// UUIDs of a btrfs subvolume, in hexadecimal. Fields are sorted by their names in a catalog.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SubvolumeIds {
    /// UUIDs of the subvolume's origin, of the origin's origin, and so on, as far as they still
    /// exist.
    pub ancestors: Vec<String>,
    /// UUID of the subvolume that this one was received from (btrfs receive).
    pub received: Option<String>,
    /// UUID of the subvolume itself.
    pub uuid: String,
}

impl SubvolumeIds {
    /// Reads the UUIDs of the subvolume of an open directory, on a file system with this `f_type`.
    fn read(dir: &Fd, magic: u64) -> Option<SubvolumeIds> {
        if magic != BTRFS_SUPER_MAGIC {
            return None;
        }
        let info = Subvolume::parse(&get_subvol_info(dir).ok()?)?;
        let text = |uuid: [u8; 16]| format!("{:032x}", u128::from_be_bytes(uuid));
        let known = |uuid: [u8; 16]| (uuid != [0; 16]).then(|| text(uuid));
        Some(SubvolumeIds {
            ancestors: ancestors(dir, &info).into_iter().map(text).collect(),
            received: known(info.received_uuid),
            uuid: known(info.uuid)?,
        })
    }

    /// Whether two subvolumes are states of the same one: snapshots of the same origin, or a
    /// snapshot and its origin. A snapshot keeps inode numbers, generations and all times, so these
    /// identify an inode in both subvolumes.
    fn is_related(&self, other: &SubvolumeIds) -> bool {
        let line = |ids: &SubvolumeIds| [from_ref(&ids.uuid), &ids.ancestors[..]].concat();
        let others = line(other);
        let is_received = self.received.is_some() && self.received == other.received;
        is_received || line(self).iter().any(|own| others.contains(own))
    }
}

impl Part {
    /// Whether two parts are of one file system (on btrfs: of one subvolume or its snapshots), so
    /// that the same inode number and birth time mean the same file.
    pub fn is_same_file_system(&self, other: &Part) -> bool {
        let is_related = || {
            let both = self.subvolume.as_ref().zip(other.subvolume.as_ref());
            both.is_some_and(|(own, other)| own.is_related(other))
        };
        self.magic == other.magic && (self.is_identical(other) || is_related())
    }

    /// Whether two parts are of the same file system, and on btrfs of the same subvolume.
    pub fn is_identical(&self, other: &Part) -> bool {
        // The UUID is the best evidence, then `f_fsid`, which on some file systems is only the
        // device number, then the source.
        match (self.uuid, other.uuid) {
            // On btrfs, inode numbers are unique only within a subvolume, whose id is part of
            // `f_fsid`.
            (Some(a), Some(b)) => {
                a == b && (self.magic != BTRFS_SUPER_MAGIC || self.fsid == other.fsid)
            }
            _ if self.fsid != [0; 2] && other.fsid != [0; 2] => self.fsid == other.fsid,
            _ => self.fstype == other.fstype && self.source == other.source,
        }
    }

    /// The identity of the file system, for messages.
    pub(crate) fn file_system_id(&self) -> FileSystemId {
        FileSystemId {
            fstype: self.fstype.clone(),
            uuid: self.uuid,
            fsid: self.fsid,
        }
    }

    /// The index, among the parts of a catalog, of the part with the same file system; if there are
    /// several, of the one at the same path. A different snapshot of the same subvolume matches
    /// only at the same path.
    pub(crate) fn find_match(&self, old: &[Part]) -> Option<u32> {
        let is_here = |old: &Part| (old.top, &old.path) == (self.top, &self.path);
        let find = |is_it: &dyn Fn(&Part) -> bool| {
            let at = old
                .iter()
                .position(|old| self.magic == old.magic && is_it(old))?;
            u32::try_from(at).ok()
        };
        find(&|old| is_here(old) && old.is_same_file_system(self))
            .or_else(|| find(&|old| old.is_identical(self)))
    }

    /// Maps parts to indexes among the parts of a catalog, or to `none`. Two subvolumes never get
    /// the same index: otherwise files of both would look like hard links to one file.
    pub fn match_all(parts: &[Part], old: &[Part], none: u32) -> Vec<u32> {
        let numbers = parts
            .iter()
            .map(|part| part.find_match(old).unwrap_or(none));
        let mut numbers: Vec<u32> = numbers.collect();
        for (at, part) in parts.iter().enumerate() {
            let number = numbers[at];
            let is_identical = |old: &Part| old.is_identical(part);
            if old.get(number as usize).is_none_or(is_identical) {
                continue;
            }
            for other in (0..parts.len()).filter(|other| *other != at) {
                if numbers[other] == number {
                    numbers[other] = none;
                }
            }
        }
        numbers
    }

    /// Whether the part is a separate mount below DIR, and not a subvolume inside another part.
    fn is_mount_among(&self, parts: &[Part]) -> bool {
        let is_around = |other: &Part| {
            (other.top, &other.fstype, &other.source, &other.fsroot)
                == (self.top, &self.fstype, &self.source, &self.fsroot)
                && other.path.len() < self.path.len()
                && self.path.starts_with(&other.path)
        };
        let is_subvolume = self.magic == BTRFS_SUPER_MAGIC && parts.iter().any(is_around);
        !self.path.is_empty() && self.fstype.is_some() && !is_subvolume
    }

    /// The mounts in a catalog that a later walk does not have, with their indexes, and the
    /// subvolumes that have been replaced by the placeholder of a snapshot. The mount that
    /// contained DIR itself counts, too, if its mount point is now empty (`is_bare`).
    pub(crate) fn find_missing<'a>(
        old: &'a [Part],
        now: &[Part],
        is_same_place: impl Fn(&Part, &Part) -> bool,
        is_placeholder: impl Fn(&Part) -> bool,
        is_bare: impl Fn(&Part, &[u8]) -> bool,
    ) -> Vec<(u32, &'a Part)> {
        let is_there = |old: &Part, now: &Part| {
            let is_same = now.is_same_file_system(old);
            // If only listed names were walked, a part has the path of the first name on the mount,
            // not of the mount point.
            let is_listed = old.engine.is_none();
            let is_here = is_same_place(old, now);
            let has_same_source = (&now.fstype, &now.source) == (&old.fstype, &old.source);
            // Below an unmounted bind mount, there may be a different directory of the same file
            // system.
            let is_same_mount = old.mount_point.is_none()
                || now.fsroot == old.fsroot
                || now.mount_point == old.mount_point;
            let is_it = is_same && is_listed || is_here && (is_same || has_same_source);
            is_same_mount && is_it
        };
        let is_on_bare = |part: &Part| {
            let point = part.mount_point.as_deref();
            point.is_some_and(|point| is_bare(part, point))
        };
        // Parts of the later walk are not examined again.
        let is_gone = |part: &Part| {
            !now.iter().any(|now| is_there(part, now))
                && (part.is_mount_among(old) || is_placeholder(part) || is_on_bare(part))
        };
        (0..).zip(old).filter(|(_, part)| is_gone(part)).collect()
    }

    pub(crate) fn from_context(root: &[u8], mount: &MountContext<'_>, by: EngineKind) -> Part {
        let top = mount.top;
        let content = mount.mount.map(|mount| &mount.content);
        let uuid = fs_uuid(&top.fd).ok().flatten();
        Part {
            top: 0,
            path: relative(root, &top.path).to_vec(),
            fstype: content.map(|c| c.fstype.clone()),
            source: content.and_then(|c| c.source.clone()),
            fsroot: content.map(|c| c.fsroot.clone()),
            magic: mount.statfs.magic,
            fsid: mount.statfs.fsid,
            uuid: uuid.filter(|uuid| *uuid != [0; 16]),
            dev: top.meta.dev,
            ino: top.meta.ino,
            mount_point: mount.mount.and_then(|mount| mount.target.clone()),
            engine: Some(by.name().to_owned()),
            token: None,
            subvolume: SubvolumeIds::read(&top.fd, mount.statfs.magic),
        }
    }

    /// The part of all btrfs snapshot placeholders, which share one device number and one inode
    /// number. It is the same in every catalog, whichever snapshot the walk meets first.
    fn of_stubs(meta: &Meta) -> Part {
        Part {
            dev: meta.dev,
            ino: meta.ino,
            ..Part::default()
        }
    }

    /// The part of a path that the walk did not enter as a mount: a subvolume, or a mount on a
    /// file.
    fn from_path(root: &[u8], path: &[u8], meta: &Meta) -> Part {
        if meta.is_stub() {
            return Part::of_stubs(meta);
        }
        // Compare the inode, because the path may now lead to a different file on a different file
        // system.
        let attributes = |fd: &Fd| fstat(fd, StatxMask::BASIC_STATS).ok();
        let is_it = |seen: &Statx| (seen.dev, seen.ino) == (meta.dev, meta.ino);
        let fd = open_long(path, Open::PATH | Open::NOFOLLOW).ok();
        let opened = fd.and_then(|fd| Some((attributes(&fd)?, fd)));
        let opened = opened.filter(|(seen, _)| is_it(seen));
        let is_root = |seen: &Statx| seen.attributes.contains(Attributes::MOUNT_ROOT);
        let is_mount = opened.as_ref().is_some_and(|(seen, _)| is_root(seen));
        let fd = opened.map(|(_, fd)| fd);
        let seen = fd.as_ref().and_then(|fd| fstatfs(fd).ok());
        let magic = seen.map_or(0, |s| s.magic);
        let subvolume = match (fd, magic) {
            (Some(fd), BTRFS_SUPER_MAGIC) => openat(&fd, c".", Open::SCAN).ok(),
            _ => None,
        };
        Part {
            path: relative(root, path).to_vec(),
            magic,
            fsid: seen.map_or([0; 2], |s| s.fsid),
            mount_point: is_mount.then(|| absolute_file(path)).flatten(),
            subvolume: subvolume
                .as_ref()
                .and_then(|dir| SubvolumeIds::read(dir, magic)),
            dev: meta.dev,
            ino: meta.ino,
            ..Part::default()
        }
    }
}

pub use walk::entry::relative;

/// Collects the parts of a walk.
#[derive(Debug)]
pub(crate) struct Parts {
    roots: Vec<Vec<u8>>,
    known: Mutex<KnownPart>,
}

#[derive(Debug, Default)]
struct KnownPart {
    /// Index of the DIR being walked.
    top: usize,
    /// The parts, each with its mount id.
    parts: Vec<(u64, Part)>,
}

impl Parts {
    pub(crate) fn new(roots: Vec<Vec<u8>>) -> Parts {
        Parts {
            roots,
            known: Mutex::default(),
        }
    }

    /// The parts of a catalog, with their indexes instead of mount ids.
    pub(crate) fn from_catalog(parts: &[Part]) -> Parts {
        let parts = (0..).zip(parts.iter().cloned()).collect();
        Parts {
            roots: Vec::new(),
            known: Mutex::new(KnownPart { top: 0, parts }),
        }
    }

    fn known(&self) -> MutexGuard<'_, KnownPart> {
        self.known.lock()
    }

    /// Records that the walk begins the DIR with this index.
    pub(crate) fn turn_to(&self, top: usize) {
        self.known().top = top;
    }

    /// Records that the walk begins a mount. `with_token`: syncs dirty data, and takes the token of
    /// the file system.
    pub(crate) fn begin(&self, mount: &MountContext<'_>, by: EngineKind, with_token: bool) {
        let mut known = self.known();
        let top = known.top;
        let mut part = Part {
            top: top as u32,
            ..Part::from_context(&self.roots[top], mount, by)
        };
        let id = mount.top.meta.mount;
        // If a part of this mount has been read already, a token taken now would hide changes since
        // then.
        let mut before = known.parts.iter().filter(|(other, _)| *other == id);
        part.token = match before.clone().find(|(_, before)| before.dev == part.dev) {
            Some((_, before)) => before.token.clone(),
            None if with_token && before.next().is_none() => Token::take(mount),
            None => None,
        };
        known.parts.push((id, part));
    }

    /// Records a mount without a token, unless the mount is already recorded. `by` is `None` if the
    /// walk did not enter the mount at its root.
    pub(crate) fn begin_listed(&self, mount: &MountContext<'_>, by: Option<EngineKind>) {
        let mut known = self.known();
        let meta = &mount.top.meta;
        let is_same = |(id, part): &(u64, Part)| (*id, part.dev) == (meta.mount, meta.dev);
        if known.parts.iter().any(is_same) {
            return;
        }
        let root = &self.roots[known.top];
        let part = Part::from_context(root, mount, by.unwrap_or(EngineKind::Threads));
        let engine = part.engine.filter(|_| by.is_some());
        known.parts.push((meta.mount, Part { engine, ..part }));
    }

    /// The part of an entry. `last` is a cache owned by the calling thread.
    pub(crate) fn find(
        &self,
        last: &mut Option<CachedPart>,
        meta: &Meta,
        dir: &[u8],
        name: &[u8],
    ) -> CachedPart {
        if let Some(last) = last
            && (last.mount, last.dev) == (meta.mount, meta.dev)
        {
            return *last;
        }
        let mut known = self.known();
        let mut parts = known.parts.iter();
        let place = parts.position(|(mount, part)| (*mount, part.dev) == (meta.mount, meta.dev));
        let part = place.unwrap_or_else(|| {
            let mut path = dir.to_vec();
            append(&mut path, name);
            let part = Part {
                top: known.top as u32,
                ..Part::from_path(&self.roots[known.top], &path, meta)
            };
            known.parts.push((meta.mount, part));
            known.parts.len() - 1
        });
        *last.insert(CachedPart {
            mount: meta.mount,
            dev: meta.dev,
            magic: known.parts[part].1.magic,
            number: u32::try_from(part).unwrap_or(u32::MAX),
        })
    }

    pub(crate) fn get(&self, number: u32) -> Option<Part> {
        let known = self.known();
        known
            .parts
            .get(number as usize)
            .map(|(_, part)| part.clone())
    }

    /// All parts of the walk. `by` has the engines of the entered mounts, in order, because an
    /// engine may have been replaced after its mount was recorded.
    pub(crate) fn all(&self, by: impl IntoIterator<Item = EngineKind>) -> Vec<Part> {
        let known = self.known();
        let mut all: Vec<Part> = known.parts.iter().map(|(_, part)| part.clone()).collect();
        let begun = all.iter_mut().filter(|part| part.engine.is_some());
        for (part, by) in begun.zip(by) {
            part.engine = Some(by.name().to_owned());
        }
        all
    }
}

/// The part of the last entry, cached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CachedPart {
    mount: u64,
    dev: Dev,
    /// Index of the part.
    pub(crate) number: u32,
    /// `f_type` of the part's file system.
    pub(crate) magic: u64,
}

/// `f_type` of a part's file system; 0 if there is no such part.
pub(crate) fn magic_of(parts: &[Part], number: usize) -> u64 {
    parts.get(number).map_or(0, |part| part.magic)
}

/// Whether a file may have changed at or after `since`, on a file system with this `f_type`.
pub(crate) fn may_have_changed(meta: &Meta, magic: u64, since: Time) -> bool {
    let granularity = Granularity::new(magic, meta.btime.is_some());
    may_be_since(meta.ctime, granularity, since)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths() {
        for (root, path, rest) in [
            ("/", "/usr", "usr"),
            (".", "./a/b", "a/b"),
            ("a", "a", ""),
            ("a/", "a/b", "b"),
            ("a", "a/b", "b"),
        ] {
            assert_eq!(relative(root.as_bytes(), path.as_bytes()), rest.as_bytes());
        }
    }

    #[test]
    fn file_systems_are_identified_by_what_stays() {
        let one = Part {
            magic: 1,
            fsid: [5, 0],
            uuid: Some([1; 16]),
            dev: Dev::new(8, 1),
            ..Part::default()
        };
        assert!(one.is_same_file_system(&Part {
            fsid: [6, 0],
            dev: Dev::new(8, 2),
            ..one.clone()
        }));
        assert!(!one.is_same_file_system(&Part {
            uuid: Some([2; 16]),
            ..one.clone()
        }));
        assert!(!one.is_same_file_system(&Part {
            magic: 2,
            ..one.clone()
        }));
        assert!(one.is_same_file_system(&Part {
            uuid: None,
            ..one.clone()
        }));
        let subvolume = Part {
            magic: BTRFS_SUPER_MAGIC,
            ..one.clone()
        };
        assert!(!subvolume.is_same_file_system(&Part {
            fsid: [6, 0],
            ..subvolume.clone()
        }));
        let nameless = Part {
            fsid: [0; 2],
            uuid: None,
            source: Some(b"server:/x".to_vec()),
            ..one
        };
        assert!(!nameless.is_same_file_system(&Part {
            source: None,
            ..nameless.clone()
        }));
    }

    fn snapshot(path: &str, uuid: u8, ancestors: &[u8], received: Option<u8>) -> Part {
        let id = |byte: u8| byte.to_string();
        Part {
            path: path.as_bytes().to_vec(),
            magic: BTRFS_SUPER_MAGIC,
            fsid: [uuid.into(), 0],
            uuid: Some([9; 16]),
            subvolume: Some(SubvolumeIds {
                ancestors: ancestors.iter().copied().map(id).collect(),
                received: received.map(id),
                uuid: id(uuid),
            }),
            ..Part::default()
        }
    }

    #[test]
    fn snapshots_of_one_subvolume_are_states_of_it() {
        let related = |a: (u8, &[u8], Option<u8>), b: (u8, &[u8], Option<u8>)| {
            let [a, b] = [a, b].map(|(uuid, line, received)| snapshot("", uuid, line, received));
            assert_eq!(a.is_same_file_system(&b), b.is_same_file_system(&a));
            a.is_same_file_system(&b)
        };
        let live: (u8, &[u8], Option<u8>) = (1, &[], None);
        assert!(related((2, &[1], None), (3, &[1], None)));
        assert!(related(live, (2, &[1], None)) && related(live, (2, &[4, 3, 1], None)));
        assert!(related((4, &[7], Some(8)), (5, &[6], Some(8))));
        assert!(!related(live, (2, &[], None)));
        assert!(!related((2, &[1], None), (3, &[4], None)));
        assert!(!related((2, &[1], Some(5)), (3, &[], Some(1))));
    }

    #[test]
    fn each_part_of_a_catalog_is_one_subvolume() {
        let numbers = |parts: &[Part], old: &[Part]| Part::match_all(parts, old, 99);
        let old = [snapshot("daily.0", 2, &[1], None)];
        // The snapshot was renamed, and a new one has its old name.
        let new = [
            snapshot("daily.0", 3, &[1], None),
            snapshot("daily.1", 2, &[1], None),
        ];
        assert_eq!(numbers(&new, &old), [0, 99]);
        assert_eq!(numbers(&new[1..], &old), [0]);
        assert_eq!(numbers(&[snapshot("daily.1", 3, &[1], None)], &old), [99]);
        // The same file system mounted twice counts as one.
        let one = Part {
            subvolume: None,
            ..old[0].clone()
        };
        let two = Part {
            path: b"bind".to_vec(),
            ..one.clone()
        };
        assert_eq!(numbers(&[one, two], &old), [0, 0]);
    }

    #[test]
    fn only_mounts_can_be_gone() {
        let mount = |path: &str, source: &str, fsroot: &str| Part {
            path: path.as_bytes().to_vec(),
            fstype: Some(b"btrfs".to_vec()),
            source: Some(source.into()),
            fsroot: Some(fsroot.into()),
            magic: BTRFS_SUPER_MAGIC,
            fsid: [source.len() as u32, fsroot.len() as u32],
            engine: Some("threads".to_owned()),
            ..Part::default()
        };
        let top = mount("", "/dev/a", "/");
        let subvolume = Part {
            fsid: [8, 8],
            ..mount("volume", "/dev/a", "/")
        };
        let stub = Part {
            path: b"stub".to_vec(),
            ..Part::default()
        };
        let old = [
            top.clone(),
            subvolume,
            stub,
            mount("bind", "/dev/a", "/x"),
            mount("usb", "/dev/b", "/"),
        ];
        let same = |a: &Part, b: &Part| (a.top, &a.path) == (b.top, &b.path);
        let gone = |now: &[Part]| -> Vec<u32> {
            Part::find_missing(&old, now, same, |_| false, |_, _| false)
                .into_iter()
                .map(|(number, _)| number)
                .collect()
        };
        assert!(gone(&old).is_empty());
        assert_eq!(gone(from_ref(&top)), [3, 4]);
        // A different file system at the same mount point, first with the same source, then with a
        // different one.
        let new = Part {
            fsid: [7, 7],
            ..old[4].clone()
        };
        assert_eq!(gone(&[top.clone(), new.clone()]), [3]);
        let source = Some(b"systemd-1".to_vec());
        assert_eq!(gone(&[top, Part { source, ..new }]), [3, 4]);
    }
}
