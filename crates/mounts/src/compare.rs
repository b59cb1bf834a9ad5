//! Every method on one tree, each in a process of its own, as the papers ran theirs under timex(1).

use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use gate::process::{Child, Ended, Shared};
use gate::usage::{IoBytes, io_bytes};
use gate::{Result, Tally};

use crate::locate::{LocateOptions, Method, locate};
use crate::root::Root;

/// What one run of one method took.
#[derive(Clone, Debug)]
pub struct Run {
    /// The method.
    pub method: Method,
    /// Elapsed time of the search itself.
    pub real: Duration,
    /// CPU time in the program, start and end of its process included.
    pub user: Duration,
    /// CPU time in the kernel for it, likewise.
    pub sys: Duration,
    /// Mount points found.
    pub found: u64,
    /// Whether nothing was left out.
    pub complete: bool,
    /// The gates that it passed.
    pub tally: Tally,
}

/// Why there is no [`Run`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoRun {
    /// It took longer than the limit, and was stopped.
    Stopped(Duration),
    /// It had so many bytes read from disks or written to them, which were more than it might, and
    /// was stopped after so long.
    Moved(u64, Duration),
    /// What it needs is not to be had here.
    Refused,
}

impl std::fmt::Display for NoRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NoRun::Stopped(Duration::ZERO) => f.write_str("no time was left for it"),
            NoRun::Stopped(after) => write!(f, "stopped after {:.3} s", after.as_secs_f64()),
            NoRun::Moved(_, Duration::ZERO) => {
                f.write_str("no disk reads and writes were left for it")
            }
            NoRun::Moved(bytes, _) => {
                write!(
                    f,
                    "stopped after {:.1} MiB of disk reads and writes",
                    *bytes as f64 / 1_048_576.0
                )
            }
            NoRun::Refused => f.write_str("what it needs is not to be had here"),
        }
    }
}

/// What runs may take, one and all of them together.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Time for one.
    pub each: Duration,
    /// When the last one must have ended.
    pub until: Option<Instant>,
    /// Bytes that all those that are still to come may have read from disks and written to them,
    /// together. Where the kernel keeps no account of that, it holds nobody back.
    pub bytes: Option<Cell<u64>>,
    /// How long one may still take when this process is asked to stop: it may have been asked as
    /// well, and have something to put away.
    pub grace: Duration,
}

impl Bounds {
    /// So much time for each run, and nothing else.
    pub fn time(each: Duration) -> Bounds {
        const GRACE: Duration = Duration::from_secs(2);
        Bounds {
            each,
            until: None,
            bytes: None,
            grace: GRACE,
        }
    }

    /// Time for the next run; `None` when there is none left, or this process is asked to stop.
    pub fn next(&self) -> Option<Duration> {
        /// In less nothing can be measured.
        const LEAST: Duration = Duration::from_millis(10);
        let left = self.left();
        (left >= LEAST.min(self.each) && gate::interrupt::asked().is_none())
            .then(|| left.min(self.each))
    }

    /// Whether there is time for as much again as took so long.
    pub fn fits(&self, again: Duration) -> bool {
        self.next().is_some() && self.left() >= again
    }

    fn left(&self) -> Duration {
        self.until.map_or(Duration::MAX, |until| {
            until.saturating_duration_since(Instant::now())
        })
    }
}

/// What some work took in a process of its own, and the numbers that it gave.
#[derive(Clone, Debug)]
pub struct Alone<const N: usize> {
    /// Elapsed time of the work itself.
    pub real: Duration,
    /// CPU time in the program, start and end of the process included.
    pub user: Duration,
    /// CPU time in the kernel for it, likewise.
    pub sys: Duration,
    /// The gates that it passed.
    pub tally: Tally,
    /// What it gave.
    pub gave: [u64; N],
}

/// Does some work in a process of its own, for at most `limit`. Its calls are entered into this
/// process's tally. Work that gives nothing is [`NoRun::Refused`].
///
/// # Errors
/// When no process can be made.
pub fn alone<const N: usize>(
    limit: Duration,
    work: impl FnOnce() -> Option<[u64; N]>,
) -> Result<std::result::Result<Alone<N>, NoRun>> {
    alone_within(&Bounds::time(limit), work)
}

/// The same, within bounds; what it moves is taken off what those who come after it may. Who has no
/// grace ends at once when he is asked to.
///
/// # Errors
/// When no process can be made.
pub fn alone_within<const N: usize>(
    bounds: &Bounds,
    work: impl FnOnce() -> Option<[u64; N]>,
) -> Result<std::result::Result<Alone<N>, NoRun>> {
    const REAL: usize = 0;
    const DONE: usize = 1;
    const TALLY: usize = 2;
    const GAVE: usize = TALLY + Tally::WORDS;
    let Some(limit) = bounds.next() else {
        return Ok(Err(NoRun::Stopped(Duration::ZERO)));
    };
    if bounds.bytes.as_ref().is_some_and(|left| left.get() == 0) {
        return Ok(Err(NoRun::Moved(0, Duration::ZERO)));
    }
    let shared = Shared::new(GAVE + N)?;
    let before = bounds.bytes.as_ref().and_then(|_| io_bytes(None));
    let mut child = Child::fork(|| {
        if bounds.grace.is_zero() {
            gate::interrupt::heed();
        }
        let before = gate::meter::tally();
        let start = Instant::now();
        let gave = work();
        shared[REAL].store(
            u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX),
            Relaxed,
        );
        gate::meter::tally()
            .since(&before)
            .publish(&shared[TALLY..]);
        if let Some(gave) = gave {
            shared[GAVE..]
                .iter()
                .zip(gave)
                .for_each(|(word, value)| word.store(value, Relaxed));
            shared[DONE].store(1, Relaxed);
        }
    })?;
    let ended = end_of(&mut child, limit, bounds);
    if ended.is_err() {
        child.kill();
        child.wait(Duration::from_millis(500));
    }
    // What it has moved is entered for this process when it has been waited for.
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
    let real = Duration::from_nanos(shared[REAL].load(Relaxed));
    let gave = std::array::from_fn(|at| shared[GAVE + at].load(Relaxed));
    Ok(Ok(Alone {
        real,
        user: ended.user,
        sys: ended.sys,
        tally,
        gave,
    }))
}

