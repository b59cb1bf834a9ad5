//! `bulkstat`: XFS gives its inodes by the thousand, joined here with their names.
//!
//! ```text
//!   getdents64 ──► names ──► sorted by inode number ─┐
//!                                                    ├──► entries
//!   XFS_IOC_BULKSTAT ──► inodes in that same order ──┘
//! ```
//!
//! The names come first: whatever is made, moved or changed after they were read has a change time
//! that shows it, and is looked at by its name, as is a name without an inode. What bulkstat says
//! is what statx(2) says, but for sizes and blocks of what is still being written, which syncfs(2)
//! settles; so the time since which changes count is taken before that.
//!
//! To open a directory takes its inode. Where that is to be read from a disk, one here and one
//! there, those threads that are started because the processors wait go through all inodes by
//! bulkstat meanwhile, in the order in which they lie.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use gate::fs::{Attributes, CWD, Open, Time, read, readlinkat, syncfs};
use gate::long::{c_string, open_long};
use gate::xfs::{BulkBuffer, XFS_SUPER_MAGIC, xfs_bulkstat, xfs_fsgeometry};
use gate::{Errno, Fd};
use ondisk::Dev;
use ondisk::xfs::{Geometry, Inode};

use super::{Engine, MountContext};
use crate::entry::{Meta, time};
use crate::error::{EngineAction, EngineRefusal};
use crate::job::Job;
use crate::kind::EngineKind;
use crate::moment::Moment;

mod join;
mod names;
pub mod since;

/// Inodes that are asked for at a time: the kernel reads ahead for as many.
const ROWS: usize = 1024;

/// XFS's bulkstat, joined with the names.
#[derive(Clone, Copy, Debug)]
pub struct Bulkstat;

impl Engine for Bulkstat {
    fn possible(&self, context: &MountContext<'_>) -> Result<(), EngineRefusal> {
        const KIND: EngineKind = EngineKind::Bulkstat;
        if context.statfs.magic != XFS_SUPER_MAGIC {
            return Err(EngineRefusal::WrongFileSystem(KIND));
        }
        if context.mount.is_none() {
            return Err(EngineRefusal::UnknownMount(KIND));
        }
        if context.is_idmapped() {
            return Err(EngineRefusal::Idmapped(KIND));
        }
        let (fd, ino) = (&context.top.fd, context.top.meta.ino);
        let shape = geometry(fd)?;
        match bulkstat(fd, shape.group_of(ino), ino, 1, &mut BulkBuffer::new(1)) {
            Ok(_) => Ok(()),
            Err(Errno::EPERM) => Err(EngineRefusal::NotRoot(KIND)),
            Err(Errno::ENOTTY) => Err(EngineRefusal::KernelTooOld {
                call: "XFS_IOC_BULKSTAT",
                since: "5.3",
            }),
            Err(e) => Err(EngineAction::Bulkstat.failed(e)),
        }
    }

    fn walk(&self, job: &Job<'_>) -> Result<(), EngineRefusal> {
        let shape = geometry(&job.top.fd)?;
        let begun = Moment::now();
        syncfs(&job.top.fd).map_err(|e| EngineAction::Sync.failed(e))?;
        join::join(
            job,
            &names::names(job, &shape),
            &shape,
            begun.changed_since(),
        );
        Ok(())
    }
}

fn geometry(fd: &Fd) -> Result<Geometry, EngineRefusal> {
    let bytes = match xfs_fsgeometry(fd) {
        Err(Errno::ENOTTY) => {
            return Err(EngineRefusal::KernelTooOld {
                call: "XFS_IOC_FSGEOMETRY",
                since: "5.2",
            });
        }
        other => other.map_err(|e| EngineAction::Geometry.failed(e))?,
    };
    Geometry::parse(&bytes).ok_or(EngineRefusal::InvalidGeometry)
}

