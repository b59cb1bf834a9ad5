//! Derives the findings from each section.

use std::collections::BTreeSet;

use base::runs::median_ms;
use mounts::compare::MethodRuns;
use mounts::diagnosis::{AnomalyKind, diagnose};
use probe::{Experiment, ProbeReport};
use walk::EngineKind;
use walk::compare::Agreement;

use super::costs::{EngineCosts, cost, of_full, stopped, targets};
use crate::command::Command;
use crate::conclusion::{Conclusion, Cost, Statement};
use crate::found::{SurveyResults, SurveyedMounts, WalkCosts};
use crate::known::{BLOCK, CacheSize, PropertyValue, READAHEAD, best_price};
use crate::section::Section;
use crate::survey::Survey;

pub(super) fn all<'a>(survey: &Survey<'a>) -> Vec<Conclusion<'a>> {
    let found = survey.found;
    let walking = found.walking.as_ref();
    [
        found.mounts.as_ref().map(mounts),
        of_full(survey, Statement::Full),
        methods(found),
        file_system(survey),
        disagreement_with_kernel(found),
        walking.and_then(walk),
        walking.and_then(disagreement_of_engines),
        path(found),
        nightly(found),
        dearest_call(survey),
        prices(found),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn mounts(mounted: &SurveyedMounts) -> Conclusion<'_> {
    let points = &mounted.report.points;
    let diagnoses = diagnose(&mounted.all());
    // The order of `AnomalyKind` is that of severity.
    let kinds: BTreeSet<_> = diagnoses.iter().map(|one| one.kind()).collect();
    let kinds: Vec<_> = kinds
        .into_iter()
        .map(|kind| (kind, targets(&diagnoses, kind)))
        .collect();
    let (weight, command) = match kinds.first() {
        Some((AnomalyKind::Unresponsive | AnomalyKind::Failing, _)) => (100, Command::CheckMounts),
        _ => (90, Command::Mounts),
    };
    let statement = Statement::Mounts(points.len(), diagnoses.len(), kinds);
    Conclusion::new(Section::Mounts, weight, command, statement)
}

fn methods(found: &SurveyResults) -> Option<Conclusion<'_>> {
    let ms = |method: &MethodRuns| median_ms(&method.runs, |t| t.real);
    let used = found.mounts.as_ref()?.report.method;
    let methods = &found.methods.as_ref()?.comparison.methods;
    let used = methods.iter().find(|one| one.method == used)?;
    let dearest = methods
        .iter()
        .max_by(|a, b| ms(a).unwrap_or(0.0).total_cmp(&ms(b).unwrap_or(0.0)))?;
    if used.method == dearest.method {
        return None;
    }
    let cost = |method: &MethodRuns| {
        Some(Cost {
            name: method.method.name(),
            found: method.found,
            ms: ms(method)?,
            calls: method.profile.calls(),
        })
    };
    let statement = Statement::MountMethods(cost(used)?, cost(dearest)?);
    let command = Command::CompareMethods;
    Some(Conclusion::new(Section::Mounts, 30, command, statement))
}

fn file_system<'a>(survey: &Survey<'a>) -> Option<Conclusion<'a>> {
    let all = &survey.found.file_systems;
    let first = all.first()?;
    let is_block_known = PropertyValue::new(&first.report, &BLOCK) != PropertyValue::NotMeasured;
    let is_readahead_known =
        PropertyValue::new(&first.report, &READAHEAD) != PropertyValue::NotMeasured;
    let is_cache_known =
        CacheSize::new(&first.report) != CacheSize::Known(PropertyValue::NotMeasured);
    let memory = survey.machine.memory;
    let says_something = is_block_known || is_readahead_known || is_cache_known || memory.is_some();
    let command = Command::Probe(&first.dir, experiments(&first.report));
    let statement = Statement::FileSystem {
        report: &first.report,
        dir: &first.dir,
        memory,
        others: all.len() - 1,
    };
    says_something.then(|| Conclusion::new(Section::Probe, 80, command, statement))
}

