//! The tables in the manner of the Multics memo of 1974: what `fathom account --model` and `fathom
//! dump --account` have in common, and the account of a dump.

use account::dump::{DumpAccount, Figure, FunctionShare, GateUse, GatherOption, Measured};
use account::{Cost, Per};
use archive::attribution::Function;
use show::json_object;
use show::table::{Align, Table, TableStyle, Tone};
use show::units::plural;

/// A cost as JSON.
pub(crate) struct CostJson(pub(crate) Cost);

json_object!(CostJson, |cost| {
    "overhead": cost.0.overhead,
    "useful": cost.0.useful,
    "total": cost.0.total(),
});

/// The account of a dump as JSON.
pub(crate) struct AccountJson<'a>(pub(crate) &'a DumpAccount);

json_object!(AccountJson<'_>, |account| {
    "directories": account.0.directories,
    "files": account.0.files,
    "seconds": account.0.cpu.as_secs_f64(),
    "metering_seconds": account.0.metering.as_secs_f64(),
    "functions": account.0.functions.map(FunctionJson),
    "gates": account.0.gates.iter().map(GateJson).collect::<Vec<_>>(),
    "fixed_ms": account.0.fixed_ms,
    "cheapest": account.0.cheapest,
    "options": account.0.options.iter().map(OptionJson).collect::<Vec<_>>(),
});

struct FunctionJson(FunctionShare);

json_object!(FunctionJson, |row| {
    "name": function_name(row.0.function),
    "seconds": row.0.cpu.as_secs_f64(),
    "percent": row.0.percent,
});

struct GateJson<'a>(&'a GateUse);

json_object!(GateJson<'_>, |row| {
    "gate": row.0.gate.name(),
    "function": function_name(row.0.function),
    "for_effect": row.0.function == Function::Effect,
    "calls": row.0.calls,
    "ms_per_call": row.0.ms,
    "calls_per_dir": row.0.each.dir,
    "calls_per_file": row.0.each.file,
});

struct FigureJson(Figure);

json_object!(FigureJson, |figure| {
    "calls": figure.0.calls,
    "overhead": figure.0.cost.overhead,
    "useful": figure.0.cost.useful,
    "total": figure.0.cost.total(),
});

struct FiguresJson(Per<Figure>);

json_object!(FiguresJson, |figures| {
    "dir": FigureJson(figures.0.dir),
    "file": FigureJson(figures.0.file),
});

struct MeasuredJson(Measured);

json_object!(MeasuredJson, |measured| {
    "dir": FigureJson(measured.0.each.dir),
    "file": FigureJson(measured.0.each.file),
    "calls": measured.0.calls,
    "gates_seconds": measured.0.gates.as_secs_f64(),
    "own_seconds": measured.0.own.as_secs_f64(),
});

struct OptionJson<'a>(&'a GatherOption);

json_object!(OptionJson<'_>, |option| {
    "name": option.0.name,
    "predicted": FiguresJson(option.0.predicted),
    "measured": option.0.measured.map(MeasuredJson),
    "why": option.0.reason.as_ref().map(ToString::to_string),
});

fn function_name(function: Function) -> &'static str {
    match function {
        Function::Copy => "copy files",
        Function::Write => "write archive",
        Function::Map => "write map",
        Function::Information => "gate calls for information",
        Function::Effect => "gate calls for effect",
        Function::Other => "other",
    }
}

/// The three tables of a dump.
pub(crate) fn dump_account_text(account: &DumpAccount, style: TableStyle) -> String {
    let mut out = style.wrapped(&format!(
        "CPU time by function, of {:.3} s ({:.3} s more went into taking the time):",
        account.cpu.as_secs_f64(),
        account.metering.as_secs_f64()
    ));
    out.push_str(&functions_text(account, style));
    out.push('\n');
    out.push_str(&style.wrapped(&format!(
        "Gates, in CPU time, for {} directories and {} other entries; * for effect:",
        account.directories, account.files
    )));
    out.push_str(&gates_text(account, style));
    out.push('\n');
    out.push_str(&style.wrapped(&format!(
        "Ways to gather, in µs of CPU time in gates for information. By the model a call costs {:.3} µs ({}), and the \
         rest is useful:",
        1000.0 * account.fixed_ms,
        account.cheapest
    )));
    out.push_str(&options_text(account, style));
    for option in &account.options {
        if let Some(reason) = &option.reason {
            out.push_str(&style.wrapped(&format!("{} is not to be had: {reason}", option.name)));
        }
    }
    out
}

fn functions_text(account: &DumpAccount, style: TableStyle) -> String {
    use Align::{Left, Right};
    let columns = [("FUNCTION", Left), ("%", Right), ("SECONDS", Right)];
    let mut table = Table::new(&columns, account.functions.len());
    for row in &account.functions {
        let cells = [
            function_name(row.function).to_owned(),
            format!("{:.1}", row.percent),
            format!("{:.4}", row.cpu.as_secs_f64()),
        ];
        table.row(cells, Tone::Plain);
    }
    table.to_text(style.width, style.color)
}

