//! The first screen of an account: a summary, the best savings, and the costliest system calls and
//! directories.

use std::collections::BTreeMap;

use account::patterns::PatternFix;
use account::report::{AccountReport, FileRow, Groups, ProgramTotal};
use account::whatif::{ChangeKind, WhatIfChange};
use show::columns;
use show::name::printable;
use show::table::{Align, RowColour, Table, TableStyle};
use show::units::{count, duration, plural};

use crate::out::seconds;

use super::how::{advice, explain_meter};
use super::savings::{elapsed_saving, saving_changes};
use super::waits::waits_sentence;
use super::words::{average, line};
use super::{calls_table, head};

/// Maximum numbers of rows of the tables.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    calls: usize,
    places: usize,
    is_screen: bool,
}

impl Rows {
    /// The rows for a terminal of 30 lines. After a long summary, [`Rows::fitting`] lowers the
    /// number of system calls.
    pub(crate) const SCREEN: Rows = Rows {
        calls: 10,
        places: 5,
        is_screen: true,
    };

    /// `rows` rows in each table.
    pub(crate) fn each(rows: usize) -> Rows {
        Rows {
            calls: rows,
            places: rows,
            is_screen: false,
        }
    }

    /// Lowers the number of system calls until the screen has room for `texts`, too.
    fn fitting(self, texts: [&str; 2]) -> Rows {
        // Other lines on the screen: an empty line, the column headings, and the last line.
        const BESIDES: usize = 3;
        let used: usize = texts.iter().map(|text| text.lines().count()).sum();
        let left = LINES.saturating_sub(used + BESIDES);
        Rows {
            calls: left.clamp(FEWEST_CALLS, self.calls),
            ..self
        }
    }
}

/// Maximum number of savings listed.
const SAVINGS: usize = 3;
/// Minimum time of a wait in the summary, in nanoseconds.
const LONG_WAIT: u64 = 1_000_000;
/// The height of the first screen, and the minimum number of system calls on it.
const LINES: usize = 30;
const FEWEST_CALLS: usize = 5;
/// Maximum width of a line on a terminal.
const WIDEST: usize = 100;

/// The first screen: at most 30 lines of at most 100 columns on a terminal of 80 columns or more.
pub(crate) fn screen_text(
    account: &AccountReport<'_>,
    style: TableStyle,
    rows: Rows,
    verbose: bool,
) -> String {
    let style = TableStyle {
        width: style.width.map(|width| width.min(WIDEST)),
        ..style
    };
    let mut text = head(account, style);
    if verbose {
        text += &line(style, &explain_meter(account.metered));
    }
    if account.calls() == 0 {
        return text;
    }
    let waits = waits_sentence(account, LONG_WAIT);
    text += &waits.map_or(String::new(), |waits| line(style, &waits));
    text += &savings(account, style);
    let table = match &account.groups {
        Groups::Process(processes, _) => processes_table(processes, rows.places),
        Groups::Directory(places, _) => places_table(places, rows.places),
        Groups::Program => places_table(&account.per_directory, rows.places),
    };
    let mut end = String::new();
    if !table.is_empty() {
        end = format!("\n{}", table.to_text(style.width, style.color));
    }
    let examined = account.coverage.calls;
    if examined < account.calls() {
        let (examined, all) = (count(examined), count(account.calls()));
        end += &line(
            style,
            &format!(
                "Directories are of the first {examined} of {all} calls (--calls), savings \
                 extrapolated from these."
            ),
        );
    }
    let rows = match rows.is_screen {
        true => rows.fitting([&text, &end]),
        false => rows,
    };
    text.push('\n');
    text += &calls_table(account, rows.calls, false).to_text(style.width, style.color);
    text + &end + &line(style, &rest(account, rows))
}

