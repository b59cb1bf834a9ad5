//! Why a part of the benchmark was not done.

use gate::Errno;
use serde::{Deserialize, Serialize};

/// A failure of the benchmark. The ranks of an MPI job send it to each other, so it is plain data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{operation} '{}': {reason}", String::from_utf8_lossy(path))]
pub struct Error {
    /// What failed.
    pub operation: Operation,
    /// The file or directory it failed on.
    pub path: Vec<u8>,
    /// How it failed.
    pub reason: Reason,
    /// What the failure left behind, where something had been created or removed before.
    pub aftermath: Option<Aftermath>,
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
    /// Opening a directory that was created just before.
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
    /// Finding a file where it should be.
    #[error("cannot find")]
    Find,
    /// Searching beyond a directory that holds a name it should not.
    #[error("cannot search past")]
    SearchPast,
    /// Removing the tree.
    #[error("cannot remove")]
    Remove,
}

/// How an operation failed.
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
        /// Inodes that the tree needs.
        wanted: u64,
        /// Inodes that are free.
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

/// What a failure left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Aftermath {
    /// Everything that had been created was removed again.
    NothingLeft,
    /// Some of what had been created could not be removed again.
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

/// Tells serde how to write an [`Errno`].
#[derive(Serialize, Deserialize)]
#[serde(remote = "Errno")]
struct Number(i32);