fn gates_text(account: &DumpAccount, style: TableStyle) -> String {
    use Align::{Left, Right};
    /// Calls for an entry from which on a gate is called repeatedly.
    const REPEATED: f64 = 0.005;
    let columns = [
        ("GATE", Left),
        ("ms/call", Right),
        ("calls/dir", Right),
        ("calls/file", Right),
        ("FOR", Left),
    ];
    let (repeated, others): (Vec<&GateUse>, Vec<_>) = account
        .gates
        .iter()
        .partition(|row| row.each.dir.max(row.each.file) >= REPEATED);
    let mut table = Table::new(&columns, repeated.len());
    for row in repeated {
        let effect = if row.function == Function::Effect {
            "*"
        } else {
            ""
        };
        let cells = [
            format!("{effect}{}", row.gate.name()),
            format!("{:.6}", row.ms),
            format!("{:.3}", row.each.dir),
            format!("{:.3}", row.each.file),
            match row.function {
                Function::Information => "information",
                Function::Effect => "effect",
                other => function_name(other),
            }
            .to_owned(),
        ];
        table.row(cells, Tone::Plain);
    }
    let mut out = table.to_text(style.width, style.color);
    if !others.is_empty() {
        let calls = others.iter().map(|row| row.calls).sum();
        out.push_str(&format!(
            "and {} not called repeatedly, {}\n",
            plural(others.len() as u64, "more that is", "more that are"),
            plural(calls, "call", "calls")
        ));
    }
    out
}

fn options_text(account: &DumpAccount, style: TableStyle) -> String {
    type Pick = fn(Per<Figure>) -> Figure;
    let options = &account.options;
    let mut grid = Grid::new(options.iter().map(|option| option.name));
    let us = |ms: f64| Some(format!("{:.3}", 1000.0 * ms));
    for (what, pick) in [("Directories", (|f| f.dir) as Pick), ("Files", |f| f.file)] {
        grid.heading(what);
        let predicted = |option: &GatherOption| Some(pick(option.predicted));
        let measured = |option: &GatherOption| option.measured.map(|measured| pick(measured.each));
        let mut rows = |by: &str, figure: &dyn Fn(&GatherOption) -> Option<Figure>| {
            let name = |what: &str| format!("  {what}, {by}");
            grid.row(&name("calls"), options, |option| {
                figure(option).map(|f| format!("{:.3}", f.calls))
            });
            grid.row(&name("overhead"), options, |option| {
                figure(option).and_then(|f| us(f.cost.overhead))
            });
            grid.row(&name("useful"), options, |option| {
                figure(option).and_then(|f| us(f.cost.useful))
            });
            grid.row(&name("total"), options, |option| {
                figure(option).and_then(|f| us(f.cost.total()))
            });
        };
        rows("predicted", &predicted);
        rows("measured", &measured);
    }
    let entries = (account.directories + account.files).max(1) as f64;
    grid.heading("For an entry, measured");
    let each = |seconds: fn(&Measured) -> f64| {
        move |option: &GatherOption| {
            let seconds = option.measured.as_ref().map(seconds)?;
            us(1000.0 * seconds / entries)
        }
    };
    let in_gates = each(|measured| measured.gates.as_secs_f64());
    grid.row("  in gates", options, in_gates);
    let own = each(|measured| measured.own.as_secs_f64());
    grid.row("  in the program itself", options, own);
    grid.to_text(style)
}

/// A table whose columns are options.
pub(crate) struct Grid {
    columns: usize,
    table: Table,
}

impl Grid {
    pub(crate) fn new(names: impl Iterator<Item = &'static str>) -> Grid {
        let columns: Vec<_> = std::iter::once(("", Align::Left))
            .chain(names.map(|name| (name, Align::Right)))
            .collect();
        Grid {
            columns: columns.len(),
            table: Table::new(&columns, 0),
        }
    }

    pub(crate) fn heading(&mut self, what: &str) {
        let cells = std::iter::once(what)
            .chain(std::iter::repeat(""))
            .take(self.columns);
        self.table.row(cells, Tone::Plain);
    }

    pub(crate) fn row<T>(
        &mut self,
        what: &str,
        options: &[T],
        cell: impl Fn(&T) -> Option<String>,
    ) {
        let cells = options
            .iter()
            .map(|option| cell(option).unwrap_or_else(|| "-".to_owned()));
        self.table
            .row(std::iter::once(what.to_owned()).chain(cells), Tone::Plain);
    }

    pub(crate) fn to_text(&self, style: TableStyle) -> String {
        self.table.to_text(style.width, style.color)
    }
}

/// A number with as many decimals as are significant.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        whole if value.fract() == 0.0 && whole < 1e15 => format!("{value:.0}"),
        large if large >= 100.0 => format!("{value:.1}"),
        some if some >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gate::Gate;
    use std::time::Duration;

    fn account() -> DumpAccount {
        let figure = |calls, overhead, useful| Figure {
            calls,
            cost: Cost { overhead, useful },
        };
        let figures = Per {
            dir: figure(6.0, 0.002, 0.001),
            file: figure(1.0, 0.0004, 0.0),
        };
        let gate = |gate, calls, per| GateUse {
            gate,
            function: Function::Information,
            calls,
            ms: 0.0004,
            each: Per {
                dir: per,
                file: per,
            },
        };
        let raw = GatherOption {
            name: "raw",
            predicted: figures,
            measured: None,
            reason: Some(archive::account::Unavailable::NoDirectory),
        };
        let measured = Measured {
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
    fn an_unavailable_way_says_so() {
        let text = dump_account_text(&account(), TableStyle::default());
        assert!(
            text.contains("raw is not to be had: no SRC is a directory"),
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
            text.contains("and 1 more that is not called repeatedly, 1 call\n"),
            "{text}"
        );
        assert!(
            text.lines().all(|line| !line.starts_with("syncfs")),
            "{text}"
        );
        let value = show::serde_json::to_value(AccountJson(&account())).unwrap();
        assert_eq!(value["options"][0]["measured"]["dir"]["total"], 0.003);
        assert!(value["options"][1]["measured"].is_null());
    }
}
