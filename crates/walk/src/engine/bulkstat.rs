//! `bulkstat`: XFS returns inodes by the thousand, which this engine joins with their names.
//!
//! ```text
//!   getdents64 ──► names ──► sorted by inode number ─┐
//!                                                    ├──► entries
//!   XFS_IOC_BULKSTAT ──► inodes in that same order ──┘
//! ```
//!
//! The names are read first. A file that is created, moved or changed later has a later change
//! time, and is read again by name with statx(2), like a name without an inode. bulkstat returns
//! the same as statx(2) except for sizes and blocks of files that are being written. syncfs(2)
//! brings these up to date, so every file that has changed since the start of syncfs(2) is read by
//! name.
//!
//! Opening a directory reads its inode. If inodes are scattered over a disk, the threads that are
//! started because the processors wait for the disk read all inodes by bulkstat, in disk order.

use gate::Errno;
use gate::fs::{Open, read, syncfs};
use gate::long::open_long;
use gate::xfs::{BulkBuffer, XFS_SUPER_MAGIC};
use mounts::names::kernel_name;
use ondisk::Dev;

use self::inodes::{bulkstat, geometry};
use crate::error::{EngineAction, EngineRefusal};
use crate::job::{Engine, Job};
use crate::kind::EngineKind;
use crate::moment::Moment;
use crate::top::MountContext;

mod inodes;
mod join;
mod names;
pub(super) mod since;

pub(super) struct Bulkstat;

impl Engine for Bulkstat {
    fn possible(&self, context: &MountContext<'_>) -> Result<(), EngineRefusal> {
        const KIND: EngineKind = EngineKind::Bulkstat;
        context.check(KIND, XFS_SUPER_MAGIC)?;
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
        let names = names::names(job, &shape);
        join::join(job, &names, &shape, begun.changed_since());
        Ok(())
    }
}

/// The log sequence number of the head of the log of a mounted XFS (`CYCLE:BLOCK`). As long as it
/// stays the same, with a syncfs(2) before each read, nothing in the file system has changed, not
/// even an access time. `None` if the kernel does not report it.
/// [sysfs-fs-xfs](https://docs.kernel.org/admin-guide/xfs.html)
pub fn log_head_lsn(dev: Dev) -> Option<String> {
    let name = kernel_name(dev)?;
    let path = [b"/sys/fs/xfs/", &name[..], b"/log/log_head_lsn"].concat();
    let fd = open_long(&path, Open::NOFOLLOW).ok()?;
    let mut buffer = [0; 64];
    let len = read(fd, &mut buffer).ok()?;
    let text = std::str::from_utf8(&buffer[..len]).ok()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}
