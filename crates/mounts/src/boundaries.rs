//! Where the file system changes and the mount table says nothing: btrfs subvolumes and snapshots,
//! automount triggers, and whatever else changes `st_dev` inside a mount.
//!
//! Only mounts of file systems that can have such places are walked, each from its mount point, and
//! none into another. Those whose server does not answer are left out, with a warning.

use std::time::Duration;

use gate::btrfs::get_subvol_info;
use gate::fs::{At, Attributes, FileType, Open, Want, openat, statx};
use gate::{Fd, Gate};
use ondisk::Dev;
use ondisk::btrfs::Subvolume;
use ondisk::dirent::EntryType;

use crate::check::{Verdict, check};
use crate::method::{Queue, SearchContext};
use crate::path::join;
use crate::root::Root;
use crate::{Error, Point};

/// What changes there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BoundaryKind {
    /// A btrfs subvolume.
    Subvolume,
    /// A btrfs subvolume that was made as a snapshot of another.
    Snapshot,
    /// Something would be mounted there by whoever goes in.
    Automount,
    /// Another device number.
    Device,
}

impl BoundaryKind {
    /// Its name in tables and in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            BoundaryKind::Subvolume => "subvolume",
            BoundaryKind::Snapshot => "snapshot",
            BoundaryKind::Automount => "automount",
            BoundaryKind::Device => "device",
        }
    }
}

/// A directory that the mount table does not name, and beyond which lies another file system.
#[derive(Clone, Debug)]
pub struct Boundary {
    /// Its absolute name.
    pub path: Vec<u8>,
    /// What changes there.
    pub kind: BoundaryKind,
    /// Its `st_dev`.
    pub dev: Dev,
}

/// How long a server may take before its mounts are left out.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Inode number of the root of every btrfs subvolume.
const BTRFS_FIRST_FREE_OBJECTID: u64 = 256;

/// Inode number of the empty directory that stands in a snapshot where the original has a subvolume
/// of its own.
const BTRFS_EMPTY_SUBVOL_DIR_OBJECTID: u64 = 2;

/// File systems that are one piece: no file in them has another device than their root.
const ONE_PIECE: [&[u8]; 38] = [
    b"binfmt_misc",
    b"bpf",
    b"cgroup",
    b"cgroup2",
    b"configfs",
    b"cpuset",
    b"cramfs",
    b"debugfs",
    b"devpts",
    b"devtmpfs",
    b"efivarfs",
    b"erofs",
    b"exfat",
    b"ext2",
    b"ext3",
    b"ext4",
    b"f2fs",
    b"fusectl",
    b"hfsplus",
    b"hugetlbfs",
    b"iso9660",
    b"jfs",
    b"mqueue",
    b"nilfs2",
    b"nsfs",
    b"ntfs3",
    b"proc",
    b"pstore",
    b"ramfs",
    b"reiserfs",
    b"securityfs",
    b"squashfs",
    b"sysfs",
    b"tmpfs",
    b"tracefs",
    b"udf",
    b"vfat",
    b"xfs",
];

/// Finds the boundaries at or under `root`, given the mount points there; `root_fstype` is the type
/// of the file system that `root` itself is on, if it is known.
pub fn find(
    root: &Root,
    root_fstype: Option<&[u8]>,
    points: &[Point],
    hunt: &mut SearchContext<'_>,
) -> Vec<Boundary> {
    let can_have =
        |fstype: Option<&[u8]>| !fstype.is_some_and(|fstype| ONE_PIECE.contains(&fstype));
    let mut boundaries = Vec::new();
    if can_have(root_fstype) && !points.iter().any(|point| point.target == root.path) {
        walk(root, root_fstype, hunt, &mut boundaries);
    }
    // A walk cannot be called back from a server that does not answer; so they are asked first,
    // from processes that can.
    let wanted =
        |p: &&Point| !p.hidden && p.kind != Some(crate::Kind::File) && can_have(p.fstype());
    let (mut remote, mut walked): (Vec<Point>, Vec<Point>) = points
        .iter()
        .filter(wanted)
        .cloned()
        .partition(|point| point.fstype().is_some_and(crate::may_hang));
    if !remote.is_empty() {
        match check(&mut remote, ANSWER_WITHIN, |_| {}) {
            Ok(warnings) => hunt.warnings.extend(warnings),
            Err(errno) => hunt.failed(&root.path, Gate::Openat, errno),
        }
        let answers = |point: &Point| matches!(point.verdict, Some(Verdict::Ok | Verdict::Slow));
        walked.extend(remote.into_iter().filter(answers));
    }
    for point in walked {
        match Root::open_mount(&point.target) {
            Ok(top) => walk(&top, point.fstype(), hunt, &mut boundaries),
            Err(Error {
                gate: Some(gate),
                errno: Some(errno),
                ..
            }) => hunt.failed(&point.target, gate, errno),
            Err(_) => {}
        }
    }
    boundaries.sort_by(|a, b| crate::path::compare(&a.path, &b.path));
    boundaries
}

fn walk(
    top: &Root,
    fstype: Option<&[u8]>,
    hunt: &mut SearchContext<'_>,
    boundaries: &mut Vec<Boundary>,
) {
    let triggers = fstype == Some(b"autofs");
    let mut queue = Queue::new(top, top.dev);
    let mut buffer = vec![0u8; 64 << 10];
    while let Some(at) = queue.pop() {
        let dev = queue.node(at).about;
        let path = queue.path(at);
        hunt.directory(&path);
        hunt.read(&path, queue.open(at), &mut buffer, |hunt, dir, entry| {
            if entry.entry_type == EntryType::Other {
                return;
            }
            let look = At::SYMLINK_NOFOLLOW | At::NO_AUTOMOUNT | At::STATX_DONT_SYNC;
            let name = join(&path, entry.name.to_bytes());
            let seen = match statx(dir, entry.name, look, Want::BASIC_STATS) {
                Ok(seen) => seen,
                Err(errno) => return hunt.failed(&name, Gate::Statx, errno),
            };
            if seen.file_type != FileType::Directory
                || seen.attributes.contains(Attributes::MOUNT_ROOT)
            {
                return; // another mount is the table's affair
            }
            let trigger = triggers || seen.attributes.contains(Attributes::AUTOMOUNT);
            let entry_dev = Dev::from(seen.dev);
            let kind = match seen.ino {
                _ if trigger => Some(BoundaryKind::Automount),
                _ if entry_dev == dev => None,
                BTRFS_EMPTY_SUBVOL_DIR_OBJECTID if fstype == Some(b"btrfs") => return,
                BTRFS_FIRST_FREE_OBJECTID => Some(subvolume(dir, entry.name)),
                _ => Some(BoundaryKind::Device),
            };
            boundaries.extend(kind.map(|kind| Boundary {
                path: name,
                kind,
                dev: entry_dev,
            }));
            if !trigger {
                queue.push(at, entry.name.to_bytes(), entry_dev);
            }
        });
    }
}

/// Whether a subvolume was made as a snapshot.
fn subvolume(dir: &Fd, name: &std::ffi::CStr) -> BoundaryKind {
    let info = openat(dir, name, Open::SCAN).and_then(|subvolume| get_subvol_info(&subvolume));
    match info
        .ok()
        .and_then(|info| Subvolume::parse(&info))
        .map(|subvolume| subvolume.is_snapshot())
    {
        Some(true) => BoundaryKind::Snapshot,
        Some(false) => BoundaryKind::Subvolume,
        None => BoundaryKind::Device,
    }
}
