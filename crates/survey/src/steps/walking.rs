//! Steps: the cost of a walk and of a dump, and the system calls of a walk.

use std::cell::Cell;
use std::time::Instant;

use account::command::CommandAccount;
use archive::gather::{self, Gather};
use archive::nightly::{Expected, Nightly};
use archive::plan::{Plan, PlanStep as Stage};
use base::child::{Bounds, ChildRun, NoRun, run_in_child};
use gate::fs::StatxMask;
use gate::long::stat_long;
use meter::call::CommandEnd;
use walk::compare::{LeftOut, compare};
use walk::{DirectoryCounts, EngineKind, ExplainedPlan, Fields, FileType};

use super::context::{Activity, CallByCallWalk, StepContext, SurveyOptions};
use super::mounts::TRIALS;
use crate::bounded::{LimitedWalk, StoppedEngine};
use crate::found::{SurveyResults, WalkCosts};
use crate::missing::{Failure, Missing, PrivilegedResult, Task};

/// Maximum number of calls that are analysed individually.
const ACCOUNTED_CALLS: u64 = 1 << 18;
/// Number of directories in the list of those with most entries, and in the list of those with most
/// bytes.
const MOST_DIRECTORIES: usize = 100;
/// Maximum bytes of exclude patterns on a command line.
const MOST_OF_A_LINE: usize = 64 << 10;

/// Step: compares the engines on the file system of DIR; or, if the first walk exceeds its limits,
/// on the upper levels of the tree.
pub(super) fn engines(
    step: &mut StepContext<'_>,
    found: &mut SurveyResults,
) -> Result<(), Missing> {
    let excludes = &found.responding()?.excludes;
    let dirs = vec![step.options.dir.clone()];
    let filter = walk::Filter::new(excludes, None);
    let mut options = walk::WalkOptions {
        dirs,
        one_file_system: true,
        filter,
        ..walk::WalkOptions::default()
    };
    let counts = DirectoryCounts::new().map_err(no_process)?;
    let (bounded, mut bounds) = walk_once(&options, step, &counts)?;
    let directories = counts.largest(MOST_DIRECTORIES);
    let bounded = match bounded {
        Some(stopped) => {
            let part = part(&options, excludes, &mut bounds, step)?;
            let levels = part.as_ref().map(|(_, levels)| *levels);
            match part {
                Some((upper, _)) => options = upper,
                // Without a part to walk, the comparison only lists the possible engines.
                None => bounds.until = Some(Instant::now()),
            }
            Some(LimitedWalk {
                levels,
                inodes: inodes(step.options),
                ..stopped
            })
        }
        None => None,
    };
    let tick = |engine: &str, trial| step.report(Activity::Engine(engine, trial));
    let compared = compare(&options, TRIALS, &bounds, tick);
    let mut compared = compared.map_err(|e| Missing::failed(Task::Other, e))?;
    let inodes = inodes(step.options).filter(|_| bounded.is_none());
    let stopped: Vec<_> = stopped(&compared.left_out, inodes).collect();
    if matches!(bounded, Some(LimitedWalk { levels: None, .. })) {
        // Engines that had no time left are already in `stopped`.
        compared
            .left_out
            .retain(|(engine, _)| stopped.iter().all(|one| one.engine != *engine));
    }
    let has_skipped = compared.engines.iter().any(|engine| engine.warnings > 0);
    if !gate::process::is_root() && has_skipped {
        found.unseen.push(PrivilegedResult::UnreadableDirectories);
    }
    let part = compared.explained.first().map(ExplainedPlan::part);
    let part = part.ok_or(Missing::Nothing)?;
    found.walking = Some(WalkCosts {
        part,
        engines: compared,
        directories,
        bounded,
        stopped,
    });
    Ok(())
}

