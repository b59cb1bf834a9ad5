//! The output of `fathom compare`: the tables of the 1988 papers as text and JSON, and warnings.

use std::collections::{HashMap, HashSet};

use account::InputFault;
use account::compare::comparison::{Comparison, Pair};
use account::compare::runs::{CSV, Measure, MeasureValues, Runs, System};
use account::figures::FigureChange;
use base::runs::Stats;
use base::{Warning, WarningReason};
use show::json_object;
use show::name::printable;
use show::serde::{Serialize, Serializer};
use show::table::Align::{Left, Right};
use show::table::{RowColour, Table, TableStyle};
use show::units::plural;

use crate::json::Json;
use crate::stats::{self, JsonStats, StatsRow};

pub(super) struct ComparisonReport<'a> {
    pub(super) comparisons: &'a [Comparison<'a>],
    /// The figures of two files, if both are of one command of fathom.
    pub(super) figures: Option<&'a [FigureChange]>,
}

json_object!(ComparisonReport<'_>, |report| {
    "comparisons": Json(report.comparisons),
    "figures": report.figures.map(Json),
});

json_object!(Json<'_, Comparison<'_>>, |comparison| {
    "kind": comparison.runs.kind,
    "names": comparison.runs.names,
    "base": comparison.runs.names.get(comparison.base),
    "systems": Json(&comparison.runs.systems[..]),
    "ratios": Json(&comparison.pairs().collect::<Vec<_>>()[..]),
});

json_object!(Json<'_, System>, |system| {
    name "system": Some(&system.name),
    name "file": Some(&system.file),
    "line": system.line,
    "labels": Json(&system.labels[..]),
    "took": system.took.iter().map(|took| PerMeasure(*took)).collect::<Vec<_>>(),
    "printed": PerMeasure(system.printed),
});

json_object!(Json<'_, (String, String)>, |label| {
    "column": label.0.0,
    "cell": label.0.1,
});

/// An optional value for each measure: real, user and system time, and calls.
struct PerMeasure<T>([Option<T>; Measure::ALL.len()]);

impl<T: Serialize> Serialize for PerMeasure<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Measure::ALL.map(Measure::name).iter().zip(&self.0))
    }
}

json_object!(Json<'_, Pair<'_>>, |pair| {
    "of": pair.name(pair.of),
    "to": pair.name(pair.to),
    "systems": pair.rows().count(),
    "real": Stats::from_values(pair.ratios(Measure::Real)).map(JsonStats),
    "user": Stats::from_values(pair.ratios(Measure::User)).map(JsonStats),
    "sys": Stats::from_values(pair.ratios(Measure::Sys)).map(JsonStats),
    "calls": Stats::from_values(pair.ratios(Measure::Calls)).map(JsonStats),
    "printed": PerMeasure(Measure::ALL.map(|measure| Stats::from_values(pair.printed(measure)).map(JsonStats))),
    "interval": PerMeasure(Measure::ALL.map(|measure| pair.interval(measure))),
    "average_of": PerMeasure(averages(**pair, pair.of)),
    "average_to": PerMeasure(averages(**pair, pair.to)),
    "each": pair.all_ratios().map(|(_, ratios)| PerMeasure(ratios.map(Result::ok))).collect::<Vec<_>>(),
});

fn averages(pair: Pair<'_>, at: usize) -> MeasureValues {
    Measure::ALL.map(|measure| average(pair, at, measure))
}

fn average(pair: Pair<'_>, at: usize, measure: Measure) -> Option<f64> {
    Stats::from_values(pair.times(at, measure)).map(|stats| stats.mean)
}

/// The comparison as text. `only_summary` omits the table with a row for each system.
pub(super) fn text(comparison: &Comparison<'_>, style: TableStyle, only_summary: bool) -> String {
    let mut out = String::new();
    for pair in comparison.pairs() {
        let gap = if out.is_empty() { "" } else { "\n" };
        out += &format!("{gap}{}, {}\n", title(pair), origin(pair));
        out += &format!("{}\n", style.wrapped(&meaning(pair)));
        if !only_summary {
            out += &table_text(&systems_table(pair), style);
            out.push('\n');
        }
        out += &table_text(&summary_table(pair), style);
        out += &intervals(pair).map_or(String::new(), |text| style.wrapped(&text));
    }
    out
}

