//! Dropping what the kernel has cached of a tree: names that exist (dentries), names that do not
//! (negative dentries), inodes, and directories' blocks.
//!
//! Linux has no interface that drops the dentries of one tree. A remount drops those of its file
//! system, but it may change mount options on the way (XFS would leave inode32). What remains is
//! reclaiming the memory of a memory cgroup, and dropping the caches of the whole host.

use base::Warning;
use gate::file::write;
use gate::fs::{Open, syncfs};
use gate::long::open_long;
use gate::{Errno, Gate};

use crate::warning::WarningKind;

/// What to drop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DropCaches {
    /// What the memory cgroup of this process has cached.
    Cgroup {
        /// The cgroup's control file.
        file: Vec<u8>,
        /// The text to write into it.
        value: &'static [u8],
    },
    /// The same, but this process is in no memory cgroup that can be reclaimed.
    NoCgroup,
    /// What the whole host has cached.
    Host,
}

/// What was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DroppedCaches {
    /// Nothing.
    Nothing,
    /// What the memory cgroup of this process had cached.
    Cgroup,
    /// What the whole host had cached.
    Host,
}

/// The file that drops the caches of the host.
/// [proc_sys_vm(5)](https://man7.org/linux/man-pages/man5/proc_sys_vm.5.html)
const DROP_CACHES: &[u8] = b"/proc/sys/vm/drop_caches";

/// Drops caches. The tree's file system is synced first, since dirty pages and inodes cannot be
/// dropped.
pub(crate) fn drop_caches(
    what: &DropCaches,
    root: &[u8],
    warnings: &mut Vec<Warning>,
) -> DroppedCaches {
    if let Ok(root) = open_long(root, Open::DIRECTORY) {
        let _ = syncfs(&root); // what stays dirty stays cached, no more
    }
    let (file, value, dropped, refused) = match what {
        DropCaches::NoCgroup => {
            warnings.push(Warning::general(WarningKind::NoCgroup));
            return DroppedCaches::Nothing;
        }
        DropCaches::Cgroup { file, value } => {
            let refused = WarningKind::CgroupNotDropped;
            (&file[..], *value, DroppedCaches::Cgroup, refused)
        }
        DropCaches::Host => {
            let refused = WarningKind::HostNotDropped;
            (DROP_CACHES, &b"3"[..], DroppedCaches::Host, refused)
        }
    };
    match write_file(file, value) {
        Ok(()) => dropped,
        // Some of the memory of the cgroup is in use.
        Err((_, Errno::EAGAIN | Errno::EBUSY)) if dropped == DroppedCaches::Cgroup => dropped,
        Err((gate, errno)) => {
            warnings.push(Warning::failed(file, gate, errno, refused));
            DroppedCaches::Nothing
        }
    }
}

fn write_file(file: &[u8], value: &[u8]) -> Result<(), (Gate, Errno)> {
    let file = open_long(file, Open::WRONLY).map_err(|e| (Gate::Openat, e))?;
    write(&file, value).map(drop).map_err(|e| (Gate::Write, e))
}
