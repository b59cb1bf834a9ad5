//! What the usual work costs now, as increments, and at best.

use mounts::runs::median_ms;
use pathsearch::is_worthwhile;
use show::figure::{Bar, bars};
use show::units::{duration, size};
use survey::conclude::useful_fixes;
use survey::{Section, Survey};
use walk::EngineKind;

use super::block::Block;
use crate::out::seconds;

/// A bar of a group: its name, its value, and its class.
type Cost = (&'static str, f64, &'static str);

/// The groups of bars, those that are known.
pub(super) fn costs(survey: &Survey<'_>) -> Vec<Block> {
    let found = survey.found;
    let mut blocks = Vec::new();
    let mut group =
        |title: &str, costs: Vec<Option<Cost>>, text: fn(f64) -> String, note: String| {
            let costs: Vec<Bar> = costs
                .into_iter()
                .flatten()
                .map(|(label, value, class)| Bar {
                    label: label.to_owned(),
                    value,
                    text: text(value),
                    class,
                })
                .collect();
            if !costs.is_empty() {
                blocks.push(Block::Plot(bars(title, &costs), note));
            }
        };
    if let Some(walking) = &found.walking {
        let times =
            walking.engines.engines.iter().filter_map(|engine| {
                Some((engine.engine, median_ms(&engine.runs, |t| t.real)? / 1e3))
            });
        let times: Vec<(EngineKind, f64)> = times.collect();
        let plain = times.iter().find(|(engine, _)| *engine == EngineKind::Stat);
        let best = times.iter().min_by(|a, b| a.1.total_cmp(&b.1));
        let best =
            best.filter(|best| plain.is_none_or(|plain| is_worthwhile(plain.1 - best.1, plain.1)));
        let bounded = walking.bounded.as_ref();
        let part = bounded
            .and_then(|bounded| bounded.levels)
            .map_or(String::new(), |levels| {
                format!(" Measured on the upper {levels} levels of the tree.")
            });
        let engine = best.map_or(String::new(), |(engine, _)| {
            format!(" Possible: engine {}.", engine.name())
        });
        group(
            "Scan: read the metadata of every entry",
            vec![
                plain.map(|(_, s)| ("now, one call at a time", *s, "now")),
                best.map(|(_, s)| ("possible, with fathom walk", *s, "possible")),
            ],
            duration,
            format!("Elapsed time, median.{engine}{part}"),
        );
    }
    if let Some(dump) = &found.dump {
        let bytes = |expected: &archive::nightly::Expected| expected.bytes as f64;
        group(
            "Nightly backup: bytes to read",
            vec![
                Some(("now, a full dump", bytes(&dump.first), "now")),
                Some((
                    "incremental, 1 % of the files changed",
                    bytes(&dump.changed),
                    "incremental",
                )),
                Some((
                    "possible, nothing changed",
                    bytes(&dump.unchanged),
                    "possible",
                )),
            ],
            |bytes| size(bytes as u64),
            "Estimated from the metadata of every entry; no file contents were read.".to_owned(),
        );
    }
    if let Some(startup) = &found.startup {
        for start in &startup.started {
            let now = seconds(start.totals.nanos);
            let best = useful_fixes(startup, start).into_iter().next();
            let saved = best.map(|fix| fix.saves_seconds_here);
            group(
                &format!("Program start: failed lookups of {}", start.command),
                vec![
                    Some(("now", now, "now")),
                    saved.map(|saved| ("possible, with the best change", now - saved, "possible")),
                    Some(("remote, on a network file system", start.remote_seconds, "")),
                ],
                duration,
                format!(
                    "Time in failed lookups. Remote: the estimated time of all lookups, with empty caches and a round trip of {}.",
                    duration(startup.rtt)
                ),
            );
        }
    }
    if blocks.is_empty() {
        blocks.push(Block::missing(Section::Walk, survey));
    }
    blocks
}
