//! Draws findings and advice from what a survey gathered. Every possible one is weighed, and the
//! five that weigh most are kept.

use std::cmp::Reverse;

use crate::cmd::walk::show::Engine;
use ::mounts::diagnosis::{AnomalyKind, Diagnosis};
use ::survey::bounded::StoppedEngine;
use show::times::median_ms;

use super::finding::{Advice, Cost, Finding};
use super::survey::{Survey, Walking};

mod advice;
mod findings;

/// So many findings, and so many pieces of advice, are kept.
const MOST: usize = 5;

/// The most important findings, the most important first.
pub(crate) fn findings(survey: &Survey<'_>) -> Vec<Finding> {
    let mut found = findings::all(survey);
    // The sort is stable: among equals the first stays first.
    found.sort_by_key(|finding| Reverse(finding.weight()));
    found.truncate(MOST);
    found
}

/// The most helpful advice, the most helpful first.
pub(crate) fn advice(survey: &Survey<'_>) -> Vec<Advice> {
    let mut found = advice::all(survey);
    found.sort_by_key(|advice| Reverse(advice.weight()));
    found.truncate(MOST);
    found
}

/// The paths of the mounts whose most serious anomaly is of a kind.
fn targets(diagnoses: &[Diagnosis<'_>], kind: AnomalyKind) -> Vec<Vec<u8>> {
    diagnoses
        .iter()
        .filter(|one| one.kind() == kind)
        .map(|one| one.target.to_vec())
        .collect()
}

/// What the engines cost that finished.
struct EngineCosts<'a> {
    /// The engine that fathom chooses.
    chosen: (&'a Engine, f64),
    /// The one that makes one call after the other.
    plain: Option<Cost>,
    /// The fastest.
    fastest: (&'a Engine, f64),
}

impl<'a> EngineCosts<'a> {
    /// `None` if no engine finished.
    fn new(walking: &Walking<'a>) -> Option<EngineCosts<'a>> {
        let engines = walking.compare.engines.iter();
        let timed: Vec<_> = engines
            .filter_map(|engine| Some((engine, median_ms(&engine.runs, |t| t.real)?)))
            .collect();
        let find = |name| timed.iter().find(|(engine, _)| engine.engine == name);
        let fastest = *timed.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(EngineCosts {
            chosen: *find(walking.part.engine.name()).unwrap_or(&fastest),
            plain: find("stat").map(|timed| cost(*timed)),
            fastest,
        })
    }
}

fn cost((engine, ms): (&Engine, f64)) -> Cost {
    Cost {
        name: engine.engine,
        found: engine.entries,
        ms,
        calls: engine.calls(),
    }
}

/// How an engine was stopped, if it was.
fn stopped(walking: &Walking<'_>, engine: &str) -> Option<StoppedEngine> {
    let mut all = walking.stopped.iter();
    all.find(|stopped| stopped.engine == engine && stopped.has_run())
        .cloned()
}
