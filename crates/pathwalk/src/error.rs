//! Why a part of the benchmark failed.

use gate::Errno;
use serde::{Deserialize, Serialize};

/// A failure of the benchmark. The ranks of an MPI job send it to each other, so it is plain data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{operation} '{}': {reason}", String::from_utf8_lossy(path))]
pub struct Error {
    /// The operation of the benchmark that failed.
    pub operation: Operation,
    /// The file or directory on which the operation failed.
    pub path: Vec<u8>,
    /// The reason of the failure.
    pub reason: Reason,
    /// The files left behind, if some had been created or removed before the failure.
    pub aftermath: Option<StateAfterFailure>,
}

/// An operation of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Operation {
    /// Creating ROOT.
    #[error("cannot create")]
    CreateRoot,
    /// Creating a directory or file below ROOT.
    #[error("cannot create")]
    Create,
    /// Opening a directory that was just created.
    #[error("cannot open")]
    Open,
    /// Opening every directory of the tree, for lookups relative to them.
    #[error("cannot open")]
    OpenAll,
    /// Searching the tree.
    #[error("cannot search")]
    Search,
    /// Starting a thread that searches.
    #[error("cannot start a thread")]
    StartThread,
    /// Finding a file where the benchmark has created it.
    #[error("cannot find")]
    Find,
    /// Searching beyond a directory that contains a file of the benchmark in the wrong place.
    #[error("cannot search past")]
    SearchPast,
    /// Removing the tree.
    #[error("cannot remove")]
    Remove,
}

/// The reason why an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Reason {
    /// A system call failed.
    #[error("{0}")]
    Errno(#[serde(with = "Number")] Errno),
    /// The user asked the process to stop.
    #[error("interrupted")]
    Interrupted,
    /// The file system has too few inodes.
    #[error("the tree needs {wanted} inodes, and the file system has {}{free} free", if *.is_estimate { "at most " } else { "" })]
    TooFewInodes {
        /// The number of inodes that the tree needs.
        wanted: u64,
        /// The number of free inodes.
        free: u64,
        /// The file system does not count inodes; `free` is an upper bound derived from its size.
        is_estimate: bool,
    },
    /// The paths of a tree of this many directories would take too much memory.
    #[error("the paths of {0} directories need more than 1 GiB of memory")]
    PathsTooLarge(u64),
    /// The process could not allocate the paths.
    #[error("memory allocation failed")]
    OutOfMemory,
    /// The file was missing during the search and exists now.
    #[error("it did not exist during the search, and exists now")]
    Appeared,
    /// The name exists in a directory in which the benchmark does not create it.
    #[error("the benchmark does not create a file of this name here")]
    Misplaced,
}

/// The state that a failure left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StateAfterFailure {
    /// Everything created was removed again.
    NothingLeft,
    /// Some created files could not be removed again.
    PartlyLeft,
    /// This many files were removed before the failure.
    FilesRemoved(u64),
}

impl Error {
    pub(crate) fn new(operation: Operation, path: &[u8], reason: impl Into<Reason>) -> Error {
        Error {
            operation,
            path: path.to_vec(),
            reason: reason.into(),
            aftermath: None,
        }
    }
}

impl From<Errno> for Reason {
    fn from(errno: Errno) -> Reason {
        Reason::Errno(errno)
    }
}

/// Serializes an [`Errno`] as its number.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Errno")]
struct Number(i32);
