//! Allocation of files: fallocate(2) and extents.

use std::os::fd::AsFd;

use crate::gates::Gate;
use crate::syscall::syscall;
use crate::{Errno, Result};

/// The mode of [`fallocate`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum Allocate {
    /// Allocates disk space; the file grows to hold it.
    Room = 0,
    /// Deallocates disk space, and keeps the file's size.
    PunchHole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
}

/// Allocates or deallocates the disk space of a part of a file.
/// [fallocate(2)](https://man7.org/linux/man-pages/man2/fallocate.2.html)
///
/// # Errors
/// `EOPNOTSUPP` where the file system does not support it.
pub fn fallocate(fd: impl AsFd, what: Allocate, offset: u64, len: u64) -> Result<()> {
    // SAFETY: no pointers.
    unsafe { syscall!(Gate::Fallocate, fd.as_fd(), what as i32, offset, len) }.map(drop)
}

/// The extents of a file from `offset` on, as many as fit: a `struct fiemap` with its
/// `fiemap_extent`s, for `ondisk::fiemap`. Dirty data is written first.
/// [FS_IOC_FIEMAP](https://docs.kernel.org/filesystems/fiemap.html)
///
/// # Errors
/// `EOPNOTSUPP` where the file system does not support it.
pub fn fiemap(fd: impl AsFd, offset: u64, buffer: &mut [u64]) -> Result<()> {
    const FLAG_SYNC: u32 = 1;
    /// 64-bit words of `struct fiemap`, and of `struct fiemap_extent`.
    const HEAD: usize = 4;
    const EXTENT: usize = 7;
    let request = libc::_IOWR::<[u64; HEAD]>(b'f'.into(), 11);
    let room = buffer.len().checked_sub(HEAD).ok_or(Errno::EINVAL)? / EXTENT;
    buffer.fill(0);
    // Two adjacent 32-bit fields, of which the second is 0.
    let first = |value: u32| u64::from(value) << if cfg!(target_endian = "big") { 32 } else { 0 };
    buffer[0] = offset;
    buffer[1] = u64::MAX - offset;
    buffer[2] = first(FLAG_SYNC); // fm_flags, fm_mapped_extents
    buffer[3] = first(u32::try_from(room).unwrap_or(u32::MAX)); // fm_extent_count, reserved
    // SAFETY: the head says how many extents the buffer has room for.
    unsafe { syscall!(Gate::FsIocFiemap, fd.as_fd(), request, buffer.as_mut_ptr()) }.map(drop)
}
