//! Costs from which several findings and pieces of advice are derived.

use base::runs::median_ms;
use mounts::diagnosis::{AnomalyKind, Diagnosis};
use walk::EngineKind;
use walk::compare::EngineRuns;

use crate::bounded::StoppedEngine;
use crate::capacity::Capacity;
use crate::command::Command;
use crate::conclusion::{Conclusion, Cost, Statement};
use crate::found::WalkCosts;
use crate::section::Section;
use crate::survey::Survey;

/// The paths of the mounts whose most serious anomaly is of this kind.
pub(super) fn targets<'a>(diagnoses: &[Diagnosis<'a>], kind: AnomalyKind) -> Vec<&'a [u8]> {
    let of_kind = diagnoses.iter().filter(|one| one.kind() == kind);
    of_kind.map(|one| one.target).collect()
}

/// An engine, and the median of its elapsed times in milliseconds.
pub(super) type EngineTime<'a> = (&'a EngineRuns, f64);

pub(super) struct EngineCosts<'a> {
    pub(super) chosen: EngineTime<'a>,
    /// The engine `stat`, which makes one call at a time.
    pub(super) plain: Option<Cost>,
    pub(super) fastest: EngineTime<'a>,
}

impl<'a> EngineCosts<'a> {
    /// `None` if no engine finished.
    pub(super) fn new(walking: &'a WalkCosts) -> Option<EngineCosts<'a>> {
        let engines = walking.engines.engines.iter();
        let timed: Vec<_> = engines
            .filter_map(|engine| Some((engine, median_ms(&engine.runs, |t| t.real)?)))
            .collect();
        let find = |engine| timed.iter().find(|(one, _)| one.engine == engine);
        let fastest = *timed.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(EngineCosts {
            chosen: *find(walking.part.engine).unwrap_or(&fastest),
            plain: find(EngineKind::Stat).map(|timed| cost(*timed)),
            fastest,
        })
    }
}

pub(super) fn cost((engine, ms): EngineTime<'_>) -> Cost {
    Cost {
        name: engine.engine.name(),
        found: engine.totals.entries,
        ms,
        calls: engine.tally.calls(),
    }
}

/// The record of an engine that was stopped; `None` if it finished or did not start.
pub(super) fn stopped(walking: &WalkCosts, engine: EngineKind) -> Option<&StoppedEngine> {
    let mut all = walking.stopped.iter();
    all.find(|stopped| stopped.engine == engine && stopped.has_run())
}

/// The conclusion about full file systems; `None` if none is full.
pub(super) fn of_full<'a>(
    survey: &Survey<'a>,
    statement: impl FnOnce(Vec<(&'a [u8], Capacity)>) -> Statement<'a>,
) -> Option<Conclusion<'a>> {
    let full = survey.full();
    let &(first, capacity) = full.first()?;
    let command = Command::Largest(first, capacity);
    let statement = statement(full);
    Some(Conclusion::new(Section::Mounts, 99, command, statement))
}
