//! The report of `fathom dump --account`, in the form of the tables of the Multics memo of 1974.

use std::time::Duration;

use account::PerKind;
use account::dump::{
    DumpAccount, DumpCost, FunctionShare, GateUse, GatherOption, MeasuredGathering,
};
use gate::attribution::Function;
use show::table::{Table, TableStyle};
use show::units::{duration, plural};
use show::{columns, json_object};

use crate::cmd::account::show::memo::Grid;
use crate::json::Json;

json_object!(Json<'_, DumpAccount>, |account| {
    "directories": account.directories,
    "files": account.files,
    "seconds": account.cpu.as_secs_f64(),
    "metering_seconds": account.metering.as_secs_f64(),
    "functions": Json(&account.functions[..]),
    "gates": Json(&account.gates[..]),
    "fixed_ms": account.fixed_ms,
    "cheapest": account.cheapest,
    "options": Json(&account.options[..]),
});

json_object!(Json<'_, FunctionShare>, |row| {
    "name": row.function.name(),
    "seconds": row.cpu.as_secs_f64(),
    "percent": row.percent,
});

json_object!(Json<'_, GateUse>, |row| {
    "gate": row.gate.name(),
    "function": row.function.name(),
    "for_effect": row.function == Function::Effect,
    "calls": row.calls,
    "ms_per_call": row.ms,
    "calls_per_dir": row.each.dir,
    "calls_per_file": row.each.file,
});

json_object!(Json<'_, DumpCost>, |figure| {
    "calls": figure.calls,
    "overhead": figure.cost.overhead,
    "useful": figure.cost.useful,
    "total": figure.cost.total(),
});

json_object!(Json<'_, PerKind<DumpCost>>, |figures| {
    "dir": Json(&figures.dir),
    "file": Json(&figures.file),
});

json_object!(Json<'_, MeasuredGathering>, |measured| {
    "dir": Json(&measured.each.dir),
    "file": Json(&measured.each.file),
    "calls": measured.calls,
    "gates_seconds": measured.gates.as_secs_f64(),
    "own_seconds": measured.own.as_secs_f64(),
});

json_object!(Json<'_, GatherOption>, |option| {
    "name": option.name,
    "predicted": Json(&option.predicted),
    "measured": Json(&option.measured),
    "why": option.reason.as_ref().map(ToString::to_string),
});

fn function_text(function: Function) -> &'static str {
    match function {
        Function::Information => "system calls for information",
        Function::Effect => "system calls for effect",
        other => other.name(),
    }
}

/// Three tables: CPU time by function, system calls, and methods of reading metadata.
pub(crate) fn account_text(account: &DumpAccount, style: TableStyle) -> String {
    let functions = style.wrapped(&format!(
        "CPU time by function (total {}; the measurement took {} more):",
        duration(account.cpu.as_secs_f64()),
        duration(account.metering.as_secs_f64())
    ));
    let gates = style.wrapped(&format!(
        "System calls, in CPU time, for {} and {}; * changes something:",
        plural(account.directories, "directory", "directories"),
        plural(account.files, "other entry", "other entries")
    ));
    let options = style.wrapped(&format!(
        "Methods to read metadata, in µs of CPU time of system calls. By the model, a call has an overhead of {:.3} µs \
         ({}), and the rest is useful:",
        1000.0 * account.fixed_ms,
        account.cheapest
    ));
    let mut text = [
        functions,
        functions_text(account, style),
        "\n".to_owned(),
        gates,
        gates_text(account, style),
        "\n".to_owned(),
        options,
        options_text(account, style),
    ]
    .concat();
    for option in &account.options {
        if let Some(reason) = &option.reason {
            text += &style.wrapped(&format!("{} is unavailable: {reason}", option.name));
        }
    }
    text
}

fn functions_text(account: &DumpAccount, style: TableStyle) -> String {
    let columns = columns![<"FUNCTION", >"%", >"TIME"];
    let rows = account.functions.iter().map(|row| {
        [
            function_text(row.function).to_owned(),
            format!("{:.1}", row.percent),
            duration(row.cpu.as_secs_f64()),
        ]
    });
    Table::from_rows(&columns, rows).to_text(style.width, style.color)
}

fn gates_text(account: &DumpAccount, style: TableStyle) -> String {
    /// Minimum number of calls per entry for which a system call is listed as repeated.
    const REPEATED: f64 = 0.005;
    let columns = columns![
        <"CALL", >"TIME/CALL", >"CALLS/DIR", >"CALLS/FILE", <"PURPOSE"
    ];
    let is_repeated = |row: &&GateUse| row.each.dir.max(row.each.file) >= REPEATED;
    let (repeated, others): (Vec<&GateUse>, Vec<_>) = account.gates.iter().partition(is_repeated);
    let rows = repeated.into_iter().map(|row| {
        let (mark, purpose) = match row.function {
            Function::Information => ("", "information"),
            Function::Effect => ("*", "effect"),
            other => ("", other.name()),
        };
        [
            format!("{mark}{}", row.gate.name()),
            duration(row.ms / 1000.0),
            format!("{:.3}", row.each.dir),
            format!("{:.3}", row.each.file),
            purpose.to_owned(),
        ]
    });
    let mut text = Table::from_rows(&columns, rows).to_text(style.width, style.color);
    if !others.is_empty() {
        let calls = others.iter().map(|row| row.calls).sum();
        let others = plural(others.len() as u64, "other call", "other calls");
        let calls = plural(calls, "time", "times");
        text += &style.wrapped(&format!("{others} not repeated for each entry: {calls}"));
    }
    text
}

