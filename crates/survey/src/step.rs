//! The steps of a survey, and how each ended.

use crate::section::Section;

base::named! {
    /// A step of a survey; the steps run in this order.
    StepKind {
        /// Reads the mount table, and checks the mounts.
        MountTable "mount table",
        /// Reads the capacity of each file system.
        Capacities "file-system sizes",
        /// Walks with each engine.
        Engines "walk with each engine",
        /// Reads the metadata that a dump needs.
        Dump "metadata for a dump",
        /// Compares the methods of finding mounts.
        Methods "methods to find mounts",
        /// Accounts for the system calls of a walk.
        Account "system calls of a walk",
        /// Starts programs, and traces their path searches.
        Starts "program starts",
        /// Measures the price of each system call.
        Prices "system-call prices",
        /// Probes each file system.
        Experiments "experiments on each file system",
    }
}

impl StepKind {
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

base::named! {
    /// The end state of a step.
    StepState {
        /// The step finished.
        Done "done",
        /// The step ran out of time or I/O, or was interrupted.
        Stopped "stopped",
        /// The step was not run.
        Skipped "skipped",
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
