//! What a snapshot was, and what it took.

use std::sync::atomic::AtomicU64;

use base::Warning;
use catalog::SnapshotRecord;

use crate::archiver::SnapshotCounts;
use crate::packer::WrittenBlobs;
use crate::snapshot_file::SnapshotSummary;
use crate::times::LocalTime;
use crate::trees::TreeCounts;

/// A snapshot that was made.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Its id; none if nothing was written.
    pub id: Option<String>,
    /// The id of the snapshot that it is based on: the last one of the same host and paths.
    pub parent: Option<String>,
    /// The numbers of its files and directories, and what was added to the repository.
    pub summary: SnapshotSummary,
    /// Everything in the tree could be read.
    pub is_complete: bool,
    /// The repository is in the tree, and was skipped.
    pub skips_repository: bool,
    /// Why index files are not kept in the cache, if they are not.
    pub cache_failed: Option<gate::Errno>,
    /// What was skipped or found wrong.
    pub warnings: Vec<Warning>,
    /// What a catalog of the tree records of it: its tree among others.
    pub record: SnapshotRecord,
}

/// The summary of a snapshot that was begun and ended at some times.
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
