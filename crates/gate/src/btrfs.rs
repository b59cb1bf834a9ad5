//! btrfs: ioctls for trees, subvolumes, references to extents, and space.

use std::os::fd::AsFd;

use crate::Result;
use crate::gates::Gate;
use crate::syscall::syscall;

pub use crate::requests::{SUBVOL_INFO_LEN, SearchKey};

/// The `f_type` of btrfs.
pub const BTRFS_SUPER_MAGIC: u64 = 0x9123_683e;

const IOCTL_MAGIC: u32 = 0x94;

/// Describes the subvolume that contains an open directory: a `struct
/// btrfs_ioctl_get_subvol_info_args`.
/// [btrfs-ioctl(2)](https://btrfs.readthedocs.io/en/latest/btrfs-ioctl.html)
///
/// # Errors
/// `ENOTTY` if the file system is not btrfs, and before Linux 4.18.
pub fn get_subvol_info(dir: impl AsFd) -> Result<[u8; SUBVOL_INFO_LEN]> {
    #[cfg(debug_assertions)]
    if let Some(answers) = crate::crafted::answers() {
        return Ok(answers.get_subvol_info());
    }
    let request = libc::_IOR::<[u8; SUBVOL_INFO_LEN]>(IOCTL_MAGIC, 60);
    let mut info = [0u8; SUBVOL_INFO_LEN];
    let to = info.as_mut_ptr();
    // SAFETY: the request's size field says SUBVOL_INFO_LEN, and `info` has as many bytes.
    unsafe { syscall!(Gate::BtrfsGetSubvolInfo, dir.as_fd(), request, to) }?;
    Ok(info)
}

/// Length of `struct btrfs_ioctl_search_args_v2`, at the beginning of the buffer of
/// [`tree_search_v2`].
pub const SEARCH_HEAD: usize = 112;

/// Reads items of a tree into `buffer`, as many as fit, and returns their number. The items begin
/// at [`SEARCH_HEAD`], each after a `struct btrfs_ioctl_search_header`. Changes that are not yet
/// committed are missing: [`crate::fs::syncfs`] commits them.
/// [btrfs-ioctl(2)](https://btrfs.readthedocs.io/en/latest/btrfs-ioctl.html)
///
/// # Errors
/// `EPERM` without CAP_SYS_ADMIN; `EOVERFLOW` if not even the first item fits; `ENOENT` if the tree
/// does not exist; `ENOTTY` if the file system is not btrfs.
///
/// # Panics
/// If `buffer` is shorter than [`SEARCH_HEAD`].
pub fn tree_search_v2(fd: impl AsFd, key: &SearchKey, buffer: &mut [u8]) -> Result<usize> {
    #[cfg(debug_assertions)]
    if let Some(answers) = crate::crafted::answers() {
        return answers.tree_search_v2(key, buffer);
    }
    let request = libc::_IOWR::<[u8; SEARCH_HEAD]>(IOCTL_MAGIC, 17);
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
    let to = buffer.as_mut_ptr();
    // SAFETY: `buffer` begins with the SEARCH_HEAD bytes of the head, whose buf_size says how many
    // bytes follow it.
    unsafe { syscall!(Gate::BtrfsTreeSearchV2, fd.as_fd(), request, to) }?;
    let found: [u8; 4] = buffer[NR_ITEMS].try_into().unwrap_or_default();
    Ok(u32::from_ne_bytes(found) as usize)
}

/// Finds the files that refer to any part of the extent at a logical address: a `struct
/// btrfs_data_container` in `buffer`, for `ondisk::btrfs::parse_references`.
/// [btrfs-ioctl(2)](https://btrfs.readthedocs.io/en/latest/btrfs-ioctl.html)
///
/// # Errors
/// `EPERM` without CAP_SYS_ADMIN; `ENOENT` if the extent does not exist; `ENOTTY` if the file
/// system is not btrfs, and before Linux 4.15.
pub fn logical_ino_v2(fd: impl AsFd, logical: u64, buffer: &mut [u64]) -> Result<()> {
    const WORDS: usize = 7;
    const BTRFS_LOGICAL_INO_ARGS_IGNORE_OFFSET: u64 = 1;
    let request = libc::_IOWR::<[u64; WORDS]>(IOCTL_MAGIC, 59);
    let size = size_of_val(buffer) as u64;
    buffer.fill(0);
    let to = buffer.as_mut_ptr();
    let flags = BTRFS_LOGICAL_INO_ARGS_IGNORE_OFFSET;
    let mut arguments: [u64; WORDS] = [logical, size, 0, 0, 0, flags, to as u64];
    let arguments = arguments.as_mut_ptr();
    // SAFETY: the kernel writes at most `size` bytes, which `buffer` has, to the address in the
    // last word, and no other memory.
    unsafe { syscall!(Gate::BtrfsLogicalInoV2, fd.as_fd(), request, arguments) }.map(drop)
}

/// 64-bit words of a `struct btrfs_ioctl_space_args` before its records.
pub const SPACE_HEAD: usize = 2;
/// 64-bit words of a `struct btrfs_ioctl_space_info`: flags, allocated bytes, used bytes.
pub const SPACE_RECORD: usize = 3;

/// Reads the kinds of block groups with their allocated and used bytes: records after
/// [`SPACE_HEAD`] words of the buffer, as many as fit. Returns their number.
/// [btrfs-ioctl(2)](https://btrfs.readthedocs.io/en/latest/btrfs-ioctl.html)
///
/// # Errors
/// `ENOTTY` if the file system is not btrfs.
///
/// # Panics
/// If `buffer` is shorter than [`SPACE_HEAD`].
pub fn space_info(fd: impl AsFd, buffer: &mut [u64]) -> Result<usize> {
    assert!(buffer.len() >= SPACE_HEAD, "too little room for a query");
    let request = libc::_IOWR::<[u64; SPACE_HEAD]>(IOCTL_MAGIC, 20);
    let room = (buffer.len() - SPACE_HEAD) / SPACE_RECORD;
    buffer.fill(0);
    buffer[0] = room as u64; // space_slots
    let to = buffer.as_mut_ptr();
    // SAFETY: `buffer` begins with the head, whose space_slots says how many records there is room
    // for after it.
    unsafe { syscall!(Gate::BtrfsSpaceInfo, fd.as_fd(), request, to) }?;
    Ok((buffer[1] as usize).min(room))
}

/// Packs two adjacent 32-bit fields into 64 bits.
fn two_words(first: u32, second: u32) -> u64 {
    let [a, b] = [first.to_ne_bytes(), second.to_ne_bytes()];
    u64::from_ne_bytes([a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]])
}
