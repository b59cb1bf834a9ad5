//! The results of the steps of a survey.

use std::collections::{BTreeMap, HashMap};

use account::command::CommandAccount;
use archive::nightly::Nightly;
use base::Warning;
use mounts::{LocateReport, Method, Point};
use ondisk::Dev;
use pathsearch::StartupReport;
use probe::ProbeReport;
use walk::{DirectoryCount, WalkedMount};

use crate::bounded::{LimitedWalk, StoppedEngine};
use crate::capacity::Capacity;
use crate::missing::{Missing, PrivilegedResult};
use crate::section::Section;
use crate::step::StepTaken;

/// The mounts, and whether the surveyed directory can be read without waiting for a server.
#[allow(missing_docs, reason = "the names say it")]
pub struct SurveyedMounts {
    pub report: LocateReport,
    /// The mount of the surveyed directory, unless the directory is itself a mount point.
    pub own: Option<Point>,
    /// Whether the surveyed directory is on a file system whose server may not respond.
    pub is_remote: bool,
    /// Whether the server of the surveyed directory did not respond in time.
    pub is_silent: bool,
    /// Exclude patterns for the mounts whose servers might not respond: even reading the attributes
    /// of such a mount point would contact the server.
    pub excludes: Vec<String>,
}

impl SurveyedMounts {
    /// The mount of the surveyed directory, and all mounts below.
    pub fn all(&self) -> Vec<&Point> {
        self.own.iter().chain(&self.report.points).collect()
    }
}

/// The costs of the methods to find mounts.
#[allow(missing_docs, reason = "the names say it")]
pub struct ComparedMethods {
    pub comparison: mounts::compare::Comparison,
    pub skipped: Option<SkippedMethods>,
}

/// Methods that read every directory, and were skipped because that could hang on a server.
pub struct SkippedMethods {
    /// The methods that were skipped.
    pub methods: Vec<Method>,
    /// The first mount whose server could hang.
    pub target: Vec<u8>,
    /// Number of further mounts whose servers could hang.
    pub others: usize,
    /// Whether a check found that the servers do not answer. `false` if their mounts were not
    /// checked (without `--network`).
    pub was_checked: bool,
}

/// The results of the experiments on a file system.
#[allow(missing_docs, reason = "the names say it")]
pub struct ProbedFileSystem {
    pub dir: Vec<u8>,
    pub report: ProbeReport,
}

/// The costs of a walk.
pub struct WalkCosts {
    /// The walked mount, and the engine that a walk would use.
    pub part: WalkedMount,
    /// The costs of each engine; if the walk was stopped, on a part of the tree.
    pub engines: walk::compare::Comparison,
    /// The directories with most entries, to a depth of 2, as far as the walk came.
    pub directories: Vec<DirectoryCount>,
    /// The progress of a walk that was stopped.
    pub bounded: Option<LimitedWalk>,
    /// Engines that were stopped in the comparison.
    pub stopped: Vec<StoppedEngine>,
}

/// The results of the steps; `None` or empty if a step was not completed.
#[derive(Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct SurveyResults {
    pub mounts: Option<SurveyedMounts>,
    pub methods: Option<ComparedMethods>,
    pub walking: Option<WalkCosts>,
    pub dump: Option<Nightly>,
    pub account: Option<CommandAccount>,
    pub startup: Option<StartupReport>,
    /// The price of each system call.
    pub gates: Option<ProbedFileSystem>,
    /// A directory on each file system to be probed.
    pub to_probe: Vec<Vec<u8>>,
    pub file_systems: Vec<ProbedFileSystem>,
    /// The capacities of the file systems that store files and answer.
    pub capacities: HashMap<Dev, Capacity>,
    pub warnings: Vec<Warning>,
    pub unseen: Vec<PrivilegedResult>,
    pub steps: Vec<StepTaken>,
    /// The bytes read and written, as counted by the kernel or by the experiments, whichever is
    /// more.
    pub charged: u64,
    /// The reasons why sections are missing.
    pub missing: BTreeMap<Section, Missing>,
}

impl SurveyResults {
    /// The mounts, if the server of the surveyed directory responds.
    ///
    /// # Errors
    /// The reason why the mounts are missing or unusable.
    pub fn responding(&self) -> Result<&SurveyedMounts, Missing> {
        match &self.mounts {
            None => Err(Missing::NoMounts),
            Some(mounted) if mounted.is_silent => Err(Missing::SilentServer),
            Some(mounted) => Ok(mounted),
        }
    }

    /// The reason why a section is missing.
    pub fn why_missing(&self, section: Section) -> &Missing {
        let otherwise = match section {
            Section::Probe => &Missing::NoDisk,
            _ => &Missing::Nothing,
        };
        self.missing.get(&section).unwrap_or(otherwise)
    }

    /// The depth to which the engines were compared; `None` if they read the whole tree.
    pub fn compared_levels(&self) -> Option<u32> {
        let bounded = self.walking.as_ref()?.bounded.as_ref()?;
        bounded.levels
    }
}
