//! Findings and advice as data.

use account::ledger::Sum;
use account::whatif::WhatIfChange;
use archive::nightly::Nightly;
use mounts::diagnosis::AnomalyKind;
use pathsearch::{Fix, ProgramStart, StartupReport};
use probe::{Finding, ProbeReport, Value};
use walk::EngineKind;
use walk::compare::Agreement;

use crate::bounded::{LimitedWalk, StoppedEngine};
use crate::capacity::Capacity;
use crate::command::Command;
use crate::missing::{Missing, PrivilegedResult};
use crate::section::Section;

/// A finding or a piece of advice, as data.
pub struct Conclusion<'a> {
    /// The content of the conclusion.
    pub statement: Statement<'a>,
    /// The section from which the conclusion is derived.
    pub section: Section,
    /// The importance relative to other conclusions.
    pub weight: u32,
    /// The command that prints details, or that is recommended.
    pub command: Command<'a>,
}

impl<'a> Conclusion<'a> {
    /// Creates a conclusion.
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

/// The content of a finding or of an advice.
#[allow(missing_docs, reason = "the names say it")]
pub enum Statement<'a> {
    /// Number of mounts, the number of unusual ones, and their paths by kind of anomaly.
    Mounts(usize, usize, Vec<(AnomalyKind, Vec<&'a [u8]>)>),
    /// File systems on which users have no space or no inodes left.
    Full(Vec<(&'a [u8], Capacity)>),
    /// The method that is used to find mounts, and the most expensive method.
    MountMethods(Cost, Cost),
    /// The properties of the first file system that was probed.
    FileSystem {
        report: &'a ProbeReport,
        dir: &'a [u8],
        memory: Option<u64>,
        /// Number of other file systems that were probed.
        others: usize,
    },
    KernelDisagrees {
        dir: &'a [u8],
        finding: &'a Finding,
        measured: &'a Value,
        stated: &'a Value,
    },
    /// The cost of a walk, and of a walk with one call at a time.
    Walk(Cost, Option<Cost>),
    /// A walk exceeds the survey's limits, so the engines were compared on a part of the tree.
    BoundedWalk {
        bounded: &'a LimitedWalk,
        cost: Option<Cost>,
        plain: Option<Cost>,
    },
    /// No engine finished: the engine that a walk would use, and the engine `stat`.
    StoppedWalk(&'a StoppedEngine, Option<&'a StoppedEngine>),
    /// The engines report different trees, for this reason.
    EnginesDiffer(Agreement),
    PathSearch(&'a StartupReport),
    /// The cost of a dump if nothing has changed.
    NightlyDump(&'a Nightly),
    /// The system call in which a walk spends most time, and its percentage.
    DearestCall(&'static str, Sum, f64),
    /// The price of statx(2) and of an empty call, in nanoseconds.
    StatxPrice {
        warm: f64,
        cold: Option<f64>,
        empty: Option<f64>,
    },

    /// Fix the mounts with this kind of anomaly.
    MendMounts(AnomalyKind, Vec<&'a [u8]>),
    /// Free space on full file systems.
    FreeSpace(Vec<(&'a [u8], Capacity)>),
    /// Check this many network mounts before a scan.
    CheckServers(usize),
    /// Keep a catalog, because a scan takes long.
    KeepCatalog(WalkTime<'a>),
    ChooseEngine {
        fastest: Cost,
        default: Cost,
    },
    /// Walk with fathom instead of a tool that makes one call at a time.
    ReplacePlainWalk {
        cost: Cost,
        plain: Cost,
        /// The walk that was stopped, if the engines were compared on a part of the tree only.
        bounded: Option<&'a LimitedWalk>,
    },
    /// Walk as root, because this engine needs it.
    WalkAsRoot(EngineKind, WalkTime<'a>),
    FixSearch(&'a ProgramStart, &'a Fix),
    DumpIncrements(&'a Nightly),
    /// Change the system calls of a program that walks.
    ChangeCalls(&'a WhatIfChange),
    SurveyAsRoot(&'a [PrivilegedResult]),
    Gather(Section, &'a Missing),
}

/// The cost of one method to find mounts, or of one engine.
#[derive(Clone)]
pub struct Cost {
    /// The name of the method or engine.
    pub name: &'static str,
    /// Number of mounts or entries found.
    pub found: u64,
    /// The median of the elapsed times, in milliseconds.
    pub ms: f64,
    /// Number of system calls.
    pub calls: u64,
}

/// The time of a walk, measured or estimated.
pub enum WalkTime<'a> {
    /// The measured time in milliseconds.
    Ms(f64),
    /// The walk was stopped; the time of a whole walk can be estimated.
    Bounded(&'a LimitedWalk),
    /// The engine was stopped in the comparison.
    Stopped(&'a StoppedEngine),
}

impl WalkTime<'_> {
    /// The seconds of a walk, measured or estimated; `None` if unknown.
    pub fn seconds(&self) -> Option<f64> {
        match self {
            WalkTime::Ms(ms) => Some(ms / 1e3),
            WalkTime::Bounded(bounded) => bounded.whole_seconds(),
            WalkTime::Stopped(stopped) => Some(stopped.estimate()?.2),
        }
    }
}
