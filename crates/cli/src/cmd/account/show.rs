//! What `fathom account` prints.

use std::time::Duration;

use account::Cost;
use account::ledger::Sum;
use account::memo::Column;
use account::report::{AccountReport, Coverage, Groups, Place, ProgramTotal};
use show::json_object;
use show::name::printable;
use show::table::{Align, Table, TableStyle, Tone};

use crate::out::seconds;
use crate::show_memo::{CostJson, Grid, short};
use crate::show_metered::{duration, gates_table, head, line, patterns_table, what_if_text};

/// The result of `fathom account --model`.
pub(super) struct Model<'a> {
    /// What any call costs, in milliseconds.
    pub(super) fixed_ms: f64,
    /// The columns.
    pub(super) columns: &'a [Column],
}

json_object!(Model<'_>, |model| {
    "fixed_ms": model.fixed_ms,
    "options": model.columns.iter().map(ColumnJson).collect::<Vec<_>>(),
});

struct ColumnJson<'a>(&'a Column);

json_object!(ColumnJson<'_>, |column| {
    "name": column.0.name,
    "dir": CostJson(column.0.costs.dir),
    "file": CostJson(column.0.costs.file),
    "saves_percent": column.0.saves,
    "printed": column.0.printed,
    "saves_system_percent": column.0.saves_system,
    "printed_system": column.0.printed_system,
});

/// The memo's last table.
pub(super) fn model_text(model: &Model<'_>, style: TableStyle) -> String {
    let columns = model.columns;
    let mut grid = Grid::new(columns.iter().map(|column| column.name));
    for (what, cost) in [
        (
            "Directories, ms",
            (|column| column.costs.dir) as fn(&Column) -> Cost,
        ),
        ("Files, ms", |column| column.costs.file),
    ] {
        grid.heading(what);
        grid.row("  overhead", columns, |column| {
            Some(short(cost(column).overhead))
        });
        grid.row("  useful", columns, |column| {
            Some(short(cost(column).useful))
        });
        grid.row("  total", columns, |column| {
            Some(short(cost(column).total()))
        });
    }
    grid.heading("Saves, %");
    grid.row("  of this CPU time", columns, |column| {
        Some(short(column.saves))
    });
    printed_row(&mut grid, columns, |column| column.printed);
    grid.row("  of the system's", columns, |column| {
        Some(short(column.saves_system))
    });
    printed_row(&mut grid, columns, |column| column.printed_system);
    format!(
        "A call costs {} ms; what it takes beyond that is useful work.\n\n{}",
        short(model.fixed_ms),
        grid.to_text(style)
    )
}

/// What the memo prints; nothing where it prints none.
fn printed_row(grid: &mut Grid, columns: &[Column], printed: fn(&Column) -> Option<f64>) {
    if columns.iter().any(|column| printed(column).is_some()) {
        grid.row("    as the memo prints it", columns, |column| {
            printed(column).map(short)
        });
    }
}

/// The account of a command; of programs, files and directories so many rows.
pub(super) fn account_text(account: &AccountReport<'_>, style: TableStyle, top: usize) -> String {
    let mut text = head(account, style);
    let mut part = |title: &str, body: String| {
        text.push('\n');
        text.push_str(&style.heading(title));
        text.push_str(&body);
    };
    let view = Rows {
        all: account.nanos(),
        style,
        top,
    };
    part(
        "Calls by gate",
        gates_table(account).to_text(style.width, style.color),
    );
    match &account.groups {
        Groups::Program => {
            let all = account.programs.len() as u64;
            part("By program", view.programs(&account.programs, all));
        }
        Groups::Process(rows, all) => part("By process", view.programs(rows, *all)),
        Groups::Directory(rows, all) => part("By directory", view.places(rows, *all)),
    }
    let coverage = &account.coverage;
    let uncovered = uncovered(account, style);
    if coverage.files > 0 {
        part("Files", view.places(&account.per_file, coverage.files));
        let directories = view.places(&account.per_directory, coverage.directories);
        part("Directories", directories + &uncovered);
    } else if !uncovered.is_empty() {
        part("Files", uncovered);
    }
    if let Some(patterns) = patterns_table(account) {
        part(
            "Redundant patterns",
            patterns.to_text(style.width, style.color),
        );
    }
    if let Some(what_if) = what_if_text(account, style) {
        part("What if", what_if);
    }
    text
}

/// Tables whose rows are sums of calls.
struct Rows {
    /// Time in all calls, in nanoseconds.
    all: u64,
    style: TableStyle,
    /// Rows that are shown.
    top: usize,
}

impl Rows {
    const SUM: [(&str, Align); 4] = [
        ("%TIME", Align::Right),
        ("SECONDS", Align::Right),
        ("#CALLS", Align::Right),
        ("#ERRORS", Align::Right),
    ];

