//! The inodes of an XFS file system, by bulkstat.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use gate::fs::{Attributes, Time};
use gate::xfs::{BulkBuffer, xfs_bulkstat, xfs_fsgeometry};
use gate::{Errno, Fd};
use ondisk::xfs::{Geometry, Inode};

use crate::entry::Meta;
use crate::error::{EngineAction, EngineRefusal};

/// Number of inodes per bulkstat call: the kernel reads ahead for as many.
pub(super) const ROWS: usize = 1024;

pub(super) fn geometry(fd: &Fd) -> Result<Geometry, EngineRefusal> {
    let bytes = xfs_fsgeometry(fd).map_err(|errno| match errno {
        Errno::ENOTTY => EngineRefusal::KernelTooOld {
            call: "XFS_IOC_FSGEOMETRY",
            since: "5.2",
        },
        errno => EngineAction::Geometry.failed(errno),
    })?;
    Geometry::parse(&bytes).ok_or(EngineRefusal::InvalidGeometry)
}

/// Calls [`xfs_bulkstat`] again when a signal interrupts it.
pub(super) fn bulkstat(
    fd: &Fd,
    group: u32,
    from: u64,
    most: usize,
    buffer: &mut BulkBuffer,
) -> Result<u64, Errno> {
    loop {
        match xfs_bulkstat(fd, group, from, most, buffer) {
            Err(Errno::EINTR) => {}
            other => return other,
        }
    }
}

/// Whether bulkstat returns all metadata of an inode, which has not changed since `since`.
pub(super) fn is_settled(inode: &Inode, since: Time) -> bool {
    let is_recent = inode.ctime.max(inode.mtime) >= since;
    // Bulkstat reports 0 blocks if the data is in the inode itself, even if extended attributes
    // have some.
    let hides_blocks = inode.blocks == 0 && inode.attribute_extents > 0;
    !is_recent && !hides_blocks
}

/// The metadata of an inode, with device and mount of the top.
pub(super) fn meta_of(inode: &Inode, top: &Meta, shape: &Geometry) -> Meta {
    let mut attributes = Attributes::empty();
    attributes.set(Attributes::IMMUTABLE, inode.xflags & Inode::IMMUTABLE != 0);
    attributes.set(Attributes::APPEND, inode.xflags & Inode::APPEND != 0);
    attributes.set(Attributes::NODUMP, inode.xflags & Inode::NODUMP != 0);
    Meta {
        ino: inode.ino,
        mode: u32::from(inode.mode),
        nlink: inode.nlink,
        uid: inode.uid,
        gid: inode.gid,
        size: inode.size,
        blocks: inode.blocks.wrapping_mul(u64::from(shape.block / 512)),
        atime: inode.atime,
        mtime: inode.mtime,
        ctime: inode.ctime,
        btime: shape.has_btime.then_some(inode.btime),
        rdev: inode.rdev,
        dev: top.dev,
        mount: top.mount,
        attributes: attributes.bits(),
        generation: Some(inode.generation),
        xattrs: Some(inode.xflags & Inode::HAS_ATTRIBUTES != 0),
    }
}

/// Reads all inodes of a file system into the cache. Threads claim spans of inode numbers.
pub(super) struct Readahead<'a> {
    fd: &'a Fd,
    /// For each allocation group, the start of the next span and the end of the group.
    groups: Vec<(AtomicU64, u64)>,
}

impl<'a> Readahead<'a> {
    pub(super) fn new(fd: &'a Fd, shape: &Geometry) -> Readahead<'a> {
        /// Maximum number of allocation groups: that of a file system of 16 TiB with groups of
        /// minimum size.
        const MOST: u32 = 1 << 20;
        let group = |n| (AtomicU64::new(shape.first_of(n)), shape.first_of(n + 1));
        Readahead {
            fd,
            groups: (0..shape.groups.min(MOST)).map(group).collect(),
        }
    }

    /// Reads inodes in one thread, until `is_wanted` is false. Each thread begins with a different
    /// allocation group.
    pub(super) fn run(&self, first: usize, is_wanted: impl Fn() -> bool) -> Result<(), Errno> {
        const SPAN: u64 = 8192;
        let mut buffer = BulkBuffer::new(ROWS);
        for group in (0..self.groups.len()).map(|nth| (first + nth) % self.groups.len()) {
            let (next_span, group_end) = &self.groups[group];
            loop {
                let mut from = next_span.fetch_add(SPAN, Relaxed);
                if from >= *group_end {
                    break;
                }
                let end = from + SPAN;
                while from < end {
                    if !is_wanted() {
                        return Ok(());
                    }
                    let most = ROWS.min((end - from) as usize);
                    let next = bulkstat(self.fd, group as u32, from, most, &mut buffer)?;
                    let rows = buffer.rows();
                    let ends = [rows.first(), rows.last()].map(|row| row.map(Inode::parse_ino));
                    from = match ends.into() {
                        (Some(_), Some(last)) if last < end => next.max(from + 1),
                        // No inode is in use before the first one that bulkstat returned: skip the
                        // spans up to it.
                        (Some(first), _) => {
                            next_span.fetch_max(first.max(end), Relaxed);
                            end
                        }
                        (None, _) => {
                            next_span.fetch_max(*group_end, Relaxed);
                            end
                        }
                    };
                }
            }
        }
        Ok(())
    }
}
