//! What a survey gathered, and what was concluded from it.

use std::collections::{BTreeMap, HashMap};

use account::command::CommandAccount;
use account::report::AccountReport;
use archive::nightly::Nightly;
use mounts::{LocateReport, Warning};
use ondisk::Dev;
use pathsearch::StartupReport;
use probe::ProbeReport;
use show::json;
use survey::bounded::{Bounded, StoppedEngine};
use survey::capacity::{Capacity, FileSystem, file_systems};
use survey::{Machine, Missing, Section, StepTaken, Unseen};
use walk::{DirectoryCount, Part};

use super::command::Commands;
use super::finding::Conclusion;
use crate::cmd::probe::show::Report;
use crate::cmd::walk::show::Comparison;
use crate::cmd::{mounts::compare::Compared as Methods, walk::compare::Compared as Engines};

pub(crate) struct Mounted {
    pub(crate) report: LocateReport,
    /// The directory is on a file system whose server might not respond.
    pub(crate) is_remote: bool,
    /// That server did not respond in time.
    pub(crate) is_silent: bool,
    /// Patterns of the mounts that walks skip: reading the attributes of a mount point asks the
    /// server of what is mounted there.
    pub(crate) excludes: Vec<String>,
}

/// What the experiments on a file system found.
pub(crate) struct Probed {
    pub(crate) dir: Vec<u8>,
    pub(crate) report: ProbeReport,
}

impl Probed {
    pub(crate) fn shown(&self) -> Report<'_> {
        Report {
            dir: Some(&self.dir),
            report: &self.report,
        }
    }
}

pub(crate) struct Walking {
    pub(crate) part: Part,
    /// What each engine costs; where a walk was stopped, on a part of the tree.
    pub(crate) engines: Engines,
    /// The entries of the directories with most entries, to a depth of 2, as far as a walk came.
    pub(crate) directories: Vec<DirectoryCount>,
    /// How far a walk came that was stopped.
    pub(crate) bounded: Option<Bounded>,
    /// Engines that were stopped in the comparison.
    pub(crate) stopped: Vec<StoppedEngine>,
}

impl Walking {
    pub(crate) fn comparison(&self) -> Comparison<'_> {
        Comparison::new(&self.engines.engines, &self.engines.left_out)
    }
}

#[derive(Default)]
pub(crate) struct Found {
    pub(crate) mounts: Option<Mounted>,
    pub(crate) methods: Option<Methods>,
    pub(crate) walking: Option<Walking>,
    pub(crate) dump: Option<Nightly>,
    pub(crate) account: Option<CommandAccount>,
    pub(crate) startup: Option<StartupReport>,
    /// The price of each system call.
    pub(crate) gates: Option<Probed>,
    /// A directory on each file system that is to be probed.
    pub(crate) to_probe: Vec<Vec<u8>>,
    pub(crate) file_systems: Vec<Probed>,
    /// Of each file system that stores files and answers.
    pub(crate) capacities: HashMap<Dev, Capacity>,
    pub(crate) warnings: Vec<Warning>,
    pub(crate) unseen: Vec<Unseen>,
    pub(crate) steps: Vec<StepTaken>,
    /// Bytes that were read and written: as the kernel or the experiments count them, whichever is
    /// more.
    pub(crate) charged: u64,
    /// Why sections were not gathered.
    pub(crate) missing: BTreeMap<Section, Missing>,
}

impl Found {
    /// The mounts, unless the server of the directory does not respond.
    pub(crate) fn responding(&self) -> Result<&Mounted, Missing> {
        match &self.mounts {
            None => Err(Missing::NoMounts),
            Some(mounted) if mounted.is_silent => Err(Missing::SilentServer),
            Some(mounted) => Ok(mounted),
        }
    }

    pub(crate) fn why_missing(&self, section: Section) -> &Missing {
        let otherwise = match section {
            Section::Probe => &Missing::NoDisk,
            _ => &Missing::Nothing,
        };
        self.missing.get(&section).unwrap_or(otherwise)
    }
}

pub(crate) struct Survey<'a> {
    /// The absolute name of the directory that was surveyed.
    pub(crate) root: &'a [u8],
    pub(crate) machine: &'a Machine,
    pub(crate) found: &'a Found,
    pub(crate) account: Option<AccountReport<'a>>,
    /// What matters most.
    pub(crate) findings: Vec<Conclusion<'a>>,
    /// What to do about it.
    pub(crate) advice: Vec<Conclusion<'a>>,
    pub(crate) is_interrupted: bool,
    /// What was skipped or found wrong; the envelope has it in the JSON.
    pub(crate) warnings: &'a [json::Warning],
}

impl<'a> Survey<'a> {
    pub(crate) fn commands(&self) -> Commands {
        let walking = self.found.walking.as_ref();
        let bounded = walking.and_then(|walking| walking.bounded.as_ref());
        Commands::new(self.root, bounded.and_then(|bounded| bounded.levels))
    }

    /// The file systems that store files, the worst and fullest first, and how many mounts are
    /// pseudo file systems.
    pub(crate) fn file_systems(&self) -> (Vec<FileSystem>, usize) {
        let mounts = self.found.mounts.as_ref();
        mounts.map_or_else(Default::default, |mounted| {
            file_systems(&mounted.report.points, &self.found.capacities)
        })
    }

    /// The sections that were not gathered, and why.
    pub(crate) fn missing(&self) -> Vec<(Section, &'a Missing)> {
        let found = self.found;
        let sections = [
            (Section::Mounts, found.mounts.is_none()),
            (Section::Probe, found.file_systems.is_empty()),
            (Section::Walk, found.walking.is_none()),
            (Section::Dump, found.dump.is_none()),
            (Section::Account, self.account.is_none()),
            (Section::Startup, found.startup.is_none()),
            (Section::Gates, found.gates.is_none()),
        ];
        let missing = sections.into_iter().filter(|(_, is_missing)| *is_missing);
        missing
            .map(|(section, _)| (section, found.why_missing(section)))
            .collect()
    }
}
