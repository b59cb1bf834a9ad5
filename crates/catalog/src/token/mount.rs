//! A counter that only grows while a file system is mounted, and the mount that it is of.
//!
//! - ext4 with a journal: the number of transactions that were committed since it was mounted.
//!   Every change to an inode or a directory is part of a transaction. syncfs(2) commits the running
//!   one, if there is one. The kernel counts as long as the file system stays mounted. Writes past
//!   the file system, to the block device, are not counted; readers of files do not see them either.
//! - XFS: the head of its log, `CYCLE:BLOCK`. Every change to an inode or a directory is logged.
//!   syncfs(2) writes what is held back to the log, so that the head moves on. It also moves within
//!   a minute after the last change, when XFS covers its log.

use std::fmt;

use gate::fs::{At, Want, statx};
use walk::MountContext;

/// A mount, by an id that no other mount gets until the next boot. As long as it lasts, its file
/// system stays in the kernel, and so do its counters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MountInstance {
    /// `/proc/sys/kernel/random/boot_id`.
    boot: String,
    /// `STATX_MNT_ID_UNIQUE`.
    id: u64,
}

impl MountInstance {
    /// The mount that a directory is on; `None` before Linux 6.8.
    pub(super) fn current(context: &MountContext<'_>) -> Option<MountInstance> {
        let boot = gate::file::read_kernel(c"/proc/sys/kernel/random/boot_id").ok()?;
        let want = Want::MNT_ID_UNIQUE;
        let seen = statx(&context.top.fd, c"", At::EMPTY_PATH, want).ok()?;
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

/// A counter of a mount.
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

    /// Whether the file system has been mounted all the time since.
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
