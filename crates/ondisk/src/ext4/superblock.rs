//! The superblock.

use std::fmt;

use super::inode::Blank;
use super::{crc32c, le16, le32};

/// Where the superblock lies on the device, in bytes.
pub const OFFSET: u64 = 1024;
/// How long it is, in bytes.
pub const LENGTH: usize = 1024;

/// The three words of features; what the kernel does with a bit that it does not know differs, what
/// we do does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// May be ignored.
    Compat,
    /// Stands in the way of mounting.
    Incompat,
    /// Stands in the way of writing.
    RoCompat,
}

/// A feature: its word, its bit, the name that mke2fs and dumpe2fs give it, and whether it can be
/// read here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Feature {
    word: Word,
    bit: u32,
    /// The name.
    pub name: &'static str,
    readable: bool,
}

/// A table of features, each with a constant.
macro_rules! features {
    ($($constant:ident $word:ident $bit:literal $name:literal $readable:ident;)*) => {
        $(pub(in crate::ext4) const $constant: Feature =
            Feature { word: Word::$word, bit: $bit, name: $name, readable: features!(@$readable) };)*
        /// Every feature that has a name.
        pub(in crate::ext4) const FEATURES: &[Feature] = &[$($constant),*];
    };
    (@yes) => { true };
    (@no) => { false };
}

// Not readable is what Linux has never been able to mount, or what changes what the rest means.
#[allow(
    dead_code,
    reason = "most features are known so that they are not refused, and change nothing here"
)]
mod names {
    use super::{Feature, Word};

    features! {
        DIR_PREALLOC Compat 0x1 "dir_prealloc" yes;
        IMAGIC_INODES Compat 0x2 "imagic_inodes" yes;
        HAS_JOURNAL Compat 0x4 "has_journal" yes;
        EXT_ATTR Compat 0x8 "ext_attr" yes;
        RESIZE_INODE Compat 0x10 "resize_inode" yes;
        DIR_INDEX Compat 0x20 "dir_index" yes;
        LAZY_BG Compat 0x40 "lazy_bg" yes;
        EXCLUDE_INODE Compat 0x80 "exclude_inode" yes;
        EXCLUDE_BITMAP Compat 0x100 "snapshot_bitmap" yes;
        SPARSE_SUPER2 Compat 0x200 "sparse_super2" yes;
        FAST_COMMIT Compat 0x400 "fast_commit" yes;
        STABLE_INODES Compat 0x800 "stable_inodes" yes;
        ORPHAN_FILE Compat 0x1000 "orphan_file" yes;
        COMPRESSION Incompat 0x1 "compression" no;
        FILETYPE Incompat 0x2 "filetype" yes;
        RECOVER Incompat 0x4 "needs_recovery" yes;
        JOURNAL_DEV Incompat 0x8 "journal_dev" no;
        META_BG Incompat 0x10 "meta_bg" yes;
        EXTENTS Incompat 0x40 "extent" yes;
        BITS64 Incompat 0x80 "64bit" yes;
        MMP Incompat 0x100 "mmp" yes;
        FLEX_BG Incompat 0x200 "flex_bg" yes;
        EA_INODE Incompat 0x400 "ea_inode" yes;
        DIRDATA Incompat 0x1000 "dirdata" no;
        CSUM_SEED Incompat 0x2000 "metadata_csum_seed" yes;
        LARGEDIR Incompat 0x4000 "large_dir" yes;
        INLINE_DATA Incompat 0x8000 "inline_data" yes;
        ENCRYPT Incompat 0x10000 "encrypt" yes;
        CASEFOLD Incompat 0x20000 "casefold" yes;
        SPARSE_SUPER RoCompat 0x1 "sparse_super" yes;
        LARGE_FILE RoCompat 0x2 "large_file" yes;
        BTREE_DIR RoCompat 0x4 "btree_dir" yes;
        HUGE_FILE RoCompat 0x8 "huge_file" yes;
        GDT_CSUM RoCompat 0x10 "uninit_bg" yes;
        DIR_NLINK RoCompat 0x20 "dir_nlink" yes;
        EXTRA_ISIZE RoCompat 0x40 "extra_isize" yes;
        HAS_SNAPSHOT RoCompat 0x80 "has_snapshot" no;
        QUOTA RoCompat 0x100 "quota" yes;
        BIGALLOC RoCompat 0x200 "bigalloc" yes;
        METADATA_CSUM RoCompat 0x400 "metadata_csum" yes;
        REPLICA RoCompat 0x800 "replica" no;
        READONLY RoCompat 0x1000 "read-only" yes;
        PROJECT RoCompat 0x2000 "project" yes;
        SHARED_BLOCKS RoCompat 0x4000 "shared_blocks" yes;
        VERITY RoCompat 0x8000 "verity" yes;
        ORPHAN_PRESENT RoCompat 0x10000 "orphan_present" yes;
    }
}
pub(in crate::ext4) use names::*;

