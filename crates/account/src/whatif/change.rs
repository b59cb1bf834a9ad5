//! A change of a program, and what it would save.

use crate::patterns::PatternFix;
use crate::prices::FEWEST_CALLS;

/// Minimum seconds in all replaced calls: an estimate from less time would be noise.
const SHORTEST: f64 = 0.010;

/// The kind of change.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the fields are explained above them")]
pub enum ChangeKind {
    /// Avoid redundant calls by this change of the program.
    Spare(PatternFix),
    /// Replace stat by XFS's bulkstat; `is_asked` if there was any stat on XFS.
    Bulkstat { is_asked: bool },
    /// Replace stat by statx through io_uring: the prices of both in nanoseconds.
    Uring { ring: f64, stat: f64 },
    /// Replace stat by ext4's inode tables; `is_asked` if there was any stat on ext4.
    RawTables { is_asked: bool },
}

impl ChangeKind {
    /// The name of the change in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            ChangeKind::Spare(PatternFix::CombineStat) => "combine-stat",
            ChangeKind::Spare(PatternFix::CombineXattr) => "combine-xattr",
            ChangeKind::Spare(PatternFix::SkipXattr) => "skip-xattr",
            ChangeKind::Spare(PatternFix::KeepStat) => "keep-stat",
            ChangeKind::Spare(PatternFix::CacheMisses) => "cache-misses",
            ChangeKind::Spare(PatternFix::Buffer) => "buffer",
            ChangeKind::Spare(PatternFix::SyncOnce) => "sync-once",
            ChangeKind::Spare(PatternFix::DirectoryFd) => "directory-fd",
            ChangeKind::Bulkstat { .. } => "batch-bulkstat",
            ChangeKind::Uring { .. } => "batch-uring",
            ChangeKind::RawTables { .. } => "raw-tables",
        }
    }
}

/// A change, and its estimated saving.
#[derive(Clone, Debug, PartialEq)]
pub struct WhatIfChange {
    /// The kind of change.
    pub kind: ChangeKind,
    /// The number of avoided calls less the number of new calls.
    pub calls: i64,
    /// Saved CPU seconds, or saved elapsed seconds ([`super::WhatIf::elapsed`]); negative if the
    /// change costs more.
    pub seconds: f64,
    /// The saving as a percentage of the command's CPU time, or of its elapsed time.
    pub percent: f64,
    /// The saving by the memo's model: the fixed price of each avoided call, in seconds.
    pub overhead: f64,
    /// Metered time of the avoided calls in seconds, including waits. `None` where only prices are
    /// known.
    pub elapsed: Option<f64>,
    /// The calls that the estimate is based on.
    pub basis: ReplacedCalls,
    /// Whether the change is recommended.
    pub advised: bool,
}

/// The calls that a change replaces, as they were metered.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct ReplacedCalls {
    pub calls: u64,
    pub seconds: f64,
}

impl WhatIfChange {
    /// The elapsed time that the change saves, if that is much more than the saved CPU time:
    /// the avoided calls waited for a disk or a server.
    pub fn much_elapsed(&self) -> Option<f64> {
        /// Calls are metered with a few percent of noise, and calls of 50 µs or more count less.
        const MUCH: f64 = 2.0;
        self.elapsed
            .filter(|elapsed| *elapsed >= MUCH * self.seconds)
    }

    /// Whether there were too few calls, or too little time in them, for an estimate.
    pub fn is_too_short(&self) -> bool {
        self.basis.calls < FEWEST_CALLS || self.basis.seconds < SHORTEST
    }
}
