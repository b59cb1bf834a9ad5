//! The comparison of methods: the papers' Tables 2 to 4 and Figures 2, 3, 7, 9 and 10, for the tree
//! at hand.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use show::json::Gates;
use show::profile::{self, Line};
use show::stats::{self, Stats, StatsRow};
use show::table::{Align, Table, Tone};
use show::times::{Times, median_ms};

/// A method, and what its runs took.
#[derive(Clone, Debug)]
pub(crate) struct Method {
    /// Its name.
    pub(crate) by: &'static str,
    /// Whether it left nothing out.
    pub(crate) complete: bool,
    /// Mount points found.
    pub(crate) found: u64,
    /// One for each trial.
    pub(crate) runs: Vec<Times>,
    /// Calls of one run.
    pub(crate) gates: Gates,
    /// Of them, those that ask for a file's attributes.
    pub(crate) stat_calls: u64,
    /// One more run with every call timed.
    pub(crate) profile: Vec<Line>,
}

impl Method {
    /// All calls of one run.
    pub(crate) fn calls(&self) -> u64 {
        self.gates.values().map(|row| row.calls).sum()
    }
}

impl Serialize for Method {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let stats = |field: fn(&Times) -> f64| Stats::from_values(self.runs.iter().map(field));
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("by", self.by)?;
        map.serialize_entry("complete", &self.complete)?;
        map.serialize_entry("found", &self.found)?;
        map.serialize_entry("real", &stats(|t| t.real))?;
        map.serialize_entry("user", &stats(|t| t.user))?;
        map.serialize_entry("sys", &stats(|t| t.sys))?;
        map.serialize_entry("runs", &self.runs)?;
        map.serialize_entry("calls", &self.calls())?;
        map.serialize_entry("stat_calls", &self.stat_calls)?;
        map.serialize_entry("gates", &self.gates)?;
        map.serialize_entry("profile", &self.profile)?;
        map.end()
    }
}

/// The ratios that are shown: of a method to a better one, and where the papers have the same.
const PAIRS: [(&str, &str, Option<&str>); 7] = [
    ("naive", "getmnt1", None),
    ("getmnt1", "getmnt2", Some("Table 2, Figure 7")),
    ("getmnt2", "getmnt3", Some("Table 3, Figure 10")),
    ("getmnt1", "getmnt3", Some("Table 4")),
    ("getmnt3", "search", None),
    ("naive", "search", None),
    ("naive", "getmnt3", None),
];

/// How much one method takes of what another takes.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Ratio {
    /// The method above the line.
    pub(crate) of: &'static str,
    /// The method below it.
    pub(crate) to: &'static str,
    /// Where the papers have it.
    pub(crate) table: Option<&'static str>,
    /// Of elapsed times, trial by trial.
    pub(crate) real: Option<Stats>,
    /// Of user times; trials in which one of them was too short to measure are left out.
    pub(crate) user: Option<Stats>,
    /// Of system times, likewise.
    pub(crate) sys: Option<Stats>,
    /// Of all calls.
    pub(crate) calls: f64,
    /// Of the calls that ask for a file's attributes.
    pub(crate) stat_calls: f64,
}

/// A comparison, ready to be shown.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Comparison<'a> {
    trials: usize,
    methods: &'a [Method],
    ratios: Vec<Ratio>,
    left_out: &'a [LeftOut],
}

/// A method that was not compared.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LeftOut {
    /// Its name.
    pub(crate) by: &'static str,
    /// Why.
    pub(crate) why: String,
}

/// Works out the ratios.
pub(crate) fn comparison<'a>(methods: &'a [Method], left_out: &'a [LeftOut]) -> Comparison<'a> {
    let trials = methods
        .iter()
        .map(|method| method.runs.len())
        .max()
        .unwrap_or(0);
    Comparison {
        trials,
        methods,
        ratios: ratios(methods),
        left_out,
    }
}

