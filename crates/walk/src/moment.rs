//! A time to compare change times with: a file with a later one may have changed since.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gate::fs::Time;

/// A time by two clocks: the real-time clock, which file times come from, and the monotonic clock,
/// which is never set.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    real: Duration,
    steady: Instant,
}

impl Moment {
    /// Now.
    pub fn now() -> Moment {
        Moment {
            real: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default(),
            steady: Instant::now(),
        }
    }

    /// The time by the real-time clock; if that has been set back since, by the clock as it is now.
    pub fn time(&self) -> Time {
        time(self.real())
    }

    /// The time since then.
    pub fn elapsed(&self) -> Duration {
        self.steady.elapsed()
    }

    /// The earliest change time that a file can have that was changed since. The kernel's clock for
    /// files has steps of up to 10 ms.
    pub(crate) fn changed_since(&self) -> Time {
        const STEP: Duration = Duration::from_millis(20);
        time(self.real().saturating_sub(STEP))
    }

    fn real(&self) -> Duration {
        // Read this clock first, so that the time between the two does not look like a clock that was
        // set back.
        let elapsed = self.steady.elapsed();
        earliest(self.real, Moment::now().real, elapsed)
    }
}

/// Whether a file with this time may have changed at a moment or later. Without a fraction, the time
/// may be in whole seconds (ext4 with small inodes) or in steps of two (FAT).
pub fn may_be_since(time: Time, moment: Time) -> bool {
    const COARSEST: i64 = 2;
    let seconds = if time.nsec == 0 { COARSEST } else { 0 };
    Time {
        sec: time.sec.saturating_add(seconds),
        ..time
    } >= moment
}

/// The time of a moment that was at `then` by the clock, if the clock is at `now` after `elapsed`.
fn earliest(then: Duration, now: Duration, elapsed: Duration) -> Duration {
    /// Smaller differences are rounding: both clocks use one counter, and are adjusted alike.
    const ROUNDING: Duration = Duration::from_millis(1);
    let by_now = now.saturating_sub(elapsed);
    if by_now + ROUNDING < then {
        by_now
    } else {
        then
    }
}

fn time(since_1970: Duration) -> Time {
    Time {
        sec: since_1970.as_secs().cast_signed(),
        nsec: since_1970.subsec_nanos(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_that_is_set_back_moves_the_moment_back() {
        let at = |hours: u64, minutes: u64| Duration::from_secs(hours * 3600 + minutes * 60);
        let half_an_hour = at(0, 30);
        assert_eq!(earliest(at(5, 0), at(5, 30), half_an_hour), at(5, 0));
        assert_eq!(
            earliest(at(5, 0), at(4, 30), half_an_hour),
            at(4, 0),
            "set back by an hour"
        );
        assert_eq!(
            earliest(at(5, 0), at(6, 30), half_an_hour),
            at(5, 0),
            "set forward by an hour"
        );
        assert_eq!(
            earliest(at(5, 0), at(0, 10), half_an_hour),
            at(0, 0),
            "set back to 1970"
        );
        assert_eq!(
            earliest(at(5, 0), at(5, 30) - Duration::from_nanos(1), half_an_hour),
            at(5, 0),
            "rounded"
        );
        assert_eq!(time(Duration::new(7, 8)), Time { sec: 7, nsec: 8 });
    }

    #[test]
    fn times_without_fractions_may_be_two_seconds_later() {
        let moment = Time {
            sec: 100,
            nsec: 500_000_000,
        };
        let since = |sec, nsec| may_be_since(Time { sec, nsec }, moment);
        assert!(since(100, 500_000_000) && since(101, 1));
        assert!(!since(100, 499_999_999) && !since(99, 999_999_999));
        assert!(since(100, 0) && since(99, 0) && !since(98, 0) && !since(0, 0));
        assert!(since(i64::MAX, 0) && !since(i64::MIN, 0));
    }
}
