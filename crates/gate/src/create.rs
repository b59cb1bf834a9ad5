//! Creates, renames and removes files, directories and links, and sets their attributes. For files
//! that are replaced atomically see [`crate::file`].
//!
//! Calls that take a directory and a name never follow a symlink of that name.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd};

use libc::c_int;

use crate::fs::{AtFlags, Dev, Time, create};
use crate::gates::Gate;
use crate::syscall::syscall;
use crate::{Fd, Result};

/// Flags for calls in which an empty name means the descriptor itself.
const NO_FOLLOW_OR_EMPTY: c_int = AtFlags::SYMLINK_NOFOLLOW.union(AtFlags::EMPTY_PATH).bits();

/// Creates a directory with the permissions `mode`, less the umask.
/// [mkdirat(2)](https://man7.org/linux/man-pages/man2/mkdir.2.html)
pub fn mkdirat(dir: impl AsFd, name: &CStr, mode: u32) -> Result<()> {
    // SAFETY: `name` is NUL-terminated.
    unsafe { syscall!(Gate::Mkdirat, dir.as_fd(), name, mode) }.map(drop)
}

/// Creates a file with the permissions `mode`, less the umask, and opens it for writing.
/// [openat(2)](https://man7.org/linux/man-pages/man2/openat.2.html), `O_CREAT | O_EXCL`
///
/// # Errors
/// `EEXIST` if the name exists.
pub fn openat_new(dir: impl AsFd, name: &CStr, mode: u32) -> Result<Fd> {
    create(
        dir,
        name,
        libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL,
        mode,
    )
}

/// The type of file that [`mknodat`] creates, with the device number of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Node {
    Fifo,
    Char(Dev),
    Block(Dev),
}

/// Creates a fifo or a device with the permissions `mode`, less the umask.
/// [mknodat(2)](https://man7.org/linux/man-pages/man2/mknod.2.html)
///
/// # Errors
/// `EPERM` for a device, unless the caller is root outside any user namespace.
pub fn mknodat(dir: impl AsFd, name: &CStr, node: Node, mode: u32) -> Result<()> {
    let (kind, dev) = match node {
        Node::Fifo => (libc::S_IFIFO, 0),
        Node::Char(Dev { major, minor }) => (libc::S_IFCHR, libc::makedev(major, minor)),
        Node::Block(Dev { major, minor }) => (libc::S_IFBLK, libc::makedev(major, minor)),
    };
    // SAFETY: `name` is NUL-terminated.
    unsafe { syscall!(Gate::Mknodat, dir.as_fd(), name, kind | mode & 0o7777, dev) }.map(drop)
}

/// Creates a symlink. [symlinkat(2)](https://man7.org/linux/man-pages/man2/symlink.2.html)
pub fn symlinkat(target: &CStr, dir: impl AsFd, name: &CStr) -> Result<()> {
    // SAFETY: both strings are NUL-terminated.
    unsafe { syscall!(Gate::Symlinkat, target, dir.as_fd(), name) }.map(drop)
}

/// Removes an empty directory: unlinkat with `AT_REMOVEDIR`.
/// [unlinkat(2)](https://man7.org/linux/man-pages/man2/unlink.2.html)
pub fn unlinkat_directory(dir: impl AsFd, name: &CStr) -> Result<()> {
    // SAFETY: `name` is NUL-terminated.
    unsafe { syscall!(Gate::Unlinkat, dir.as_fd(), name, libc::AT_REMOVEDIR) }.map(drop)
}

/// Creates a hard link. [linkat(2)](https://man7.org/linux/man-pages/man2/link.2.html)
pub fn linkat(from: impl AsFd, name: &CStr, to: impl AsFd, new: &CStr, at: AtFlags) -> Result<()> {
    let (from, to) = (from.as_fd(), to.as_fd());
    // SAFETY: both names are NUL-terminated.
    unsafe { syscall!(Gate::Linkat, from, name, to, new, at.bits()) }.map(drop)
}

