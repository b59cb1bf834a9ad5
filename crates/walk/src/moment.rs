//! From when on an engine below the file API believes nothing that it has read, and settles it with statx(2).

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gate::fs::Time;

/// A moment, by two clocks: the one that the kernel takes times of files from, and one that nobody sets.
pub(super) struct Moment {
    real: Duration,
    steady: Instant,
}

impl Moment {
    /// Now.
    pub(super) fn now() -> Moment {
        Moment { real: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(), steady: Instant::now() }
    }

    /// The earliest time that anything can bear that was changed since. The kernel's clock for files goes in steps of up to
    /// 10 ms, and somebody may have set it back meanwhile.
    pub(super) fn changed_since(&self) -> Time {
        const STEP: Duration = Duration::from_millis(20);
        let now = Moment::now();
        let earliest = self.real.min(now.real.saturating_sub(self.steady.elapsed())).saturating_sub(STEP);
        Time { sec: earliest.as_secs() as i64, nsec: earliest.subsec_nanos() }
    }
}
