//! The system calls that write, name and sync files.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd};

use crate::Result;
use crate::errno::check;
use crate::fs::At;
use crate::gates::Gate;
use crate::meter::pass;
use crate::syscall::syscall;

/// Writes to a descriptor. [write(2)](https://man7.org/linux/man-pages/man2/write.2.html)
pub fn write(fd: impl AsFd, bytes: &[u8]) -> Result<usize> {
    // SAFETY: the kernel reads at most `bytes.len()` bytes of `bytes`.
    unsafe { syscall!(Gate::Write, fd.as_fd(), bytes.as_ptr(), bytes.len()) }
}

/// Waits until a file's content, or a directory's entries, are on the disk.
/// [fsync(2)](https://man7.org/linux/man-pages/man2/fsync.2.html)
pub fn fsync(fd: impl AsFd) -> Result<()> {
    // SAFETY: no pointers.
    unsafe { syscall!(Gate::Fsync, fd.as_fd()) }.map(drop)
}

/// Starts writing a part of a file to the disk, and does not wait. Unlike fsync(2) it makes nothing
/// durable.
/// [sync_file_range(2)](https://man7.org/linux/man-pages/man2/sync_file_range.2.html)
pub fn sync_file_range(fd: impl AsFd, offset: u64, len: u64) -> Result<()> {
    let fd = fd.as_fd().as_raw_fd();
    let (offset, len) = (offset.cast_signed(), len.cast_signed());
    pass(Gate::SyncFileRange, || {
        // SAFETY: no pointers. The C library knows the order of the arguments, which depends on the
        // architecture.
        check(unsafe { libc::sync_file_range(fd, offset, len, libc::SYNC_FILE_RANGE_WRITE) }.into())
    })
    .map(drop)
}

/// Adds a name to a file. [linkat(2)](https://man7.org/linux/man-pages/man2/link.2.html)
pub fn linkat(from: impl AsFd, name: &CStr, to: impl AsFd, new: &CStr, at: At) -> Result<()> {
    let (from, to) = (from.as_fd(), to.as_fd());
    // SAFETY: both names are NUL-terminated.
    unsafe { syscall!(Gate::Linkat, from, name, to, new, at.bits()) }.map(drop)
}

/// Renames a file, and replaces a file of the new name.
/// [renameat2(2)](https://man7.org/linux/man-pages/man2/rename.2.html) without flags, since newer
/// architectures lack renameat
pub fn renameat2(from: impl AsFd, name: &CStr, to: impl AsFd, new: &CStr) -> Result<()> {
    // SAFETY: both names are NUL-terminated.
    unsafe { syscall!(Gate::Renameat2, from.as_fd(), name, to.as_fd(), new, 0) }.map(drop)
}

/// Removes a name. [unlinkat(2)](https://man7.org/linux/man-pages/man2/unlink.2.html)
pub fn unlinkat(dir: impl AsFd, name: &CStr) -> Result<()> {
    // SAFETY: `name` is NUL-terminated.
    unsafe { syscall!(Gate::Unlinkat, dir.as_fd(), name, 0) }.map(drop)
}