/// A table, and a line with the number of columns for which the terminal is too narrow.
fn table_text(table: &Table, style: TableStyle) -> String {
    let text = table.to_text(style.width, style.color);
    match table.omitted_columns(style.width) as u64 {
        0 => text,
        omitted => {
            let omitted = plural(omitted, "column does", "columns do");
            let line =
                format!("{omitted} not fit on the terminal (use a wider one, --json or --html)");
            text + &style.wrapped(&line)
        }
    }
}

/// A sentence with the confidence intervals of the mean ratios; `None` for a single ratio.
fn intervals(pair: Pair<'_>) -> Option<String> {
    let intervals = pair.measures().filter_map(|measure| {
        let [low, high] = pair.interval(measure)?;
        Some(format!("{} {low:.2} to {high:.2}", measure.name()))
    });
    let intervals = intervals.collect::<Vec<_>>().join(", ");
    (!intervals.is_empty()).then(|| format!("95 % confidence interval of the mean: {intervals}."))
}

/// The title of a pair of programs, in the form of the papers: getmnt1/getmnt2.
pub(super) fn title(pair: Pair<'_>) -> String {
    let names = pair.both().map(|at| printable(pair.name(at).as_bytes()));
    names.join("/")
}

/// A sentence that names the units, and the program whose times are divided by those of the other.
pub(super) fn meaning(pair: Pair<'_>) -> String {
    let [of, to] = pair.both().map(|at| printable(pair.name(at).as_bytes()));
    format!("Times in seconds. Ratios are {of} divided by {to}: above 1, {of} takes longer.")
}

/// The name of a system without the number of its run.
fn system_name(system: &System) -> &[u8] {
    let name = &system.name[..];
    let colon = name.iter().rposition(|byte| *byte == b':');
    let is_number = |digits: &[u8]| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    match colon.map(|at| name.split_at(at)) {
        Some((system, number)) if is_number(&number[1..]) => system,
        _ => name,
    }
}

/// The name of a system in a file of fathom that names none.
const NAMELESS: &[u8] = b"-";

/// Whether all rows are runs on one system, so that their number is not that of systems.
fn are_runs(pair: Pair<'_>) -> bool {
    let mut names = pair.rows().map(|(system, _)| system_name(system));
    let Some(first) = names.next().filter(|_| pair.runs.kind != CSV) else {
        return false;
    };
    let mut others = names.peekable();
    (others.peek().is_some() || first == NAMELESS) && others.all(|name| name == first)
}

/// The number of systems or runs, and the command of fathom that measured the runs.
pub(super) fn origin(pair: Pair<'_>) -> String {
    let count = pair.rows().count() as u64;
    let command = match &pair.runs.kind[..] {
        CSV => String::new(),
        kind => format!(", by fathom {kind}"),
    };
    match are_runs(pair) {
        true => plural(count, "run", "runs") + &command,
        false => plural(count, "system", "systems") + &command,
    }
}

