//! Derives the advice from each section.

use std::collections::HashSet;

use account::whatif::{ChangeKind, WhatIfChange};
use base::runs::Stats;
use mounts::PointKind;
use mounts::diagnosis::{AnomalyKind, diagnose};
use pathsearch::{Kind, is_worthwhile};
use walk::{EngineKind, ExplainedPlan};

use super::activities::useful_fixes;
use super::costs::{EngineCosts, EngineTime, cost, of_full, stopped, targets};
use crate::command::Command;
use crate::conclusion::{Conclusion, Statement, WalkTime};
use crate::found::{SurveyResults, SurveyedMounts, WalkCosts};
use crate::missing::Missing;
use crate::section::Section;
use crate::survey::Survey;

/// An engine is recommended only if it is faster by this factor.
const FASTER: f64 = 1.1;
/// Minimum seconds of a scan for advice that only makes the next scan cheaper.
const LONG_SCAN: f64 = 10.0;
/// Minimum seconds of a walk for the advice to try it as root.
const LONG_WALK: f64 = 1.0;

pub(super) fn all<'a>(survey: &Survey<'a>) -> Vec<Conclusion<'a>> {
    let found = survey.found;
    let mut advice = Vec::new();
    advice.extend(found.mounts.iter().flat_map(mounts));
    advice.extend(of_full(survey, Statement::FreeSpace));
    if let Some(walking) = &found.walking {
        advice.extend(scan(survey, walking));
        advice.extend(walk_as_root(walking).filter(|_| !survey.machine.root));
    }
    advice.extend(path(found));
    advice.extend(dump(survey));
    advice.extend(calls(survey));
    advice.extend(more(survey));
    advice
}

fn mounts(mounted: &SurveyedMounts) -> impl Iterator<Item = Conclusion<'_>> {
    let points = &mounted.report.points;
    let diagnoses = diagnose(&mounted.all());
    let files = points
        .iter()
        .filter(|point| point.kind == Some(PointKind::File));
    // A file that is mounted twice does not enlarge a backup.
    let files: HashSet<&[u8]> = files.map(|point| &point.target[..]).collect();
    let rules = [
        (AnomalyKind::Unresponsive, 100, Command::ListExcludes),
        (AnomalyKind::Hidden, 70, Command::Mounts),
        (AnomalyKind::Duplicate, 30, Command::Mounts),
        (AnomalyKind::Failing, 98, Command::CheckMounts),
    ];
    rules
        .into_iter()
        .filter_map(move |(kind, weight, command)| {
            let mut targets = targets(&diagnoses, kind);
            if kind == AnomalyKind::Duplicate {
                targets.retain(|target| !files.contains(target));
            }
            let statement = Statement::MendMounts(kind, targets.clone());
            (!targets.is_empty())
                .then(|| Conclusion::new(Section::Mounts, weight, command, statement))
        })
}

/// A directory in which files of `bytes` bytes fit, with a margin.
fn place<'a>(survey: &Survey<'a>, bytes: u64) -> Option<&'a [u8]> {
    // The size of the files can grow until the user runs the command, so add a margin.
    let needed = bytes + bytes / 8;
    let mut places = survey.machine.places.iter();
    let found = places.find(|(_, available)| *available >= needed);
    found.map(|(dir, _)| &dir[..])
}

