//! What `fathom mounts --compare` prints: the papers' Tables 2 to 4 and Figures 2, 3, 7, 9 and 10, for
//! another tree.

use serde::Serialize;
use show::json::Gates;
use show::json_object;
use show::profile::{self, Line};
use show::stats::{self, Stats, StatsRow};
use show::table::{Align, Table, Tone};
use show::times::{Times, median_ms};
use show::units::count;

/// A method, and what its runs took.
#[derive(Clone, Debug)]
pub(crate) struct Method {
    pub(crate) by: &'static str,
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

    fn stats(&self, field: fn(&Times) -> f64) -> Option<Stats> {
        Stats::from_values(self.runs.iter().map(field))
    }
}

json_object!(Method, |method| {
    "by": method.by,
    "complete": method.complete,
    "found": method.found,
    "real": method.stats(|t| t.real),
    "user": method.stats(|t| t.user),
    "sys": method.stats(|t| t.sys),
    "runs": method.runs,
    "calls": method.calls(),
    "stat_calls": method.stat_calls,
    "gates": method.gates,
    "profile": method.profile,
});

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

/// What the method `of` takes, divided by what the method `to` takes.
#[derive(Clone, Debug, Serialize)]
struct Ratio {
    of: &'static str,
    to: &'static str,
    /// Where the papers have it.
    table: Option<&'static str>,
    /// Ratios of times, trial by trial, without trials in which one was too short to measure.
    real: Option<Stats>,
    user: Option<Stats>,
    sys: Option<Stats>,
    calls: f64,
    stat_calls: f64,
}

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
    pub(crate) by: &'static str,
    pub(crate) why: String,
}

pub(crate) fn comparison<'a>(methods: &'a [Method], left_out: &'a [LeftOut]) -> Comparison<'a> {
    let trials = methods.iter().map(|method| method.runs.len()).max();
    Comparison {
        trials: trials.unwrap_or(0),
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
            let pairs = a.runs.iter().zip(&b.runs);
            let times = pairs.map(|(a, b)| (field(a), field(b)));
            let measured = times.filter(|(a, b)| *a > 0.0 && *b > 0.0);
            Stats::from_values(measured.map(|(a, b)| a / b))
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
        ("CALLS", Right),
        ("STAT CALLS", Right),
        ("TIME/BEST", Right),
    ];
    let medians = methods
        .iter()
        .filter_map(|m| median_ms(&m.runs, |t| t.real));
    let best = medians.fold(f64::INFINITY, f64::min);
    let mut table = Table::new(&columns, 0);
    for m in methods {
        let ms = |field| median_ms(&m.runs, field).map_or("-".to_owned(), |ms| format!("{ms:.2}"));
        let real = median_ms(&m.runs, |t| t.real);
        let cells = [
            m.by.to_owned(),
            count(m.found),
            if m.complete { "yes" } else { "no" }.to_owned(),
            ms(|t| t.real),
            ms(|t| t.user),
            ms(|t| t.sys),
            count(m.calls()),
            count(m.stat_calls),
            real.map_or("-".to_owned(), |ms| format!("{:.1}", ms / best)),
        ];
        table.row(cells, Tone::Plain);
    }
    table
}

/// The ratios, in the form of the papers' Tables 2 to 4.
pub(crate) fn ratios_text(methods: &[Method], color: bool) -> String {
    let mut out = String::new();
    for ratio in ratios(methods) {
        let table = ratio.table.map(|table| format!(" (as {table})"));
        let table = table.unwrap_or_default();
        out.push_str(&format!(
            "\n{}/{}{table}: {:.1} times the calls, {:.1} times the stat calls\n",
            ratio.of, ratio.to, ratio.calls, ratio.stat_calls
        ));
        let method = methods.iter().find(|m| m.by == ratio.of);
        let row = |name: &str, stats: Option<Stats>, field: fn(&Times) -> f64| {
            let average = method.and_then(|method| method.stats(field));
            let average = average.map_or("-".to_owned(), |s| format!("{:.4}", s.mean));
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
        let profile = profile::to_text(&method.profile, color);
        let by = method.by;
        out += &format!("\n{by}{figure}: profile of one run\n{profile}");
    }
    out
}
