//! Making what a tree consists of, and giving it its attributes. Plain files are in
//! [`crate::file`].
//!
//! What takes a directory and a name never follows a symlink that has the name.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd};

use libc::{c_long, syscall};

use crate::errno::check;
use crate::fs::{At, Time};
use crate::gates::Gate;
use crate::meter::pass;
use crate::{Fd, Result};

/// The number of fchmodat2, the same on every architecture that this crate is for.
const SYS_FCHMODAT2: c_long = 452;

/// Makes a directory with the permissions `mode`, less the umask.
/// [mkdirat(2)](https://man7.org/linux/man-pages/man2/mkdir.2.html)
pub fn mkdirat(dir: impl AsFd, name: &CStr, mode: u32) -> Result<()> {
    pass(Gate::Mkdirat, || {
        // SAFETY: `name` is NUL-terminated.
        check(unsafe {
            syscall(
                libc::SYS_mkdirat,
                dir.as_fd().as_raw_fd(),
                name.as_ptr(),
                mode,
            )
        })
    })
    .map(drop)
}

/// Makes a plain file with the permissions `mode`, less the umask, and opens it for writing.
/// [openat(2)](https://man7.org/linux/man-pages/man2/openat.2.html), `O_CREAT | O_EXCL`
///
/// # Errors
/// `EEXIST` when the name is taken.
pub fn openat_new(dir: impl AsFd, name: &CStr, mode: u32) -> Result<Fd> {
    pass(Gate::Openat, || {
        let how = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
        // SAFETY: `name` is NUL-terminated.
        check(unsafe {
            syscall(
                libc::SYS_openat,
                dir.as_fd().as_raw_fd(),
                name.as_ptr(),
                how,
                mode & 0o7777,
            )
        })
    })
    .map(Fd::take)
}

/// What [`mknodat`] makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Node {
    /// A fifo.
    Fifo,
    /// A character device, by its major and minor number.
    Char(u32, u32),
    /// A block device, by its major and minor number.
    Block(u32, u32),
}

/// Makes a fifo or a device with the permissions `mode`, less the umask.
/// [mknodat(2)](https://man7.org/linux/man-pages/man2/mknod.2.html)
///
/// # Errors
/// `EPERM` for a device, unless one is root outside any user namespace.
pub fn mknodat(dir: impl AsFd, name: &CStr, node: Node, mode: u32) -> Result<()> {
    let (kind, dev) = match node {
        Node::Fifo => (libc::S_IFIFO, 0),
        Node::Char(major, minor) => (libc::S_IFCHR, libc::makedev(major, minor)),
        Node::Block(major, minor) => (libc::S_IFBLK, libc::makedev(major, minor)),
    };
    pass(Gate::Mknodat, || {
        let mode = kind | mode & 0o7777;
        // SAFETY: `name` is NUL-terminated.
        check(unsafe {
            syscall(
                libc::SYS_mknodat,
                dir.as_fd().as_raw_fd(),
                name.as_ptr(),
                mode,
                dev as c_long,
            )
        })
    })
    .map(drop)
}

/// Makes a symlink. [symlinkat(2)](https://man7.org/linux/man-pages/man2/symlink.2.html)
pub fn symlinkat(target: &CStr, dir: impl AsFd, name: &CStr) -> Result<()> {
    pass(Gate::Symlinkat, || {
        // SAFETY: both strings are NUL-terminated.
        check(unsafe {
            syscall(
                libc::SYS_symlinkat,
                target.as_ptr(),
                dir.as_fd().as_raw_fd(),
                name.as_ptr(),
            )
        })
    })
    .map(drop)
}

/// Takes an empty directory away: unlinkat with `AT_REMOVEDIR`.
/// [unlinkat(2)](https://man7.org/linux/man-pages/man2/unlink.2.html)
pub fn unlinkat_directory(dir: impl AsFd, name: &CStr) -> Result<()> {
    pass(Gate::Unlinkat, || {
        let how = libc::AT_REMOVEDIR;
        // SAFETY: `name` is NUL-terminated.
        check(unsafe {
            syscall(
                libc::SYS_unlinkat,
                dir.as_fd().as_raw_fd(),
                name.as_ptr(),
                how,
            )
        })
    })
    .map(drop)
}

