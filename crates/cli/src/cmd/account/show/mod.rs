//! The text of `fathom account COMMAND`.

use std::cmp::Reverse;
use std::time::Duration;

use account::ledger::Sum;
use account::report::{AccountReport, GateTotal, Groups, Place, ProgramTotal};
use account::waits::WaitKind;
use account::whatif::Change;
use meter::call::{Ended, Metered};
use meter::names::DescriptorKind;
use show::name::printable;
use show::table::{Align, Table, TableStyle, Tone, wrap};
use show::units::{count, duration};

use crate::out::seconds;

use self::how::{explain_meter, explain_pattern, how};

pub(crate) mod formats;
pub(crate) mod how;
pub(crate) mod intervals;
mod json;
pub(crate) mod memo;
pub(crate) mod screen;

pub(super) const SCHEMA: &str = "fathom.account/1";

/// How many rows tables have at most.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Programs, files and directories.
    pub(super) rows: usize,
    /// System calls.
    pub(super) calls: usize,
}

/// The account of a command. With `verbose`, why the meter was chosen.
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
    let gates = gates_table(account, limits.calls).to_text(style.width, style.color);
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
        ("TIME", Align::Right),
        ("CALLS", Align::Right),
        ("ERRORS", Align::Right),
    ];

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
        let columns = [(id, Align::Right), ("PROGRAM", Align::Left)];
        let columns = [&Self::SUM[..], &columns].concat();
        let mut table = Table::new(&columns, rows.len().min(self.top));
        for row in rows.iter().take(self.top) {
            let id = row
                .pid
                .map_or_else(|| count(row.processes), |pid| pid.to_string());
            let cells = [id, printable(&row.program).into_owned()];
            table.row(self.sum(&row.sum).into_iter().chain(cells), Tone::Plain);
        }
        self.finish(&table, all)
    }

    fn places(&self, rows: &[Place<'_>], all: u64) -> String {
        let has_files = rows.iter().any(|row| row.files.is_some());
        let files = has_files.then_some(("FILES", Align::Right));
        let columns = Self::SUM.into_iter().chain(files);
        let columns: Vec<_> = columns.chain([("PATH", Align::Left)]).collect();
        let mut table = Table::new(&columns, rows.len().min(self.top));
        for row in rows.iter().take(self.top) {
            let files = row.files.map(count);
            let path = printable(row.path).into_owned();
            let cells = self.sum(&row.sum).into_iter().chain(files).chain([path]);
            table.row(cells, Tone::Plain);
        }
        self.finish(&table, all)
    }

    fn finish(&self, table: &Table, all: u64) -> String {
        table.to_text(self.style.width, self.style.color) + &more(all, self.top)
    }
}

/// How many of `all` rows are not shown.
fn more(all: u64, shown: usize) -> String {
    match all.saturating_sub(shown as u64) {
        0 => String::new(),
        more => format!("{} more (see --top)\n", count(more)),
    }
}

/// What the rows by file and directory do not cover.
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
            "Files, directories, redundant calls and savings are of the first {} of {} calls (see --calls).",
            count(coverage.calls),
            count(account.calls())
        ));
    }
    text
}

/// The gates and the changes, for a page that has more to say.
pub(crate) fn brief(account: &AccountReport<'_>, style: TableStyle) -> String {
    let gates = gates_table(account, usize::MAX).to_text(style.width, style.color);
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
    let ended = match metered.ended {
        Ended::Killed(signal) => format!("Killed by signal {signal} (exit status {status})"),
        Ended::Exited(_) => format!("Exit status {status}"),
        Ended::Detached(1) => "Attached to 1 process".to_owned(),
        Ended::Detached(processes) => format!("Attached to {} processes", count(processes as u64)),
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
            "{} on files took {}{}{lost}; metered by {}, overhead {}{}.",
            call_count(account.calls() - wait_calls(account)),
            duration(seconds(account.nanos())),
            share_of_real(account),
            metered.meter,
            duration(metered.overhead.as_secs_f64()),
            overhead_per_call(account),
        ),
    ]
}

/// What calls waited for, at least so many nanoseconds for one kind of thing.
fn waits_sentence(account: &AccountReport<'_>, least: u64) -> Option<String> {
    const MOST: usize = 3;
    let waits = account.waits.iter().filter(|wait| wait.sum.nanos >= least);
    let waits = waits.take(MOST).map(|wait| {
        let time = duration(seconds(wait.sum.nanos));
        format!(
            "{} {time} ({})",
            plural(wait.kind),
            call_count(wait.sum.calls)
        )
    });
    let waits = waits.collect::<Vec<_>>().join(", ");
    (!waits.is_empty()).then(|| format!("Waiting, not included: {waits}."))
}

