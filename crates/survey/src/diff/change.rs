//! The changes between two surveys.

use serde_json::Value;

use crate::section::Section;

/// What a change means.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verdict {
    /// It costs more, is gone, or no longer works.
    Worse,
    /// It costs less, or works now.
    Better,
    /// It is different, and neither better nor worse.
    Other,
    /// The times differ by no more than their trials do.
    Noise,
}

impl Verdict {
    /// Its name in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Worse => "worse",
            Verdict::Better => "better",
            Verdict::Other => "other",
            Verdict::Noise => "noise",
        }
    }
}

/// What has changed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum What {
    // The machine.
    Directory,
    Host,
    Kernel,
    Arch,
    Cpus,
    Memory,
    Root,
    Deep,
    Version,
    // A mount.
    Mount,
    Source,
    Fstype,
    Fsroot,
    Kind,
    Hidden,
    Responds,
    Options,
    // A method of finding mounts.
    MethodTime,
    MethodCalls,
    MethodRuns,
    // A file system; results of experiments have a unit.
    FileSystemType,
    Measured(Unit),
    StatedByKernel(Unit),
    // A walk by an engine.
    ChosenEngine,
    EngineTime,
    EngineCalls,
    EngineRuns,
    // A dump.
    DumpGather,
    DumpCalls,
    // The price of a system call; `state` is `warm` or `cold`.
    Price {
        target: String,
        state: String,
        threads: u64,
    },
    // The start of programs.
    PathElement,
    PathFileSystem,
    Misses,
    Lookups,
}

impl What {
    /// The section that it belongs to.
    pub fn section(&self) -> Section {
        use What::*;
        match self {
            Directory | Host | Kernel | Arch | Cpus | Memory | Root | Deep | Version => {
                Section::Machine
            }
            Mount | Source | Fstype | Fsroot | Kind | Hidden | Responds | Options | MethodTime
            | MethodCalls | MethodRuns => Section::Mounts,
            FileSystemType | Measured(_) | StatedByKernel(_) => Section::Probe,
            ChosenEngine | EngineTime | EngineCalls | EngineRuns => Section::Walk,
            DumpGather | DumpCalls => Section::Dump,
            Price { .. } => Section::Gates,
            PathElement | PathFileSystem | Misses | Lookups => Section::Startup,
        }
    }

    /// The unit of its values.
    pub fn unit(&self) -> Unit {
        use What::*;
        match self {
            Memory => Unit::Bytes,
            Measured(unit) | StatedByKernel(unit) => *unit,
            MethodTime | EngineTime => Unit::Seconds,
            Price { .. } => Unit::Nanoseconds,
            MethodCalls | EngineCalls | DumpCalls | Misses | Lookups => Unit::Calls,
            _ => Unit::None,
        }
    }
}

/// The unit of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Unit {
    None,
    Seconds,
    Nanoseconds,
    Bytes,
    Calls,
}

impl Unit {
    /// Its symbol in the JSON.
    pub fn symbol(self) -> &'static str {
        match self {
            Unit::None => "",
            Unit::Seconds => "s",
            Unit::Nanoseconds => "ns",
            Unit::Bytes => "bytes",
            Unit::Calls => "calls",
        }
    }
}

/// A change between two surveys.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    /// What has changed.
    pub what: What,
    /// The mount point or directory that it is about.
    pub path: Option<Vec<u8>>,
    /// The name of the method, engine, experiment, system call or command that it is about.
    pub name: String,
    /// The old value: a scalar of the document, or null.
    pub old: Value,
    /// The new value.
    pub new: Value,
    /// The new value divided by the old one.
    pub ratio: Option<f64>,
    /// What the change means.
    pub verdict: Verdict,
}

/// Why a section could not be compared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WhyUncompared {
    /// The surveys are of different directories.
    DifferentDirectories,
    /// Neither survey has the section.
    InNeither,
    /// The old survey does not have it.
    NotInOld,
    /// The new survey does not have it.
    NotInNew,
    /// The new survey has no experiments in a directory.
    NoExperiments(Vec<u8>),
    /// The engines walked different numbers of levels of the tree.
    DifferentLevels,
}

/// What differs between two surveys.
#[derive(Clone, Debug, Default)]
pub struct Diff {
    /// The changes, the worst verdict first.
    pub changes: Vec<Change>,
    /// Sections that could not be compared.
    pub uncompared: Vec<(Section, WhyUncompared)>,
    /// The number of figures and facts that were compared.
    pub compared: u64,
}

impl Diff {
    /// The changes with a verdict.
    pub fn with(&self, verdict: Verdict) -> impl Iterator<Item = &Change> {
        let changes = self.changes.iter();
        changes.filter(move |change| change.verdict == verdict)
    }
}
