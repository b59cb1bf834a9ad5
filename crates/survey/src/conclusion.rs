//! Findings and advice as data.

use account::ledger::Sum;
use account::whatif::WhatIfChange;
use archive::nightly::Nightly;
use mounts::diagnosis::AnomalyKind;
use pathsearch::{Fix, ProgramStart, StartupReport};
use probe::{Finding, ProbeReport, Value};
use walk::EngineKind;
use walk::compare::Agreement;

use crate::bounded::{Bounded, StoppedEngine};
use crate::capacity::Capacity;
use crate::command::Command;
use crate::missing::{Missing, Unseen};
use crate::section::Section;

/// A finding or a piece of advice.
pub struct Conclusion<'a> {
    /// What it says.
    pub statement: Statement<'a>,
    /// The section that it is drawn from.
    pub section: Section,
    /// How much it matters, against others.
    pub weight: u32,
    /// The command that shows more, or that is recommended.
    pub command: Command<'a>,
}

impl<'a> Conclusion<'a> {
    /// A conclusion from these parts.
    pub fn new(
        section: Section,
        weight: u32,
        command: Command<'a>,
        statement: Statement<'a>,
    ) -> Conclusion<'a> {
        Conclusion {
            statement,
            section,
            weight,
            command,
        }
    }
}

/// Something worth knowing, or worth doing.
#[allow(missing_docs, reason = "the names say it")]
pub enum Statement<'a> {
    /// How many mounts there are, how many are unusual, and which of them.
    Mounts(usize, usize, Vec<(AnomalyKind, Vec<&'a [u8]>)>),
    /// File systems on which users have no space or no inodes left.
    Full(Vec<(&'a [u8], Capacity)>),
    /// The method that finds the mounts, and the most expensive one.
    MountMethods(Cost, Cost),
    /// The properties of the first file system that was probed.
    FileSystem {
        report: &'a ProbeReport,
        dir: &'a [u8],
        memory: Option<u64>,
        /// How many other file systems were probed.
        others: usize,
    },
    KernelDisagrees {
        dir: &'a [u8],
        finding: &'a Finding,
        measured: &'a Value,
        stated: &'a Value,
    },
    /// The cost of a walk, and of a walk one call after the other.
    Walk(Cost, Option<Cost>),
    /// A walk needs more than a survey may use; the engines walked a part.
    BoundedWalk {
        bounded: &'a Bounded,
        cost: Option<Cost>,
        plain: Option<Cost>,
    },
    /// No engine finished: the one that a walk would take, and the one call after the other.
    StoppedWalk(&'a StoppedEngine, Option<&'a StoppedEngine>),
    /// The engines report different trees, and why.
    EnginesDiffer(Agreement),
    PathSearch(&'a StartupReport),
    /// The cost of a dump when nothing has changed.
    NightlyDump(&'a Nightly),
    /// The system call in which a walk spends most time, and its share of that.
    DearestCall(&'static str, Sum, f64),
    /// The price of statx(2), and of an empty call, in nanoseconds.
    StatxPrice {
        warm: f64,
        cold: Option<f64>,
        empty: Option<f64>,
    },

    /// Do something about the mounts of a kind.
    MendMounts(AnomalyKind, Vec<&'a [u8]>),
    /// Make room on full file systems.
    FreeSpace(Vec<(&'a [u8], Capacity)>),
    /// Check so many network mounts before scans.
    CheckServers(usize),
    /// Keep a catalog: a scan takes long.
    KeepCatalog(Effort<'a>),
    ChooseEngine {
        fastest: Cost,
        default: Cost,
    },
    /// Have fathom walk instead of a tool that makes one call after the other.
    ReplacePlainWalk {
        cost: Cost,
        plain: Cost,
        /// A walk of all was stopped, and the engines walked a part.
        bounded: Option<&'a Bounded>,
    },
    /// Walk as root: this engine needs it.
    WalkAsRoot(EngineKind, Effort<'a>),
    FixSearch(&'a ProgramStart, &'a Fix),
    DumpIncrements(&'a Nightly),
    /// Change the calls of a program that walks.
    ChangeCalls(&'a WhatIfChange),
    SurveyAsRoot(&'a [Unseen]),
    Gather(Section, &'a Missing),
}

/// The cost of one way to find mounts or to walk.
#[derive(Clone)]
pub struct Cost {
    /// The method or the engine.
    pub name: &'static str,
    /// Mounts or entries that it found.
    pub found: u64,
    /// The median of its elapsed times.
    pub ms: f64,
    /// Its system calls.
    pub calls: u64,
}

/// What a walk takes, as far as it is known.
pub enum Effort<'a> {
    /// It was measured, in milliseconds.
    Ms(f64),
    /// It was stopped, and what that allows to estimate.
    Bounded(&'a Bounded),
    /// The engine was stopped in the comparison.
    Stopped(&'a StoppedEngine),
}

impl Effort<'_> {
    /// The seconds that a walk takes, measured or estimated.
    pub fn seconds(&self) -> Option<f64> {
        match self {
            Effort::Ms(ms) => Some(ms / 1e3),
            Effort::Bounded(bounded) => bounded.whole_seconds(),
            Effort::Stopped(stopped) => Some(stopped.estimate()?.2),
        }
    }
}
