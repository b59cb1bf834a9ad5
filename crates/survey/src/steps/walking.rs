//! What walking costs, and dumping, and which calls a walk makes.

use std::cell::Cell;
use std::time::Instant;

use account::command::CommandAccount;
use archive::gather::{self, Gather};
use archive::nightly::{Expected, Nightly};
use archive::plan::{Plan, Step as Stage};
use base::child::{Bounds, Measured, NoRun, run_in_child};
use gate::fs::{At, Want};
use gate::long::statx_long;
use meter::call::Ended;
use walk::compare::{LeftOut, compare};
use walk::{DirectoryCounts, EngineKind, Explained, Fields, FileType};

use super::context::{Activity, CallByCallWalk, StepContext, SurveyOptions};
use super::mounts::TRIALS;
use crate::bounded::{Bounded, StoppedEngine};
use crate::found::{Found, Walking};
use crate::missing::{Failure, Missing, Task, Unseen};

/// Calls that are looked at one by one.
const ACCOUNTED_CALLS: u64 = 1 << 18;
/// Directories with most entries, and with most bytes, of which the survey keeps the counts.
const MOST_DIRECTORIES: usize = 100;
/// Bytes of patterns in a command line.
const MOST_OF_A_LINE: usize = 64 << 10;

/// A walk by every engine, without going into other mounts; where the first one needs more than it
/// may use, by every engine on a part.
pub(super) fn engines(step: &mut StepContext<'_>, found: &mut Found) -> Result<(), Missing> {
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
    let (bounded, mut bounds) = scout(&options, step, &counts)?;
    let directories = counts.largest(MOST_DIRECTORIES);
    let bounded = match bounded {
        Some(stopped) => {
            let part = part(&options, excludes, &mut bounds, step)?;
            let levels = part.as_ref().map(|(_, levels)| *levels);
            match part {
                Some((upper, _)) => options = upper,
                // Then no more is said than what might work here.
                None => bounds.until = Some(Instant::now()),
            }
            Some(Bounded {
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
    if matches!(bounded, Some(Bounded { levels: None, .. })) {
        // That no time was left for them is said already.
        compared
            .left_out
            .retain(|(engine, _)| stopped.iter().all(|one| one.engine != *engine));
    }
    let has_skipped = compared.engines.iter().any(|engine| engine.warnings > 0);
    if !gate::process::is_root() && has_skipped {
        found.unseen.push(Unseen::UnreadableDirectories);
    }
    let part = compared.explained.first().map(Explained::part);
    let part = part.ok_or(Missing::Nothing)?;
    found.walking = Some(Walking {
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

/// Walks once, by the engine that a walk would take. How far it came, if it was stopped; and what
/// others may use then.
fn scout(
    options: &walk::WalkOptions,
    step: &mut StepContext<'_>,
    counts: &DirectoryCounts,
) -> Result<(Option<Bounded>, Bounds), Missing> {
    /// The share of the bytes that it leaves to others.
    const LEAVES: u64 = 4;
    /// The share of the time of a run that each has who comes after one that was stopped.
    const SHARE: u32 = 5;
    let explained = walk::explain(&options.dirs, options.sink_syncs_first, Fields::all())
        .map_err(|e| Missing::failed(Task::Other, e))?;
    let by = explained
        .first()
        .map_or(EngineKind::Threads, |first| first.plan.engine);
    // One that goes below the file API first has all written that anybody has changed, and may wait
    // long for that. Whether the tree is large, one by the file API knows as well.
    let other = Some(EngineKind::Threads).filter(|other| *other != by);
    let limit = step.options.limit;
    let mut left = step.bytes - step.bytes / LEAVES;
    let mut furthest: Option<Bounded> = None;
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
        let ran =
            walk::compare::run_counting(options, by, &bounds, Some(counts)).map_err(no_process)?;
        let mut bytes = left - bounds.bytes.map_or(left, Cell::into_inner);
        if let Err((NoRun::Moved(moved, _), _)) = ran {
            bytes = bytes.max(moved);
        }
        left = left.saturating_sub(bytes);
        match ran {
            // One that was interrupted need not be too long.
            Err((NoRun::Stopped(after) | NoRun::Moved(_, after), entries))
                if gate::interrupt::asked().is_none() =>
            {
                if !after.is_zero()
                    && furthest
                        .as_ref()
                        .is_none_or(|other| other.entries < entries)
                {
                    furthest = Some(Bounded {
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

/// The uppermost levels of a tree, as many as a walk, call by call, and then some by each engine
/// come through; and how many they are.
fn part(
    options: &walk::WalkOptions,
    excludes: &[String],
    bounds: &mut Bounds,
    step: &mut StepContext<'_>,
) -> Result<Option<(walk::WalkOptions, u32)>, Missing> {
    /// With more entries figures are no better.
    const ENOUGH: u64 = 50_000;
    const DEEPEST: u32 = 64;
    /// Walks for which there must be time; and how many times as long one of them may take as this
    /// one.
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
        // What it uses up of the bytes is less than what it leaves to the engines.
        let left = bounds.bytes.as_ref().map_or(0, Cell::get);
        let half = Bounds {
            bytes: Some(Cell::new(left / 2)),
            ..bounds.clone()
        };
        let ran = walk::compare::run(&upper, EngineKind::Stat, &half).map_err(no_process)?;
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

/// How many files the file system says that it has, if it says so, and all of it is below DIR.
fn inodes(options: &SurveyOptions) -> Option<u64> {
    let place = probe::dir::ProbeDir::open_unnamed_only(&options.dir).ok()?;
    let mount = place.mount.as_ref()?;
    let is_whole =
        mount.content.fsroot == b"/" && mount.target.as_deref() == Some(&options.root.path[..]);
    let inodes = place.statfs.files.saturating_sub(place.statfs.files_free);
    Some(inodes).filter(|inodes| is_whole && *inodes > 0)
}

/// What a nightly dump would cost, from gathering what it would. Other mounts are left out, as in
/// the walk.
pub(super) fn dump(step: &mut StepContext<'_>, found: &mut Found) -> Result<(), Missing> {
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
            (n + 1, sum.saturating_add(rows.meta(row).size))
        });
        let engine = EngineKind::SELECTABLE.iter().position(|by| *by == engine)?;
        Some([rows.len() as u64, files, bytes, engine as u64])
    });
    let ran = ran.map_err(|e| Missing::failed(Task::Gather, e))?;
    let Measured {
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

/// The walk of the directory, unless gathering would take too long: where one walk did, or every
/// engine.
fn walked<'a>(found: &'a Found, step: &StepContext<'_>) -> Result<&'a Walking, Missing> {
    found.responding()?;
    let walking = found.walking.as_ref().ok_or(Missing::NoWalk)?;
    match walking.bounded.is_some() || walking.engines.engines.is_empty() {
        true => Err(Missing::TooLong(step.options.limit)),
        false => Ok(walking),
    }
}

/// What a call costs here: statx(2) of DIR, over and over.
fn call_seconds(dir: &[u8]) -> f64 {
    const ROUNDS: u32 = 1000;
    let before = gate::cpu_time::process_cpu_time();
    for _ in 0..ROUNDS {
        let _ = statx_long(dir, At::empty(), Want::BASIC_STATS);
    }
    gate::cpu_time::process_cpu_time()
        .saturating_sub(before)
        .as_secs_f64()
        / f64::from(ROUNDS)
}

/// Has a walk of DIR, one call after the other as find has it, accounted for by the cheapest meter
/// that works.
pub(super) fn account(step: &mut StepContext<'_>, found: &mut Found) -> Result<(), Missing> {
    const SIGALRM: i32 = 14;
    step.options.local(found)?;
    let walking = walked(found, step)?;
    // The meter cannot hold the walk to its bytes: that it keeps within them is known from the same
    // walk just before.
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
    heard(taken.metered.ended);
    match taken.metered.ended {
        Ended::Exited(0) => found.account = Some(taken),
        Ended::Killed(SIGALRM) => return Err(Missing::TooLong(step.options.limit)),
        _ => return Err(Missing::WalkEnded),
    }
    Ok(())
}

/// A signal that has asked a metered command to stop has asked the survey, even if the command alone got
/// it.
pub(super) fn heard(ended: Ended) {
    if let Ended::Killed(signal) = ended {
        gate::interrupt::record(signal);
    }
}

/// Walks a directory by one call after the other, to be accounted for. SIGALRM ends the process at the limit.
///
/// # Errors
/// Why the walk was not begun.
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
