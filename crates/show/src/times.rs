//! Elapsed, user and system times of runs.

use std::time::Duration;

use serde::Serialize;

use crate::stats::Stats;

/// The times of a run in seconds, as time(1) gives them.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Times {
    pub real: f64,
    pub user: f64,
    pub sys: f64,
}

impl Times {
    /// Real, user and sys.
    pub fn new([real, user, sys]: [Duration; 3]) -> Times {
        Times {
            real: real.as_secs_f64(),
            user: user.as_secs_f64(),
            sys: sys.as_secs_f64(),
        }
    }
}

/// The median of some runs, in milliseconds; `None` where there are none.
pub fn median_ms(runs: &[Times], field: fn(&Times) -> f64) -> Option<f64> {
    Stats::from_values(runs.iter().map(field)).map(|stats| 1000.0 * stats.median)
}
