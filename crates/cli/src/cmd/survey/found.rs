//! What a survey has found so far, and why it has not what it has not.

use std::collections::HashMap;
use std::time::Duration;

use super::survey::{Part, StepTaken};
use ::mounts::Warning;
use ::survey::Section;
use archive::nightly::Nightly;
use probe::ProbeReport;

use super::bounded::{Bounded, StoppedEngine};
use super::mounts::Mounted;
use super::run::Ground;
use super::starting::Starting;
use super::steps::Step;
use crate::cmd::mounts::run::Compared;
use crate::cmd::walk::compare::Compared as Engines;
use account::command::CommandAccount;

/// Why a section is not there.
pub(super) struct Not {
    why: String,
    kind: Kind,
}

#[derive(PartialEq, Eq)]
enum Kind {
    /// It was left out on purpose, or somebody wanted the survey to end.
    Chosen,
    /// There was not enough time for it.
    Late,
    /// Something is wrong here.
    Wrong,
}

impl Not {
    /// Left out on purpose.
    pub(super) fn chosen(why: impl Into<String>) -> Not {
        Not {
            why: why.into(),
            kind: Kind::Chosen,
        }
    }

    /// It takes longer than it may.
    pub(super) fn late(limit: Duration) -> Not {
        Not {
            why: format!(
                "it takes longer than {} s, or more disk reads than it may; --limit gives it longer, --deep more of both",
                limit.as_secs_f64()
            ),
            kind: Kind::Late,
        }
    }

    /// Something is wrong, and will be warned of.
    pub(super) fn wrong(why: impl Into<String>) -> Not {
        Not {
            why: why.into(),
            kind: Kind::Wrong,
        }
    }

    pub(super) fn is_chosen(&self) -> bool {
        self.kind == Kind::Chosen
    }
}

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
    pub(super) lacking: Vec<String>,
    pub(super) steps: Vec<StepTaken>,
    /// Bytes that were read and written: by the kernel's account, or by that of the experiments,
    /// whichever says more.
    pub(super) charged: u64,
    /// Why sections are not there.
    not: HashMap<Section, String>,
}

impl Found {
    /// Enters why a step found nothing. Of a section the first reason is kept.
    pub(super) fn lacks(&mut self, ground: &Ground<'_>, step: &Step, not: Not) {
        if not.kind == Kind::Wrong {
            let message = format!(
                "{}: {}; {} tries it alone",
                step.name,
                not.why,
                ground.commands.gather(step.section)
            );
            self.warnings.push(Warning::general(message));
        }
        self.not.entry(step.section).or_insert(not.why);
    }

    /// A section, or the reason why it is missing.
    pub(super) fn part<T>(&self, section: Section, found: Option<T>) -> Part<T> {
        let nothing = match section {
            Section::Probe => {
                "no local disk that can be written to is mounted here; --network takes in those of servers"
            }
            _ => "there is nothing to be found",
        };
        let why = || self.not.get(&section).map_or(nothing, String::as_str);
        match found {
            Some(found) => Part::Gathered(found),
            None => Part::Missing(why().to_owned()),
        }
    }
}
