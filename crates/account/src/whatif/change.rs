//! A change of a program, and what it would save.

use crate::patterns::Spare;
use crate::prices::FEWEST_CALLS;

/// With less time in the calls, an estimate would be noise.
const SHORTEST: f64 = 0.010;

/// What would be changed.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the fields are explained above them")]
pub enum ChangeKind {
    /// Redundant calls go.
    Spare(Spare),
    /// XFS's bulkstat for each stat; whether there was any on such a file system.
    Bulkstat { is_asked: bool },
    /// statx by io_uring: its price, and that of a stat, in nanoseconds.
    Uring { ring: f64, stat: f64 },
    /// The inode tables of ext4 for each stat; whether there was any on such a file system.
    RawTables { is_asked: bool },
}

impl ChangeKind {
    /// Its name in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            ChangeKind::Spare(Spare::CombineStat) => "combine-stat",
            ChangeKind::Spare(Spare::CombineXattr) => "combine-xattr",
            ChangeKind::Spare(Spare::SkipXattr) => "skip-xattr",
            ChangeKind::Spare(Spare::KeepStat) => "keep-stat",
            ChangeKind::Spare(Spare::CacheMisses) => "cache-misses",
            ChangeKind::Spare(Spare::Buffer) => "buffer",
            ChangeKind::Spare(Spare::SyncOnce) => "sync-once",
            ChangeKind::Spare(Spare::DirectoryFd) => "directory-fd",
            ChangeKind::Bulkstat { .. } => "batch-bulkstat",
            ChangeKind::Uring { .. } => "batch-uring",
            ChangeKind::RawTables { .. } => "raw-tables",
        }
    }
}

/// A change, and what it would save.
#[derive(Clone, Debug, PartialEq)]
pub struct WhatIfChange {
    /// What would be changed.
    pub kind: ChangeKind,
    /// Calls that would go, less those that would come.
    pub calls: i64,
    /// CPU seconds that would be saved, or elapsed ones ([`super::WhatIf::elapsed`]); below 0, it would cost
    /// more.
    pub seconds: f64,
    /// Of the CPU time of the command, or of its elapsed time.
    pub percent: f64,
    /// By the memo's model: the fixed price of each call that goes, in seconds.
    pub overhead: f64,
    /// Time in the calls that would go, as it was metered, in seconds; waiting included. `None`
    /// where only prices are known.
    pub elapsed: Option<f64>,
    /// What the estimate rests on.
    pub basis: Basis,
    /// Whether it is worth doing.
    pub advised: bool,
}

/// The calls that a change replaces, as they were metered.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Basis {
    pub calls: u64,
    pub seconds: f64,
}

impl WhatIfChange {
    /// Whether too few calls, or too little time in them, were metered for an estimate.
    pub fn is_too_short(&self) -> bool {
        self.basis.calls < FEWEST_CALLS || self.basis.seconds < SHORTEST
    }
}
