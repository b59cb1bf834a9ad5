//! The text of `fathom account COMMAND`.

use std::cmp::Reverse;
use std::time::Duration;

use account::ledger::Sum;
use account::report::{AccountReport, FileRow, GateTotal, Groups, ProgramTotal};
use meter::call::{CommandEnd, Metered};
use show::columns;
use show::name::printable;
use show::table::{Align, RowColour, Table, TableStyle};
use show::units::{count, duration, plural};

use crate::out::seconds;

use self::how::{explain_meter, explain_pattern};
use self::savings::what_if_text;
use self::waits::{wait_calls, waits_sentence, waits_table};
use self::words::{average, call_count, line};

pub(crate) mod formats;
pub(crate) mod how;
pub(crate) mod intervals;
pub(super) mod json;
pub(crate) mod memo;
pub(crate) mod savings;
pub(crate) mod screen;
mod waits;
mod words;

pub(super) const SCHEMA: &str = "fathom.account/1";

/// Maximum number of rows per table.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Rows of the tables of programs, files and directories.
    pub(super) rows: usize,
    /// Rows of the table of system calls.
    pub(super) calls: usize,
}

/// The full report of a command; with `verbose`, also the reason why the meter was chosen.
pub(super) fn account_text(
    account: &AccountReport<'_>,
    style: TableStyle,
    limits: Limits,
    verbose: bool,
) -> String {
    let mut text = head(account, style);
    if verbose {
        text += &line(style, &explain_meter(account.metered));
    }
    if account.calls() == 0 {
        return text;
    }
    text += &waits_sentence(account, 0).map_or(String::new(), |waits| line(style, &waits));
    let mut part = |title: &str, body: String| {
        text.push('\n');
        text.push_str(&style.heading(title));
        text.push_str(&body);
    };
    let all = account.nanos();
    let view = Rows {
        all,
        style,
        top: limits.rows,
    };
    let gates = calls_table(account, limits.calls, true).to_text(style.width, style.color);
    let omitted = more(account.gates.len() as u64, limits.calls);
    part("System calls", gates + &omitted);
    if !account.waits.is_empty() {
        let waits = waits_table(account).to_text(style.width, style.color);
        part("Waiting, in no other table", waits);
    }
    match &account.groups {
        Groups::Program => {
            let all = account.programs.len() as u64;
            part("Programs", view.programs(&account.programs, all));
        }
        Groups::Process(rows, all) => part("Processes", view.programs(rows, *all)),
        Groups::Directory(rows, all) => part("Directories, summed up", view.places(rows, *all)),
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
        let found = account.found_patterns().into_iter();
        let explained = found.map(|(pattern, _)| explain_pattern(pattern));
        let explained: String = explained.map(|text| line(style, &text)).collect();
        part("Redundant calls", format!("{patterns}\n{explained}"));
    }
    if let Some(what_if) = what_if_text(account, style) {
        part("Possible savings", what_if);
    }
    text
}

/// Formats tables of programs, files and directories.
struct Rows {
    /// The time of all system calls in nanoseconds, of which each row prints a percentage.
    all: u64,
    style: TableStyle,
    /// Maximum number of rows per table.
    top: usize,
}

impl Rows {
    const SUM: [(&str, Align); 4] = columns![>"%TIME", >"TIME", >"CALLS", >"ERRORS"];

    fn sum(&self, sum: &Sum) -> [String; 4] {
        [
            format!("{:.1}", sum.percent_of(self.all)),
            duration(seconds(sum.nanos)),
            count(sum.calls),
            count(sum.errors),
        ]
    }

    fn programs(&self, rows: &[ProgramTotal], all: u64) -> String {
        let has_pids = rows.iter().any(|row| row.pid.is_some());
        let id = if has_pids { "PID" } else { "PROCESSES" };
        let columns = columns![>id, <"PROGRAM"];
        let columns = [&Self::SUM[..], &columns].concat();
        let mut table = Table::new(&columns, rows.len().min(self.top));
        for row in rows.iter().take(self.top) {
            let id = row
                .pid
                .map_or_else(|| count(row.processes), |pid| pid.to_string());
            let cells = [id, printable(&row.program).into_owned()];
            table.row(
                self.sum(&row.sum).into_iter().chain(cells),
                RowColour::Plain,
            );
        }
        self.finish(&table, all)
    }