/// Times by system, in the form of the report's Figures 7 and 10 (1988).
pub(super) fn systems_table(pair: Pair<'_>) -> Table {
    let measures: Vec<Measure> = pair.measures().collect();
    let places = places(pair);
    let mut known = HashSet::new();
    let labels = pair.rows().flat_map(|(system, _)| &system.labels);
    let columns = labels.map(|(column, _)| &column[..]);
    let columns: Vec<&str> = columns.filter(|column| known.insert(*column)).collect();
    let head = |column: &&str| (printable(column.as_bytes()).into_owned(), Left);
    let first = if are_runs(pair) { "RUN" } else { "SYSTEM" };
    let mut heads = vec![(first.to_owned(), Left)];
    heads.extend(columns.iter().map(head));
    let [of, to] = pair.both().map(|at| pair.name(at));
    for group in [of, to, "ratio"] {
        for (at, measure) in measures.iter().enumerate() {
            let group = match at {
                0 => format!("{} ", printable(group.as_bytes())),
                _ => String::new(),
            };
            heads.push((format!("{group}{}", measure.name()), Right));
        }
    }
    let mut table = Table::new(&heads, pair.rows().count());
    for (system, ratios) in pair.rows() {
        // A run on a system without a name has a number only.
        let name = system.name.strip_prefix(b"-:").unwrap_or(&system.name);
        let mut cells = vec![printable(name).into_owned()];
        let labels = system.labels.iter();
        let labels: HashMap<&str, &str> = labels
            .map(|(column, cell)| (&column[..], &cell[..]))
            .collect();
        let label =
            |column: &&str| printable(labels.get(column).unwrap_or(&"").as_bytes()).into_owned();
        cells.extend(columns.iter().map(label));
        for at in pair.both() {
            let cell =
                |measure: &Measure| value(system.took_by(at)[*measure as usize], *measure, places);
            cells.extend(measures.iter().map(cell));
        }
        let ratio = |measure: &Measure| ratios[*measure as usize].map_or("-".to_owned(), times);
        cells.extend(measures.iter().map(ratio));
        table.row(cells, RowColour::Plain);
    }
    table
}

/// Statistics, in the form of the journal paper's Tables 2 to 4 (1988).
pub(super) fn summary_table(pair: Pair<'_>) -> Table {
    let places = places(pair);
    let heads = pair
        .both()
        .map(|at| format!("AVG {}", printable(pair.name(at).as_bytes())));
    let mut rows = Vec::new();
    for measure in pair.measures() {
        let averages = pair
            .both()
            .map(|at| value(average(pair, at, measure), measure, places));
        rows.push(StatsRow {
            name: measure.name().to_owned(),
            stats: Stats::from_values(pair.ratios(measure)),
            averages: averages.to_vec(),
        });
        let printed = Stats::from_values(pair.printed(measure));
        rows.extend(printed.map(|printed| StatsRow {
            name: "  as printed".to_owned(),
            stats: Some(printed),
            averages: vec![String::new(); 2],
        }));
    }
    stats::table(&heads, &rows, times)
}

/// Number of decimals of times: at least 2, as in the papers, and more if the shortest time would
/// be printed as 0.
fn places(pair: Pair<'_>) -> usize {
    match pair.shortest() {
        shortest if shortest >= 0.01 => 2,
        shortest if shortest >= 0.0001 => 4,
        _ => 6,
    }
}

fn value(value: Option<f64>, measure: Measure, places: usize) -> String {
    match value {
        None => "-".to_owned(),
        Some(calls) if measure == Measure::Calls => format!("{calls:.0}"),
        Some(seconds) => format!("{seconds:.places$}"),
    }
}

/// A ratio with two decimals, as in the papers; below 0.01, with two significant digits.
pub(super) fn times(ratio: f64) -> String {
    const MOST: f64 = 9.0;
    let places = match ratio > 0.0 && ratio < 0.01 {
        true => (1.0 - ratio.log10().floor()).min(MOST) as usize,
        false => 2,
    };
    format!("{ratio:.places$}")
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum WarningKind {
    /// The position of the first empty cell of a file, and the number of empty cells in the file.
    #[error(
        "line {line}: no value for {}{}; skipped in the ratios",
        printable(.column.as_bytes()), more(*.cells, "cell", "cells")
    )]
    Empty {
        line: usize,
        column: String,
        cells: usize,
    },
    /// The first system for which a measure is 0, and the number of all such systems.
    #[error(
        "line {line}: {}{} {of} or {to} has 0 for {}; skipped in {of}/{to}",
        place(.system), more(*.systems, "system", "systems"), .measure.name(),
        of = printable(.names[0].as_bytes()), to = printable(.names[1].as_bytes())
    )]
    TooShort {
        line: usize,
        system: Vec<u8>,
        systems: usize,
        names: [String; 2],
        measure: Measure,
    },
}

impl WarningReason for WarningKind {}

