//! The output of `fathom mounts --compare`, in the form of Tables 2 to 4 and Figures 2, 3, 7, 9 and
//! 10 of the papers of 1988.

use account::figures::{Figure, figures_of_runs};
use base::child::NoRun;
use base::runs::{Stats, Times, median};
use mounts::compare::{Comparison, MethodRuns};
use serde::Serialize;
use show::profile;
use show::table::Table;
use show::units::{count, duration, ratio};
use show::{columns, json_object};

use crate::json::Json;
use crate::out::{gates, profile_lines};
use crate::stats::{self, JsonStats, StatsRow, median_cell};

json_object!(Json<'_, MethodRuns>, |it| {
    "by": it.method.name(),
    "complete": it.complete,
    "found": it.found,
    "real": Stats::from_runs(&it.runs, |t| t.real).map(JsonStats),
    "user": Stats::from_runs(&it.runs, |t| t.user).map(JsonStats),
    "sys": Stats::from_runs(&it.runs, |t| t.sys).map(JsonStats),
    "runs": Json(&it.runs[..]),
    "calls": it.profile.calls(),
    "stat_calls": it.profile.stat_calls(),
    "gates": gates(&it.profile),
    "profile": profile_lines(&it.profile),
});

/// Times and calls of each method, from which `fathom compare` makes its tables.
pub(crate) fn figures(methods: &[MethodRuns]) -> Vec<Figure> {
    let figures = |it: &MethodRuns| figures_of_runs(it.method.name(), &it.runs, it.profile.calls());
    methods.iter().flat_map(figures).collect()
}

/// The pairs of methods whose ratios are printed: a method, a faster method, and the papers' table
/// of the same ratio.
const PAIRS: [(&str, &str, Option<&str>); 7] = [
    ("naive", "getmnt1", None),
    ("getmnt1", "getmnt2", Some("Table 2, Figure 7")),
    ("getmnt2", "getmnt3", Some("Table 3, Figure 10")),
    ("getmnt1", "getmnt3", Some("Table 4")),
    ("getmnt3", "search", None),
    ("naive", "search", None),
    ("naive", "getmnt3", None),
];

/// The time and calls of the method `of`, divided by those of the method `to`.
#[derive(Serialize)]
struct Ratio {
    of: &'static str,
    to: &'static str,
    /// The table of the getmnt papers that has the ratio of these two methods.
    table: Option<&'static str>,
    /// Ratios of times, trial by trial. Trials with a time that was too short to measure are
    /// omitted.
    real: Option<JsonStats>,
    user: Option<JsonStats>,
    sys: Option<JsonStats>,
    calls: f64,
    stat_calls: f64,
}

/// A method that was not compared.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LeftOut {
    pub(crate) by: &'static str,
    pub(crate) why: String,
}

/// The methods that have no result, with the reasons.
pub(crate) fn left_out(left_out: &[(mounts::Method, NoRun)]) -> Vec<LeftOut> {
    let left_out = left_out.iter().map(|(method, why)| LeftOut {
        by: method.name(),
        why: why.to_string(),
    });
    left_out.collect()
}

/// The comparison of methods, as a member of the JSON.
pub(crate) struct JsonComparison<'a> {
    pub(crate) comparison: &'a Comparison,
    pub(crate) left_out: Vec<LeftOut>,
}

json_object!(JsonComparison<'_>, |it| {
    "trials": it.comparison.methods.iter().map(|it| it.runs.len()).max().unwrap_or(0),
    "methods": Json(&it.comparison.methods[..]),
    "ratios": ratios(&it.comparison.methods),
    "left_out": it.left_out,
});

