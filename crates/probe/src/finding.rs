//! The finding of an experiment: the value, how it was found, and the kernel's own value.

use gate::{Errno, Gate};
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::error::{ErrnoCode, Error, Result};
use crate::names::{Quantity, SampleCount, SeenBy};

/// A value that was measured, or that the kernel reports.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Value {
    Number(f64),
    /// A range between two numbers.
    Range(f64, f64),
    /// Several numbers, in order.
    List(Vec<u64>),
    Clock(Clock),
    /// A property that is true or false.
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

/// The source of a value that the kernel reports.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "each has its text in the command's show.rs")]
pub enum Source {
    Statfs,
    /// The page size, or the block size where that is larger.
    Page,
    Superblock,
    Statx,
    Sysinfo,
    Fiemap,
    /// The value is from this file below /sys.
    File(String),
}

/// A value that the kernel reports.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ReportedValue {
    pub value: Value,
    pub source: Source,
}

impl ReportedValue {
    pub(crate) fn new(value: impl Into<Value>, source: Source) -> ReportedValue {
        let value = value.into();
        ReportedValue { value, source }
    }
}

/// Why the time-stamp counter is not trusted.
#[derive(Clone, PartialEq, Debug, thiserror::Error, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the text says it")]
pub enum TscFault {
    #[error("the processor has no rdtscp")]
    NoCounter,
    #[error("its rate may change with the CPU frequency (not invariant)")]
    NotInvariant,
    #[error("the kernel uses the clock source {0}")]
    ClockSource(String),
    #[error("its rate differs by {ppm:.0} ppm between {windows} measurements")]
    Drift { windows: usize, ppm: f64 },
    #[error("it ran backwards between processors")]
    Backwards,
}

/// The statistic over several windows of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum WindowFigure {
    /// The largest deviation of any window.
    Worst,
    /// The largest deviation of any window, for a clock that NTP steers.
    WorstOfSteered,
    /// The spread of the windows' rates.
    Spread,
}

/// The method by which a period was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the text says it")]
pub enum PeriodBy {
    #[error("by a comb filter")]
    Comb,
    #[error("by the distance of peaks")]
    Peaks,
}

/// How a value was found. `ns` is nanoseconds; other numbers are counts and bytes.
#[derive(Clone, PartialEq, Debug, thiserror::Error, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the text says it")]
pub enum Method {
    #[error("minimum of {batches} batches of {readings} readings")]
    QuickestBatch { batches: usize, readings: u32 },
    #[error("smallest nonzero difference of two successive readings")]
    LeastStep,
    #[error("{}", windows_text(*.windows, *.millis, *.figure))]
    Windows {
        windows: usize,
        millis: u64,
        figure: WindowFigure,
    },
    /// The checks that the time-stamp counter (TSC) has failed. An empty list: the TSC is trusted.
    #[error("{}", trust_text(.0))]
    TscChecked(Vec<TscFault>),
    #[error("the TSC is reliable, and a reading costs less than half")]
    TscCheaper,
    #[error(
        "a reading takes {ns:.0} ns, because it enters the kernel (no vDSO); short calls appear longer"
    )]
    RawEntersKernel { ns: f64 },
    #[error("it costs little more than the TSC, and counts nanoseconds")]
    RawGoodEnough,
    #[error(
        "one byte written and synced at {places} odd offsets of a sparse file: SEEK_DATA to SEEK_HOLE is {length} bytes, \
         {agreeing} times"
    )]
    DataLength {
        places: usize,
        length: u64,
        agreeing: usize,
    },
    #[error("{}", cluster_text(*.grown, *.hole))]
    Cluster {
        grown: Option<u64>,
        hole: Option<u64>,
    },
    #[error("a read of one byte cached {bytes} bytes, by {}, {agreeing} of {trials} times", .by.name())]
    OneByteRead {
        bytes: u64,
        by: SeenBy,
        agreeing: usize,
        trials: u64,
    },
    #[error("direct reads of {align} bytes at offset {align} succeed, smaller ones fail")]
    DirectReads { align: u64 },
    #[error(
        "{samples}: the first of every {runs} is slower; {runs} x {} = {}",
        .samples.step, .runs * .samples.step
    )]
    FirstOfGroup { samples: SampleCount, runs: u64 },
    /// `first` is the first distance between slow reads, if only the first distance differs.
    #[error(
        "{reads}, {by}: every {n}th is slower; {n} x {} = {} bytes are fetched at once{}",
        .reads.step, .n * .reads.step, first_distance_text(*.first)
    )]
    EachNth {
        reads: SampleCount,
        by: PeriodBy,
        n: u64,
        first: Option<usize>,
    },
    #[error(
        "of {fetched} blocks fetched at once, 1 was requested, {} were prefetched",
        .fetched - 1
    )]
    AllButFirst { fetched: u64 },
    #[error("bytes cached after the first page was read")]
    AfterFirstRead,
    #[error("bytes fetched by each read, until they stay the same")]
    EachRead,
    #[error("size of the later windows: {alike} of {windows} were equal")]
    LaterWindows { alike: usize, windows: usize },
    #[error("bytes still unread when the next window was fetched")]
    UnreadAtFetch,
    #[error(
        "the second pass over up to {bytes} bytes takes the same time per {step} bytes; from run {run} on it takes longer, \
         because not everything was still cached"
    )]
    SecondPass { bytes: u64, step: u64, run: u64 },
    #[error("{steps} of holes were read; the cached amount stopped growing after step {after}")]
    HolesFilled { steps: SampleCount, after: usize },
    #[error("{mebibytes} MiB are in {count} extents, adjacent ones merged (FS_IOC_FIEMAP)")]
    ExtentCount { mebibytes: u64, count: u64 },
    #[error("largest of {count} extents; median {median} bytes (FS_IOC_FIEMAP)")]
    LargestExtent { count: u64, median: f64 },
    #[error(
        "share of {mebibytes} MiB outside the largest extent; 0 if free space is contiguous (FS_IOC_FIEMAP)"
    )]
    OutsideLargest { mebibytes: u64 },
    #[error("{samples}: {waits} waits were long, {low} to {high} apart")]
    LongSyncs {
        samples: SampleCount,
        waits: usize,
        low: f64,
        high: f64,
    },
    #[error(
        "FS_IOC_FIEMAP failed: {errno}; {mebibytes} direct reads of 1 MiB: the device counts {usual} reads for {agreeing} of \
         them (reads of other processes included)"
    )]
    DeviceReads {
        #[serde(with = "ErrnoCode")]
        errno: Errno,
        mebibytes: usize,
        usual: u64,
        agreeing: usize,
    },
    /// `incomplete` is the reason why some calls could not be priced.
    #[error(
        "{calls} calls of getppid(2), which does nothing in the kernel: the minimum cost of a call"
    )]
    EmptyCalls {
        calls: u64,
        incomplete: Option<Box<Error>>,
    },
}

