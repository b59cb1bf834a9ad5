//! The account of a command in words and as JSON: `fathom account` and the survey print it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use account::ledger::Sum;
use account::patterns::{Found, Pattern};
use account::report::{AccountReport, Coverage, GateTotal, Groups, Place, ProgramTotal};
use account::whatif::Change;
use meter::call::Ended;
use show::json_object;
use show::name::printable;
use show::serde::ser::SerializeMap;
use show::serde::{Serialize, Serializer};
use show::table::{Align, Table, TableStyle, Tone, wrap};

use crate::out::seconds;

/// The account as JSON.
pub(crate) struct AccountJson<'a>(pub(crate) &'a AccountReport<'a>);

json_object!(AccountJson<'_>, |account| {
    "gates": gates_json(account.0),
    "programs": programs_json(&account.0.programs, account.0.nanos()),
    "processes": match &account.0.groups {
        Groups::Process(rows, _) => Some(programs_json(rows, account.0.nanos())),
        _ => None,
    },
    "by_directory": match &account.0.groups {
        Groups::Directory(rows, _) => Some(places_json(rows)),
        _ => None,
    },
    "per_file": places_json(&account.0.per_file),
    "per_directory": places_json(&account.0.per_directory),
    "detail": CoverageJson(account.0.coverage),
    "patterns": account.0.patterns.iter().map(PatternJson).collect::<Vec<_>>(),
    "what_if": account.0.what_if.changes.iter().map(ChangeJson).collect::<Vec<_>>(),
    "model": ModelJson(account.0),
    "meter": account.0.metered.meter,
    "why": account.0.metered.why(),
    "lost": account.0.metered.lost,
    "unfinished": account.0.metered.unfinished,
    "overhead_seconds": account.0.metered.overhead.as_secs_f64(),
    "exit": account.0.metered.ended.status(),
    "signal": signal(account.0.metered.ended),
    "real": account.0.metered.real.as_secs_f64(),
    "user": account.0.metered.user.as_secs_f64(),
    "sys": account.0.metered.sys.as_secs_f64(),
});

struct GateJson<'a> {
    gate: &'a GateTotal,
    /// Time in all gates, in nanoseconds.
    all: u64,
}

json_object!(GateJson<'_>, |row| {
    "calls": row.gate.sum.calls,
    "errors": row.gate.sum.errors,
    "seconds": seconds(row.gate.sum.nanos),
    "ms_per_call": row.gate.sum.ms_per_call(),
    "percent": row.gate.sum.percent_of(row.all),
    "errnos": row.gate.errors.iter().map(|(errno, n)| (errno.name(), n)).collect::<BTreeMap<Cow<str>, _>>(),
});

fn gates_json<'a>(account: &'a AccountReport<'_>) -> BTreeMap<&'static str, GateJson<'a>> {
    let all = account.nanos();
    let gates = account.gates.iter();
    gates
        .map(|(name, gate)| (*name, GateJson { gate, all }))
        .collect()
}

struct ProgramJson<'a> {
    row: &'a ProgramTotal,
    /// Time in all gates, in nanoseconds.
    all: u64,
}

impl Serialize for ProgramJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let row = self.row;
        let mut map = serializer.serialize_map(None)?;
        show::name::entry(&mut map, "program", Some(&row.program))?;
        if let Some(pid) = row.pid {
            map.serialize_entry("pid", &pid)?;
        }
        map.serialize_entry("processes", &row.processes)?;
        serialize_sum(&mut map, &row.sum)?;
        map.serialize_entry("percent", &row.sum.percent_of(self.all))?;
        map.serialize_entry("gates", &row.gates)?;
        map.end()
    }
}

fn programs_json(rows: &[ProgramTotal], all: u64) -> Vec<ProgramJson<'_>> {
    rows.iter().map(|row| ProgramJson { row, all }).collect()
}

struct PlaceJson<'a>(&'a Place<'a>);

impl Serialize for PlaceJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        show::name::entry(&mut map, "path", Some(self.0.path))?;
        if let Some(files) = self.0.files {
            map.serialize_entry("files", &files)?;
        }
        serialize_sum(&mut map, &self.0.sum)?;
        map.serialize_entry("gates", &self.0.gates)?;
        map.end()
    }
}

