//! Finds where a level series begins to rise and stays up.

use super::robust::{median, quantile, sorted, spread};

/// A knee of a series, with its confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Knee {
    /// Index of the first raised sample.
    pub(crate) at: usize,
    /// The confidence between 0 and 1.
    pub(crate) confidence: f64,
}

/// The index at which the series rises above its previous level. `None` if the series stays level,
/// or has too few samples: a knee needs four samples before it and three after it.
pub(crate) fn knee(samples: &[f64]) -> Option<Knee> {
    const BEFORE: usize = 4;
    const AFTER: usize = 3;
    let last = samples.len().checked_sub(AFTER)?;
    // Choose the split with the fewest samples on the wrong side of the level before the split.
    let level_until = |at: usize| {
        let level = median(&samples[..at]);
        let noise = spread(&samples[..at]).max(level.abs() * 0.01).max(1e-9);
        (level, noise)
    };
    let rest = |at: usize| {
        let (level, noise) = level_until(at);
        let is_raised = |v: &&f64| **v > level + 4.0 * noise;
        let raised_before = samples[..at].iter().filter(is_raised).count();
        raised_before + samples.len() - at - samples[at..].iter().filter(is_raised).count()
    };
    let at = (BEFORE..=last).min_by_key(|at| rest(*at))?;
    let (level, noise) = level_until(at);
    let wrong = rest(at) as f64 / samples.len() as f64;
    // After a knee the series stays up: the median of its tail exceeds the noise.
    let tail = quantile(&sorted(&samples[at..]), 0.5);
    let up = tail > level + 6.0 * noise && samples[at] > level + 4.0 * noise;
    (up && wrong <= 0.1).then_some(Knee {
        at,
        confidence: 1.0 - wrong,
    })
}
