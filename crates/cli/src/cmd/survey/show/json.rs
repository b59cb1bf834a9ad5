//! The JSON of a survey: the member `result`.

use std::collections::BTreeMap;

use account::figures::Figure;
use mounts::Point as MountPoint;
use mounts::check::Verdict;
use serde::{Serialize, Serializer};
use show::json_object;
use show::name::printable;
use survey::bounded::LimitedWalk;
use survey::capacity::FileSystem;
use survey::cost::{ActivityCost, CostAmount};
use survey::{Machine, Section, StepTaken, Survey, SurveyedMounts, WalkCosts, activity_costs};
use walk::DirectoryCount;

use super::missing::{text, unseen};
use super::points::Point;
use super::summary::means;
use super::{bounded, known, missing};
use crate::cmd::mounts::methods::JsonComparison;
use crate::cmd::mounts::show::Mounts;
use crate::cmd::probe::show::{figures_of_findings, figures_of_prices};
use crate::cmd::survey::command::Commands;
use crate::cmd::walk::show::{EngineChoices, calls_per_entry};
use crate::json::Json;

pub(crate) struct JsonSurvey<'a>(pub(crate) &'a Survey<'a>);

json_object!(JsonSurvey<'_>, |this| {
    name "root": Some(this.0.root),
    "machine": Json(this.0.machine),
    "findings": Point::findings(this.0),
    "advice": Point::advice(this.0),
    "file_systems": this.0.file_systems().0.iter().map(Json).collect::<Vec<_>>(),
    "pseudo_file_systems": this.0.file_systems().1,
    "costs": costs(this.0),
    "mounts": this.0.found.mounts.as_ref().map(|mounted| JsonMounts(this.0, mounted)),
    "probe": this.0.found.file_systems.iter().map(known::report).collect::<Vec<_>>(),
    "walk": this.0.found.walking.as_ref().map(Json),
    "dump": this.0.found.dump.as_ref().map(Json),
    "account": this.0.account.as_ref().map(Json),
    "account_skipped": match this.0.account {
        Some(_) => None,
        None => Some(text(this.0.found.why_missing(Section::Account))),
    },
    "startup": this.0.found.startup.as_ref().map(Json),
    "gates": this.0.found.gates.as_ref().map(known::report),
    "skipped": skipped(this.0),
    "steps": Json(&this.0.found.steps[..]),
    "ended": this.0.is_interrupted.then_some("interrupted"),
});

/// The figures that `fathom compare` compares. Walks and dumps are given per entry, because the
/// tree changes between surveys.
pub(crate) fn figures(survey: &Survey<'_>) -> Vec<Figure> {
    let found = survey.found;
    let exact = |name: &str, value: u64| Figure::exact(name, value as f64, "");
    let mut figures = Vec::new();
    if let Some(mounted) = &found.mounts {
        let all = mounted.all();
        let failing = |point: &&&MountPoint| point.verdict.is_some_and(|it| it != Verdict::Ok);
        let count = |is_it: fn(&&&MountPoint) -> bool| all.iter().filter(is_it).count() as u64;
        figures.push(exact("mounts", all.len() as u64));
        figures.push(exact("hidden mounts", count(|point| point.hidden)));
        figures.push(exact("failing mounts", count(failing)));
    }
    for it in found.methods.iter().flat_map(|it| &it.comparison.methods) {
        let name = format!("mounts by {}", it.method.name());
        let real = it.runs.iter().map(|run| run.real);
        figures.extend(Figure::from_trials(format!("{name}: seconds"), real, "s"));
        let calls = it.profile.calls() as f64;
        figures.push(Figure::exact(format!("{name}: calls"), calls, "calls"));
    }
    // Walks to different depths must not be compared.
    let part = found.compared_levels();
    let part = part.map_or(String::new(), |levels| format!(" of {levels} levels"));
    for it in found.walking.iter().flat_map(|it| &it.engines.engines) {
        let name = format!("walk{part} by {}", it.engine.name());
        let entries = it.totals.entries.max(1) as f64;
        let real = it.runs.iter().map(|run| run.real / entries);
        let real = Figure::from_trials(format!("{name}: seconds per entry"), real, "s");
        figures.extend(real);
        let calls = format!("{name}: calls per entry");
        figures.push(Figure::exact(calls, calls_per_entry(it), "calls"));
    }
    if let Some(dump) = &found.dump {
        let calls = dump.calls as f64 / dump.entries.max(1) as f64;
        figures.push(Figure::exact("dump: calls per entry", calls, "calls"));
    }
    for it in found.startup.iter().flat_map(|it| &it.started) {
        let runs = it.runs.iter().copied();
        figures.extend(Figure::from_trials(
            format!("{}: seconds", it.command),
            runs,
            "s",
        ));
        let calls = |what: &str, calls: u64| {
            Figure::exact(format!("{}: {what}", it.command), calls as f64, "calls")
        };
        figures.push(calls("lookups", it.totals.lookups));
        figures.push(calls("failed lookups", it.totals.misses));
    }
    for probed in &found.file_systems {
        let place = format!(" of {}", printable(&probed.dir));
        figures.extend(figures_of_findings(&probed.report, &place));
    }
    let prices = found.gates.iter();
    figures.extend(prices.flat_map(|probed| figures_of_prices(&probed.report)));
    figures
}

