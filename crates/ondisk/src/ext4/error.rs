//! Why an ext4 file system, or a directory, cannot be read from the device.

/// Why a superblock is refused, or how a directory is damaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum Error {
    #[error("the device has no ext4 superblock")]
    NoSuperblock,
    #[error("ext4 feature {0} is not supported")]
    UnreadableFeature(&'static str),
    #[error("ext4 {} feature {bit:#x} is unknown", set.name())]
    UnknownFeature { set: FeatureSet, bit: u32 },
    /// Revision 0: the kernel keeps times in memory that the inode cannot store.
    #[error("ext2 revision 0 reports times that are not on disk")]
    RevisionZero,
    /// The checksum is wrong: the superblock was being written while it was read (read it again),
    /// or is damaged.
    #[error("the checksum of the superblock is wrong")]
    SuperblockChecksum,
    /// This field of the superblock contradicts other fields.
    #[error("the superblock is damaged: {0}")]
    SuperblockField(&'static str),
    /// A node of the extent tree has no valid header, or its entries do not ascend.
    #[error("an invalid extent tree")]
    ExtentTree,
    #[error("an extent block with a wrong checksum")]
    ExtentChecksum,
    /// A block number is beyond the end of the file system, or before the first group.
    #[error("blocks outside the file system")]
    BlocksOutside,
    #[error("blocks that are allocated twice")]
    BlocksShared,
    #[error("blocks that cannot be read")]
    BlocksUnreadable,
    #[error("a directory block with a wrong checksum")]
    DirectoryChecksum,
    /// The extended attribute with the rest of the inline data is missing.
    #[error("missing inline data")]
    NoInlineData,
    /// A directory entry is longer than the rest of its block, or has an invalid inode number.
    #[error("an invalid directory entry")]
    Entry,
    /// A file name is empty, or contains a slash or NUL.
    #[error("a directory entry with an invalid name")]
    EntryName,
    /// The bytes after the last directory entry are too few for another one.
    #[error("a truncated directory entry")]
    EntryCutOff,
}

crate::named! {
    /// The words of feature bits in the superblock. The kernel ignores unknown bits in `Compat`,
    /// refuses to mount for unknown bits in `Incompat`, and to write for those in `RoCompat`; this
    /// parser refuses all unknown bits.
    FeatureSet {
        Compat "compat",
        Incompat "incompat",
        RoCompat "ro_compat",
    }
}