/// Changes owner and group; an empty name means the descriptor itself.
/// [fchownat(2)](https://man7.org/linux/man-pages/man2/chown.2.html)
///
/// A file loses its capabilities and, save for a directory, its setuid and setgid bits by it.
pub fn fchownat(dir: impl AsFd, name: &CStr, uid: u32, gid: u32) -> Result<()> {
    let at = (At::SYMLINK_NOFOLLOW | At::EMPTY_PATH).bits();
    pass(Gate::Fchownat, || {
        // SAFETY: `name` is NUL-terminated.
        check(unsafe {
            syscall(
                libc::SYS_fchownat,
                dir.as_fd().as_raw_fd(),
                name.as_ptr(),
                uid,
                gid,
                at,
            )
        })
    })
    .map(drop)
}

/// Changes the permissions of an open file.
/// [fchmod(2)](https://man7.org/linux/man-pages/man2/chmod.2.html)
pub fn fchmod(fd: impl AsFd, mode: u32) -> Result<()> {
    pass(Gate::Fchmod, || {
        // SAFETY: no pointers.
        check(unsafe { syscall(libc::SYS_fchmod, fd.as_fd().as_raw_fd(), mode & 0o7777) })
    })
    .map(drop)
}

/// Changes the permissions of what has a name; an empty name means the descriptor itself, which may
/// be one of `O_PATH`. [fchmodat2(2)](https://man7.org/linux/man-pages/man2/chmod.2.html), since
/// Linux 6.6
///
/// # Errors
/// `EOPNOTSUPP` for a symlink; `ENOSYS` on an older kernel.
pub fn fchmodat2(dir: impl AsFd, name: &CStr, mode: u32) -> Result<()> {
    let at = (At::SYMLINK_NOFOLLOW | At::EMPTY_PATH).bits();
    pass(Gate::Fchmodat2, || {
        // SAFETY: `name` is NUL-terminated.
        check(unsafe {
            let dir = dir.as_fd().as_raw_fd();
            syscall(SYS_FCHMODAT2, dir, name.as_ptr(), mode & 0o7777, at)
        })
    })
    .map(drop)
}

/// Changes the permissions of what a path leads to, through any symlink: for names in /proc
/// ([`in_proc`]). [fchmodat(2)](https://man7.org/linux/man-pages/man2/chmod.2.html)
pub fn fchmodat(path: &CStr, mode: u32) -> Result<()> {
    pass(Gate::Fchmodat, || {
        // SAFETY: `path` is NUL-terminated.
        check(unsafe {
            syscall(
                libc::SYS_fchmodat,
                libc::AT_FDCWD,
                path.as_ptr(),
                mode & 0o7777,
            )
        })
    })
    .map(drop)
}

/// A pair of times for the kernel: `None` leaves the time as it is.
fn pair(atime: Option<Time>, mtime: Option<Time>) -> [libc::timespec; 2] {
    [atime, mtime].map(|time| match time {
        // More nanoseconds than a second has would mean something else to the kernel.
        Some(t) => libc::timespec {
            tv_sec: t.sec,
            tv_nsec: t.nsec.min(999_999_999).into(),
        },
        None => libc::timespec {
            tv_sec: 0,
            tv_nsec: libc::UTIME_OMIT,
        },
    })
}

/// Sets the times of what has a name; those that are `None` stay.
/// [utimensat(2)](https://man7.org/linux/man-pages/man2/utimensat.2.html)
pub fn utimensat(
    dir: impl AsFd,
    name: &CStr,
    atime: Option<Time>,
    mtime: Option<Time>,
) -> Result<()> {
    let times = pair(atime, mtime);
    let at = At::SYMLINK_NOFOLLOW.bits();
    pass(Gate::Utimensat, || {
        // SAFETY: `name` is NUL-terminated, and `times` are two live timespecs.
        check(unsafe {
            syscall(
                libc::SYS_utimensat,
                dir.as_fd().as_raw_fd(),
                name.as_ptr(),
                times.as_ptr(),
                at,
            )
        })
    })
    .map(drop)
}

/// Sets the times of an open file: utimensat without a name.
/// [utimensat(2)](https://man7.org/linux/man-pages/man2/utimensat.2.html)
pub fn futimens(fd: impl AsFd, atime: Option<Time>, mtime: Option<Time>) -> Result<()> {
    let times = pair(atime, mtime);
    pass(Gate::Utimensat, || {
        // SAFETY: without a name the call is about the descriptor; `times` are two live timespecs.
        check(unsafe {
            let none = std::ptr::null::<libc::c_char>();
            syscall(
                libc::SYS_utimensat,
                fd.as_fd().as_raw_fd(),
                none,
                times.as_ptr(),
                0,
            )
        })
    })
    .map(drop)
}

