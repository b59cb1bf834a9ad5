//! Runs work in a child process, within limits of time and disk I/O.

use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use gate::process::{Child, ProcessEnd, SharedWords};
use gate::usage::{IoBytes, io_bytes};
use gate::{Result, Tally};

use crate::runs::{Times, time_text};

/// A run in a child process: elapsed time of the work, CPU times including start and end of the
/// process, system calls of the process, and the result of the work.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "explained above")]
pub struct ChildRun<T> {
    pub real: Duration,
    pub user: Duration,
    pub sys: Duration,
    pub tally: Tally,
    pub result: T,
}

impl<T> ChildRun<T> {
    /// The times of the run.
    pub fn times(&self) -> Times {
        Times::new([self.real, self.user, self.sys])
    }

    /// Converts the result of the run.
    pub fn map<U>(self, form: impl FnOnce(T) -> U) -> ChildRun<U> {
        ChildRun {
            real: self.real,
            user: self.user,
            sys: self.sys,
            tally: self.tally,
            result: form(self.result),
        }
    }
}

/// Why a run has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRun {
    /// The time limit stopped the run, after this time.
    #[error("{}", match .0 {
        &Duration::ZERO => "no time was left".to_owned(),
        after => format!("stopped after {}", time_text(*after)),
    })]
    Stopped(Duration),
    /// The limit of disk I/O stopped the run, after this many bytes and this time.
    #[error("{}", match .1 {
        &Duration::ZERO => "the limit of disk I/O was reached before it started".to_owned(),
        _ => format!("stopped after {:.1} MiB of disk reads and writes", *.0 as f64 / 1_048_576.0),
    })]
    Moved(u64, Duration),
    /// The work failed or is not supported.
    #[error("it is not supported here")]
    Refused,
}

/// The limits of runs.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Maximum time of one run.
    pub each: Duration,
    /// The deadline of the last run.
    pub until: Option<Instant>,
    /// Bytes that all following runs together may read from and write to disks. Ignored if the
    /// kernel does not count them.
    pub bytes: Option<Cell<u64>>,
    /// Extra time of a run after this process is asked to stop: a signal may have reached the child
    /// as well, which then has to clean up.
    pub grace: Duration,
}

impl Bounds {
    /// Limits only the time of each run.
    pub fn time(each: Duration) -> Bounds {
        Bounds {
            each,
            until: None,
            bytes: None,
            grace: Duration::from_secs(2),
        }
    }

    /// Maximum time for the next run; `None` if no time is left, or this process is asked to stop.
    pub fn next(&self) -> Option<Duration> {
        /// Minimum time for a run: a shorter run cannot measure anything.
        const LEAST: Duration = Duration::from_millis(10);
        let left = self.left();
        (left >= LEAST.min(self.each) && gate::interrupt::pending_signal().is_none())
            .then(|| left.min(self.each))
    }

    /// Whether there is time for work of this duration.
    pub fn fits(&self, work: Duration) -> bool {
        self.next().is_some() && self.left() >= work
    }

    fn left(&self) -> Duration {
        self.until.map_or(Duration::MAX, |until| {
            until.saturating_duration_since(Instant::now())
        })
    }
}