/// Waits for the end of a child, for at most `limit`, and looks now and then whether it keeps
/// within its bounds.
fn end_of(
    child: &mut Child,
    limit: Duration,
    bounds: &Bounds,
) -> std::result::Result<Ended, NoRun> {
    const LOOK: Duration = Duration::from_millis(100);
    /// A fast disk reads 20 MiB meanwhile.
    const LOOK_AT_BYTES: Duration = Duration::from_millis(10);
    let look = if bounds.bytes.is_some() {
        LOOK_AT_BYTES
    } else {
        LOOK
    };
    let (begun, mut limit, mut was_asked) = (Instant::now(), limit, false);
    loop {
        if gate::interrupt::asked().is_some() && !was_asked {
            child.ask_to_stop();
            (limit, was_asked) = (limit.min(begun.elapsed() + bounds.grace), true);
        }
        let left = limit.saturating_sub(begun.elapsed());
        if let Some(ended) = child.wait(left.min(look)) {
            return Ok(ended);
        }
        if left.is_zero() {
            return Err(NoRun::Stopped(begun.elapsed()));
        }
        let most = bounds.bytes.as_ref().map_or(u64::MAX, Cell::get);
        match bounds
            .bytes
            .as_ref()
            .and_then(|_| io_bytes(Some(child.id())))
            .map(IoBytes::sum)
        {
            Some(bytes) if bytes > most => return Err(NoRun::Moved(bytes, begun.elapsed())),
            _ => {}
        }
    }
}

/// Runs one method once. Its calls are entered into this process's tally.
///
/// # Errors
/// When no process can be made.
pub fn run(
    root: &Root,
    method: Method,
    options: &LocateOptions,
    bounds: &Bounds,
) -> Result<std::result::Result<Run, NoRun>> {
    let options = LocateOptions {
        method: Some(method),
        ..options.clone()
    };
    let ran = alone_within(bounds, || {
        let report = locate(root, &options, &mut |_, _| {}).ok()?;
        Some([report.points.len() as u64, u64::from(report.is_complete())])
    })?;
    Ok(ran.map(
        |Alone {
             real,
             user,
             sys,
             tally,
             gave: [found, complete],
         }| Run {
            method,
            real,
            user,
            sys,
            found,
            complete: complete == 1,
            tally,
        },
    ))
}

/// Several runs of every method.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// Trial by trial, the methods of each in the order of [`Method::ALL`].
    pub trials: Vec<Vec<Run>>,
    /// One more run of each method, with every call timed: its tally is the profile.
    pub profiles: Vec<Run>,
    /// Methods that were left out, and why.
    pub left_out: Vec<(Method, NoRun)>,
}

/// Compares methods, in this order, after one run of each that warms the caches and is profiled.
/// The trials go through the methods in turn, so that what else the machine does falls on all
/// alike; where there is no time for all of them, there are fewer, and where there is none for even
/// one, the profiled runs are the only trial.
///
/// # Errors
/// When no process can be made.
pub fn compare(
    root: &Root,
    options: &LocateOptions,
    methods: &[Method],
    trials: usize,
    bounds: &Bounds,
    mut tick: impl FnMut(&str, usize),
) -> Result<Comparison> {
    let mut comparison = Comparison::default();
    let was_profiling = gate::meter::profiling();
    gate::meter::set_profiling(true);
    for &method in methods {
        tick(method.name(), 0);
        // Once to warm the caches, once for the profile; a method that is stopped is not asked
        // again.
        let warmed = run(root, method, options, bounds)?;
        let profiled = if warmed.is_ok() {
            run(root, method, options, bounds)?
        } else {
            warmed
        };
        match profiled {
            Ok(profile) => comparison.profiles.push(profile),
            Err(why) => comparison.left_out.push((method, why)),
        }
    }
    gate::meter::set_profiling(was_profiling);
    let methods: Vec<Method> = comparison.profiles.iter().map(|run| run.method).collect();
    let mut round = comparison.profiles.iter().map(|run| run.real).sum();
    for trial in 1..=trials {
        if !bounds.fits(round) {
            break;
        }
        let begun = Instant::now();
        let mut runs = Vec::with_capacity(methods.len());
        for &method in &methods {
            tick(method.name(), trial);
            match run(root, method, options, bounds)? {
                Ok(run) => runs.push(run),
                Err(why) => {
                    comparison.left_out.push((method, why));
                    break;
                }
            }
        }
        // The trials after one that was stopped would be stopped as well.
        if runs.len() < methods.len() {
            break;
        }
        comparison.trials.push(runs);
        round = begun.elapsed();
    }
    if comparison.trials.is_empty() && trials > 0 && !comparison.profiles.is_empty() {
        comparison.trials.push(comparison.profiles.clone());
    }
    let place = |method: Method| Method::ALL.iter().position(|one| *one == method);
    comparison.profiles.sort_by_key(|run| place(run.method));
    comparison
        .trials
        .iter_mut()
        .for_each(|runs| runs.sort_by_key(|run| place(run.method)));
    Ok(comparison)
}