/// The engines that were stopped in the comparison.
fn stopped(
    left_out: &[(EngineKind, LeftOut)],
    inodes: Option<u64>,
) -> impl Iterator<Item = StoppedEngine> {
    left_out.iter().filter_map(move |(engine, why)| match why {
        LeftOut::Impossible(_) | LeftOut::Not(NoRun::Refused, _) => None,
        LeftOut::Not(why, entries) => Some(StoppedEngine {
            engine: *engine,
            why: why.clone(),
            entries: *entries,
            inodes,
        }),
    })
}

/// Walks once, with the engine that a walk would use. Returns the progress if the walk was stopped,
/// and the limits for the comparison.
fn walk_once(
    options: &walk::WalkOptions,
    step: &mut StepContext<'_>,
    counts: &DirectoryCounts,
) -> Result<(Option<LimitedWalk>, Bounds), Missing> {
    /// The first walk leaves 1/4 of the bytes to the comparison.
    const LEAVES: u64 = 4;
    /// After a stopped walk, each run of the comparison gets 1/5 of the time limit.
    const SHARE: u32 = 5;
    let explained = walk::explain(&options.dirs, options.sink_syncs_first, Fields::all())
        .map_err(|e| Missing::failed(Task::Other, e))?;
    let by = explained
        .first()
        .map_or(EngineKind::Threads, |first| first.plan.engine);
    // Raw engines call syncfs(2) first, which can block on a slow disk. So an engine that uses the
    // file API also determines whether the tree is large.
    let other = Some(EngineKind::Threads).filter(|other| *other != by);
    let limit = step.options.limit;
    let mut left = step.bytes - step.bytes / LEAVES;
    let mut furthest: Option<LimitedWalk> = None;
    for (by, each) in [Some((by, limit)), other.map(|other| (other, limit / 2))]
        .into_iter()
        .flatten()
    {
        step.report(Activity::Scouting(by));
        let bounds = Bounds {
            each,
            bytes: Some(Cell::new(left)),
            ..step.bounds()
        };
        counts.clear();
        let ran = walk::compare::run(options, by, &bounds, Some(counts)).map_err(no_process)?;
        let mut bytes = left - bounds.bytes.map_or(left, Cell::into_inner);
        if let Err((NoRun::Moved(moved, _), _)) = ran {
            bytes = bytes.max(moved);
        }
        left = left.saturating_sub(bytes);
        match ran {
            // A walk that the user interrupted is not necessarily too long.
            Err((NoRun::Stopped(after) | NoRun::Moved(_, after), entries))
                if gate::interrupt::pending_signal().is_none() =>
            {
                if !after.is_zero()
                    && furthest
                        .as_ref()
                        .is_none_or(|other| other.entries < entries)
                {
                    furthest = Some(LimitedWalk {
                        engine: by,
                        entries,
                        seconds: after.as_secs_f64(),
                        bytes,
                        inodes: None,
                        levels: None,
                    });
                }
            }
            _ => {
                furthest = None;
                break;
            }
        }
    }
    let each = if furthest.is_some() {
        limit / SHARE
    } else {
        limit
    };
    Ok((
        furthest,
        Bounds {
            each,
            bytes: Some(Cell::new(left + step.bytes / LEAVES)),
            ..step.bounds()
        },
    ))
}

