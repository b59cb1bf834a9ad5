//! The engines, one file each: ways to learn of everything in one mount.

use std::fmt;

use gate::Errno;
use gate::fs::{Statfs, fstatfs};
use ondisk::Mount;

use crate::job::{Job, Top};

pub mod btrfs;
pub mod bulkstat;
mod crew;
pub mod ext4;
pub mod null;
mod opened;
pub mod percall;
pub mod stat;
pub mod threads;

/// The engines, by name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum EngineKind {
    /// statx(2) of every name, by threads that share the directories.
    Threads,
    /// XFS's bulkstat, joined with the names.
    Bulkstat,
    /// btrfs's trees, searched.
    Btrfs,
    /// ext4's tables, read from the device.
    Ext4,
    /// statx(2) of every name, by one thread: the plain reference.
    Stat,
    /// A call for each attribute, by one thread: what `dump --gather percall` measures the others
    /// against.
    PerCall,
}

impl EngineKind {
    /// All that a walk may be done by.
    pub const ALL: [EngineKind; 5] = [
        EngineKind::Threads,
        EngineKind::Bulkstat,
        EngineKind::Btrfs,
        EngineKind::Ext4,
        EngineKind::Stat,
    ];

    /// Its name: in `--engine`, in the JSON, of its file.
    pub fn name(self) -> &'static str {
        self.engine().name()
    }

    /// It itself.
    pub fn engine(self) -> &'static dyn Engine {
        match self {
            EngineKind::Threads => &threads::Threads,
            EngineKind::Stat => &stat::Stat,
            EngineKind::PerCall => &percall::PerCall,
            EngineKind::Ext4 => &ext4::Ext4,
            EngineKind::Bulkstat => &bulkstat::Bulkstat,
            EngineKind::Btrfs => &btrfs::Btrfs,
        }
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
    pub fn of(top: &'a Top, mount: Option<&'a Mount>) -> MountContext<'a> {
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

/// Why an engine cannot work somewhere, and what would help. Nothing has been handed over yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal(pub String);

impl Refusal {
    /// A call that failed.
    pub fn of(doing: &str, errno: Errno) -> Refusal {
        Refusal(format!("{doing}: {errno}"))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A way to learn of everything in one mount.
pub trait Engine: Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Whether it can work there, found out by few and cheap questions.
    ///
    /// # Errors
    /// Why it cannot, and what would help.
    fn possible(&self, ground: &MountContext<'_>) -> Result<(), Refusal>;

    /// Hands over everything below the job's top (but not the top itself) that is in the top's
    /// mount, each entry once.
    ///
    /// # Errors
    /// Only as long as nothing has been handed over. What fails later is a warning.
    fn walk(&self, job: &Job<'_>) -> Result<(), Refusal>;
}
