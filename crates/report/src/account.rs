//! The tables of the Multics memo of 1974: where the CPU time goes, what each gate costs, and what
//! other ways would cost.

use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

use show::table::{Align, Table, TableStyle, Tone};
use show::units::plural;

/// What the calls for one directory or one file take, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Calls times the fixed price.
    pub overhead: f64,
    /// The rest.
    pub useful: f64,
}

impl Cost {
    fn total(&self) -> f64 {
        self.overhead + self.useful
    }
}

impl Serialize for Cost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut cost = serializer.serialize_struct("Cost", 3)?;
        cost.serialize_field("overhead", &self.overhead)?;
        cost.serialize_field("useful", &self.useful)?;
        cost.serialize_field("total", &self.total())?;
        cost.end()
    }
}

/// A column of the memo's last table.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Choice {
    /// Its name.
    pub name: &'static str,
    /// For a directory.
    pub dir: Cost,
    /// For a file.
    pub file: Cost,
    /// What it saves of the whole CPU time, in percent.
    pub saves_percent: f64,
    /// What the memo prints there.
    pub printed: Option<f64>,
    /// What it saves of the system's CPU time.
    pub saves_system_percent: f64,
    /// What the memo prints there.
    pub printed_system: Option<f64>,
}

/// The result of `fathom account --model`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Model<'a> {
    /// What any call costs, in milliseconds.
    pub fixed_ms: f64,
    /// The columns.
    pub options: &'a [Choice],
}

impl Model<'_> {
    /// The memo's last table.
    pub fn to_text(&self, style: TableStyle) -> String {
        let mut grid = Grid::new(self.options.iter().map(|option| option.name));
        for (what, cost) in [
            ("Directories, ms", dir as fn(&Choice) -> Cost),
            ("Files, ms", file),
        ] {
            grid.heading(what);
            grid.row("  overhead", self.options, |option| {
                Some(short(cost(option).overhead))
            });
            grid.row("  useful", self.options, |option| {
                Some(short(cost(option).useful))
            });
            grid.row("  total", self.options, |option| {
                Some(short(cost(option).total()))
            });
        }
        grid.heading("Saves, %");
        grid.row("  of this CPU time", self.options, |option| {
            Some(short(option.saves_percent))
        });
        grid.printed(self.options, |option| option.printed);
        grid.row("  of the system's", self.options, |option| {
            Some(short(option.saves_system_percent))
        });
        grid.printed(self.options, |option| option.printed_system);
        let fixed = format!(
            "A call costs {} ms; what it takes beyond that is useful work.\n\n",
            short(self.fixed_ms)
        );
        fixed + &grid.to_text(style)
    }
}

fn dir(option: &Choice) -> Cost {
    option.dir
}

fn file(option: &Choice) -> Cost {
    option.file
}

/// A row of the memo's first table.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// CPU seconds.
    pub seconds: f64,
    /// Of all of it; to a tenth, so that they add up to 100.
    pub percent: f64,
}

