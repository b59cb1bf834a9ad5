//! Counts, and on request times, every call that passes a gate.
//!
//! Each thread counts in its own plain cells, without locks or atomics, and adds them to the process's
//! total when it ends. [`tally`] is the sum of the total and the calling thread's counts. Calls are
//! timed only after [`set_profiling`], and charged to tags only while an [attribution] runs: otherwise a
//! call costs one relaxed load and two additions more than the bare system call.

use std::cell::Cell;
use std::time::Instant;

use crate::Result;
use crate::attribution;
use crate::cpu_time::thread_cpu_time;
use crate::gates::{GATES, Gate};
use crate::sync::Mutex;
use crate::tally::{BUCKETS, GateCounts, Tally};
use crate::watch;

pub use crate::watch::{profiling, set_profiling};

/// The counts of all threads that have ended, and of child processes.
static TOTAL: Mutex<Tally> = Mutex::new(Tally::NONE);

/// The counts of a thread.
struct ThreadCounts {
    calls: [Cell<u64>; GATES],
    errors: [Cell<u64>; GATES],
    nanos: [Cell<u64>; GATES],
    histogram: [[Cell<u64>; BUCKETS]; GATES],
}

thread_local! {
    static COUNTS: ThreadCounts = const { ThreadCounts::new() };
}

impl ThreadCounts {
    const fn new() -> ThreadCounts {
        ThreadCounts {
            calls: [const { Cell::new(0) }; GATES],
            errors: [const { Cell::new(0) }; GATES],
            nanos: [const { Cell::new(0) }; GATES],
            histogram: [const { [const { Cell::new(0) }; BUCKETS] }; GATES],
        }
    }

    fn tally(&self) -> Tally {
        Tally {
            gates: std::array::from_fn(|g| GateCounts {
                calls: self.calls[g].get(),
                errors: self.errors[g].get(),
                nanos: self.nanos[g].get(),
                histogram: std::array::from_fn(|b| self.histogram[g][b].get()),
            }),
        }
    }

    fn add(&self, tally: &Tally) {
        for (g, counts) in tally.gates.iter().enumerate() {
            self.calls[g].set(self.calls[g].get() + counts.calls);
            self.errors[g].set(self.errors[g].get() + counts.errors);
            self.nanos[g].set(self.nanos[g].get() + counts.nanos);
            for (cell, n) in self.histogram[g].iter().zip(counts.histogram) {
                cell.set(cell.get() + n);
            }
        }
    }

    /// Moves the counts to the total.
    fn flush(&self) {
        TOTAL.lock().add(&self.tally());
        let cells = self.calls.iter().chain(&self.errors).chain(&self.nanos);
        cells
            .chain(self.histogram.iter().flatten())
            .for_each(|cell| cell.set(0));
    }
}

impl Drop for ThreadCounts {
    fn drop(&mut self) {
        self.flush();
    }
}

/// The counts so far: the calling thread's, and those of every thread that has ended.
pub fn tally() -> Tally {
    let mut sum = TOTAL.lock().clone();
    sum.add(&COUNTS.with(ThreadCounts::tally));
    sum
}

/// Forks while this thread holds the lock of the total. If another thread held it, the child, which
/// lacks that thread, would wait for it forever.
pub(crate) fn fork_locked<T>(fork: impl FnOnce() -> T) -> T {
    let _total = TOTAL.lock();
    fork()
}

/// Adds the calling thread's counts to the total now. A scoped thread must call this at its end: the
/// scope does not wait until the thread's cells are dropped.
pub fn flush() {
    COUNTS.with(ThreadCounts::flush);
}

/// Adds the counts of a child process, so that the process's tally is that of `strace -f`.
pub fn add(tally: &Tally) {
    COUNTS.with(|counts| counts.add(tally));
}

/// Makes one call through a gate: counts it, and times it on request.
#[inline]
pub(crate) fn pass<T>(gate: Gate, call: impl FnOnce() -> Result<T>) -> Result<T> {
    if !watch::only_counting() {
        return pass_timed(gate, call);
    }
    let result = call();
    count(gate, result.is_err());
    result
}

#[cold]
fn pass_timed<T>(gate: Gate, call: impl FnOnce() -> Result<T>) -> Result<T> {
    let cpu = watch::attributing().then(thread_cpu_time);
    let start = watch::profiling().then(Instant::now);
    let result = call();
    let elapsed = start.map(|start| start.elapsed());
    if let Some(cpu) = cpu {
        attribution::charge(gate, thread_cpu_time().saturating_sub(cpu));
    }
    count(gate, result.is_err());
    let Some(elapsed) = elapsed else {
        return result;
    };
    let nanos = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
    let bucket = (nanos.max(1).ilog2() as usize).min(BUCKETS - 1);
    let _ = COUNTS.try_with(|counts| {
        let sum = &counts.nanos[gate as usize];
        sum.set(sum.get() + nanos);
        let cell = &counts.histogram[gate as usize][bucket];
        cell.set(cell.get() + 1);
    });
    result
}

#[inline]
fn count(gate: Gate, failed: bool) {
    // This fails when a descriptor is dropped after the cells of its thread: then its close is not
    // counted.
    let _ = COUNTS.try_with(|counts| {
        let calls = &counts.calls[gate as usize];
        calls.set(calls.get() + 1);
        let errors = &counts.errors[gate as usize];
        errors.set(errors.get() + u64::from(failed));
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Errno;

    #[test]
    fn a_thread_that_ends_adds_its_counts_to_the_total() {
        let before = tally();
        std::thread::spawn(|| {
            for failed in [false, true, false] {
                let _ = pass(Gate::Getcwd, || {
                    if failed { Err(Errno::EINVAL) } else { Ok(()) }
                });
            }
        })
        .join()
        .unwrap();
        let counts = *tally().since(&before).counts(Gate::Getcwd);
        assert_eq!((counts.calls, counts.errors), (3, 1));
    }
}
