//! Drops the kernel's caches of a tree: dentries, negative dentries, inodes, and directory blocks.
//!
//! Linux has no interface that drops the dentries of one tree. A remount drops those of its file
//! system, but may change mount options (XFS would lose inode32). What remains is reclaiming the
//! memory of a memory cgroup, and dropping the caches of the whole host.

use base::Warning;
use gate::file::write;
use gate::fs::{Open, syncfs};
use gate::long::open_long;
use gate::{Errno, Gate};

use crate::warning::WarningKind;

/// The caches to drop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DropCaches {
    /// The caches charged to the memory cgroup of this process.
    Cgroup {
        /// The path of the cgroup's control file.
        file: Vec<u8>,
        /// The text to write into it.
        value: &'static [u8],
    },
    /// The cgroup's caches were requested, but this process is in no memory cgroup that can be
    /// reclaimed.
    NoCgroup,
    /// The caches of the whole host.
    Host,
}

/// The caches that were dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DroppedCaches {
    /// No cache was dropped.
    Nothing,
    /// The caches charged to the memory cgroup of this process.
    Cgroup,
    /// The caches of the whole host.
    Host,
}

/// The file that drops the caches of the host.
/// [proc_sys_vm(5)](https://man7.org/linux/man-pages/man5/proc_sys_vm.5.html)
const DROP_CACHES: &[u8] = b"/proc/sys/vm/drop_caches";

/// Drops caches. Syncs the tree's file system before, since dirty pages and inodes cannot be
/// dropped.
pub(crate) fn drop_caches(
    what: &DropCaches,
    root: &[u8],
    warnings: &mut Vec<Warning>,
) -> DroppedCaches {
    if let Ok(root) = open_long(root, Open::DIRECTORY) {
        let _ = syncfs(&root); // on failure, dirty pages stay cached, nothing else
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
        // Some memory of the cgroup is in use, so it could only be reclaimed in part.
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