/// Why a superblock is not for us.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// No ext4 at all.
    Magic,
    /// A feature that cannot be read here.
    Feature(&'static str),
    /// A feature that nobody here has heard of: the word's name and the bit.
    Unknown(Word, u32),
    /// The oldest revision, before there were features: the kernel shows times that it has no room
    /// to store.
    Revision,
    /// The checksum does not hold: damaged, or torn, and then whole when it is read again.
    Checksum,
    /// What it says contradicts itself.
    Damaged(&'static str),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Magic => f.write_str("the device has no ext4 superblock"),
            Refused::Feature(name) => {
                write!(f, "ext4 feature {name} cannot be read from the device")
            }
            Refused::Unknown(word, bit) => {
                let word = match word {
                    Word::Compat => "compat",
                    Word::Incompat => "incompat",
                    Word::RoCompat => "ro_compat",
                };
                write!(f, "ext4 {word} feature {bit:#x} is not known")
            }
            Refused::Revision => f.write_str("ext2 of revision 0 shows times that are not stored"),
            Refused::Checksum => f.write_str("the superblock fails its checksum"),
            Refused::Damaged(what) => write!(f, "the superblock is damaged: {what}"),
        }
    }
}

/// A superblock that can be read, checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// Bytes in a block: a power of two from 1 KiB to 64 KiB.
    pub block_size: u32,
    /// Blocks in the file system.
    pub blocks: u64,
    /// The block at which the first group begins.
    pub first_block: u64,
    /// Groups.
    pub groups: u32,
    /// Inodes in the file system.
    pub inodes: u32,
    /// The first inode that is not reserved.
    pub first_inode: u32,
    /// Inodes in each group.
    pub inodes_per_group: u32,
    /// Bytes in an inode: a power of two, at least 128.
    pub inode_size: u32,
    /// Bytes in a group descriptor: a power of two, at least 32.
    pub descriptor_size: u32,
    /// The file system's UUID.
    pub uuid: [u8; 16],
    blocks_per_group: u32,
    first_meta_bg: u32,
    backup_groups: [u32; 2],
    features: [u32; 3],
    pub(super) seed: u32,
    pub(super) blank: Blank,
}

impl Superblock {
    /// Reads a superblock: the bytes from [`OFFSET`] on.
    ///
    /// # Errors
    /// Whatever keeps the rest from being read. A feature is refused by its name, and one without a
    /// name by its bit.
    pub fn parse(bytes: &[u8]) -> Result<Superblock, Refused> {
        let bytes: &[u8; LENGTH] = bytes.first_chunk().ok_or(Refused::Magic)?;
        let check = |holds, what| {
            if holds {
                Ok(())
            } else {
                Err(Refused::Damaged(what))
            }
        };
        if le16(bytes, 0x38) != 0xef53 {
            return Err(Refused::Magic);
        }
        let features = [0x5c, 0x60, 0x64].map(|at| le32(bytes, at));
        refuse_features(features)?;
        let has = |feature: Feature| features[feature.word as usize] & feature.bit != 0;

        if has(METADATA_CSUM) {
            check(bytes[0x175] == 1, "an unknown kind of checksum")?;
            if crc32c(!0, &bytes[..0x3fc]) != le32(bytes, 0x3fc) {
                return Err(Refused::Checksum);
            }
        }
        if le32(bytes, 0x4c) == 0 {
            return Err(Refused::Revision);
        }
        check(le32(bytes, 0x48) == 0, "made by another system than Linux")?;

        let log_block_size = le32(bytes, 0x18);
        check(log_block_size <= 6, "the block size")?;
        let block_size = 1024u32 << log_block_size;
        let inode_size = u32::from(le16(bytes, 0x58));
        check(
            inode_size.is_power_of_two() && (128..=block_size).contains(&inode_size),
            "the inode size",
        )?;
        let descriptor_size = if has(BITS64) {
            u32::from(le16(bytes, 0xfe))
        } else {
            32
        };
        let descriptor_sizes = if has(BITS64) { 64..=1024 } else { 32..=32 };
        check(
            descriptor_size.is_power_of_two() && descriptor_sizes.contains(&descriptor_size),
            "the size of group descriptors",
        )?;

        let blocks = u64::from(le32(bytes, 0x4))
            | if has(BITS64) {
                u64::from(le32(bytes, 0x150)) << 32
            } else {
                0
            };
        let first_block = u64::from(le32(bytes, 0x14));
        let blocks_per_group = le32(bytes, 0x20);
        let inodes_per_group = le32(bytes, 0x28);
        check(
            blocks
                .checked_mul(u64::from(block_size))
                .is_some_and(|bytes| bytes <= i64::MAX as u64),
            "its length",
        )?;
        check(first_block < blocks && blocks_per_group > 0, "its blocks")?;
        let groups = u32::try_from((blocks - first_block).div_ceil(u64::from(blocks_per_group)));
        let inodes = le32(bytes, 0);
        check(
            (block_size / inode_size..=block_size * 8).contains(&inodes_per_group),
            "the inodes of a group",
        )?;
        let groups = groups
            .ok()
            .filter(|groups| groups.checked_mul(inodes_per_group) == Some(inodes));
        let groups = groups.ok_or(Refused::Damaged("the number of inodes"))?;

        let uuid = *bytes[0x68..].first_chunk().unwrap_or(&[0; 16]);
        Ok(Superblock {
            block_size,
            blocks,
            first_block,
            groups,
            inodes,
            first_inode: le32(bytes, 0x54),
            inodes_per_group,
            inode_size,
            descriptor_size,
            uuid,
            blocks_per_group,
            first_meta_bg: le32(bytes, 0x104),
            backup_groups: [le32(bytes, 0x24c), le32(bytes, 0x250)],
            features,
            blank: Blank::new(inode_size),
            seed: if has(CSUM_SEED) {
                le32(bytes, 0x270)
            } else {
                crc32c(!0, &uuid)
            },
        })
    }

