//! A counter that only grows while a file system is mounted, together with the mount.
//!
//! - ext4 with a journal: the number of transactions committed since mounting. Every change to an
//!   inode or a directory is part of a transaction. syncfs(2) commits the running one, if any. The
//!   kernel counts as long as the file system stays mounted. Writes to the block device, bypassing
//!   the file system, are not counted; readers of files do not see them, either.
//! - XFS: the head of its log, `CYCLE:BLOCK`. Every change to an inode or a directory is logged.
//!   syncfs(2) flushes pending changes to the log, so that the head advances. It also advances
//!   within a minute after the last change, when XFS covers its log.

use std::fmt;

use gate::fs::{StatxMask, fstat};
use walk::MountContext;

/// A mount, identified by an id that is unique until the next boot. While the mount exists, its
/// file system and the counters stay in the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MountInstance {
    /// Boot id: `/proc/sys/kernel/random/boot_id`.
    boot: String,
    /// Mount id: `STATX_MNT_ID_UNIQUE`.
    id: u64,
}

impl MountInstance {
    /// The mount of a directory; `None` before Linux 6.8.
    pub(super) fn current(context: &MountContext<'_>) -> Option<MountInstance> {
        let boot = gate::file::read_kernel(c"/proc/sys/kernel/random/boot_id").ok()?;
        let want = StatxMask::MNT_ID_UNIQUE;
        let seen = fstat(&context.top.fd, want).ok()?;
        Some(MountInstance {
            boot: String::from_utf8_lossy(&boot).trim_end().to_owned(),
            id: seen.mnt_id.filter(|_| seen.have.contains(want))?,
        })
    }

    /// Whether a directory is on this mount.
    pub(super) fn is_current(&self, context: &MountContext<'_>) -> bool {
        MountInstance::current(context).is_some_and(|now| now == *self)
    }

    pub(super) fn parse(text: &str) -> Option<MountInstance> {
        let (boot, id) = text.strip_prefix("boot ")?.split_once(" mount ")?;
        let (boot, id) = (boot.to_owned(), id.parse().ok()?);
        Some(MountInstance { boot, id })
    }
}

impl fmt::Display for MountInstance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "boot {} mount {}", self.boot, self.id)
    }
}

/// A counter that is valid for one mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MountCounter {
    mount: MountInstance,
    counter: String,
}

impl MountCounter {
    pub(super) fn take(context: &MountContext<'_>, counter: String) -> Option<MountCounter> {
        let mount = MountInstance::current(context)?;
        Some(MountCounter { mount, counter })
    }

    /// Whether the file system has stayed mounted since the counter was taken.
    pub(crate) fn is_of_mount(&self, context: &MountContext<'_>) -> bool {
        self.mount.is_current(context)
    }

    pub(super) fn parse(text: &str, name: &str) -> Option<MountCounter> {
        let (mount, counter) = text.split_once(name)?;
        let (mount, counter) = (MountInstance::parse(mount)?, counter.to_owned());
        Some(MountCounter { mount, counter })
    }

    pub(super) fn write(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{name}{}", self.mount, self.counter)
    }
}
