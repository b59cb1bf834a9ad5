//! The output of `fathom dump --restic`.

use archive::gather::{Gather, Gathered};
use restic::Snapshot;
use show::json_object;
use show::name::printable;
use show::units::{duration, plural, sized};

/// The result of a dump into a restic repository.
pub(crate) struct SnapshotReport<'a> {
    /// The location of the repository, as given by the user.
    pub(crate) repository: &'a [u8],
    /// The method of reading metadata on the mount of the first source; `None` if no source is a
    /// directory.
    pub(crate) method: Option<&'a Gathered>,
    pub(crate) snapshot: &'a Snapshot,
    /// Whether `--dry-run` was given, so that nothing was written.
    pub(crate) is_dry: bool,
    pub(crate) seconds: f64,
}

json_object!(SnapshotReport<'_>, |report| {
    name "repository": Some(report.repository),
    "dry_run": report.is_dry,
    "snapshot": report.snapshot.id,
    "parent": report.snapshot.parent,
    "tree": report.snapshot.record.tree,
    "gather": report.method.map_or(Gather::Combined, Gathered::method).name(),
    "engine": report.method.map(|method| method.engine.name()),
    "files_new": report.snapshot.summary.files_new,
    "files_changed": report.snapshot.summary.files_changed,
    "files_unmodified": report.snapshot.summary.files_unmodified,
    "directories_new": report.snapshot.summary.dirs_new,
    "directories_changed": report.snapshot.summary.dirs_changed,
    "directories_unmodified": report.snapshot.summary.dirs_unmodified,
    "bytes": report.snapshot.summary.total_bytes_processed,
    "bytes_added": report.snapshot.summary.data_added,
    "bytes_stored": report.snapshot.summary.data_added_packed,
    "seconds": report.seconds,
});

/// The summary: the snapshot's id as restic abbreviates it, and the numbers of new, changed and
/// unmodified files.
pub(crate) fn summary(report: &SnapshotReport<'_>) -> String {
    let Snapshot { id, summary, .. } = report.snapshot;
    let files = plural(summary.total_files_processed, "file", "files");
    let made = match id {
        Some(id) => format!("snapshot {} of {files} made", id.get(..8).unwrap_or(id)),
        None => format!("a snapshot of {files} would be made, compared"),
    };
    format!(
        "{made} in {}: {} new, {} changed, {} unmodified; {} added ({} stored)",
        duration(report.seconds),
        summary.files_new,
        summary.files_changed,
        summary.files_unmodified,
        sized(summary.data_added),
        sized(summary.data_added_packed)
    )
}

pub(crate) fn note_repository(repository: &[u8]) -> String {
    format!(
        "'{}' is the repository, and is skipped",
        printable(repository)
    )
}