/// The options for a walk of the upper levels of the tree, and the number of levels: as many as all
/// engines can walk within the limits. Walks by the engine `stat`, each one level deeper, determine
/// this number.
fn part(
    options: &walk::WalkOptions,
    excludes: &[String],
    bounds: &mut Bounds,
    step: &mut StepContext<'_>,
) -> Result<Option<(walk::WalkOptions, u32)>, Missing> {
    /// Sufficient number of entries: more entries do not make the figures more precise.
    const ENOUGH: u64 = 50_000;
    const DEEPEST: u32 = 64;
    /// A number of levels is accepted only if RUNS walks of these levels fit into the remaining
    /// time, and if a walk that takes SLOWER times as long stays within the limit of one run.
    const RUNS: u32 = 10;
    const SLOWER: u32 = 3;
    let mut found: Option<(walk::WalkOptions, u32)> = None;
    let mut entries = 0;
    for levels in 1..=DEEPEST {
        step.report(Activity::Levels(levels));
        let upper = walk::WalkOptions {
            filter: walk::Filter::new(excludes, Some(levels)),
            ..options.clone()
        };
        // Use at most half of the remaining bytes, so that the engines have the rest.
        let left = bounds.bytes.as_ref().map_or(0, Cell::get);
        let half = Bounds {
            bytes: Some(Cell::new(left / 2)),
            ..bounds.clone()
        };
        let ran = walk::compare::run(&upper, EngineKind::Stat, &half, None).map_err(no_process)?;
        bounds.bytes = half
            .bytes
            .map(|rest| Cell::new(left - left / 2 + rest.get()));
        match ran {
            Ok(run) if run.result.totals.entries > entries => {
                if run.real * SLOWER > bounds.each || !bounds.fits(run.real * RUNS) {
                    break;
                }
                entries = run.result.totals.entries;
                found = Some((upper, levels));
            }
            _ => break,
        }
        if entries >= ENOUGH {
            break;
        }
    }
    Ok(found)
}

fn no_process(errno: gate::Errno) -> Missing {
    Missing::failed(Task::Walk, errno)
}

/// Number of used inodes, if the file system reports it, and all of the file system is below DIR.
fn inodes(options: &SurveyOptions) -> Option<u64> {
    let place = probe::dir::ProbeDir::open_unnamed_only(&options.dir).ok()?;
    let mount = place.mount.as_ref()?;
    let is_whole =
        mount.content.fsroot == b"/" && mount.target.as_deref() == Some(&options.root.path[..]);
    let inodes = place.statfs.files.saturating_sub(place.statfs.files_free);
    Some(inodes).filter(|inodes| is_whole && *inodes > 0)
}

/// Step: estimates the cost of a nightly dump by reading the metadata for it. Other mounts are
/// skipped, as in the walk.
pub(super) fn dump(step: &mut StepContext<'_>, found: &mut SurveyResults) -> Result<(), Missing> {
    let why = walked(found, step)?.part.reason.clone();
    let dir = &step.options.dir[..];
    let options = gather::CollectOptions {
        sources: vec![[dir.strip_suffix(b"/").unwrap_or(dir), b"/"].concat()],
        selection: catalog::Options {
            excludes: (found.responding()?.excludes.iter())
                .map(|glob| glob.clone().into_bytes())
                .collect(),
            one_file_system: true,
            ..catalog::Options::default()
        },
        ..gather::CollectOptions::default()
    };
    let ran = run_in_child(&step.bounds(), || {
        let (rows, parts) = gather::gather(&options, &walk::Diagnostics::default()).ok()?;
        let engine = parts.first()?.engine;
        let plan = Plan::full(&rows);
        let files = (0..rows.len())
            .filter(|&row| rows.kind(row) == FileType::Regular && plan.step(row) == Stage::Whole);
        let (files, bytes) = files.fold((0, 0_u64), |(n, sum), row| {
            (n + 1, sum.saturating_add(rows.meta(row).data_bytes()))
        });
        let engine = EngineKind::SELECTABLE.iter().position(|by| *by == engine)?;
        Some([rows.len() as u64, files, bytes, engine as u64])
    });
    let ran = ran.map_err(|e| Missing::failed(Task::Gather, e))?;
    let ChildRun {
        real,
        user,
        sys,
        tally,
        result: [entries, files, bytes, engine],
    } = ran.map_err(|why| match why {
        NoRun::Stopped(_) => Missing::TooLong(step.options.limit),
        NoRun::Moved(..) => Missing::TooMuchIo(why),
        NoRun::Refused => Missing::GatherFailed,
    })?;
    let engine = usize::try_from(engine)
        .ok()
        .and_then(|at| EngineKind::SELECTABLE.get(at));
    let engine = engine.ok_or_else(|| Missing::GatherFailed)?;
    let none = Expected::default();
    let nightly = Nightly {
        gather: Gather::from_engine(*engine),
        engine: *engine,
        why,
        entries,
        files,
        bytes,
        seconds: real.as_secs_f64(),
        cpu_seconds: (user + sys).as_secs_f64(),
        calls: tally.calls(),
        call_seconds: call_seconds(dir),
        first: none,
        unchanged: none,
        changed: none,
    };
    found.dump = Some(nightly.with_estimates());
    Ok(())
}

