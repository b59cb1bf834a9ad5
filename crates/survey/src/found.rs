//! What the steps of a survey gathered.

use std::collections::{BTreeMap, HashMap};

use account::command::CommandAccount;
use archive::nightly::Nightly;
use base::Warning;
use mounts::{LocateReport, Method, Point};
use ondisk::Dev;
use pathsearch::StartupReport;
use probe::ProbeReport;
use walk::{DirectoryCount, Part};

use crate::bounded::{Bounded, StoppedEngine};
use crate::capacity::Capacity;
use crate::missing::{Missing, Unseen};
use crate::section::Section;
use crate::step::StepTaken;

/// The mounts, and whether the directory can be read without waiting for a server.
#[allow(missing_docs, reason = "the names say it")]
pub struct Mounted {
    pub report: LocateReport,
    /// The mount that the directory is on, where it is not itself a mount point.
    pub own: Option<Point>,
    /// The directory is on a file system whose server might not respond.
    pub is_remote: bool,
    /// That server did not respond in time.
    pub is_silent: bool,
    /// Patterns of the mounts that walks skip: reading the attributes of a mount point asks the
    /// server of what is mounted there.
    pub excludes: Vec<String>,
}

impl Mounted {
    /// The mount that the directory is on, and those at or under it.
    pub fn all(&self) -> Vec<&Point> {
        self.own.iter().chain(&self.report.points).collect()
    }
}

/// What the methods of finding mounts cost.
#[allow(missing_docs, reason = "the names say it")]
pub struct ComparedMethods {
    pub comparison: mounts::compare::Comparison,
    pub skipped: Option<SkippedMethods>,
}

/// Methods that search every directory, and were skipped so that they do not wait for servers.
pub struct SkippedMethods {
    /// The methods.
    pub methods: Vec<Method>,
    /// The first mount whose server they would wait for.
    pub target: Vec<u8>,
    /// How many other such mounts there are.
    pub others: usize,
    /// Network mounts were checked, and those did not answer; else they were not asked.
    pub was_checked: bool,
}

/// What the experiments on a file system found.
#[allow(missing_docs, reason = "the names say it")]
pub struct Probed {
    pub dir: Vec<u8>,
    pub report: ProbeReport,
}

/// What a walk costs.
pub struct Walking {
    /// The mount that is walked, and the engine that a walk would take.
    pub part: Part,
    /// What each engine costs; where a walk was stopped, on a part of the tree.
    pub engines: walk::compare::Comparison,
    /// The entries of the directories with most entries, to a depth of 2, as far as a walk came.
    pub directories: Vec<DirectoryCount>,
    /// How far a walk came that was stopped.
    pub bounded: Option<Bounded>,
    /// Engines that were stopped in the comparison.
    pub stopped: Vec<StoppedEngine>,
}

/// What the steps gathered; `None` or empty where they did not come to it.
#[derive(Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Found {
    pub mounts: Option<Mounted>,
    pub methods: Option<ComparedMethods>,
    pub walking: Option<Walking>,
    pub dump: Option<Nightly>,
    pub account: Option<CommandAccount>,
    pub startup: Option<StartupReport>,
    /// The price of each system call.
    pub gates: Option<Probed>,
    /// A directory on each file system that is to be probed.
    pub to_probe: Vec<Vec<u8>>,
    pub file_systems: Vec<Probed>,
    /// Of each file system that stores files and answers.
    pub capacities: HashMap<Dev, Capacity>,
    pub warnings: Vec<Warning>,
    pub unseen: Vec<Unseen>,
    pub steps: Vec<StepTaken>,
    /// Bytes that were read and written: as the kernel or the experiments count them, whichever is
    /// more.
    pub charged: u64,
    /// Why sections were not gathered.
    pub missing: BTreeMap<Section, Missing>,
}

impl Found {
    /// The mounts, unless the server of the directory does not respond.
    ///
    /// # Errors
    /// Why there are none.
    pub fn responding(&self) -> Result<&Mounted, Missing> {
        match &self.mounts {
            None => Err(Missing::NoMounts),
            Some(mounted) if mounted.is_silent => Err(Missing::SilentServer),
            Some(mounted) => Ok(mounted),
        }
    }

    /// Why a section was not gathered.
    pub fn why_missing(&self, section: Section) -> &Missing {
        let otherwise = match section {
            Section::Probe => &Missing::NoDisk,
            _ => &Missing::Nothing,
        };
        self.missing.get(&section).unwrap_or(otherwise)
    }

    /// Levels of the tree on which the engines were compared, if not on all.
    pub fn compared_levels(&self) -> Option<u32> {
        let bounded = self.walking.as_ref()?.bounded.as_ref()?;
        bounded.levels
    }
}
