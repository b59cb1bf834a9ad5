//! Every method on one tree, each in a process of its own, as the papers ran theirs under timex(1).

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use gate::process::{Child, Ended, Shared};
use gate::{Result, Tally};

use crate::locate::{By, Question, locate};
use crate::root::Root;

/// What one run of one method took.
#[derive(Clone, Debug)]
pub struct Run {
    /// The method.
    pub by: By,
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
    /// What it needs is not to be had here.
    Refused,
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

/// Does some work in a process of its own, for at most `limit`. Its calls are entered into this process's tally. Work that
/// gives nothing is [`NoRun::Refused`].
///
/// # Errors
/// When no process can be made.
pub fn alone<const N: usize>(
    limit: Duration,
    work: impl FnOnce() -> Option<[u64; N]>,
) -> Result<std::result::Result<Alone<N>, NoRun>> {
    const REAL: usize = 0;
    const DONE: usize = 1;
    const TALLY: usize = 2;
    const GAVE: usize = TALLY + Tally::WORDS;
    let shared = Shared::new(GAVE + N)?;
    let mut child = Child::fork(|| {
        let before = gate::meter::tally();
        let start = Instant::now();
        let gave = work();
        shared[REAL].store(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX), Relaxed);
        gate::meter::tally().since(&before).publish(&shared[TALLY..]);
        if let Some(gave) = gave {
            shared[GAVE..].iter().zip(gave).for_each(|(word, value)| word.store(value, Relaxed));
            shared[DONE].store(1, Relaxed);
        }
    })?;
    let Some(ended) = end_of(&mut child, limit) else {
        child.kill();
        child.wait(Duration::from_millis(500));
        return Ok(Err(NoRun::Stopped(limit)));
    };
    let tally = Tally::collect(&shared[TALLY..]);
    gate::meter::enter(&tally);
    if shared[DONE].load(Relaxed) == 0 {
        return Ok(Err(NoRun::Refused));
    }
    let real = Duration::from_nanos(shared[REAL].load(Relaxed));
    let gave = std::array::from_fn(|at| shared[GAVE + at].load(Relaxed));
    Ok(Ok(Alone { real, user: ended.user, sys: ended.sys, tally, gave }))
}

/// Waits for the end of a child, for at most `limit`. Who is asked to stop meanwhile waits only a little longer: the child may have
/// been asked as well, and have something to put away.
fn end_of(child: &mut Child, limit: Duration) -> Option<Ended> {
    const LOOK: Duration = Duration::from_millis(100);
    const GRACE: Duration = Duration::from_secs(2);
    let (begun, mut limit, mut was_asked) = (Instant::now(), limit, false);
    loop {
        if gate::interrupt::asked().is_some() && !was_asked {
            (limit, was_asked) = (limit.min(begun.elapsed() + GRACE), true);
        }
        let left = limit.saturating_sub(begun.elapsed());
        if let Some(ended) = child.wait(left.min(LOOK)) {
            return Some(ended);
        }
        if left.is_zero() {
            return None;
        }
    }
}

/// Runs one method once, for at most `limit`. Its calls are entered into this process's tally.
///
/// # Errors
/// When no process can be made.
pub fn run(root: &Root, by: By, question: &Question, limit: Duration) -> Result<std::result::Result<Run, NoRun>> {
    let question = Question { by: Some(by), ..question.clone() };
    let ran = alone(limit, || {
        let answer = locate(root, &question, &mut |_, _| {}).ok()?;
        Some([answer.points.len() as u64, u64::from(answer.lacking.is_empty())])
    })?;
    Ok(ran.map(|Alone { real, user, sys, tally, gave: [found, complete] }| Run {
        by,
        real,
        user,
        sys,
        found,
        complete: complete == 1,
        tally,
    }))
}

/// Several runs of every method.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// Trial by trial, the methods of each in the order of [`By::ALL`].
    pub trials: Vec<Vec<Run>>,
    /// One more run of each method, with every call timed: its tally is the profile.
    pub profiles: Vec<Run>,
    /// Methods that were left out, and why.
    pub left_out: Vec<(By, NoRun)>,
}

/// Compares all methods, after one run of each that warms the caches and is profiled. The trials go through the methods
/// in turn, so that what else the machine does falls on all alike.
///
/// # Errors
/// When no process can be made.
pub fn compare(
    root: &Root,
    question: &Question,
    trials: usize,
    limit: Duration,
    mut tick: impl FnMut(&str, usize),
) -> Result<Comparison> {
    let mut comparison = Comparison::default();
    let was_profiling = gate::meter::profiling();
    gate::meter::set_profiling(true);
    for by in By::ALL {
        tick(by.name(), 0);
        // Once to warm the caches, once for the profile; a method that is stopped is not asked again.
        let warmed = run(root, by, question, limit)?;
        let profiled = if warmed.is_ok() { run(root, by, question, limit)? } else { warmed };
        match profiled {
            Ok(profile) => comparison.profiles.push(profile),
            Err(why) => comparison.left_out.push((by, why)),
        }
    }
    gate::meter::set_profiling(was_profiling);
    let methods: Vec<By> = comparison.profiles.iter().map(|run| run.by).collect();
    for trial in 1..=trials {
        let mut runs = Vec::with_capacity(methods.len());
        for &by in &methods {
            tick(by.name(), trial);
            match run(root, by, question, limit)? {
                Ok(run) => runs.push(run),
                Err(why) => comparison.left_out.push((by, why)),
            }
        }
        if runs.len() == methods.len() {
            comparison.trials.push(runs);
        }
    }
    Ok(comparison)
}
