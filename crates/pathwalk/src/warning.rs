//! Warnings of the benchmark.

use base::{Warning, WarningReason};
use serde::{Deserialize, Serialize};

/// The reason of a warning. The ranks of an MPI job send it to each other, so it is plain data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum WarningKind {
    /// The caches were not dropped: the process is in no memory cgroup below the root.
    #[error("cannot drop caches: this process is in no memory cgroup below the root")]
    NoCgroup,
    /// The kernel refused to drop the caches of this process's memory cgroup.
    #[error("cannot drop the caches of this process's memory cgroup")]
    CgroupNotDropped,
    /// The kernel refused to drop the caches of the host.
    #[error("cannot drop the caches of the host")]
    HostNotDropped,
    /// Lookups failed with errors other than ENOENT and ENOTDIR.
    #[error(
        "{lookups} lookups failed with an error other than ENOENT and ENOTDIR; they are not counted as failed lookups"
    )]
    LookupsFailed {
        /// The number of lookups that failed with other errors.
        lookups: u64,
    },
    /// The tree has fewer directories than were searched.
    #[error("{missing} of {length} directories do not exist, which makes the search cheaper")]
    DirectoriesMissing {
        /// The number of missing directories.
        missing: u64,
        /// The number of searched directories.
        length: u64,
    },
    /// The tree had fewer objects than its shape defines.
    #[error("{missing} of {objects} objects did not exist")]
    ObjectsMissing {
        /// The number of missing objects.
        missing: u64,
        /// The number of objects in a tree of this shape.
        objects: u64,
        /// The number of directories in the tree.
        length: u64,
        /// The number of files in each directory.
        files: u64,
    },
    /// A directory was kept, because it has entries that the benchmark did not create.
    #[error(
        "not removed: {} not part of a tree of {length} directories of {files} files",
        foreign_entries(*entries, example.as_deref())
    )]
    ForeignEntries {
        /// The number of entries that the benchmark did not create.
        entries: u64,
        /// The name of one of the entries that the benchmark did not create.
        example: Option<Vec<u8>>,
        /// The number of directories in the tree.
        length: u64,
        /// The number of files in each directory.
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

/// A warning about a path, in the form that ranks exchange.
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