/// Renames a file, and replaces a file with the new name.
/// [renameat2(2)](https://man7.org/linux/man-pages/man2/rename.2.html) without flags, since newer
/// architectures lack renameat
pub fn renameat2(from: impl AsFd, name: &CStr, to: impl AsFd, new: &CStr) -> Result<()> {
    // SAFETY: both names are NUL-terminated.
    unsafe { syscall!(Gate::Renameat2, from.as_fd(), name, to.as_fd(), new, 0) }.map(drop)
}

/// Removes a name that is not a directory.
/// [unlinkat(2)](https://man7.org/linux/man-pages/man2/unlink.2.html)
pub fn unlinkat(dir: impl AsFd, name: &CStr) -> Result<()> {
    // SAFETY: `name` is NUL-terminated.
    unsafe { syscall!(Gate::Unlinkat, dir.as_fd(), name, 0) }.map(drop)
}

/// Changes owner and group; an empty name means the descriptor itself.
/// [fchownat(2)](https://man7.org/linux/man-pages/man2/chown.2.html)
///
/// The file loses its capabilities and, unless it is a directory, its setuid and setgid bits.
pub fn fchownat(dir: impl AsFd, name: &CStr, uid: u32, gid: u32) -> Result<()> {
    let at = NO_FOLLOW_OR_EMPTY;
    // SAFETY: `name` is NUL-terminated.
    unsafe { syscall!(Gate::Fchownat, dir.as_fd(), name, uid, gid, at) }.map(drop)
}

/// Changes the permissions of an open file.
/// [fchmod(2)](https://man7.org/linux/man-pages/man2/chmod.2.html)
pub fn fchmod(fd: impl AsFd, mode: u32) -> Result<()> {
    // SAFETY: no pointers.
    unsafe { syscall!(Gate::Fchmod, fd.as_fd(), mode & 0o7777) }.map(drop)
}

/// Changes the permissions of a file; an empty name means the descriptor itself, which may have
/// been opened with `O_PATH`. [fchmodat2(2)](https://man7.org/linux/man-pages/man2/chmod.2.html),
/// since Linux 6.6
///
/// # Errors
/// `EOPNOTSUPP` for a symlink; `ENOSYS` on an older kernel.
pub fn fchmodat2(dir: impl AsFd, name: &CStr, mode: u32) -> Result<()> {
    let mode = mode & 0o7777;
    // SAFETY: `name` is NUL-terminated.
    unsafe { syscall!(Gate::Fchmodat2, dir.as_fd(), name, mode, NO_FOLLOW_OR_EMPTY) }.map(drop)
}

/// Changes the permissions of the file at a path, following symlinks: for names in /proc
/// ([`in_proc`]). [fchmodat(2)](https://man7.org/linux/man-pages/man2/chmod.2.html)
pub fn fchmodat(path: &CStr, mode: u32) -> Result<()> {
    // SAFETY: `path` is NUL-terminated.
    unsafe { syscall!(Gate::Fchmodat, libc::AT_FDCWD, path, mode & 0o7777) }.map(drop)
}