fn savings(account: &AccountReport<'_>, style: TableStyle) -> String {
    let changes = saving_changes(account).filter(|change| change.is_advised());
    let mut best: Vec<_> = changes.collect();
    // A change that avoids waits saves little CPU time, but may save most of the elapsed time.
    let saved = |change: &WhatIfChange| elapsed_saving(account, change).unwrap_or(change.seconds);
    best.sort_by(|a, b| saved(b).total_cmp(&saved(a)));
    best.truncate(SAVINGS);
    if best.is_empty() {
        let patterns = account.found_patterns().len() as u64;
        let none = match account.is_too_short() {
            true => "too short to estimate".to_owned(),
            // A change with an obstacle is not listed, even if its calls are enough for an estimate.
            false if patterns == 0 || saving_changes(account).next().is_some() => {
                "none found".to_owned()
            }
            false => format!(
                "none of at least 100 calls and 10 ms; --full lists {} of redundant calls",
                plural(patterns, "kind", "kinds")
            ),
        };
        return line(style, &format!("Possible savings: {none}."));
    }
    let percent = match account.what_if.elapsed {
        Some(_) => "%ELAPSED",
        None => "%CPU",
    };
    let mut columns = columns![>"SAVES", >percent].to_vec();
    let has_elapsed = best
        .iter()
        .any(|change| elapsed_saving(account, change).is_some());
    if has_elapsed {
        columns.push(("ELAPSED", Align::Right));
    }
    columns.extend(columns![<"CHANGE", <"WHAT TO DO"]);
    let to_do = |change: &WhatIfChange| advice(change.kind, main_program(account, change.kind));
    let table = |columns: &[_]| {
        let mut table = Table::new(columns, best.len());
        for change in &best {
            let mut cells = vec![duration(change.seconds), format!("{:.1}", change.percent)];
            if has_elapsed {
                cells.push(duration(saved(change)));
            }
            cells.extend([change.kind.name().to_owned(), to_do(change).to_owned()]);
            table.row(cells.into_iter().take(columns.len()), RowColour::Plain);
        }
        table
    };
    let whole = table(&columns[..]);
    let uncut = whole.to_text(None, style.color);
    if whole.to_text(style.width, style.color) == uncut {
        return format!("\n{uncut}");
    }
    // A narrow terminal would truncate the advice in the table, so print the advice below the
    // table.
    let short = table(&columns[..columns.len() - 1]).to_text(style.width, style.color);
    let advice = best.iter().map(|change| {
        let advice = format!("{}: {}", change.kind.name(), to_do(change));
        line(style, &advice)
    });
    format!("\n{short}{}", advice.collect::<String>())
}

/// The program that a change concerns: the program with the most xattr calls, if the change avoids
/// these; otherwise the program with the most time.
fn main_program<'a>(account: &'a AccountReport<'_>, kind: ChangeKind) -> &'a [u8] {
    let programs = account.programs.iter();
    let costliest = match kind {
        ChangeKind::Spare(PatternFix::SkipXattr) => {
            programs.max_by_key(|program| xattr_calls(&program.gates))
        }
        _ => programs.max_by_key(|program| program.sum.nanos),
    };
    costliest.map_or(b"", |program| &program.program)
}

fn xattr_calls(gates: &BTreeMap<&'static str, u64>) -> u64 {
    let calls = gates.iter().filter(|(name, _)| name.contains("xattr"));
    calls.map(|(_, calls)| calls).sum()
}

/// The columns of sums, with which every table of calls begins.
const SUM: [(&str, Align); 4] = columns![>"TIME", >"CALLS", >"ERRORS", >"PER CALL"];

fn processes_table(processes: &[ProgramTotal], rows: usize) -> Table {
    let columns = [&SUM[..], &columns![>"PID", <"PROGRAM"]].concat();
    let mut table = Table::new(&columns, rows);
    for row in processes.iter().take(rows) {
        let pid = row.pid.unwrap_or_default().to_string();
        let cells = [pid, printable(&row.program).into_owned()];
        table.row(sum(&row.sum).into_iter().chain(cells), RowColour::Plain);
    }
    table
}