fn ratios(methods: &[Method]) -> Vec<Ratio> {
    let find = |name: &str| methods.iter().find(|method| method.by == name);
    let mut ratios = Vec::new();
    for (of, to, table) in PAIRS {
        let (Some(a), Some(b)) = (find(of), find(to)) else {
            continue;
        };
        let of_times = |field: fn(&Times) -> f64| {
            let pairs = a
                .runs
                .iter()
                .zip(&b.runs)
                .map(|(a, b)| (field(a), field(b)));
            Stats::from_values(
                pairs
                    .filter(|(a, b)| *a > 0.0 && *b > 0.0)
                    .map(|(a, b)| a / b),
            )
        };
        let of_counts = |a: u64, b: u64| a as f64 / (b as f64).max(1.0);
        ratios.push(Ratio {
            of: a.by,
            to: b.by,
            table,
            real: of_times(|t| t.real),
            user: of_times(|t| t.user),
            sys: of_times(|t| t.sys),
            calls: of_counts(a.calls(), b.calls()),
            stat_calls: of_counts(a.stat_calls, b.stat_calls),
        });
    }
    ratios
}

/// The table of methods: what each found, and what it took.
pub(crate) fn methods_table(methods: &[Method]) -> Table {
    use Align::{Left, Right};
    let columns = [
        ("METHOD", Left),
        ("FOUND", Right),
        ("COMPLETE", Left),
        ("REAL ms", Right),
        ("USER ms", Right),
        ("SYS ms", Right),
        ("STATS", Right),
        ("CALLS", Right),
        ("x BEST", Right),
    ];
    let best = methods
        .iter()
        .filter_map(|m| median_ms(&m.runs, |t| t.real))
        .fold(f64::INFINITY, f64::min);
    let mut table = Table::new(&columns, 0);
    for m in methods {
        let ms = |field| median_ms(&m.runs, field).map_or("-".to_owned(), |ms| format!("{ms:.2}"));
        let ratio =
            median_ms(&m.runs, |t| t.real).map_or("-".to_owned(), |ms| format!("{:.1}", ms / best));
        let cells = vec![
            m.by.to_owned(),
            m.found.to_string(),
            if m.complete { "yes" } else { "no" }.to_owned(),
            ms(|t| t.real),
            ms(|t| t.user),
            ms(|t| t.sys),
            m.stat_calls.to_string(),
            m.calls().to_string(),
            ratio,
        ];
        table.row(cells, Tone::Plain);
    }
    table
}

/// The ratios, in the form of the papers' Tables 2 to 4.
pub(crate) fn ratios_text(methods: &[Method], color: bool) -> String {
    let mut out = String::new();
    for ratio in ratios(methods) {
        let like = ratio
            .table
            .map_or(String::new(), |table| format!(" (as {table})"));
        out.push_str(&format!(
            "\n{}/{}{like}: {:.1} times the calls, {:.1} times the stat calls\n",
            ratio.of, ratio.to, ratio.calls, ratio.stat_calls
        ));
        let runs = methods
            .iter()
            .find(|m| m.by == ratio.of)
            .map_or(&[][..], |m| &m.runs);
        let row = |name: &str, stats: Option<Stats>, field: fn(&Times) -> f64| {
            let average = Stats::from_values(runs.iter().map(field))
                .map_or("-".to_owned(), |s| format!("{:.4}", s.mean));
            StatsRow {
                name: name.to_owned(),
                stats,
                averages: vec![average],
            }
        };
        let rows = [
            row("real", ratio.real, |t| t.real),
            row("user", ratio.user, |t| t.user),
            row("sys", ratio.sys, |t| t.sys),
        ];
        let table = stats::table(&["AVG s".to_owned()], &rows, 1);
        out.push_str(&table.to_text(None, color));
    }
    out
}

/// The profiles, in the form of the papers' Figures 2, 3 and 9.
pub(crate) fn profiles_text(methods: &[Method], color: bool) -> String {
    let mut out = String::new();
    for method in methods {
        let figure = match method.by {
            "getmnt1" => " (as Figure 2)",
            "getmnt2" => " (as Figure 3)",
            "getmnt3" => " (as Figure 9)",
            _ => "",
        };
        out.push_str(&format!(
            "\n{}{figure}, one run with every call timed\n",
            method.by
        ));
        out.push_str(&profile::to_text(&method.profile, color));
    }
    out
}
