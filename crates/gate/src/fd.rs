//! An owned file descriptor.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use crate::Result;
use crate::errno::check;
use crate::gates::Gate;
use crate::meter::pass;

/// A file descriptor that is closed, and its close counted, when it is dropped.
#[derive(Debug)]
pub struct Fd(RawFd);

impl Fd {
    /// Takes over a descriptor that a system call has just returned.
    pub(crate) fn take(raw: usize) -> Fd {
        Fd(raw as RawFd)
    }

    /// Another descriptor of the same open file. No file is looked at for it, and nothing is
    /// counted.
    /// [F_DUPFD_CLOEXEC(2const)](https://man7.org/linux/man-pages/man2/F_DUPFD.2const.html)
    pub fn again(&self) -> Result<Fd> {
        // SAFETY: no pointers.
        check(unsafe { libc::syscall(libc::SYS_fcntl, self.0, libc::F_DUPFD_CLOEXEC, 3) })
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
        let _ = pass(Gate::Close, || {
            // SAFETY: `self` owned the descriptor, and nobody uses it after this.
            check(unsafe { libc::syscall(libc::SYS_close, self.0) })
        });
    }
}