/// The rows, with their shares: of name and CPU seconds. Should nothing have been used, the last
/// one has it all.
pub fn functions(rows: &[(&'static str, f64)]) -> Vec<Function> {
    const ALL: f64 = 1000.0; // tenths of a percent
    let total: f64 = rows.iter().map(|(_, seconds)| seconds).sum();
    let exact: Vec<f64> = rows
        .iter()
        .map(|(_, seconds)| ALL * seconds / total)
        .map(|x| x.max(0.0))
        .collect();
    let mut tenths: Vec<f64> = exact.iter().map(|share| share.floor()).collect();
    // What rounding down has left goes to those that lost most by it.
    let mut by_loss: Vec<usize> = (0..rows.len()).collect();
    by_loss.sort_by(|&a, &b| {
        (exact[b] - tenths[b])
            .total_cmp(&(exact[a] - tenths[a]))
            .then(a.cmp(&b))
    });
    let left = ALL - tenths.iter().sum::<f64>();
    by_loss
        .iter()
        .take(left as usize)
        .filter(|_| total > 0.0)
        .for_each(|&at| tenths[at] += 1.0);
    if total <= 0.0
        && let Some(last) = tenths.last_mut()
    {
        *last = ALL;
    }
    let row = |(&(name, seconds), tenths): (&(_, _), f64)| Function {
        name,
        seconds,
        percent: tenths / 10.0,
    };
    rows.iter().zip(tenths).map(row).collect()
}

/// A row of the memo's table of gates.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Gate {
    /// Its name.
    pub gate: &'static str,
    /// The row of the first table that its time is in.
    pub function: &'static str,
    /// Whether it was called for what it does.
    pub for_effect: bool,
    /// Calls.
    pub calls: u64,
    /// CPU milliseconds a call.
    pub ms_per_call: f64,
    /// Calls for each directory.
    pub calls_per_dir: f64,
    /// Calls for each file.
    pub calls_per_file: f64,
}

/// Calls for one directory or file, and what they take, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figure {
    /// Calls.
    pub calls: f64,
    /// What they take.
    pub cost: Cost,
}

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut figure = serializer.serialize_struct("Figure", 4)?;
        figure.serialize_field("calls", &self.calls)?;
        figure.serialize_field("overhead", &self.cost.overhead)?;
        figure.serialize_field("useful", &self.cost.useful)?;
        figure.serialize_field("total", &self.cost.total())?;
        figure.end()
    }
}

/// What an option costs for each directory and each file.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// For a directory.
    pub dir: Figure,
    /// For a file.
    pub file: Figure,
}

/// What gathering in one way took.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Measured {
    /// In its calls for information.
    #[serde(flatten)]
    pub figures: Figures,
    /// All of those calls.
    pub calls: u64,
    /// CPU seconds in them.
    pub gates_seconds: f64,
    /// CPU seconds beside them, in the program itself.
    pub own_seconds: f64,
}

/// A way of gathering: what the model says that it costs, and what it costs.
#[derive(Clone, Debug, Serialize)]
pub struct Way {
    /// Its name.
    pub name: &'static str,
    /// By the model, from this run's figures.
    pub predicted: Figures,
    /// By running it; `None` where it is not to be had.
    pub measured: Option<Measured>,
    /// Why it is not.
    pub why: Option<String>,
}

/// The three tables, for one run.
#[derive(Clone, Debug, Serialize)]
pub struct Account {
    /// Directories that were looked at.
    pub directories: u64,
    /// All else that was.
    pub files: u64,
    /// CPU seconds, less the next.
    pub seconds: f64,
    /// CPU seconds that went into taking the time.
    pub metering_seconds: f64,
    /// Where it went.
    pub functions: Vec<Function>,
    /// What each gate cost.
    pub gates: Vec<Gate>,
    /// The fixed price of a call, in milliseconds.
    pub fixed_ms: f64,
    /// The gate that it is the price of.
    pub cheapest: &'static str,
    /// The ways of gathering.
    pub options: Vec<Way>,
}

impl Account {
    /// The three tables.
    pub fn to_text(&self, style: TableStyle) -> String {
        let mut out = style.wrapped(&format!(
            "CPU time by function, of {:.3} s ({:.3} s more went into taking the time):",
            self.seconds, self.metering_seconds
        ));
        out.push_str(&self.functions_text(style));
        out.push('\n');
        out.push_str(&style.wrapped(&format!(
            "Gates, in CPU time, for {} directories and {} other entries; * for effect:",
            self.directories, self.files
        )));
        out.push_str(&self.gates_text(style));
        out.push('\n');
        out.push_str(&style.wrapped(&format!(
            "Ways to gather, in µs of CPU time in gates for information. By the model a call costs {:.3} µs ({}), and the \
             rest is useful:",
            1000.0 * self.fixed_ms,
            self.cheapest
        )));
        out.push_str(&self.ways_text(style));
        for way in &self.options {
            if let Some(why) = &way.why {
                out.push_str(&style.wrapped(&format!("{} is not to be had: {why}", way.name)));
            }
        }
        out
    }

