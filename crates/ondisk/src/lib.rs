//! Bytes to structs: what the kernel and the disk hand us, parsed without I/O.
//!
//! Every parser takes bytes that anybody may have written, and answers with a struct or with
//! `None`; none panics. The fuzz targets under `fuzz/` and the property tests hold that.
//!
//! | room | what it parses |
//! |---|---|
//! | [`mountinfo`] | lines of /proc/self/mountinfo |
//! | [`statmount`] | the buffer of statmount(2) |
//! | [`mnttab`] | lines of /etc/mtab, fstab and the like, and their escapes |
//! | [`dirent`] | the buffer of getdents64(2) |
//! | [`fanotify`] | mount events |
//! | [`fiemap`] | where a file lies |
//! | [`btf`] | the kernel's description of its own types |
//! | [`perf`] | records of perf_event_open(2), formats of tracepoints |
//! | [`btrfs`] | what btrfs says of a subvolume |
//! | [`elf`] | what a program's file begins with: its interpreter |
//! | [`ext4`] | the superblock, inodes and directories of ext4 |
//! | [`pax`] | archives: headers written and read, maps of sparse files, lists of what was in a directory |
//! | [`xfs`] | what XFS says of itself and of its inodes |
#![forbid(unsafe_code)]

pub mod btf;
pub mod btrfs;
pub mod dirent;
pub mod elf;
mod escape;
pub mod ext4;
pub mod fanotify;
pub mod fiemap;
pub mod mnttab;
mod mount;
pub mod mountinfo;
pub mod pax;
pub mod perf;
pub mod statmount;
mod time;
pub mod xfs;

pub use mount::{Content, Dev, Mount, split_options};
pub use time::{ParseTimeError, Time};

/// A little- or big-endian integer, as this machine has them, at an offset of a buffer.
macro_rules! integer_at {
    ($name:ident, $t:ty) => {
        fn $name(bytes: &[u8], at: usize) -> Option<$t> {
            let end = at.checked_add(size_of::<$t>())?;
            bytes.get(at..end)?.try_into().ok().map(<$t>::from_ne_bytes)
        }
    };
}
integer_at!(u16_at, u16);
integer_at!(u32_at, u32);
integer_at!(u64_at, u64);
