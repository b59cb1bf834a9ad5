//! The report on a snapshot.

use std::sync::atomic::AtomicU64;

use base::Warning;
use catalog::SnapshotRecord;

use crate::archiver::SnapshotCounts;
use crate::packer::WrittenBlobs;
use crate::snapshot_file::SnapshotSummary;
use crate::times::LocalTime;
use crate::trees::TreeCounts;

/// The snapshot that was made.
#[derive(Clone, Debug, Default)]
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
    /// Warnings about skipped or inconsistent entries.
    pub warnings: Vec<Warning>,
    /// The snapshot's data for the catalog of the tree, such as its tree id.
    pub record: SnapshotRecord,
}

/// The summary of a snapshot with its start and end times.
pub(crate) fn summary(
    [begun, ended]: [LocalTime; 2],
    trees: &TreeCounts,
    counts: SnapshotCounts,
    [data, tree]: [WrittenBlobs; 2],
) -> SnapshotSummary {
    let [new, changed, unmodified] = [
        counts.files_new,
        counts.files_changed,
        counts.files_unmodified,
    ]
    .map(AtomicU64::into_inner);
    SnapshotSummary {
        backup_start: begun,
        backup_end: ended,
        files_new: new,
        files_changed: changed,
        files_unmodified: unmodified,
        dirs_new: trees.new,
        dirs_changed: trees.changed,
        dirs_unmodified: trees.unmodified + counts.kept_directories.into_inner(),
        data_blobs: data.blobs,
        tree_blobs: tree.blobs,
        data_added: data.plain + tree.plain,
        data_added_packed: data.stored + tree.stored,
        total_files_processed: new + changed + unmodified,
        total_bytes_processed: counts.bytes.into_inner(),
    }
}