fn scan<'a>(survey: &Survey<'a>, walking: &'a WalkCosts) -> Vec<Conclusion<'a>> {
    /// Required space for a catalog: more than a million entries need.
    const CATALOG: u64 = 64 << 20;
    let engine = walking.part.engine;
    let bounded = walking.bounded.as_ref();
    let advise =
        |weight, command, statement| Conclusion::new(Section::Walk, weight, command, statement);
    let mut found = Vec::new();
    let costs = EngineCosts::new(walking);
    let stopped = stopped(walking, engine).filter(|_| costs.is_none());
    let effort = match (bounded, stopped, &costs) {
        (Some(bounded), ..) => Some(WalkTime::Bounded(bounded)),
        (None, Some(stopped), _) => Some(WalkTime::Stopped(stopped)),
        (None, None, costs) => costs.as_ref().map(|costs| WalkTime::Ms(costs.chosen.1)),
    };
    if let Some(effort) = effort.filter(|effort| effort.seconds() >= Some(LONG_SCAN))
        && let Some(place) = place(survey, CATALOG)
    {
        let statement = Statement::KeepCatalog(effort);
        found.push(advise(81, Command::WriteCatalog(place), statement));
    }
    let Some(costs) = costs else {
        return found;
    };
    let chosen = cost(costs.chosen);
    // Whether an engine saves enough time against a slower one.
    let is_faster = |(fast, ms): EngineTime<'_>, slow: EngineKind, slow_ms: f64| {
        fast.engine != slow
            && is_possible(walking, fast.engine)
            && is_worthwhile((slow_ms - ms) / 1e3, slow_ms / 1e3)
    };
    let (chosen_engine, chosen_ms) = (costs.chosen.0.engine, costs.chosen.1);
    if is_other_engine_faster(&costs)
        && is_faster(costs.fastest, chosen_engine, chosen_ms)
        && bounded.is_none()
    {
        let command = Command::WalkBy(costs.fastest.0.engine);
        let (fastest, default) = (cost(costs.fastest), chosen);
        found.push(advise(
            82,
            command,
            Statement::ChooseEngine { fastest, default },
        ));
    } else if let Some(plain) = (costs.plain.as_ref())
        .filter(|plain| is_faster(costs.chosen, EngineKind::Stat, plain.ms))
        .cloned()
    {
        let command = match bounded {
            Some(_) => Command::CompareEngines,
            None => Command::Walk,
        };
        let statement = Statement::ReplacePlainWalk {
            cost: chosen,
            plain,
            bounded,
        };
        found.push(advise(80, command, statement));
    }
    found
}

/// Whether no part of the survey reports that an engine is impossible here.
fn is_possible(walking: &WalkCosts, engine: EngineKind) -> bool {
    let mut all = walking
        .engines
        .explained
        .iter()
        .flat_map(ExplainedPlan::choices);
    all.all(|one| one.engine != engine || one.is_possible())
}

/// Whether every run of the fastest engine was faster than every run of the chosen one. At least
/// two runs of each are needed. On a part of the tree, engines that read all tables of the file
/// system are at a disadvantage.
fn is_other_engine_faster(costs: &EngineCosts<'_>) -> bool {
    let (chosen, chosen_ms) = costs.chosen;
    let (fastest, fastest_ms) = costs.fastest;
    let runs = [chosen, fastest].map(|engine| Stats::from_runs(&engine.runs, |t| t.real));
    let [Some(chosen_runs), Some(fastest_runs)] = runs else {
        return false;
    };
    let has_trials = chosen.runs.len() > 1 && fastest.runs.len() > 1;
    has_trials && fastest_ms * FASTER < chosen_ms && fastest_runs.max < chosen_runs.min
}

/// The advice to walk as root, if an engine needs it.
fn walk_as_root(walking: &WalkCosts) -> Option<Conclusion<'_>> {
    let explained = &walking.engines.explained;
    let engine = explained
        .iter()
        .flat_map(ExplainedPlan::needing_root)
        .next()?;
    let costs = EngineCosts::new(walking)?;
    let effort = match &walking.bounded {
        Some(bounded) => WalkTime::Bounded(bounded),
        None => WalkTime::Ms(costs.chosen.1),
    };
    let is_long = effort.seconds() >= Some(LONG_WALK);
    let statement = Statement::WalkAsRoot(engine, effort);
    let command = Command::CompareEnginesAsRoot;
    is_long.then(|| Conclusion::new(Section::Walk, 83, command, statement))
}

