//! Bytes to structs: data of the kernel and of disks, parsed without I/O.
//!
//! Every parser accepts arbitrary bytes, returns a struct or `None`, and never panics. The fuzz targets
//! under `fuzz/` and the property tests check that.
//!
//! | module | what it parses |
//! |---|---|
//! | [`mountinfo`] | lines of /proc/self/mountinfo |
//! | [`statmount`] | the buffer of statmount(2) |
//! | [`mnttab`] | lines of /etc/mtab and fstab, and their escapes |
//! | [`dirent`] | the buffer of getdents64(2) |
//! | [`fanotify`] | mount events |
//! | [`fiemap`] | extents of files |
//! | [`fsmap`] | owners of the space of a device |
//! | [`btf`] | the kernel's description of its own types |
//! | [`btrfs`] | items of btrfs trees, subvolumes |
//! | [`elf`] | the interpreter of a program or script, and the RUNPATH of a program or library |
//! | [`ext4`] | the superblock, inodes and directories of ext4 |
//! | [`members`] | the index of the members of an archive |
//! | [`nfs4_acl`] | access control lists of NFSv4 |
//! | [`pax`] | archives: headers, maps of sparse files, dumpdirs, access control lists |
//! | [`seekable`] | the seek table of zstd's seekable format |
//! | [`varint`] | numbers of variable length |
//! | [`xfs`] | geometry and inodes of XFS |
#![forbid(unsafe_code)]

pub mod btf;
pub mod btrfs;
pub mod dirent;
pub mod elf;
mod escape;
pub mod ext4;
pub mod fanotify;
pub mod fiemap;
mod file_type;
pub mod fsmap;
pub mod members;
pub mod mnttab;
mod mount;
pub mod mountinfo;
pub mod nfs4_acl;
pub mod pax;
pub mod seekable;
pub mod statmount;
mod time;
pub mod varint;
pub mod xfs;

pub use file_type::FileType;
pub use mount::{Content, Dev, Mount, option_value, split_options};
pub use time::{ParseTimeError, Time, civil, utc};

/// Defines an enum whose variants have names, such as those in the JSON. `ALL` lists the variants
/// in their order, and `name` returns the name of a variant.
#[macro_export]
macro_rules! named {
    ($(#[$about:meta])* $type:ident { $($(#[$doc:meta])* $variant:ident $name:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $type {
            $(#[doc = concat!("`", $name, "`")] $(#[$doc])* $variant,)*
        }

        impl $type {
            /// All variants, in order.
            pub const ALL: [$type; [$($name),*].len()] = [$($type::$variant),*];

            /// The name of the variant.
            pub fn name(self) -> &'static str {
                match self { $($type::$variant => $name,)* }
            }
        }
    };
}

/// Defines a function that reads an integer at an offset of a buffer.
macro_rules! integer_at {
    ($name:ident, $from_bytes:expr, $t:ty) => {
        #[inline]
        fn $name(bytes: &[u8], at: usize) -> Option<$t> {
            let end = at.checked_add(size_of::<$t>())?;
            bytes.get(at..end)?.try_into().ok().map($from_bytes)
        }
    };
}
integer_at!(u16_at, u16::from_ne_bytes, u16);
integer_at!(u32_at, u32::from_ne_bytes, u32);
integer_at!(u64_at, u64::from_ne_bytes, u64);
integer_at!(le16, u16::from_le_bytes, u16);
integer_at!(le32, u32::from_le_bytes, u32);
integer_at!(le64, u64::from_le_bytes, u64);