/// Access and modification time for utimensat(2); `None` keeps a time (`UTIME_OMIT`).
fn timespecs(atime: Option<Time>, mtime: Option<Time>) -> [libc::timespec; 2] {
    [atime, mtime].map(|time| match time {
        // Values of a second and more in `tv_nsec` have special meanings (UTIME_NOW, UTIME_OMIT).
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

/// Sets the times of a file; `None` keeps a time.
/// [utimensat(2)](https://man7.org/linux/man-pages/man2/utimensat.2.html)
pub fn utimensat(
    dir: impl AsFd,
    name: &CStr,
    atime: Option<Time>,
    mtime: Option<Time>,
) -> Result<()> {
    let times = timespecs(atime, mtime);
    let (times, at) = (times.as_ptr(), libc::AT_SYMLINK_NOFOLLOW);
    // SAFETY: `name` is NUL-terminated, and `times` are two live timespecs.
    unsafe { syscall!(Gate::Utimensat, dir.as_fd(), name, times, at) }.map(drop)
}

/// Sets the times of an open file: utimensat without a name.
/// [utimensat(2)](https://man7.org/linux/man-pages/man2/utimensat.2.html)
pub fn futimens(fd: impl AsFd, atime: Option<Time>, mtime: Option<Time>) -> Result<()> {
    let times = timespecs(atime, mtime);
    // SAFETY: a null name means the descriptor itself; `times` are two live timespecs.
    unsafe { syscall!(Gate::Utimensat, fd.as_fd(), 0, times.as_ptr(), 0) }.map(drop)
}

/// Sets an extended attribute of an open file.
/// [fsetxattr(2)](https://man7.org/linux/man-pages/man2/setxattr.2.html)
pub fn fsetxattr(fd: impl AsFd, name: &CStr, value: &[u8]) -> Result<()> {
    let (at, len) = (value.as_ptr(), value.len());
    // SAFETY: `name` is NUL-terminated, and the kernel reads `len` bytes of `value`.
    unsafe { syscall!(Gate::Fsetxattr, fd.as_fd(), name, at, len, 0) }.map(drop)
}

/// Sets an extended attribute of the file at a path; does not follow a symlink.
/// [lsetxattr(2)](https://man7.org/linux/man-pages/man2/setxattr.2.html)
pub fn lsetxattr(path: &CStr, name: &CStr, value: &[u8]) -> Result<()> {
    let (at, len) = (value.as_ptr(), value.len());
    // SAFETY: both names are NUL-terminated, and the kernel reads `len` bytes of `value`.
    unsafe { syscall!(Gate::Lsetxattr, path, name, at, len, 0) }.map(drop)
}

/// Removes an extended attribute of an open file.
/// [fremovexattr(2)](https://man7.org/linux/man-pages/man2/removexattr.2.html)
///
/// # Errors
/// `ENODATA` if the file has no attribute with that name.
pub fn fremovexattr(fd: impl AsFd, name: &CStr) -> Result<()> {
    // SAFETY: `name` is NUL-terminated.
    unsafe { syscall!(Gate::Fremovexattr, fd.as_fd(), name) }.map(drop)
}

/// Removes an extended attribute of the file at a path; does not follow a symlink.
/// [lremovexattr(2)](https://man7.org/linux/man-pages/man2/removexattr.2.html)
///
/// # Errors
/// The errors of [`fremovexattr`].
pub fn lremovexattr(path: &CStr, name: &CStr) -> Result<()> {
    // SAFETY: both names are NUL-terminated.
    unsafe { syscall!(Gate::Lremovexattr, path, name) }.map(drop)
}

/// Truncates a file, or extends it with a hole.
/// [ftruncate(2)](https://man7.org/linux/man-pages/man2/truncate.2.html)
///
/// # Errors
/// `EFBIG` above the maximum file size of the file system; `EINVAL` above 2^63 - 1.
pub fn ftruncate(fd: impl AsFd, len: u64) -> Result<()> {
    // SAFETY: no pointers.
    unsafe { syscall!(Gate::Ftruncate, fd.as_fd(), len) }.map(drop)
}

/// Writes at an offset of a file.
/// [pwrite(2)](https://man7.org/linux/man-pages/man2/pwrite.2.html)
pub fn pwrite64(fd: impl AsFd, bytes: &[u8], offset: u64) -> Result<usize> {
    let (at, len) = (bytes.as_ptr(), bytes.len());
    // SAFETY: the kernel reads at most `len` bytes of `bytes`.
    unsafe { syscall!(Gate::Pwrite64, fd.as_fd(), at, len, offset) }
}

/// Sets the umask of this process, and returns the previous one.
/// [umask(2)](https://man7.org/linux/man-pages/man2/umask.2.html)
pub fn umask(mode: u32) -> u32 {
    // SAFETY: no pointers. The call never fails.
    unsafe { syscall!(Gate::Umask, mode & 0o777) }.map_or(0o022, |old| old as u32)
}

/// The path of an open file in /proc/self/fd, for calls that take no descriptor; with a `name`, the
/// path of an entry of the open directory.
///
/// # Errors
/// `EINVAL` for a name that contains a NUL.
pub fn in_proc(fd: &Fd, name: &[u8]) -> Result<CString> {
    let mut path = format!("/proc/self/fd/{}", fd.as_raw_fd()).into_bytes();
    if !name.is_empty() {
        path.push(b'/');
        path.extend_from_slice(name);
    }
    crate::long::c_string(&path)
}