fn ratios(methods: &[MethodRuns]) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for (of, to, table) in PAIRS {
        let (Some(a), Some(b)) = (find(methods, of), find(methods, to)) else {
            continue;
        };
        let of_times = |field: fn(&Times) -> f64| {
            let pairs = a.runs.iter().zip(&b.runs);
            let times = pairs.map(|(a, b)| (field(a), field(b)));
            let measured = times.filter(|(a, b)| *a > 0.0 && *b > 0.0);
            Stats::from_values(measured.map(|(a, b)| a / b)).map(JsonStats)
        };
        let of_counts = |a: u64, b: u64| a as f64 / (b as f64).max(1.0);
        ratios.push(Ratio {
            of,
            to,
            table,
            real: of_times(|t| t.real),
            user: of_times(|t| t.user),
            sys: of_times(|t| t.sys),
            calls: of_counts(a.profile.calls(), b.profile.calls()),
            stat_calls: of_counts(a.profile.stat_calls(), b.profile.stat_calls()),
        });
    }
    ratios
}

fn find<'a>(methods: &'a [MethodRuns], name: &str) -> Option<&'a MethodRuns> {
    methods.iter().find(|method| method.method.name() == name)
}

/// The table of methods: the number of mounts found, time and calls.
pub(crate) fn methods_table(methods: &[MethodRuns]) -> Table {
    let columns = columns![
        <"METHOD", >"FOUND", <"COMPLETE", >"REAL", >"USER", >"SYS", >"CALLS", >"STAT CALLS",
        >"TIME/BEST"
    ];
    let medians = methods.iter().filter_map(|m| median(&m.runs, |t| t.real));
    let best = medians.fold(f64::INFINITY, f64::min);
    // A search that reads every directory can still miss hidden mounts, so a method is complete
    // only if no other method found more mounts.
    let most = methods.iter().map(|m| m.found).max();
    let rows = methods.iter().map(|m| {
        let real = median(&m.runs, |t| t.real);
        [
            m.method.name().to_owned(),
            count(m.found),
            match m.complete && Some(m.found) == most {
                true => "yes".to_owned(),
                false => "no".to_owned(),
            },
            median_cell(&m.runs, |t| t.real),
            median_cell(&m.runs, |t| t.user),
            median_cell(&m.runs, |t| t.sys),
            count(m.profile.calls()),
            count(m.profile.stat_calls()),
            real.map_or("-".to_owned(), |time| ratio(time / best)),
        ]
    });
    Table::from_rows(&columns, rows)
}

/// The ratios, in the form of the papers' Tables 2 to 4.
pub(crate) fn ratios_text(methods: &[MethodRuns], color: bool) -> String {
    let mut out = String::new();
    for pair in ratios(methods) {
        let table = pair.table.map(|table| format!(" (as {table})"));
        let table = table.unwrap_or_default();
        out.push_str(&format!(
            "\n{}/{}{table}: {} times the calls, {} times the stat calls\n",
            pair.of,
            pair.to,
            ratio(pair.calls),
            ratio(pair.stat_calls)
        ));
        let method = find(methods, pair.of);
        let row = |name: &str, stats: Option<JsonStats>, field: fn(&Times) -> f64| {
            let average = method.and_then(|method| Stats::from_runs(&method.runs, field));
            let average = average.map_or("-".to_owned(), |s| duration(s.mean));
            StatsRow {
                name: name.to_owned(),
                stats: stats.map(|it| it.0),
                averages: vec![average],
            }
        };
        let rows = [
            row("real", pair.real, |t| t.real),
            row("user", pair.user, |t| t.user),
            row("sys", pair.sys, |t| t.sys),
        ];
        let table = stats::table(&["AVG".to_owned()], &rows, ratio);
        out.push_str(&table.to_text(None, color));
    }
    out
}

/// The profiles of calls, in the form of the papers' Figures 2, 3 and 9.
pub(crate) fn profiles_text(methods: &[MethodRuns], color: bool) -> String {
    let mut out = String::new();
    for MethodRuns {
        method, profile, ..
    } in methods
    {
        let by = method.name();
        let figure = match by {
            "getmnt1" => " (as Figure 2)",
            "getmnt2" => " (as Figure 3)",
            "getmnt3" => " (as Figure 9)",
            _ => "",
        };
        let profile = profile::to_text(&profile_lines(profile), color);
        out += &format!("\n{by}{figure}: profile of one run\n{profile}");
    }
    out
}
