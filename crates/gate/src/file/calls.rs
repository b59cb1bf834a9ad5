//! The system calls that write, name and sync files.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd};

use libc::{c_long, syscall};

use crate::Result;
use crate::errno::check;
use crate::fs::At;
use crate::gates::Gate;
use crate::meter::pass;

/// Writes to a descriptor. [write(2)](https://man7.org/linux/man-pages/man2/write.2.html)
pub fn write(fd: impl AsFd, bytes: &[u8]) -> Result<usize> {
    pass(Gate::Write, || {
        // SAFETY: the kernel reads at most `bytes.len()` bytes of `bytes`.
        check(unsafe {
            syscall(
                libc::SYS_write,
                fd.as_fd().as_raw_fd(),
                bytes.as_ptr(),
                bytes.len() as c_long,
            )
        })
    })
}

/// Waits until a file's content, or a directory's entries, are on the disk.
/// [fsync(2)](https://man7.org/linux/man-pages/man2/fsync.2.html)
pub fn fsync(fd: impl AsFd) -> Result<()> {
    pass(Gate::Fsync, || {
        // SAFETY: no pointers.
        check(unsafe { syscall(libc::SYS_fsync, fd.as_fd().as_raw_fd()) })
    })
    .map(drop)
}

/// Starts writing a part of a file to the disk, and does not wait. Unlike fsync(2) it makes nothing
/// durable.
/// [sync_file_range(2)](https://man7.org/linux/man-pages/man2/sync_file_range.2.html)
pub fn sync_file_range(fd: impl AsFd, offset: u64, len: u64) -> Result<()> {
    pass(Gate::SyncFileRange, || {
        let (offset, len) = (offset.cast_signed(), len.cast_signed());
        // SAFETY: no pointers. The C library knows the order of the arguments, which depends on the
        // architecture.
        let done = unsafe {
            libc::sync_file_range(
                fd.as_fd().as_raw_fd(),
                offset,
                len,
                libc::SYNC_FILE_RANGE_WRITE,
            )
        };
        check(done.into())
    })
    .map(drop)
}

/// Adds a name to a file. [linkat(2)](https://man7.org/linux/man-pages/man2/link.2.html)
pub fn linkat(from: impl AsFd, name: &CStr, to: impl AsFd, new: &CStr, at: At) -> Result<()> {
    let (from, to) = (from.as_fd().as_raw_fd(), to.as_fd().as_raw_fd());
    pass(Gate::Linkat, || {
        // SAFETY: both names are NUL-terminated.
        check(unsafe {
            syscall(
                libc::SYS_linkat,
                from,
                name.as_ptr(),
                to,
                new.as_ptr(),
                at.bits(),
            )
        })
    })
    .map(drop)
}

/// Renames a file. A file that has the new name is replaced. [renameat2(2)](https://man7.org/linux/man-pages/man2/rename.2.html)
pub fn renameat2(from: impl AsFd, name: &CStr, to: impl AsFd, new: &CStr) -> Result<()> {
    let (from, to) = (from.as_fd().as_raw_fd(), to.as_fd().as_raw_fd());
    pass(Gate::Renameat2, || {
        // SAFETY: both names are NUL-terminated. Without flags it is renameat, which newer
        // architectures lack.
        check(unsafe {
            syscall(
                libc::SYS_renameat2,
                from,
                name.as_ptr(),
                to,
                new.as_ptr(),
                0,
            )
        })
    })
    .map(drop)
}

/// Removes a name. [unlinkat(2)](https://man7.org/linux/man-pages/man2/unlink.2.html)
pub fn unlinkat(dir: impl AsFd, name: &CStr) -> Result<()> {
    pass(Gate::Unlinkat, || {
        // SAFETY: `name` is NUL-terminated.
        check(unsafe {
            syscall(
                libc::SYS_unlinkat,
                dir.as_fd().as_raw_fd(),
                name.as_ptr(),
                0,
            )
        })
    })
    .map(drop)
}
