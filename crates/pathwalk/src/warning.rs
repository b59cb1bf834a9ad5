//! What the benchmark warns of.

use base::{Warning, WarningReason};
use serde::{Deserialize, Serialize};

/// Why a warning was given. The ranks of an MPI job send it to each other, so it is plain data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum WarningKind {
    /// The caches were not dropped: the process is in no memory cgroup that could.
    #[error("cannot drop caches: this process is in no memory cgroup below the root")]
    NoCgroup,
    /// The kernel refused to drop what the memory cgroup of this process has cached.
    #[error("cannot drop the caches of this process's memory cgroup")]
    CgroupNotDropped,
    /// The kernel refused to drop the caches of the host.
    #[error("cannot drop the caches of the host")]
    HostNotDropped,
    /// Look-ups failed, and not because the name does not exist.
    #[error(
        "{lookups} lookups failed with an error other than ENOENT and ENOTDIR; they are not counted as failed lookups"
    )]
    LookupsFailed {
        /// How many.
        lookups: u64,
    },
    /// The tree has fewer directories than were searched.
    #[error("{missing} of {length} directories do not exist, which makes the search cheaper")]
    DirectoriesMissing {
        /// Directories that do not exist.
        missing: u64,
        /// Directories that were searched.
        length: u64,
    },
    /// The tree had fewer objects than its shape says.
    #[error("{missing} of {objects} objects did not exist")]
    ObjectsMissing {
        /// Objects that did not exist.
        missing: u64,
        /// Objects of a tree of this shape.
        objects: u64,
        /// Directories of the tree.
        length: u64,
        /// Files in each of them.
        files: u64,
    },
    /// A directory was kept, because it has entries that the benchmark did not create.
    #[error(
        "not removed: {} not part of a tree of {length} directories of {files} files",
        foreign_entries(*entries, example.as_deref())
    )]
    ForeignEntries {
        /// How many.
        entries: u64,
        /// The name of one of them.
        example: Option<Vec<u8>>,
        /// Directories of the tree.
        length: u64,
        /// Files in each of them.
        files: u64,
    },
}

impl WarningReason for WarningKind {}

fn foreign_entries(entries: u64, example: Option<&[u8]>) -> String {
    let many = match entries {
        1 => "1 entry".to_owned(),
        n => format!("{n} entries"),
    };
    let be = if entries == 1 { "is" } else { "are" };
    match example {
        // The name may contain control characters.
        Some(name) => format!(
            "{many} (such as '{}'), {be}",
            String::from_utf8_lossy(name).escape_debug()
        ),
        None => format!("{many} {be}"),
    }
}

/// A warning about a path that is sent from rank to rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PathWarning {
    pub(crate) path: Vec<u8>,
    pub(crate) kind: WarningKind,
}

impl From<PathWarning> for Warning {
    fn from(warning: PathWarning) -> Warning {
        Warning::about(&warning.path, warning.kind)
    }
}
