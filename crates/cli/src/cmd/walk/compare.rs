//! `fathom walk --compare`: what each engine costs on one tree.

use std::borrow::Cow;
use std::time::Duration;

use ::show::stats::Stats;
use ::show::times::Times;
use mounts::compare::{Bounds, Measured, NoRun};
use mounts::{Warning, WarningReason};
use walk::compare::{Walked, compare};
use walk::{Explained, Part, Totals, WalkOptions};

use super::run::SCHEMA;
use super::show::{Comparison, Engine, LeftOut, Walk};
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

/// What went wrong in a comparison.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WarningKind {
    /// An engine looked possible, and was stopped, or gave up.
    #[error("{engine}: {why}")]
    LeftOut { engine: &'static str, why: String },
    /// A walk by an engine gave warnings.
    #[error("{engine} skipped something")]
    Skipped { engine: &'static str },
    /// The engines report different trees.
    #[error(
        "the engines do not agree on what is there; unless the tree changed meanwhile, one of them is wrong"
    )]
    Disagree,
}

impl WarningReason for WarningKind {
    fn consequence(&self) -> Option<Cow<'_, str>> {
        match self {
            WarningKind::Skipped { engine } => Some(format!("--engine {engine} names it").into()),
            _ => None,
        }
    }
}

/// Walks by every engine.
pub(crate) fn engines(
    options: &WalkOptions,
    trials: usize,
    bounds: &Bounds,
    mut progress: Progress,
) -> Result<Compared, Error> {
    let compared = compare(options, trials, bounds, |engine, trial| {
        progress.at(|| match trial {
            0 => format!("{engine}, to warm the caches"),
            _ => format!("{engine}, trial {trial} of {trials}"),
        });
    });
    drop(progress);
    let compared = compared?;
    let mut warnings = Vec::new();
    let left_out = compared.left_out.iter().map(|(by, why)| {
        let (why, is_wrong) = match why {
            walk::compare::LeftOut::Impossible(refusal) => (refusal.to_string(), false),
            walk::compare::LeftOut::Not(NoRun::Refused, _) => {
                (format!("it gave up; --engine {} says why", by.name()), true)
            }
            walk::compare::LeftOut::Not(why, seen) => (format!("{why}, at {seen} entries"), true),
        };
        if is_wrong {
            let (engine, why) = (by.name(), why.clone());
            warnings.push(Warning::general(WarningKind::LeftOut { engine, why }));
        }
        LeftOut {
            engine: by.name(),
            why,
        }
    });
    let left_out: Vec<LeftOut> = left_out.collect();
    let stopped = compared.left_out.iter().filter_map(|(by, why)| match why {
        walk::compare::LeftOut::Not(why @ (NoRun::Stopped(_) | NoRun::Moved(..)), seen) => {
            Some((by.name(), why.clone(), *seen))
        }
        _ => None,
    });
    let stopped = stopped.collect();
    let runs = |engine| {
        compared
            .trials
            .iter()
            .flatten()
            .filter(move |run: &&Measured<Walked>| run.result.engine.name() == engine)
    };
    let mut engines = Vec::new();
    for last in compared.trials.last().into_iter().flatten() {
        let engine = last.result.engine.name();
        if last.result.warnings > 0 {
            warnings.push(Warning::general(WarningKind::Skipped { engine }));
        }
        engines.push(Engine {
            engine,
            entries: last.result.totals.entries,
            digest: last.result.totals.digest.to_string(),
            steady: runs(engine).count() > 1
                && runs(engine).all(|run| run.result.totals.digest == last.result.totals.digest),
            runs: runs(engine).map(times).collect(),
            gates: gates(&last.tally),
        });
    }
    if !Comparison::new(&engines, &left_out).agree {
        warnings.push(Warning::general(WarningKind::Disagree));
    }
    let explained = compared.explained;
    let parts: Vec<Part> = explained.iter().map(Explained::part).collect();
    let planned = parts.first().map(|part| part.engine.name());
    let found = planned.and_then(|planned| {
        let seconds = Stats::from_values(runs(planned).map(|run| run.real.as_secs_f64()))?.median;
        Some((runs(planned).next_back()?.result.totals, seconds))
    });
    Ok(Compared {
        parts,
        explained,
        engines,
        left_out,
        stopped,
        found,
        warnings,
    })
}

fn times(run: &Measured<Walked>) -> Times {
    Times::new([run.real, run.user, run.sys])
}

pub(super) fn run(options: &WalkOptions, trials: usize, out: &Out) -> Outcome {
    const LIMIT: Duration = Duration::from_secs(3600);
    let compared = engines(
        options,
        trials,
        &Bounds::time(LIMIT),
        Progress::new(out.progress),
    )?;
    let comparison = Comparison::new(&compared.engines, &compared.left_out);
    if out.json {
        let found = compared.found.as_ref();
        let result = Walk {
            totals: found.map(|(totals, seconds)| (totals, *seconds)),
            parts: &compared.parts,
            compare: Some(comparison),
            ..Walk::default()
        };
        out.envelope(SCHEMA, result, &compared.warnings)?;
    } else {
        out.data(comparison.to_text(out.table_style()).as_bytes())?;
    }
    out.warn(&compared.warnings);
    Ok(compared.warnings.len())
}
