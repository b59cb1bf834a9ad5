//! Tables of statistics, in the form of the papers of 1988.

use base::runs::{Stats, Times, median};
use show::json_object;
use show::table::{Align, RowColour, Table};
use show::units::duration;

/// Statistics as a member of the JSON.
pub(crate) struct JsonStats(pub(crate) Stats);

json_object!(JsonStats, |it| {
    "mean": it.0.mean,
    "median": it.0.median,
    "max": it.0.max,
    "min": it.0.min,
    "std_dev": it.0.std_dev,
});

/// A table cell: the median of real, user or system time over several runs.
pub(crate) fn median_cell(runs: &[Times], field: fn(&Times) -> f64) -> String {
    median(runs, field).map_or("-".to_owned(), duration)
}

/// A row in the form of the papers' Tables 2 to 4.
pub(crate) struct StatsRow {
    pub(crate) name: String,
    pub(crate) stats: Option<Stats>,
    pub(crate) averages: Vec<String>,
}

/// A table in the form of the papers' Tables 2 to 4: statistics of the ratios in each row,
/// formatted by `form`, and columns of averages.
pub(crate) fn table(averages: &[String], rows: &[StatsRow], form: fn(f64) -> String) -> Table {
    let mut heads = vec![("Time", Align::Left)];
    heads.extend(["mean", "median", "max", "min", "std_dev"].map(|head| (head, Align::Right)));
    heads.extend(averages.iter().map(|head| (&head[..], Align::Right)));
    let mut table = Table::new(&heads, rows.len());
    for row in rows {
        let stats = match &row.stats {
            Some(s) => [s.mean, s.median, s.max, s.min, s.std_dev].map(form),
            None => ["-"; 5].map(str::to_owned),
        };
        let cells = [&row.name].into_iter().chain(&stats).chain(&row.averages);
        table.row(cells, RowColour::Plain);
    }
    table
}
