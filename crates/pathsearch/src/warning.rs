//! Warnings of a search report.

use base::WarningReason;

use crate::request::ASSUMED_RTT;

/// Why a report is incomplete, or a prediction uncertain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WarningKind {
    /// Searches that do not fit into the table.
    #[error("{0} searches are not listed: the table of searches is full")]
    SearchesOmitted(u64),
    /// Lookups in directories that do not fit into the table.
    #[error("{0} lookups count in the totals only: the table of directories is full")]
    DirectoriesOmitted(u64),
    /// Lookups of names that do not fit into the table.
    #[error("{0} lookups are not in the prediction: the table of names is full")]
    NamesOmitted(u64),
    /// Descriptors and threads that could not be tracked.
    #[error(
        "{0} descriptors and threads were not tracked, so some relative names have no directory: \
         the table is full"
    )]
    Untracked(u64),
    /// Lookups whose names the meter of this name could not read.
    #[error("{0} lookups are not counted: {1} could not read their names")]
    Nameless(u64, &'static str),
    /// Calls that the meter with this name did not report individually.
    #[error("{0} calls are not counted: {1} did not report them")]
    Unrecorded(u64, &'static str),
    /// The round trip cannot be measured, because no lookup was on a network file system.
    #[error(
        "the command looked up no name on a network file system; a round trip of {} ms is assumed",
        1e3 * ASSUMED_RTT
    )]
    NothingRemote,
    /// PATH is not examined, because a server would have to be waited for.
    #[error(
        "a directory of PATH does not answer, so PATH is not examined; see fathom mounts --check"
    )]
    SilentPath,
    /// Measuring the round trip failed.
    #[error("cannot measure the round trip; {} ms is assumed", 1e3 * ASSUMED_RTT)]
    RttNotMeasured,
}

impl WarningReason for WarningKind {}
