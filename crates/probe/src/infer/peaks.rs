//! Finds peaks in a series and their distance, as the paper's authors did by eye.

use super::robust::{chance, median, quantile, sorted, spread};

/// A period of a series, in samples; `low` and `high` are equal if the period is a whole number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Period {
    /// The shortest observed distance.
    pub(crate) low: f64,
    /// The longest observed distance.
    pub(crate) high: f64,
    /// The index of the peaks within the period.
    pub(crate) phase: usize,
    /// 1 less the probability that noise looks like that.
    pub(crate) confidence: f64,
}

/// Minimum height of a peak above the median, in multiples of the scaled median absolute deviation.
const HIGH: f64 = 6.0;

/// The indices of the peaks, in order: samples far above the median. Of adjacent peaks, only the
/// highest one counts.
pub(crate) fn peaks(samples: &[f64]) -> Vec<usize> {
    let middle = median(samples);
    let line = middle + (HIGH * spread(samples)).max(middle.abs() * 0.1);
    let mut peaks: Vec<usize> = Vec::new();
    for (i, value) in samples.iter().enumerate().filter(|(_, v)| **v > line) {
        match peaks.last_mut() {
            Some(last) if *last + 1 == i => {
                if samples[*last] < *value {
                    *last = i;
                }
            }
            _ => peaks.push(i),
        }
    }
    peaks
}

/// The period of the peaks, as the range of the distances that agree; `None` if the agreement may
/// be chance. One distance in four may differ: the first one usually does, because nothing is
/// prefetched yet.
pub(crate) fn spacing(peaks: &[usize]) -> Option<Period> {
    let distance = |pair: &[usize]| pair[1].saturating_sub(pair[0]) as f64;
    let intervals: Vec<f64> = peaks.windows(2).map(distance).collect();
    let usual = quantile(&sorted(&intervals), 0.5).round();
    // A distance that is no whole number of samples is rounded down or up.
    let slack = if usual >= 32.0 { 1.0 } else { 0.0 };
    let agreeing = sorted(intervals.iter().filter(|d| (*d - usual).abs() <= slack));
    let (low, high) = (*agreeing.first()?, *agreeing.last()?);
    if agreeing.len() < 3 || agreeing.len() * 4 < intervals.len() * 3 || usual < 2.0 {
        return None;
    }
    // The first distance sets the period, so only the other distances can agree with it by chance.
    let by_chance = (2.0 * slack + 1.0) / usual;
    let odds = chance(intervals.len() - 1, agreeing.len() - 1, by_chance);
    let phase = peaks.last().map_or(0, |last| last % usual as usize);
    (odds < 0.01).then_some(Period {
        low,
        high,
        phase,
        confidence: 1.0 - odds,
    })
}
