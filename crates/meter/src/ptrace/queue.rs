//! Time that stopped threads wait for the single tracer, and for a processor.
//!
//! While several threads run, each call appears to take as long as other threads keep the tracer
//! and the processors busy: the same command took 9 ms by bpf, and 214 ms to 7 s by ptrace. So both
//! waits are subtracted from the time of a call. The remainder is the time in the call itself,
//! including waits for a disk or a server.

use gate::clock;
use gate::usage::RunDelay;
use gate::{Errno, Result};

/// The queue of stopped threads that wait for the tracer.
#[derive(Default)]
pub(super) struct Queue {
    /// The command has several threads.
    pub(super) is_shared: bool,
    /// When the queue was last empty, in nanoseconds of `CLOCK_MONOTONIC`.
    empty_at: u64,
    /// Upper bound of the time, in nanoseconds, that the last thread was in the queue.
    queued: u64,
    /// Run delay of the tracer, and its value when the last thread stopped.
    own: Option<RunDelay>,
    own_nanos: u64,
    /// Number of open [`RunDelay`] files.
    open: u32,
}

/// Duration in nanoseconds. A shorter call is taken as not delayed by the queue.
const SHORT: u64 = 20_000;
/// The maximum number of [`RunDelay`] files to keep open.
const MOST_OPEN: u32 = 256;

impl Queue {
    /// Waits for the next stopped thread; `wait` is first called without blocking.
    pub(super) fn next<T>(
        &mut self,
        is_shared: bool,
        mut wait: impl FnMut(bool) -> Result<T>,
    ) -> Result<T> {
        self.is_shared = is_shared;
        self.queued = 0;
        if !is_shared {
            self.empty_at = clock::monotonic();
            return wait(false);
        }
        match wait(true) {
            Err(Errno::EAGAIN) => {}
            came => {
                self.queued = clock::monotonic().saturating_sub(self.empty_at);
                return came;
            }
        }
        self.empty_at = clock::monotonic();
        let came = wait(false);
        if self.own.is_none() {
            self.own = RunDelay::open(None).ok();
        }
        // Time for which the tracer was runnable, but waited for a processor.
        let own = self
            .own
            .as_ref()
            .and_then(RunDelay::nanos)
            .unwrap_or_default();
        self.queued = own.saturating_sub(self.own_nanos);
        self.own_nanos = own;
        came
    }

    /// The run delay of a thread that enters a call.
    pub(super) fn delay_of(&mut self, tid: u32, delay: &mut Option<RunDelay>) -> Option<u64> {
        if delay.is_none() && self.open < MOST_OPEN {
            *delay = RunDelay::open(Some(tid)).ok();
            self.open += u32::from(delay.is_some());
        }
        delay.as_ref()?.nanos()
    }

    /// A thread has ended, or its id has changed: its run delay file is closed.
    pub(super) fn forget(&mut self, delay: Option<RunDelay>) {
        self.open -= u32::from(delay.is_some());
    }

    /// The part of `took`, the time of a call, for which the thread waited for the tracer or a
    /// processor; `entered` is its run delay at entry.
    pub(super) fn held_up(&self, took: u64, entered: Option<u64>, delay: Option<&RunDelay>) -> u64 {
        if took < SHORT {
            return 0;
        }
        let now = entered.and_then(|_| delay?.nanos());
        let delayed = now
            .zip(entered)
            .map_or(0, |(now, then)| now.saturating_sub(then));
        delayed.saturating_add(self.queued)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits once, for a thread that has stopped already (`is_there`) or stops later.
    fn next(queue: &mut Queue, is_shared: bool, is_there: bool) {
        let came = queue.next(is_shared, |asks_first| match asks_first && !is_there {
            true => Err(Errno::EAGAIN),
            false => Ok(()),
        });
        assert_eq!(came, Ok(()));
    }

    #[test]
    fn only_threads_that_others_hold_up_are_held_up() {
        const PAUSE: u64 = 5_000_000;
        let mut queue = Queue::default();
        next(&mut queue, false, true);
        assert_eq!(queue.held_up(PAUSE, None, None), 0);
        next(&mut queue, true, false);
        std::thread::sleep(std::time::Duration::from_nanos(PAUSE));
        // The stop may have come at any time since the queue was empty.
        next(&mut queue, true, true);
        assert!(queue.held_up(PAUSE, None, None) >= PAUSE);
        assert_eq!(queue.held_up(SHORT - 1, None, None), 0);
        let mut delay = None;
        let before = queue.delay_of(std::process::id(), &mut delay);
        assert!(before.is_some() && queue.open == 1);
        assert!(queue.held_up(PAUSE, before, delay.as_ref()) >= PAUSE);
        queue.forget(delay.take());
        assert_eq!(queue.open, 0);
    }
}