fn places_json<'a>(rows: &'a [Place<'a>]) -> Vec<PlaceJson<'a>> {
    rows.iter().map(PlaceJson).collect()
}

fn serialize_sum<M: SerializeMap>(map: &mut M, sum: &Sum) -> Result<(), M::Error> {
    map.serialize_entry("calls", &sum.calls)?;
    map.serialize_entry("errors", &sum.errors)?;
    map.serialize_entry("seconds", &seconds(sum.nanos))
}

struct SumJson(Sum);

json_object!(SumJson, |sum| {
    "calls": sum.0.calls,
    "errors": sum.0.errors,
    "seconds": seconds(sum.0.nanos),
});

struct CoverageJson(Coverage);

json_object!(CoverageJson, |coverage| {
    "calls": coverage.0.calls,
    "complete": coverage.0.complete,
    "files": coverage.0.files,
    "directories": coverage.0.directories,
    "unheld": SumJson(coverage.0.unheld),
    "nameless": SumJson(coverage.0.nameless),
    "forgotten": coverage.0.forgotten,
});

struct PatternJson<'a>(&'a (Pattern, &'a Found));

json_object!(PatternJson<'_>, |pattern| {
    "name": pattern.0.0.name(),
    "count": pattern.0.1.count,
    "calls": pattern.0.1.calls,
    "seconds": seconds(pattern.0.1.nanos),
    name "example": pattern.0.1.example.as_deref(),
});

struct ChangeJson<'a>(&'a Change);

json_object!(ChangeJson<'_>, |change| {
    "change": change.0.name,
    "saves_calls": change.0.calls,
    "saves_seconds": change.0.seconds,
    "saves_percent": change.0.percent,
    "saves_overhead_seconds": change.0.overhead,
    "elapsed_seconds": change.0.elapsed,
    "advised": change.0.advised,
    "how": change.0.how,
});

struct ModelJson<'a>(&'a AccountReport<'a>);

json_object!(ModelJson<'_>, |account| {
    "fixed_ns": account.0.what_if.fixed,
    "prices": account.0.price_source,
    "cpu_seconds": account.0.what_if.cpu,
    "priced_seconds": account.0.what_if.priced,
});

fn signal(ended: Ended) -> Option<i32> {
    match ended {
        Ended::Killed(signal) => Some(signal),
        Ended::Exited(_) => None,
    }
}

/// The gates and the changes, for a page that has more to say.
pub(crate) fn brief(account: &AccountReport<'_>, style: TableStyle) -> String {
    let gates = gates_table(account).to_text(style.width, style.color);
    let what_if = what_if_text(account, style)
        .map(|text| format!("\n{text}"))
        .unwrap_or_default();
    format!("{}\n{gates}{what_if}", head(account, style))
}

/// [`sentences`], wrapped.
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
    gates.sort_by_key(|(_, gate)| std::cmp::Reverse((gate.sum.nanos, gate.sum.calls)));
    let mut table = Table::new(&columns, gates.len());
    for (name, gate) in gates {
        let mut errors: Vec<_> = gate
            .errors
            .iter()
            .map(|(errno, n)| (std::cmp::Reverse(*n), errno.name()))
            .collect();
        errors.sort();
        let errors: Vec<String> = errors
            .into_iter()
            .map(|(n, errno)| format!("{} {errno}", n.0))
            .collect();
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

/// The redundant patterns; `None` when there is none.
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
    let how: String = changes
        .iter()
        .map(|change| line(style, &explain_change(change)))
        .collect();
    Some(format!(
        "{}\n{table}{how}",
        line(style, &model_sentence(account))
    ))
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
            change.name.to_owned(),
        ];
        let tone = if change.advised {
            Tone::Plain
        } else {
            Tone::Dim
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
    format!("{}: {}", change.name, change.how)
}

/// A line of text, wrapped.
pub(crate) fn line(style: TableStyle, text: &str) -> String {
    wrap(text, style.width.unwrap_or(80)) + "\n"
}

/// A time with as many decimals as are significant.
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 0.1 {
        format!("{:.3} ms", 1000.0 * seconds)
    } else {
        format!("{seconds:.3} s")
    }
}
