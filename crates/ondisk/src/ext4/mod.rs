//! On-disk structures of ext4, ext3 and ext2. [ext4 data
//! structures](https://docs.kernel.org/filesystems/ext4/)
//!
//! All integers are little-endian. Any byte may be damaged, torn, or crafted by an attacker: a
//! parser refuses everything that the kernel would refuse, and its caller then uses system calls
//! instead.

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
pub use map::{BlockMap, BlockRun, Branch, NodeEntry};
pub use superblock::Superblock;
