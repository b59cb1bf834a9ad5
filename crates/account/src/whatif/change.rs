//! A change of a program, and what it would save.

use meter::syscalls::Kind;

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
            ChangeKind::Spare(fix) => fix.name(),
            ChangeKind::Bulkstat { .. } => "batch-bulkstat",
            ChangeKind::Uring { .. } => "batch-uring",
            ChangeKind::RawTables { .. } => "raw-tables",
        }
    }

    /// Whether the change replaces system calls of this kind.
    pub(crate) fn replaces(self, call: Kind) -> bool {
        use Kind::{Access, Close, Exec, Link, List, Open, Read, Stat, Sync, Write, Xattr};
        match self {
            ChangeKind::Spare(PatternFix::CombineStat) => matches!(call, Stat | Open | Close),
            ChangeKind::Spare(PatternFix::CombineXattr) => matches!(call, Xattr | Open | Close),
            ChangeKind::Spare(PatternFix::SkipXattr) => call == Xattr,
            ChangeKind::Spare(PatternFix::KeepStat) => call == Stat,
            ChangeKind::Spare(PatternFix::CacheMisses) => {
                matches!(call, Stat | Access | Link | Open | Exec | Xattr)
            }
            ChangeKind::Spare(PatternFix::Buffer) => matches!(call, Read | Write | List),
            ChangeKind::Spare(PatternFix::SyncOnce) => call == Sync,
            ChangeKind::Spare(PatternFix::DirectoryFd) => true,
            ChangeKind::Uring { .. } => matches!(call, Stat | Access | Link | Xattr),
            ChangeKind::Bulkstat { .. } | ChangeKind::RawTables { .. } => {
                matches!(call, Stat | Access | Link | List | Xattr | Open | Close)
            }
        }
    }
}

base::named! {
    /// Why a change is not recommended although it would save time.
    Obstacle {
        /// The command used too few files to read the metadata of a whole file system.
        FewFiles "few-files",
        /// The device of a file system cannot be opened.
        Device "device",
        /// The replacing calls usually cost more.
        Costlier "costlier",
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
    /// Why the change is not recommended, apart from the time that it saves.
    pub obstacle: Option<Obstacle>,
}

/// The calls that a change replaces, as they were metered.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct ReplacedCalls {
    pub calls: u64,
    pub seconds: f64,
}

impl ReplacedCalls {
    /// A number of calls, and the seconds in them.
    pub fn new(calls: u64, seconds: f64) -> ReplacedCalls {
        ReplacedCalls { calls, seconds }
    }

    /// Whether these are too few calls, or too little time in them, for an estimate.
    pub(crate) fn is_too_short(self) -> bool {
        self.calls < FEWEST_CALLS || self.seconds < SHORTEST
    }
}

/// The ratio of the whole run to its individually reported part, for the calls that a change
/// replaces; and the sums of these calls in the whole run, which no saving exceeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Extrapolation {
    /// The ratio of the numbers of calls.
    pub(crate) calls: f64,
    /// The ratio of the times.
    pub(crate) seconds: f64,
    pub(crate) all: ReplacedCalls,
}

impl WhatIfChange {
    /// Whether the change is recommended.
    pub fn is_advised(&self) -> bool {
        self.seconds > 0.0 && self.obstacle.is_none() && !self.is_too_short()
    }

    /// Extrapolates from the individually reported calls to the whole run.
    pub(crate) fn extrapolate(&mut self, to: &Extrapolation) {
        let limit = |seconds: f64| (seconds * to.seconds).min(to.all.seconds);
        let most = i64::try_from(to.all.calls).unwrap_or(i64::MAX);
        self.calls = most.min((self.calls as f64 * to.calls).round() as i64);
        self.seconds = limit(self.seconds);
        self.overhead = (self.overhead * to.calls).min(to.all.seconds);
        self.elapsed = self.elapsed.map(limit);
        let calls = (self.basis.calls as f64 * to.calls).round() as u64;
        self.basis = ReplacedCalls::new(calls.min(to.all.calls), limit(self.basis.seconds));
    }

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
        self.basis.is_too_short()
    }
}
