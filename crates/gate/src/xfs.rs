//! XFS: ioctls for geometry, counters and bulkstat.

use std::os::fd::AsFd;

use crate::Result;
use crate::gates::Gate;
use crate::syscall::syscall;

pub use crate::requests::{BULKSTAT_LEN, GEOMETRY_LEN};

/// The `f_type` of XFS.
pub const XFS_SUPER_MAGIC: u64 = 0x5846_5342;

/// Describes the geometry of the file system that contains an open file.
/// [ioctl_xfs_fsgeometry(2)](https://man7.org/linux/man-pages/man2/ioctl_xfs_fsop_geometry.2.html)
///
/// # Errors
/// `ENOTTY` if the file system is not XFS, and before Linux 5.2.
pub fn xfs_fsgeometry(fd: impl AsFd) -> Result<[u8; GEOMETRY_LEN]> {
    #[cfg(debug_assertions)]
    if let Some(answers) = crate::crafted::answers() {
        return Ok(answers.xfs_fsgeometry());
    }
    let request = libc::_IOR::<[u8; GEOMETRY_LEN]>(b'X'.into(), 126);
    let mut geometry = [0u8; GEOMETRY_LEN];
    let to = geometry.as_mut_ptr();
    // SAFETY: the request's size field says GEOMETRY_LEN, and `geometry` has as many bytes.
    unsafe { syscall!(Gate::XfsFsgeometry, fd.as_fd(), request, to) }?;
    Ok(geometry)
}

/// 64-bit words of a `struct xfs_fsop_counts`: free blocks, free realtime extents, free inodes,
/// allocated inodes.
pub const COUNTS_LEN: usize = 4;

/// Counts the blocks and inodes of the file system that contains an open file.
/// [xfsctl(3)](https://man7.org/linux/man-pages/man3/xfsctl.3.html)
///
/// # Errors
/// `ENOTTY` if the file system is not XFS.
pub fn xfs_fscounts(fd: impl AsFd) -> Result<[u64; COUNTS_LEN]> {
    let request = libc::_IOR::<[u64; COUNTS_LEN]>(b'X'.into(), 113);
    let mut counts = [0; COUNTS_LEN];
    let to = counts.as_mut_ptr();
    // SAFETY: the request's size field says four words, and `counts` has as many.
    unsafe { syscall!(Gate::XfsFscounts, fd.as_fd(), request, to) }?;
    Ok(counts)
}

/// A buffer for [`xfs_bulkstat`].
#[derive(Debug)]
pub struct BulkBuffer {
    bytes: Vec<u8>,
    rows: usize,
}

impl BulkBuffer {
    /// Length of `struct xfs_bulkstat_req` without the array at its end, in bytes.
    const HEADER: usize = 64;

    /// A buffer with room for at most `inodes` inodes.
    pub fn new(inodes: usize) -> BulkBuffer {
        BulkBuffer {
            bytes: vec![0; BulkBuffer::HEADER + inodes * BULKSTAT_LEN],
            rows: 0,
        }
    }

    /// Rows of the last call: a `struct xfs_bulkstat` per inode, by inode number.
    pub fn rows(&self) -> &[[u8; BULKSTAT_LEN]] {
        self.bytes[BulkBuffer::HEADER..]
            .as_chunks()
            .0
            .get(..self.rows)
            .unwrap_or_default()
    }
}

/// Describes the inodes in use of an allocation group, from an inode number in that group on (0:
/// from the first), at most `most` of them or as many as fit. Returns the number to continue from;
/// without rows, the group has no more inodes.
/// [ioctl_xfs_bulkstat(2)](https://man7.org/linux/man-pages/man2/ioctl_xfs_bulkstat.2.html)
///
/// # Errors
/// `EPERM` without CAP_SYS_ADMIN in the initial user namespace; `EINVAL` on an idmapped mount;
/// `ENOTTY` if the file system is not XFS, and before Linux 5.3.
pub fn xfs_bulkstat(
    fd: impl AsFd,
    group: u32,
    from: u64,
    most: usize,
    buffer: &mut BulkBuffer,
) -> Result<u64> {
    let request = libc::_IOR::<[u8; BulkBuffer::HEADER]>(b'X'.into(), 127);
    const XFS_BULK_IREQ_AGNO: u32 = 1;
    let room = (buffer.bytes.len() - BulkBuffer::HEADER) / BULKSTAT_LEN;
    let count = most.min(room) as u32;
    buffer.rows = 0;
    #[cfg(debug_assertions)]
    if let Some(answers) = crate::crafted::answers() {
        let rows = buffer.bytes[BulkBuffer::HEADER..].as_chunks_mut().0;
        let next;
        (buffer.rows, next) = answers.xfs_bulkstat(group, from, &mut rows[..count as usize])?;
        return Ok(next);
    }
    let header = &mut buffer.bytes[..BulkBuffer::HEADER];
    header.fill(0);
    header[..8].copy_from_slice(&from.to_ne_bytes());
    for (at, value) in [(8, XFS_BULK_IREQ_AGNO), (12, count), (20, group)] {
        header[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }
    let to = buffer.bytes.as_mut_ptr();
    // SAFETY: the buffer has room for the header and for as many inodes as that says.
    unsafe { syscall!(Gate::XfsBulkstat, fd.as_fd(), request, to) }?;
    buffer.rows = buffer.bytes[16..]
        .first_chunk()
        .map_or(0, |bytes| u32::from_ne_bytes(*bytes) as usize);
    Ok(buffer
        .bytes
        .first_chunk()
        .map_or(0, |bytes| u64::from_ne_bytes(*bytes)))
}
