//! What a search report warns of.

use mounts::WarningReason;

use crate::request::ASSUMED_RTT;

/// Why a report is incomplete, or a prediction uncertain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WarningKind {
    /// Searches that do not fit into the table.
    #[error("{0} searches are not listed one by one: there is no room for so many")]
    SearchesOmitted(u64),
    /// Look-ups in directories that do not fit into the table.
    #[error("{0} look-ups are in the totals and in no directory: there is no room for so many")]
    DirectoriesOmitted(u64),
    /// Look-ups of names that do not fit into the table.
    #[error("{0} look-ups are not in the prediction: there is no room for so many")]
    NamesOmitted(u64),
    /// Descriptors and threads that could not be followed.
    #[error(
        "{0} descriptors and threads were not followed, and names may lack their beginning: \
         there is no room for so many"
    )]
    Untracked(u64),
    /// Look-ups whose names the meter could not read.
    #[error("{0} look-ups are not counted: the meter could not read their names")]
    Nameless(u64),
    /// Calls that the meter did not report one by one.
    #[error("{0} calls are not counted: the meter did not tell of them")]
    Unrecorded(u64),
    /// The round trip cannot be measured, because no look-up was on a network file system.
    #[error(
        "nothing that the command looked up is on a network file system: a round trip of {} ms is \
         assumed",
        1e3 * ASSUMED_RTT
    )]
    NothingRemote,
    /// Measuring the round trip failed.
    #[error("cannot measure a round trip here: {} ms is assumed", 1e3 * ASSUMED_RTT)]
    RttNotMeasured,
}

impl WarningReason for WarningKind {}
