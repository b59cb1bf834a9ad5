//! Lookups of names, as programs make them in a path search, at minimum cost.
//!
//! A name is a byte string that ends in NUL, so that a caller can change it in place; without the
//! NUL the result is `EINVAL`, without a call. The kernel reads up to the first NUL. All calls
//! follow symlinks.

use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

use crate::fs::CWD;
use crate::gates::Gate;
use crate::long::c_string;
use crate::syscall::syscall;
use crate::{Errno, Fd, Result};

#[inline]
fn terminated(name: &[u8]) -> Result<*const u8> {
    match name {
        [.., 0] => Ok(name.as_ptr()),
        _ => Err(Errno::EINVAL),
    }
}

/// Looks a name up as stat(3) does.
/// [newfstatat(2)](https://man7.org/linux/man-pages/man2/stat.2.html)
#[inline]
pub fn newfstatat(dir: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    let name = terminated(name)?;
    // SAFETY: `name` ends in NUL, and `stat` has room for one struct stat.
    unsafe { syscall!(Gate::Newfstatat, dir, name, stat.as_mut_ptr(), 0) }.map(drop)
}

/// Looks a name up with statx(2), and reads the attributes of stat(3).
/// [statx(2)](https://man7.org/linux/man-pages/man2/statx.2.html)
#[inline]
pub fn statx(dir: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
    let mut statx = MaybeUninit::<libc::statx>::uninit();
    let (name, want) = (terminated(name)?, libc::STATX_BASIC_STATS);
    // SAFETY: `name` ends in NUL, and `statx` has room for one struct statx.
    unsafe { syscall!(Gate::Statx, dir, name, 0, want, statx.as_mut_ptr()) }.map(drop)
}

/// Looks a name up as access(3) does, with `F_OK`.
/// [faccessat(2)](https://man7.org/linux/man-pages/man2/access.2.html)
#[inline]
pub fn faccessat(dir: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
    let name = terminated(name)?;
    // SAFETY: `name` ends in NUL.
    unsafe { syscall!(Gate::Faccessat, dir, name, libc::F_OK) }.map(drop)
}

/// Whether this user may create files in an open directory: access(3) with `W_OK` and `X_OK`.
/// [faccessat(2)](https://man7.org/linux/man-pages/man2/access.2.html)
///
/// # Errors
/// `EACCES` if not, `EROFS` on a read-only file system.
pub fn may_create_in(dir: BorrowedFd<'_>) -> Result<()> {
    let wanted = libc::W_OK | libc::X_OK;
    // SAFETY: the name is NUL-terminated.
    unsafe { syscall!(Gate::Faccessat, dir, c".", wanted) }.map(drop)
}

/// The permission to be checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Permission {
    /// Permission to write (`W_OK`).
    Write,
    /// Permission to execute or search (`X_OK`).
    Execute,
}

/// Checks a permission of this user for a file, like access(3).
/// [faccessat(2)](https://man7.org/linux/man-pages/man2/access.2.html)
///
/// # Errors
/// `EACCES` if not permitted, `EROFS` to write on a read-only file system.
pub fn check_permission(path: &[u8], wanted: Permission) -> Result<()> {
    let name = c_string(path)?;
    let mode = match wanted {
        Permission::Write => libc::W_OK,
        Permission::Execute => libc::X_OK,
    };
    // SAFETY: the name is NUL-terminated.
    unsafe { syscall!(Gate::Faccessat, CWD, &*name, mode) }.map(drop)
}

/// Opens a file for reading, as the dynamic linker and interpreters do.
/// [openat(2)](https://man7.org/linux/man-pages/man2/openat.2.html)
#[inline]
pub fn openat(dir: BorrowedFd<'_>, name: &[u8]) -> Result<Fd> {
    let (name, how) = (terminated(name)?, libc::O_RDONLY | libc::O_CLOEXEC);
    // SAFETY: `name` ends in NUL.
    unsafe { syscall!(Gate::Openat, dir, name, how) }.map(Fd::take)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_finds_existing_names_only() {
        for (name, found) in [
            (&b"/proc/self\0"[..], Ok(())),
            (b"/proc/self\0/no such name\0", Ok(())),
            (b"/no such name\0", Err(Errno::ENOENT)),
            (b"/proc/version/x\0", Err(Errno::ENOTDIR)),
            (b"/proc/self", Err(Errno::EINVAL)),
            (b"", Err(Errno::EINVAL)),
        ] {
            assert_eq!(newfstatat(CWD, name), found);
            assert_eq!(statx(CWD, name), found);
            assert_eq!(faccessat(CWD, name), found);
            assert_eq!(openat(CWD, name).map(drop), found);
        }
    }

    #[test]
    fn a_file_without_mode_x_may_not_be_executed_by_anyone() {
        assert_eq!(
            check_permission(b"/proc/self/exe", Permission::Execute),
            Ok(())
        );
        let denied = check_permission(b"/proc/version", Permission::Execute);
        assert_eq!(denied, Err(Errno::EACCES));
        let missing = check_permission(b"/no such name", Permission::Write);
        assert_eq!(missing, Err(Errno::ENOENT));
    }
}
