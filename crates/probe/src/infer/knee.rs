//! Where a series that was level begins to rise and stays up.

use super::robust::{median, quantile, sorted, spread};

/// A knee: the first sample of what is up, and how sure that is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knee {
    /// Place of the first sample that is up.
    pub at: usize,
    /// Between 0 and 1.
    pub confidence: f64,
}

/// The place from which on the series lies above what it was before. `None` where it stays level,
/// or where there is too little on either side to say: a knee needs four samples before it and
/// three after.
pub fn knee(samples: &[f64]) -> Option<Knee> {
    const BEFORE: usize = 4;
    const AFTER: usize = 3;
    let last = samples.len().checked_sub(AFTER)?;
    // The split that leaves least unexplained by a level and, after it, a line up from there.
    let level_until = |at: usize| {
        let level = median(samples[..at].iter().copied());
        let noise = spread(&samples[..at]).max(level.abs() * 0.01).max(1e-9);
        (level, noise)
    };
    let rest = |at: usize| {
        let (level, noise) = level_until(at);
        let below = samples[..at]
            .iter()
            .filter(|v| **v > level + 4.0 * noise)
            .count();
        let above = samples[at..]
            .iter()
            .filter(|v| **v <= level + 4.0 * noise)
            .count();
        below + above
    };
    let at = (BEFORE..=last).min_by_key(|at| rest(*at))?;
    let (level, noise) = level_until(at);
    let wrong = rest(at) as f64 / samples.len() as f64;
    // What rises goes on rising, or stays up: the end is above the knee's level by more than the
    // noise.
    let tail = quantile(&sorted(samples[at..].iter().copied()), 0.5);
    let up = tail > level + 6.0 * noise && samples[at] > level + 4.0 * noise;
    (up && wrong <= 0.1).then_some(Knee {
        at,
        confidence: 1.0 - wrong,
    })
}