    fn functions_text(&self, style: TableStyle) -> String {
        use Align::{Left, Right};
        let mut table = Table::new(
            &[("FUNCTION", Left), ("%", Right), ("SECONDS", Right)],
            self.functions.len(),
        );
        for row in &self.functions {
            let cells = [
                row.name.to_owned(),
                format!("{:.1}", row.percent),
                format!("{:.4}", row.seconds),
            ];
            table.row(cells, Tone::Plain);
        }
        table.to_text(style.width, style.color)
    }

    fn gates_text(&self, style: TableStyle) -> String {
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
        let mut table = Table::new(&columns, self.gates.len());
        let (mut others, mut calls) = (0, 0);
        for row in &self.gates {
            if row.calls_per_dir.max(row.calls_per_file) < REPEATED {
                others += 1;
                calls += row.calls;
                continue;
            }
            let cells = [
                format!("{}{}", if row.for_effect { "*" } else { "" }, row.gate),
                format!("{:.6}", row.ms_per_call),
                format!("{:.3}", row.calls_per_dir),
                format!("{:.3}", row.calls_per_file),
                row.function
                    .trim_start_matches("gate calls for ")
                    .to_owned(),
            ];
            table.row(cells, Tone::Plain);
        }
        let mut out = table.to_text(style.width, style.color);
        if others > 0 {
            let others = plural(others, "more that is", "more that are");
            out.push_str(&format!(
                "and {others} not called repeatedly, {}\n",
                plural(calls, "call", "calls")
            ));
        }
        out
    }

    fn ways_text(&self, style: TableStyle) -> String {
        type Pick = fn(&Figures) -> Figure;
        let mut grid = Grid::new(self.options.iter().map(|way| way.name));
        let us = |ms: f64| Some(format!("{:.3}", 1000.0 * ms));
        for (what, pick) in [("Directories", (|f| f.dir) as Pick), ("Files", |f| f.file)] {
            grid.heading(what);
            let predicted = |way: &Way| Some(pick(&way.predicted));
            let measured = |way: &Way| way.measured.map(|measured| pick(&measured.figures));
            let mut rows = |by: &str, figure: &dyn Fn(&Way) -> Option<Figure>| {
                let name = |what: &str| format!("  {what}, {by}");
                grid.row(&name("calls"), &self.options, |way| {
                    figure(way).map(|f| format!("{:.3}", f.calls))
                });
                grid.row(&name("overhead"), &self.options, |way| {
                    figure(way).and_then(|f| us(f.cost.overhead))
                });
                grid.row(&name("useful"), &self.options, |way| {
                    figure(way).and_then(|f| us(f.cost.useful))
                });
                grid.row(&name("total"), &self.options, |way| {
                    figure(way).and_then(|f| us(f.cost.total()))
                });
            };
            rows("predicted", &predicted);
            rows("measured", &measured);
        }
        let entries = (self.directories + self.files).max(1) as f64;
        grid.heading("For an entry, measured");
        let each = |field: fn(&Measured) -> f64| {
            move |way: &Way| {
                way.measured
                    .and_then(|measured| us(1000.0 * field(&measured) / entries))
            }
        };
        grid.row(
            "  in gates",
            &self.options,
            each(|measured| measured.gates_seconds),
        );
        grid.row(
            "  in the program itself",
            &self.options,
            each(|measured| measured.own_seconds),
        );
        grid.to_text(style)
    }
}

/// A table whose columns are options.
struct Grid {
    columns: usize,
    table: Table,
}

impl Grid {
    fn new(names: impl Iterator<Item = &'static str>) -> Grid {
        let columns: Vec<_> = std::iter::once(("", Align::Left))
            .chain(names.map(|name| (name, Align::Right)))
            .collect();
        Grid {
            columns: columns.len(),
            table: Table::new(&columns, 0),
        }
    }

    fn heading(&mut self, what: &str) {
        let cells = std::iter::once(what)
            .chain(std::iter::repeat(""))
            .take(self.columns);
        self.table.row(cells, Tone::Plain);
    }