fn windows_text(windows: usize, millis: u64, figure: WindowFigure) -> String {
    let compared = format!("in {windows} windows of {millis} ms, against CLOCK_MONOTONIC_RAW");
    match figure {
        WindowFigure::Worst => format!("measured {compared}"),
        WindowFigure::WorstOfSteered => {
            format!("largest drift {compared}; NTP adjusts this clock")
        }
        WindowFigure::Spread => format!("range of the rate {compared}"),
    }
}

fn trust_text(reasons: &[TscFault]) -> String {
    if reasons.is_empty() {
        return "its rate is constant, it is the kernel's clock source, and it never ran backwards"
            .to_owned();
    }
    let reasons: Vec<String> = reasons.iter().map(TscFault::to_string).collect();
    reasons.join("; ")
}

fn cluster_text(grown: Option<u64>, hole: Option<u64>) -> String {
    match (grown, hole) {
        (Some(grown), None) => format!(
            "a byte written into a hole allocates {grown} bytes (st_blocks); punching holes frees nothing"
        ),
        (Some(grown), Some(hole)) if grown == hole => format!(
            "a byte written into a hole allocates {hole} bytes (st_blocks), and the smallest hole that frees space has the same size"
        ),
        (grown, hole) => {
            let hole = hole.unwrap_or_default();
            let but = grown.map_or(String::new(), |grown| {
                format!(", but a byte written into a hole allocates {grown}")
            });
            format!("the smallest hole that frees space is {hole} bytes (st_blocks){but}")
        }
    }
}

fn first_distance_text(first: Option<usize>) -> String {
    first.map_or(String::new(), |first| {
        format!(
            "; only the first distance is {first}: a cache miss starts the first window, the readahead mark each later one"
        )
    })
}

/// The bound of the page cache of this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum CacheBound {
    /// The memory limit of a cgroup.
    #[error("the page cache counts towards the memory limit of the cgroup")]
    Cgroup,
    /// All memory, with the bytes that are available now.
    #[error(
        "no cgroup limit: the page cache can use all free memory{}",
        .0.map_or(String::new(), |bytes| {
            format!(", now {:.1} GiB (MemAvailable)", bytes as f64 / (1_u64 << 30) as f64)
        })
    )]
    Memory(Option<u64>),
}

/// A note that qualifies a finding, such as how it was measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Note {
    /// The series with reads of 512 bytes agrees.
    ConfirmedBy512,
    /// The observed residency of pages contradicts the times.
    ContradictedByResidency,
    /// The call that observed which pages are in memory.
    SeenBy(SeenBy),
    /// The capacity was measured in a temporary cgroup with a chosen memory limit; outside of it,
    /// this number of bytes is available.
    OwnCgroup(u64),
    /// The capacity was measured in the cgroup of this process, not in a temporary one. The memory
    /// limit also covers other files, programs and the kernel, so the cache gets only a part.
    CurrentCgroup {
        /// Bytes of other files.
        files: u64,
        /// Bytes of programs and of the kernel.
        programs: u64,
    },
}

