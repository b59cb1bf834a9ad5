//! The period of a series in which one call in every n costs more, found with a comb.
//!
//! For each period the samples are sorted by their phase, and the lower quartile of the logarithms
//! of each phase is taken: a phase is high only if most of its samples are, so that an occasional
//! disturbance does not matter. A period's score is how far its highest phase is above the median
//! phase. All multiples of the true period score as well, and none of its divisors: the result is
//! the smallest period with half of the best score. (Autocorrelation and the periodogram were tried,
//! and fail where the period is long and the peaks are narrow.)

use super::peaks::{Period, spacing};
use super::robust::{chance, median, quantile, sorted};

/// How many cycles a period must have.
pub(crate) const CYCLES: usize = 12;

/// The period, of at least 2 samples; `None` where none stands out. The first quarter of the series
/// is ignored, since the period may still change there.
pub(crate) fn comb(samples: &[f64]) -> Option<Period> {
    let samples: Vec<f64> = samples
        .iter()
        .skip(samples.len() / 4)
        .map(|v| v.max(1e-9).ln())
        .collect();
    let longest = samples.len() / CYCLES;
    let scores: Vec<(usize, f64, usize)> = (2..=longest)
        .map(|period| {
            let mut phases: Vec<f64> = (0..period)
                .map(|phase| lower(&samples, period, phase))
                .collect();
            let highest = phases.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
            let (phase, high) = highest.map_or((0, 0.0), |(phase, high)| (phase, *high));
            phases.sort_unstable_by(f64::total_cmp);
            // With two phases the median would include half of the highest.
            (
                period,
                high - quantile(&phases, if period == 2 { 0.0 } else { 0.5 }),
                phase,
            )
        })
        .collect();
    let best = scores
        .iter()
        .map(|(_, score, _)| *score)
        .fold(0.0, f64::max);
    let (period, score, phase) = *scores
        .iter()
        .find(|(_, score, _)| *score > 0.0 && *score >= best / 2.0)?;
    // The odds that one of all phases of all periods is so high by chance. One in `period` samples
    // is high; up to one in twenty more may be disturbed, and higher than any peak.
    let share = (2.0 / period as f64).clamp(0.1, 0.5);
    let line = quantile(&sorted(samples.iter().copied()), 1.0 - share);
    let teeth: Vec<f64> = samples
        .iter()
        .skip(phase)
        .step_by(period)
        .copied()
        .collect();
    let hits = teeth.iter().filter(|v| **v >= line).count();
    let odds = chance(teeth.len(), hits, share) * (longest * longest) as f64 / 2.0;
    let clear = score > 0.02 && median(teeth) > quantile(&sorted(samples.iter().copied()), 0.5);
    if !clear || odds >= 0.01 {
        return None;
    }
    let found = Period {
        low: period as f64,
        high: period as f64,
        phase,
        confidence: 1.0 - odds,
    };
    Some(longer(&samples, &found).unwrap_or(found))
}

/// A period that is too long for the comb, of which the comb has found only a finer structure: some
/// of the teeth are as far above the others as these are above the rest, and at one distance. (With
/// large folios, the first read of each takes a little longer; a window has several folios.)
fn longer(samples: &[f64], found: &Period) -> Option<Period> {
    let period = found.low as usize;
    let teeth: Vec<f64> = samples
        .iter()
        .skip(found.phase)
        .step_by(period)
        .copied()
        .collect();
    let (level, tooth) = (
        median(samples.iter().copied()),
        median(teeth.iter().copied()),
    );
    let line = tooth + (tooth - level);
    let giants: Vec<usize> = samples
        .iter()
        .enumerate()
        .skip(found.phase)
        .step_by(period)
        .filter(|(_, v)| **v > line)
        .map(|(i, _)| i)
        .collect();
    // Where every second tooth is a giant, both are of one kind.
    spacing(&giants).filter(|longer| longer.low >= 3.0 * found.low)
}

/// The lower quartile of the samples of a phase.
fn lower(samples: &[f64], period: usize, phase: usize) -> f64 {
    let mut of: Vec<f64> = samples
        .iter()
        .skip(phase)
        .step_by(period)
        .copied()
        .collect();
    let at = of.len().saturating_sub(1) / 4;
    if of.is_empty() {
        f64::NEG_INFINITY
    } else {
        *of.select_nth_unstable_by(at, f64::total_cmp).1
    }
}
