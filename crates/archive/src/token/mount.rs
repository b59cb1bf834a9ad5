//! A mount during a boot: as long as it lasts, its file system stays in the kernel, and the
//! counters of that go on.

use std::fmt;

use gate::fs::{At, Want, statx};
use walk::MountContext;

/// A mount, by an id that no other mount gets until the next boot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MountInstance {
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot: String,
    /// `STATX_MNT_ID_UNIQUE`.
    pub id: u64,
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

    /// It is the mount that a directory is on.
    pub(super) fn is_current(&self, context: &MountContext<'_>) -> bool {
        MountInstance::current(context).is_some_and(|now| now == *self)
    }

    pub(super) fn parse(text: &str) -> Option<MountInstance> {
        let (boot, id) = text.strip_prefix("boot ")?.split_once(" mount ")?;
        Some(MountInstance {
            boot: boot.to_owned(),
            id: id.parse().ok()?,
        })
    }
}

impl fmt::Display for MountInstance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "boot {} mount {}", self.boot, self.id)
    }
}