/// The outcome of an experiment.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Outcome {
    Found {
        value: Value,
        /// The confidence, from 0 to 1. For direct observations, the share of trials that agree;
        /// for inferences from times, 1 less the probability that noise looks like that.
        confidence: f64,
        method: Method,
    },
    /// The kernel's value was only looked up, not measured.
    LookedUp(CacheBound),
    /// Reads of 256 and of 512 bytes contradict each other.
    Disagree(Box<[Outcome; 2]>),
    Unknown(Error),
}

/// A value that an experiment found, or why it found none.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Finding {
    pub quantity: Quantity,
    pub outcome: Outcome,
    /// The value that the kernel reports.
    pub truth: Option<ReportedValue>,
    /// Whether the found value agrees with the kernel's; `None` if one of them is missing.
    pub agrees: Option<bool>,
    /// Whether the finding is based on times alone.
    pub by_time: bool,
    pub trials: u32,
    pub note: Option<Note>,
}

impl Finding {
    pub(crate) fn new(quantity: Quantity, outcome: Outcome) -> Finding {
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

    pub(crate) fn unknown(quantity: Quantity, why: Error) -> Finding {
        Finding::new(quantity, Outcome::Unknown(why))
    }

    pub(crate) fn known(
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

    pub(crate) fn by_time(mut self) -> Finding {
        self.by_time = true;
        self
    }

    pub(crate) fn with_trials(mut self, trials: usize) -> Finding {
        self.trials = u32::try_from(trials).unwrap_or(u32::MAX);
        self
    }

    pub(crate) fn with_note(mut self, note: Note) -> Finding {
        self.note = Some(note);
        self
    }

    /// Compares the value with the kernel's; numbers agree within the relative `tolerance`.
    pub(crate) fn compared_with(mut self, truth: Option<ReportedValue>, tolerance: f64) -> Finding {
        let near = |a: f64, b: f64| (a - b).abs() <= tolerance * b.abs();
        let agrees = |value: &Value, truth: &Value| match (value, truth) {
            (Value::Number(a), Value::Number(b)) => near(*a, *b),
            (Value::Range(low, high), Value::Number(b)) => {
                (*low <= *b && *b <= *high) || near(*low, *b) || near(*high, *b)
            }
            (a, b) => a == b,
        };
        self.agrees =
            (self.value().zip(truth.as_ref())).map(|(value, truth)| agrees(value, &truth.value));
        self.truth = truth;
        self
    }

    /// The value; `None` if the experiment was inconclusive.
    pub fn value(&self) -> Option<&Value> {
        match &self.outcome {
            Outcome::Found { value, .. } => Some(value),
            _ => None,
        }
    }

    /// Whether the experiment found no readahead, so that there is nothing to measure.
    pub fn is_none(&self) -> bool {
        self.obstacle() == Some(&Error::NoReadahead)
    }

    /// The confidence in the value, from 0 to 1; 0 without a value. At most 0.5 if times contradict
    /// the kernel, as one of the two must be wrong.
    pub fn confidence(&self) -> f64 {
        match self.outcome {
            Outcome::Found { confidence, .. } if self.by_time && self.agrees == Some(false) => {
                confidence.min(0.5)
            }
            Outcome::Found { confidence, .. } => confidence,
            _ => 0.0,
        }
    }

    /// The error that prevented the finding or a part of it.
    pub fn obstacle(&self) -> Option<&Error> {
        match &self.outcome {
            Outcome::Unknown(why) => Some(why),
            Outcome::Found {
                method: Method::EmptyCalls { incomplete, .. },
                ..
            } => incomplete.as_deref(),
            _ => None,
        }
    }

    /// The system call that prevented the finding or a part of it, and its errno.
    pub fn refusal(&self) -> Option<(Gate, Errno)> {
        self.obstacle()?.refusal()
    }
}

/// The findings of an experiment. An error becomes the finding of each quantity, unless it ends the
/// program.
pub(crate) fn or_unknown(
    found: Result<Vec<Finding>>,
    quantities: &[Quantity],
) -> Result<Vec<Finding>> {
    match found {
        Err(why) if why != Error::Interrupted => {
            let unknown = |quantity: &Quantity| Finding::unknown(*quantity, why.clone());
            Ok(quantities.iter().map(unknown).collect())
        }
        found => found,
    }
}

/// The value of this quantity; `None` if unknown.
pub(crate) fn find_value(found: &[Finding], quantity: Quantity) -> Option<&Value> {
    let is_it = |finding: &&Finding| finding.quantity == quantity;
    found.iter().find(is_it).and_then(Finding::value)
}
