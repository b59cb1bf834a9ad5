//! A change between two surveys.

use serde_json::Number;

use crate::saved::Quantity;
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
pub enum Subject {
    /// A fact about the machine.
    Machine(MachineFact),
    /// A fact about a mount point.
    Mount {
        /// The mount point.
        target: Option<Vec<u8>>,
        /// The fact.
        fact: MountFact,
    },
    /// The time of one way to find the mounts.
    MethodTime(String),
    /// Its system calls.
    MethodCalls(String),
    /// Whether it could be run.
    MethodRuns(String),
    /// The type of the file system at a directory.
    FileSystemType(Option<Vec<u8>>),
    /// The result of an experiment.
    Experiment {
        /// The directory.
        dir: Option<Vec<u8>>,
        /// The name of the result.
        name: String,
        /// Whether the kernel states it, or it was measured.
        stated_by_kernel: bool,
        /// The unit of the result.
        unit: Unit,
    },
    /// The engine that a walk uses.
    ChosenEngine,
    /// The time that an engine takes per entry.
    EngineTime(String),
    /// The system calls that it makes per entry.
    EngineCalls(String),
    /// Whether it could be run.
    EngineRuns(String),
    /// How a dump gathers metadata.
    DumpGather,
    /// The system calls per entry that is gathered.
    DumpCalls,
    /// The price of a system call.
    Price {
        /// The call.
        gate: String,
        /// Its argument.
        what: String,
        /// `warm` or `cold`.
        state: String,
        /// Threads that make it at the same time.
        threads: u64,
    },
    /// A directory of PATH.
    PathElement(Option<Vec<u8>>),
    /// The file system of a directory of PATH.
    PathFileSystem(Option<Vec<u8>>),
    /// The failed lookups of a command's start.
    Misses(String),
    /// All its lookups.
    Lookups(String),
}

impl Subject {
    /// The section that it belongs to.
    pub fn section(&self) -> Section {
        use Subject::*;
        match self {
            Machine(_) => Section::Machine,
            Mount { .. } | MethodTime(_) | MethodCalls(_) | MethodRuns(_) => Section::Mounts,
            FileSystemType(_) | Experiment { .. } => Section::Probe,
            ChosenEngine | EngineTime(_) | EngineCalls(_) | EngineRuns(_) => Section::Walk,
            DumpGather | DumpCalls => Section::Dump,
            Price { .. } => Section::Gates,
            PathElement(_) | PathFileSystem(_) | Misses(_) | Lookups(_) => Section::Startup,
        }
    }

    /// The unit of its values.
    pub fn unit(&self) -> Unit {
        use Subject::*;
        match self {
            Machine(MachineFact::Memory) => Unit::Bytes,
            Experiment { unit, .. } => *unit,
            MethodTime(_) | EngineTime(_) => Unit::Seconds,
            Price { .. } => Unit::Nanoseconds,
            MethodCalls(_) | EngineCalls(_) | DumpCalls | Misses(_) | Lookups(_) => Unit::Calls,
            _ => Unit::None,
        }
    }

    /// The mount point or directory that it is about.
    pub fn path(&self) -> Option<&[u8]> {
        use Subject::*;
        match self {
            Mount { target: path, .. }
            | FileSystemType(path)
            | Experiment { dir: path, .. }
            | PathElement(path)
            | PathFileSystem(path) => path.as_deref(),
            _ => None,
        }
    }
}

/// A fact about the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MachineFact {
    /// The directory that was surveyed.
    Directory,
    /// The host name.
    Host,
    /// The kernel's release.
    Kernel,
    /// The architecture.
    Arch,
    /// The number of processors.
    Cpus,
    /// Bytes of memory.
    Memory,
    /// Whether root took the survey.
    Root,
    /// Whether the survey was a deep one.
    Deep,
    /// The version of fathom.
    Version,
}

/// A fact about a mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MountFact {
    /// Whether it is mounted.
    Presence,
    /// Its source.
    Source,
    /// Its type.
    Fstype,
    /// The part of the file system that it shows.
    Fsroot,
    /// Whether it is mounted on a directory or a file.
    Kind,
    /// Whether another mount hides it.
    Hidden,
    /// Whether it responds.
    Verdict,
    /// Its options: those removed, and those added.
    Options,
}

/// A value before or after the change.
#[derive(Clone, PartialEq, Debug)]
pub enum Fact {
    /// Text of the document.
    Text(String),
    /// A number.
    Number(Number),
    /// Yes or no.
    Flag(bool),
    /// A mount.
    Mount {
        /// Its source.
        source: String,
        /// Its type.
        fstype: String,
    },
    /// Mount options.
    Options(Vec<String>),
    /// An engine or a method could be run.
    Compared,
}

impl From<&str> for Fact {
    fn from(text: &str) -> Fact {
        Fact::Text(text.to_owned())
    }
}

impl From<&Quantity> for Fact {
    fn from(quantity: &Quantity) -> Fact {
        match quantity {
            Quantity::Number(number) => Fact::Number(number.clone()),
            Quantity::Text(text) => Fact::Text(text.clone()),
        }
    }
}

/// The old value and the new one.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Values {
    pub(super) old: Option<Fact>,
    pub(super) new: Option<Fact>,
}

impl Values {
    pub(super) fn of_text(old: &Option<String>, new: &Option<String>) -> Values {
        let fact = |text: &Option<String>| text.as_deref().map(Fact::from);
        Values {
            old: fact(old),
            new: fact(new),
        }
    }

    pub(super) fn of_flag(old: Option<bool>, new: Option<bool>) -> Values {
        Values {
            old: old.map(Fact::Flag),
            new: new.map(Fact::Flag),
        }
    }

    pub(super) fn of_number(old: &Option<Number>, new: &Option<Number>) -> Values {
        let fact = |number: &Option<Number>| number.clone().map(Fact::Number);
        Values {
            old: fact(old),
            new: fact(new),
        }
    }

    pub(super) fn of_figures(old: f64, new: f64) -> Values {
        let fact = |figure| Number::from_f64(figure).map(Fact::Number);
        Values {
            old: fact(old),
            new: fact(new),
        }
    }

    /// Whether both surveys have the value.
    pub(super) fn are_known(&self) -> bool {
        self.old.is_some() && self.new.is_some()
    }
}

/// The unit of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// The values are not counted.
    None,
    /// Seconds.
    Seconds,
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes.
    Bytes,
    /// System calls.
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
    pub subject: Subject,
    /// The old value, if there was one.
    pub old: Option<Fact>,
    /// The new value, if there is one.
    pub new: Option<Fact>,
    /// The new value divided by the old one.
    pub ratio: Option<f64>,
    /// What the change means.
    pub verdict: Verdict,
}

/// A section that could not be compared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Uncompared {
    /// The section.
    pub section: Section,
    /// Why not.
    pub why: WhyUncompared,
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
