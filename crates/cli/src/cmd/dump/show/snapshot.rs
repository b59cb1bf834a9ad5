//! What `fathom dump --restic` prints.

use archive::gather::{Gather, Gathered};
use restic::Snapshot;
use show::json_object;
use show::name::printable;
use show::units::{duration, plural, sized};

/// The result of a dump into a restic repository.
pub(crate) struct Report<'a> {
    /// The repository, as it was given.
    pub(crate) repository: &'a [u8],
    /// How the mount of the first source was gathered; `None` if no source is a directory.
    pub(crate) method: Option<&'a Gathered>,
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) seconds: f64,
}

json_object!(Report<'_>, |report| {
    name "repository": Some(report.repository),
    "snapshot": report.snapshot.id,
    "parent": report.snapshot.parent,
    "tree": report.snapshot.tree,
    "gather": report.method.map_or(Gather::Combined, |method| method.gather).name(),
    "engine": report.method.map(|method| method.engine.name()),
    "files_new": report.snapshot.files_new,
    "files_changed": report.snapshot.files_changed,
    "files_unmodified": report.snapshot.files_unmodified,
    "directories_new": report.snapshot.directories_new,
    "directories_changed": report.snapshot.directories_changed,
    "directories_unmodified": report.snapshot.directories_unmodified,
    "bytes": report.snapshot.bytes,
    "bytes_added": report.snapshot.bytes_added,
    "bytes_stored": report.snapshot.bytes_stored,
    "seconds": report.seconds,
});

/// The summary: the id as restic shortens it, and how much of the parent was kept.
pub(crate) fn summary(report: &Report<'_>) -> String {
    let Snapshot {
        id,
        files_new,
        files_changed,
        files_unmodified,
        bytes_added,
        bytes_stored,
        ..
    } = report.snapshot;
    let files = plural(
        files_new + files_changed + files_unmodified,
        "file",
        "files",
    );
    format!(
        "snapshot {} of {files} made in {}: {files_new} new, {files_changed} changed, \
         {files_unmodified} unmodified; {} added ({} stored)",
        id.get(..8).unwrap_or(id),
        duration(report.seconds),
        sized(*bytes_added),
        sized(*bytes_stored)
    )
}

pub(crate) fn note_repository(repository: &[u8]) -> String {
    format!(
        "'{}' is the repository, and is skipped",
        printable(repository)
    )
}
