//! Why what lies on the device cannot be used.

/// Why the superblock is refused, or what is wrong with a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// There is no ext4 superblock.
    #[error("the device has no ext4 superblock")]
    NoSuperblock,
    /// The file system has a feature that cannot be read here, with this name.
    #[error("ext4 feature {0} cannot be read from the device")]
    UnreadableFeature(&'static str),
    /// The file system has a feature without a name.
    #[error("ext4 {} feature {bit:#x} is not known", set.name())]
    UnknownFeature {
        /// The word that the bit is set in.
        set: FeatureSet,
        /// The bit.
        bit: u32,
    },
    /// The oldest revision. The kernel keeps times in memory that it has no room to store.
    #[error("ext2 of revision 0 shows times that are not stored")]
    RevisionZero,
    /// The superblock was being written while it was read, or is damaged. Reading it again tells.
    #[error("the superblock fails its checksum")]
    SuperblockChecksum,
    /// A field of the superblock contradicts others.
    #[error("the superblock is damaged: {0}")]
    SuperblockField(&'static str),
    /// A node of an extent tree has no valid header, or its entries do not ascend.
    #[error("a tree of extents that is none")]
    ExtentTree,
    /// A node of an extent tree fails its checksum.
    #[error("a block of extents that fails its checksum")]
    ExtentChecksum,
    /// A block number beyond the file system, or before its first group.
    #[error("blocks outside the file system")]
    BlocksOutside,
    /// A block is in use twice.
    #[error("blocks that belong to something else as well")]
    BlocksShared,
    /// A block could not be read, or not all of it.
    #[error("blocks that cannot be read")]
    BlocksUnreadable,
    /// A block of a directory fails its checksum.
    #[error("a block that fails its checksum")]
    DirectoryChecksum,
    /// The attribute is missing that holds the rest of inline content.
    #[error("inline data that are missing")]
    NoInlineData,
    /// A directory entry is longer than the rest of its block, or its inode has no number.
    #[error("an entry that does not fit into its directory")]
    Entry,
    /// A name is empty, or has a slash or a NUL in it.
    #[error("an entry whose name is none")]
    EntryName,
    /// The bytes after the last directory entry are too few for another one.
    #[error("an entry that is cut off")]
    EntryCutOff,
}

/// The three words of feature bits in the superblock. The kernel treats an unknown bit differently
/// in each; here it is always refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FeatureSet {
    /// An unknown bit may be ignored.
    Compat,
    /// An unknown bit forbids mounting.
    Incompat,
    /// An unknown bit forbids writing.
    RoCompat,
}

impl FeatureSet {
    fn name(self) -> &'static str {
        match self {
            FeatureSet::Compat => "compat",
            FeatureSet::Incompat => "incompat",
            FeatureSet::RoCompat => "ro_compat",
        }
    }
}
