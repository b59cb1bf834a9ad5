//! Times of repeated runs of a method or an engine, and their statistics.

use std::time::Duration;

/// The times of a run in seconds, as time(1) prints them.
#[derive(Clone, Copy, PartialEq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Times {
    pub real: f64,
    pub user: f64,
    pub sys: f64,
}

impl Times {
    /// Converts real, user and system time to seconds.
    pub fn new([real, user, sys]: [Duration; 3]) -> Times {
        Times {
            real: real.as_secs_f64(),
            user: user.as_secs_f64(),
            sys: sys.as_secs_f64(),
        }
    }
}

/// Mean, median, maximum, minimum and standard deviation of a sample, as in the tables of the
/// papers of 1988.
#[derive(Clone, Copy, PartialEq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Stats {
    pub mean: f64,
    pub median: f64,
    pub max: f64,
    pub min: f64,
    /// The standard deviation of the sample (with n - 1); 0 for a single value. The papers of 1988
    /// do not say whether they divide by n or n - 1.
    pub std_dev: f64,
}

impl Stats {
    /// The statistics of the finite values; `None` if there are none.
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

    /// The statistics of one of the times over several runs; `None` without runs.
    pub fn from_runs(runs: &[Times], time: fn(&Times) -> f64) -> Option<Stats> {
        Stats::from_values(runs.iter().map(time))
    }
}

/// The median of one of the times over several runs, in seconds; `None` without runs.
pub fn median(runs: &[Times], time: fn(&Times) -> f64) -> Option<f64> {
    Stats::from_runs(runs, time).map(|stats| stats.median)
}

/// The median of one of the times over several runs, in milliseconds; `None` without runs.
pub fn median_ms(runs: &[Times], time: fn(&Times) -> f64) -> Option<f64> {
    median(runs, time).map(|seconds| 1000.0 * seconds)
}

/// A time for people, to a hundredth of a second or a millisecond.
pub fn time_text(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds >= 1.0 => format!("{seconds:.2} s"),
        seconds => format!("{:.0} ms", 1000.0 * seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::Stats;

    #[test]
    fn statistics_of_a_small_sample() {
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
