//! The advice on each section.

use std::cmp::Reverse;

use crate::cmd::walk::show::possible_engines;
use ::mounts::diagnosis::{AnomalyKind, diagnose};
use show::stats::Stats;

use super::{EngineCosts, cost, stopped, targets};
use crate::cmd::survey::finding::{Advice, Effort};
use crate::cmd::survey::known::{BLOCK, Known, READAHEAD, best_price};
use crate::cmd::survey::survey::{MountsPart, Survey, Walking};

/// By this factor an engine must be faster before it is recommended.
const FASTER: f64 = 1.1;

/// All the advice that a survey gives reason for.
pub(super) fn all(survey: &Survey<'_>) -> Vec<Advice> {
    let mut found = Vec::new();
    if let Some(part) = survey.mounts.gathered() {
        found.extend(mounts(part));
    }
    if let Some(walking) = survey.walking.gathered() {
        found.extend(scan(walking));
        found.extend(walk_as_root(walking, survey.about.root));
    }
    found.extend(path(survey));
    found.extend(dump(survey));
    found.extend(calls(survey));
    found.extend(small_files(survey));
    found.extend(prices(survey));
    found.extend(more(survey));
    found
}

fn mounts(part: &MountsPart<'_>) -> impl Iterator<Item = Advice> {
    let diagnoses = diagnose(part.points);
    let rules: [(_, fn(_) -> _); 4] = [
        (AnomalyKind::Unresponsive, Advice::ExcludeUnresponsive),
        (AnomalyKind::Hidden, Advice::UnmountHidden),
        (AnomalyKind::Duplicate, Advice::ExcludeDuplicates),
        (AnomalyKind::ReadOnly, Advice::CheckReadOnly),
    ];
    rules.into_iter().filter_map(move |(kind, advice)| {
        let targets = targets(&diagnoses, kind);
        (!targets.is_empty()).then(|| advice(targets))
    })
}

/// How to scan the tree at less cost.
fn scan(walking: &Walking<'_>) -> Vec<Advice> {
    let engine = walking.part.engine.name();
    let mut found = Vec::new();
    // One walk takes too long for a survey.
    let keep = |effort| Advice::KeepCatalog {
        engine: Some(engine),
        effort,
    };
    found.extend(
        walking
            .bounded
            .map(|bounded| keep(Effort::Bounded(bounded.clone()))),
    );
    let Some(costs) = EngineCosts::new(walking) else {
        let stopped = stopped(walking, engine).filter(|_| walking.bounded.is_none());
        found.extend(stopped.map(|stopped| keep(Effort::Stopped(stopped))));
        return found;
    };
    let chosen = cost(costs.chosen);
    let plain = costs
        .plain
        .as_ref()
        .filter(|plain| plain.name != chosen.name && chosen.ms * FASTER < plain.ms);
    if is_other_engine_faster(&costs) && walking.bounded.is_none() {
        found.push(Advice::ChooseEngine {
            fastest: cost(costs.fastest),
            default: chosen,
        });
    } else if let Some(plain) = plain {
        found.push(Advice::ReplacePlainWalk {
            cost: chosen,
            plain: plain.clone(),
            bounded: walking.bounded.cloned(),
        });
    } else if walking.bounded.is_none() {
        found.push(Advice::KeepCatalog {
            engine: None,
            effort: Effort::Ms(chosen.ms),
        });
    }
    found
}

/// Whether every run of the fastest engine was faster than every run of the chosen one. One run of
/// each proves nothing; and on a part of the tree, an engine that reads all tables of the file
/// system is at a disadvantage that it may not have on all of the tree.
fn is_other_engine_faster(costs: &EngineCosts<'_>) -> bool {
    let (chosen, chosen_ms) = costs.chosen;
    let (fastest, fastest_ms) = costs.fastest;
    let runs =
        [chosen, fastest].map(|engine| Stats::from_values(engine.runs.iter().map(|t| t.real)));
    let [Some(chosen_runs), Some(fastest_runs)] = runs else {
        return false;
    };
    let has_trials = chosen.runs.len() > 1 && fastest.runs.len() > 1;
    has_trials && fastest_ms * FASTER < chosen_ms && fastest_runs.max < chosen_runs.min
}

