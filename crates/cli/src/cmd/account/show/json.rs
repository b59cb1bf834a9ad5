//! The account of a command as JSON.

use std::borrow::Cow;
use std::collections::BTreeMap;

use account::figures::Figure;
use account::ledger::Sum;
use account::patterns::{FoundPattern, Pattern};
use account::report::{AccountReport, Coverage, FileRow, GateTotal, Groups, ProgramTotal};
use account::waits::Wait;
use account::whatif::{Obstacle, WhatIfChange};
use meter::call::CommandEnd;
use show::json_object;
use show::name::printable;

use crate::json::Json;
use crate::out::seconds;

json_object!(Json<'_, AccountReport<'_>>, |account| {
    "gates": gates_json(account),
    "waits": Json(&account.waits[..]),
    "programs": programs_json(&account.programs, account.nanos()),
    "processes": match &account.groups {
        Groups::Process(rows, _) => Some(programs_json(rows, account.nanos())),
        _ => None,
    },
    "by_directory": match &account.groups {
        Groups::Directory(rows, _) => Some(Json(&rows[..])),
        _ => None,
    },
    "per_file": Json(&account.per_file[..]),
    "per_directory": Json(&account.per_directory[..]),
    "detail": Json(&account.coverage),
    "patterns": Json(&account.patterns[..]),
    "what_if": Json(&account.what_if.changes[..]),
    "model": ModelJson(account),
    "meter": account.metered.meter,
    "why": account.metered.choice.to_string(),
    "lost": account.metered.lost,
    "unfinished": account.metered.unfinished,
    "overhead_seconds": account.metered.overhead.as_secs_f64(),
    "exit": account.metered.ended.status(),
    "signal": signal(account.metered.ended),
    some "attached": attached(account.metered.ended),
    "real": account.metered.real.as_secs_f64(),
    "user": account.metered.user.as_secs_f64(),
    "sys": account.metered.sys.as_secs_f64(),
});

/// The figures that `fathom compare` compares: the whole run, and calls and seconds of each system
/// call, program, directory and kind of wait.
pub(crate) fn figures(account: &AccountReport<'_>) -> Vec<Figure> {
    let metered = account.metered;
    let mut figures = vec![
        Figure::single("real", metered.real.as_secs_f64(), "s"),
        Figure::single("user", metered.user.as_secs_f64(), "s"),
        Figure::single("sys", metered.sys.as_secs_f64(), "s"),
        Figure::single("calls", account.calls() as f64, "calls"),
    ];
    let gates = account.gates.iter();
    let gates = gates.map(|(name, gate)| ((*name).to_owned(), gate.sum));
    let named = |kind: &str, name: &[u8]| format!("{kind} {}", printable(name));
    let programs = account.programs.iter();
    let programs = programs.map(|it| (named("program", &it.program), it.sum));
    let directories = account.per_directory.iter();
    let directories = directories.map(|it| (named("directory", it.path), it.sum));
    let waits = account.waits.iter();
    let waits = waits.map(|it| (format!("waiting for {}", it.kind.name()), it.sum));
    for (name, sum) in gates.chain(programs).chain(directories).chain(waits) {
        let (calls, seconds) = (sum.calls as f64, seconds(sum.nanos));
        figures.push(Figure::single(format!("{name} calls"), calls, "calls"));
        figures.push(Figure::single(format!("{name} seconds"), seconds, "s"));
    }
    figures
}

/// A row of a table, and the time of all system calls in nanoseconds, of which the row is a share.
struct RowShare<'a, T> {
    row: &'a T,
    all: u64,
}

struct GateJson<'a> {
    row: &'a GateTotal,
    waits: Sum,
    all: u64,
}

json_object!(GateJson<'_>, |gate| {
    "calls": gate.row.sum.calls,
    "errors": gate.row.sum.errors,
    "seconds": seconds(gate.row.sum.nanos),
    "ms_per_call": gate.row.without(&gate.waits).ms_per_call(),
    "percent": gate.row.sum.percent_of(gate.all),
    "errnos": gate.row.errors.iter().map(|(errno, n)| (errno.name(), n)).collect::<BTreeMap<Cow<str>, _>>(),
    "wait_calls": gate.waits.calls,
    "wait_seconds": seconds(gate.waits.nanos),
});

