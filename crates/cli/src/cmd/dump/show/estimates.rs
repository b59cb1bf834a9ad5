//! What `fathom dump --dry-run` prints.

use archive::dump::{Estimate, Estimates};
use show::json_object;
use show::name::printable;
use show::table::{Align, Table, TableStyle, Tone};
use show::units::{count, size};

/// An estimate in the JSON.
pub(crate) struct Row<'a>(pub(crate) &'a Estimate);

json_object!(Row<'_>, |row| {
    "level": row.0.level,
    name "since": row.0.since.as_deref(),
    "dumped": row.0.counts.dumped,
    "files": row.0.counts.files,
    "directories": row.0.counts.directories,
    "symlinks": row.0.counts.symlinks,
    "links": row.0.counts.links,
    "other": row.0.counts.other,
    "bytes": row.0.counts.bytes,
    "archive_bytes": row.0.archive_bytes,
    "removed": row.0.removed,
    "renamed": row.0.renamed,
    "unchanged": row.0.unchanged,
});

/// A line for each dump.
pub(crate) fn table(estimates: &Estimates, style: TableStyle) -> String {
    use Align::{Left, Right};
    let columns = [
        ("LEVEL", Right),
        ("ENTRIES", Right),
        ("UNCHANGED", Right),
        ("DATA", Right),
        ("ARCHIVE", Right),
        ("SINCE", Left),
    ];
    let mut table = Table::new(&columns, estimates.dumps.len());
    for dump in &estimates.dumps {
        let counts = dump.counts;
        let level = dump.level.map_or("-".to_owned(), |level| level.to_string());
        let since = dump.since.as_deref().map(printable);
        table.row(
            [
                level,
                count(counts.dumped),
                count(dump.unchanged),
                size(counts.bytes),
                size(dump.archive_bytes),
                since.unwrap_or_else(|| "-".into()).into_owned(),
            ],
            Tone::Plain,
        );
    }
    table.to_text(style.width, style.color)
}