    #[inline(always)]
    pub(super) fn has(&self, feature: Feature) -> bool {
        self.features[feature.word as usize] & feature.bit != 0
    }

    /// Whether inodes, directories and descriptors carry checksums, so that damage and torn reads
    /// show.
    pub fn checks(&self) -> bool {
        self.has(METADATA_CSUM)
    }

    /// Whether directory entries tell the types of their files.
    pub fn tells_types(&self) -> bool {
        self.has(FILETYPE)
    }

    /// Whether there is a journal.
    pub fn journals(&self) -> bool {
        self.has(HAS_JOURNAL)
    }

    /// How many blocks of group descriptors there are.
    pub fn descriptor_blocks(&self) -> u32 {
        self.groups.div_ceil(self.block_size / self.descriptor_size)
    }

    /// The block that holds the `nth` block of group descriptors; `None` where it would lie outside
    /// the file system.
    pub fn descriptor_block(&self, nth: u32) -> Option<u64> {
        // With 1 KiB blocks the superblock has block 1 for itself, even if the first group begins
        // at block 0 (bigalloc).
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

    /// Whether a group begins with a copy of the superblock.
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

fn refuse_features(features: [u32; 3]) -> Result<(), Refused> {
    for (word, bits) in [Word::Compat, Word::Incompat, Word::RoCompat]
        .into_iter()
        .zip(features)
    {
        let mut unknown = bits;
        for feature in FEATURES
            .iter()
            .filter(|feature| feature.word == word && bits & feature.bit != 0)
        {
            if !feature.readable {
                return Err(Refused::Feature(feature.name));
            }
            unknown &= !feature.bit;
        }
        if unknown != 0 {
            return Err(Refused::Unknown(word, 1 << unknown.trailing_zeros()));
        }
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The superblock of `mke2fs -t ext4 -b 4096 -N 64 image 8M`, in its words that count.
    pub(in crate::ext4) fn plain() -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        let mut put =
            |at: usize, value: u32| bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        put(0x0, 64);
        put(0x4, 2048);
        put(0x18, 2);
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
    fn a_plain_one_is_read() {
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
        assert!(found.tells_types() && found.journals() && !found.checks());
        assert_eq!(found.descriptor_block(0), Some(1));
    }

    #[test]
    fn what_cannot_be_read_is_refused_by_name() {
        let with = |at: usize, bits: u32| {
            let mut bytes = plain();
            bytes[at..at + 4].copy_from_slice(&bits.to_le_bytes());
            Superblock::parse(&bytes).unwrap_err().to_string()
        };
        assert_eq!(
            with(0x60, 0x1002),
            "ext4 feature dirdata cannot be read from the device"
        );
        assert_eq!(
            with(0x60, 0x4_0002),
            "ext4 incompat feature 0x40000 is not known"
        );
        assert_eq!(
            with(0x64, 0x8000_0000),
            "ext4 ro_compat feature 0x80000000 is not known"
        );
        assert_eq!(
            with(0x64, 0x400),
            "the superblock is damaged: an unknown kind of checksum"
        );
        assert_eq!(with(0x38, 0), "the device has no ext4 superblock");
        assert_eq!(
            with(0x4c, 0),
            "ext2 of revision 0 shows times that are not stored"
        );
        assert_eq!(
            with(0x0, 63),
            "the superblock is damaged: the number of inodes"
        );
    }

    #[test]
    fn copies_lie_in_powers_of_three_five_and_seven() {
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
