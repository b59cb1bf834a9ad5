//! ext4, and with it ext2 and ext3: what lies on the device.
//!
//! | room | what it parses |
//! |---|---|
//! | [`superblock`] | the superblock: sizes, features by name, where the rest lies |
//! | [`group`] | group descriptors: where the inode tables lie |
//! | [`inode`] | inodes, in the terms of statx(2) |
//! | [`map`] | where the blocks of a directory lie: extents, and the block maps of old |
//! | [`directory`] | the names in a block of a directory, or in the inode |
//!
//! Everything is little-endian, and everything may be damaged, torn, or made to attack. A parser
//! that meets what the kernel would refuse says so, and its caller asks the kernel. [ext4 data
//! structures](https://docs.kernel.org/filesystems/ext4/)

pub mod directory;
pub mod group;
pub mod inode;
pub mod map;
pub mod superblock;

pub use directory::Names;
pub use group::Group;
pub use inode::Inode;
pub use map::{Branch, Found, Map, Run};
pub use superblock::{Refused, Superblock};

/// What is on the device is not what the kernel writes there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault(pub &'static str);

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

/// The integer at an offset; zero where the bytes end too soon, which callers rule out beforehand.
macro_rules! little_endian {
    ($name:ident, $t:ty) => {
        #[inline(always)]
        fn $name(bytes: &[u8], at: usize) -> $t {
            bytes
                .get(at..)
                .and_then(|rest| rest.first_chunk())
                .map_or(0, |chunk| <$t>::from_le_bytes(*chunk))
        }
    };
}
little_endian!(le16, u16);
little_endian!(le32, u32);

/// CRC-32C as the kernel counts it: neither inverted before nor after.
#[inline]
fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
    !crc32c::crc32c_append(!crc, bytes)
}
