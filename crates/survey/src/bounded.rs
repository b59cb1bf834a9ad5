//! Walks and engines that were stopped at the limits of the survey.

use std::time::Duration;

use base::child::NoRun;
use walk::EngineKind;

/// A walk that was stopped at its limits, and the basis for an estimate of a whole walk.
#[derive(Clone, PartialEq, Debug)]
pub struct LimitedWalk {
    /// The engine that walked.
    pub engine: EngineKind,
    /// Number of entries that the walk reached.
    pub entries: u64,
    /// The elapsed time of the walk in seconds.
    pub seconds: f64,
    /// The bytes read from and written to disks.
    pub bytes: u64,
    /// Number of inodes of the file system, if it is reported and all of the file system is below
    /// the directory.
    pub inodes: Option<u64>,
    /// The depth to which the engines were compared; `None` if they were not compared.
    pub levels: Option<u32>,
}

impl LimitedWalk {
    /// Entries per second.
    pub fn rate(&self) -> f64 {
        self.entries as f64 / self.seconds.max(1e-9)
    }

    /// The estimated seconds for all inodes at the rate of this walk. `None` if the number of
    /// inodes is unknown, or if hard links made the walk count more entries than inodes.
    pub fn whole_seconds(&self) -> Option<f64> {
        let inodes = self
            .inodes
            .filter(|inodes| *inodes > self.entries && self.entries > 0);
        inodes.map(|inodes| inodes as f64 / self.rate())
    }
}

/// An engine that was stopped in a comparison.
#[derive(Clone, PartialEq, Debug)]
pub struct StoppedEngine {
    /// The engine that was stopped.
    pub engine: EngineKind,
    /// The limit that stopped the engine: time or I/O.
    pub why: NoRun,
    /// Number of entries that the engine reached.
    pub entries: u64,
    /// Number of inodes of the file system, as in [`LimitedWalk::inodes`].
    pub inodes: Option<u64>,
}

impl StoppedEngine {
    /// The time after which the engine was stopped.
    fn after(&self) -> Duration {
        match self.why {
            NoRun::Stopped(after) | NoRun::Moved(_, after) => after,
            NoRun::Refused => Duration::ZERO,
        }
    }

    /// Number of inodes, the entries per second, and the estimated seconds for all inodes.
    pub fn estimate(&self) -> Option<(u64, f64, f64)> {
        let rate = self.entries as f64 / self.after().as_secs_f64();
        let inodes = self.inodes.filter(|inodes| self.entries <= *inodes)?;
        (rate.is_finite() && rate >= 1.0).then(|| (inodes, rate, inodes as f64 / rate))
    }

    /// Whether the engine was started at all.
    pub fn has_run(&self) -> bool {
        !self.after().is_zero()
    }
}
