//! The engines, one file each: ways to find all entries of one mount.

use crate::job::Engine;
use crate::kind::EngineKind;

pub mod btrfs;
pub mod bulkstat;
mod crew;
mod exchange;
pub mod ext4;
mod inode_state;
mod node;
mod opened;
mod percall;
pub mod since;
pub(crate) mod stat;
pub(crate) mod threads;

/// The implementation of an engine.
pub fn engine(kind: EngineKind) -> &'static dyn Engine {
    match kind {
        EngineKind::Threads => &threads::Threads,
        EngineKind::Stat => &stat::Stat,
        EngineKind::PerCall => &percall::PerCall,
        EngineKind::Ext4 => &ext4::Ext4,
        EngineKind::Bulkstat => &bulkstat::Bulkstat,
        EngineKind::Btrfs => &btrfs::Btrfs,
    }
}
