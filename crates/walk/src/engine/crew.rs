//! Threads: one for each processor, and where these turn out to wait for a disk or a server, more.

use std::time::{Duration, Instant};

use gate::cpu_time::process_cpu_time;
use gate::machine::processors;
use gate::sync::{Condvar, Mutex, MutexGuard};

/// As many as are of use while a disk is read.
pub(super) const MOST: usize = 16;
/// How long the processors are watched before it is said that they wait.
const WATCH: Duration = Duration::from_millis(2);

/// When it was last considered whether more threads would help, and the CPU time that had been used
/// then.
pub(super) struct Pace {
    at: Instant,
    cpu: Duration,
}

impl Pace {
    pub(super) fn new() -> Pace {
        Pace {
            at: Instant::now(),
            cpu: process_cpu_time(),
        }
    }

    /// How long ago that was.
    pub(super) fn elapsed(&self) -> Duration {
        self.at.elapsed()
    }

    /// Whether so many threads leave the processors waiting, for a disk or a server; `None` when
    /// they have not been watched for long enough to tell.
    pub(super) fn is_waiting(&mut self, threads: usize) -> Option<bool> {
        let wall = self.elapsed();
        if wall < WATCH {
            return None;
        }
        let now = Pace::new();
        let used = now.cpu.saturating_sub(self.cpu).as_secs_f64() / wall.as_secs_f64();
        *self = now;
        Some(used < 0.7 * processors().min(threads) as f64)
    }
}

/// Does some work in as many threads as are asked for, or as are good; in no more than there is
/// work for. Each of them does `work`, which ends when there is nothing left to do.
pub(super) fn crew(asked: Option<usize>, work_for: usize, work: impl Fn() + Sync) {
    let most = asked.unwrap_or(MOST.max(processors())).min(work_for).max(1);
    let first = asked.unwrap_or_else(processors).min(most);
    let ended = Ended::default();
    std::thread::scope(|scope| {
        let start = || {
            let begun = std::thread::Builder::new().spawn_scoped(scope, || {
                let _end = End(&ended);
                work();
                gate::meter::flush();
            });
            begun.is_ok()
        };
        let mut threads = (0..first).take_while(|_| start()).count();
        if threads == 0 {
            return work();
        }
        let mut pace = Pace::new();
        let mut count = ended.lock();
        while *count < threads {
            let waited = ended.news.wait_timeout(count, WATCH);
            count = waited.0;
            if *count > 0 || threads >= most || !waited.1.timed_out() {
                continue;
            }
            if pace.is_waiting(threads) == Some(true) {
                threads += (threads..most.min(2 * threads))
                    .take_while(|_| start())
                    .count();
            }
        }
    });
}

/// How many threads have ended.
#[derive(Default)]
struct Ended {
    count: Mutex<usize>,
    news: Condvar,
}

impl Ended {
    fn lock(&self) -> MutexGuard<'_, usize> {
        self.count.lock()
    }
}

/// Says so when a thread ends, in whatever way.
struct End<'a>(&'a Ended);

impl Drop for End<'_> {
    fn drop(&mut self) {
        *self.0.lock() += 1;
        self.0.news.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::crew;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::time::Duration;

    #[test]
    fn threads_that_wait_get_company() {
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
    fn as_many_as_are_asked_for() {
        let threads = AtomicUsize::new(0);
        crew(Some(3), usize::MAX, || {
            threads.fetch_add(1, Relaxed);
        });
        assert_eq!(threads.into_inner(), 3);
    }
}
