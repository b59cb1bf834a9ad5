//! A survey: its results and conclusions.

use account::report::AccountReport;
use base::Warning;

use crate::capacity::{Capacity, FileSystem, file_systems, full};
use crate::conclusion::Conclusion;
use crate::found::SurveyResults;
use crate::machine::Machine;
use crate::missing::Missing;
use crate::section::Section;

/// A survey of a directory and its machine.
#[allow(missing_docs, reason = "the names say it")]
pub struct Survey<'a> {
    /// The absolute path of the surveyed directory.
    pub root: &'a [u8],
    pub machine: &'a Machine,
    pub found: &'a SurveyResults,
    pub account: Option<AccountReport<'a>>,
    /// The findings, the most important first.
    pub findings: Vec<Conclusion<'a>>,
    /// The advice, the most important first.
    pub advice: Vec<Conclusion<'a>>,
    pub is_interrupted: bool,
    /// Warnings about skipped parts and problems.
    pub warnings: &'a [Warning],
}

impl<'a> Survey<'a> {
    /// The file systems that store files, the worst state and fullest first, and the number of
    /// mounts of pseudo file systems.
    pub fn file_systems(&self) -> (Vec<FileSystem>, usize) {
        let mounts = self.found.mounts.as_ref();
        mounts.map_or_else(Default::default, |mounted| {
            file_systems(&mounted.all(), &self.found.capacities)
        })
    }

    /// The full file systems with their mount points.
    pub fn full(&self) -> Vec<(&'a [u8], Capacity)> {
        let (mounts, capacities) = (self.found.mounts.as_ref(), &self.found.capacities);
        mounts.map_or_else(Vec::new, |mounted| full(&mounted.all(), capacities))
    }

    /// The missing sections, with the reasons.
    pub fn missing(&self) -> Vec<(Section, &'a Missing)> {
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
