//! Estimates the cost of nightly dumps of a directory, from gathering it once.

use walk::{EngineKind, PlanReason};

use crate::gather::Gather;

/// The estimated cost of a dump.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expected {
    /// Number of files that would be read.
    pub files: u64,
    /// Number of bytes in these files.
    pub bytes: u64,
    /// System calls, except those that read and write file data.
    pub calls: u64,
    /// CPU seconds of the counted system calls and the gathering.
    pub cpu_seconds: f64,
}

/// The measured cost of gathering, and the estimated costs of dumps.
#[derive(Clone, Debug)]
pub struct Nightly {
    /// The gathering method.
    pub gather: Gather,
    /// The engine of the walk.
    pub engine: EngineKind,
    /// Why this engine was chosen.
    pub why: PlanReason,
    /// Number of entries in the tree.
    pub entries: u64,
    /// Regular files; a hard-linked file counts once.
    pub files: u64,
    /// Bytes of data in these files, without holes.
    pub bytes: u64,
    /// Seconds of gathering.
    pub seconds: f64,
    /// CPU seconds of gathering.
    pub cpu_seconds: f64,
    /// System calls of gathering.
    pub calls: u64,
    /// Measured cost of a call on a file, in seconds.
    pub call_seconds: f64,
    /// The estimate of a full dump.
    pub first: Expected,
    /// The estimate of an increment without changes.
    pub unchanged: Expected,
    /// The estimate of an increment with 1 % of the files changed.
    pub changed: Expected,
}

impl Nightly {
    /// System calls per file read: open, read, statx, close.
    pub const CALLS_PER_FILE: u64 = 4;

    /// Fills in the three estimates from the measured values.
    pub fn with_estimates(mut self) -> Nightly {
        (self.first, self.unchanged, self.changed) = (self.dump(100), self.dump(0), self.dump(1));
        self
    }

    /// The estimated cost of a dump of this percentage of the files.
    fn dump(&self, percent: u64) -> Expected {
        let share = |n: u64| (u128::from(n) * u128::from(percent)).div_ceil(100) as u64;
        let files = share(self.files);
        let more = files.saturating_mul(Nightly::CALLS_PER_FILE);
        Expected {
            files,
            bytes: share(self.bytes),
            calls: self.calls.saturating_add(more),
            cpu_seconds: self.cpu_seconds + more as f64 * self.call_seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_follow_from_measurements() {
        let nightly = Nightly {
            gather: Gather::Combined,
            engine: EngineKind::Threads,
            why: PlanReason::Requested,
            entries: 1100,
            files: 1000,
            bytes: 2_000_000,
            seconds: 0.002,
            cpu_seconds: 0.001,
            calls: 1400,
            call_seconds: 1e-6,
            first: Expected::default(),
            unchanged: Expected::default(),
            changed: Expected::default(),
        }
        .with_estimates();
        let figures = |dump: Expected| (dump.files, dump.bytes, dump.calls);
        assert_eq!(figures(nightly.first), (1000, 2_000_000, 5400));
        assert_eq!(figures(nightly.unchanged), (0, 0, 1400));
        assert_eq!(figures(nightly.changed), (10, 20_000, 1440));
        assert!((nightly.first.cpu_seconds - 0.005).abs() < 1e-9);
    }
}
