//! The commands that a survey recommends, as data; the crate `cli` formats them.

use probe::Experiment;
use walk::EngineKind;

use crate::capacity::Capacity;
use crate::section::Section;

/// A command that a survey recommends, for the surveyed directory unless the variant contains a
/// directory.
#[derive(Clone, PartialEq, Debug)]
pub enum Command<'a> {
    /// List the mounts.
    Mounts,
    /// Check that each mount answers.
    CheckMounts,
    /// List the mounts that do not answer, as exclude patterns for backup programs.
    ListExcludes,
    /// Check the servers of the network mounts.
    CheckServers,
    /// Compare the methods of finding mounts.
    CompareMethods,
    /// Probe a directory with these experiments.
    Probe(&'a [u8], Vec<Experiment>),
    /// Walk the surveyed directory.
    Walk,
    /// List the directories with most space on a full file system, or with most inodes if these are
    /// used up.
    Largest(&'a [u8], Capacity),
    /// Walk with this engine.
    WalkBy(EngineKind),
    /// Walk, and write a catalog into this directory; an empty path is the working directory.
    WriteCatalog(&'a [u8]),
    /// Compare the engines, on the same part of the tree as the survey did.
    CompareEngines,
    /// Compare the engines as root.
    CompareEnginesAsRoot,
    /// Read the metadata for a dump, and account for the calls.
    GatherDump,
    /// Write a full dump, and a catalog for increments, into this directory; an empty path is the
    /// working directory.
    DumpInFull(&'a [u8]),
    /// Account for the calls of a walk with one call at a time.
    Account,
    /// Trace the path searches of `env true`, whose start the survey measures.
    Start,
    /// Trace the path searches of this program.
    StartOf(&'static str),
    /// Trace the path searches of this program, and list every directory.
    StartInDetail(&'static str),
    /// Measure the price of each system call.
    Prices,
    /// Measure a section that is missing.
    Gather(Section),
    /// Survey as root.
    SurveyAsRoot,
}