/// The experiments that reproduce the reported results.
fn experiments(report: &ProbeReport) -> Vec<Experiment> {
    let has = |experiment: &Experiment| {
        let mut findings = report.measured.iter().map(|measured| &measured.finding);
        findings.any(|finding| finding.quantity.experiment() == *experiment)
    };
    let others = [Experiment::Cache, Experiment::Extent];
    let others = others.into_iter().filter(has);
    let always = [Experiment::Block, Experiment::Readahead];
    always.into_iter().chain(others).collect()
}

/// The first result that contradicts the kernel. Results inferred from times alone are not reliable
/// enough.
fn disagreement_with_kernel(found: &SurveyResults) -> Option<Conclusion<'_>> {
    found.file_systems.iter().find_map(|probed| {
        let mut findings = probed
            .report
            .measured
            .iter()
            .map(|measured| &measured.finding);
        let finding = findings.find(|one| one.agrees == Some(false) && !one.by_time)?;
        let statement = Statement::KernelDisagrees {
            dir: &probed.dir,
            finding,
            measured: finding.value()?,
            stated: &finding.truth.as_ref()?.value,
        };
        let command = Command::Probe(&probed.dir, vec![finding.quantity.experiment()]);
        Some(Conclusion::new(Section::Probe, 70, command, statement))
    })
}

fn walk(walking: &WalkCosts) -> Option<Conclusion<'_>> {
    let costs = EngineCosts::new(walking);
    let chosen = walking.part.engine;
    let (command, statement) = match (&walking.bounded, costs) {
        (Some(bounded), costs) => {
            let statement = Statement::BoundedWalk {
                bounded,
                cost: costs.as_ref().map(|costs| cost(costs.chosen)),
                plain: costs.and_then(|costs| costs.plain),
            };
            (Command::Walk, statement)
        }
        (None, Some(costs)) => {
            let statement = Statement::Walk(cost(costs.chosen), costs.plain);
            (Command::CompareEngines, statement)
        }
        (None, None) => {
            let plain = stopped(walking, EngineKind::Stat).filter(|_| chosen != EngineKind::Stat);
            let statement = Statement::StoppedWalk(stopped(walking, chosen)?, plain);
            (Command::CompareEngines, statement)
        }
    };
    Some(Conclusion::new(Section::Walk, 85, command, statement))
}

fn disagreement_of_engines(walking: &WalkCosts) -> Option<Conclusion<'_>> {
    let agreement = walking.engines.agreement();
    let weight = match agreement {
        Agreement::Same => return None,
        Agreement::Disagree => 95,
        Agreement::TreeChanged | Agreement::Unconfirmed => 35,
    };
    let statement = Statement::EnginesDiffer(agreement);
    let command = Command::CompareEngines;
    Some(Conclusion::new(Section::Walk, weight, command, statement))
}

fn path(found: &SurveyResults) -> Option<Conclusion<'_>> {
    let statement = Statement::PathSearch(found.startup.as_ref()?);
    let command = Command::Start;
    Some(Conclusion::new(Section::Startup, 75, command, statement))
}

fn nightly(found: &SurveyResults) -> Option<Conclusion<'_>> {
    let statement = Statement::NightlyDump(found.dump.as_ref()?);
    let command = Command::GatherDump;
    Some(Conclusion::new(Section::Dump, 50, command, statement))
}

fn dearest_call<'a>(survey: &Survey<'a>) -> Option<Conclusion<'a>> {
    let account = survey.account.as_ref()?;
    let gates = account.gates.iter();
    let (name, gate) = gates.max_by_key(|(_, gate)| gate.sum.nanos)?;
    let percent = gate.sum.percent_of(account.nanos());
    let statement = Statement::DearestCall(name, gate.sum, percent);
    let command = Command::Account;
    Some(Conclusion::new(Section::Account, 40, command, statement))
}

fn prices(found: &SurveyResults) -> Option<Conclusion<'_>> {
    let gates = found.gates.as_ref()?;
    let prices = gates.report.prices.as_deref()?;
    let price = |gate, warm| best_price(prices, gate, warm).map(|price| price.ns);
    let statement = Statement::StatxPrice {
        warm: price("statx", true)?,
        cold: price("statx", false),
        empty: price("getppid", true),
    };
    let command = Command::Probe(&gates.dir, vec![Experiment::Gates]);
    Some(Conclusion::new(Section::Gates, 45, command, statement))
}
