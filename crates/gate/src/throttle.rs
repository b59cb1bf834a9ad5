//! Waits before calls, to spare a server that others use as well: a limit of the calls per second. It
//! is off, and costs nothing, until it is set.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::watch;

mod rate;

/// Delays of all threads together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// How many there were.
    pub number: u64,
    /// Their sum, in nanoseconds.
    pub nanos: u64,
}

static NUMBER: AtomicU64 = AtomicU64::new(0);
static NANOS: AtomicU64 = AtomicU64::new(0);

/// Lets the threads of this process make at most an equal share of `rate` calls per second, one of
/// `processes`. Only the first limit counts.
pub fn limit_rate(rate: u64, processes: usize) {
    rate::set(rate, processes);
    watch::set_limiting();
}

/// The delays so far; `None` without a limit.
pub fn delays() -> Option<Delays> {
    watch::limiting().then(|| Delays {
        number: NUMBER.load(Relaxed),
        nanos: NANOS.load(Relaxed),
    })
}

/// The delays so far, which are counted from 0 again: another process adds them to its own.
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

/// Waits until the next call may be made.
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
