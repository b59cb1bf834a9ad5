//! Finds the period of a series in which every n-th call costs more, with a comb.
//!
//! For each period the samples are grouped by their phase, and the lower quartile of the logarithms
//! of each phase is taken: a phase is high only if most of its samples are, so that occasional
//! disturbances do not matter. The score of a period is the distance of its highest phase above the
//! median phase. Multiples of the true period score as well, but no divisors: so the result is the
//! smallest period with half of the best score. (Autocorrelation and the periodogram were tried,
//! and fail where the period is long and the peaks are narrow.)

use super::peaks::{Period, spacing};
use super::robust::{chance, median, quantile, sorted};

/// Minimum number of cycles of a period in the series.
pub(crate) const CYCLES: usize = 12;

/// The period, of at least 2 samples; `None` if none stands out. The first quarter of the series is
/// ignored, since the period may still change there.
pub(crate) fn comb(samples: &[f64]) -> Option<Period> {
    let samples = samples.iter().skip(samples.len() / 4);
    let samples: Vec<f64> = samples.map(|v| v.max(1e-9).ln()).collect();
    let longest = samples.len() / CYCLES;
    let score = |period: usize| {
        let mut phases: Vec<f64> = (0..period)
            .map(|phase| lower_quartile(teeth(&samples, period, phase)))
            .collect();
        let highest = phases.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        let (phase, high) = highest.map_or((0, 0.0), |(phase, high)| (phase, *high));
        phases.sort_unstable_by(f64::total_cmp);
        // The median of two phases would contain half of the highest phase, so use the lower phase.
        let usual = quantile(&phases, if period == 2 { 0.0 } else { 0.5 });
        (period, high - usual, phase)
    };
    let scores: Vec<(usize, f64, usize)> = (2..=longest).map(score).collect();
    let best = scores
        .iter()
        .fold(0.0, |best, (_, score, _)| f64::max(best, *score));
    let is_good = |score: f64| score > 0.0 && score >= best / 2.0;
    let (period, score, phase) = scores.into_iter().find(|(_, score, _)| is_good(*score))?;
    // Estimate the probability that one of all phases of all periods is this high by chance. One in
    // `period` samples is expected to be high; one in twenty more may be disturbed, and higher than
    // any peak.
    let share = (2.0 / period as f64).clamp(0.1, 0.5);
    let ordered = sorted(&samples);
    let line = quantile(&ordered, 1.0 - share);
    let teeth: Vec<f64> = teeth(&samples, period, phase).collect();
    let hits = teeth.iter().filter(|v| **v >= line).count();
    let odds = chance(teeth.len(), hits, share) * (longest * longest) as f64 / 2.0;
    let is_clear = score > 0.02 && median(teeth) > quantile(&ordered, 0.5);
    if !is_clear || odds >= 0.01 {
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

/// The samples at one phase of a period: the comb's teeth.
fn teeth(samples: &[f64], period: usize, phase: usize) -> impl Iterator<Item = f64> {
    samples.iter().skip(phase).step_by(period).copied()
}

/// Finds a long period of which the comb only found a finer structure: some teeth exceed the other
/// teeth by as much as the other teeth exceed the remaining samples, and have equal distances.
/// (With large folios, the first read of each folio takes a little longer; a readahead window has
/// several folios.)
fn longer(samples: &[f64], found: &Period) -> Option<Period> {
    let period = found.low as usize;
    let tooth = median(teeth(samples, period, found.phase));
    let line = tooth + (tooth - median(samples));
    let giants: Vec<usize> = (found.phase..samples.len())
        .step_by(period)
        .filter(|i| samples[*i] > line)
        .collect();
    // The longer period must be at least three times the found one: if every second tooth is
    // higher, high and low teeth are both peaks of the found period.
    spacing(&giants).filter(|longer| longer.low >= 3.0 * found.low)
}

fn lower_quartile(samples: impl Iterator<Item = f64>) -> f64 {
    let mut samples: Vec<f64> = samples.collect();
    let at = samples.len().saturating_sub(1) / 4;
    if samples.is_empty() {
        f64::NEG_INFINITY
    } else {
        *samples.select_nth_unstable_by(at, f64::total_cmp).1
    }
}