/// [`xfs_bulkstat`], again when a signal came between.
fn bulkstat(
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

/// Whether what bulkstat says of an inode is all there is to say, and was so before `since`.
fn is_settled(inode: &Inode, since: Time) -> bool {
    let is_recent = time(inode.ctime).max(time(inode.mtime)) >= since;
    // What is kept in the inode itself has no blocks, says bulkstat; its attributes may have.
    let hides_blocks = inode.blocks == 0 && inode.attribute_extents > 0;
    !is_recent && !hides_blocks
}

/// What bulkstat says of an inode, on the mount that the top of a walk is on.
fn meta_of(inode: &Inode, top: &Meta, shape: &Geometry) -> Meta {
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
        atime: time(inode.atime),
        mtime: time(inode.mtime),
        ctime: time(inode.ctime),
        btime: shape.has_btime.then_some(time(inode.btime)),
        rdev: inode.rdev,
        dev: top.dev,
        mount: top.mount,
        attributes: attributes.bits(),
        generation: Some(inode.generation),
        xattrs: Some(inode.xflags & Inode::HAS_ATTRIBUTES != 0),
    }
}

/// Where the log of a mounted XFS ends, as the kernel has it now (`CYCLE:BLOCK`): while it stays
/// there, and was written out by syncfs(2) before each look, nothing changes on the file system,
/// not even an access time. `None` where the kernel does not say.
/// [sysfs-fs-xfs](https://docs.kernel.org/admin-guide/xfs.html)
pub fn log_head_lsn(dev: Dev) -> Option<String> {
    let link = readlinkat(
        CWD,
        &c_string(format!("/sys/dev/block/{dev}").as_bytes()).ok()?,
    )
    .ok()?;
    let name = link.rsplit(|&byte| byte == b'/').next()?;
    let path = [b"/sys/fs/xfs/", name, b"/log/log_head_lsn"].concat();
    let fd = open_long(&path, Open::NOFOLLOW).ok()?;
    let mut buffer = [0; 64];
    let len = read(fd, &mut buffer).ok()?;
    let text = std::str::from_utf8(&buffer[..len]).ok()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// All inodes of a file system, to be brought near by threads that take them by spans of numbers.
struct Traversal<'a> {
    fd: &'a Fd,
    /// For each group, where the next span begins.
    at: Vec<AtomicU64>,
    /// For each group, where it ends.
    ends: Vec<u64>,
}

impl<'a> Traversal<'a> {
    /// Of the file system that a file is on, and its shape.
    fn new(fd: &'a Fd, shape: &Geometry) -> Traversal<'a> {
        Traversal {
            fd,
            at: (0..shape.groups)
                .map(|group| AtomicU64::new(shape.first_of(group)))
                .collect(),
            ends: (0..shape.groups)
                .map(|group| shape.first_of(group + 1))
                .collect(),
        }
    }

    /// Has the inodes of the spans read that one thread gets, as long as they are wanted. It begins
    /// with a group that others do not begin with.
    fn go(&self, first: usize, are_wanted: impl Fn() -> bool) -> Result<(), Errno> {
        const SPAN: u64 = 8192;
        let mut buffer = BulkBuffer::new(ROWS);
        for group in (0..self.at.len()).map(|nth| (first + nth) % self.at.len()) {
            loop {
                let mut from = self.at[group].fetch_add(SPAN, Relaxed);
                if from >= self.ends[group] {
                    break;
                }
                let end = from + SPAN;
                while from < end {
                    if !are_wanted() {
                        return Ok(());
                    }
                    let most = ROWS.min((end - from) as usize);
                    let next = bulkstat(self.fd, group as u32, from, most, &mut buffer)?;
                    from = match buffer.rows().last().map(Inode::parse_ino) {
                        Some(last) if last < end => next.max(from + 1),
                        // Up to the first inode there are none, so that nobody need look for them.
                        Some(_) => {
                            let first = buffer.rows().first().map_or(end, Inode::parse_ino);
                            self.at[group].fetch_max(first.max(end), Relaxed);
                            end
                        }
                        None => {
                            self.at[group].fetch_max(self.ends[group], Relaxed);
                            end
                        }
                    };
                }
            }
        }
        Ok(())
    }
}
