//! What grew between two accounts of a command, as text and as JSON.

use account::compare::growth::{Growth, Row};
use show::json_object;
use show::name::printable;
use show::table::Align::{Left, Right};
use show::table::{Table, TableStyle, Tone};
use show::units::{count, duration, plural};

use crate::json::Json;

/// Rows of each table for people.
const ROWS: usize = 10;

json_object!(Json<'_, Growth>, |growth| {
    "runs": growth.runs,
    "complete": growth.is_complete,
    "gates": Json(&growth.gates[..]),
    "programs": Json(&growth.programs[..]),
    "directories": Json(&growth.directories[..]),
    "waits": Json(&growth.waits[..]),
});

json_object!(Json<'_, Row>, |row| {
    name "name": Some(&row.name),
    "calls": row.calls,
    "seconds": row.seconds,
});

/// The tables, those rows first that grew most.
pub(super) fn growth_text(growth: &Growth, names: [&[u8]; 2], style: TableStyle) -> String {
    let [old, new] = names.map(printable);
    let mut text = style.wrapped(&match growth.runs {
        [1, 1] => format!("From {old} to {new}:"),
        runs => {
            let [of_old, of_new] = runs.map(|runs| plural(runs as u64, "run", "runs"));
            format!("From {old} ({of_old}) to {new} ({of_new}), medians:")
        }
    });
    for (rows, name) in [
        (&growth.gates, "SYSTEM CALL"),
        (&growth.programs, "PROGRAM"),
        (&growth.directories, "DIRECTORY"),
        (&growth.waits, "WAITING FOR"),
    ] {
        let changed = || rows.iter().filter(|row| differs(row));
        if changed().next().is_none() {
            continue;
        }
        text.push('\n');
        text += &table(changed(), name).to_text(style.width, style.color);
        let more = changed().count().saturating_sub(ROWS);
        if more > 0 {
            text += &format!("{} more (see --json)\n", count(more as u64));
        }
    }
    if !growth.is_complete {
        text += &style.wrapped(
            "Directories are those of the first calls only: see --calls of fathom account.",
        );
    }
    text
}

fn differs(row: &Row) -> bool {
    row.calls[0] != row.calls[1] || row.seconds[0] != row.seconds[1]
}

fn table<'a>(rows: impl Iterator<Item = &'a Row>, name: &str) -> Table {
    let heads = [
        ("CHANGE", Right),
        ("OLD TIME", Right),
        ("NEW TIME", Right),
        ("CHANGE", Right),
        ("OLD CALLS", Right),
        ("NEW CALLS", Right),
        (name, Left),
    ];
    let mut table = Table::new(&heads, ROWS);
    table.keep(heads.len());
    for row in rows.take(ROWS) {
        let [old_time, new_time] = row.seconds.map(duration);
        let [old_calls, new_calls] = row.calls.map(|calls| count(calls.round() as u64));
        let calls = row.more_calls();
        let cells = [
            signed(row.more_seconds(), duration),
            old_time,
            new_time,
            signed(calls, |calls| count(calls.round() as u64)),
            old_calls,
            new_calls,
            printable(&row.name).into_owned(),
        ];
        table.row(cells, Tone::Plain);
    }
    table
}

fn signed(value: f64, text: impl Fn(f64) -> String) -> String {
    let sign = match value {
        value if value > 0.0 => "+",
        value if value < 0.0 => "-",
        _ => "",
    };
    format!("{sign}{}", text(value.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_signs_and_names_are_escaped() {
        let row = |name: &[u8], calls, seconds| Row {
            name: name.to_vec(),
            calls,
            seconds,
        };
        let growth = Growth {
            runs: [1, 3],
            is_complete: false,
            gates: vec![
                row(b"openat", [10.0, 1200.0], [0.001, 0.003]),
                row(b"read", [3.0, 3.0], [0.5, 0.5]),
                row(b"close", [9.0, 2.0], [0.25, 0.0]),
            ],
            programs: vec![row(b"/a\x1b", [0.0, 1.0], [0.0, 0.0])],
            directories: vec![],
            waits: vec![],
        };
        let text = growth_text(&growth, [b"a.json", b"b.json"], TableStyle::default());
        for line in [
            "From a.json (1 run) to b.json (3 runs), medians:",
            "+2.00 ms  1.00 ms  3.00 ms +1,190        10     1,200 openat",
            "-250 ms   250 ms      0 s     -7         9         2 close",
            "0 s      0 s      0 s     +1         0         1 /a\\x1b",
        ] {
            assert!(
                text.lines().any(|shown| shown.trim() == line),
                "{line}\n{text}"
            );
        }
        assert!(!text.contains("read"), "{text}");
    }
}
