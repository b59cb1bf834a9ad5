//! The superblock of ext4.

use super::bytes::{crc32c, le16, le32, wide64};
use super::error::Error;
use super::features::*;
use super::inode_checksum::CrcContributions;

/// Offset of the superblock on the device, in bytes.
pub const OFFSET: u64 = 1024;
/// Length of the superblock, in bytes.
pub const LENGTH: usize = 1024;

/// The superblock of a file system that these parsers support.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Superblock {
    /// Block size in bytes: a power of two from 1 KiB to 64 KiB.
    pub block_size: u32,
    /// Allocation unit in bytes: more than a block with bigalloc.
    pub cluster_size: u64,
    pub blocks: u64,
    /// Number of the block at which the first group begins.
    pub first_block: u64,
    pub groups: u32,
    pub inodes: u32,
    /// Number of the first inode that is not reserved.
    pub first_inode: u32,
    pub inodes_per_group: u32,
    /// Inode size in bytes: a power of two, at least 128.
    pub inode_size: u32,
    /// Size of a group descriptor in bytes: a power of two, at least 32.
    pub descriptor_size: u32,
    pub uuid: [u8; 16],
    /// Number of blocks that only root, or the user of `resuid=`, may use.
    pub reserved_blocks: u64,
    /// Number of blocks of superblocks, descriptors, bitmaps, inode tables and the journal; 0 if
    /// not recorded.
    pub overhead_blocks: u64,
    /// Size of the journal in bytes; `None` without an internal journal, or if not recorded.
    pub journal_size: Option<u64>,
    blocks_per_group: u32,
    first_meta_bg: u32,
    backup_groups: [u32; 2],
    features: [u32; 3],
    pub(super) seed: u32,
    pub(super) checksum_contributions: CrcContributions,
}

impl Superblock {
    /// Parses a superblock: the bytes from [`OFFSET`] on.
    ///
    /// # Errors
    /// The first reason why the file system is not supported.
    pub fn parse(bytes: &[u8]) -> Result<Superblock, Error> {
        let bytes: &[u8; LENGTH] = bytes.first_chunk().ok_or(Error::NoSuperblock)?;
        if le16(bytes, 0x38) != 0xef53 {
            return Err(Error::NoSuperblock);
        }
        let features = [0x5c, 0x60, 0x64].map(|at| le32(bytes, at));
        refuse_unreadable(features)?;
        let has = |feature: FeatureBit| features[feature.set as usize] & feature.bit != 0;
        check_integrity(bytes, has(METADATA_CSUM))?;
        let [block_size, inode_size, descriptor_size] = parse_sizes(bytes, has(BITS64))?;
        let uuid = *bytes[0x68..].first_chunk().unwrap_or(&[0; 16]);
        let seed = if has(CSUM_SEED) {
            le32(bytes, 0x270)
        } else {
            crc32c(!0, &uuid)
        };
        let mut superblock = Superblock {
            block_size,
            cluster_size: 1024 << le32(bytes, 0x1c).min(32),
            blocks: wide64(bytes, 0x4, has(BITS64).then_some(0x150)),
            first_block: u64::from(le32(bytes, 0x14)),
            groups: 0,
            inodes: le32(bytes, 0),
            first_inode: le32(bytes, 0x54),
            inodes_per_group: le32(bytes, 0x28),
            inode_size,
            descriptor_size,
            uuid,
            reserved_blocks: wide64(bytes, 0x8, has(BITS64).then_some(0x154)),
            overhead_blocks: u64::from(le32(bytes, 0x248)),
            journal_size: parse_journal_size(bytes),
            blocks_per_group: le32(bytes, 0x20),
            first_meta_bg: le32(bytes, 0x104),
            backup_groups: [le32(bytes, 0x24c), le32(bytes, 0x250)],
            features,
            seed,
            checksum_contributions: CrcContributions::new(inode_size),
        };
        superblock.groups = superblock.count_groups()?;
        Ok(superblock)
    }

