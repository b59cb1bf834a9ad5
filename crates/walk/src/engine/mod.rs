//! The engines, one file each: ways to learn of everything in one mount.

use gate::fs::{Statfs, fstatfs};
use ondisk::Mount;

use crate::error::EngineRefusal;
use crate::job::{Job, Top};
use crate::kind::EngineKind;

pub mod btrfs;
pub mod bulkstat;
mod crew;
pub mod ext4;
pub mod null;
mod opened;
pub mod percall;
pub mod stat;
pub mod threads;

/// The engine of that name.
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

/// What is known of a place before it is walked.
#[derive(Debug)]
pub struct MountContext<'a> {
    /// The directory.
    pub top: &'a Top,
    /// The row of the mount table for the mount that it is on, where there is a table.
    pub mount: Option<&'a Mount>,
    /// What statfs(2) says of the file system.
    pub statfs: Statfs,
    /// Whether this process is the superuser.
    pub is_root: bool,
    /// Whether access times are to stay as they are.
    pub noatime: bool,
    /// About how many entries there are below the directory, if that is known.
    pub expected: Option<u64>,
    /// Whether what is dirty is written before anything is read, whichever engine it is.
    pub is_written: bool,
}

impl<'a> MountContext<'a> {
    /// Asks what is to be known.
    pub fn new(top: &'a Top, mount: Option<&'a Mount>) -> MountContext<'a> {
        let statfs = fstatfs(&top.fd).unwrap_or_default();
        let is_root = gate::process::is_root();
        MountContext {
            top,
            mount,
            statfs,
            is_root,
            noatime: false,
            expected: None,
            is_written: false,
        }
    }

    /// Whether owners are shown otherwise than they are stored.
    pub fn is_idmapped(&self) -> bool {
        self.mount.is_some_and(|m| {
            ondisk::split_options(&m.content.options).any(|option| option == b"idmapped")
        })
    }
}

/// A way to learn of everything in one mount.
pub trait Engine: Sync {
    /// Whether it can work there, found out by few and cheap questions.
    ///
    /// # Errors
    /// Why it cannot, and what would help.
    fn possible(&self, context: &MountContext<'_>) -> Result<(), EngineRefusal>;

    /// Hands over everything below the job's top (but not the top itself) that is in the top's
    /// mount, each entry once.
    ///
    /// # Errors
    /// Only as long as nothing has been handed over. What fails later is a warning.
    fn walk(&self, job: &Job<'_>) -> Result<(), EngineRefusal>;
}
