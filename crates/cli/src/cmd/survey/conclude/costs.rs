//! What several findings and pieces of advice are drawn from.

use mounts::diagnosis::{AnomalyKind, Diagnosis};
use show::times::median_ms;
use survey::bounded::StoppedEngine;

use crate::cmd::survey::finding::Cost;
use crate::cmd::survey::survey::Walking;
use crate::cmd::walk::show::Engine;

/// The paths of the mounts whose most serious anomaly is of a kind.
pub(super) fn targets<'a>(diagnoses: &[Diagnosis<'a>], kind: AnomalyKind) -> Vec<&'a [u8]> {
    let of_kind = diagnoses.iter().filter(|one| one.kind() == kind);
    of_kind.map(|one| one.target).collect()
}

pub(super) struct EngineCosts<'a> {
    pub(super) chosen: (&'a Engine, f64),
    /// The one that makes one call after the other.
    pub(super) plain: Option<Cost>,
    pub(super) fastest: (&'a Engine, f64),
}

impl<'a> EngineCosts<'a> {
    /// `None` if no engine finished.
    pub(super) fn new(walking: &'a Walking) -> Option<EngineCosts<'a>> {
        let engines = walking.engines.engines.iter();
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

pub(super) fn cost((engine, ms): (&Engine, f64)) -> Cost {
    Cost {
        name: engine.engine,
        found: engine.entries,
        ms,
        calls: engine.calls(),
    }
}

/// How an engine was stopped, if it was.
pub(super) fn stopped<'a>(walking: &'a Walking, engine: &str) -> Option<&'a StoppedEngine> {
    let mut all = walking.stopped.iter();
    all.find(|stopped| stopped.engine == engine && stopped.has_run())
}