fn wait_calls(account: &AccountReport<'_>) -> u64 {
    account.waits.iter().map(|wait| wait.sum.calls).sum()
}

fn plural(kind: WaitKind) -> &'static str {
    match kind {
        WaitKind::On(DescriptorKind::File) => "files",
        WaitKind::On(DescriptorKind::Pipe) => "pipes",
        WaitKind::On(DescriptorKind::Socket) => "sockets",
        WaitKind::On(DescriptorKind::Terminal) => "terminals",
        WaitKind::On(DescriptorKind::Event) => "eventfd",
        WaitKind::On(DescriptorKind::Timer) => "timers",
        WaitKind::On(DescriptorKind::Watch) => "inotify",
        WaitKind::On(DescriptorKind::Other) => "other kernel objects",
        WaitKind::On(DescriptorKind::Unknown) => "unknown descriptors",
        WaitKind::Lock => "locks",
    }
}

fn waits_table(account: &AccountReport<'_>) -> Table {
    use Align::{Left, Right};
    let columns = [
        ("TIME", Right),
        ("CALLS", Right),
        ("ERRORS", Right),
        ("PER CALL", Right),
        ("WAITING FOR", Left),
        ("SYSTEM CALLS", Left),
    ];
    let mut table = Table::new(&columns, account.waits.len());
    for wait in &account.waits {
        let mut gates: Vec<_> = wait.gates.iter().collect();
        gates.sort_by_key(|(_, sum)| Reverse(sum.nanos));
        let gates = gates.into_iter();
        let gates = gates.map(|(name, sum)| format!("{} {name}", count(sum.calls)));
        let cells = [
            duration(seconds(wait.sum.nanos)),
            count(wait.sum.calls),
            count(wait.sum.errors),
            average(&wait.sum),
            plural(wait.kind).to_owned(),
            gates.collect::<Vec<_>>().join(", "),
        ];
        table.row(cells, Tone::Plain);
    }
    table
}

/// The times of the command, as time(1) gives them. The kernel divides CPU time into user and system
/// time by the ticks of a clock: of a short command it may give all to one of them.
fn times(metered: &Metered) -> String {
    let text = |time: Duration| duration(time.as_secs_f64());
    let real = text(metered.real);
    let (user, sys) = (metered.user, metered.sys);
    match user.is_zero() || sys.is_zero() {
        true => format!("{real} real, {} user and system", text(user + sys)),
        false => format!("{real} real, {} user, {} system", text(user), text(sys)),
    }
}

/// The part of the elapsed time that was spent in the calls. That of processes which ran at the same
/// time may exceed it, and says nothing.
fn share_of_real(account: &AccountReport<'_>) -> String {
    let real = account.metered.real.as_secs_f64();
    let processes: u64 = account.programs.iter().map(|one| one.processes).sum();
    let share = 100.0 * seconds(account.nanos()) / real;
    match processes <= 1 && real > 0.0 && share <= 100.0 {
        true => format!(", {share:.0} % of the elapsed time"),
        false => String::new(),
    }
}

/// The overhead of each call, where it is more than most calls take, and what the times are then.
fn overhead_per_call(account: &AccountReport<'_>) -> String {
    const MUCH: f64 = 2e-6;
    let calls = account.calls().max(1) as f64;
    let each = account.metered.overhead.as_secs_f64() / calls;
    let times = match account.is_estimate {
        true => "; times are calls x price",
        false => "",
    };
    match each >= MUCH {
        true => format!(" ({} per call{times})", duration(each)),
        false => times.to_owned(),
    }
}

/// The calls by name, costliest first; at most so many. With their errors by number.
pub(crate) fn gates_table(account: &AccountReport<'_>, most: usize) -> Table {
    calls_table(account, most, true)
}

fn costliest_calls<'a>(account: &'a AccountReport<'_>) -> Vec<(&'static str, &'a GateTotal)> {
    let gates = account.gates.iter().map(|(name, gate)| (*name, gate));
    let mut gates: Vec<_> = gates.collect();
    gates.sort_by_key(|(_, gate)| Reverse((gate.sum.nanos, gate.sum.calls)));
    gates
}

fn calls_table(account: &AccountReport<'_>, most: usize, with_errors: bool) -> Table {
    use Align::{Left, Right};
    let columns = [
        ("TIME", Right),
        ("CALLS", Right),
        ("ERRORS", Right),
        ("PER CALL", Right),
        ("SYSTEM CALL", Left),
        ("ERRNO", Left),
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
        table.row(cells.into_iter().take(shown), Tone::Plain);
    }
    table
}

