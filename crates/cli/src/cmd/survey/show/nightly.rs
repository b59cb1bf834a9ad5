//! The survey's section about dumps: what a nightly dump would cost, in words and JSON.

use archive::nightly::{Expected, Nightly};
use show::json_object;
use show::name::printable;
use show::table::{Align, Table, TableStyle};
use show::units::{plural, size};

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
            "{} in {:.2} ms, {:.2} ms of CPU time and {} calls ({:.3} an entry).",
            plural(nightly.entries, "entry", "entries"),
            1000.0 * nightly.seconds,
            1000.0 * nightly.cpu_seconds,
            nightly.calls,
            nightly.calls as f64 / nightly.entries.max(1) as f64
        ),
    ]
}

pub(crate) fn table(nightly: &Nightly) -> Table {
    use Align::{Left, Right};
    let columns = [
        ("DUMP", Left),
        ("FILES", Right),
        ("TO READ", Right),
        ("CALLS", Right),
        ("CPU ms", Right),
    ];
    let rows = [
        ("the first", nightly.first),
        ("nothing changed", nightly.unchanged),
        ("1 % changed", nightly.changed),
    ];
    let row = |(what, expected): (&str, Expected)| {
        [
            what.to_owned(),
            expected.files.to_string(),
            size(expected.bytes),
            expected.calls.to_string(),
            format!("{:.2}", 1000.0 * expected.cpu_seconds),
        ]
    };
    Table::from_rows(&columns, rows.map(row))
}

/// What the estimate is based on.
pub(crate) fn foot(nightly: &Nightly) -> String {
    format!(
        "Nothing was read but metadata. Estimated are {} calls for each file, {:.2} µs each; reading and writing the bytes \
         comes on top. Where the file system can tell that nothing was written to it since, an increment does not even gather.",
        Nightly::CALLS_PER_FILE,
        1e6 * nightly.call_seconds
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
