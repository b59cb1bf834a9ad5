//! An owned file descriptor.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use crate::Result;
use crate::errno::check;
use crate::gates::Gate;
use crate::syscall::syscall;

/// A file descriptor. Dropping it closes the descriptor, and counts the call.
#[derive(Debug)]
pub struct Fd(RawFd);

impl Fd {
    /// Takes ownership of a descriptor that a system call has just returned.
    pub(crate) fn take(raw: usize) -> Fd {
        Fd(raw as RawFd)
    }

    /// Duplicates the descriptor, to a number above the standard streams. Not counted: it is not
    /// file-system work.
    /// [F_DUPFD_CLOEXEC(2const)](https://man7.org/linux/man-pages/man2/F_DUPFD.2const.html)
    pub fn try_clone(&self) -> Result<Fd> {
        Fd::duplicate(self.0)
    }

    /// Replaces the flags `O_APPEND`, `O_DIRECT`, `O_NOATIME` and `O_NONBLOCK`. Not counted.
    /// [F_SETFL(2const)](https://man7.org/linux/man-pages/man2/F_GETFL.2const.html)
    pub(crate) fn set_flags(&self, flags: i32) -> Result<()> {
        // SAFETY: no pointers.
        check(unsafe { libc::syscall(libc::SYS_fcntl, self.0, libc::F_SETFL, flags) }).map(drop)
    }

    pub(crate) fn duplicate(raw: RawFd) -> Result<Fd> {
        // SAFETY: no pointers; the returned descriptor has no other owner.
        check(unsafe { libc::syscall(libc::SYS_fcntl, raw, libc::F_DUPFD_CLOEXEC, 3) })
            .map(Fd::take)
    }
}

impl AsRawFd for Fd {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

impl AsFd for Fd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: `self` owns the descriptor and keeps it open for as long as the borrow lasts.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        // SAFETY: `self` owned the descriptor, which is not used after this.
        let _ = unsafe { syscall!(Gate::Close, self.0) };
    }
}
