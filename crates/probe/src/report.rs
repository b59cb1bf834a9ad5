//! Options and report of the experiments.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::finding::Finding;
use crate::names::{Call, Experiment, Quantity};
use crate::samples::Series;

/// Limits for all experiments together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Limits {
    /// Limit of bytes read and written.
    pub bytes: u64,
    pub time: Duration,
}

/// Bytes read from and written to the file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct IoBytes {
    pub read: u64,
    pub written: u64,
}

/// How the experiment `cache` fills the page cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheOptions {
    /// Use the paper's two passes over a file instead of holes.
    pub paper: bool,
    /// Memory limit of the temporary cgroup in bytes. Default: 256 MiB, or less if that exceeds an
    /// eighth of the available memory or the limit of I/O.
    pub limit: Option<u64>,
}

/// The experiments to run, their directory, and their limits.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ProbeOptions {
    pub dir: Vec<u8>,
    /// The experiments. The timer always runs, since the others need its clock.
    pub experiments: Vec<Experiment>,
    pub limits: Limits,
    /// Extra time for a child process that still uses CPU time (a slow machine), before it is
    /// killed and its findings so far are reported.
    pub lateness: Duration,
    pub cache: CacheOptions,
    /// Create only files without a name, and remove nothing: for a directory whose owner has not
    /// asked for experiments.
    pub unnamed_only: bool,
}

/// A finding, and the bytes and time that its experiment used.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct MeasuredFinding {
    pub finding: Finding,
    pub seconds: f64,
    pub io_bytes: IoBytes,
}

impl From<Finding> for MeasuredFinding {
    /// A finding without any I/O.
    fn from(finding: Finding) -> MeasuredFinding {
        MeasuredFinding {
            finding,
            seconds: 0.0,
            io_bytes: IoBytes::default(),
        }
    }
}

/// The price of a call.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Price {
    pub call: Call,
    /// Whether the call finds its data in memory.
    pub warm: bool,
    /// The number of threads that make the call at the same time.
    pub threads: usize,
    /// Nanoseconds per call on each thread: the median of batches; the quartiles follow.
    pub ns: f64,
    pub low: f64,
    pub high: f64,
    /// The number of calls made.
    pub calls: u64,
}

/// The results of the experiments.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ProbeReport {
    pub fstype: Option<Vec<u8>>,
    /// The findings, by experiment.
    pub measured: Vec<MeasuredFinding>,
    /// The prices of calls; `None` unless requested.
    pub prices: Option<Vec<Price>>,
    pub series: Vec<Series>,
    /// Why the experiments ended early: the file system stopped answering, or the child process was
    /// killed.
    pub stopped: Option<Error>,
}

impl ProbeReport {
    /// Adds later results.
    pub(crate) fn extend(&mut self, more: ProbeReport) {
        self.fstype = more.fstype.or(self.fstype.take());
        self.measured.extend(more.measured);
        self.prices = more.prices.or(self.prices.take());
        self.series.extend(more.series);
    }

    /// The finding of this quantity.
    pub fn find(&self, quantity: Quantity) -> Option<&Finding> {
        let mut findings = self.measured.iter().map(|measured| &measured.finding);
        findings.find(|finding| finding.quantity == quantity)
    }
}