    fn sum(&self, sum: &Sum) -> [String; 4] {
        let percent = sum.percent_of(self.all);
        [
            format!("{percent:.1}"),
            format!("{:.6}", seconds(sum.nanos)),
            sum.calls.to_string(),
            sum.errors.to_string(),
        ]
    }

    fn programs(&self, rows: &[ProgramTotal], all: u64) -> String {
        let has_pids = rows.iter().any(|row| row.pid.is_some());
        let id = if has_pids { "PID" } else { "PROCESSES" };
        let columns = [(id, Align::Right), ("PROGRAM", Align::Left)];
        let columns = [&Self::SUM[..], &columns].concat();
        let mut table = Table::new(&columns, rows.len().min(self.top));
        for row in rows.iter().take(self.top) {
            let id = row.pid.map_or(row.processes, u64::from).to_string();
            let cells = [id, printable(&row.program).into_owned()];
            table.row(self.sum(&row.sum).into_iter().chain(cells), Tone::Plain);
        }
        self.finish(&table, all)
    }

    fn places(&self, rows: &[Place<'_>], all: u64) -> String {
        let has_files = rows.iter().any(|row| row.files.is_some());
        let files = has_files.then_some(("#FILES", Align::Right));
        let columns: Vec<_> = Self::SUM
            .into_iter()
            .chain(files)
            .chain([("PATH", Align::Left)])
            .collect();
        let mut table = Table::new(&columns, rows.len().min(self.top));
        for row in rows.iter().take(self.top) {
            let files = row.files.map(|files| files.to_string());
            let path = printable(row.path).into_owned();
            let cells = self.sum(&row.sum).into_iter().chain(files).chain([path]);
            table.row(cells, Tone::Plain);
        }
        self.finish(&table, all)
    }

    fn finish(&self, table: &Table, all: u64) -> String {
        let more = match all.saturating_sub(self.top as u64) {
            0 => String::new(),
            more => format!("and {more} more\n"),
        };
        table.to_text(self.style.width, self.style.color) + &more
    }
}

/// What the rows by file and directory do not cover.
fn uncovered(account: &AccountReport<'_>, style: TableStyle) -> String {
    let Coverage {
        calls,
        nameless,
        unheld,
        forgotten,
        ..
    } = account.coverage;
    let time = |sum: Sum| duration(Duration::from_nanos(sum.nanos));
    let mut text = String::new();
    let mut put = |sentence: String| text.push_str(&line(style, &sentence));
    if nameless.calls > 0 {
        put(format!(
            "{} calls, {}, were on what has no name that is known: pipes, sockets, calls without a file.",
            nameless.calls,
            time(nameless)
        ));
    }
    if unheld.calls > 0 {
        put(format!(
            "{} calls, {}, were on further files, for which there was no room.",
            unheld.calls,
            time(unheld)
        ));
    }
    if forgotten > 0 {
        put(format!(
            "{forgotten} descriptors or threads were too many to be followed."
        ));
    }
    if calls < account.calls() {
        put(format!(
            "Files, directories and patterns are of the first {calls} calls of {}, and what changes would save is what they would save \
             if all were like these; --calls gives more.",
            account.calls()
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use account::Per;
    use account::patterns::{Found, Pattern};
    use account::report::GateTotal;
    use account::whatif::{Change, WhatIf};
    use gate::Errno;
    use meter::call::{Choice, Ended, Metered};
    use proptest::prelude::*;
    use show::serde_json;
    use unicode_width::UnicodeWidthStr;

    use super::*;
    use crate::show_metered::AccountJson;

    #[test]
    fn the_memos_last_table() {
        let cost = |overhead, useful| Cost { overhead, useful };
        let today = Column {
            name: "today",
            costs: Per {
                dir: cost(350.0, 115.0),
                file: cost(84.0, 15.0),
            },
            saves: 0.0,
            printed: None,
            saves_system: 0.0,
            printed_system: None,
        };
        let raw = Column {
            name: "rawdump",
            costs: Per {
                dir: cost(30.0, 15.0),
                file: cost(5.0, 15.0),
            },
            saves: 45.0,
            printed: Some(41.0),
            saves_system: 9.0,
            printed_system: Some(8.0),
        };
        let model = Model {
            fixed_ms: 14.0,
            columns: &[today, raw],
        };
        let text = model_text(&model, TableStyle::default());
        let expected = "\
A call costs 14 ms; what it takes beyond that is useful work.

                          today rawdump
Directories, ms
  overhead                  350      30
  useful                    115      15
  total                     465      45
Files, ms
  overhead                   84       5
  useful                     15      15
  total                      99      20
Saves, %
  of this CPU time            0      45
    as the memo prints it     -      41
  of the system's             0       9
    as the memo prints it     -       8
";
        assert_eq!(text, expected);
    }

    /// An account of one gate, made by hand. It is leaked, as tests may.
    fn report(path: &[u8]) -> AccountReport<'static> {
        let path: &'static [u8] = path.to_vec().leak();
        let sum = Sum {
            calls: 120,
            errors: 20,
            nanos: 1_200_000,
        };
        let gate = GateTotal {
            sum,
            errors: vec![(Errno::ENOENT, 19), (Errno::EACCES, 1)],
        };
        let place = |files| Place {
            path,
            files,
            sum,
            gates: BTreeMap::from([("openat", 120)]),
        };
        let program = ProgramTotal {
            program: path.to_vec(),
            processes: 3,
            sum,
            gates: BTreeMap::from([("openat", 120)]),
            pid: None,
        };
        let process = ProgramTotal {
            pid: Some(7),
            ..program.clone()
        };
        let found = Found {
            count: 20,
            calls: 20,
            nanos: 100_000,
            example: Some(path.to_vec()),
        };
        let change = Change {
            name: "cache-misses",
            calls: 19,
            seconds: 5e-6,
            percent: 0.5,
            overhead: 6e-6,
            elapsed: Some(0.0001),
            advised: true,
            how: "remember what is not there".to_owned(),
        };
        AccountReport {
            gates: BTreeMap::from([("openat", gate)]),
            programs: vec![program],
            groups: Groups::Process(vec![process], 13),
            per_file: vec![place(None)],
            per_directory: vec![place(Some(2))],
            coverage: Coverage {
                calls: 100,
                complete: false,
                files: 12,
                directories: 1,
                unheld: sum,
                nameless: sum,
                forgotten: 1,
            },
            patterns: vec![(Pattern::Miss, Box::leak(Box::new(found)))],
            what_if: Box::leak(Box::new(WhatIf {
                fixed: 312.0,
                cpu: 0.001,
                priced: 0.0005,
                changes: vec![change],
            })),
            price_source: "measured here",
            metered: Box::leak(Box::new(Metered {
                meter: "ptrace",
                sees_names: true,
                choice: Choice::Cheapest(Vec::new()),
                warnings: Vec::new(),
                totals: Vec::new(),
                reported: 100,
                unfinished: 0,
                lost: 0,
                overhead: Duration::from_millis(2),
                ended: Ended::Killed(9),
                real: Duration::from_millis(10),
                user: Duration::from_millis(1),
                sys: Duration::from_millis(2),
            })),
        }
    }

    #[test]
    fn the_report() {
        let style = TableStyle {
            width: Some(80),
            ..TableStyle::default()
        };
        let text = account_text(&report(b"/usr/bin/x"), style, 10);
        for line in [
            "The command: ended by signal 9 (status 137); 0.010 s real, 0.001 s user, 0.002 s",
            "%TIME  SECONDS #CALLS  ms/CALL GATE   ERRORS",
            "100.0 0.001200    120 0.010000 openat 19 ENOENT, 1 EACCES",
            "%TIME  SECONDS #CALLS #ERRORS PID PROGRAM",
            "100.0 0.001200    120      20   7 /usr/bin/x",
            "100.0 0.001200    120      20      2 /usr/bin/x",
            "and 2 more",
            "and 3 more",
            "COUNT REDUNDANT  SECONDS PATTERN FOR EXAMPLE",
            "   20        20 0.000100 miss    /usr/bin/x",
            "-CALLS -CPU ms -CPU % BY 1974 CHANGE",
            "    19   0.005    0.5   0.006 cache-misses",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
        }
    }

    #[test]
    fn json_has_what_it_promises() {
        let value = serde_json::to_value(AccountJson(&report(b"/\xff"))).unwrap();
        for field in [
            "gates",
            "programs",
            "per_file",
            "per_directory",
            "patterns",
            "what_if",
            "meter",
            "lost",
            "overhead_seconds",
            "exit",
        ] {
            assert!(!value[field].is_null(), "{field}: {value}");
        }
        assert_eq!(value["gates"]["openat"]["errnos"]["ENOENT"], 19);
        assert_eq!(value["per_file"][0]["path_b64"], "L/8=");
        assert_eq!(value["programs"][0]["program_b64"], "L/8=");
        assert_eq!(value["patterns"][0]["example_b64"], "L/8=");
        assert_eq!(value["processes"][0]["pid"], 7);
        assert!(value["by_directory"].is_null());
    }

    proptest! {
        #[test]
        fn nothing_raw_is_shown_and_nothing_is_wider_than_the_terminal(
            path in prop::collection::vec(any::<u8>(), 0..200),
            width in 60..120_usize,
        ) {
            let style = TableStyle { width: Some(width), ..TableStyle::default() };
            let text = account_text(&report(&path), style, 5);
            prop_assert!(!text.contains(|c: char| c.is_control() && c != '\n'));
            prop_assert!(text.lines().all(|line| line.width() <= width), "{}", text);
        }
    }
}