fn options_text(account: &DumpAccount, style: TableStyle) -> String {
    let mut grid = Grid::new(&account.options, |option| option.name);
    let us = |ms: f64| format!("{:.3}", 1000.0 * ms);
    type CostSelector = fn(PerKind<DumpCost>) -> DumpCost;
    for (what, pick) in [
        ("Directories", (|f| f.dir) as CostSelector),
        ("Files", |f| f.file),
    ] {
        grid.heading(what);
        let predicted = |option: &GatherOption| Some(pick(option.predicted));
        let measured = |option: &GatherOption| option.measured.map(|measured| pick(measured.each));
        let mut rows = |by: &str, figure: &dyn Fn(&GatherOption) -> Option<DumpCost>| {
            let mut row = |what: &str, text: &dyn Fn(DumpCost) -> String| {
                grid.row(&format!("  {what}, {by}"), |option| {
                    figure(option).map(text)
                });
            };
            row("calls", &|f| format!("{:.3}", f.calls));
            row("overhead", &|f| us(f.cost.overhead));
            row("useful", &|f| us(f.cost.useful));
            row("total", &|f| us(f.cost.total()));
        };
        rows("predicted", &predicted);
        rows("measured", &measured);
    }
    let entries = (account.directories + account.files).max(1) as f64;
    grid.heading("Each entry, measured");
    let mut row = |what: &str, time: fn(&MeasuredGathering) -> Duration| {
        grid.row(what, |option| {
            let time = option.measured.as_ref().map(time)?;
            Some(us(1000.0 * time.as_secs_f64() / entries))
        });
    };
    row("  in system calls", |measured| measured.gates);
    row("  in the program", |measured| measured.own);
    grid.to_text(style)
}

#[cfg(test)]
mod tests {
    use super::*;
    use account::Cost;
    use gate::Gate;

    fn account() -> DumpAccount {
        let figure = |calls, overhead, useful| DumpCost {
            calls,
            cost: Cost { overhead, useful },
        };
        let figures = PerKind::new(figure(6.0, 0.002, 0.001), figure(1.0, 0.0004, 0.0));
        let gate = |gate, calls, per| GateUse {
            gate,
            function: Function::Information,
            calls,
            ms: 0.0004,
            each: PerKind::new(per, per),
        };
        let raw = GatherOption {
            name: "raw",
            predicted: figures,
            measured: None,
            reason: Some(archive::account::Unavailable::NoDirectory),
        };
        let measured = MeasuredGathering {
            each: figures,
            calls: 60,
            gates: Duration::from_millis(500),
            own: Duration::from_millis(250),
        };
        DumpAccount {
            directories: 10,
            files: 90,
            cpu: Duration::from_secs(1),
            metering: Duration::from_millis(500),
            functions: Function::ALL.map(|function| FunctionShare {
                function,
                cpu: Duration::ZERO,
                percent: 0.0,
            }),
            gates: vec![gate(Gate::Statx, 100, 1.0), gate(Gate::Syncfs, 1, 0.0001)],
            fixed_ms: 0.0004,
            cheapest: "statx",
            options: vec![
                GatherOption {
                    name: "combined",
                    measured: Some(measured),
                    reason: None,
                    ..raw.clone()
                },
                raw,
            ],
        }
    }

    #[test]
    fn unavailable_ways_have_a_reason() {
        let text = account_text(&account(), TableStyle::default());
        assert!(
            text.contains("raw is unavailable: no SRC is a directory"),
            "{text}"
        );
        let shows = |words: &[&str]| {
            text.lines()
                .any(|line| line.split_whitespace().eq(words.iter().copied()))
        };
        assert!(
            shows(&["total,", "predicted", "3.000", "3.000"])
                && shows(&["total,", "measured", "3.000", "-"]),
            "{text}"
        );
        assert!(
            text.contains("1 other call not repeated for each entry: 1 time\n"),
            "{text}"
        );
        assert!(
            text.lines().all(|line| !line.starts_with("syncfs")),
            "{text}"
        );
        let value = show::serde_json::to_value(Json(&account())).unwrap();
        assert_eq!(value["options"][0]["measured"]["dir"]["total"], 0.003);
        assert!(value["options"][1]["measured"].is_null());
    }
}