/// The mean time of a call.
fn average(sum: &Sum) -> String {
    match sum.calls {
        0 => "-".to_owned(),
        _ => duration(sum.ms_per_call() / 1e3),
    }
}

pub(crate) fn patterns_table(account: &AccountReport<'_>) -> Option<Table> {
    use Align::{Left, Right};
    let columns = [
        ("COUNT", Right),
        ("REDUNDANT", Right),
        ("TIME", Right),
        ("PATTERN", Left),
        ("EXAMPLE", Left),
    ];
    let patterns = account.found_patterns();
    let mut table = Table::new(&columns, patterns.len());
    for (pattern, found) in &patterns {
        let example = found.example.as_deref();
        let cells = [
            count(found.count),
            match found.calls {
                0 => "-".to_owned(),
                calls => count(calls),
            },
            duration(seconds(found.nanos)),
            pattern.name().to_owned(),
            example.map_or_else(String::new, |path| printable(path).into_owned()),
        ];
        table.row(cells, Tone::Plain);
    }
    (!patterns.is_empty()).then_some(table)
}

/// What each change would save, and how; `None` when nothing would be saved.
pub(crate) fn what_if_text(account: &AccountReport<'_>, style: TableStyle) -> Option<String> {
    let too_short = too_short_sentence(account).map(|text| line(style, &text));
    let Some(table) = what_if_table(account) else {
        return too_short;
    };
    let table = table.to_text(style.width, style.color);
    let how = saving_changes(account);
    let how = how.map(|change| line(style, &explain_change(change)));
    let how: String = how.collect();
    let model = line(style, &model_sentence(account));
    let too_short = too_short.unwrap_or_default();
    Some(format!("{model}\n{table}\n{how}{too_short}"))
}

/// The changes that would save time, and rest on enough calls; the best first.
pub(crate) fn saving_changes<'a>(
    account: &AccountReport<'a>,
) -> impl Iterator<Item = &'a Change> + use<'a> {
    let changes = account.effective_changes().into_iter();
    changes.filter(|change| change.seconds > 0.0 && !change.is_too_short())
}

/// The changes whose calls were too few or too short, if there are any.
pub(crate) fn too_short_sentence(account: &AccountReport<'_>) -> Option<String> {
    let changes = account.effective_changes().into_iter();
    let names = changes.filter(|change| change.seconds > 0.0 && change.is_too_short());
    let names: Vec<&str> = names.map(|change| change.kind.name()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "{}: too short to estimate (fewer than 100 calls, or less than 10 ms in them).",
            names.join(", ")
        )
    })
}

/// What each change would save; `None` when nothing would be saved.
pub(crate) fn what_if_table(account: &AccountReport<'_>) -> Option<Table> {
    use Align::{Left, Right};
    let (time, percent) = match account.what_if.elapsed {
        Some(_) => ("ELAPSED", "%ELAPSED"),
        None => ("CPU TIME", "%CPU"),
    };
    let columns = [
        (time, Right),
        (percent, Right),
        ("CALLS", Right),
        ("1974 MODEL", Right),
        ("CHANGE", Left),
    ];
    let mut table = Table::new(&columns, 0);
    for change in saving_changes(account) {
        let cells = [
            duration(change.seconds),
            format!("{:.1}", change.percent),
            count(u64::try_from(change.calls).unwrap_or_default()),
            duration(change.overhead.max(0.0)),
            change.kind.name().to_owned(),
        ];
        let tone = match change.advised {
            true => Tone::Plain,
            false => Tone::Dim,
        };
        table.row(cells, tone);
    }
    (!table.is_empty()).then_some(table)
}

/// What percents are of, and where prices are from.
pub(crate) fn model_sentence(account: &AccountReport<'_>) -> String {
    let time = match account.what_if.elapsed {
        Some(_) => "elapsed time, most of it waiting for a network file system",
        None => "CPU time",
    };
    format!(
        "Estimated savings of {} {time}. 1974 MODEL is {} for each call avoided. Call prices: {}.",
        duration(account.what_if.all()),
        duration(account.what_if.fixed / 1e9),
        account.price_source
    )
}

/// How a change is done, or why it cannot be.
pub(crate) fn explain_change(change: &Change) -> String {
    format!("{}: {}", change.kind.name(), how(change.kind))
}

pub(crate) fn line(style: TableStyle, text: &str) -> String {
    wrap(text, style.width.unwrap_or(80)) + "\n"
}

