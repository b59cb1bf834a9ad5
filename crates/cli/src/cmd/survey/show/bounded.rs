//! Walks that were stopped by a limit, in words.

use show::units::{count, duration, sized};

use survey::bounded::{LimitedWalk, StoppedEngine};
use survey::{WalkCosts, WalkTime};

use crate::cmd::walk::show::ComparisonText;

/// The comparison of the engines; for a stopped engine, with the estimated time for all inodes.
pub(crate) fn comparison(walking: &WalkCosts) -> ComparisonText<'_> {
    let mut comparison = ComparisonText::new(&walking.engines);
    for left in &mut comparison.left_out {
        let mut stopped = walking.stopped.iter();
        let stopped = stopped.find(|stopped| stopped.engine.name() == left.engine);
        left.why.extend(stopped.and_then(estimate));
    }
    comparison
}

/// The entries, time and disk reads of a walk until it was stopped.
pub(crate) fn stopped(bounded: &LimitedWalk) -> String {
    let reads = if bounded.bytes > 0 {
        format!(" and {} of disk reads", sized(bounded.bytes))
    } else {
        String::new()
    };
    format!(
        "{} read {} entries in {}{reads} ({} a second), and was stopped",
        bounded.engine.name(),
        count(bounded.entries),
        duration(bounded.seconds),
        count(bounded.rate() as u64)
    )
}

/// The estimated time for all inodes; `None` if their number is unknown.
pub(crate) fn duration_estimate(bounded: &LimitedWalk) -> Option<String> {
    let (seconds, inodes) = (bounded.whole_seconds()?, count(bounded.inodes?));
    Some(format!(
        "all {inodes} files of the file system take {} at that rate",
        duration(seconds)
    ))
}

/// The estimated time of a stopped walk, or else its rate.
pub(crate) fn how_far(bounded: &LimitedWalk) -> String {
    match bounded.whole_seconds() {
        Some(seconds) => format!("estimated {}", duration(seconds)),
        None => format!("{} entries a second", count(bounded.rate() as u64)),
    }
}

pub(crate) fn effort_figure(effort: &WalkTime<'_>) -> String {
    match effort {
        WalkTime::Ms(ms) => duration(ms / 1e3),
        WalkTime::Bounded(bounded) => how_far(bounded),
        WalkTime::Stopped(stopped) => match effort.seconds() {
            Some(seconds) => format!("estimated {}", duration(seconds)),
            None => stopped.why.to_string(),
        },
    }
}

pub(crate) fn part_walked(bounded: &LimitedWalk) -> Option<String> {
    Some(match bounded.levels? {
        1 => "the upper level".to_owned(),
        levels => format!("the upper {levels} levels"),
    })
}

pub(crate) fn sentences(bounded: &LimitedWalk) -> Vec<String> {
    let mut sentences = vec![format!(
        "The tree exceeds the limits of a survey: {}.",
        stopped(bounded)
    )];
    sentences.extend(duration_estimate(bounded).map(|estimate| format!("Estimated: {estimate}.")));
    sentences.push(match part_walked(bounded) {
        Some(part) => format!(
            "The engines are compared on {part} (--max-depth {}), cached; uncached metadata takes longer.",
            bounded.levels.unwrap_or_default()
        ),
        None => "No part of it was small enough to compare the engines.".to_owned(),
    });
    sentences
}

/// The limit that stopped an engine, and the estimated time for the whole file system.
pub(crate) fn stopped_after(stopped: &StoppedEngine) -> String {
    let estimate = estimate(stopped).unwrap_or_default();
    let entries = count(stopped.entries);
    format!("{}, at {entries} entries{estimate}", stopped.why)
}

/// The estimated time of a stopped engine for the whole file system.
pub(crate) fn estimate(stopped: &StoppedEngine) -> Option<String> {
    let (inodes, rate, seconds) = stopped.estimate()?;
    let (rate, inodes) = (count(rate as u64), count(inodes));
    Some(format!(
        " ({rate} a second); all {inodes} files of its file system take an estimated {}",
        duration(seconds)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_tree_is_estimated_from_the_part_that_was_walked() {
        let bounded = |entries, inodes, levels| {
            let (seconds, bytes) = (2.0, 96 << 20);
            LimitedWalk {
                engine: walk::EngineKind::Threads,
                entries,
                seconds,
                bytes,
                inodes,
                levels,
            }
        };
        let one = bounded(100_000, Some(2_000_000), Some(3));
        assert_eq!(one.whole_seconds(), Some(40.0));
        let said = sentences(&one).join(" ");
        assert!(
            said.contains(
                "threads read 100,000 entries in 2.00 s and 96 MiB of disk reads (50,000 a second)"
            ),
            "{said}"
        );
        assert!(
            said.contains("all 2,000,000 files of the file system take 40.0 s at that rate"),
            "{said}"
        );
        assert!(
            said.contains("the upper 3 levels") && said.contains("(--max-depth 3)"),
            "{said}"
        );
        // No estimate with more entries than inodes, an unknown number of inodes, or no entries.
        for odd in [
            bounded(100, Some(100), None),
            bounded(100, None, Some(1)),
            bounded(0, Some(5), None),
        ] {
            assert!(
                odd.whole_seconds().is_none() && !sentences(&odd).concat().contains("Estimated"),
                "{odd:?}"
            );
        }
    }
}
