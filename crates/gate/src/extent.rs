//! Allocation of disk space: fallocate(2), FIEMAP and GETFSMAP.

use std::os::fd::AsFd;

use crate::fs::Dev;
use crate::gates::Gate;
use crate::syscall::syscall;
use crate::{Errno, Result};

/// The mode of [`fallocate`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum Allocate {
    /// Allocates disk space, and extends the file if needed.
    Room = 0,
    /// Deallocates disk space, and keeps the file size.
    PunchHole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
}

/// Allocates or deallocates the disk space of a range of a file.
/// [fallocate(2)](https://man7.org/linux/man-pages/man2/fallocate.2.html)
///
/// # Errors
/// `EOPNOTSUPP` if the file system does not support it.
pub fn fallocate(fd: impl AsFd, what: Allocate, offset: u64, len: u64) -> Result<()> {
    // SAFETY: no pointers.
    unsafe { syscall!(Gate::Fallocate, fd.as_fd(), what as i32, offset, len) }.map(drop)
}

/// How [`fiemap`] treats data without an address on the device (delayed allocation).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum DelallocMode {
    /// Report such data as a delayed extent.
    Report = 0,
    /// Write such data to the device first.
    Write = 1, // FIEMAP_FLAG_SYNC
}

/// Reads the extents of a file from `offset` on, as many as fit: a `struct fiemap` with its
/// `fiemap_extent`s, for `ondisk::fiemap`.
/// [FS_IOC_FIEMAP](https://docs.kernel.org/filesystems/fiemap.html)
///
/// # Errors
/// `EOPNOTSUPP` if the file system does not support it.
pub fn fiemap(
    fd: impl AsFd,
    offset: u64,
    unwritten: DelallocMode,
    buffer: &mut [u64],
) -> Result<()> {
    /// Lengths in 64-bit words: of `struct fiemap` (head) and `struct fiemap_extent`.
    const HEAD: usize = 4;
    const EXTENT: usize = 7;
    let request = libc::_IOWR::<[u64; HEAD]>(b'f'.into(), 11);
    let room = buffer.len().checked_sub(HEAD).ok_or(Errno::EINVAL)? / EXTENT;
    buffer.fill(0);
    // Packs a 32-bit field and an adjacent one that is 0.
    let first = |value: u32| u64::from(value) << if cfg!(target_endian = "big") { 32 } else { 0 };
    buffer[0] = offset;
    buffer[1] = u64::MAX - offset;
    buffer[2] = first(unwritten as u32); // fm_flags, fm_mapped_extents
    buffer[3] = first(u32::try_from(room).unwrap_or(u32::MAX)); // fm_extent_count, reserved
    // SAFETY: the head says how many extents the buffer has room for.
    unsafe { syscall!(Gate::FsIocFiemap, fd.as_fd(), request, buffer.as_mut_ptr()) }.map(drop)
}

/// Length of a `struct fsmap_head` without the records at its end, in bytes.
pub const FSMAP_HEAD: usize = 192;
/// Length of a `struct fsmap`, in bytes.
pub const FSMAP_LEN: usize = 64;

/// Reads the owners of a range of bytes of a device: as many `struct fsmap` as fit, after
/// [`FSMAP_HEAD`] bytes of the buffer. Returns their number.
/// [ioctl_getfsmap(2)](https://man7.org/linux/man-pages/man2/ioctl_getfsmap.2.html)
///
/// # Errors
/// `EOPNOTSUPP` or `ENOTTY` if the file system does not support it; `EINVAL` for a device that is
/// not of this file system.
///
/// # Panics
/// If the buffer is shorter than [`FSMAP_HEAD`].
pub fn getfsmap(
    fd: impl AsFd,
    device: Dev,
    range: std::ops::Range<u64>,
    buffer: &mut [u8],
) -> Result<usize> {
    let request = libc::_IOWR::<[u8; FSMAP_HEAD]>(b'X'.into(), 59);
    const ENTRIES: std::ops::Range<usize> = 12..16;
    /// Offsets of the low and the high key, and of fields in a key.
    const KEYS: [usize; 2] = [64, 64 + FSMAP_LEN];
    const FLAGS: usize = 4;
    const PHYSICAL: usize = 8;
    const OWNER: usize = 16;
    assert!(buffer.len() >= FSMAP_HEAD, "too little room for a query");
    let room = (buffer.len() - FSMAP_HEAD) / FSMAP_LEN;
    let device = device.encode();
    buffer.fill(0);
    let mut put = |at: usize, bytes: &[u8]| buffer[at..at + bytes.len()].copy_from_slice(bytes);
    put(8, &u32::try_from(room).unwrap_or(u32::MAX).to_ne_bytes()); // fmh_count
    for (key, physical) in KEYS
        .into_iter()
        .zip([range.start, range.end.saturating_sub(1)])
    {
        put(key, &device.to_ne_bytes());
        put(key + PHYSICAL, &physical.to_ne_bytes());
    }
    put(KEYS[1] + FLAGS, &u32::MAX.to_ne_bytes());
    put(KEYS[1] + OWNER, &[0xff; 16]); // fmr_owner and fmr_offset
    let to = buffer.as_mut_ptr();
    // SAFETY: `buffer` begins with the FSMAP_HEAD bytes of the head, whose fmh_count says how many
    // records there is room for after it.
    unsafe { syscall!(Gate::FsIocGetfsmap, fd.as_fd(), request, to) }?;
    let found: [u8; 4] = buffer[ENTRIES].try_into().unwrap_or_default();
    Ok((u32::from_ne_bytes(found) as usize).min(room))
}
