//! Where a file lies on the device: room that is made for it, holes, extents.

use std::os::fd::{AsFd, AsRawFd};

use libc::{c_long, syscall};

use crate::errno::check;
use crate::gates::Gate;
use crate::meter::pass;
use crate::{Errno, Result};

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
        check(unsafe {
            let fd = fd.as_fd().as_raw_fd();
            syscall(
                libc::SYS_fallocate,
                fd,
                c_long::from(mode),
                offset as c_long,
                len as c_long,
            )
        })
    })
    .map(drop)
}

/// The extents of a file from `offset` on, as many as there is room for: a `struct fiemap` with its
/// `fiemap_extent`s, for `ondisk::fiemap`. What is not yet on the disk is written first.
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
    let halves = |low: u64, high: u64| {
        if cfg!(target_endian = "little") {
            low | high << 32
        } else {
            low << 32 | high
        }
    };
    buffer[0] = offset;
    buffer[1] = u64::MAX - offset;
    buffer[2] = halves(FLAG_SYNC, 0); // fm_flags, fm_mapped_extents
    buffer[3] = halves(u64::try_from(room).unwrap_or(0).min(u64::from(u32::MAX)), 0); // fm_extent_count, reserved
    pass(Gate::FsIocFiemap, || {
        // SAFETY: the head says how many extents there is room for behind it.
        check(unsafe {
            syscall(
                libc::SYS_ioctl,
                fd.as_fd().as_raw_fd(),
                FS_IOC_FIEMAP,
                buffer.as_mut_ptr(),
            )
        })
    })
    .map(drop)
}