    fn places(&self, rows: &[FileRow<'_>], all: u64) -> String {
        let has_files = rows.iter().any(|row| row.files.is_some());
        let files = has_files.then_some(("FILES", Align::Right));
        let columns = Self::SUM.into_iter().chain(files);
        let columns: Vec<_> = columns.chain([("PATH", Align::Left)]).collect();
        let mut table = Table::new(&columns, rows.len().min(self.top));
        for row in rows.iter().take(self.top) {
            let files = row.files.map(count);
            let path = printable(row.path).into_owned();
            let cells = self.sum(&row.sum).into_iter().chain(files).chain([path]);
            table.row(cells, RowColour::Plain);
        }
        self.finish(&table, all)
    }

    fn finish(&self, table: &Table, all: u64) -> String {
        table.to_text(self.style.width, self.style.color) + &more(all, self.top)
    }
}

/// A line with the number of rows that are not shown; empty if all rows are shown.
fn more(all: u64, shown: usize) -> String {
    match all.saturating_sub(shown as u64) {
        0 => String::new(),
        more => format!("{} more (see --top)\n", count(more)),
    }
}

/// Sentences about calls that the tables of files and directories do not include.
fn uncovered(account: &AccountReport<'_>, style: TableStyle) -> String {
    let coverage = &account.coverage;
    let mut text = String::new();
    let mut put = |sentence: String| text.push_str(&line(style, &sentence));
    let others = [
        (coverage.nameless, "descriptors without a path"),
        (coverage.unheld, "files beyond the number that is tracked"),
    ];
    for (Sum { calls, nanos, .. }, what) in others.into_iter().filter(|(sum, _)| sum.calls > 0) {
        let time = duration(seconds(nanos));
        put(format!(
            "Not listed: {} ({time}) on {what}.",
            call_count(calls)
        ));
    }
    if coverage.forgotten > 0 {
        let forgotten = coverage.forgotten;
        put(format!(
            "{} descriptors or threads were not tracked: there were too many at once.",
            count(forgotten)
        ));
    }
    if coverage.calls < account.calls() {
        put(format!(
            "Files, directories and redundant calls are of the first {} of {} calls (see --calls); savings are extrapolated from these to all calls.",
            count(coverage.calls),
            count(account.calls())
        ));
    }
    text
}

/// The short report for the page of `fathom survey`: the system calls and the estimated savings.
pub(crate) fn brief(account: &AccountReport<'_>, style: TableStyle) -> String {
    let gates = calls_table(account, usize::MAX, true).to_text(style.width, style.color);
    let what_if = what_if_text(account, style);
    let what_if = what_if.map_or(String::new(), |text| format!("\n{text}"));
    format!("{}\n{gates}{what_if}", head(account, style))
}

pub(crate) fn head(account: &AccountReport<'_>, style: TableStyle) -> String {
    sentences(account)
        .map(|sentence| line(style, &sentence))
        .concat()
}

/// Two parts: how the command ended, and how it was metered.
pub(crate) fn sentences(account: &AccountReport<'_>) -> [String; 2] {
    let metered = account.metered;
    let status = metered.ended.status();
    let ended = match metered.ended {
        CommandEnd::Killed(signal) => format!("Killed by signal {signal} (exit status {status})"),
        CommandEnd::Exited(_) => format!("Exit status {status}"),
        CommandEnd::Detached(n) => {
            format!("Attached to {}", plural(n as u64, "process", "processes"))
        }
    };
    let lost = match metered.lost {
        0 => String::new(),
        lost => format!("; {} lost", call_count(lost)),
    };
    let ended = format!("{ended}; {}.", times(metered));
    if account.calls() == 0 {
        let none = format!("No calls on files{lost}; metered by {}.", metered.meter);
        return [ended, none];
    }
    [
        ended,
        format!(
            "{} on files took {}{}{lost}; metered by {}, overhead {}{}.{}",
            call_count(account.calls() - wait_calls(account)),
            duration(seconds(account.nanos())),
            share_of_real(account),
            metered.meter,
            duration(metered.overhead.as_secs_f64()),
            overhead_per_call(account),
            unpriced_calls(account),
        ),
    ]
}

/// Real, user and system time, like time(1). The kernel divides CPU time into user and system time
/// by clock ticks, so either can be 0 for a short command. In this case, their sum is printed.
fn times(metered: &Metered) -> String {
    let text = |time: Duration| duration(time.as_secs_f64());
    let real = text(metered.real);
    let (user, sys) = (metered.user, metered.sys);
    match user.is_zero() || sys.is_zero() {
        true => format!("{real} real, {} user and system", text(user + sys)),
        false => format!("{real} real, {} user, {} system", text(user), text(sys)),
    }
}

/// The time in system calls as a percentage of the elapsed time; empty for several processes,
/// because their calls can overlap.
fn share_of_real(account: &AccountReport<'_>) -> String {
    let real = account.metered.real.as_secs_f64();
    let processes: u64 = account.programs.iter().map(|one| one.processes).sum();
    let share = 100.0 * seconds(account.nanos()) / real;
    match processes <= 1 && real > 0.0 && share <= 100.0 {
        true => format!(", {share:.0} % of the elapsed time"),
        false => String::new(),
    }
}

/// The meter's overhead per call, if the overhead exceeds the duration of a typical call; and a
/// remark if the times are estimates.
fn overhead_per_call(account: &AccountReport<'_>) -> String {
    const MUCH: f64 = 2e-6;
    let calls = account.calls().max(1) as f64;
    let each = account.metered.overhead.as_secs_f64() / calls;
    let is_priced = account.gates.values().any(|gate| gate.is_priced);
    let times = match account.is_estimate && is_priced {
        true => "; times are calls x price",
        false => "",
    };
    match each >= MUCH {
        true => format!(" ({} per call{times})", duration(each)),
        false => times.to_owned(),
    }
}

/// Names the system calls whose times are measured in a report of estimates. Their time may
/// include time of the tracer. Empty if all times are measured, or all are estimates.
fn unpriced_calls(account: &AccountReport<'_>) -> String {
    let calls = costliest_calls(account).into_iter();
    let calls = calls.filter(|(name, gate)| {
        let has_time = gate.without(&account.waits_in(name)).calls > 0;
        account.is_estimate && !gate.is_priced && has_time
    });
    let (names, nanos): (Vec<&str>, Vec<u64>) =
        calls.map(|(name, gate)| (name, gate.sum.nanos)).unzip();
    match names.is_empty() {
        true => String::new(),
        false => format!(
            " Measured instead (may include time of the tracer): {} ({}).",
            names.join(", "),
            duration(seconds(nanos.iter().sum()))
        ),
    }
}

fn costliest_calls<'a>(account: &'a AccountReport<'_>) -> Vec<(&'static str, &'a GateTotal)> {
    let gates = account.gates.iter().map(|(name, gate)| (*name, gate));
    let mut gates: Vec<_> = gates.collect();
    gates.sort_by_key(|(_, gate)| Reverse((gate.sum.nanos, gate.sum.calls)));
    gates
}

