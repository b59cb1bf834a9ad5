//! Pauses while the latency of requests is at least double that of earlier ones.
//!
//! A request is a call that reads or changes metadata and takes at least [`CACHED`]: faster ones were
//! answered by a cache of this machine. The median of every [`ROUND`] requests of one kind is compared
//! with the 10th percentile of the earlier medians of that kind. If it is at least double, the load is
//! halved; otherwise it is doubled, up to the whole. At 1/2, 1/4, ... of the load, a thread pauses after
//! each request for 1, 3, ... times as long as the request took: so it works whatever the number of
//! threads, and however many are started because the processors are idle.
//!
//! ```text
//! median / 10th percentile    1.0   1.1   2.3   2.2   1.2   1.0
//! load                        1     1     1/2   1/4   1/2   1
//! pause after a request of t  0     0     t     3 t   t     0
//! ```

use crate::gates::{GATES, Gate};
use crate::sync::Mutex;

/// Calls that take less, in nanoseconds, send no request.
const CACHED: u64 = 100_000;
/// Requests of one kind between two decisions.
const ROUND: usize = 32;
/// At least 1/16 of the load remains.
const MOST_HALVINGS: u32 = 4;
/// The longest pause, in nanoseconds.
const LONGEST: u64 = 5_000_000_000;

/// Latencies are kept as logarithms, eight for each factor of two.
const DOUBLE: u16 = 8;
/// One more than the logarithm of the longest.
const LOGS: usize = 64 * DOUBLE as usize;

/// The logarithm of a latency.
fn log(nanos: u64) -> u16 {
    let nanos = nanos.max(8);
    let exponent = nanos.ilog2();
    let eighths = nanos >> (exponent - 3) & 7;
    exponent as u16 * DOUBLE + eighths as u16
}

/// The requests of one kind.
#[derive(Clone, Copy, Debug)]
struct Requests {
    round: [u16; ROUND],
    /// Requests of this round so far.
    filled: usize,
    /// The number of rounds with each median.
    medians: [u32; LOGS],
}

impl Requests {
    const NONE: Requests = Requests {
        round: [0; ROUND],
        filled: 0,
        medians: [0; LOGS],
    };

    /// Adds a request. At the end of a round, returns whether its latency is doubled.
    fn add(&mut self, nanos: u64) -> Option<bool> {
        self.round[self.filled] = log(nanos);
        self.filled += 1;
        if self.filled < ROUND {
            return None;
        }
        self.filled = 0;
        self.round.sort_unstable();
        let median = self.round[ROUND / 2];
        let baseline = self.baseline();
        self.medians[usize::from(median)] += 1;
        baseline.map(|baseline| usize::from(median) >= baseline + usize::from(DOUBLE))
    }

    /// The 10th percentile of the medians.
    fn baseline(&self) -> Option<usize> {
        let rounds: u64 = self.medians.iter().map(|&n| u64::from(n)).sum();
        let mut seen = 0;
        self.medians.iter().position(|&n| {
            seen += u64::from(n);
            seen > 0 && seen * 10 >= rounds
        })
    }
}

struct Backoff {
    requests: [Requests; GATES],
    halvings: u32,
}

impl Backoff {
    const fn new() -> Backoff {
        Backoff {
            requests: [Requests::NONE; GATES],
            halvings: 0,
        }
    }

    /// Adds a request; returns how long to pause after it.
    fn pause(&mut self, gate: Gate, nanos: u64) -> u64 {
        self.halvings = match self.requests[gate as usize].add(nanos) {
            Some(true) => (self.halvings + 1).min(MOST_HALVINGS),
            Some(false) => self.halvings.saturating_sub(1),
            None => self.halvings,
        };
        let times = (1 << self.halvings) - 1;
        nanos.saturating_mul(times).min(LONGEST)
    }
}

static BACKOFF: Mutex<Backoff> = Mutex::new(Backoff::new());

/// Adds a call; returns for how many nanoseconds to pause after it.
pub(super) fn pause(gate: Gate, nanos: u64) -> u64 {
    match nanos >= CACHED && is_metadata(gate) {
        true => BACKOFF.lock().pause(gate, nanos),
        false => 0,
    }
}

/// Whether the latency of a call does not depend on the number of bytes that are read or written.
fn is_metadata(gate: Gate) -> bool {
    use Gate::*;
    matches!(
        gate,
        Openat
            | Openat2
            | Statx
            | Newfstatat
            | Getdents64
            | Readlinkat
            | Listxattrat
            | Getxattrat
            | Llistxattr
            | Lgetxattr
            | Flistxattr
            | Fgetxattr
            | Lsetxattr
            | Fsetxattr
            | Mkdirat
            | Mknodat
            | Symlinkat
            | Linkat
            | Renameat2
            | Unlinkat
            | Fchownat
            | Fchmod
            | Fchmodat
            | Fchmodat2
            | Utimensat
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The pause, in milliseconds, after each of some rounds of requests with these latencies.
    fn pauses(backoff: &mut Backoff, latencies: &[u64]) -> Vec<u64> {
        let round = |latency: &u64| {
            let pauses = (0..ROUND).map(|_| backoff.pause(Gate::Statx, latency * MS));
            pauses.last().unwrap_or(0) / MS
        };
        latencies.iter().map(round).collect()
    }

    #[test]
    fn pauses_grow_while_the_latency_is_doubled() {
        let mut backoff = Backoff::new();
        assert_eq!(pauses(&mut backoff, &[10, 11, 10, 15]), [0, 0, 0, 0]);
        let slow = pauses(&mut backoff, &[20, 30, 100, 100, 100]);
        assert_eq!(slow, [20, 90, 700, 1500, 1500]);
        let fast = pauses(&mut backoff, &[15, 10, 10, 10, 10]);
        assert_eq!(fast, [105, 30, 10, 0, 0]);
        // Some slow ones among others are no reason.
        for nth in 0..400 {
            let latency = if nth % 3 == 0 { 500 } else { 10 };
            assert_eq!(backoff.pause(Gate::Statx, latency * MS), 0, "{nth}");
        }
        // Each kind of call has its own latency.
        for _ in 0..4 * ROUND {
            assert_eq!(backoff.pause(Gate::Openat, 40 * MS), 0);
        }
        assert_eq!(pauses(&mut backoff, &[5000, 5000, 5000]), [5000; 3]);
    }

    #[test]
    fn a_lasting_change_becomes_the_baseline() {
        let mut backoff = Backoff::new();
        pauses(&mut backoff, &[10]);
        let slow = pauses(&mut backoff, &[40; 20]);
        assert_eq!(slow[3], 600, "{slow:?}");
        assert_eq!(slow.last(), Some(&0), "{slow:?}");
    }

    #[test]
    fn logarithms_order_latencies() {
        for nanos in [0, 1, 8, 15, 100_000, 1 << 40, u64::MAX / 2] {
            assert!(log(nanos) <= log(nanos + 1), "{nanos}");
            if nanos >= 8 {
                assert_eq!(log(nanos) + DOUBLE, log(nanos * 2), "{nanos}");
            }
        }
        // To an eighth of a factor of two.
        assert!(log(180) < log(100) + DOUBLE);
    }
}