/// Advice about program starts: the change to PATH that saves most time, and the change of any
/// other kind that saves most time.
fn path(found: &SurveyResults) -> impl Iterator<Item = Conclusion<'_>> {
    let startup = found.startup.iter();
    let mut fixes: Vec<_> = startup
        .flat_map(|startup| {
            let started = startup.started.iter();
            started.flat_map(|start| {
                let useful = useful_fixes(startup, start).into_iter();
                useful.map(move |fix| (start, fix))
            })
        })
        .collect();
    fixes.sort_by(|(_, a), (_, b)| b.saves_seconds_here.total_cmp(&a.saves_seconds_here));
    let is_of_path = |fix: &pathsearch::Fix| fix.change.kind() == Kind::Path;
    let best = [(true, 75), (false, 54)].map(|(of_path, weight)| {
        let mut fixes = fixes.iter();
        let best = fixes.find(|(_, fix)| is_of_path(fix) == of_path).copied();
        best.map(|(start, fix)| (weight, start, fix))
    });
    best.into_iter().flatten().map(|(weight, start, fix)| {
        let command = Command::StartOf(start.command);
        let statement = Statement::FixSearch(start, fix);
        Conclusion::new(Section::Startup, weight, command, statement)
    })
}

fn dump<'a>(survey: &Survey<'a>) -> Option<Conclusion<'a>> {
    /// Minimum size of a dump for which increments are recommended.
    const MUCH: u64 = 1 << 20;
    let dump = survey.found.dump.as_ref()?;
    let saving = dump.first.cpu_seconds - dump.changed.cpu_seconds;
    let is_useful = dump.first.bytes >= MUCH
        && dump.changed.bytes < dump.first.bytes
        && is_worthwhile(saving, dump.first.cpu_seconds);
    let statement = Statement::DumpIncrements(dump);
    let command = Command::DumpInFull(place(survey, dump.first.bytes)?);
    is_useful.then(|| Conclusion::new(Section::Dump, 65, command, statement))
}

/// Advice about the system calls of a walk: the change that saves most, if this machine and user
/// can make the change.
fn calls<'a>(survey: &Survey<'a>) -> Option<Conclusion<'a>> {
    let account = survey.account.as_ref()?;
    let walking = survey.found.walking.as_ref()?;
    let is_useful = |change: &&WhatIfChange| {
        // A change that needs an engine is advised only if the engine is possible here.
        let can_be_made = match change.kind {
            ChangeKind::RawTables { .. } => can_work(walking, EngineKind::Ext4),
            ChangeKind::Bulkstat { .. } => can_work(walking, EngineKind::Bulkstat),
            ChangeKind::Uring { .. } | ChangeKind::Spare(_) => true,
        };
        change.is_advised()
            && can_be_made
            && (5.0..=100.0).contains(&change.percent)
            && is_worthwhile(change.seconds, account.what_if.all())
    };
    let best = account.effective_changes().into_iter().find(is_useful)?;
    let statement = Statement::ChangeCalls(best);
    let command = Command::Account;
    Some(Conclusion::new(Section::Account, 33, command, statement))
}

fn can_work(walking: &WalkCosts, engine: EngineKind) -> bool {
    let mut all = walking
        .engines
        .explained
        .iter()
        .flat_map(ExplainedPlan::choices);
    all.any(|one| one.engine == engine && one.is_possible()) && is_possible(walking, engine)
}

fn more<'a>(survey: &Survey<'a>) -> Vec<Conclusion<'a>> {
    let machine = survey.machine;
    let mut found = Vec::new();
    if !machine.unseen.is_empty() && !machine.root {
        let statement = Statement::SurveyAsRoot(&machine.unseen);
        let command = Command::SurveyAsRoot;
        found.push(Conclusion::new(Section::Steps, 25, command, statement));
    }
    let is_silent = matches!(survey.found.responding(), Err(Missing::SilentServer));
    // A file system that does not answer cannot be measured, nor one without a writable directory
    // for the temporary file.
    let needs_file = |section: &Section| matches!(section, Section::Gates | Section::Probe);
    let missing = survey
        .missing()
        .into_iter()
        .filter(|(section, _)| !is_silent && (machine.is_writable || !needs_file(section)));
    for (section, missing) in missing {
        let statement = Statement::Gather(section, missing);
        let command = Command::Gather(section);
        found.push(Conclusion::new(section, 20, command, statement));
    }
    let points = survey
        .found
        .mounts
        .iter()
        .flat_map(|mounted| &mounted.report.points);
    let count = points.filter(|point| point.server.is_some()).count();
    if count > 0 {
        let statement = Statement::CheckServers(count);
        let (section, command) = (Section::Mounts, Command::CheckServers);
        found.push(Conclusion::new(section, 42, command, statement));
    }
    found
}