/// The table of at most `most` system calls, costliest first, perhaps with their errors by errno.
pub(crate) fn calls_table(account: &AccountReport<'_>, most: usize, with_errors: bool) -> Table {
    let columns = columns![
        >"TIME", >"CALLS", >"ERRORS", >"PER CALL", <"SYSTEM CALL", <"ERRNO"
    ];
    let shown = if with_errors { 6 } else { 5 };
    let gates = costliest_calls(account).into_iter();
    let gates = gates.map(|(name, gate)| (name, gate.without(&account.waits_in(name))));
    let mut gates: Vec<_> = gates.filter(|(_, sum)| sum.calls > 0).collect();
    gates.truncate(most);
    let mut table = Table::new(&columns[..shown], gates.len());
    for (name, sum) in gates {
        let errors = account.errors_in(name).into_iter();
        let errors = errors.map(|(errno, n)| format!("{} {}", count(n), errno.name()));
        let errors: Vec<String> = errors.collect();
        let cells = [
            duration(seconds(sum.nanos)),
            count(sum.calls),
            count(sum.errors),
            average(&sum),
            name.to_owned(),
            errors.join(", "),
        ];
        table.row(cells.into_iter().take(shown), RowColour::Plain);
    }
    table
}

pub(crate) fn patterns_table(account: &AccountReport<'_>) -> Option<Table> {
    let columns = columns![>"COUNT", >"REDUNDANT", >"TIME", <"PATTERN", <"EXAMPLE"];
    let patterns = account.found_patterns();
    let rows = patterns.iter().map(|(pattern, found)| {
        let example = found.example.as_deref();
        [
            count(found.count),
            match found.calls {
                0 => "-".to_owned(),
                calls => count(calls),
            },
            duration(seconds(found.nanos)),
            pattern.name().to_owned(),
            example.map_or_else(String::new, |path| printable(path).into_owned()),
        ]
    });
    (!patterns.is_empty()).then(|| Table::from_rows(&columns, rows))
}

#[cfg(test)]
mod tests;
