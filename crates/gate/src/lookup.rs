//! Looking a name up, and no more: what path searches do, at the least that it can cost.
//!
//! A name is given as bytes whose last one is NUL, so that a loop can count it up in place; the
//! kernel reads up to the first NUL. All of these follow symlinks, as the C library's functions do.
//! What a name without that NUL gets is `EINVAL`, and no call.

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::syscall;

use crate::errno::check;
use crate::gates::Gate;
use crate::meter::pass;
use crate::{Errno, Fd, Result};

#[inline]
fn terminated(name: &[u8]) -> Result<*const u8> {
    match name {
        [.., 0] => Ok(name.as_ptr()),
        _ => Err(Errno::EINVAL),
    }
}

/// Whether a name leads to anything, asked as stat(3) does.
/// [newfstatat(2)](https://man7.org/linux/man-pages/man2/stat.2.html)
#[inline]
pub fn newfstatat(dir: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
    let mut buffer = MaybeUninit::<libc::stat>::uninit();
    let name = terminated(name)?;
    pass(Gate::Newfstatat, || {
        // SAFETY: `name` ends in NUL, and `buffer` has room for one struct stat.
        check(unsafe {
            syscall(
                libc::SYS_newfstatat,
                dir.as_raw_fd(),
                name,
                buffer.as_mut_ptr(),
                0,
            )
        })
    })
    .map(drop)
}

/// The same, asked with statx(2) for what stat(3) gives.
/// [statx(2)](https://man7.org/linux/man-pages/man2/statx.2.html)
#[inline]
pub fn statx(dir: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
    let mut buffer = MaybeUninit::<libc::statx>::uninit();
    let name = terminated(name)?;
    pass(Gate::Statx, || {
        let want = libc::STATX_BASIC_STATS;
        // SAFETY: `name` ends in NUL, and `buffer` has room for one struct statx.
        check(unsafe {
            syscall(
                libc::SYS_statx,
                dir.as_raw_fd(),
                name,
                0,
                want,
                buffer.as_mut_ptr(),
            )
        })
    })
    .map(drop)
}

/// The same, asked as access(3) does, with `F_OK`.
/// [faccessat(2)](https://man7.org/linux/man-pages/man2/access.2.html)
#[inline]
pub fn faccessat(dir: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
    let name = terminated(name)?;
    pass(Gate::Faccessat, || {
        // SAFETY: `name` ends in NUL.
        check(unsafe { syscall(libc::SYS_faccessat, dir.as_raw_fd(), name, libc::F_OK) })
    })
    .map(drop)
}

/// Opens for reading, as the dynamic linker and interpreters do.
/// [openat(2)](https://man7.org/linux/man-pages/man2/openat.2.html)
#[inline]
pub fn openat(dir: BorrowedFd<'_>, name: &[u8]) -> Result<Fd> {
    let name = terminated(name)?;
    pass(Gate::Openat, || {
        // SAFETY: `name` ends in NUL.
        check(unsafe {
            syscall(
                libc::SYS_openat,
                dir.as_raw_fd(),
                name,
                libc::O_RDONLY | libc::O_CLOEXEC,
            )
        })
    })
    .map(Fd::take)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::CWD;

    #[test]
    fn every_way_finds_what_is_there_and_no_more() {
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
}
