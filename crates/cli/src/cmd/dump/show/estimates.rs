//! The output of `fathom dump --dry-run`.

use archive::dump::{Estimate, Estimates};
use show::name::printable;
use show::table::{Table, TableStyle};
use show::units::{count, size};
use show::{columns, json_object};

use crate::json::Json;

json_object!(Json<'_, Estimate>, |estimate| {
    "level": estimate.level,
    name "since": estimate.since.as_deref(),
    "dumped": estimate.counts.dumped,
    "files": estimate.counts.files,
    "directories": estimate.counts.directories,
    "symlinks": estimate.counts.symlinks,
    "links": estimate.counts.links,
    "other": estimate.counts.other,
    "bytes": estimate.counts.bytes,
    "data_bytes": estimate.data_bytes,
    "archive_bytes": estimate.archive_bytes,
    "removed": estimate.removed,
    "renamed": estimate.renamed,
    "unchanged": estimate.unchanged,
});

/// A table with a row for each estimated dump.
pub(crate) fn table(estimates: &Estimates, style: TableStyle) -> String {
    let columns = columns![
        >"LEVEL", >"ENTRIES", >"UNCHANGED", >"DATA", >"ARCHIVE", <"SINCE"
    ];
    let rows = estimates.dumps.iter().map(|dump| {
        let counts = dump.counts;
        let level = dump.level.map_or("-".to_owned(), |level| level.to_string());
        let since = dump.since.as_deref().map(printable);
        [
            level,
            count(counts.dumped),
            count(dump.unchanged),
            size(dump.data_bytes),
            size(dump.archive_bytes),
            since.unwrap_or_else(|| "-".into()).into_owned(),
        ]
    });
    Table::from_rows(&columns, rows).to_text(style.width, style.color)
}
