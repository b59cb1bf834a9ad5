//! Why the data on the device cannot be used.

/// Why the superblock is refused, or what is wrong with a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum Error {
    #[error("the device has no ext4 superblock")]
    NoSuperblock,
    #[error("ext4 feature {0} cannot be read from the device")]
    UnreadableFeature(&'static str),
    #[error("ext4 {} feature {bit:#x} is not known", set.name())]
    UnknownFeature { set: FeatureSet, bit: u32 },
    /// The kernel keeps times in memory that the inode cannot store.
    #[error("ext2 of revision 0 shows times that are not stored")]
    RevisionZero,
    /// The superblock was being written while it was read, or is damaged. Read it again.
    #[error("the superblock fails its checksum")]
    SuperblockChecksum,
    /// A field contradicts others.
    #[error("the superblock is damaged: {0}")]
    SuperblockField(&'static str),
    /// A node has no valid header, or its entries do not ascend.
    #[error("a tree of extents that is none")]
    ExtentTree,
    #[error("a block of extents that fails its checksum")]
    ExtentChecksum,
    /// A block number beyond the file system, or before its first group.
    #[error("blocks outside the file system")]
    BlocksOutside,
    #[error("blocks that belong to something else as well")]
    BlocksShared,
    #[error("blocks that cannot be read")]
    BlocksUnreadable,
    #[error("a block that fails its checksum")]
    DirectoryChecksum,
    /// The attribute with the rest of the inline data is missing.
    #[error("inline data that are missing")]
    NoInlineData,
    /// An entry is longer than the rest of its block, or has an invalid inode number.
    #[error("an entry that does not fit into its directory")]
    Entry,
    /// A name is empty, or contains a slash or NUL.
    #[error("an entry whose name is none")]
    EntryName,
    /// The bytes after the last entry are too few for another one.
    #[error("an entry that is cut off")]
    EntryCutOff,
}

/// The words of feature bits in the superblock. The kernel ignores unknown bits in `Compat`, and refuses
/// to mount for those in `Incompat` and to write for those in `RoCompat`; here all are refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "see above")]
pub enum FeatureSet {
    Compat,
    Incompat,
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
