//! What a snapshot was, and what it took.

use archive::catalog::SnapshotRecord;
use mounts::Warning;
use rustic_core::jiff::Zoned;
use rustic_core::repofile::{SnapshotFile, SnapshotSummary};

use crate::archiver::Counts;
use crate::packer::Written;
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

/// The summary of a snapshot that is about to be saved.
pub(crate) fn summary(
    next: &SnapshotFile,
    trees: &TreeCounts,
    counts: Counts,
    [data, tree]: [Written; 2],
) -> SnapshotSummary {
    let kept = counts.kept_directories.into_inner();
    let mut summary = SnapshotSummary::default();
    summary.files_new = counts.files_new.into_inner();
    summary.files_changed = counts.files_changed.into_inner();
    summary.files_unmodified = counts.files_unmodified.into_inner();
    summary.total_files_processed =
        summary.files_new + summary.files_changed + summary.files_unmodified;
    summary.total_bytes_processed = counts.bytes.into_inner();
    summary.dirs_new = trees.new;
    summary.dirs_changed = trees.changed;
    summary.dirs_unmodified = trees.unmodified + kept;
    summary.total_dirs_processed = trees.new + trees.changed + trees.unmodified + kept;
    summary.total_dirsize_processed = trees.bytes;
    summary.data_blobs = data.blobs;
    summary.tree_blobs = tree.blobs;
    summary.data_added = data.plain + tree.plain;
    summary.data_added_packed = data.stored + tree.stored;
    summary.data_added_files = data.plain;
    summary.data_added_files_packed = data.stored;
    summary.data_added_trees = tree.plain;
    summary.data_added_trees_packed = tree.stored;
    summary.backup_end = Zoned::now();
    let elapsed = summary.backup_end.duration_since(&next.time);
    summary.backup_duration = elapsed.as_secs_f64();
    summary.total_duration = summary.backup_duration;
    summary.backup_start = next.time.clone();
    summary
}
