//! Mounts: the calls that no other crate wraps yet.
//!
//! listmount and statmount came with Linux 6.8; their numbers are the same on every architecture.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use bitflags::bitflags;
use libc::{c_long, syscall};

use crate::errno::check;
use crate::gates::Gate;
use crate::meter::pass;
use crate::{Errno, Fd, Result};

const SYS_STATMOUNT: c_long = 457;
const SYS_LISTMOUNT: c_long = 458;

/// The root of the mount namespace, as [`listmount`] takes it.
pub const LSMT_ROOT: u64 = u64::MAX;

bitflags! {
    /// What [`statmount`] is asked for: the `STATMOUNT_*` of linux/mount.h.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Ask: u64 {
        /// Device and flags of the super block.
        const SB_BASIC = 0x1;
        /// Ids, parent, attributes, propagation.
        const MNT_BASIC = 0x2;
        /// The part of the file system that is mounted.
        const MNT_ROOT = 0x8;
        /// Where it is mounted, as seen from the caller's root.
        const MNT_POINT = 0x10;
        /// Type of the file system.
        const FS_TYPE = 0x20;
        /// Options of the file system (since 6.11).
        const MNT_OPTS = 0x80;
        /// Subtype, as `sshfs` in `fuse.sshfs` (since 6.11).
        const FS_SUBTYPE = 0x100;
        /// The device or other source (since 6.13).
        const SB_SOURCE = 0x200;
    }
}

/// `struct mnt_id_req`, its first version.
#[repr(C)]
struct MntIdReq {
    size: u32,
    spare: u32,
    mnt_id: u64,
    param: u64,
}

impl MntIdReq {
    fn new(mnt_id: u64, param: u64) -> MntIdReq {
        MntIdReq {
            size: size_of::<MntIdReq>() as u32,
            spare: 0,
            mnt_id,
            param,
        }
    }
}

/// Which way [`listmount`] goes through the mounts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// From the oldest.
    Oldest,
    /// From the newest (since 6.12).
    Newest,
}

/// Ids of the mounts under a mount, in the order in which they were made, after the id `after` (0:
/// from the first). [listmount(2)](https://man7.org/linux/man-pages/man2/listmount.2.html)
///
/// Gives how many ids it wrote; fewer than there is room for means that these were the last. A
/// caller without privilege gets only mounts that its root reaches.
///
/// # Errors
/// `ENOSYS` before Linux 6.8, which is remembered: the kernel is asked once. `EPERM` where a filter
/// forbids it.
pub fn listmount(under: u64, after: u64, order: Order, ids: &mut [u64]) -> Result<usize> {
    static ABSENT: AtomicBool = AtomicBool::new(false);
    if ABSENT.load(Ordering::Relaxed) {
        return Err(Errno::ENOSYS);
    }
    let flags = if order == Order::Newest { 1 } else { 0 }; // LISTMOUNT_REVERSE
    let request = MntIdReq::new(under, after);
    pass(Gate::Listmount, || {
        // SAFETY: `request` is a valid mnt_id_req, and the kernel writes at most `ids.len()` ids.
        check(unsafe {
            syscall(
                SYS_LISTMOUNT,
                &raw const request,
                ids.as_mut_ptr(),
                ids.len() as c_long,
                flags,
            )
        })
    })
    .map(|n| n.min(ids.len()))
    .inspect_err(|&e| {
        if e == Errno::ENOSYS {
            ABSENT.store(true, Ordering::Relaxed);
        }
    })
}

/// Describes one mount, by the id that [`listmount`] gave, into `buffer`, as a `struct statmount`
/// and its strings. [statmount(2)](https://man7.org/linux/man-pages/man2/statmount.2.html)
///
/// # Errors
/// `EOVERFLOW`: the buffer is too small. `ENOENT`: the mount is gone. `EPERM`: the caller's root
/// does not reach it.
pub fn statmount(id: u64, ask: Ask, buffer: &mut [u8]) -> Result<()> {
    let request = MntIdReq::new(id, ask.bits());
    pass(Gate::Statmount, || {
        // SAFETY: `request` is a valid mnt_id_req, and the kernel writes at most `buffer.len()`
        // bytes.
        check(unsafe {
            syscall(
                SYS_STATMOUNT,
                &raw const request,
                buffer.as_mut_ptr(),
                buffer.len() as c_long,
                0,
            )
        })
    })
    .map(drop)
}

/// Gives the calling process a mount namespace of its own, a copy in which nothing that it does
/// reaches any other. [unshare(2)](https://man7.org/linux/man-pages/man2/unshare.2.html),
/// `CLONE_NEWNS`
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`.
pub fn unshare_mounts() -> Result<()> {
    pass(Gate::Unshare, || {
        // SAFETY: no pointers.
        check(unsafe { syscall(libc::SYS_unshare, libc::CLONE_NEWNS) })
    })?;
    let flags = libc::MS_REC | libc::MS_PRIVATE;
    let nothing = std::ptr::null::<u8>();
    pass(Gate::Mount, || {
        // SAFETY: the target is NUL-terminated; the kernel ignores the rest for a change of
        // propagation.
        check(unsafe {
            syscall(
                libc::SYS_mount,
                nothing,
                c"/".as_ptr(),
                nothing,
                flags,
                nothing,
            )
        })
    })
    .map(drop)
}

/// Mounts a file system of the kernel's own, which has no source, where a name leads to.
/// [mount(2)](https://man7.org/linux/man-pages/man2/mount.2.html)
///
/// # Errors
/// `ENODEV`: the kernel does not know this type. `EPERM` without `CAP_SYS_ADMIN`; `EBUSY` where it
/// is mounted already.
pub fn mount_own(kind: &CStr, name: &CStr) -> Result<()> {
    let nothing = std::ptr::null::<u8>();
    pass(Gate::Mount, || {
        // SAFETY: the strings are NUL-terminated; these file systems take no data.
        check(unsafe {
            syscall(
                libc::SYS_mount,
                kind.as_ptr(),
                name.as_ptr(),
                kind.as_ptr(),
                0,
                nothing,
            )
        })
    })
    .map(drop)
}

/// Detaches the mount that a name leads to, and all that is on it.
/// [umount2(2)](https://man7.org/linux/man-pages/man2/umount.2.html), `MNT_DETACH`
pub fn umount_detach(name: &CStr) -> Result<()> {
    let flags = libc::MNT_DETACH | libc::UMOUNT_NOFOLLOW;
    pass(Gate::Umount2, || {
        // SAFETY: `name` is NUL-terminated.
        check(unsafe { syscall(libc::SYS_umount2, name.as_ptr(), flags) })
    })
    .map(drop)
}

/// Copies one mount, without those mounted on it, into a tree of its own that no path reaches: what
/// lies beneath them shows. The copy is gone when its descriptor and those opened from it are
/// closed. [open_tree(2)](https://man7.org/linux/man-pages/man2/open_tree.2.html),
/// `OPEN_TREE_CLONE`
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN` in the mount namespace's user namespace; `EINVAL` where mounts
/// are locked to their parent.
pub fn open_tree_clone(dir: impl AsFd, name: &CStr) -> Result<Fd> {
    const OPEN_TREE_CLONE: i32 = 1;
    let flags = OPEN_TREE_CLONE | libc::O_CLOEXEC | libc::AT_NO_AUTOMOUNT;
    pass(Gate::OpenTree, || {
        // SAFETY: `name` is NUL-terminated.
        check(unsafe {
            syscall(
                libc::SYS_open_tree,
                dir.as_fd().as_raw_fd(),
                name.as_ptr(),
                flags,
            )
        })
    })
    .map(Fd::take)
}
