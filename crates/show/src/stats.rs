//! The statistics of the papers' tables.

use serde::Serialize;

use crate::table::{Align, Table, Tone};

/// Mean, median, max, min and standard deviation of a sample, as the tables of 1988 give them.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Stats {
    pub mean: f64,
    pub median: f64,
    pub max: f64,
    pub min: f64,
    /// Standard deviation of the sample (with n - 1); 0 for a single value. The papers do not say
    /// whether they divide by n or n - 1.
    pub std_dev: f64,
}

impl Stats {
    /// The statistics of the finite values; `None` when there are none.
    pub fn from_values(values: impl IntoIterator<Item = f64>) -> Option<Stats> {
        let mut values: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            (values[middle - 1] + values[middle]) / 2.0
        };
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        let std_dev = if values.len() > 1 {
            (squares / (n - 1.0)).sqrt()
        } else {
            0.0
        };
        Some(Stats {
            mean,
            median,
            max,
            min,
            std_dev,
        })
    }
}

/// A row of the papers' Tables 2 to 4.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct StatsRow {
    pub name: String,
    pub stats: Option<Stats>,
    pub averages: Vec<String>,
}

/// The papers' Tables 2 to 4: the statistics of each row, with so many decimal places, then columns
/// of averages.
pub fn table(averages: &[String], rows: &[StatsRow], places: usize) -> Table {
    let mut heads = vec![("Time", Align::Left)];
    heads.extend(["mean", "median", "max", "min", "std_dev"].map(|head| (head, Align::Right)));
    heads.extend(averages.iter().map(|head| (&head[..], Align::Right)));
    let mut table = Table::new(&heads, rows.len());
    for row in rows {
        let stats = match &row.stats {
            Some(s) => [s.mean, s.median, s.max, s.min, s.std_dev].map(|v| format!("{v:.places$}")),
            None => ["-"; 5].map(str::to_owned),
        };
        let cells = [&row.name].into_iter().chain(&stats).chain(&row.averages);
        table.row(cells, Tone::Plain);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::Stats;

    #[test]
    fn of_a_small_sample() {
        let stats = Stats::from_values([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!(
            (stats.mean, stats.median, stats.max, stats.min),
            (5.0, 4.5, 9.0, 2.0)
        );
        assert!((stats.std_dev - 2.138).abs() < 0.001);
        assert_eq!(Stats::from_values([f64::NAN]), None);
        assert_eq!(Stats::from_values([3.0]).unwrap().std_dev, 0.0);
    }
}