/// The name of a system, or the number of a run on a system without a name.
fn place(system: &[u8]) -> String {
    match system.strip_prefix(b"-:") {
        Some(number) => format!("in run {}", printable(number)),
        None => format!("on {}", printable(system)),
    }
}

fn more(all: usize, one: &str, many: &str) -> String {
    if all > 1 {
        format!(" (and {} more)", plural(all as u64 - 1, one, many))
    } else {
        String::new()
    }
}

pub(super) fn warn_of_empty_cells(runs: &Runs) -> Option<Warning> {
    let (line, column) = runs.empty.first()?;
    let file = runs.systems.first().map_or(&b"-"[..], |first| &first.file);
    let reason = WarningKind::Empty {
        line: *line,
        column: column.clone(),
        cells: runs.empty.len(),
    };
    Some(Warning::about(file, reason))
}

/// Warnings about measures that have no ratio on some system, because a time is 0. The processor time
/// of a short run of fathom's own is often 0, as the kernel counts it in ticks: the table has `-`.
pub(super) fn warn_of_short_times(pair: Pair<'_>) -> Vec<Warning> {
    let in_ticks = |measure: &Measure| {
        pair.runs.kind != CSV && matches!(measure, Measure::User | Measure::Sys)
    };
    let warning = |measure: Measure| {
        let first = pair.too_short(measure).next()?;
        let reason = WarningKind::TooShort {
            line: first.line,
            system: first.name.clone(),
            systems: pair.too_short(measure).count(),
            names: pair.both().map(|at| pair.name(at).to_owned()),
            measure,
        };
        Some(Warning::about(&first.file, reason))
    };
    let measures = Measure::ALL.into_iter();
    let measures = measures.filter(|measure| !in_ticks(measure));
    measures.filter_map(warning).collect()
}

