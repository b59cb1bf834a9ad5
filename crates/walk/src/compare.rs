//! Runs every engine on one tree, each in a process of its own: CPU times are then per engine, and
//! an engine that takes too long can be stopped.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use base::child::{Bounds, ChildRun, NoRun, run_in_child};
use base::runs::Times;
use gate::process::SharedWords;
use gate::{Errno, Tally};

use crate::digest::Digest;
use crate::directories::{CountingDirectories, DirectoryCounts};
use crate::entry::{Dir, Entry};
use crate::error::{EngineRefusal, Error};
use crate::explain::{ExplainedPlan, explain};
use crate::job::Diagnostics;
use crate::kind::EngineKind;
use crate::sink::{Fields, Sink, SinkPair, Worker};
use crate::summary::{Summary, Totals};
use crate::traversal::{WalkOptions, walk};

/// The result of one walk by one engine.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct EngineWalk {
    pub engine: EngineKind,
    pub totals: Totals,
    /// Number of warnings of this walk.
    pub warnings: u64,
}

/// Why an engine is excluded from the comparison.
#[derive(Clone, Debug)]
pub enum LeftOut {
    /// The engine cannot work in this directory.
    Impossible(EngineRefusal),
    /// The engine was stopped or gave up ([`NoRun::Refused`]) after the walk had found this many
    /// entries.
    Not(NoRun, u64),
}

/// An engine, with the results and times of its walks.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct EngineRuns {
    pub engine: EngineKind,
    /// Totals of the last walk.
    pub totals: Totals,
    /// Number of warnings of the last walk.
    pub warnings: u64,
    /// Whether all walks of this engine, including the one that warms the caches, found the same
    /// tree; `None` after one walk.
    pub is_steady: Option<bool>,
    /// Elapsed and CPU times of each trial.
    pub runs: Vec<Times>,
    /// System calls of the last walk.
    pub tally: Tally,
}

impl EngineRuns {
    /// Summarizes the measured walks of an engine; `None` without measured walks. The `other`
    /// walks, which warm the caches, only show whether the engine finds the same tree each time.
    fn new(
        engine: EngineKind,
        walks: &[ChildRun<EngineWalk>],
        other: &[ChildRun<EngineWalk>],
    ) -> Option<EngineRuns> {
        let own = |walk: &&ChildRun<EngineWalk>| walk.result.engine == engine;
        let last = walks.iter().rfind(own)?;
        let EngineWalk {
            totals, warnings, ..
        } = last.result;
        let all = walks.iter().chain(other).filter(own);
        let digests: Vec<Digest> = all.map(|walk| walk.result.totals.digest).collect();
        Some(EngineRuns {
            engine,
            totals,
            warnings,
            is_steady: (digests.len() > 1)
                .then(|| digests.iter().all(|digest| *digest == totals.digest)),
            runs: walks.iter().filter(own).map(ChildRun::times).collect(),
            tally: last.tally.clone(),
        })
    }
}

/// Whether the engines found the same tree, and if not, why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Agreement {
    /// All engines found the same tree.
    Same,
    /// An engine found different trees in its own walks: the tree changed meanwhile.
    TreeChanged,
    /// Each engine found the same tree every time, but not the tree of the others: an engine is
    /// wrong.
    Disagree,
    /// There was no time for a second walk, so the tree may have changed.
    Unconfirmed,
}

/// The results of all engines on one tree.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// The engine that a walk would choose in each directory.
    pub explained: Vec<ExplainedPlan>,
    /// Results, in the order of [`EngineKind::SELECTABLE`].
    pub engines: Vec<EngineRuns>,
    /// Engines that are not compared, and why.
    pub left_out: Vec<(EngineKind, LeftOut)>,
}

impl Comparison {
    /// Whether all engines found the same tree, and if not, whether the tree changed.
    pub fn agreement(&self) -> Agreement {
        let tree = |engine: &EngineRuns| (engine.totals.digest, engine.totals.entries);
        let mut pairs = self.engines.windows(2);
        if pairs.all(|two| tree(&two[0]) == tree(&two[1])) {
            return Agreement::Same;
        }
        match self.tree_changed() {
            Some(true) => Agreement::TreeChanged,
            Some(false) => Agreement::Disagree,
            None => Agreement::Unconfirmed,
        }
    }

