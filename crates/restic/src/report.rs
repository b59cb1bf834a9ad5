//! The report on a snapshot.

use base::Warning;
use catalog::SnapshotRecord;

use crate::error::Error;
use crate::packer::WrittenBlobs;
use crate::snapshot_file::SnapshotSummary;
use crate::times::LocalTime;

/// The snapshot that was made.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// The id of the snapshot; `None` in a dry run.
    pub id: Option<String>,
    /// The id of the parent: the last snapshot of the same host and paths.
    pub parent: Option<String>,
    /// The numbers of files and directories, and the data added to the repository.
    pub summary: SnapshotSummary,
    /// Whether every entry of the tree could be read.
    pub is_complete: bool,
    /// The repository itself is in the tree, and was skipped.
    pub skips_repository: bool,
    /// The error that disabled the local cache, if any.
    pub cache_failed: Option<gate::Errno>,
    /// Why the lock could not be removed, which keeps `restic prune` waiting until it is stale.
    pub left_lock: Option<Error>,
    /// Warnings about skipped or inconsistent entries.
    pub warnings: Vec<Warning>,
    /// The snapshot's data for the catalog of the tree, such as its tree id.
    pub record: SnapshotRecord,
}

/// Completes a summary that has the files and directories of a snapshot.
pub(crate) fn summary(
    [begun, ended]: [LocalTime; 2],
    counted: SnapshotSummary,
    [data, tree]: [WrittenBlobs; 2],
) -> SnapshotSummary {
    SnapshotSummary {
        backup_start: begun,
        backup_end: ended,
        data_blobs: data.blobs,
        tree_blobs: tree.blobs,
        data_added: data.plain + tree.plain,
        data_added_packed: data.stored + tree.stored,
        total_files_processed: counted.files_new + counted.files_changed + counted.files_unmodified,
        ..counted
    }
}
