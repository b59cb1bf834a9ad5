//! What a snapshot was, and what it took.

use archive::catalog::SnapshotRecord;
use mounts::Warning;

/// A snapshot that was made.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Its id.
    pub id: String,
    /// The id of the snapshot that it is based on: the last one of the same host and paths.
    pub parent: Option<String>,
    /// The id of its tree.
    pub tree: String,
    /// Files that the parent does not have.
    pub files_new: u64,
    /// Files that differ from the parent's.
    pub files_changed: u64,
    /// Files that were not read, because the parent has them.
    pub files_unmodified: u64,
    /// Directories that the parent does not have.
    pub directories_new: u64,
    /// Directories whose trees differ from the parent's.
    pub directories_changed: u64,
    /// Directories with the parent's trees.
    pub directories_unmodified: u64,
    /// The size of all files.
    pub bytes: u64,
    /// Bytes that the repository did not have.
    pub bytes_added: u64,
    /// The same, compressed and encrypted.
    pub bytes_stored: u64,
    /// Everything in the tree could be read.
    pub is_complete: bool,
    /// The repository is in the tree, and was skipped.
    pub skips_repository: bool,
    /// Why index files are not kept in the cache, if they are not.
    pub cache_failed: Option<gate::Errno>,
    /// What was skipped or found wrong.
    pub warnings: Vec<Warning>,
    /// What a catalog of the tree records of it.
    pub record: SnapshotRecord,
}
