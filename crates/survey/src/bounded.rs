//! Walks and engines that were stopped at their limits.

use std::time::Duration;

use base::child::NoRun;
use walk::EngineKind;

/// A walk that was stopped at its limits, and what it allows to estimate.
#[derive(Clone, PartialEq, Debug)]
pub struct Bounded {
    /// The engine.
    pub engine: EngineKind,
    /// The entries that it reached.
    pub entries: u64,
    /// The seconds that it took for them.
    pub seconds: f64,
    /// Bytes that it read from disks and wrote to them.
    pub bytes: u64,
    /// Inodes of the file system, where the file system states them and all of it is below the
    /// directory.
    pub inodes: Option<u64>,
    /// Levels of the tree on which the engines were compared, if they were.
    pub levels: Option<u32>,
}

impl Bounded {
    /// Entries per second.
    pub fn rate(&self) -> f64 {
        self.entries as f64 / self.seconds.max(1e-9)
    }

    /// Seconds that all inodes would take at that rate. Inodes are not entries, and where more
    /// entries were seen than there are inodes, nothing can be estimated.
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
    /// The engine.
    pub engine: EngineKind,
    /// What it used up: time or I/O.
    pub why: NoRun,
    /// The entries that it reached.
    pub entries: u64,
    /// Inodes of the file system, as in [`Bounded::inodes`].
    pub inodes: Option<u64>,
}

impl StoppedEngine {
    /// How long it ran.
    fn after(&self) -> Duration {
        match self.why {
            NoRun::Stopped(after) | NoRun::Moved(_, after) => after,
            NoRun::Refused => Duration::ZERO,
        }
    }

    /// Entries per second, and seconds that all inodes would take at that rate.
    pub fn estimate(&self) -> Option<(u64, f64, f64)> {
        let rate = self.entries as f64 / self.after().as_secs_f64();
        let inodes = self.inodes.filter(|inodes| self.entries <= *inodes)?;
        (rate.is_finite() && rate >= 1.0).then(|| (inodes, rate, inodes as f64 / rate))
    }

    /// Whether it ran at all.
    pub fn has_run(&self) -> bool {
        !self.after().is_zero()
    }
}
