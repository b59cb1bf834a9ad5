//! Where the data of a file lies: holes in it, and its extents on the device.

use std::os::fd::{AsFd, AsRawFd};

use libc::{c_int, c_long, syscall};

use crate::meter::{Gate, answer, pass};
use crate::{Errno, Result};

fn lseek(fd: impl AsFd, from: u64, whence: c_int) -> Result<u64> {
    pass(Gate::Lseek, || {
        // SAFETY: no pointers.
        answer(unsafe { syscall(libc::SYS_lseek, fd.as_fd().as_raw_fd(), from as c_long, c_long::from(whence)) })
    })
    .map(|at| at as u64)
}

/// Where the next data begins, from a place on; `None` when there is none.
/// [lseek(2)](https://man7.org/linux/man-pages/man2/lseek.2.html), `SEEK_DATA`
///
/// # Errors
/// `EINVAL` where the file system cannot say.
pub fn seek_data(fd: impl AsFd, from: u64) -> Result<Option<u64>> {
    match lseek(fd, from, libc::SEEK_DATA) {
        Ok(at) => Ok(Some(at)),
        Err(Errno::ENXIO) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Where the next hole begins, from a place on; the end of the file counts as one.
/// [lseek(2)](https://man7.org/linux/man-pages/man2/lseek.2.html), `SEEK_HOLE`
///
/// # Errors
/// `ENXIO` at or behind the end; `EINVAL` where the file system cannot say.
pub fn seek_hole(fd: impl AsFd, from: u64) -> Result<u64> {
    lseek(fd, from, libc::SEEK_HOLE)
}

/// What [`fallocate`] does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allocate {
    /// Sees that there is room on the disk; the file grows to hold it.
    Room,
    /// Makes a hole: what lay there is given back.
    PunchHole,
}

/// Allocates room for a part of a file, or gives it back.
/// [fallocate(2)](https://man7.org/linux/man-pages/man2/fallocate.2.html)
///
/// # Errors
/// `EOPNOTSUPP` where the file system cannot do it.
pub fn fallocate(fd: impl AsFd, what: Allocate, offset: u64, len: u64) -> Result<()> {
    let mode = match what {
        Allocate::Room => 0,
        Allocate::PunchHole => libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
    };
    pass(Gate::Fallocate, || {
        // SAFETY: no pointers.
        answer(unsafe {
            let fd = fd.as_fd().as_raw_fd();
            syscall(libc::SYS_fallocate, fd, c_long::from(mode), offset as c_long, len as c_long)
        })
    })
    .map(drop)
}

/// The extents of a file from `offset` on, as many as there is room for: a `struct fiemap` with its `fiemap_extent`s, for
/// `ondisk::fiemap`. What is not yet on the disk is written first.
/// [FS_IOC_FIEMAP](https://docs.kernel.org/filesystems/fiemap.html)
///
/// # Errors
/// `EOPNOTSUPP` where the file system has no such thing.
pub fn fiemap(fd: impl AsFd, offset: u64, buffer: &mut [u64]) -> Result<()> {
    const FS_IOC_FIEMAP: c_long = 3 << 30 | 32 << 16 | 0x66 << 8 | 11; // _IOWR('f', 11, struct fiemap)
    const FLAG_SYNC: u64 = 1;
    /// 64-bit words of `struct fiemap`, and of `struct fiemap_extent`.
    const HEAD: usize = 4;
    const EXTENT: usize = 7;
    let room = buffer.len().checked_sub(HEAD).ok_or(Errno::EINVAL)? / EXTENT;
    buffer.fill(0);
    let halves = |low: u64, high: u64| if cfg!(target_endian = "little") { low | high << 32 } else { low << 32 | high };
    buffer[0] = offset;
    buffer[1] = u64::MAX - offset;
    buffer[2] = halves(FLAG_SYNC, 0); // fm_flags, fm_mapped_extents
    buffer[3] = halves(u64::try_from(room).unwrap_or(0).min(u64::from(u32::MAX)), 0); // fm_extent_count, reserved
    pass(Gate::FsIocFiemap, || {
        // SAFETY: the head says how many extents there is room for behind it.
        answer(unsafe { syscall(libc::SYS_ioctl, fd.as_fd().as_raw_fd(), FS_IOC_FIEMAP, buffer.as_mut_ptr()) })
    })
    .map(drop)
}
