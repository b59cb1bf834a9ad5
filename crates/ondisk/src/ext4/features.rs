//! The features of ext4, by the names that mke2fs and dumpe2fs give them.
//!
//! The table has every known feature, so that an unknown bit can be refused. A feature is marked
//! `no` if no Linux can mount it, or if it changes the meaning of other structures.

use super::error::{Error, FeatureSet};

/// A feature bit of the superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FeatureBit {
    pub(super) set: FeatureSet,
    pub(super) bit: u32,
    name: &'static str,
    readable: bool,
}

/// Declares a constant for each feature, and the table of all features.
macro_rules! features {
    ($($constant:ident $set:ident $bit:literal $name:literal $readable:ident;)*) => {
        $(pub(super) const $constant: FeatureBit =
            FeatureBit { set: FeatureSet::$set, bit: $bit, name: $name, readable: features!(@$readable) };)*
        const FEATURES: &[FeatureBit] = &[$($constant),*];
    };
    (@yes) => { true };
    (@no) => { false };
}

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

/// Refuses a file system with unknown features, or features that change structures which this
/// parser reads.
pub(super) fn refuse_unreadable(features: [u32; 3]) -> Result<(), Error> {
    use FeatureSet::{Compat, Incompat, RoCompat};
    for (set, bits) in [Compat, Incompat, RoCompat].into_iter().zip(features) {
        let present = |feature: &&FeatureBit| feature.set == set && bits & feature.bit != 0;
        let mut unknown = bits;
        for feature in FEATURES.iter().filter(present) {
            if !feature.readable {
                return Err(Error::UnreadableFeature(feature.name));
            }
            unknown &= !feature.bit;
        }
        if unknown != 0 {
            return Err(Error::UnknownFeature {
                set,
                bit: 1 << unknown.trailing_zeros(),
            });
        }
    }
    Ok(())
}