/// Sets an extended attribute of an open file.
/// [fsetxattr(2)](https://man7.org/linux/man-pages/man2/setxattr.2.html)
pub fn fsetxattr(fd: impl AsFd, name: &CStr, value: &[u8]) -> Result<()> {
    pass(Gate::Fsetxattr, || {
        // SAFETY: `name` is NUL-terminated, and the kernel reads `value.len()` bytes of `value`.
        check(unsafe {
            let fd = fd.as_fd().as_raw_fd();
            syscall(
                libc::SYS_fsetxattr,
                fd,
                name.as_ptr(),
                value.as_ptr(),
                value.len(),
                0,
            )
        })
    })
    .map(drop)
}

/// Sets an extended attribute of what a path leads to, of a symlink itself.
/// [lsetxattr(2)](https://man7.org/linux/man-pages/man2/setxattr.2.html)
pub fn lsetxattr(path: &CStr, name: &CStr, value: &[u8]) -> Result<()> {
    pass(Gate::Lsetxattr, || {
        // SAFETY: both names are NUL-terminated, and the kernel reads `value.len()` bytes of
        // `value`.
        check(unsafe {
            syscall(
                libc::SYS_lsetxattr,
                path.as_ptr(),
                name.as_ptr(),
                value.as_ptr(),
                value.len(),
                0,
            )
        })
    })
    .map(drop)
}

/// Takes an extended attribute away from an open file.
/// [fremovexattr(2)](https://man7.org/linux/man-pages/man2/removexattr.2.html)
///
/// # Errors
/// `ENODATA` when it has none of that name.
pub fn fremovexattr(fd: impl AsFd, name: &CStr) -> Result<()> {
    pass(Gate::Fremovexattr, || {
        // SAFETY: `name` is NUL-terminated.
        check(unsafe {
            syscall(
                libc::SYS_fremovexattr,
                fd.as_fd().as_raw_fd(),
                name.as_ptr(),
            )
        })
    })
    .map(drop)
}

/// Takes an extended attribute away from what a path leads to, from a symlink itself.
/// [lremovexattr(2)](https://man7.org/linux/man-pages/man2/removexattr.2.html)
///
/// # Errors
/// As [`fremovexattr`].
pub fn lremovexattr(path: &CStr, name: &CStr) -> Result<()> {
    pass(Gate::Lremovexattr, || {
        // SAFETY: both names are NUL-terminated.
        check(unsafe { syscall(libc::SYS_lremovexattr, path.as_ptr(), name.as_ptr()) })
    })
    .map(drop)
}

/// Cuts a file off or lengthens it with a hole.
/// [ftruncate(2)](https://man7.org/linux/man-pages/man2/truncate.2.html)
///
/// # Errors
/// `EFBIG` for what no file of this file system can have; `EINVAL` for more than 2^63 - 1.
pub fn ftruncate(fd: impl AsFd, len: u64) -> Result<()> {
    pass(Gate::Ftruncate, || {
        // SAFETY: no pointers.
        check(unsafe {
            syscall(
                libc::SYS_ftruncate,
                fd.as_fd().as_raw_fd(),
                len.cast_signed(),
            )
        })
    })
    .map(drop)
}

/// Writes to a place in a file. [pwrite(2)](https://man7.org/linux/man-pages/man2/pwrite.2.html)
pub fn pwrite64(fd: impl AsFd, bytes: &[u8], offset: u64) -> Result<usize> {
    pass(Gate::Pwrite64, || {
        // SAFETY: the kernel reads at most `bytes.len()` bytes of `bytes`.
        check(unsafe {
            let fd = fd.as_fd().as_raw_fd();
            syscall(
                libc::SYS_pwrite64,
                fd,
                bytes.as_ptr(),
                bytes.len(),
                offset.cast_signed(),
            )
        })
    })
}

/// Sets the permissions that files which this process makes will not have, and gives what it was.
/// [umask(2)](https://man7.org/linux/man-pages/man2/umask.2.html)
pub fn umask(mode: u32) -> u32 {
    pass(Gate::Umask, || {
        // SAFETY: no pointers. The call never fails.
        check(unsafe { syscall(libc::SYS_umask, mode & 0o777) })
    })
    .map_or(0o022, |old| old as u32)
}

/// The name of an open file in /proc, for calls that take no descriptor; with a name, what has it
/// in that directory.
///
/// # Errors
/// `EINVAL` for a name with a NUL in it.
pub fn in_proc(fd: &Fd, name: &[u8]) -> Result<std::ffi::CString> {
    let mut path = format!("/proc/self/fd/{}", fd.as_raw_fd()).into_bytes();
    if !name.is_empty() {
        path.push(b'/');
        path.extend_from_slice(name);
    }
    crate::long::c_string(&path)
}