    /// Whether an engine found different trees in different walks; `None` if no engine did, but
    /// some engine walked only once.
    pub fn tree_changed(&self) -> Option<bool> {
        let mut steady = self.engines.iter().map(|engine| engine.is_steady);
        if steady.clone().any(|is_steady| is_steady == Some(false)) {
            return Some(true);
        }
        steady.all(|is_steady| is_steady.is_some()).then_some(false)
    }

    /// The results of an engine, if it was compared.
    pub fn find(&self, engine: EngineKind) -> Option<&EngineRuns> {
        self.engines.iter().find(|one| one.engine == engine)
    }
}

/// Counts the entries of a walk. In shared memory, the number is known to another process during
/// the walk.
impl Sink for AtomicU64 {
    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(self)
    }

    fn wants_paths(&self) -> bool {
        false
    }
}

impl Worker for &AtomicU64 {
    fn take(&mut self, _dir: &Dir<'_>, entries: &[Entry<'_>]) {
        self.fetch_add(entries.len() as u64, Relaxed);
    }
}

/// Walks once by one engine. With `counts`, also counts the entries of each directory, for a single
/// DIR. If the walk is stopped, the error has the number of entries so far.
///
/// # Errors
/// If the child process cannot be created.
pub fn run(
    options: &WalkOptions,
    engine: EngineKind,
    bounds: &Bounds,
    counts: Option<&DirectoryCounts>,
) -> gate::Result<Result<ChildRun<EngineWalk>, (NoRun, u64)>> {
    let options = WalkOptions {
        engine: Some(engine),
        ..options.clone()
    };
    let words = SharedWords::new(1)?;
    let [entries, ..] = &*words else {
        return Err(Errno::ENOMEM);
    };
    let run = run_in_child(bounds, || {
        let (summary, diagnostics) = (Summary::default(), Diagnostics::default());
        let sink = SinkPair(&summary, entries);
        let dir = options.dirs.first().map_or(&b""[..], |dir| dir);
        let directories = counts.map(|counts| CountingDirectories::new(counts, dir));
        match &directories {
            Some(directories) => walk(&options, &SinkPair(&sink, directories), &diagnostics),
            None => walk(&options, &sink, &diagnostics),
        }
        .ok()?;
        let mut words = [0; Totals::WORDS + 1];
        words[..Totals::WORDS].copy_from_slice(&summary.totals().to_words());
        words[Totals::WORDS] = diagnostics.take_warnings().len() as u64;
        Some(words)
    })?;
    let walked = |words: [u64; Totals::WORDS + 1]| EngineWalk {
        engine,
        totals: Totals::from_words(words.first_chunk().unwrap_or(&[0; Totals::WORDS])),
        warnings: words[Totals::WORDS],
    };
    Ok(match run {
        Ok(run) => Ok(run.map(walked)),
        Err(why) => Err((why, entries.load(Relaxed))),
    })
}

/// Compares all engines, after one walk by each that warms the caches. Each trial runs all engines,
/// so that other load on the machine affects all alike. If time is short, there are fewer trials;
/// if it does not suffice for one, the walks that warm the caches are the only trial, and if these
/// differ, each engine walks once more to find out whether the tree changed. The calling process
/// must be single-threaded.
///
/// # Errors
/// A directory cannot be walked, or a child process cannot be created.
pub fn compare(
    options: &WalkOptions,
    trials: usize,
    bounds: &Bounds,
    mut tick: impl FnMut(&str, usize),
) -> Result<Comparison, Error> {
    let explained = explain(&options.dirs, options.sink_syncs_first, Fields::all())?;
    let mut left_out = Vec::new();
    let mut walks: Vec<ChildRun<EngineWalk>> = Vec::new();
    let mut engines = EngineKind::SELECTABLE.to_vec();
    engines.retain(|&engine| {
        let plans = explained.iter().map(|one| &one.plan);
        let refusal = plans.filter_map(|plan| plan.refusal(engine)).next();
        left_out.extend(refusal.map(|refusal| (engine, LeftOut::Impossible(refusal.clone()))));
        refusal.is_none()
    });
    let mut warming: Vec<ChildRun<EngineWalk>> = Vec::new();
    let mut round = Duration::ZERO;
    for trial in 0..=trials {
        if trial > 0 && !bounds.fits(round) {
            break;
        }
        let begun = Instant::now();
        let mut runs = Vec::with_capacity(engines.len());
        for engine in engines.clone() {
            tick(engine.name(), trial);
            match run(options, engine, bounds, None).map_err(Error::Process)? {
                Ok(run) => runs.push(run),
                Err((why, entries)) => {
                    engines.retain(|&other| other != engine);
                    for walks in [&mut warming, &mut walks] {
                        walks.retain(|walk| walk.result.engine != engine);
                    }
                    left_out.push((engine, LeftOut::Not(why, entries)));
                }
            }
        }
        // Stopped engines do not run again, so their times do not count.
        let times = runs.iter().map(|run| run.real);
        round = times.sum::<Duration>().min(begun.elapsed());
        match trial {
            0 => warming = runs,
            _ => walks.extend(runs),
        }
    }
    if walks.is_empty() && trials > 0 {
        std::mem::swap(&mut walks, &mut warming);
        warming = walk_again(options, bounds, &walks)?;
    }
    let engines = EngineKind::SELECTABLE.iter();
    let engines = engines.filter_map(|&engine| EngineRuns::new(engine, &walks, &warming));
    Ok(Comparison {
        engines: engines.collect(),
        explained,
        left_out,
    })
}

