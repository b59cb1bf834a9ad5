//! Every engine on one tree, each in a process of its own: CPU times are then its own, and one that
//! takes too long can be stopped.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use gate::process::Shared;
use gate::{Errno, Tally};
use mounts::compare::{Alone, Bounds, NoRun, alone_within};

use crate::digest::Digest;
use crate::entry::{Dir, Entry};
use crate::error::{EngineRefusal, Error};
use crate::explain::{Explained, explain};
use crate::job::Diagnostics;
use crate::kind::EngineKind;
use crate::sink::{Sink, Worker};
use crate::summary::{Summary, Totals};
use crate::traversal::{WalkOptions, walk};

/// What one walk by one engine took.
#[derive(Clone, Debug)]
pub struct Run {
    /// The engine.
    pub engine: EngineKind,
    /// Elapsed time of the walk itself.
    pub real: Duration,
    /// CPU time in the program, start and end of its process included.
    pub user: Duration,
    /// CPU time in the kernel for it, likewise.
    pub sys: Duration,
    /// What it found.
    pub totals: Totals,
    /// How many warnings it gave.
    pub warnings: u64,
    /// The gates that it passed.
    pub tally: Tally,
}

/// Why an engine is not among those that are compared.
#[derive(Clone, Debug)]
pub enum LeftOut {
    /// It cannot work there.
    Impossible(EngineRefusal),
    /// It looked possible, and was stopped, or gave up ([`NoRun::Refused`]), having found so many
    /// entries.
    Not(NoRun, u64),
}

/// Several walks by every engine.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// What would be done without a comparison, in each directory.
    pub explained: Vec<Explained>,
    /// Trial by trial, the engines of each in the order of [`EngineKind::ALL`].
    pub trials: Vec<Vec<Run>>,
    /// Engines that were left out, and why.
    pub left_out: Vec<(EngineKind, LeftOut)>,
}

/// Adds up, and lets others see meanwhile how many entries there were.
struct Seen<'a> {
    summary: &'a Summary,
    entries: &'a AtomicU64,
}

impl Sink for Seen<'_> {
    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new((self.summary.worker(), self.entries))
    }

    fn wants_paths(&self) -> bool {
        self.summary.wants_paths()
    }
}

impl Worker for (Box<dyn Worker + '_>, &AtomicU64) {
    fn take(&mut self, dir: &Dir<'_>, entries: &[Entry<'_>]) {
        self.0.take(dir, entries);
        self.1.fetch_add(entries.len() as u64, Relaxed);
    }
}

/// Walks once by one engine. Who is stopped has found so many entries.
///
/// # Errors
/// When no process can be made.
pub fn run(
    options: &WalkOptions,
    engine: EngineKind,
    bounds: &Bounds,
) -> gate::Result<Result<Run, (NoRun, u64)>> {
    let options = WalkOptions {
        engine: Some(engine),
        ..options.clone()
    };
    let words = Shared::new(1)?;
    let [seen, ..] = &*words else {
        return Err(Errno::ENOMEM);
    };
    let ran = alone_within(bounds, || {
        let (summary, diagnostics) = (Summary::default(), Diagnostics::default());
        walk(
            &options,
            &Seen {
                summary: &summary,
                entries: seen,
            },
            &diagnostics,
        )
        .ok()?;
        let t = summary.totals();
        let [lower, upper] = t.digest.halves();
        let counts = [
            t.entries,
            t.files,
            t.directories,
            t.symlinks,
            t.other,
            t.bytes,
            t.blocks,
            t.max_depth.into(),
        ];
        let [a, b, c, d, e, f, g, h] = counts;
        Some([
            a,
            b,
            c,
            d,
            e,
            f,
            g,
            h,
            lower,
            upper,
            diagnostics.take_warnings().len() as u64,
        ])
    })?;
    let ran = ran.map_err(|why| (why, seen.load(Relaxed)));
    Ok(ran.map(
        |Alone {
             real,
             user,
             sys,
             tally,
             gave,
         }| {
            let [
                entries,
                files,
                directories,
                symlinks,
                other,
                bytes,
                blocks,
                max_depth,
                lower,
                upper,
                warnings,
            ] = gave;
            let totals = Totals {
                entries,
                files,
                directories,
                symlinks,
                other,
                bytes,
                blocks,
                max_depth: u32::try_from(max_depth).unwrap_or(u32::MAX),
                digest: Digest::from_halves([lower, upper]),
            };
            Run {
                engine,
                real,
                user,
                sys,
                totals,
                warnings,
                tally,
            }
        },
    ))
}

/// Compares all engines, after one walk by each that warms the caches. The trials go through the
/// engines in turn, so that what else the machine does falls on all alike; where there is no time
/// for all of them, there are fewer. Where there is none for even one, the walks that were to warm
/// the caches are the only trial. The calling process must be single-threaded.
///
/// # Errors
/// A directory that cannot be walked, or no process to be had.
pub fn compare(
    options: &WalkOptions,
    trials: usize,
    bounds: &Bounds,
    mut tick: impl FnMut(&str, usize),
) -> Result<Comparison, Error> {
    let explained = explain(&options.dirs, options.is_written)?;
    let mut left_out = Vec::new();
    let mut engines = Vec::new();
    for engine in EngineKind::ALL {
        let plans = explained.iter().flat_map(|one| &one.plan.engines);
        let refusal = plans
            .filter(|(kind, _)| *kind == engine)
            .find_map(|(_, possible)| possible.as_ref().err());
        match refusal {
            Some(refusal) => left_out.push((engine, LeftOut::Impossible(refusal.clone()))),
            None => engines.push(engine),
        }
    }
    let mut comparison = Comparison {
        explained,
        trials: Vec::new(),
        left_out,
    };
    let mut warming = Vec::new();
    let mut round = Duration::ZERO;
    for trial in 0..=trials {
        if trial > 0 && !bounds.fits(round) {
            break;
        }
        let begun = Instant::now();
        let mut runs = Vec::with_capacity(engines.len());
        for engine in engines.clone() {
            tick(engine.name(), trial);
            let (why, seen) = match run(options, engine, bounds).map_err(Error::Process)? {
                Ok(run) => {
                    runs.push(run);
                    continue;
                }
                Err(why) => why,
            };
            engines.retain(|&other| other != engine);
            comparison
                .trials
                .iter_mut()
                .for_each(|runs| runs.retain(|run| run.engine != engine));
            comparison.left_out.push((engine, LeftOut::Not(why, seen)));
        }
        // Those that were stopped are not asked again: they take no time any more.
        round = runs
            .iter()
            .map(|run| run.real)
            .sum::<Duration>()
            .min(begun.elapsed());
        match trial {
            0 => warming = runs,
            _ => comparison.trials.push(runs),
        }
    }
    if comparison.trials.is_empty() && trials > 0 {
        comparison.trials.push(warming);
    }
    Ok(comparison)
}
