//! The present and the possible cost of usual work on a file system.

use pathsearch::Change;

use crate::section::Section;

base::named! {
    /// Usual work whose cost a survey estimates.
    Activity {
        /// Reading the metadata of every entry.
        Scan "scan",
        /// A dump every night.
        Backup "nightly backup",
        /// The start of a program.
        Start "program start",
        /// statx(2) of one file.
        Stat "stat",
        /// fsync(2) after one byte was written.
        Fsync "fsync",
    }
}

/// The cost of an activity.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum CostAmount {
    /// Measured seconds.
    Seconds(f64),
    /// Seconds estimated from a part of the work.
    EstimatedSeconds(f64),
    /// Bytes to read.
    Bytes(u64),
    /// Bytes to read, if an assumed share of the files has changed.
    EstimatedBytes(u64),
    /// An upper bound of the bytes to read.
    AtMostBytes(u64),
}

impl CostAmount {
    /// The value in seconds or bytes.
    pub fn value(self) -> f64 {
        match self {
            CostAmount::Seconds(seconds) | CostAmount::EstimatedSeconds(seconds) => seconds,
            CostAmount::Bytes(bytes)
            | CostAmount::EstimatedBytes(bytes)
            | CostAmount::AtMostBytes(bytes) => bytes as f64,
        }
    }

    /// Whether the amount is an estimate or an upper bound.
    pub fn is_estimated(self) -> bool {
        !matches!(self, CostAmount::Seconds(_) | CostAmount::Bytes(_))
    }

    /// The unit of the value.
    pub fn unit(self) -> &'static str {
        match self {
            CostAmount::Seconds(_) | CostAmount::EstimatedSeconds(_) => "seconds",
            CostAmount::Bytes(_) | CostAmount::EstimatedBytes(_) | CostAmount::AtMostBytes(_) => {
                "bytes"
            }
        }
    }
}

/// The change that lowers the cost of an activity to the possible cost; or, if the possible cost is
/// unknown, the way to measure that cost.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum CostReduction<'a> {
    /// Nothing measured costs less.
    Fastest,
    /// Walk with this engine, the fastest one.
    Engine(&'static str),
    /// Dump increments, with 1 % of the files changed.
    Increments,
    /// Change the environment of the program.
    Change(&'a Change),
    /// No change saves enough.
    NoChange,
    /// Keep metadata in memory.
    Cached,
    /// Call fsync(2) once for many writes.
    Batches,
    /// Unknown: run a longer survey (`--deep`).
    Deep,
    /// Unknown: run the command of this section.
    Measure(Section),
}

/// The present and the possible cost of an activity.
#[derive(Clone, Copy, PartialEq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ActivityCost<'a> {
    pub activity: Activity,
    /// `None` if unknown.
    pub now: Option<CostAmount>,
    /// `None` if nothing cheaper is known.
    pub possible: Option<CostAmount>,
    pub by: CostReduction<'a>,
    /// For a program start, the command.
    pub command: Option<&'static str>,
}
