//! The steps of a survey, and how each ended.

use crate::section::Section;

/// A step of a survey; the steps run in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepKind {
    /// Reads the mount table, and checks the mounts.
    MountTable,
    /// Reads the capacity of each file system.
    Capacities,
    /// Walks with each engine.
    Engines,
    /// Reads the metadata that a dump needs.
    Dump,
    /// Compares the methods of finding mounts.
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
    /// The name of the step on the progress line and in the JSON.
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

    /// Number of steps.
    pub const COUNT: usize = StepKind::Experiments as usize + 1;

    /// Number of the step in the order of execution, from 1.
    pub fn number(self) -> usize {
        self as usize + 1
    }

    /// The section to which the step contributes.
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

/// The end state of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepState {
    /// The step finished.
    Done,
    /// The step ran out of time or I/O, or was interrupted.
    Stopped,
    /// The step was not run.
    Skipped,
}

impl StepState {
    /// The name of the state in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            StepState::Done => "done",
            StepState::Stopped => "stopped",
            StepState::Skipped => "skipped",
        }
    }
}

/// A step that was run or skipped, and its resources.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct StepTaken {
    /// The name on the progress line: `walk with each engine`.
    pub name: &'static str,
    pub section: Section,
    pub state: StepState,
    pub seconds: f64,
    /// The bytes read from disks.
    pub bytes_read: u64,
    /// The bytes written to temporary files.
    pub bytes_written: u64,
}