/// The walk of the directory; an error if reading the metadata would take too long, because the
/// walk or every engine was stopped.
fn walked<'a>(found: &'a SurveyResults, step: &StepContext<'_>) -> Result<&'a WalkCosts, Missing> {
    found.responding()?;
    let walking = found.walking.as_ref().ok_or(Missing::NoWalk)?;
    match walking.bounded.is_some() || walking.engines.engines.is_empty() {
        true => Err(Missing::TooLong(step.options.limit)),
        false => Ok(walking),
    }
}

/// The CPU time of a call on this machine: the mean of many statx(2) calls on DIR.
fn call_seconds(dir: &[u8]) -> f64 {
    const ROUNDS: u32 = 1000;
    let before = gate::cpu_time::process_cpu_time();
    for _ in 0..ROUNDS {
        let _ = stat_long(dir, StatxMask::BASIC_STATS);
    }
    gate::cpu_time::process_cpu_time()
        .saturating_sub(before)
        .as_secs_f64()
        / f64::from(ROUNDS)
}

/// Step: accounts for the calls of a walk with one call at a time, like that of find, with the
/// cheapest meter that works.
pub(super) fn account(
    step: &mut StepContext<'_>,
    found: &mut SurveyResults,
) -> Result<(), Missing> {
    const SIGALRM: i32 = 14;
    step.options.local(found)?;
    let walking = walked(found, step)?;
    // The meter cannot limit the bytes that the walk reads, so require that the engine `stat` has
    // completed the same walk within the limits.
    let engines = &walking.engines.engines;
    if engines.iter().all(|run| run.engine != EngineKind::Stat) {
        return Err(Missing::TooLong(step.options.limit));
    }
    let excludes = &found.responding()?.excludes;
    if excludes.iter().map(String::len).sum::<usize>() > MOST_OF_A_LINE {
        return Err(Missing::TooManyExcludes);
    }
    let SurveyOptions { dir, limit, .. } = step.options;
    let words = (step.options.walk_command)(&CallByCallWalk {
        dir,
        excludes,
        limit: *limit,
    });
    let taken = CommandAccount::take(&words, "auto", ACCOUNTED_CALLS, None, None)
        .map_err(|error| Missing::Skipped(Failure::new(Task::Other, error)))?;
    forward_interrupt(taken.metered.ended);
    match taken.metered.ended {
        CommandEnd::Exited(0) => found.account = Some(taken),
        CommandEnd::Killed(SIGALRM) => return Err(Missing::TooLong(step.options.limit)),
        _ => return Err(Missing::WalkEnded),
    }
    Ok(())
}

/// Treats a signal that stopped a metered command as an interruption of the survey, even if only
/// the command received it.
pub(super) fn forward_interrupt(ended: CommandEnd) {
    if let CommandEnd::Killed(signal) = ended {
        gate::interrupt::record(signal);
    }
}

/// Walks a directory with one call at a time, while a meter records the system calls. SIGALRM ends
/// the process at the limit.
///
/// # Errors
/// The walk could not be started.
pub fn walk_call_by_call(asked: &CallByCallWalk<'_>) -> Result<(), walk::Error> {
    gate::process::end_after(asked.limit);
    let options = walk::WalkOptions {
        dirs: vec![asked.dir.to_vec()],
        engine: Some(EngineKind::Stat),
        one_file_system: true,
        filter: walk::Filter::new(asked.excludes, None),
        ..walk::WalkOptions::default()
    };
    let summary = walk::Summary::default();
    walk::walk(&options, &summary, &walk::Diagnostics::default()).map(drop)
}
