//! The section about costs: bars for usual activities at present, as increments, and at best.

use archive::nightly::{Expected, Nightly};
use base::runs::median_ms;
use pathsearch::{ProgramStart, StartupReport, is_worthwhile};
use show::figure::{Bar, bars};
use show::units::{duration, size};
use survey::conclude::useful_fixes;
use survey::{Section, Survey, WalkCosts};
use walk::EngineKind;

use super::block::Block;

/// A bar: its label, its value, and its CSS class.
type Cost = (&'static str, f64, &'static str);

/// A group of bars for each activity that was measured.
pub(super) fn costs(survey: &Survey<'_>) -> Vec<Block> {
    let found = survey.found;
    let mut blocks = Vec::new();
    blocks.extend(found.walking.as_ref().and_then(scan));
    blocks.extend(found.dump.as_ref().and_then(backup));
    if let Some(startup) = &found.startup {
        let starts = startup.started.iter();
        blocks.extend(starts.filter_map(|one| start(startup, one)));
    }
    if blocks.is_empty() {
        blocks.push(Block::missing(Section::Walk, survey));
    }
    blocks
}

/// A plot of a group of bars; `None` if the group is empty.
fn group<const N: usize>(
    title: &str,
    costs: [Option<Cost>; N],
    text: fn(f64) -> String,
    note: String,
) -> Option<Block> {
    let bar = |(label, value, class): Cost| Bar {
        label: label.to_owned(),
        value,
        text: text(value),
        class,
    };
    let costs: Vec<Bar> = costs.into_iter().flatten().map(bar).collect();
    (!costs.is_empty()).then(|| Block::Plot(bars(title, &costs), note))
}

fn scan(walking: &WalkCosts) -> Option<Block> {
    let engines = walking.engines.engines.iter();
    let times = engines.filter_map(|it| Some((it.engine, median_ms(&it.runs, |t| t.real)? / 1e3)));
    let times: Vec<(EngineKind, f64)> = times.collect();
    let plain = times.iter().find(|(engine, _)| *engine == EngineKind::Stat);
    let best = times.iter().min_by(|a, b| a.1.total_cmp(&b.1));
    let best =
        best.filter(|best| plain.is_none_or(|plain| is_worthwhile(plain.1 - best.1, plain.1)));
    let levels = walking.bounded.as_ref().and_then(|bounded| bounded.levels);
    let part = levels.map_or(String::new(), |levels| {
        format!(" Measured on the upper {levels} levels of the tree.")
    });
    let engine = best.map_or(String::new(), |(engine, _)| {
        format!(" Possible: engine {}.", engine.name())
    });
    group(
        "Scan: read the metadata of every entry",
        [
            plain.map(|(_, s)| ("now, one call at a time", *s, "now")),
            best.map(|(_, s)| ("possible, with fathom walk", *s, "possible")),
        ],
        duration,
        format!("Elapsed time, median.{engine}{part}"),
    )
}

fn backup(dump: &Nightly) -> Option<Block> {
    let bar = |label, expected: &Expected, class| Some((label, expected.bytes as f64, class));
    let changed = "incremental, 1 % of the files changed";
    group(
        "Nightly backup: bytes to read",
        [
            bar("now, a full dump", &dump.first, "now"),
            bar(changed, &dump.changed, "incremental"),
            bar("possible, nothing changed", &dump.unchanged, "possible"),
        ],
        |bytes| size(bytes as u64),
        "Estimated from the metadata of every entry; no file contents were read.".to_owned(),
    )
}

fn start(startup: &StartupReport, start: &ProgramStart) -> Option<Block> {
    let now = start.seconds;
    let best = useful_fixes(startup, start).into_iter().next();
    let saved = best.map(|fix| fix.saves_seconds_here);
    group(
        &format!("Program start: {}", start.command),
        [
            Some(("now", now, "now")),
            saved.map(|saved| ("possible, with the best change", now - saved, "possible")),
            Some((
                "lookups, on a network file system",
                start.remote_seconds,
                "",
            )),
        ],
        duration,
        format!(
            "Median of several starts. On a network file system: the estimated time of all lookups, with empty caches and a round trip of {}.",
            duration(startup.rtt)
        ),
    )
}
