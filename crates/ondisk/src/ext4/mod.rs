//! ext4, and with it ext2 and ext3, as it lies on the device.
//!
//! | module | what it parses |
//! |---|---|
//! | [`superblock`] | the superblock: sizes, features, where the group descriptors lie |
//! | [`group`] | group descriptors: where the inode tables lie |
//! | [`inode`] | inodes, in the terms of statx(2) |
//! | [`map`] | where the blocks of a directory lie: extents, or the block maps of ext2 |
//! | [`directory`] | the names in a block of a directory, or in an inode |
//! | `features` | the table of features |
//! | `inode_checksum`, `bytes` | checksums, integers |
//! | `error` | the [`Error`] of all of them |
//!
//! All integers are little-endian. Any byte may be damaged, torn, or crafted to attack: a parser
//! refuses whatever the kernel would refuse, and its caller then asks the kernel instead.
//! [ext4 data structures](https://docs.kernel.org/filesystems/ext4/)

mod bytes;
pub mod directory;
mod error;
#[allow(
    dead_code,
    reason = "most features only have to be known, and change nothing here"
)]
mod features;
pub mod group;
pub mod inode;
mod inode_checksum;
pub mod map;
pub mod superblock;

pub use directory::Names;
pub use error::{Error, FeatureSet};
pub use group::Group;
pub use inode::Inode;
pub use map::{Branch, Found, Map, Run};
pub use superblock::Superblock;
