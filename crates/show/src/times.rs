//! Elapsed, user and system times of runs.

use std::time::Duration;

use serde::Serialize;

use crate::stats::Stats;

/// What one run took, in seconds, as timex(1) gave it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Times {
    /// Elapsed.
    pub real: f64,
    /// In the program.
    pub user: f64,
    /// In the kernel.
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
