//! Finds changes of file system that the mount table does not have: btrfs subvolumes and snapshots,
//! automount triggers, and any other change of `st_dev` inside a mount.
//!
//! Only mounts of file systems that can have such changes are walked, each from its mount point; no
//! walk enters a different mount. Mounts whose server does not answer are skipped with a warning.

use std::ffi::CStr;

use base::path::{compare, join};
use gate::btrfs::get_subvol_info;
use gate::fs::{AtFlags, Attributes, FileType, Open, StatxMask, openat, statx};
use gate::{Fd, Gate};
use ondisk::Dev;
use ondisk::btrfs::{FIRST_INODE, Subvolume};

use crate::check::{ANSWER_WITHIN, check};
use crate::error::{Error, WarningKind};
use crate::kind::{is_kernel_file_system, is_one_of, may_hang};
use crate::method::SearchContext;
use crate::method::breadth::Queue;
use crate::point::{Point, PointKind, Verdict};
use crate::root::Root;

base::named! {
    /// A kind of [`Boundary`].
    BoundaryKind {
        /// A btrfs subvolume.
        Subvolume "subvolume",
        /// A snapshot of a btrfs subvolume.
        Snapshot "snapshot",
        /// An automount trigger.
        Automount "automount",
        /// A directory with a different device number.
        Device "device",
    }
}

/// A directory where a different file system begins that the mount table does not have.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Boundary {
    pub path: Vec<u8>,
    pub kind: BoundaryKind,
    /// Device number of the directory (`st_dev`).
    pub dev: Dev,
}

/// Inode number of the empty directory that a snapshot shows in place of a nested subvolume.
const BTRFS_EMPTY_SUBVOL_DIR_OBJECTID: u64 = 2;

/// Whether files of this type of file system can have a different `st_dev` than its root.
fn can_have_boundaries(fstype: Option<&[u8]>) -> bool {
    const ONE_DEVICE: &str = "cramfs erofs exfat ext2 ext3 ext4 f2fs hfsplus iso9660 jfs nilfs2 \
        ntfs3 ramfs reiserfs squashfs tmpfs udf vfat xfs";
    fstype.is_none_or(|fstype| !is_kernel_file_system(fstype) && !is_one_of(fstype, ONE_DEVICE))
}

/// Finds the boundaries at or under `root`, given the mount points there; `root_fstype` is the type
/// of the file system that contains `root`, if known.
pub fn find(
    root: &Root,
    root_fstype: Option<&[u8]>,
    points: &[Point],
    context: &mut SearchContext<'_>,
) -> Vec<Boundary> {
    let mut boundaries = Vec::new();
    if can_have_boundaries(root_fstype) && !points.iter().any(|point| point.target == root.path) {
        walk(root, root_fstype, context, &mut boundaries);
    }
    // A walk that blocks on a dead server cannot be interrupted, so check remote mounts first, in
    // child processes.
    let is_wanted = |point: &&Point| {
        !point.hidden && point.kind != Some(PointKind::File) && can_have_boundaries(point.fstype())
    };
    let (mut remote, mut walked): (Vec<Point>, Vec<Point>) = points
        .iter()
        .filter(is_wanted)
        .cloned()
        .partition(|point| point.fstype().is_some_and(may_hang));
    if !remote.is_empty() {
        let warnings = check(&mut remote, ANSWER_WITHIN, |_| {}).unwrap_or_else(|errno| {
            context.failed(&root.path, Gate::Openat, errno);
            Vec::new()
        });
        // A mount that has not answered all calls of the check may never answer the next call.
        let is_unfinished = |point: &Point| {
            warnings.iter().any(|warning| {
                let reason = warning.reason::<WarningKind>();
                matches!(reason, Some(WarningKind::SlowToAll(_)))
                    && warning.path.as_ref() == Some(&point.target)
            })
        };
        let answers = |point: &Point| {
            matches!(
                point.verdict,
                Some(Verdict::Ok | Verdict::Slow | Verdict::Failing)
            ) && !is_unfinished(point)
        };
        walked.extend(remote.into_iter().filter(answers));
        context.warnings.extend(warnings);
    }
    for point in walked {
        match Root::open_mount(&point.target) {
            Ok(top) => walk(&top, point.fstype(), context, &mut boundaries),
            Err(Error { gate, errno, .. }) => {
                if let (Some(gate), Some(errno)) = (gate, errno) {
                    context.failed(&point.target, gate, errno);
                }
            }
        }
    }
    boundaries.sort_by(|a, b| compare(&a.path, &b.path));
    boundaries
}

fn walk(
    top: &Root,
    fstype: Option<&[u8]>,
    context: &mut SearchContext<'_>,
    boundaries: &mut Vec<Boundary>,
) {
    let is_autofs = fstype == Some(b"autofs");
    let mut queue = Queue::new(top, top.dev);
    let mut buffer = vec![0u8; 64 << 10];
    while let Some(at) = queue.pop() {
        let dev = queue.node(at).data;
        let path = queue.path(at);
        context.directory(&path);
        context.read(&path, queue.open(at), &mut buffer, |context, dir, entry| {
            if !entry.file_type.may_be_directory() {
                return;
            }
            let look = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
            let name = join(&path, entry.name.to_bytes());
            let seen = match statx(dir, entry.name, look, StatxMask::BASIC_STATS) {
                Ok(seen) => seen,
                Err(errno) => return context.failed(&name, Gate::Statx, errno),
            };
            if seen.file_type != FileType::Directory
                || seen.attributes.contains(Attributes::MOUNT_ROOT)
            {
                return; // mounts are no boundaries
            }
            let is_trigger = is_autofs || seen.attributes.contains(Attributes::AUTOMOUNT);
            let entry_dev = seen.dev;
            let kind = match seen.ino {
                _ if is_trigger => Some(BoundaryKind::Automount),
                _ if entry_dev == dev => None,
                BTRFS_EMPTY_SUBVOL_DIR_OBJECTID if fstype == Some(b"btrfs") => return,
                FIRST_INODE => Some(subvolume(dir, entry.name)),
                _ => Some(BoundaryKind::Device),
            };
            boundaries.extend(kind.map(|kind| Boundary {
                path: name,
                kind,
                dev: entry_dev,
            }));
            if !is_trigger {
                queue.push(at, entry.name.to_bytes(), entry_dev);
            }
        });
    }
}

/// Whether a subvolume was created as a snapshot.
fn subvolume(dir: &Fd, name: &CStr) -> BoundaryKind {
    let info = openat(dir, name, Open::SCAN).and_then(|subvolume| get_subvol_info(&subvolume));
    match info.ok().and_then(|info| Subvolume::parse(&info)) {
        Some(subvolume) if subvolume.is_snapshot() => BoundaryKind::Snapshot,
        Some(_) => BoundaryKind::Subvolume,
        None => BoundaryKind::Device,
    }
}
