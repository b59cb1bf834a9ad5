//! The engines, by name.

use serde::{Deserialize, Serialize};

/// An engine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum EngineKind {
    /// statx(2) of every name, by threads that share the directories.
    Threads,
    /// XFS's bulkstat, joined with the names.
    Bulkstat,
    /// btrfs's trees, by tree search ioctls.
    Btrfs,
    /// ext4's inode tables and directory blocks, read from the device.
    Ext4,
    /// statx(2) of every name, by one thread: the reference.
    Stat,
    /// A system call for each attribute, by one thread: for `dump --gather percall`.
    PerCall,
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

    /// Name of the engine on the command line and in JSON; also that of its source file.
    pub fn name(self) -> &'static str {
        match self {
            EngineKind::Threads => "threads",
            EngineKind::Bulkstat => "bulkstat",
            EngineKind::Btrfs => "btrfs",
            EngineKind::Ext4 => "ext4",
            EngineKind::Stat => "stat",
            EngineKind::PerCall => "percall",
        }
    }

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
