//! What an experiment has found: the value, how it was found, and what the kernel itself reports.

use gate::{Errno, Gate};
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::error::{ErrnoCode, Error};
use crate::names::{Kind, Quantity, SeenBy};

/// A value that was found, or that the kernel reports.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Value {
    /// A number.
    Number(f64),
    /// Between these two.
    Range(f64, f64),
    /// Several, in order.
    List(Vec<u64>),
    /// A clock.
    Clock(Clock),
    /// Whether something holds.
    Holds(bool),
}

impl From<u64> for Value {
    fn from(value: u64) -> Value {
        Value::Number(value as f64)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Value {
        Value::Number(value)
    }
}

/// Where the kernel reports a value.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Source {
    /// statfs(2), `f_frsize`.
    Statfs,
    /// The page size, or the block size where blocks are larger.
    Page,
    /// ext4's superblock, `s_log_cluster_size`.
    Superblock,
    /// statx(2), `stx_dio_offset_align`.
    Statx,
    /// sysinfo(2).
    Sysinfo,
    /// `FS_IOC_FIEMAP`.
    Fiemap,
    /// A file below /sys.
    File(String),
}

/// A value that the kernel reports.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Truth {
    /// The value.
    pub value: Value,
    /// Where it is reported.
    pub source: Source,
}

impl Truth {
    /// A value and where it is reported.
    pub fn new(value: impl Into<Value>, source: Source) -> Truth {
        Truth {
            value: value.into(),
            source,
        }
    }
}

/// Why the time-stamp counter is not trusted.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Distrust {
    /// There is none, or it is not read in order.
    NoCounter,
    /// Its speed may change with the processor's.
    NotInvariant,
    /// The kernel's clock source is another one.
    ClockSource(String),
    /// Its speed differed between windows by so many millionths.
    Drift {
        /// How many windows were compared.
        windows: usize,
        /// The difference.
        ppm: f64,
    },
    /// It ran backwards from one processor to the next.
    Backwards,
}

/// What a figure over several windows of time says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum WindowFigure {
    /// The worst of them.
    Worst,
    /// The worst of them, of a clock that is steered.
    WorstOfSteered,
    /// How far they lie apart.
    Spread,
}

/// Why a clock was chosen.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub enum ClockReason {
    /// The counter is trusted, and costs less than half.
    TscCheaper,
    /// There is no trusted counter, and each reading enters the kernel, for so many nanoseconds.
    EntersKernel(f64),
    /// It costs little, and every machine has it.
    RawGoodEnough,
}

/// The means by which a period was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum PeriodBy {
    /// A comb laid over the times.
    Comb,
    /// The distances of the peaks.
    Peaks,
}

/// How a value was found.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are named after what they count")]
pub enum Method {
    /// The quickest batch of clock readings.
    QuickestBatch { batches: usize, readings: u32 },
    /// The least difference of two readings that differ.
    LeastStep,
    /// Two clocks compared over windows of time.
    Windows {
        windows: usize,
        millis: u64,
        figure: WindowFigure,
    },
    /// The counter was checked; it is trusted if nothing speaks against it.
    TscChecked(Vec<Distrust>),
    /// The clock was chosen from the costs and the check.
    ClockChosen(ClockReason),
    /// The length of the data around single bytes in a sparse file.
    DataLength {
        places: usize,
        length: u64,
        agreeing: usize,
    },
    /// What a byte in a hole adds to st_blocks, and the least hole that reduces it.
    Cluster {
        grown: Option<u64>,
        hole: Option<u64>,
    },
    /// What one read brought into memory.
    OneByteRead {
        bytes: u64,
        by: SeenBy,
        agreeing: usize,
        trials: u64,
    },
    /// Reads with O_DIRECT, ever less aligned.
    DirectReads { align: u64 },
    /// The first of each group of small calls takes longer.
    FirstOfGroup {
        kind: Kind,
        samples: usize,
        step: u64,
        runs: u64,
    },
    /// Each nth read takes longer.
    EachNth {
        reads: usize,
        step: u64,
        by: PeriodBy,
        n: u64,
        /// The first distance, where it alone is another one.
        first: Option<usize>,
    },
    /// Of the blocks that are fetched at once, all but the one that was read.
    AllButFirst { fetched: u64 },
    /// What was in memory after the first read.
    AfterFirstRead,
    /// What each read had fetched, until it no longer changed.
    EachRead,
    /// What each later window held.
    LaterWindows { alike: usize, windows: usize },
    /// What was unread when the next window was fetched.
    UnreadAtFetch,
    /// The second pass through a file costs more from a length on.
    SecondPass { bytes: u64, step: u64, run: u64 },
    /// What stayed in memory of a file's holes no longer grew.
    HolesFilled {
        steps: usize,
        step: u64,
        after: usize,
    },
    /// FIEMAP: the number of extents.
    ExtentCount { mebibytes: u64, count: u64 },
    /// FIEMAP: the largest extent, and the median length.
    LargestExtent { count: u64, median: f64 },
    /// FIEMAP: the share that lies outside the largest extent.
    OutsideLargest { mebibytes: u64 },
    /// The distance of the longer waits for fsync(2).
    LongSyncs {
        samples: usize,
        step: u64,
        waits: usize,
        low: f64,
        high: f64,
    },
    /// The device's own count of reads, where FIEMAP failed.
    DeviceReads {
        #[serde(with = "ErrnoCode")]
        errno: Errno,
        mebibytes: usize,
        usual: u64,
        agreeing: usize,
    },
    /// getppid(2), and why not all calls could be priced.
    EmptyCalls {
        calls: u64,
        incomplete: Option<Box<Error>>,
    },
}