/// Runs work in a child process within bounds. Subtracts the child's disk I/O from the bounds, and
/// adds the child's system calls to the counts of this process. Work that returns `None` is
/// [`NoRun::Refused`]. Without `grace` the child ends as soon as this process is asked to stop.
///
/// # Errors
/// When no process can be created.
pub fn run_in_child<const N: usize>(
    bounds: &Bounds,
    work: impl FnOnce() -> Option<[u64; N]>,
) -> Result<std::result::Result<ChildRun<[u64; N]>, NoRun>> {
    const REAL: usize = 0;
    const DONE: usize = 1;
    const TALLY: usize = 2;
    const RESULT: usize = TALLY + Tally::WORDS;
    const INTERVAL: Duration = Duration::from_millis(100);
    /// Interval of checking disk I/O: a fast disk reads 20 MiB in this time.
    const INTERVAL_FOR_BYTES: Duration = Duration::from_millis(10);
    let Some(limit) = bounds.next() else {
        return Ok(Err(NoRun::Stopped(Duration::ZERO)));
    };
    if bounds.bytes.as_ref().is_some_and(|left| left.get() == 0) {
        return Ok(Err(NoRun::Moved(0, Duration::ZERO)));
    }
    let shared = SharedWords::new(RESULT + N)?;
    let before = bounds.bytes.as_ref().and_then(|_| io_bytes(None));
    let mut child = Child::fork(|| {
        if bounds.grace.is_zero() {
            gate::interrupt::end_hold();
        }
        let before = gate::meter::tally();
        let start = Instant::now();
        let result = work();
        let real = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        shared[REAL].store(real, Relaxed);
        gate::meter::tally()
            .since(&before)
            .publish(&shared[TALLY..]);
        if let Some(result) = result {
            let words = shared[RESULT..].iter();
            words
                .zip(result)
                .for_each(|(word, value)| word.store(value, Relaxed));
            shared[DONE].store(1, Relaxed);
        }
    })?;
    let supervision = Supervision {
        limit,
        grace: bounds.grace,
        interval: match bounds.bytes {
            Some(_) => INTERVAL_FOR_BYTES,
            None => INTERVAL,
        },
    };
    let ended = supervise(&mut child, &supervision, |child, standing| {
        if standing.is_late {
            return Some(NoRun::Stopped(standing.after));
        }
        let most = bounds.bytes.as_ref()?.get();
        let bytes = io_bytes(Some(child.id())).map(IoBytes::sum)?;
        (bytes > most).then_some(NoRun::Moved(bytes, standing.after))
    });
    // The kernel adds the I/O of a child to its parent when the parent waits for it.
    if let (Some(left), Some(before), Some(after)) =
        (&bounds.bytes, before, before.and_then(|_| io_bytes(None)))
    {
        left.set(left.get().saturating_sub(after.since(before).sum()));
    }
    let ended = match ended {
        Err(why) => return Ok(Err(why)),
        Ok(ended) => ended,
    };
    let tally = Tally::collect(&shared[TALLY..]);
    gate::meter::add(&tally);
    if shared[DONE].load(Relaxed) == 0 {
        return Ok(Err(NoRun::Refused));
    }
    Ok(Ok(ChildRun {
        real: Duration::from_nanos(shared[REAL].load(Relaxed)),
        user: ended.user,
        sys: ended.sys,
        tally,
        result: std::array::from_fn(|at| shared[RESULT + at].load(Relaxed)),
    }))
}

/// The limits of a supervised child process.
#[derive(Clone, Debug)]
pub struct Supervision {
    /// Maximum time of the child.
    pub limit: Duration,
    /// Maximum time of the child after this process is asked to stop.
    pub grace: Duration,
    /// Time between two checks of the child.
    pub interval: Duration,
}

/// The state of a child process at a check.
#[derive(Clone, Copy, Debug)]
pub struct ChildStatus {
    /// Time since the supervision of the child began.
    pub after: Duration,
    /// Whether the time limit of the child is over.
    pub is_late: bool,
    /// Whether the child was asked to stop.
    pub was_asked: bool,
}

/// Waits for the end of a child process, and kills the child as soon as a check returns a reason.
/// If this process is asked to stop, it asks the child to stop, once: a terminal sends the signal
/// to both processes, but kill(1) may send it to this process only. If the check returns no reason
/// when the time limit is over, the child runs without a limit from then on.
///
/// # Errors
/// The reason of the check.
pub fn supervise<E>(
    child: &mut Child,
    supervision: &Supervision,
    mut check: impl FnMut(&Child, ChildStatus) -> Option<E>,
) -> std::result::Result<ProcessEnd, E> {
    let (begun, mut limit, mut was_asked) = (Instant::now(), supervision.limit, false);
    loop {
        if gate::interrupt::pending_signal().is_some() && !was_asked {
            child.ask_to_stop();
            let grace = begun.elapsed() + supervision.grace;
            (limit, was_asked) = (limit.min(grace), true);
        }
        let left = limit.saturating_sub(begun.elapsed());
        if let Some(ended) = child.wait(left.min(supervision.interval)) {
            return Ok(ended);
        }
        let standing = ChildStatus {
            after: begun.elapsed(),
            is_late: left.is_zero(),
            was_asked,
        };
        if let Some(why) = check(child, standing) {
            end(child);
            return Err(why);
        }
        if standing.is_late {
            limit = Duration::MAX;
        }
    }
}

/// Whether a child process with this work does not end within `limit`, for example because a server
/// does not respond. The child may never end, and so gets none of this process's descriptors: a
/// reader of this process's output would wait for the child. `false` if no process can be created.
pub fn times_out(limit: Duration, work: impl FnOnce()) -> bool {
    let Ok(mut child) = Child::fork_detached(work) else {
        return false;
    };
    let is_late = child.wait(limit).is_none();
    if is_late {
        end(&mut child);
    }
    is_late
}

/// Kills a child process, and reaps it unless it is blocked in the kernel, waiting for a server.
fn end(child: &mut Child) {
    child.kill();
    child.wait(Duration::from_millis(500));
}
