//! The advice on each section.

use std::cmp::Reverse;

use mounts::diagnosis::{AnomalyKind, diagnose};
use pathsearch::Kind;
use show::stats::Stats;
use survey::Section;
use walk::Explained;

use super::costs::{EngineCosts, cost, stopped, targets};
use crate::cmd::survey::command::Command;
use crate::cmd::survey::finding::{Conclusion, Effort, Statement};
use crate::cmd::survey::known::{BLOCK, Known, READAHEAD, best_price};
use crate::cmd::survey::survey::{Found, Mounted, Survey, Walking};
use crate::cmd::walk::show::possible_engines;

/// By this factor an engine must be faster before it is recommended.
const FASTER: f64 = 1.1;

pub(super) fn all<'a>(survey: &Survey<'a>) -> Vec<Conclusion<'a>> {
    let found = survey.found;
    let mut advice = Vec::new();
    advice.extend(found.mounts.iter().flat_map(mounts));
    if let Some(walking) = &found.walking {
        advice.extend(scan(walking));
        advice.extend(walk_as_root(walking).filter(|_| !survey.machine.root));
    }
    advice.extend(path(found));
    advice.extend(dump(found));
    advice.extend(calls(survey));
    advice.extend(small_files(found));
    advice.extend(prices(found));
    advice.extend(more(survey));
    advice
}

fn mounts(mounted: &Mounted) -> impl Iterator<Item = Conclusion<'_>> {
    let diagnoses = diagnose(&mounted.report.points);
    let rules = [
        (AnomalyKind::Unresponsive, 100, Command::ListExcludes),
        (AnomalyKind::Hidden, 70, Command::Mounts),
        (AnomalyKind::Duplicate, 52, Command::Mounts),
        (AnomalyKind::ReadOnly, 68, Command::Mounts),
    ];
    rules
        .into_iter()
        .filter_map(move |(kind, weight, command)| {
            let targets = targets(&diagnoses, kind);
            let statement = Statement::MendMounts(kind, targets.clone());
            (!targets.is_empty())
                .then(|| Conclusion::new(Section::Mounts, weight, command, statement))
        })
}

fn scan(walking: &Walking) -> Vec<Conclusion<'_>> {
    let engine = walking.part.engine.name();
    let bounded = walking.bounded.as_ref();
    let advise =
        |weight, command, statement| Conclusion::new(Section::Walk, weight, command, statement);
    // One walk takes too long for a survey.
    let keep = |effort| {
        let statement = Statement::KeepCatalog(Some(engine), effort);
        advise(81, Command::WriteCatalog, statement)
    };
    let mut found = Vec::new();
    found.extend(bounded.map(|bounded| keep(Effort::Bounded(bounded))));
    let Some(costs) = EngineCosts::new(walking) else {
        let stopped = stopped(walking, engine).filter(|_| bounded.is_none());
        found.extend(stopped.map(|stopped| keep(Effort::Stopped(stopped))));
        return found;
    };
    let chosen = cost(costs.chosen);
    let plain = costs.plain.as_ref();
    let slower = plain.filter(|plain| plain.name != chosen.name && chosen.ms * FASTER < plain.ms);
    if is_other_engine_faster(&costs) && bounded.is_none() {
        let fastest = cost(costs.fastest);
        let command = Command::WalkBy(fastest.name);
        let default = chosen;
        found.push(advise(
            82,
            command,
            Statement::ChooseEngine { fastest, default },
        ));
    } else if let Some(plain) = slower {
        let command = match bounded {
            Some(_) => Command::CompareEngines,
            None => Command::Walk,
        };
        let statement = Statement::ReplacePlainWalk {
            cost: chosen,
            plain: plain.clone(),
            bounded,
        };
        found.push(advise(80, command, statement));
    } else if bounded.is_none() {
        let statement = Statement::KeepCatalog(None, Effort::Ms(chosen.ms));
        found.push(advise(55, Command::WriteCatalog, statement));
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

/// The first engine that could be tried if root walked.
fn walk_as_root(walking: &Walking) -> Option<Conclusion<'_>> {
    let explained = &walking.engines.explained;
    let engine = explained.iter().flat_map(Explained::needing_root).next()?;
    let possible = possible_engines(explained).find(|possible| possible.engine == engine)?;
    let costs = EngineCosts::new(walking)?;
    let effort = match &walking.bounded {
        Some(bounded) => Effort::Bounded(bounded),
        None => Effort::Ms(costs.chosen.1),
    };
    let statement = Statement::WalkAsRoot(possible, effort);
    let command = Command::CompareEnginesAsRoot;
    Some(Conclusion::new(Section::Walk, 83, command, statement))
}

