//! The sections of a survey.

/// A section of a survey.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Section {
    /// Mount points, and the cost of each way to find them.
    Mounts,
    /// Experiments on each file system.
    Probe,
    /// The cost of a walk by each engine.
    Walk,
    /// The cost of a dump.
    Dump,
    /// The system calls of a walk.
    Account,
    /// The cost of starting programs.
    Startup,
    /// The price of each system call.
    Gates,
    /// The steps of the survey itself.
    Steps,
}

impl Section {
    /// The name of the section in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Section::Mounts => "mounts",
            Section::Probe => "probe",
            Section::Walk => "walk",
            Section::Dump => "dump",
            Section::Account => "account",
            Section::Startup => "startup",
            Section::Gates => "gates",
            Section::Steps => "steps",
        }
    }
}
