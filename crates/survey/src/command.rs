//! The commands that a survey recommends.

use crate::section::Section;

/// A command on the directory that was surveyed, or on another one where that is given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// List the mounts.
    Mounts,
    /// Check which mounts respond.
    CheckMounts,
    /// Check them, and list the others in a form that backup tools take.
    ListExcludes,
    /// Check them, with the machines behind them.
    CheckServers,
    /// List where the file system changes, also where no mount is.
    ListBoundaries,
    /// Compare the ways to find the mounts.
    CompareMethods,
    /// Probe a directory with these experiments.
    Probe(Vec<u8>, String),
    /// Find out how much the page cache holds.
    FillCache,
    /// Walk.
    Walk,
    /// Walk by this engine.
    WalkBy(&'static str),
    /// Walk and write a catalog.
    WriteCatalog,
    /// Compare the engines, on the part of the tree that the survey compared them on.
    CompareEngines,
    /// The same as root.
    CompareEnginesAsRoot,
    /// Gather what a dump would, and account for it.
    GatherDump,
    /// Dump everything, with a catalog.
    DumpInFull,
    /// Account for the calls of a walk.
    Account,
    /// Search the paths of the usual program.
    Start,
    /// Search the paths of this program.
    StartOf(&'static str),
    /// The same, with every directory that it searches.
    StartInDetail(&'static str),
    /// Price each system call.
    Prices,
    /// What gathers a section alone.
    Gather(Section),
    /// Take the survey as root.
    SurveyAsRoot,
    /// Take the survey and save it.
    SaveSurvey,
}