    fn row<T>(&mut self, what: &str, options: &[T], cell: impl Fn(&T) -> Option<String>) {
        let cells = options
            .iter()
            .map(|option| cell(option).unwrap_or_else(|| "-".to_owned()));
        self.table
            .row(std::iter::once(what.to_owned()).chain(cells), Tone::Plain);
    }

    /// What the memo prints; nothing where it is silent.
    fn printed(&mut self, options: &[Choice], printed: impl Fn(&Choice) -> Option<f64>) {
        if options.iter().any(|option| printed(option).is_some()) {
            self.row("    as the memo prints it", options, |option| {
                printed(option).map(short)
            });
        }
    }

    fn to_text(&self, style: TableStyle) -> String {
        self.table.to_text(style.width, style.color)
    }
}

/// A number with as many places as say something.
fn short(value: f64) -> String {
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
    use proptest::prelude::*;

    #[test]
    fn the_memos_last_table() {
        let cost = |overhead, useful| Cost { overhead, useful };
        let today = Choice {
            name: "today",
            dir: cost(350.0, 115.0),
            file: cost(84.0, 15.0),
            saves_percent: 0.0,
            printed: None,
            saves_system_percent: 0.0,
            printed_system: None,
        };
        let raw = Choice {
            name: "rawdump",
            dir: cost(30.0, 15.0),
            file: cost(5.0, 15.0),
            saves_percent: 45.0,
            printed: Some(41.0),
            saves_system_percent: 9.0,
            printed_system: Some(8.0),
        };
        let text = Model {
            fixed_ms: 14.0,
            options: &[today, raw],
        }
        .to_text(TableStyle::default());
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

    fn account() -> Account {
        let figure = |calls, overhead, useful| Figure {
            calls,
            cost: Cost { overhead, useful },
        };
        let figures = Figures {
            dir: figure(6.0, 0.002, 0.001),
            file: figure(1.0, 0.0004, 0.0),
        };
        let gate = |gate, calls, per| Gate {
            gate,
            function: "gate calls for information",
            for_effect: false,
            calls,
            ms_per_call: 0.0004,
            calls_per_dir: per,
            calls_per_file: per,
        };
        let raw = Way {
            name: "raw",
            predicted: figures,
            measured: None,
            why: Some("this is no ext4".to_owned()),
        };
        let measured = Measured {
            figures,
            calls: 60,
            gates_seconds: 0.5,
            own_seconds: 0.25,
        };
        Account {
            directories: 10,
            files: 90,
            seconds: 1.0,
            metering_seconds: 0.5,
            functions: functions(&[("copy files", 0.25), ("other", 0.75)]),
            gates: vec![gate("statx", 100, 1.0), gate("syncfs", 1, 0.0001)],
            fixed_ms: 0.0004,
            cheapest: "statx",
            options: vec![
                Way {
                    name: "combined",
                    measured: Some(measured),
                    why: None,
                    ..raw.clone()
                },
                raw,
            ],
        }
    }

    #[test]
    fn what_is_not_to_be_had_says_so() {
        let text = account().to_text(TableStyle::default());
        assert!(
            text.contains("raw is not to be had: this is no ext4"),
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
        let value = serde_json::to_value(account()).unwrap();
        assert_eq!(value["options"][0]["measured"]["dir"]["total"], 0.003);
        assert!(value["options"][1]["measured"].is_null());
    }

    proptest! {
        #[test]
        fn shares_add_up_to_100(seconds in proptest::collection::vec(0.0..1e6_f64, 1..9)) {
            let rows: Vec<_> = seconds.iter().map(|&seconds| ("row", seconds)).collect();
            let tenths: f64 = functions(&rows).iter().map(|row| (row.percent * 10.0).round()).sum();
            prop_assert_eq!(tenths, 1000.0);
        }
    }

    #[test]
    fn of_nothing_the_last_has_all() {
        let rows = functions(&[("copy files", 0.0), ("other", 0.0)]);
        assert_eq!(
            rows.iter().map(|row| row.percent).collect::<Vec<_>>(),
            [0.0, 100.0]
        );
    }
}