/// An engine could be tried if root walked.
fn walk_as_root(walking: &Walking<'_>, is_root: bool) -> Option<Advice> {
    let engine = walking.needs_root.filter(|_| !is_root)?;
    let mut explained = possible_engines(walking.explain);
    let why = explained
        .find(|possible| possible.engine.name() == engine)?
        .why();
    let costs = EngineCosts::new(walking)?;
    let effort = match walking.bounded {
        Some(bounded) => Effort::Bounded(bounded.clone()),
        None => Effort::Ms(costs.chosen.1),
    };
    Some(Advice::WalkAsRoot {
        engine,
        why,
        effort,
    })
}

/// The best change to PATH, and the best other change.
fn path(survey: &Survey<'_>) -> Vec<Advice> {
    let Some(startup) = survey.starting.gathered() else {
        return Vec::new();
    };
    // Copying what is searched for helps only where it is remote.
    let is_remote = startup.path.iter().any(|element| element.network);
    let mut fixes: Vec<_> = startup
        .started
        .iter()
        .flat_map(|one| one.fixes.iter().map(move |fix| (one, fix)))
        .filter(|(_, fix)| fix.saves_misses > 0 || is_remote)
        .collect();
    fixes.sort_by_key(|(_, fix)| Reverse(fix.saves_misses));
    let best = |of_path: bool| {
        fixes
            .iter()
            .find(|(_, fix)| (fix.kind == "PATH") == of_path)
    };
    let best = [best(true), best(false)].into_iter().flatten();
    best.map(|(one, fix)| Advice::FixSearch {
        command: one.command,
        fix: (*fix).clone(),
        misses: one.totals.misses,
    })
    .collect()
}

fn dump(survey: &Survey<'_>) -> Option<Advice> {
    let dump = survey.dumping.gathered()?;
    let (first, changed) = (dump.first, dump.changed);
    (changed.bytes < first.bytes).then_some(Advice::DumpIncrements { first, changed })
}

/// The change that saves most, if it saves anything worth changing a program for.
fn calls(survey: &Survey<'_>) -> Option<Advice> {
    const WORTHWHILE_PERCENT: f64 = 1.0;
    let changes = survey.calls.gathered()?.effective_changes();
    let best = changes
        .into_iter()
        .find(|change| change.advised && change.seconds > 0.0)?;
    (best.percent >= WORTHWHILE_PERCENT).then(|| Advice::ChangeCalls {
        change: best.name,
        how: best.how.clone(),
        saves_calls: best.calls,
        saves_percent: best.percent,
    })
}

fn small_files(survey: &Survey<'_>) -> Option<Advice> {
    let probe = &survey.file_systems.gathered()?.first()?.probe;
    let measured = |names| match Known::new(probe, names) {
        Known::Measured(reading) => Some(reading),
        _ => None,
    };
    Some(Advice::PackSmallFiles {
        dir: probe.dir.unwrap_or(survey.root).to_vec(),
        block: measured(BLOCK)?,
        readahead: measured(READAHEAD),
    })
}

fn prices(survey: &Survey<'_>) -> Vec<Advice> {
    /// By these factors a call must be dearer than a cached statx(2).
    const COLD: f64 = 3.0;
    const SYNC: f64 = 10.0;
    let gates = survey.gates.gathered();
    let prices = gates.and_then(|gates| gates.prices.as_deref());
    let price = |gate, state| best_price(prices?, gate, state).map(|price| price.ns);
    let Some(warm) = price("statx", "warm") else {
        return Vec::new();
    };
    let cold = price("statx", "cold").filter(|cold| *cold > COLD * warm);
    let sync = price("fsync", "warm").filter(|sync| *sync > SYNC * warm);
    let cached = cold.map(|cold| Advice::KeepCached { warm, cold });
    let synced = sync.map(|fsync| Advice::BatchSyncs { fsync, statx: warm });
    cached.into_iter().chain(synced).collect()
}

/// What is not known, and how to learn it.
fn more(survey: &Survey<'_>) -> Vec<Advice> {
    let mut found = Vec::new();
    let unseen = &survey.about.unseen;
    if !unseen.is_empty() && !survey.about.root {
        found.push(Advice::SurveyAsRoot(unseen.clone()));
    }
    for (section, missing) in survey.missing() {
        let missing = missing.clone();
        found.push(Advice::Gather { section, missing });
    }
    found.push(Advice::KeepSurvey {
        seconds: survey.about.seconds,
    });
    if let Some(part) = survey.mounts.gathered() {
        let servers = part.points.iter().filter(|point| point.server.is_some());
        let count = servers.count();
        found.extend((count > 0).then_some(Advice::CheckServers { count }));
    }
    found
}
