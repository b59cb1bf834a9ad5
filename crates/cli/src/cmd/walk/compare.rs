//! `fathom walk --compare`: what each engine costs on one tree.

use std::borrow::Cow;
use std::time::Duration;

use ::show::stats::Stats;
use ::show::times::Times;
use mounts::compare::{Bounds, Measured, NoRun};
use mounts::{Warning, WarningReason};
use walk::compare::{Walked, compare};
use walk::{Explained, Part, Totals, WalkOptions};

use super::show::{Comparison, Engine, LeftOut, SCHEMA, Walk};
use crate::error::{Error, Outcome};
use crate::out::{Out, gates};
use crate::progress::Progress;

/// The engines compared, ready to be shown.
pub(crate) struct Compared {
    pub(crate) parts: Vec<Part>,
    pub(crate) explained: Vec<Explained>,
    pub(crate) engines: Vec<Engine>,
    pub(crate) left_out: Vec<LeftOut>,
    /// Engines that were stopped, why, and the entries that they had found.
    pub(crate) stopped: Vec<(&'static str, NoRun, u64)>,
    /// What the engine of the first part found, and the median of its times, in seconds.
    pub(crate) found: Option<(Totals, f64)>,
    /// What went wrong: engines that were stopped, skipped something, or did not agree.
    pub(crate) warnings: Vec<Warning>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum WarningKind {
    #[error("{engine}: {why}")]
    LeftOut { engine: &'static str, why: String },
    #[error("{engine} skipped entries")]
    Skipped { engine: &'static str },
    #[error("the engines disagree; unless the tree changed meanwhile, one of them is wrong")]
    Disagree,
}

impl WarningReason for WarningKind {
    fn consequence(&self) -> Option<Cow<'_, str>> {
        match self {
            WarningKind::Skipped { engine } => Some(format!("--engine {engine} lists them").into()),
            _ => None,
        }
    }
}

pub(crate) fn engines(
    options: &WalkOptions,
    trials: usize,
    bounds: &Bounds,
    mut progress: Progress,
) -> Result<Compared, Error> {
    let compared = compare(options, trials, bounds, |engine, trial| {
        progress.at(|| match trial {
            0 => format!("{engine}, warming caches"),
            _ => format!("{engine}, trial {trial} of {trials}"),
        });
    });
    drop(progress);
    let compared = compared?;
    let (mut left_out, mut stopped, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
    for (by, why) in &compared.left_out {
        let engine = by.name();
        let (why, is_wrong) = match why {
            walk::compare::LeftOut::Impossible(refusal) => (refusal.to_string(), false),
            walk::compare::LeftOut::Not(NoRun::Refused, _) => (
                format!("it failed; --engine {engine} prints the reason"),
                true,
            ),
            walk::compare::LeftOut::Not(why, entries) => {
                stopped.push((engine, why.clone(), *entries));
                (format!("{why}, after {entries} entries"), true)
            }
        };
        if is_wrong {
            let why = why.clone();
            warnings.push(Warning::general(WarningKind::LeftOut { engine, why }));
        }
        left_out.push(LeftOut { engine, why });
    }
    let runs = |engine| {
        let runs = compared.trials.iter().flatten();
        runs.filter(move |run: &&Measured<Walked>| run.result.engine == engine)
    };
    let mut engines = Vec::new();
    for last in compared.trials.last().into_iter().flatten() {
        let Walked {
            engine,
            totals,
            warnings: skipped,
        } = &last.result;
        let runs: Vec<_> = runs(*engine).collect();
        let is_same = |run: &&Measured<Walked>| run.result.totals.digest == totals.digest;
        let times = |run: &&Measured<Walked>| Times::new([run.real, run.user, run.sys]);
        let engine = engine.name();
        if *skipped > 0 {
            warnings.push(Warning::general(WarningKind::Skipped { engine }));
        }
        engines.push(Engine {
            engine,
            entries: totals.entries,
            digest: totals.digest.to_string(),
            steady: runs.len() > 1 && runs.iter().all(is_same),
            runs: runs.iter().map(times).collect(),
            gates: gates(&last.tally),
        });
    }
    if !Comparison::new(&engines, &left_out).agree {
        warnings.push(Warning::general(WarningKind::Disagree));
    }
    let parts: Vec<Part> = compared.explained.iter().map(Explained::part).collect();
    let found = parts.first().and_then(|part| {
        let seconds = runs(part.engine).map(|run| run.real.as_secs_f64());
        let median = Stats::from_values(seconds)?.median;
        Some((runs(part.engine).next_back()?.result.totals, median))
    });
    Ok(Compared {
        parts,
        explained: compared.explained,
        engines,
        left_out,
        stopped,
        found,
        warnings,
    })
}

pub(super) fn run(options: &WalkOptions, trials: usize, out: &Out) -> Outcome {
    let bounds = Bounds::time(Duration::from_secs(3600));
    let compared = engines(options, trials, &bounds, Progress::new(out.progress))?;
    let comparison = Comparison::new(&compared.engines, &compared.left_out);
    let found = compared.found.as_ref();
    let result = Walk {
        totals: found.map(|(totals, seconds)| (totals, *seconds)),
        parts: &compared.parts,
        compare: Some(comparison),
        ..Walk::default()
    };
    let print_text = || out.data(comparison.to_text(out.table_style()));
    out.report(SCHEMA, result, &compared.warnings, print_text)
}
