//! btrfs: its trees, and its subvolumes.

use std::os::fd::{AsFd, AsRawFd};

use libc::{c_long, syscall};

use crate::Result;
use crate::errno::check;
use crate::gates::Gate;
use crate::meter::pass;

/// The `f_type` of btrfs.
pub const BTRFS_SUPER_MAGIC: u64 = 0x9123_683e;

/// An ioctl of btrfs: `_IOWR` or `_IOR` of `BTRFS_IOCTL_MAGIC`.
const fn request(direction: c_long, number: c_long, len: usize) -> c_long {
    direction << 30 | (len as c_long) << 16 | 0x94 << 8 | number
}

/// Length of what [`get_subvol_info`] fills in, in bytes.
pub const SUBVOL_INFO_LEN: usize = 504;

/// Describes the subvolume that an open directory is in: a `struct
/// btrfs_ioctl_get_subvol_info_args`.
/// [btrfs-ioctl(2)](https://btrfs.readthedocs.io/en/latest/btrfs-ioctl.html)
///
/// # Errors
/// `ENOTTY` where it is not btrfs, and before Linux 4.18.
pub fn get_subvol_info(dir: impl AsFd) -> Result<[u8; SUBVOL_INFO_LEN]> {
    const BTRFS_IOC_GET_SUBVOL_INFO: c_long = request(2, 60, SUBVOL_INFO_LEN);
    let mut info = [0u8; SUBVOL_INFO_LEN];
    pass(Gate::BtrfsGetSubvolInfo, || {
        // SAFETY: the request's size field says SUBVOL_INFO_LEN, and that is what `info` has.
        check(unsafe {
            syscall(
                libc::SYS_ioctl,
                dir.as_fd().as_raw_fd(),
                BTRFS_IOC_GET_SUBVOL_INFO,
                info.as_mut_ptr(),
            )
        })
    })?;
    Ok(info)
}

/// What is searched for in a tree: the items whose keys lie in a range, in the order of (object,
/// type, offset).
#[derive(Clone, Copy, Debug)]
pub struct SearchKey {
    /// The tree; 0 for that of the subvolume that the descriptor is in.
    pub tree: u64,
    /// The first key.
    pub first: (u64, u8, u64),
    /// The last key, itself included.
    pub last: (u64, u8, u64),
    /// Only leaves written in this transaction or later.
    pub min_transid: u64,
    /// At most so many items.
    pub items: u32,
}

/// Bytes at the beginning of [`tree_search_v2`]'s buffer that belong to the call: a `struct
/// btrfs_ioctl_search_args_v2`.
pub const SEARCH_HEAD: usize = 112;

/// Reads items of a tree into `buffer`, and gives how many. They begin at [`SEARCH_HEAD`], each
/// after a `struct btrfs_ioctl_search_header`; there are as many as have room. What is not yet in
/// the trees, [`crate::fs::syncfs`] puts there.
/// [btrfs-ioctl(2)](https://btrfs.readthedocs.io/en/latest/btrfs-ioctl.html)
///
/// # Errors
/// `EPERM` without CAP_SYS_ADMIN; `EOVERFLOW` when not even the first item has room; `ENOENT` when
/// there is no such tree; `ENOTTY` where it is not btrfs.
///
/// # Panics
/// When `buffer` is shorter than [`SEARCH_HEAD`].
pub fn tree_search_v2(fd: impl AsFd, key: &SearchKey, buffer: &mut [u8]) -> Result<usize> {
    const BTRFS_IOC_TREE_SEARCH_V2: c_long = request(3, 17, SEARCH_HEAD);
    const NR_ITEMS: std::ops::Range<usize> = 64..68;
    assert!(buffer.len() >= SEARCH_HEAD, "too little room for a search");
    let room = buffer.len() - SEARCH_HEAD;
    let (first, last) = (key.first, key.last);
    let words = [
        key.tree,
        first.0,
        last.0,
        first.2,
        last.2,
        key.min_transid,
        u64::MAX, // max_transid
        two_words(u32::from(first.1), u32::from(last.1)),
        two_words(key.items, 0),
        0,
        0,
        0,
        0,
        room as u64,
    ];
    for (to, word) in buffer.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *to = word.to_ne_bytes();
    }
    pass(Gate::BtrfsTreeSearchV2, || {
        // SAFETY: `buffer` begins with the 112 bytes of the head, whose buf_size says how many
        // bytes follow it.
        check(unsafe {
            syscall(
                libc::SYS_ioctl,
                fd.as_fd().as_raw_fd(),
                BTRFS_IOC_TREE_SEARCH_V2,
                buffer.as_mut_ptr(),
            )
        })
    })?;
    let found: [u8; 4] = buffer[NR_ITEMS].try_into().unwrap_or_default();
    Ok(u32::from_ne_bytes(found) as usize)
}

/// Two fields of 32 bits that follow one another, as one of 64.
fn two_words(first: u32, second: u32) -> u64 {
    let [a, b] = [first.to_ne_bytes(), second.to_ne_bytes()];
    u64::from_ne_bytes([a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]])
}