fn call_count(calls: u64) -> String {
    format!(
        "{} {}",
        count(calls),
        if calls == 1 { "call" } else { "calls" }
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use account::patterns::{Found, Pattern, Spare};
    use account::report::Coverage;
    use account::waits::Wait;
    use account::whatif::{Basis, Change, ChangeKind, WhatIf};
    use gate::Errno;
    use meter::call::{Choice, Ended};
    use proptest::prelude::*;
    use show::serde_json;
    use unicode_width::UnicodeWidthStr;

    use super::*;
    use crate::json::Json;

    /// An account of one gate, made by hand. It is leaked, as tests may.
    pub(crate) fn report(path: &[u8]) -> AccountReport<'static> {
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
            calls: 1900,
            seconds: 0.005,
            percent: 0.5,
            overhead: 0.006,
            elapsed: Some(0.02),
            basis: Basis {
                calls: 1900,
                seconds: 0.02,
            },
            advised: true,
        };
        let short = Change {
            kind: ChangeKind::Spare(Spare::KeepStat),
            basis: Basis {
                calls: 99,
                seconds: 0.02,
            },
            ..change.clone()
        };
        AccountReport {
            gates: BTreeMap::from([("openat", gate)]),
            waits: vec![Wait {
                kind: WaitKind::On(DescriptorKind::Pipe),
                sum: Sum {
                    calls: 20,
                    errors: 0,
                    nanos: 3_000_000_000,
                },
                gates: BTreeMap::new(),
                errors: BTreeMap::new(),
            }],
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
                elapsed: None,
                changes: vec![change, short],
            })),
            price_source: "measured here",
            is_estimate: true,
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
        let limits = Limits {
            rows: 10,
            calls: usize::MAX,
        };
        let text = account_text(&report(b"/usr/bin/x"), style, limits, false);
        for line in [
            "Killed by signal 9 (exit status 137); 10.0 ms real, 1.00 ms user, 2.00 ms",
            "   TIME CALLS ERRORS PER CALL SYSTEM CALL ERRNO",
            "1.20 ms   120     20  10.0 µs openat      19 ENOENT, 1 EACCES",
            "%TIME    TIME CALLS ERRORS PID PROGRAM",
            "100.0 1.20 ms   120     20   7 /usr/bin/x",
            "100.0 1.20 ms   120     20     2 /usr/bin/x",
            "Waiting, not included: pipes 3.00 s (20 calls).",
            "3.00 s    20      0   150 ms pipes",
            "2 more (see --top)",
            "3 more (see --top)",
            "COUNT REDUNDANT   TIME PATTERN EXAMPLE",
            "   20        20 100 µs miss    /usr/bin/x",
            "CPU TIME %CPU CALLS 1974 MODEL CHANGE",
            " 5.00 ms  0.5 1,900    6.00 ms cache-misses",
            "miss: a lookup by name fails (ENOENT, ENOTDIR)",
            "keep-stat: too short to estimate (fewer than 100 calls, or less than 10 ms in",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
        }
    }

    #[test]
    fn errors_of_calls_that_waited_are_in_their_own_table() {
        let mut account = report(b"/usr/bin/x");
        let waited = Sum {
            calls: 20,
            errors: 15,
            nanos: 0,
        };
        account.waits[0].gates = BTreeMap::from([("openat", waited)]);
        account.waits[0].errors = BTreeMap::from([(("openat", Errno::ENOENT.0), 15)]);
        let text = gates_table(&account, 10).to_text(Some(100), false);
        let row = "1.20 ms   100      5  12.0 µs openat      4 ENOENT, 1 EACCES";
        assert!(text.lines().any(|shown| shown == row), "{text}");
    }

    #[test]
    fn head_gives_the_share_of_files_and_the_overhead_of_a_call() {
        let mut account = report(b"/usr/bin/x");
        account.programs[0].processes = 1;
        let mut metered = account.metered.clone();
        metered.user = Duration::ZERO;
        account.metered = &metered;
        let [ended, calls] = sentences(&account);
        assert!(
            ended.ends_with("10.0 ms real, 2.00 ms user and system."),
            "{ended}"
        );
        assert_eq!(
            calls,
            "100 calls on files took 1.20 ms, 12 % of the elapsed time; metered by ptrace, \
             overhead 2.00 ms (16.7 µs per call; times are calls x price)."
        );
        account.programs[0].processes = 2;
        assert!(!sentences(&account)[1].contains('%'));
        let limits = Limits { rows: 10, calls: 0 };
        let text = account_text(&account, TableStyle::default(), limits, false);
        assert!(text.contains("\n1 more (see --top)\n"), "{text}");
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
            width in 40..120_usize,
        ) {
            let style = TableStyle { width: Some(width), ..TableStyle::default() };
            let text = account_text(&report(&path), style, Limits { rows: 5, calls: 5 }, true);
            prop_assert!(!text.contains(|c: char| c.is_control() && c != '\n'));
            prop_assert!(text.lines().all(|line| line.width() <= width), "{}", text);
        }
    }
}
