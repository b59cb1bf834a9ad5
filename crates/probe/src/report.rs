//! What the experiments are asked to do, and what they report.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::finding::Finding;
use crate::names::{Call, Experiment, Quantity};
use crate::samples::Series;

/// What all experiments together may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Limits {
    /// Bytes read and written.
    pub bytes: u64,
    pub time: Duration,
}

/// Bytes that were read from the file system and written to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct IoBytes {
    pub read: u64,
    pub written: u64,
}

/// How the page cache is filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheOptions {
    /// By the paper's two passes over a file, instead of by holes.
    pub paper: bool,
    /// The limit of the cgroup that is made. Default: 256 MiB, or an eighth of the available memory.
    pub limit: Option<u64>,
}

/// What to measure, where, and within which limits.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ProbeOptions {
    pub dir: Vec<u8>,
    /// The timer always runs, since the others need its clock.
    pub experiments: Vec<Experiment>,
    pub limits: Limits,
    /// How much longer than its time the process that does the experiments may take while it works,
    /// before it is ended with what it has found: a slow machine.
    pub lateness: Duration,
    pub cache: CacheOptions,
    /// Create only files without a name, and remove nothing: for a directory whose owner has not
    /// asked for experiments in it.
    pub unnamed_only: bool,
}

/// A finding, and what its experiment used.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Measured {
    pub finding: Finding,
    pub seconds: f64,
    pub io_bytes: IoBytes,
}

impl From<Finding> for Measured {
    /// A finding for which nothing was read or written.
    fn from(finding: Finding) -> Measured {
        Measured {
            finding,
            seconds: 0.0,
            io_bytes: IoBytes::default(),
        }
    }
}

/// What a call costs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Price {
    pub call: Call,
    /// Whether its answer is in memory.
    pub warm: bool,
    /// How many threads make it at the same time.
    pub threads: usize,
    /// Nanoseconds for one call on each thread: the median of the batches, and the quartiles.
    pub ns: f64,
    pub low: f64,
    pub high: f64,
    /// How many calls were made.
    pub calls: u64,
}

/// What was found.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ProbeReport {
    pub fstype: Option<Vec<u8>>,
    /// The findings, experiment by experiment.
    pub measured: Vec<Measured>,
    /// `None` unless they were asked for.
    pub prices: Option<Vec<Price>>,
    pub series: Vec<Series>,
    /// Why the experiments ended early: the file system stopped answering, or the process that
    /// makes them was killed.
    pub stopped: Option<Error>,
}

impl ProbeReport {
    /// Adds what was found since.
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
