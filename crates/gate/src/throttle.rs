//! Delays calls, to spare a server that other clients use as well: a limit of the calls per second.
//! Until a limit is set, this costs nothing.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::watch;

mod rate;

/// Number and sum of the delays of all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// Number of delays.
    pub number: u64,
    /// Sum of all delays, in nanoseconds.
    pub nanos: u64,
}

static NUMBER: AtomicU64 = AtomicU64::new(0);
static NANOS: AtomicU64 = AtomicU64::new(0);

/// Limits the threads of this process together to an equal share of `rate` calls per second, for
/// one of `processes` processes. Only the first limit counts.
pub fn limit_rate(rate: u64, processes: usize) {
    rate::set(rate, processes);
    watch::set_limiting();
}

/// The delays of all threads so far; `None` if no limit of the calls per second is set.
pub fn delays() -> Option<Delays> {
    watch::limiting().then(|| Delays {
        number: NUMBER.load(Relaxed),
        nanos: NANOS.load(Relaxed),
    })
}

/// Returns and resets the delays so far: another process adds them to its own.
pub fn take_delays() -> Delays {
    Delays {
        number: NUMBER.swap(0, Relaxed),
        nanos: NANOS.swap(0, Relaxed),
    }
}

/// Adds the delays of another process.
pub fn add_delays(Delays { number, nanos }: Delays) {
    NUMBER.fetch_add(number, Relaxed);
    NANOS.fetch_add(nanos, Relaxed);
}

pub(crate) fn before_call() {
    let nanos = match watch::limiting() {
        true => rate::take(),
        false => 0,
    };
    if nanos > 0 {
        add_delays(Delays { number: 1, nanos });
        std::thread::sleep(Duration::from_nanos(nanos));
    }
}
