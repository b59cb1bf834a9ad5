//! Threads of an engine: one per processor, and more while the processors wait for a disk or a
//! server.

use std::thread::Builder;
use std::time::{Duration, Instant};

use gate::cpu_time::process_cpu_time;
use gate::machine::processors;
use gate::meter::spawn_scoped;
use gate::process::spare_open_files;
use gate::sync::{Condvar, Mutex};

/// Maximum number of threads of an engine while a disk is read.
pub(super) const MOST: usize = 16;
/// Minimum time of measuring the CPU load until it shows whether the processors wait.
const WATCH: Duration = Duration::from_millis(2);

/// The time of the last check whether more threads would help, and the CPU time used until then.
pub(super) struct CpuLoadCheck {
    at: Instant,
    cpu: Duration,
}

impl CpuLoadCheck {
    pub(super) fn new() -> CpuLoadCheck {
        CpuLoadCheck {
            at: Instant::now(),
            cpu: process_cpu_time(),
        }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.at.elapsed()
    }

    /// Whether the processors wait for a disk or a server with this number of threads; `None` if
    /// they were not observed for long enough.
    pub(super) fn is_waiting(&mut self, threads: usize) -> Option<bool> {
        let wall = self.elapsed();
        if wall < WATCH {
            return None;
        }
        let now = CpuLoadCheck::new();
        let used = now.cpu.saturating_sub(self.cpu).as_secs_f64() / wall.as_secs_f64();
        *self = now;
        Some(used < 0.7 * processors().min(threads) as f64)
    }
}

/// Maximum number of threads by the limit of open files: each may have a few directories open, for
/// statx(2) or for subvolumes.
pub(super) fn most_threads() -> usize {
    (spare_open_files() / 4).max(1)
}

/// Runs `work` in as many threads as requested, or by default as are useful, but in at most
/// `work_for` threads. Returns when all threads have ended.
pub(super) fn crew(requested: Option<usize>, work_for: usize, work: impl Fn() + Sync) {
    let useful = MOST.max(processors());
    let most = requested.unwrap_or(useful).min(work_for).max(1);
    let first = requested.unwrap_or_else(processors).min(most);
    let ended = Ended::default();
    std::thread::scope(|scope| {
        let start = || {
            let begun = spawn_scoped(scope, Builder::new(), || {
                let _end = CountAtEnd(&ended);
                work();
            });
            begun.is_ok()
        };
        let mut threads = (0..first).take_while(|_| start()).count();
        if threads == 0 {
            return work();
        }
        let mut pace = CpuLoadCheck::new();
        let mut count = ended.count.lock();
        while *count < threads {
            let waited = ended.news.wait_timeout(count, WATCH);
            count = waited.0;
            if *count > 0 || threads >= most || !waited.1.timed_out() {
                continue;
            }
            if pace.is_waiting(threads) == Some(true) {
                let more = most.min(2 * threads) - threads;
                threads += (0..more).take_while(|_| start()).count();
            }
        }
    });
}

#[derive(Default)]
struct Ended {
    count: Mutex<usize>,
    news: Condvar,
}

/// Counts a thread as ended when the thread ends, even by a panic.
struct CountAtEnd<'a>(&'a Ended);

impl Drop for CountAtEnd<'_> {
    fn drop(&mut self) {
        *self.0.count.lock() += 1;
        self.0.news.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::crew;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::time::Duration;

    #[test]
    fn more_threads_start_while_threads_wait() {
        let (left, threads) = (AtomicUsize::new(300), AtomicUsize::new(0));
        crew(None, 9, || {
            threads.fetch_add(1, Relaxed);
            while left
                .fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1))
                .is_ok()
            {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        assert_eq!(left.load(Relaxed), 0);
        assert!((2..=9).contains(&threads.load(Relaxed)));
    }

    #[test]
    fn requested_number_of_threads_is_started() {
        let threads = AtomicUsize::new(0);
        crew(Some(3), usize::MAX, || {
            threads.fetch_add(1, Relaxed);
        });
        assert_eq!(threads.into_inner(), 3);
    }
}