/// For an unsuitable input file, advice about flags that produce a suitable one.
pub(super) fn advice(kind: &InputFault) -> &'static str {
    match kind {
        InputFault::OtherSchema(_) => {
            " (use survey, probe, account, pathsearch, pathwalk, walk or mounts --compare)"
        }
        InputFault::NoFigures(command) if matches!(&command[..], "mounts" | "walk") => {
            " (use --compare)"
        }
        InputFault::NoFigures(_) => {
            " (use survey, probe, account COMMAND, pathsearch, pathwalk, walk or mounts --compare)"
        }
        InputFault::NoTimes => " (of fathom's own commands, compare the output of --json)",
        InputFault::NoRun => " (compare two files of this command)",
        _ => "",
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use show::serde_json;

    /// Runs of two programs on two systems. On the second system, a time is 0 and one is missing.
    pub(in super::super) fn example() -> Runs {
        let took = [
            vec![
                [Some(4.0), Some(1.0), Some(0.5), None],
                [Some(2.0), Some(0.5), Some(0.25), None],
            ],
            vec![
                [Some(9.0), Some(0.0), Some(0.5), None],
                [Some(3.0), Some(0.5), None, None],
            ],
        ];
        let system = |name: &[u8], at: usize| System {
            name: name.to_vec(),
            file: b"f".to_vec(),
            line: at + 2,
            labels: vec![("os <b>".to_owned(), "a&b".to_owned())],
            took: took[at].clone(),
            printed: [Some(2.0 + at as f64), None, None, None],
        };
        Runs {
            kind: CSV.to_owned(),
            names: vec!["old".to_owned(), "new".to_owned()],
            systems: vec![system(b"s1", 0), system(b"s\xff", 1)],
            empty: Vec::new(),
        }
    }

    #[test]
    fn tables_are_those_of_1988() {
        let runs = example();
        let comparison = Comparison {
            runs: &runs,
            base: 1,
        };
        let full = text(&comparison, TableStyle::default(), false);
        let expected = "\
old/new, 2 systems
Times in seconds. Ratios are old divided by new: above 1, old takes longer.

SYSTEM os <b> old real user  sys new real user  sys ratio real user  sys
s1     a&b        4.00 1.00 0.50     2.00 0.50 0.25       2.00 2.00 2.00
s\\xff  a&b        9.00 0.00 0.50     3.00 0.50    -       3.00    -    -

Time         mean median  max  min std_dev AVG old AVG new
real         2.50   2.50 3.00 2.00    0.71    6.50    2.50
  as printed 2.50   2.50 3.00 2.00    0.71
user         2.00   2.00 2.00 2.00    0.00    0.50    0.50
sys          2.00   2.00 2.00 2.00    0.00    0.50    0.25
95 % confidence interval of the mean: real -3.85 to 8.85.
";
        assert_eq!(full, expected);
        let summary = text(&comparison, TableStyle::default(), true);
        assert!(summary.contains("old takes longer.\n\nTime "), "{summary}");
    }

    #[test]
    fn ratios_have_one_format() {
        let shown = [7.384, 0.1, 0.0853, 0.0, 0.008_53, 1e-12].map(times);
        assert_eq!(
            shown,
            ["7.38", "0.10", "0.09", "0.00", "0.0085", "0.000000000"]
        );
    }

    #[test]
    fn several_runs_on_one_system_are_called_runs() {
        let text_of = |kind: &str, names: [&[u8]; 2]| {
            let mut runs = example();
            runs.kind = kind.to_owned();
            for (system, name) in runs.systems.iter_mut().zip(names) {
                system.name = name.to_vec();
                system.labels.clear();
            }
            let comparison = Comparison {
                runs: &runs,
                base: 1,
            };
            text(&comparison, TableStyle::default(), false)
        };
        let text = text_of("account", [b"-:1", b"-:2"]);
        assert!(
            text.starts_with("old/new, 2 runs, by fathom account\n"),
            "{text}"
        );
        assert!(text.contains("\nRUN ") && text.contains("\n2   "), "{text}");
        let text = text_of("account", [b"web1:1", b"web1:2"]);
        assert!(
            text.contains(", 2 runs,") && text.contains("\nweb1:2 "),
            "{text}"
        );
        for names in [
            [&b"web1"[..], &b"web2"[..]],
            [&b"web1:1"[..], &b"web2:1"[..]],
        ] {
            assert!(text_of("walk", names).contains(", 2 systems,"));
        }
        assert!(text_of(CSV, [b"a:1", b"a:2"]).contains(", 2 systems\n"));
    }

    #[test]
    fn omitted_columns_are_counted() {
        let runs = example();
        let comparison = Comparison {
            runs: &runs,
            base: 1,
        };
        let style = |width| TableStyle {
            width: Some(width),
            ..TableStyle::default()
        };
        let narrow = text(&comparison, style(50), false);
        assert!(narrow.contains(" columns do not fit on the"), "{narrow}");
        let wide = text(&comparison, style(200), false);
        assert!(!wide.contains("not fit"), "{wide}");
    }

    #[test]
    fn json_has_the_runs_and_the_ratios() {
        let runs = example();
        let json = |base| serde_json::to_value(Json(&Comparison { runs: &runs, base })).unwrap();
        let value = json(1);
        assert_eq!(
            (&value["base"], &value["systems"][1]["system_b64"]),
            (&"new".into(), &"c/8=".into())
        );
        assert_eq!(value["systems"][0]["labels"][0]["cell"], "a&b");
        assert_eq!(value["systems"][0]["took"][1]["sys"], 0.25);
        let ratio = &value["ratios"][0];
        assert_eq!(
            (&ratio["of"], &ratio["systems"], &ratio["real"]["mean"]),
            (&"old".into(), &2.into(), &2.5.into())
        );
        assert!(
            ratio["calls"].is_null()
                && ratio["each"][1]["user"].is_null()
                && ratio["printed"]["user"].is_null()
        );
        assert_eq!(
            (
                &ratio["printed"]["real"]["mean"],
                &ratio["average_of"]["real"]
            ),
            (&2.5.into(), &6.5.into())
        );
        // The file has printed ratios for one base only, so there are none for the other base.
        let turned = json(0);
        assert!(turned["ratios"][0]["printed"]["real"].is_null(), "{turned}");
    }
}