/// If the engines disagree, repeats each walk to find out whether the tree changed.
fn walk_again(
    options: &WalkOptions,
    bounds: &Bounds,
    walks: &[ChildRun<EngineWalk>],
) -> Result<Vec<ChildRun<EngineWalk>>, Error> {
    let digest = |walk: &ChildRun<EngineWalk>| walk.result.totals.digest;
    let is_same = walks
        .windows(2)
        .all(|two| digest(&two[0]) == digest(&two[1]));
    let mut again = Vec::new();
    for walk in walks.iter().filter(|_| !is_same) {
        // A repeated walk that is stopped leaves `is_steady` unknown.
        again.extend(run(options, walk.result.engine, bounds, None).map_err(Error::Process)?);
    }
    Ok(again)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walked(engine: EngineKind, digest: u64) -> ChildRun<EngineWalk> {
        let totals = Totals {
            digest: Digest::from_halves([digest, 0]),
            ..Totals::default()
        };
        ChildRun {
            real: Duration::from_secs(1),
            user: Duration::ZERO,
            sys: Duration::ZERO,
            tally: Tally::default(),
            result: EngineWalk {
                engine,
                totals,
                warnings: 0,
            },
        }
    }

    /// The agreement of two engines with these digests in their measured and cache-warming walks.
    fn agreement(measured: [&[u64]; 2], warming: [&[u64]; 2]) -> Agreement {
        let engines = [EngineKind::Threads, EngineKind::Stat];
        let all = |digests: [&[u64]; 2]| -> Vec<_> {
            let of_engine = |at: usize| digests[at].iter().map(move |&it| walked(engines[at], it));
            (0..2).flat_map(of_engine).collect()
        };
        let (walks, warming) = (all(measured), all(warming));
        let runs = engines.map(|engine| EngineRuns::new(engine, &walks, &warming));
        let compared = Comparison {
            engines: runs.into_iter().flatten().collect(),
            ..Comparison::default()
        };
        assert_eq!(compared.engines[0].runs.len(), measured[0].len());
        compared.agreement()
    }

    #[test]
    fn engine_that_finds_two_trees_shows_that_the_tree_changed() {
        use Agreement::*;
        assert_eq!(agreement([&[7], &[7]], [&[], &[]]), Same);
        assert_eq!(agreement([&[7], &[8]], [&[], &[]]), Unconfirmed);
        assert_eq!(agreement([&[7], &[8]], [&[7], &[8]]), Disagree);
        assert_eq!(agreement([&[7, 7], &[8, 8]], [&[], &[]]), Disagree);
        // The tree changed after the last walk of the first engine.
        assert_eq!(agreement([&[7], &[8]], [&[7], &[7]]), TreeChanged);
        assert_eq!(agreement([&[7, 8], &[9]], [&[], &[]]), TreeChanged);
        // The tree changed, but the last walks of both engines saw its final state.
        assert_eq!(agreement([&[6, 7], &[6, 7]], [&[], &[]]), Same);
    }
}
