//! The present and the possible costs of scans, backups, program starts, stat and fsync.

use pathsearch::{Change, Fix, ProgramStart, StartupReport, is_worthwhile};

use super::costs::{EngineCosts, cost};
use crate::cost::{Activity, ActivityCost, CostAmount, CostReduction};
use crate::found::SurveyResults;
use crate::known::best_price;
use crate::section::Section;
use crate::survey::Survey;

/// The costs of each activity, in the order in which they are listed.
pub fn activity_costs<'a>(survey: &Survey<'a>) -> [ActivityCost<'a>; 5] {
    let found = survey.found;
    [
        scan(found, survey.machine.deep),
        backup(survey),
        start(found),
        stat(found, survey.machine.deep),
        fsync(found),
    ]
}

fn unknown<'a>(activity: Activity, by: CostReduction<'a>) -> ActivityCost<'a> {
    ActivityCost {
        activity,
        now: None,
        possible: None,
        by,
        command: None,
    }
}

fn scan(found: &SurveyResults, is_deep: bool) -> ActivityCost<'_> {
    let row = unknown(Activity::Scan, CostReduction::Measure(Section::Walk));
    let Some(walking) = &found.walking else {
        return row;
    };
    // A walk within the limits of a survey does not show which engine is fastest on the whole tree.
    let by = if is_deep { row.by } else { CostReduction::Deep };
    if let Some(bounded) = &walking.bounded {
        let now = bounded.whole_seconds().map(CostAmount::EstimatedSeconds);
        return ActivityCost { now, by, ..row };
    }
    let Some(costs) = EngineCosts::new(walking) else {
        let mut stopped = walking.stopped.iter();
        let now = stopped.find_map(|stopped| Some(stopped.estimate()?.2));
        let now = now.map(CostAmount::EstimatedSeconds);
        return ActivityCost { now, by, ..row };
    };
    let fastest = cost(costs.fastest);
    let now = costs.plain.unwrap_or_else(|| cost(costs.chosen));
    let is_faster = is_worthwhile((now.ms - fastest.ms) / 1e3, now.ms / 1e3);
    ActivityCost {
        now: Some(CostAmount::Seconds(now.ms / 1e3)),
        possible: is_faster.then_some(CostAmount::Seconds(fastest.ms / 1e3)),
        by: match is_faster {
            true => CostReduction::Engine(fastest.name),
            false => CostReduction::Fastest,
        },
        ..row
    }
}

fn backup<'a>(survey: &Survey<'a>) -> ActivityCost<'a> {
    let found = survey.found;
    let row = unknown(Activity::Backup, CostReduction::Measure(Section::Dump));
    let Some(dump) = &found.dump else {
        let now = bytes_in_use(survey).map(CostAmount::AtMostBytes);
        return ActivityCost { now, ..row };
    };
    let is_less = dump.changed.bytes < dump.first.bytes;
    ActivityCost {
        now: Some(CostAmount::Bytes(dump.first.bytes)),
        possible: is_less.then_some(CostAmount::EstimatedBytes(dump.changed.bytes)),
        by: match is_less {
            true => CostReduction::Increments,
            false => CostReduction::Fastest,
        },
        ..row
    }
}

/// The used space of the directory's file system, an upper bound for what a full dump reads. `None`
/// if files can share or compress their data: then a dump can read more.
fn bytes_in_use(survey: &Survey<'_>) -> Option<u64> {
    const SHARED: [&[u8]; 8] = [
        b"btrfs",
        b"bcachefs",
        b"zfs",
        b"xfs",
        b"f2fs",
        b"squashfs",
        b"erofs",
        b"overlay",
    ];
    let mounted = survey.found.mounts.as_ref()?;
    let mut points = mounted.report.points.iter();
    let root = points.find(|point| !point.hidden && point.target == survey.root);
    let point = mounted.own.as_ref().or(root)?;
    let is_known = point
        .fstype()
        .is_some_and(|fstype| !SHARED.contains(&fstype));
    let capacity = survey.found.capacities.get(&point.dev)?;
    is_known.then_some(capacity.used)
}

fn start(found: &SurveyResults) -> ActivityCost<'_> {
    let row = unknown(Activity::Start, CostReduction::Measure(Section::Startup));
    let startup = found.startup.as_ref();
    let slowest = startup.and_then(|startup| {
        // A start under a meter takes longer, so use only starts that were timed without one.
        let started = startup.started.iter();
        let timed = started.filter(|start| start.elapsed().is_some());
        let start = timed.max_by(|a, b| a.seconds.total_cmp(&b.seconds))?;
        Some((startup, start))
    });
    let Some((startup, start)) = slowest else {
        return row;
    };
    let seconds = start.seconds;
    let best = useful_fixes(startup, start).into_iter().next();
    ActivityCost {
        now: Some(CostAmount::Seconds(seconds)),
        possible: best.map(|fix| CostAmount::Seconds(seconds - fix.saves_seconds_here)),
        by: best.map_or(CostReduction::NoChange, |fix| {
            CostReduction::Change(&fix.change)
        }),
        command: Some(start.command),
        ..row
    }
}

/// The changes whose savings exceed the spread of the program's start times, the largest first.
/// Reordering PATH can select different programs, so it is proposed for network file systems only.
pub fn useful_fixes<'a>(startup: &'a StartupReport, start: &'a ProgramStart) -> Vec<&'a Fix> {
    let Some(elapsed) = start.elapsed() else {
        return Vec::new();
    };
    let is_remote = startup.path.iter().any(|element| element.network);
    let noise = elapsed.max - elapsed.min;
    let is_useful = |fix: &&Fix| {
        let is_possible = match &fix.change {
            Change::SetPath(path) => is_remote || !path.is_reordered,
            Change::CopyToLocalDisk { .. } => is_remote,
            // The traced program does not show what other programs need from the same variable.
            Change::ShortenVariable { .. } => false,
            _ => true,
        };
        let saving = fix.saves_seconds_here;
        is_possible && is_worthwhile(saving, start.seconds) && saving > noise
    };
    let mut useful: Vec<_> = start.fixes.iter().filter(is_useful).collect();
    useful.sort_by(|a, b| b.saves_seconds_here.total_cmp(&a.saves_seconds_here));
    useful
}

fn stat(found: &SurveyResults, is_deep: bool) -> ActivityCost<'_> {
    let row = unknown(Activity::Stat, CostReduction::Measure(Section::Gates));
    let price = |warm| Some(CostAmount::Seconds(price(found, "statx", warm)? / 1e9));
    match (price(true), price(false)) {
        (warm, Some(cold)) => ActivityCost {
            now: Some(cold),
            possible: warm,
            by: CostReduction::Cached,
            ..row
        },
        (Some(warm), None) => ActivityCost {
            now: Some(warm),
            by: if is_deep {
                CostReduction::Fastest
            } else {
                CostReduction::Deep
            },
            ..row
        },
        (None, None) => row,
    }
}

fn fsync(found: &SurveyResults) -> ActivityCost<'_> {
    let row = unknown(Activity::Fsync, CostReduction::Measure(Section::Gates));
    match price(found, "fsync", true) {
        Some(ns) => ActivityCost {
            now: Some(CostAmount::Seconds(ns / 1e9)),
            by: CostReduction::Batches,
            ..row
        },
        None => row,
    }
}

/// The price of a call in nanoseconds.
fn price(found: &SurveyResults, gate: &str, warm: bool) -> Option<f64> {
    let prices = found.gates.as_ref()?.report.prices.as_deref()?;
    best_price(prices, gate, warm).map(|price| price.ns)
}
