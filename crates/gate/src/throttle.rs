//! Waits before or after calls, to spare a server that others use as well: a limit of the calls per
//! second, and pauses while the latency of requests is doubled.
//!
//! | module | contents |
//! |---|---|
//! | `rate` | the limit: a token bucket |
//! | `backoff` | the latency of requests, compared with that of earlier ones |
//!
//! Both are off, and cost nothing, until they are set.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::gates::Gate;
use crate::watch;

mod backoff;
mod rate;

/// Delays of all threads together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// How many there were.
    pub number: u64,
    /// Their sum, in nanoseconds.
    pub nanos: u64,
}

/// [`Delays`] that threads count.
struct Counter {
    number: AtomicU64,
    nanos: AtomicU64,
}

impl Counter {
    const fn new() -> Counter {
        Counter {
            number: AtomicU64::new(0),
            nanos: AtomicU64::new(0),
        }
    }

    fn add(&self, Delays { number, nanos }: Delays) {
        self.number.fetch_add(number, Relaxed);
        self.nanos.fetch_add(nanos, Relaxed);
    }

    fn get(&self) -> Delays {
        Delays {
            number: self.number.load(Relaxed),
            nanos: self.nanos.load(Relaxed),
        }
    }

    fn take(&self) -> Delays {
        Delays {
            number: self.number.swap(0, Relaxed),
            nanos: self.nanos.swap(0, Relaxed),
        }
    }

    /// Waits so many nanoseconds.
    fn wait(&self, nanos: u64) {
        if nanos > 0 {
            self.add(Delays { number: 1, nanos });
            std::thread::sleep(Duration::from_nanos(nanos));
        }
    }
}

static FOR_RATE: Counter = Counter::new();
static FOR_LATENCY: Counter = Counter::new();

/// Lets the threads of this process make at most an equal share of `rate` calls per second, one of
/// `processes`. Only the first limit counts.
pub fn limit_rate(rate: u64, processes: usize) {
    rate::set(rate, processes);
    watch::set_limiting();
}

/// Makes threads pause while the latency of requests is doubled.
pub fn back_off() {
    watch::set_backing_off();
}

/// The delays by [`limit_rate`] and by [`back_off`]; `None` for one that is off.
pub fn delays() -> [Option<Delays>; 2] {
    [
        watch::limiting().then(|| FOR_RATE.get()),
        watch::backing_off().then(|| FOR_LATENCY.get()),
    ]
}

/// The delays so far, which are counted from 0 again: another process adds them to its own.
pub fn take_delays() -> [Delays; 2] {
    [FOR_RATE.take(), FOR_LATENCY.take()]
}

/// Adds the delays of another process.
pub fn add_delays([for_rate, for_latency]: [Delays; 2]) {
    FOR_RATE.add(for_rate);
    FOR_LATENCY.add(for_latency);
}

/// Waits until the next call may be made.
pub(crate) fn before_call() {
    if watch::limiting() {
        FOR_RATE.wait(rate::take());
    }
}

/// Pauses after a call that took so long.
pub(crate) fn after_call(gate: Gate, nanos: u64) {
    FOR_LATENCY.wait(backoff::pause(gate, nanos));
}
