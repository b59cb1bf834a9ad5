//! The survey's section about dumps: what a nightly dump would cost, in words and JSON.

use archive::nightly::{Expected, Nightly};
use show::name::printable;
use show::table::{Table, TableStyle};
use show::units::{count, duration, plural, size};
use show::{columns, json_object};

use crate::json::Json;

json_object!(Json<'_, Expected>, |expected| {
    "files": expected.files,
    "bytes": expected.bytes,
    "calls": expected.calls,
    "cpu_seconds": expected.cpu_seconds,
});

json_object!(Json<'_, Nightly>, |nightly| {
    "gather": nightly.gather.name(),
    "engine": nightly.engine.name(),
    "why": nightly.why.to_string(),
    "entries": nightly.entries,
    "files": nightly.files,
    "bytes": nightly.bytes,
    "seconds": nightly.seconds,
    "cpu_seconds": nightly.cpu_seconds,
    "calls": nightly.calls,
    "call_seconds": nightly.call_seconds,
    "first": Json(&nightly.first),
    "unchanged": Json(&nightly.unchanged),
    "changed": Json(&nightly.changed),
});

pub(crate) fn head(nightly: &Nightly) -> [String; 2] {
    [
        format!(
            "Gathered by {} ({}): {}.",
            nightly.gather.name(),
            nightly.engine.name(),
            printable(nightly.why.to_string().as_bytes())
        ),
        format!(
            "{} in {}, {} of CPU time and {} calls ({:.3} per entry).",
            plural(nightly.entries, "entry", "entries"),
            duration(nightly.seconds),
            duration(nightly.cpu_seconds),
            count(nightly.calls),
            nightly.calls as f64 / nightly.entries.max(1) as f64
        ),
    ]
}

pub(crate) fn table(nightly: &Nightly) -> Table {
    let columns = columns![<"DUMP", >"FILES", >"BYTES", >"CALLS", >"CPU TIME"];
    let rows = [
        ("the first", nightly.first),
        ("nothing changed", nightly.unchanged),
        ("1 % changed", nightly.changed),
    ];
    let row = |(what, expected): (&str, Expected)| {
        [
            what.to_owned(),
            count(expected.files),
            size(expected.bytes),
            count(expected.calls),
            duration(expected.cpu_seconds),
        ]
    };
    Table::from_rows(&columns, rows.map(row))
}

/// The basis of the estimate: a sentence below the table.
pub(crate) fn foot(nightly: &Nightly) -> String {
    format!(
        "Only metadata was read. Estimated with {} calls per file, {} each, without reading and writing the bytes. Where the \
         file system proves that nothing has changed, an increment gathers nothing.",
        Nightly::CALLS_PER_FILE,
        duration(nightly.call_seconds)
    )
}

pub(crate) fn text(nightly: &Nightly, style: TableStyle) -> String {
    let head: String = head(nightly)
        .iter()
        .map(|line| style.wrapped(line))
        .collect();
    let table = table(nightly).to_text(style.width, style.color);
    format!("{head}\n{table}{}", style.wrapped(&foot(nightly)))
}
