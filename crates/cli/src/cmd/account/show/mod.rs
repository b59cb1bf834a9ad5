//! The words of `fathom account -- COMMAND`.

use std::cmp::Reverse;
use std::time::Duration;

use account::ledger::Sum;
use account::report::{AccountReport, Groups, Place, ProgramTotal};
use account::whatif::Change;
use show::name::printable;
use show::table::{Align, Table, TableStyle, Tone, wrap};

use crate::out::seconds;

use self::how::how;
use self::json::signal;

pub(crate) mod how;
mod json;
pub(crate) mod memo;

pub(super) const SCHEMA: &str = "fathom.account/1";

/// The account of a command; at most `top` programs, files and directories.
pub(super) fn account_text(account: &AccountReport<'_>, style: TableStyle, top: usize) -> String {
    let mut text = head(account, style);
    let mut part = |title: &str, body: String| {
        text.push('\n');
        text.push_str(&style.heading(title));
        text.push_str(&body);
    };
    let all = account.nanos();
    let view = Rows { all, style, top };
    let gates = gates_table(account);
    part("Calls by gate", gates.to_text(style.width, style.color));
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
        let patterns = patterns.to_text(style.width, style.color);
        part("Redundant patterns", patterns);
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
        [
            format!("{:.1}", sum.percent_of(self.all)),
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
        let columns = Self::SUM.into_iter().chain(files);
        let columns: Vec<_> = columns.chain([("PATH", Align::Left)]).collect();
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
    let coverage = &account.coverage;
    let mut text = String::new();
    let mut put = |sentence: String| text.push_str(&line(style, &sentence));
    let whats = [
        (
            coverage.nameless,
            "what has no name that is known: pipes, sockets, calls without a file",
        ),
        (
            coverage.unheld,
            "further files, for which there was no room",
        ),
    ];
    for (Sum { calls, nanos, .. }, what) in whats.into_iter().filter(|(sum, _)| sum.calls > 0) {
        let time = duration(Duration::from_nanos(nanos));
        put(format!("{calls} calls, {time}, were on {what}."));
    }
    if coverage.forgotten > 0 {
        let forgotten = coverage.forgotten;
        put(format!(
            "{forgotten} descriptors or threads were too many to be followed."
        ));
    }
    if coverage.calls < account.calls() {
        put(format!(
            "Files, directories and patterns are of the first {} calls of {}, and what changes would save is what they would save \
             if all were like these; --calls gives more.",
            coverage.calls,
            account.calls()
        ));
    }
    text
}

/// The gates and the changes, for a page that has more to say.
pub(crate) fn brief(account: &AccountReport<'_>, style: TableStyle) -> String {
    let gates = gates_table(account).to_text(style.width, style.color);
    let what_if = what_if_text(account, style);
    let what_if = what_if.map_or(String::new(), |text| format!("\n{text}"));
    format!("{}\n{gates}{what_if}", head(account, style))
}

pub(crate) fn head(account: &AccountReport<'_>, style: TableStyle) -> String {
    sentences(account)
        .map(|sentence| line(style, &sentence))
        .concat()
}

/// How the command ended, and how it was metered.
pub(crate) fn sentences(account: &AccountReport<'_>) -> [String; 2] {
    let metered = account.metered;
    let status = metered.ended.status();
    let ended = match signal(metered.ended) {
        Some(signal) => format!("ended by signal {signal} (status {status})"),
        None => format!("exit status {status}"),
    };
    let lost = match metered.lost {
        0 => "none lost".to_owned(),
        lost => format!("{lost} LOST"),
    };
    let [real, user, sys] =
        [metered.real, metered.user, metered.sys].map(|time| time.as_secs_f64());
    [
        format!("The command: {ended}; {real:.3} s real, {user:.3} s user, {sys:.3} s sys."),
        format!(
            "{} file-system calls, {:.6} s in them, {lost}; {} of metering beside that, by {}: {}.",
            account.calls(),
            seconds(account.nanos()),
            duration(metered.overhead),
            metered.meter,
            printable(metered.why().as_bytes())
        ),
    ]
}

/// The calls by gate, costliest first.
pub(crate) fn gates_table(account: &AccountReport<'_>) -> Table {
    use Align::{Left, Right};
    let columns = [
        ("%TIME", Right),
        ("SECONDS", Right),
        ("#CALLS", Right),
        ("ms/CALL", Right),
        ("GATE", Left),
        ("ERRORS", Left),
    ];
    let all = account.nanos();
    let mut gates: Vec<_> = account.gates.iter().collect();
    gates.sort_by_key(|(_, gate)| Reverse((gate.sum.nanos, gate.sum.calls)));
    let mut table = Table::new(&columns, gates.len());
    for (name, gate) in gates {
        let errors = gate.errors.iter();
        let mut errors: Vec<_> = errors
            .map(|(errno, n)| (Reverse(*n), errno.name()))
            .collect();
        errors.sort();
        let errors = errors
            .into_iter()
            .map(|(n, errno)| format!("{} {errno}", n.0));
        let errors: Vec<String> = errors.collect();
        let cells = [
            format!("{:.1}", gate.sum.percent_of(all)),
            format!("{:.6}", seconds(gate.sum.nanos)),
            gate.sum.calls.to_string(),
            format!("{:.6}", gate.sum.ms_per_call()),
            (*name).to_owned(),
            errors.join(", "),
        ];
        table.row(cells, Tone::Plain);
    }
    table
}

pub(crate) fn patterns_table(account: &AccountReport<'_>) -> Option<Table> {
    use Align::{Left, Right};
    let columns = [
        ("COUNT", Right),
        ("REDUNDANT", Right),
        ("SECONDS", Right),
        ("PATTERN", Left),
        ("FOR EXAMPLE", Left),
    ];
    let patterns = account.found_patterns();
    let mut table = Table::new(&columns, patterns.len());
    for (pattern, found) in &patterns {
        let example = found.example.as_deref();
        let cells = [
            found.count.to_string(),
            found.calls.to_string(),
            format!("{:.6}", seconds(found.nanos)),
            pattern.name().to_owned(),
            example.map_or_else(String::new, |path| printable(path).into_owned()),
        ];
        table.row(cells, Tone::Plain);
    }
    (!patterns.is_empty()).then_some(table)
}

/// What each change would save, and how; `None` when nothing would be saved.
pub(crate) fn what_if_text(account: &AccountReport<'_>, style: TableStyle) -> Option<String> {
    let table = what_if_table(account)?.to_text(style.width, style.color);
    let changes = account.effective_changes();
    let how = changes
        .iter()
        .map(|change| line(style, &explain_change(change)));
    let how: String = how.collect();
    let model = line(style, &model_sentence(account));
    Some(format!("{model}\n{table}{how}"))
}

/// What each change would save; `None` when nothing would be saved.
pub(crate) fn what_if_table(account: &AccountReport<'_>) -> Option<Table> {
    use Align::{Left, Right};
    let columns = [
        ("-CALLS", Right),
        ("-CPU ms", Right),
        ("-CPU %", Right),
        ("BY 1974", Right),
        ("CHANGE", Left),
    ];
    let changes = account.effective_changes();
    let mut table = Table::new(&columns, changes.len());
    for change in &changes {
        let cells = [
            change.calls.to_string(),
            format!("{:.3}", 1000.0 * change.seconds),
            format!("{:.1}", change.percent),
            format!("{:.3}", 1000.0 * change.overhead),
            change.kind.name().to_owned(),
        ];
        let tone = match change.advised {
            true => Tone::Plain,
            false => Tone::Dim,
        };
        table.row(cells, tone);
    }
    (!changes.is_empty()).then_some(table)
}

/// What percents are of, and where prices are from.
pub(crate) fn model_sentence(account: &AccountReport<'_>) -> String {
    format!(
        "What each change would save of {:.6} s of CPU time. By the model of 1974 any call costs {:.0} ns, \
         and what it takes beyond that is useful. Prices without a meter: {}.",
        account.what_if.cpu, account.what_if.fixed, account.price_source
    )
}

/// How a change is done, or why it cannot be.
pub(crate) fn explain_change(change: &Change) -> String {
    format!("{}: {}", change.kind.name(), how(change.kind))
}

pub(crate) fn line(style: TableStyle, text: &str) -> String {
    wrap(text, style.width.unwrap_or(80)) + "\n"
}

/// A time with as many decimals as are significant.
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds < 0.1 {
        true => format!("{:.3} ms", 1000.0 * seconds),
        false => format!("{seconds:.3} s"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use account::patterns::{Found, Pattern, Spare};
    use account::report::{Coverage, GateTotal};
    use account::whatif::{Change, ChangeKind, WhatIf};
    use gate::Errno;
    use meter::call::{Choice, Ended, Metered};
    use proptest::prelude::*;
    use show::serde_json;
    use unicode_width::UnicodeWidthStr;

    use super::*;
    use crate::json::Json;

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
            kind: ChangeKind::Spare(Spare::CacheMisses),
            calls: 19,
            seconds: 5e-6,
            percent: 0.5,
            overhead: 6e-6,
            elapsed: Some(0.0001),
            advised: true,
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
    fn report_as_text() {
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
    fn report_as_json() {
        let value = serde_json::to_value(Json(&report(b"/\xff"))).unwrap();
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
        fn text_is_escaped_and_fits_the_terminal(
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
