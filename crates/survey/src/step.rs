//! The steps of a survey, and how each ended.

use crate::section::Section;

/// A step of a survey; they are taken in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepKind {
    /// Reads the mount table, and checks the mounts.
    MountTable,
    /// Asks each file system for its capacity.
    Capacities,
    /// Walks with each engine.
    Engines,
    /// Gathers the metadata that a dump needs.
    Dump,
    /// Compares the methods to find mounts.
    Methods,
    /// Accounts for the system calls of a walk.
    Account,
    /// Starts programs, and traces their path searches.
    Starts,
    /// Measures the price of each system call.
    Prices,
    /// Probes each file system.
    Experiments,
}

impl StepKind {
    /// Its name on the progress line and in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            StepKind::MountTable => "mount table",
            StepKind::Capacities => "file-system sizes",
            StepKind::Engines => "walk with each engine",
            StepKind::Dump => "metadata for a dump",
            StepKind::Methods => "methods to find mounts",
            StepKind::Account => "system calls of a walk",
            StepKind::Starts => "program starts",
            StepKind::Prices => "system-call prices",
            StepKind::Experiments => "experiments on each file system",
        }
    }

    /// How many steps there are.
    pub const COUNT: usize = StepKind::Experiments as usize + 1;

    /// Its number in the order in which they are taken, from 1.
    pub fn number(self) -> usize {
        self as usize + 1
    }

    /// The section of the survey that it is for.
    pub fn section(self) -> Section {
        match self {
            StepKind::MountTable | StepKind::Capacities | StepKind::Methods => Section::Mounts,
            StepKind::Engines => Section::Walk,
            StepKind::Dump => Section::Dump,
            StepKind::Account => Section::Account,
            StepKind::Starts => Section::Startup,
            StepKind::Prices => Section::Gates,
            StepKind::Experiments => Section::Probe,
        }
    }
}

/// How a step of the survey ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepState {
    /// It finished.
    Done,
    /// It was out of time or I/O, or was interrupted.
    Stopped,
    /// It was not taken.
    Skipped,
}

impl StepState {
    /// Its name in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            StepState::Done => "done",
            StepState::Stopped => "stopped",
            StepState::Skipped => "skipped",
        }
    }
}

/// A step of the survey.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct StepTaken {
    /// Its name, as the progress line has it: `walk with each engine`.
    pub name: &'static str,
    pub section: Section,
    pub state: StepState,
    pub seconds: f64,
    /// Bytes that it read from disks.
    pub bytes_read: u64,
    /// Bytes that it wrote to temporary files.
    pub bytes_written: u64,
}