    /// Checks the numbers of blocks and inodes, and returns the number of groups.
    fn count_groups(&self) -> Result<u32, Error> {
        let (blocks, per_group) = (self.blocks, u64::from(self.blocks_per_group));
        let length = blocks.checked_mul(u64::from(self.block_size));
        let is_valid = length.is_some_and(|length| length <= i64::MAX as u64);
        check(is_valid, "its length")?;
        check(self.first_block < blocks && per_group > 0, "its blocks")?;
        let allowed = self.block_size / self.inode_size..=self.block_size * 8;
        check(
            allowed.contains(&self.inodes_per_group),
            "the inodes of a group",
        )?;
        u32::try_from((blocks - self.first_block).div_ceil(per_group))
            .ok()
            .filter(|groups| groups.checked_mul(self.inodes_per_group) == Some(self.inodes))
            .ok_or(Error::SuperblockField("the number of inodes"))
    }

    #[inline(always)]
    pub(super) fn has(&self, feature: FeatureBit) -> bool {
        self.features[feature.set as usize] & feature.bit != 0
    }

    /// Whether inodes, directories and descriptors have checksums, which reveal damage and torn
    /// reads.
    pub fn has_checksums(&self) -> bool {
        self.has(METADATA_CSUM)
    }

    /// Whether directory entries have file types.
    pub(super) fn has_entry_types(&self) -> bool {
        self.has(FILETYPE)
    }

    /// Number of blocks with group descriptors.
    pub fn descriptor_blocks(&self) -> u32 {
        self.groups.div_ceil(self.block_size / self.descriptor_size)
    }

    /// Number of the `nth` block of group descriptors; `None` if it is outside the file system.
    pub fn descriptor_block(&self, nth: u32) -> Option<u64> {
        // With blocks of 1 KiB the superblock occupies block 1, even if the first group begins at
        // block 0 (bigalloc).
        let place = if !self.has(META_BG) || nth < self.first_meta_bg {
            let own = u64::from(self.block_size == 1024);
            own + 1 + u64::from(nth)
        } else {
            let group = nth.checked_mul(self.block_size / self.descriptor_size)?;
            let boot = u64::from(self.block_size == 1024 && nth == 0 && self.first_block == 0);
            let start = self.first_block + u64::from(group) * u64::from(self.blocks_per_group);
            start + boot + u64::from(self.has_superblock(group))
        };
        (place < self.blocks).then_some(place)
    }

    /// Whether a group begins with a backup of the superblock.
    fn has_superblock(&self, group: u32) -> bool {
        let power_of = |base: u32| {
            std::iter::successors(Some(base), |p| p.checked_mul(base)).any(|p| p == group)
        };
        if self.has(SPARSE_SUPER2) {
            group == 0 || self.backup_groups.contains(&group)
        } else {
            group <= 1 || !self.has(SPARSE_SUPER) || [3, 5, 7].into_iter().any(power_of)
        }
    }
}

/// The size of the journal, from the backup of its inode in the superblock: `s_jnl_blocks`.
fn parse_journal_size(bytes: &[u8; LENGTH]) -> Option<u64> {
    let (journal_inum, jnl_backup_type) = (le32(bytes, 0xe0), bytes[0xfd]);
    // Layout of the backup: i_block[15], i_size_high, i_size
    let size = wide64(bytes, 0x14c, Some(0x148));
    (journal_inum != 0 && jnl_backup_type == 1).then_some(size)
}

/// Sizes of a block, an inode and a group descriptor, in bytes.
fn parse_sizes(bytes: &[u8; LENGTH], is_64bit: bool) -> Result<[u32; 3], Error> {
    let log_block_size = le32(bytes, 0x18);
    check(log_block_size <= 6, "the block size")?;
    let block = 1024u32 << log_block_size;
    let inode = u32::from(le16(bytes, 0x58));
    let is_valid = inode.is_power_of_two() && (128..=block).contains(&inode);
    check(is_valid, "the inode size")?;
    let (descriptor, allowed) = if is_64bit {
        (u32::from(le16(bytes, 0xfe)), 64..=1024)
    } else {
        (32, 32..=32)
    };
    let is_valid = descriptor.is_power_of_two() && allowed.contains(&descriptor);
    check(is_valid, "the size of group descriptors")?;
    Ok([block, inode, descriptor])
}