/// The mounts in the form of the JSON of `fathom mounts --compare`.
struct JsonMounts<'a>(&'a Survey<'a>, &'a SurveyedMounts);

impl Serialize for JsonMounts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let JsonMounts(survey, SurveyedMounts { report, .. }) = self;
        let methods = survey.found.methods.as_ref();
        let compare = methods.map(|compared| JsonComparison {
            comparison: &compared.comparison,
            left_out: missing::left_out(compared),
        });
        let mounts = Mounts {
            root: Some(survey.root),
            compare: compare.as_ref(),
            by: report.method.name(),
            why: &report.reason.to_string(),
            complete: report.is_complete(),
            mounts: &report.points,
            ..Mounts::default()
        };
        mounts.serialize(serializer)
    }
}

fn skipped(survey: &Survey<'_>) -> BTreeMap<&'static str, Skipped> {
    let commands = Commands::from_survey(survey);
    let missing = survey.missing().into_iter();
    missing
        .map(|(section, missing)| {
            let (why, how) = (text(missing), commands.gather(section));
            (section.name(), Skipped { why, how })
        })
        .collect()
}

/// The reason why a section is missing, and the command that measures it.
#[derive(Serialize)]
struct Skipped {
    why: String,
    how: String,
}

json_object!(Json<'_, FileSystem>, |it| {
    name "target": Some(&it.target),
    name "fstype": Some(&it.fstype),
    name "source": it.source.as_deref(),
    "state": it.state.name(),
    "size": it.capacity.map(|capacity| capacity.size),
    "used": it.capacity.map(|capacity| capacity.used),
    "available": it.capacity.map(|capacity| capacity.available),
    "inodes": it.capacity.map(|capacity| capacity.inodes),
    "inodes_used": it.capacity.map(|capacity| capacity.inodes_used),
});

fn costs<'a>(survey: &Survey<'a>) -> Vec<PricedActivity<'a>> {
    let commands = Commands::from_survey(survey);
    let costs = activity_costs(survey).into_iter();
    costs
        .map(|cost| PricedActivity(cost, means(&cost, &commands)))
        .collect()
}

/// The present and the possible cost of an activity, and how to reach the possible one.
struct PricedActivity<'a>(ActivityCost<'a>, String);

json_object!(PricedActivity<'_>, |cost| {
    "name": cost.0.activity.name(),
    "command": cost.0.command,
    "unit": cost.0.now.map(CostAmount::unit),
    "now": cost.0.now.map(CostAmount::value),
    "estimated": cost.0.now.is_some_and(CostAmount::is_estimated),
    "possible": cost.0.possible.map(CostAmount::value),
    "how": cost.1,
});

json_object!(Json<'_, Machine>, |it| {
    name "host": it.host.as_deref(),
    "kernel": it.kernel,
    "arch": it.arch,
    "cpus": it.cpus,
    "memory": it.memory,
    "root": it.root,
    "lacking": it.unseen.iter().map(unseen).collect::<Vec<_>>(),
    "version": it.version,
    "when": it.when,
    "seconds": it.seconds,
    "bytes_read": it.bytes_read,
    "bytes_written": it.bytes_written,
    "limit_seconds": it.limit_seconds,
    "limit_bytes": it.limit_bytes,
    "deep": it.deep,
});

json_object!(Json<'_, WalkCosts>, |it| {
    "engine": it.part.engine.name(),
    "why": it.part.reason.to_string(),
    "explain": EngineChoices(&it.engines.explained),
    "compare": bounded::comparison(it),
    "bounded": it.bounded.as_ref().map(Json),
    "directories": it.directories.iter().map(Json).collect::<Vec<_>>(),
});

json_object!(Json<'_, DirectoryCount>, |it| {
    name "path": Some(&it.path),
    "entries": it.entries,
    "directories": it.directories,
    "allocated": it.allocated,
});

json_object!(Json<'_, LimitedWalk>, |it| {
    "engine": it.engine.name(),
    "entries": it.entries,
    "seconds": it.seconds,
    "bytes": it.bytes,
    "inodes": it.inodes,
    "whole_seconds": it.whole_seconds(),
    "levels": it.levels,
});

json_object!(Json<'_, StepTaken>, |it| {
    "name": it.name,
    "section": it.section.name(),
    "state": it.state.name(),
    "seconds": it.seconds,
    "bytes_read": it.bytes_read,
    "bytes_written": it.bytes_written,
});
