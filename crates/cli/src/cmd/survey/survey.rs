//! What a survey gathered, and what was concluded from it.

use crate::cmd::mounts::methods::{LeftOut, Method};
use crate::cmd::mounts::show::Mounts;
use crate::cmd::survey::show::probe::Probe;
use crate::cmd::survey::show::startup::Startup;
use crate::cmd::walk::show::Comparison;
use ::mounts::Point;
use ::survey::bounded::{Bounded, StoppedEngine};
use ::survey::{Machine, Missing, Section, StepTaken};
use account::report::AccountReport;
use archive::nightly::Nightly;
use show::figure::Figure;
use show::json::Warning;

use super::conclude;
use super::finding::{Advice, Finding};

/// A section that was gathered, or the reason why it was not.
#[derive(Clone, Debug)]
pub(crate) enum Part<T> {
    Gathered(T),
    Missing(Missing),
}

impl<T> Part<T> {
    /// The section, if it was gathered.
    pub(crate) fn gathered(&self) -> Option<&T> {
        match self {
            Part::Gathered(found) => Some(found),
            Part::Missing(_) => None,
        }
    }

    /// Why it was not gathered.
    pub(crate) fn missing(&self) -> Option<&Missing> {
        match self {
            Part::Gathered(_) => None,
            Part::Missing(why) => Some(why),
        }
    }
}

/// The mounts, and what each way to find them costs.
#[derive(Clone)]
pub(crate) struct MountsPart<'a> {
    /// The mounts.
    pub(crate) points: &'a [Point],
    /// The same as they are reported.
    pub(crate) mounts: Mounts<'a>,
    /// What each way to find them costs.
    pub(crate) compared: Part<Compared<'a>>,
}

impl<'a> MountsPart<'a> {
    /// The methods that were compared.
    pub(crate) fn methods(&self) -> &'a [Method] {
        self.compared
            .gathered()
            .map_or(&[], |compared| compared.methods)
    }
}

/// The methods of finding mounts, compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compared<'a> {
    /// What each took.
    pub(crate) methods: &'a [Method],
    /// Methods that were skipped, and why.
    pub(crate) left_out: &'a [LeftOut],
}

/// A file system, and the plots of what was measured on it.
#[derive(Clone, Debug)]
pub(crate) struct FileSystem<'a> {
    /// What was found.
    pub(crate) probe: Probe<'a>,
    /// The plots.
    pub(crate) plots: Vec<Plot>,
}

/// A plot of an experiment.
#[derive(Clone, Debug)]
pub(crate) struct Plot {
    /// The experiment: `readahead`.
    pub(crate) experiment: &'static str,
    /// What it shows.
    pub(crate) figure: Figure,
}

/// The engines that walk a directory, and what each costs there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walking<'a> {
    /// The mount that the directory is on.
    pub(crate) part: &'a walk::Part,
    /// Which engines can work there, and why others cannot.
    pub(crate) explain: &'a [walk::Explained],
    /// The first of them that cannot because it needs root.
    pub(crate) needs_root: Option<&'static str>,
    /// What each costs; of a bounded walk, on a part of the directory.
    pub(crate) compare: Comparison<'a>,
    /// Engines that were stopped in the comparison.
    pub(crate) stopped: &'a [StoppedEngine],
    /// How far a walk came that was stopped; `None` where all could be walked.
    pub(crate) bounded: Option<&'a Bounded>,
}

/// What `fathom survey` found.
#[derive(Clone)]
pub(crate) struct Survey<'a> {
    /// The absolute name of the directory that was surveyed.
    pub(crate) root: &'a [u8],
    /// The machine, and what the survey took.
    pub(crate) about: Machine,
    /// Mounts at or under the directory.
    pub(crate) mounts: Part<MountsPart<'a>>,
    /// The file systems on them.
    pub(crate) file_systems: Part<Vec<FileSystem<'a>>>,
    /// What walking costs, by each engine.
    pub(crate) walking: Part<Walking<'a>>,
    /// What dumping would cost.
    pub(crate) dumping: Part<&'a Nightly>,
    /// The system calls of a walk.
    pub(crate) calls: Part<&'a AccountReport<'a>>,
    /// What starting programs costs.
    pub(crate) starting: Part<Startup<'a>>,
    /// The price of each system call.
    pub(crate) gates: Part<Probe<'a>>,
    /// What matters most of it.
    pub(crate) findings: Vec<Finding>,
    /// What to do about it.
    pub(crate) advice: Vec<Advice>,
    /// The steps that were taken, in order.
    pub(crate) steps: Vec<StepTaken>,
    /// Whether the survey was interrupted.
    pub(crate) is_interrupted: bool,
    /// What was skipped or found wrong; the envelope has it in the JSON.
    pub(crate) warnings: &'a [Warning],
}

impl Survey<'_> {
    /// The sections that were not gathered, and why.
    pub(crate) fn missing(&self) -> Vec<(Section, &Missing)> {
        let all = [
            (Section::Mounts, self.mounts.missing()),
            (Section::Probe, self.file_systems.missing()),
            (Section::Walk, self.walking.missing()),
            (Section::Dump, self.dumping.missing()),
            (Section::Account, self.calls.missing()),
            (Section::Startup, self.starting.missing()),
            (Section::Gates, self.gates.missing()),
        ];
        all.into_iter()
            .filter_map(|(section, why)| Some((section, why?)))
            .collect()
    }

    /// Draws the findings and the advice from all else.
    pub(crate) fn concluded(mut self) -> Self {
        self.findings = conclude::findings(&self);
        self.advice = conclude::advice(&self);
        self
    }
}
