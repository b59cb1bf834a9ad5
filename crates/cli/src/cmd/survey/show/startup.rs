//! The cost of program starts, in words and JSON.

use base::runs::Stats;
use pathsearch::{DirectoryReport, ElementState, PathElement, ProgramStart, StartupReport};
use show::name::printable;
use show::table::{RowColour, Table, TableStyle};
use show::units::{count, duration};
use show::{columns, json_object};
use survey::conclude::useful_fixes;

use crate::cmd::pathsearch::show::{file_system, fixes, kind_counts, lookup_time};
use crate::json::Json;
use crate::out::seconds;

json_object!(Json<'_, StartupReport>, |startup| {
    "path": Json(&startup.path[..]),
    "started": Json(&startup.started[..]),
    "rtt": startup.rtt,
});

json_object!(Json<'_, PathElement>, |element| {
    name "dir": Some(&element.dir),
    "state": state_name(element.state),
    name "fstype": element.fstype.as_deref(),
    "network": element.network,
});

json_object!(Json<'_, ProgramStart>, |start| {
    "command": start.command,
    "about": start.about,
    "seconds": start.seconds,
    "elapsed": start.elapsed().map(Spread),
    "totals": Json(&start.totals),
    "kinds": kind_counts(&start.kinds),
    "requests": start.requests,
    "seconds_far": start.remote_seconds,
    "fixes": Json(&start.fixes[..]),
    "directories": start.directories.iter().map(SearchedDirectory).collect::<Vec<_>>(),
});

/// Median, minimum and maximum time of several starts.
struct Spread(Stats);

json_object!(Spread, |this| {
    "median": this.0.median,
    "min": this.0.min,
    "max": this.0.max,
});

/// The lookups of a program in a directory; `fathom pathsearch --json` has more details.
struct SearchedDirectory<'a>(&'a DirectoryReport);

json_object!(SearchedDirectory<'_>, |searched| {
    name "dir": Some(&searched.0.dir),
    "hits": searched.0.lookups.counts.total().hits,
    "misses": searched.0.lookups.counts.total().misses,
    "seconds": seconds(searched.0.lookups.nanos),
    "kinds": kind_counts(&searched.0.lookups.counts),
});

/// The state of an element of PATH in the JSON; the names are kept for compatibility.
fn state_name(state: ElementState) -> &'static str {
    match state {
        ElementState::Ok => "live",
        ElementState::Missing => "dead",
        ElementState::Duplicate(_) => "again",
        ElementState::Unknown => "unknown",
    }
}

/// The state of an element of PATH in tables.
fn state_text(state: ElementState) -> &'static str {
    match state {
        ElementState::Ok => "ok",
        ElementState::Missing => "missing",
        ElementState::Duplicate(_) => "duplicate",
        ElementState::Unknown => "unknown",
    }
}

/// The numbers of missing and of duplicate elements of PATH.
pub(crate) fn useless_elements(startup: &StartupReport) -> [usize; 2] {
    ["missing", "duplicate"].map(|wanted| {
        let elements = startup.path.iter();
        elements
            .filter(|element| state_text(element.state) == wanted)
            .count()
    })
}

/// The table of the elements of PATH, with the lookups that the first measured program made in
/// each.
pub(crate) fn path_table(startup: &StartupReport) -> Table {
    let columns = columns![<"PATH", <"STATE", <"FILE SYSTEM", >"FOUND", >"FAILED"];
    let mut table = Table::new(&columns, startup.path.len());
    let lookups = startup.path_lookups();
    for (at, element) in startup.path.iter().enumerate() {
        let here = lookups.as_ref().and_then(|lookups| lookups.get(at));
        let shown = |n: Option<u64>| n.map_or("-".to_owned(), count);
        let cells = [
            printable(&element.dir).into_owned(),
            state_text(element.state).to_owned(),
            file_system(element.fstype.as_deref(), element.network),
            shown(here.map(|here| here.hits)),
            shown(here.map(|here| here.misses)),
        ];
        let tone = match element.state {
            ElementState::Missing | ElementState::Duplicate(_) => RowColour::Dim,
            ElementState::Ok | ElementState::Unknown => RowColour::Plain,
        };
        table.row(cells, tone);
    }
    table
}

pub(crate) fn started_table(startup: &StartupReport) -> Table {
    let columns = columns![
        <"COMMAND", >"TIME", >"LOOKUPS", >"FAILED", >"FAILED TIME", >"REMOTE REQUESTS",
        >"REMOTE TIME"
    ];
    let row = |start: &ProgramStart| {
        [
            start.command.to_owned(),
            duration(start.seconds),
            count(start.totals.lookups),
            count(start.totals.misses),
            lookup_time(start.totals.nanos),
            count(start.requests),
            duration(start.remote_seconds),
        ]
    };
    Table::from_rows(&columns, startup.started.iter().map(row))
}

pub(crate) fn foot(startup: &StartupReport) -> String {
    format!(
        "TIME: median of several starts. FAILED TIME: time in failed lookups; - if it is too short to measure. REMOTE: the lookups of the \
         same start with all files on a network file system, empty caches and a round trip of {}. fathom pathsearch COMMAND reports \
         the same for any command.",
        duration(startup.rtt)
    )
}

pub(crate) fn text(startup: &StartupReport, style: TableStyle) -> String {
    let mut text = String::new();
    if !startup.path.is_empty() {
        text += &path_table(startup).to_text(style.width, style.color);
    }
    if !startup.started.is_empty() {
        text += if text.is_empty() { "" } else { "\n" };
        text += &started_table(startup).to_text(style.width, style.color);
        text += &style.wrapped(&foot(startup));
    }
    let plain = TableStyle {
        color: false,
        ..style
    };
    for start in &startup.started {
        let useful = useful_fixes(startup, start);
        if !useful.is_empty() {
            let fixes = fixes(useful, plain);
            text += &format!("\n{}: {fixes}", start.command);
        }
    }
    text
}
