//! Counts, and on request times, every call that passes a gate.
//!
//! Each thread counts in its own plain cells, without locks or atomics, and adds them to the
//! process's total when it ends. [`tally`] is the sum of the total and the calling thread's counts.
//! Calls are timed only after [`set_profiling`], charged only while an [attribution] runs, and
//! delayed only by a [throttle]: otherwise a call costs one relaxed load and two additions more
//! than the bare system call.

use std::cell::Cell;
use std::io;
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::Instant;

use crate::Result;
use crate::attribution;
use crate::cpu_time::thread_cpu_time;
use crate::gates::{GATES, Gate};
use crate::sync::Mutex;
use crate::tally::{BUCKETS, GateCounts, Tally};
use crate::throttle;
use crate::watch;

pub use crate::watch::{profiling, set_profiling};

/// The counts of all threads that have ended, and of child processes.
static TOTAL: Mutex<Tally> = Mutex::new(Tally::NONE);

/// The counts of one thread: for each gate, the words of [`GateCounts`].
struct ThreadCounts([[Cell<u64>; GateCounts::WORDS]; GATES]);

/// Index of a word in [`ThreadCounts`].
const CALLS: usize = 0;
const ERRORS: usize = 1;
const NANOS: usize = 2;
const HISTOGRAM: usize = 3;

thread_local! {
    static COUNTS: ThreadCounts = const { ThreadCounts::new() };
}

impl ThreadCounts {
    const fn new() -> ThreadCounts {
        ThreadCounts([const { [const { Cell::new(0) }; GateCounts::WORDS] }; GATES])
    }

    #[inline]
    fn count(&self, gate: Gate, word: usize, n: u64) {
        let cell = &self.0[gate as usize][word];
        cell.set(cell.get() + n);
    }

    fn tally(&self) -> Tally {
        let counts = |gate: usize| GateCounts::from_words(self.0[gate].each_ref().map(Cell::get));
        Tally {
            gates: std::array::from_fn(counts),
        }
    }

    fn add(&self, tally: &Tally) {
        for (cells, counts) in self.0.iter().zip(&tally.gates) {
            for (cell, n) in cells.iter().zip(counts.words()) {
                cell.set(cell.get() + n);
            }
        }
    }

    /// Adds the counts to the total, and resets them.
    fn flush(&self) {
        TOTAL.lock().add(&self.tally());
        self.0.iter().flatten().for_each(|cell| cell.set(0));
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

/// Calls `fork` with the lock of the total held. If another thread held the lock, the child, which
/// lacks that thread, would wait for it forever.
pub(crate) fn fork_locked<T>(fork: impl FnOnce() -> T) -> T {
    let _total = TOTAL.lock();
    fork()
}

/// Starts a scoped thread whose counts are in the total when the scope ends: the scope itself waits
/// for the work of its threads, but not until their thread-local cells are dropped.
///
/// # Errors
/// The errors of [`Builder::spawn_scoped`].
#[allow(clippy::disallowed_methods, reason = "every other caller comes here")]
pub fn spawn_scoped<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    thread: Builder,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    thread.spawn_scoped(scope, || {
        let _flush = FlushAtEnd;
        work()
    })
}

/// Adds the counts of its thread to the process's total when dropped, also after a panic.
struct FlushAtEnd;

impl Drop for FlushAtEnd {
    fn drop(&mut self) {
        COUNTS.with(ThreadCounts::flush);
    }
}

/// Adds the counts of a child process, so that this process's tally is that of `strace -f`.
pub fn add(tally: &Tally) {
    COUNTS.with(|counts| counts.add(tally));
}

/// Makes one call through a gate: counts it, and times it on request.
#[inline]
pub(crate) fn pass<T>(gate: Gate, call: impl FnOnce() -> Result<T>) -> Result<T> {
    if !watch::only_counting() {
        return pass_watched(gate, call);
    }
    let result = call();
    count(gate, result.is_err());
    result
}

#[cold]
fn pass_watched<T>(gate: Gate, call: impl FnOnce() -> Result<T>) -> Result<T> {
    throttle::before_call();
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
        counts.count(gate, NANOS, nanos);
        counts.count(gate, HISTOGRAM + bucket, 1);
    });
    result
}

#[inline]
fn count(gate: Gate, failed: bool) {
    // A call is not counted once the thread's cells are dropped, such as the close of a descriptor
    // that is dropped after them.
    let _ = COUNTS.try_with(|counts| {
        counts.count(gate, CALLS, 1);
        counts.count(gate, ERRORS, u64::from(failed));
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Errno;

    #[test]
    fn scoped_threads_are_counted_when_their_scope_ends() {
        /// A thread-local value with a slow destructor, so that the thread ends long after its
        /// work.
        struct Slow;
        impl Drop for Slow {
            fn drop(&mut self) {
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
        }
        thread_local! {
            static SLOW: Slow = const { Slow };
        }
        let before = tally();
        std::thread::scope(|scope| {
            let work = || {
                COUNTS.with(|_| ());
                SLOW.with(|_| ());
                pass(Gate::Getcwd, || Ok(())).unwrap();
            };
            spawn_scoped(scope, Builder::new(), work).map(drop).unwrap();
        });
        let counts = *tally().since(&before).counts(Gate::Getcwd);
        assert_eq!(counts.calls, 1);
    }

    #[test]
    fn a_thread_that_ends_adds_its_counts_to_the_total() {
        for is_timed in [false, true] {
            set_profiling(is_timed);
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
            assert_eq!((counts.calls, counts.errors), (3, 1), "timed: {is_timed}");
        }
        set_profiling(false);
    }
}