/// The best change to PATH, and the best other change.
fn path(found: &Found) -> impl Iterator<Item = Conclusion<'_>> {
    let startup = found.startup.iter();
    let mut fixes: Vec<_> = startup
        .flat_map(|startup| {
            // Copying what is searched for helps only where it is remote.
            let is_remote = startup.path.iter().any(|element| element.network);
            let started = startup.started.iter();
            let fixes = started.flat_map(|start| start.fixes.iter().map(move |fix| (start, fix)));
            fixes.filter(move |(_, fix)| fix.saves_misses > 0 || is_remote)
        })
        .collect();
    fixes.sort_by_key(|(_, fix)| Reverse(fix.saves_misses));
    let is_of_path = |fix: &pathsearch::Fix| fix.change.kind() == Kind::Path;
    let best = [true, false].map(|of_path| {
        let mut fixes = fixes.iter();
        fixes.find(|(_, fix)| is_of_path(fix) == of_path).copied()
    });
    best.into_iter().flatten().map(move |(start, fix)| {
        // One that saves next to nothing is still the best of its kind.
        let saves_much = 20 * fix.saves_misses >= start.totals.misses;
        let weight = match (saves_much, is_of_path(fix)) {
            (true, true) => 75,
            (true, false) => 54,
            (false, _) => 34,
        };
        let command = Command::StartOf(start.command);
        Conclusion::new(
            Section::Startup,
            weight,
            command,
            Statement::FixSearch(start, fix),
        )
    })
}

fn dump(found: &Found) -> Option<Conclusion<'_>> {
    /// Less is dumped in full without much loss.
    const MUCH: u64 = 1 << 20;
    let dump = found.dump.as_ref()?;
    let weight = if dump.first.bytes >= MUCH { 65 } else { 32 };
    let statement = Statement::DumpIncrements(dump);
    let command = Command::DumpInFull;
    (dump.changed.bytes < dump.first.bytes)
        .then(|| Conclusion::new(Section::Dump, weight, command, statement))
}

/// The change that saves most, if it saves anything worth changing a program for.
fn calls<'a>(survey: &Survey<'a>) -> Option<Conclusion<'a>> {
    let changes = survey.account.as_ref()?.effective_changes();
    let mut useful = changes
        .into_iter()
        .filter(|one| one.advised && one.seconds > 0.0);
    let best = useful.next().filter(|best| best.percent >= 1.0)?;
    let weight = if best.percent >= 5.0 { 60 } else { 33 };
    let statement = Statement::ChangeCalls(best);
    Some(Conclusion::new(
        Section::Account,
        weight,
        Command::Account,
        statement,
    ))
}

fn small_files(found: &Found) -> Option<Conclusion<'_>> {
    let probed = found.file_systems.first()?;
    let measured = |quantities| match Known::new(&probed.report, quantities) {
        Known::Measured(value) => Some(value),
        _ => None,
    };
    let dir = &probed.dir;
    let statement = Statement::PackSmallFiles {
        dir,
        block: measured(&BLOCK)?,
        readahead: measured(&READAHEAD),
    };
    let command = Command::Probe(dir, "block readahead".to_owned());
    Some(Conclusion::new(Section::Probe, 48, command, statement))
}

fn prices(found: &Found) -> Vec<Conclusion<'_>> {
    /// By these factors a call must be dearer than a cached statx(2).
    const COLD: f64 = 3.0;
    const SYNC: f64 = 10.0;
    let prices = found
        .gates
        .as_ref()
        .and_then(|gates| gates.report.prices.as_deref());
    let price = |gate, warm| best_price(prices?, gate, warm).map(|price| price.ns);
    let Some(warm) = price("statx", true) else {
        return Vec::new();
    };
    let cold = price("statx", false).filter(|cold| *cold > COLD * warm);
    let cold = cold.map(|cold| (46, Statement::KeepCached { warm, cold }));
    let sync = price("fsync", true).filter(|sync| *sync > SYNC * warm);
    let sync = sync.map(|fsync| (44, Statement::BatchSyncs { fsync, statx: warm }));
    let advise =
        |(weight, statement)| Conclusion::new(Section::Gates, weight, Command::Prices, statement);
    cold.into_iter().chain(sync).map(advise).collect()
}

fn more<'a>(survey: &Survey<'a>) -> Vec<Conclusion<'a>> {
    let machine = survey.machine;
    let mut found = Vec::new();
    if !machine.unseen.is_empty() && !machine.root {
        let statement = Statement::SurveyAsRoot(&machine.unseen);
        let command = Command::SurveyAsRoot;
        found.push(Conclusion::new(Section::Steps, 58, command, statement));
    }
    for (section, missing) in survey.missing() {
        let statement = Statement::Gather(section, missing);
        found.push(Conclusion::new(
            section,
            20,
            Command::Gather(section),
            statement,
        ));
    }
    let statement = Statement::KeepSurvey(machine.seconds);
    found.push(Conclusion::new(
        Section::Steps,
        10,
        Command::SaveSurvey,
        statement,
    ));
    let points = survey
        .found
        .mounts
        .iter()
        .flat_map(|mounted| &mounted.report.points);
    let count = points.filter(|point| point.server.is_some()).count();
    if count > 0 {
        let statement = Statement::CheckServers(count);
        found.push(Conclusion::new(
            Section::Mounts,
            42,
            Command::CheckServers,
            statement,
        ));
    }
    found
}
