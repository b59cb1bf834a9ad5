//! Mounts: listmount(2), statmount(2), and the calls that change a mount namespace.

use std::ffi::CStr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::gates::Gate;
use crate::syscall::syscall;
use crate::{Errno, Fd, Result};

pub use crate::mount_id::mount_id;

pub use crate::flags::StatmountMask;

/// The id of the mount namespace's root for [`listmount`].
pub const LSMT_ROOT: u64 = u64::MAX;

/// `struct mnt_id_req`, first version.
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

/// The order in which [`listmount`] lists mounts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Oldest mount first, in the order of creation.
    Oldest,
    /// Newest mount first (since Linux 6.12).
    Newest,
}

/// Lists ids of the mounts under a mount, in the order of their creation, after the id `after` (0:
/// all). [listmount(2)](https://man7.org/linux/man-pages/man2/listmount.2.html)
///
/// Returns the number of ids; fewer than fit into `ids` means that these were the last. An
/// unprivileged caller gets only mounts that its root reaches.
///
/// # Errors
/// `ENOSYS` before Linux 6.8, which is cached: the kernel is asked once. `EPERM` if a seccomp
/// filter forbids the call.
pub fn listmount(under: u64, after: u64, order: Order, ids: &mut [u64]) -> Result<usize> {
    static ABSENT: AtomicBool = AtomicBool::new(false);
    if ABSENT.load(Ordering::Relaxed) {
        return Err(Errno::ENOSYS);
    }
    let reverse = i32::from(order == Order::Newest); // LISTMOUNT_REVERSE
    let request = MntIdReq::new(under, after);
    let room = ids.len();
    let (request, to) = (&raw const request, ids.as_mut_ptr());
    // SAFETY: `request` is a valid mnt_id_req, and the kernel writes at most `room` ids.
    unsafe { syscall!(Gate::Listmount, request, to, room, reverse) }
        .map(|n| n.min(room))
        .inspect_err(|&e| {
            if e == Errno::ENOSYS {
                ABSENT.store(true, Ordering::Relaxed);
            }
        })
}

/// Describes the mount with an id from [`listmount`] in `buffer`, as a `struct statmount` and its
/// strings. [statmount(2)](https://man7.org/linux/man-pages/man2/statmount.2.html)
///
/// # Errors
/// `EOVERFLOW`: the buffer is too small. `ENOENT`: the mount is gone. `EPERM`: the caller's root
/// does not reach the mount.
pub fn statmount(id: u64, ask: StatmountMask, buffer: &mut [u8]) -> Result<()> {
    let request = MntIdReq::new(id, ask.bits());
    let (at, len) = (buffer.as_mut_ptr(), buffer.len());
    // SAFETY: `request` is a valid mnt_id_req, and the kernel writes at most `len` bytes.
    unsafe { syscall!(Gate::Statmount, &raw const request, at, len, 0) }.map(drop)
}

/// Gives the calling process its own mount namespace, from which nothing propagates to others.
/// [unshare(2)](https://man7.org/linux/man-pages/man2/unshare.2.html), `CLONE_NEWNS`
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`.
pub fn unshare_mounts() -> Result<()> {
    // SAFETY: no pointers.
    unsafe { syscall!(Gate::Unshare, libc::CLONE_NEWNS) }?;
    let flags = libc::MS_REC | libc::MS_PRIVATE;
    // SAFETY: the target is NUL-terminated; for a change of propagation the kernel ignores the
    // other arguments.
    unsafe { syscall!(Gate::Mount, 0, c"/", 0, flags, 0) }.map(drop)
}

/// Detaches the mount at a path, and all mounts on it.
/// [umount2(2)](https://man7.org/linux/man-pages/man2/umount.2.html), `MNT_DETACH`
pub fn umount_detach(name: &CStr) -> Result<()> {
    let flags = libc::MNT_DETACH | libc::UMOUNT_NOFOLLOW;
    // SAFETY: `name` is NUL-terminated.
    unsafe { syscall!(Gate::Umount2, name, flags) }.map(drop)
}

/// Clones one mount, without the mounts on top of it, into a detached tree, which shows the files
/// that those mounts cover. The clone is gone when its descriptor and those opened from it are
/// closed. [open_tree(2)](https://man7.org/linux/man-pages/man2/open_tree.2.html),
/// `OPEN_TREE_CLONE`
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN` in the mount namespace's user namespace; `EINVAL` if mounts are
/// locked to their parent.
pub fn open_tree_clone(dir: impl AsFd, name: &CStr) -> Result<Fd> {
    const OPEN_TREE_CLONE: i32 = 1;
    let flags = OPEN_TREE_CLONE | libc::O_CLOEXEC | libc::AT_NO_AUTOMOUNT;
    // SAFETY: `name` is NUL-terminated.
    unsafe { syscall!(Gate::OpenTree, dir.as_fd(), name, flags) }.map(Fd::take)
}