/// Checks the checksum, if there is one, and the fields for revision and creator.
fn check_integrity(bytes: &[u8; LENGTH], has_checksum: bool) -> Result<(), Error> {
    if has_checksum {
        check(bytes[0x175] == 1, "an unknown kind of checksum")?;
        if crc32c(!0, &bytes[..0x3fc]) != le32(bytes, 0x3fc) {
            return Err(Error::SuperblockChecksum);
        }
    }
    if le32(bytes, 0x4c) == 0 {
        return Err(Error::RevisionZero);
    }
    check(le32(bytes, 0x48) == 0, "made by another system than Linux")
}

fn check(is_valid: bool, field: &'static str) -> Result<(), Error> {
    is_valid.then_some(()).ok_or(Error::SuperblockField(field))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The relevant fields of the superblock of `mke2fs -t ext4 -b 4096 -N 64 image 8M`.
    pub(in crate::ext4) fn plain() -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        let mut put =
            |at: usize, value: u32| bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        put(0x0, 64);
        put(0x4, 2048);
        put(0x18, 2);
        put(0x1c, 2);
        put(0x20, 32768);
        put(0x28, 64);
        put(0x38, 0xef53);
        put(0x4c, 1);
        put(0x54, 11);
        put(0x58, 256);
        put(0x5c, 0x3c);
        put(0x60, 0x2c2);
        put(0x64, 0x6b);
        put(0xfc, 64 << 16);
        bytes
    }

    #[test]
    fn a_plain_superblock_is_read() {
        let found = Superblock::parse(&plain()).unwrap();
        assert_eq!(
            (
                found.block_size,
                found.groups,
                found.inode_size,
                found.descriptor_size
            ),
            (4096, 1, 256, 64)
        );
        assert!(found.has_entry_types() && !found.has_checksums());
        assert_eq!(found.descriptor_block(0), Some(1));
        assert_eq!((found.reserved_blocks, found.journal_size), (0, None));
        assert_eq!(found.cluster_size, 4096);
    }

    #[test]
    fn reserved_blocks_and_the_journal_are_read() {
        let mut bytes = plain();
        let mut put =
            |at: usize, value: u32| bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        put(0x8, 102);
        put(0xe0, 8);
        put(0xfc, 64 << 16 | 1 << 8);
        put(0x14c, 16 << 20);
        put(0x248, 1100);
        let found = Superblock::parse(&bytes).unwrap();
        let read = (
            found.reserved_blocks,
            found.journal_size,
            found.overhead_blocks,
        );
        assert_eq!(read, (102, Some(16 << 20), 1100));
    }

    #[test]
    fn unsupported_superblock_is_named_in_the_error() {
        let with = |at: usize, bits: u32| {
            let mut bytes = plain();
            bytes[at..at + 4].copy_from_slice(&bits.to_le_bytes());
            Superblock::parse(&bytes).unwrap_err().to_string()
        };
        assert_eq!(with(0x60, 0x1002), "ext4 feature dirdata is not supported");
        assert_eq!(
            with(0x60, 0x4_0002),
            "ext4 incompat feature 0x40000 is unknown"
        );
        assert_eq!(
            with(0x64, 0x8000_0000),
            "ext4 ro_compat feature 0x80000000 is unknown"
        );
        assert_eq!(
            with(0x64, 0x400),
            "the superblock is damaged: an unknown kind of checksum"
        );
        assert_eq!(with(0x38, 0), "the device has no ext4 superblock");
        assert_eq!(
            with(0x4c, 0),
            "ext2 revision 0 reports times that are not on disk"
        );
        assert_eq!(
            with(0x0, 63),
            "the superblock is damaged: the number of inodes"
        );
    }

    #[test]
    fn backups_are_in_groups_that_are_powers_of_three_five_and_seven() {
        let found = Superblock::parse(&plain()).unwrap();
        let groups: Vec<_> = (0..130)
            .filter(|&group| found.has_superblock(group))
            .collect();
        assert_eq!(groups, [0, 1, 3, 5, 7, 9, 25, 27, 49, 81, 125]);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(mut bytes in proptest::collection::vec(any::<u8>(), LENGTH), nth: u32) {
            bytes[0x38..0x3a].copy_from_slice(&[0x53, 0xef]);
            let _ = Superblock::parse(&bytes);
            let mut plain = plain();
            plain[..0x30].copy_from_slice(&bytes[..0x30]);
            if let Ok(found) = Superblock::parse(&plain) {
                found.descriptor_block(nth);
            }
        }
    }
}