json_object!(Json<'_, Wait>, |wait| {
    "on": wait.kind.name(),
    "calls": wait.sum.calls,
    "errors": wait.sum.errors,
    "seconds": seconds(wait.sum.nanos),
    "gates": wait.gates.iter().map(|(name, sum)| (*name, sum.calls)).collect::<BTreeMap<_, _>>(),
});

json_object!(RowShare<'_, ProgramTotal>, |share| {
    name "program": Some(&share.row.program),
    some "pid": share.row.pid,
    "processes": share.row.processes,
    "calls": share.row.sum.calls,
    "wait_calls": share.row.wait_calls,
    "errors": share.row.sum.errors,
    "seconds": seconds(share.row.sum.nanos),
    "percent": share.row.sum.percent_of(share.all),
    "gates": share.row.gates,
});

fn gates_json<'a>(account: &'a AccountReport<'_>) -> BTreeMap<&'static str, GateJson<'a>> {
    let all = account.nanos();
    let gates = account.gates.iter().map(|(name, row)| {
        let waits = account.waits_in(name);
        (*name, GateJson { row, waits, all })
    });
    gates.collect()
}

fn programs_json(rows: &[ProgramTotal], all: u64) -> Vec<RowShare<'_, ProgramTotal>> {
    rows.iter().map(|row| RowShare { row, all }).collect()
}

json_object!(Json<'_, FileRow<'_>>, |place| {
    name "path": Some(place.path),
    some "files": place.files,
    "calls": place.sum.calls,
    "errors": place.sum.errors,
    "seconds": seconds(place.sum.nanos),
    "gates": place.gates,
});

json_object!(Json<'_, Sum>, |sum| {
    "calls": sum.calls,
    "errors": sum.errors,
    "seconds": seconds(sum.nanos),
});

json_object!(Json<'_, Coverage>, |coverage| {
    "calls": coverage.calls,
    "complete": coverage.complete,
    "files": coverage.files,
    "directories": coverage.directories,
    "unheld": Json(&coverage.unheld),
    "nameless": Json(&coverage.nameless),
    "forgotten": coverage.forgotten,
});

json_object!(Json<'_, (Pattern, &FoundPattern)>, |pattern| {
    "name": pattern.0.0.name(),
    "count": pattern.0.1.count,
    "calls": pattern.0.1.calls,
    "seconds": seconds(pattern.0.1.nanos),
    name "example": pattern.0.1.example.as_deref(),
});

json_object!(Json<'_, WhatIfChange>, |change| {
    "change": change.kind.name(),
    "saves_calls": change.calls,
    "saves_seconds": change.seconds,
    "saves_percent": change.percent,
    "saves_overhead_seconds": change.overhead,
    "elapsed_seconds": change.elapsed,
    "too_short": change.is_too_short(),
    "advised": change.is_advised(),
    "obstacle": change.obstacle.map(Obstacle::name),
    "how": super::how::how(change.kind),
});

struct ModelJson<'a>(&'a AccountReport<'a>);

json_object!(ModelJson<'_>, |account| {
    "fixed_ns": account.0.what_if.fixed,
    "prices": account.0.price_source,
    "times": if account.0.is_estimate { "estimated" } else { "measured" },
    "cpu_seconds": account.0.what_if.cpu,
    "priced_seconds": account.0.what_if.priced,
    "elapsed_seconds": account.0.what_if.elapsed,
});

/// Number of attached processes; `None` if fathom ran a command.
fn attached(ended: CommandEnd) -> Option<usize> {
    match ended {
        CommandEnd::Detached(processes) => Some(processes),
        CommandEnd::Exited(_) | CommandEnd::Killed(_) => None,
    }
}

pub(super) fn signal(ended: CommandEnd) -> Option<i32> {
    match ended {
        CommandEnd::Killed(signal) => Some(signal),
        CommandEnd::Exited(_) | CommandEnd::Detached(_) => None,
    }
}
