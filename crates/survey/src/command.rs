//! The commands that a survey names; how they are typed is worded elsewhere.

use probe::Experiment;
use walk::EngineKind;

use crate::capacity::Capacity;
use crate::section::Section;

/// A command on the directory of the survey, or on another one where that is given.
#[derive(Clone, PartialEq, Debug)]
pub enum Command<'a> {
    /// List the mounts.
    Mounts,
    /// Check that each mount answers.
    CheckMounts,
    /// The mounts that do not answer, as patterns for other programs.
    ListExcludes,
    /// Check the servers of the network mounts.
    CheckServers,
    /// Compare the methods of finding mounts.
    CompareMethods,
    /// Probe a directory with these experiments.
    Probe(&'a [u8], Vec<Experiment>),
    /// Walk.
    Walk,
    /// What takes most of the space of a full file system, or of its inodes if they are used up.
    Largest(&'a [u8], Capacity),
    /// Walk by this engine.
    WalkBy(EngineKind),
    /// Walk, and write a catalog into this directory; into the working directory if it is empty.
    WriteCatalog(&'a [u8]),
    /// Compare the engines, on the part of the tree that the survey compared them on.
    CompareEngines,
    /// The same, as root.
    CompareEnginesAsRoot,
    /// Gather what a dump would, and account for it.
    GatherDump,
    /// Make a full dump, and a catalog for increments, in this directory; likewise.
    DumpInFull(&'a [u8]),
    /// Account for a walk with one call after the other.
    Account,
    /// Search the paths of the usual program.
    Start,
    /// Search the paths of this program.
    StartOf(&'static str),
    /// The same, with every directory that it searches.
    StartInDetail(&'static str),
    /// Measure the price of each system call.
    Prices,
    /// Gather a section that is missing.
    Gather(Section),
    /// Survey as root.
    SurveyAsRoot,
}