fn places_table(places: &[FileRow<'_>], rows: usize) -> Table {
    let columns = [&SUM[..], &[("DIRECTORY", Align::Left)]].concat();
    let mut table = Table::new(&columns, rows);
    for row in places.iter().take(rows) {
        let path = printable(row.path).into_owned();
        table.row(sum(&row.sum).into_iter().chain([path]), RowColour::Plain);
    }
    table
}

fn sum(sum: &account::ledger::Sum) -> [String; 4] {
    [
        duration(seconds(sum.nanos)),
        count(sum.calls),
        count(sum.errors),
        average(sum),
    ]
}

/// The last line: the number of omitted rows, and how to print the full report.
fn rest(account: &AccountReport<'_>, rows: Rows) -> String {
    const DIRECTORY: [&str; 2] = ["directory", "directories"];
    let beyond = |all: u64, shown: usize| all.saturating_sub(shown as u64);
    let calls = beyond(account.gates.len() as u64, rows.calls);
    let (what, all) = match &account.groups {
        Groups::Process(_, all) => (["process", "processes"], *all),
        Groups::Directory(_, all) => (DIRECTORY, *all),
        Groups::Program => (DIRECTORY, account.coverage.directories),
    };
    let call = ["system call", "system calls"];
    let mut parts = Vec::new();
    for (more, [one, several]) in [(calls, call), (beyond(all, rows.places), what)] {
        if more > 0 {
            let what = if more == 1 { one } else { several };
            parts.push(format!("{} more {what}", count(more)));
        }
    }
    let more = match parts.is_empty() {
        true => String::new(),
        false => format!("{}; ", parts.join(", ")),
    };
    format!("{more}--full prints all tables.")
}

#[cfg(test)]
mod tests {
    use super::super::tests::report;
    use super::*;
    use proptest::prelude::*;
    use unicode_width::UnicodeWidthStr;

    #[test]
    fn first_screen_has_the_summary_savings_calls_and_directories() {
        let style = TableStyle {
            width: Some(100),
            ..TableStyle::default()
        };
        let mut account = report(b"/usr/bin/x");
        account.groups = Groups::Program;
        let text = screen_text(&account, style, Rows::SCREEN, false);
        for line in [
            "SAVES %CPU ELAPSED CHANGE       WHAT TO DO",
            "5.00 ms  0.5 20.0 ms cache-misses cache failed lookups, or list the directory once",
            "   TIME CALLS ERRORS PER CALL SYSTEM CALL",
            "1.20 ms   120     20  10.0 µs openat",
            "   TIME CALLS ERRORS PER CALL DIRECTORY",
            "1.20 ms   120     20  10.0 µs /usr/bin/x",
            "Directories are of the first 100 of 120 calls (--calls), savings extrapolated from these.",
            "--full prints all tables.",
        ] {
            assert!(
                text.lines().any(|shown| shown.trim() == line.trim()),
                "{line}\n{text}"
            );
        }
    }

    #[test]
    fn change_that_saves_most_elapsed_time_comes_first() {
        let mut account = report(b"/usr/bin/x");
        let mut what_if = account.what_if.clone();
        let misses = what_if.changes[0].clone();
        what_if.changes.push(WhatIfChange {
            kind: ChangeKind::Spare(PatternFix::SyncOnce),
            seconds: 23.7e-6,
            percent: 0.01,
            elapsed: Some(0.577),
            ..misses
        });
        // A saving of CPU time only has no elapsed time of its own.
        what_if.changes[0].elapsed = Some(0.006);
        account.what_if = &what_if;
        let style = TableStyle {
            width: Some(100),
            ..TableStyle::default()
        };
        let text = screen_text(&account, style, Rows::SCREEN, false);
        let rows: Vec<&str> = text
            .lines()
            .skip_while(|line| !line.contains("SAVES"))
            .collect();
        assert!(
            rows[1].contains("23.7 µs") && rows[1].contains(" 577 ms sync-once"),
            "{text}"
        );
        assert!(rows[2].contains(" 5.00 ms cache-misses"), "{text}");
        // Without such a change, the table has no column of elapsed times.
        what_if_without(&mut account);
        let text = screen_text(&account, style, Rows::SCREEN, false);
        assert!(text.contains("SAVES %CPU CHANGE"), "{text}");
    }

    #[test]
    fn a_long_run_without_savings_is_not_too_short() {
        let mut account = report(b"/usr/bin/x");
        let mut what_if = account.what_if.clone();
        what_if.changes.remove(0);
        account.what_if = Box::leak(Box::new(what_if));
        let shown = |account: &AccountReport<'_>| savings(account, TableStyle::default());
        assert_eq!(
            shown(&account),
            "Possible savings: too short to estimate.\n"
        );
        if let Some(open) = account.gates.get_mut("openat") {
            open.sum.nanos = 514_000_000;
        }
        assert_eq!(
            shown(&account),
            "Possible savings: none of at least 100 calls and 10 ms; --full lists 1 kind of\n\
             redundant calls.\n"
        );
        account.patterns.clear();
        assert_eq!(shown(&account), "Possible savings: none found.\n");
    }

    /// Leaves only the first change, whose calls did not wait.
    fn what_if_without(account: &mut AccountReport<'_>) {
        let mut what_if = account.what_if.clone();
        what_if.changes.truncate(1);
        account.what_if = Box::leak(Box::new(what_if));
    }

    #[test]
    fn advice_is_wrapped_on_a_narrow_terminal() {
        let style = TableStyle {
            width: Some(40),
            ..TableStyle::default()
        };
        let text = screen_text(&report(b"/usr/bin/x"), style, Rows::SCREEN, false);
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let advice = "cache-misses: cache failed lookups, or list the directory once";
        assert!(text.contains("\n  SAVES %CPU ELAPSED CHANGE\n"), "{text}");
        assert!(words.contains(advice), "{text}");
    }

    #[test]
    fn a_long_summary_leaves_room_for_fewer_calls() {
        let rows = |lines| Rows::SCREEN.fitting([&"x\n".repeat(lines), ""]).calls;
        assert_eq!([10, 17, 18, 20, 40].map(rows), [10, 10, 9, 7, 5]);
    }

    #[test]
    fn one_more_row_is_singular() {
        let account = report(b"/usr/bin/x");
        let shown = |calls, places| Rows {
            calls,
            places,
            is_screen: false,
        };
        let rows = |calls, places| rest(&account, shown(calls, places));
        let one = "1 more system call, 1 more process; --full prints all tables.";
        assert_eq!(rows(0, 12), one);
        assert_eq!(rows(1, 11), "2 more processes; --full prints all tables.");
    }

    proptest! {
        #[test]
        fn first_screen_is_escaped_and_fits_the_terminal(
            path in prop::collection::vec(any::<u8>(), 0..200),
            width in 40..300_usize,
        ) {
            let style = TableStyle { width: Some(width), ..TableStyle::default() };
            let text = screen_text(&report(&path), style, Rows::SCREEN, true);
            prop_assert!(!text.contains(|c: char| c.is_control() && c != '\n'));
            prop_assert!(text.lines().all(|line| line.width() <= width.min(WIDEST)), "{}", text);
        }
    }
}
