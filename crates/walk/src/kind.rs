//! The engines, by name.

use serde::{Deserialize, Serialize};

base::named! {
    /// An engine.
    #[derive(PartialOrd, Ord, Hash, Serialize, Deserialize)]
    EngineKind {
        /// statx(2) of every name, by threads that share the directories.
        Threads "threads",
        /// XFS's bulkstat, joined with the names.
        Bulkstat "bulkstat",
        /// btrfs's trees, by tree search ioctls.
        Btrfs "btrfs",
        /// ext4's inode tables and directory blocks, read from the device.
        Ext4 "ext4",
        /// statx(2) of every name, by one thread: the reference.
        Stat "stat",
        /// A system call for each attribute, by one thread: for `dump --gather percall`.
        PerCall "percall",
    }
}

impl EngineKind {
    /// The engines that a walk chooses from.
    pub const SELECTABLE: [EngineKind; 5] = [
        EngineKind::Threads,
        EngineKind::Bulkstat,
        EngineKind::Btrfs,
        EngineKind::Ext4,
        EngineKind::Stat,
    ];

    /// The engine that works only on this type of file system, if there is one.
    pub(crate) fn for_fstype(fstype: &[u8]) -> Option<EngineKind> {
        match fstype {
            b"ext4" | b"ext3" | b"ext2" => Some(EngineKind::Ext4),
            b"xfs" => Some(EngineKind::Bulkstat),
            b"btrfs" => Some(EngineKind::Btrfs),
            _ => None,
        }
    }
}
