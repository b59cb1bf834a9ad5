//! A limit of the calls per second: a token bucket, in the form of the generic cell rate algorithm
//! (ITU-T I.371). Each call reserves the next free time slot, and waits until then.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

const SECOND: u64 = 1_000_000_000;

/// Time in nanoseconds after which unused time slots expire. A thread oversleeps by less than this,
/// so that oversleeping loses no slots.
const CREDIT: u64 = SECOND / 20;

struct Bucket {
    /// Nanoseconds between two time slots.
    interval: u64,
    /// The next free time slot, in nanoseconds since the limit was set.
    next: AtomicU64,
}

impl Bucket {
    fn new(rate: u64, processes: usize) -> Bucket {
        let interval = SECOND
            .saturating_mul(processes as u64)
            .div_ceil(rate.max(1));
        Bucket {
            interval,
            next: AtomicU64::new(0),
        }
    }

    /// Reserves the next time slot; returns the nanoseconds to wait for the slot. The first n calls
    /// take at least n - 1 intervals, because there is no credit from before the first call.
    fn take(&self, now: u64) -> u64 {
        let oldest = now.saturating_sub(CREDIT);
        let after = |next: u64| Some(next.max(oldest).saturating_add(self.interval));
        let (Ok(next) | Err(next)) = self.next.fetch_update(Relaxed, Relaxed, after);
        next.max(oldest).saturating_sub(now)
    }
}

static LIMIT: OnceLock<(Instant, Bucket)> = OnceLock::new();

pub(super) fn set(rate: u64, processes: usize) {
    let _ = LIMIT.set((Instant::now(), Bucket::new(rate, processes))); // the first limit counts
}

/// Reserves the next time slot for a call; returns the nanoseconds to wait.
pub(super) fn take() -> u64 {
    LIMIT.get().map_or(0, |(begun, bucket)| {
        bucket.take(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The times at which a simulated thread makes calls, if it does other work for the time
    /// `between` after each call.
    fn moments(bucket: &Bucket, calls: usize, between: impl Fn(usize) -> u64) -> Vec<u64> {
        let mut now = 0;
        let call = |nth| {
            now += bucket.take(now);
            let moment = now;
            now += between(nth);
            moment
        };
        (0..calls).map(call).collect()
    }

    #[test]
    fn calls_are_never_faster_than_the_rate() {
        for (rate, processes) in [(1, 1), (1000, 1), (1000, 7), (3, 2), (1_000_000_000, 1)] {
            let bucket = Bucket::new(rate, processes);
            // The thread is idle for a second after 50 calls.
            let idle = |nth| {
                if nth == 50 {
                    SECOND
                } else {
                    nth as u64 % 3 * 1000
                }
            };
            let moments = moments(&bucket, 200, idle);
            for (nth, moment) in (0..).zip(&moments) {
                assert!(*moment >= nth * bucket.interval, "{rate}: {moments:?}");
            }
            // Of the slots that were not used in the idle second, only those within the credit can
            // still be used.
            let most = (CREDIT / bucket.interval) as usize + 1;
            let later = moments[51..].get(most..).unwrap_or_default();
            for two in later.windows(2) {
                assert!(two[1] - two[0] >= bucket.interval, "{rate}: {moments:?}");
            }
        }
    }

    #[test]
    fn an_idle_process_has_little_credit() {
        let bucket = Bucket::new(1000, 1);
        assert_eq!(bucket.take(0), 0);
        let hour = 3600 * SECOND;
        let free = (0..1000).filter(|_| bucket.take(hour) == 0).count();
        assert_eq!(free as u64, CREDIT / bucket.interval + 1);
    }
}
