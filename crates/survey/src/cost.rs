//! What the usual work on a file system costs now, and what it could cost.

use pathsearch::Change;

use crate::section::Section;

/// Work that a survey prices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activity {
    /// Reading the metadata of every entry.
    Scan,
    /// A dump in a night.
    Backup,
    /// The start of a program.
    Start,
    /// statx(2) of one file.
    Stat,
    /// fsync(2) after one byte was written.
    Fsync,
}

impl Activity {
    /// Its name in tables and in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Activity::Scan => "scan",
            Activity::Backup => "nightly backup",
            Activity::Start => "program start",
            Activity::Stat => "stat",
            Activity::Fsync => "fsync",
        }
    }
}

/// What an activity costs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Amount {
    /// Measured seconds.
    Seconds(f64),
    /// Seconds that a part of the work allows to estimate.
    EstimatedSeconds(f64),
    /// Bytes to read.
    Bytes(u64),
    /// Bytes to read, if as much changes as is assumed.
    EstimatedBytes(u64),
    /// At most so many bytes to read.
    AtMostBytes(u64),
}

impl Amount {
    /// Its value, in its unit.
    pub fn value(self) -> f64 {
        match self {
            Amount::Seconds(seconds) | Amount::EstimatedSeconds(seconds) => seconds,
            Amount::Bytes(bytes) | Amount::EstimatedBytes(bytes) | Amount::AtMostBytes(bytes) => {
                bytes as f64
            }
        }
    }

    /// Whether it is an estimate or an upper bound, and was not measured.
    pub fn is_estimated(self) -> bool {
        !matches!(self, Amount::Seconds(_) | Amount::Bytes(_))
    }

    /// Its unit.
    pub fn unit(self) -> &'static str {
        match self {
            Amount::Seconds(_) | Amount::EstimatedSeconds(_) => "seconds",
            Amount::Bytes(_) | Amount::EstimatedBytes(_) | Amount::AtMostBytes(_) => "bytes",
        }
    }
}

/// What makes the possible cost possible, or would tell an unknown one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Means<'a> {
    /// Nothing that was measured costs less.
    Fastest,
    /// This engine.
    Engine(&'static str),
    /// Dumping only what has changed; one file in a hundred.
    Increments,
    /// A change to the environment of the program.
    Change(&'a Change),
    /// No change saves enough.
    NoChange,
    /// Keeping metadata in memory.
    Cached,
    /// Calling it once for many writes.
    Batches,
    /// A longer survey (`--deep`) tells.
    Deep,
    /// The command of this section tells.
    Measure(Section),
}

/// What an activity costs now, and could cost.
#[derive(Clone, Copy, PartialEq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ActivityCost<'a> {
    pub activity: Activity,
    /// `None` where it is unknown.
    pub now: Option<Amount>,
    /// `None` where nothing cheaper is known.
    pub possible: Option<Amount>,
    pub by: Means<'a>,
    /// The command whose start it is.
    pub command: Option<&'static str>,
}
