//! The findings of each section.

use crate::cmd::mounts::methods::Method;
use crate::cmd::survey::show::probe::Probe;
use ::mounts::diagnosis::{AnomalyKind, diagnose};
use show::times::median_ms;

use super::{EngineCosts, cost, stopped, targets};
use crate::cmd::survey::finding::{Cost, Finding, Properties, StartCost};
use crate::cmd::survey::known::{BLOCK, CacheSize, Known, READAHEAD, Reading, best_price};
use crate::cmd::survey::survey::{MountsPart, Survey, Walking};

/// All that can be said of a survey.
pub(super) fn all(survey: &Survey<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(part) = survey.mounts.gathered() {
        found.push(mounts(part));
        found.extend(methods(part));
    }
    found.extend(file_system(survey));
    found.extend(disagreement_with_kernel(survey));
    if let Some(walking) = survey.walking.gathered() {
        found.extend(walk(walking));
        found.extend(disagreement_of_engines(walking));
    }
    found.extend(path(survey));
    found.extend(survey.dumping.gathered().map(|dump| Finding::NightlyDump {
        first: dump.first,
        unchanged: dump.unchanged,
    }));
    found.extend(dearest_call(survey));
    found.extend(prices(survey));
    found
}

fn mounts(part: &MountsPart<'_>) -> Finding {
    use AnomalyKind::*;
    let diagnoses = diagnose(part.points);
    let kinds = [
        Unresponsive,
        Slow,
        Hidden,
        Covers,
        Duplicate,
        ReadOnly,
        Denied,
        OnFile,
    ];
    let kinds = kinds.map(|kind| (kind, targets(&diagnoses, kind)));
    Finding::Mounts {
        count: part.points.len(),
        unusual: diagnoses.len(),
        kinds: kinds
            .into_iter()
            .filter(|(_, targets)| !targets.is_empty())
            .collect(),
    }
}

fn methods(part: &MountsPart<'_>) -> Option<Finding> {
    let ms = |method: &Method| median_ms(&method.runs, |t| t.real);
    let used = part
        .methods()
        .iter()
        .find(|method| method.by == part.mounts.by)?;
    let dearest = part
        .methods()
        .iter()
        .max_by(|a, b| ms(a).unwrap_or(0.0).total_cmp(&ms(b).unwrap_or(0.0)))?;
    let cost = |method: &Method| {
        Some(Cost {
            name: method.by,
            found: method.found,
            ms: ms(method)?,
            calls: method.calls(),
        })
    };
    (used.by != dearest.by).then_some(Finding::MountMethods {
        used: cost(used)?,
        dearest: cost(dearest)?,
    })
}

fn file_system(survey: &Survey<'_>) -> Option<Finding> {
    let all = survey.file_systems.gathered()?;
    let first = &all.first()?.probe;
    let [block, readahead] = [BLOCK, READAHEAD].map(|names| Known::new(first, names));
    let cache = CacheSize::new(first);
    let is_cache_known = cache != CacheSize::Known(Known::NotMeasured);
    let is_known = [&block, &readahead]
        .into_iter()
        .any(|known| *known != Known::NotMeasured);
    let says_something = is_known || is_cache_known || survey.about.memory.is_some();
    says_something.then(|| {
        Finding::FileSystem(Properties {
            dir: first.dir.unwrap_or(survey.root).to_vec(),
            fstype: first.fstype.map(<[u8]>::to_vec),
            block,
            readahead,
            cache,
            memory: survey.about.memory,
            experiments: experiments(first),
            others: all.len() - 1,
        })
    })
}

/// The experiments that give the same results again.
fn experiments(probe: &Probe<'_>) -> &'static str {
    let has = |name| {
        let mut experiments = probe.experiments.iter();
        experiments.any(|found| found.experiment == name)
    };
    match (has("cache"), has("extent")) {
        (false, false) => "block readahead",
        (true, false) => "block readahead cache",
        (false, true) => "block readahead extent",
        (true, true) => "block readahead cache extent",
    }
}

/// The first result that contradicts the kernel. One that rests on times alone proves nothing.
fn disagreement_with_kernel(survey: &Survey<'_>) -> Option<Finding> {
    let probes = survey.file_systems.gathered()?.iter().map(|one| &one.probe);
    let finding = |probe: &Probe<'_>| {
        let mut results = probe.experiments.iter();
        let wrong = results.find(|result| result.agrees == Some(false) && !result.by_time)?;
        Some(Finding::KernelDisagrees {
            dir: probe.dir.unwrap_or(survey.root).to_vec(),
            name: wrong.name,
            experiment: wrong.experiment,
            measured: Reading::inferred(wrong)?,
            stated: Reading::stated(wrong)?,
        })
    };
    probes.filter_map(finding).next()
}

fn walk(walking: &Walking<'_>) -> Option<Finding> {
    let costs = EngineCosts::new(walking);
    if let Some(bounded) = walking.bounded {
        return Some(Finding::BoundedWalk {
            bounded: bounded.clone(),
            cost: costs.as_ref().map(|costs| cost(costs.chosen)),
            plain: costs.and_then(|costs| costs.plain),
        });
    }
    let chosen = walking.part.engine.name();
    match costs {
        Some(costs) => Some(Finding::Walk {
            cost: cost(costs.chosen),
            plain: costs.plain,
        }),
        None => Some(Finding::StoppedWalk {
            stopped: stopped(walking, chosen)?,
            plain: stopped(walking, "stat").filter(|_| chosen != "stat"),
        }),
    }
}

/// In a tree at rest every engine finds the same each time, and a difference is a fault. In a tree
/// that is in use, no engine does.
fn disagreement_of_engines(walking: &Walking<'_>) -> Option<Finding> {
    let compare = &walking.compare;
    let tree_changes = !compare.engines.iter().all(|engine| engine.steady);
    (!compare.agree).then_some(Finding::EnginesDisagree { tree_changes })
}

fn path(survey: &Survey<'_>) -> Option<Finding> {
    let startup = survey.starting.gathered()?;
    let count = |state| {
        let elements = startup.path.iter();
        elements.filter(|element| element.state == state).count()
    };
    let started = startup.started.iter().map(|one| StartCost {
        command: one.command,
        lookups: one.totals.lookups,
        misses: one.totals.misses,
        seconds: one.totals.seconds,
        remote_seconds: one.seconds_far,
    });
    Some(Finding::PathSearch {
        directories: startup.path.len(),
        missing: count("dead"),
        duplicate: count("again"),
        started: started.collect(),
    })
}

fn dearest_call(survey: &Survey<'_>) -> Option<Finding> {
    let account = survey.calls.gathered()?;
    let (name, gate) = account
        .gates
        .iter()
        .max_by_key(|(_, gate)| gate.sum.nanos)?;
    Some(Finding::DearestCall {
        gate: name,
        percent: gate.sum.percent_of(account.nanos()),
        calls: gate.sum.calls,
        ms_per_call: gate.sum.ms_per_call(),
    })
}

fn prices(survey: &Survey<'_>) -> Option<Finding> {
    let prices = survey.gates.gathered()?.prices.as_deref()?;
    let price = |gate, state| best_price(prices, gate, state).map(|price| price.ns);
    Some(Finding::StatxPrice {
        warm: price("statx", "warm")?,
        cold: price("statx", "cold"),
        empty: price("getppid", "warm"),
    })
}