/// What bounds the page cache of this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum CacheBound {
    /// The limit of a cgroup.
    Cgroup,
    /// All memory, of which so many bytes are available now.
    Memory(Option<u64>),
}

/// What qualifies a finding.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Note {
    /// Reads of 512 bytes say the same.
    ConfirmedBy512,
    /// What was seen in memory says otherwise.
    ContradictedByResidency,
    /// What was in memory was seen by this call.
    SeenBy(SeenBy),
    /// In a cgroup whose limit was chosen; outside, so many bytes are available.
    OwnCgroup {
        /// `MemAvailable`.
        available: u64,
    },
    /// In the cgroup of this process, which holds so many bytes of other files.
    CurrentCgroup {
        /// Page cache of other files.
        others: u64,
    },
}

/// What came of an experiment.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Outcome {
    /// A value.
    Found {
        /// The value.
        value: Value,
        /// From 0 to 1: of what was seen directly, the share of the trials that agree; of what was
        /// inferred from times, 1 less the chance that noise looks like that.
        confidence: f64,
        /// How it was found.
        method: Method,
    },
    /// The kernel's value was looked up, and not measured.
    LookedUp(CacheBound),
    /// Reads of 256 and of 512 bytes contradict each other.
    Disagree(Box<[Outcome; 2]>),
    /// Nothing, for this reason.
    Unknown(Error),
}

/// One thing that was found, or could not be.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// What it is.
    pub quantity: Quantity,
    /// What came of it.
    pub outcome: Outcome,
    /// What the kernel reports.
    pub truth: Option<Truth>,
    /// Whether the two agree; `None` where one is missing.
    pub agrees: Option<bool>,
    /// Whether it rests on times alone.
    pub by_time: bool,
    /// How many trials there were.
    pub trials: u32,
    /// What qualifies it.
    pub note: Option<Note>,
}

impl Finding {
    /// A finding with this outcome.
    pub fn new(quantity: Quantity, outcome: Outcome) -> Finding {
        Finding {
            trials: matches!(outcome, Outcome::Found { .. }).into(),
            quantity,
            outcome,
            truth: None,
            agrees: None,
            by_time: false,
            note: None,
        }
    }

    /// A finding that could not be made.
    pub fn unknown(quantity: Quantity, why: Error) -> Finding {
        Finding::new(quantity, Outcome::Unknown(why))
    }

    /// A value that was found.
    pub fn known(
        quantity: Quantity,
        value: impl Into<Value>,
        confidence: f64,
        method: Method,
    ) -> Finding {
        let outcome = Outcome::Found {
            value: value.into(),
            confidence: confidence.clamp(0.0, 1.0),
            method,
        };
        Finding::new(quantity, outcome)
    }

    /// The same, by times alone.
    pub fn by_time(self) -> Finding {
        Finding {
            by_time: true,
            ..self
        }
    }

    /// The same, from so many trials.
    pub fn with_trials(self, trials: usize) -> Finding {
        Finding {
            trials: u32::try_from(trials).unwrap_or(u32::MAX),
            ..self
        }
    }

    /// The same, qualified.
    pub fn with_note(self, note: Note) -> Finding {
        Finding {
            note: Some(note),
            ..self
        }
    }

    /// Compares it with what the kernel reports; numbers agree within a share of `tolerance`.
    pub fn compared_with(mut self, truth: Option<Truth>, tolerance: f64) -> Finding {
        let near = |a: f64, b: f64| (a - b).abs() <= tolerance * b.abs();
        self.agrees =
            self.value()
                .zip(truth.as_ref())
                .map(|(value, truth)| match (value, &truth.value) {
                    (Value::Number(a), Value::Number(b)) => near(*a, *b),
                    (Value::Range(low, high), Value::Number(b)) => {
                        (*low <= *b && *b <= *high) || near(*low, *b) || near(*high, *b)
                    }
                    (a, b) => a == b,
                });
        self.truth = truth;
        self
    }

    /// The value; `None` where the experiment cannot tell.
    pub fn value(&self) -> Option<&Value> {
        match &self.outcome {
            Outcome::Found { value, .. } => Some(value),
            _ => None,
        }
    }

    /// How sure the value is, from 0 to 1; 0 where there is none.
    pub fn confidence(&self) -> f64 {
        match self.outcome {
            Outcome::Found { confidence, .. } => confidence,
            _ => 0.0,
        }
    }

    /// What prevented the finding, or a part of it.
    pub fn error(&self) -> Option<&Error> {
        match &self.outcome {
            Outcome::Unknown(why) => Some(why),
            Outcome::Found {
                method: Method::EmptyCalls { incomplete, .. },
                ..
            } => incomplete.as_deref(),
            _ => None,
        }
    }

    /// The system call that prevented it, and how it failed.
    pub fn refusal(&self) -> Option<(Gate, Errno)> {
        self.error().and_then(Error::refusal)
    }
}
