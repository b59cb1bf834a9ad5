//! What a survey has found so far, and why it has not what it has not.

use std::collections::HashMap;

use super::survey::Part;
use ::mounts::Warning;
use ::survey::{Missing, Section, StepTaken, Unseen};
use archive::nightly::Nightly;
use probe::ProbeReport;

use super::mounts::Mounted;
use super::run::SurveyContext;
use super::starting::Starting;
use super::steps::Step;
use super::warning::WarningKind;
use crate::cmd::mounts::compare::Compared;
use crate::cmd::walk::compare::Compared as Engines;
use ::survey::bounded::{Bounded, StoppedEngine};
use account::command::CommandAccount;

/// A file system that was experimented on, or only looked at.
pub(super) struct Probed {
    pub(super) dir: Vec<u8>,
    pub(super) report: ProbeReport,
    /// How each of its findings was made.
    pub(super) methods: Vec<String>,
}

/// All of it.
#[derive(Default)]
pub(super) struct Found {
    pub(super) mounts: Option<Mounted>,
    pub(super) methods: Option<Compared>,
    pub(super) engines: Option<Engines>,
    /// How far a walk came, if it was stopped: the engines are then those of a part.
    pub(super) bounded: Option<Bounded>,
    /// Engines that were stopped in the comparison.
    pub(super) stopped: Vec<StoppedEngine>,
    pub(super) dump: Option<Nightly>,
    pub(super) account: Option<CommandAccount>,
    pub(super) starting: Option<Starting>,
    pub(super) gates: Option<Probed>,
    /// Where experiments are to be made: a directory on each file system.
    pub(super) to_probe: Vec<Vec<u8>>,
    pub(super) probed: Vec<Probed>,
    pub(super) warnings: Vec<Warning>,
    /// What more privilege would have shown.
    pub(super) unseen: Vec<Unseen>,
    pub(super) steps: Vec<StepTaken>,
    /// Bytes that were read and written: by the kernel's account, or by that of the experiments,
    /// whichever says more.
    pub(super) charged: u64,
    /// Why sections are not there.
    missing: HashMap<Section, Missing>,
}

impl Found {
    /// Enters why a step gathered nothing. The first reason of a section is kept.
    pub(super) fn lacks(&mut self, context: &SurveyContext<'_>, step: &Step, missing: Missing) {
        if missing.is_wrong() {
            self.warnings.push(Warning::general(WarningKind::Step {
                step: step.name,
                missing: missing.clone(),
                command: context.commands.gather(step.section),
            }));
        }
        self.missing.entry(step.section).or_insert(missing);
    }

    /// A section, or the reason why it is missing.
    pub(super) fn part<T>(&self, section: Section, found: Option<T>) -> Part<T> {
        let nothing = match section {
            Section::Probe => Missing::NoDisk,
            _ => Missing::Nothing,
        };
        match found {
            Some(found) => Part::Gathered(found),
            None => Part::Missing(self.missing.get(&section).cloned().unwrap_or(nothing)),
        }
    }
}
