//! Statistics that are robust against outliers, and probabilities of chance.

use std::borrow::Borrow;

/// The quantile `share` (0 to 1) of a sorted sample; 0 for an empty one.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return 0.0;
    };
    let at = share.clamp(0.0, 1.0) * last as f64;
    let low = sorted.get(at.floor() as usize).copied().unwrap_or_default();
    let high = sorted.get(at.ceil() as usize).copied().unwrap_or(low);
    low + (high - low) * at.fract()
}

/// The finite values of a sample in increasing order.
pub(crate) fn sorted(sample: impl IntoIterator<Item: Borrow<f64>>) -> Vec<f64> {
    let sample = sample.into_iter().map(|v| *v.borrow());
    let mut sample: Vec<f64> = sample.filter(|v| v.is_finite()).collect();
    sample.sort_unstable_by(f64::total_cmp);
    sample
}

/// The median of a sample; 0 for an empty one.
pub(crate) fn median(sample: impl IntoIterator<Item: Borrow<f64>>) -> f64 {
    quantile(&sorted(sample), 0.5)
}

/// The median absolute deviation, scaled to the standard deviation of normal samples.
pub(crate) fn spread(sample: &[f64]) -> f64 {
    let middle = median(sample);
    1.4826 * median(sample.iter().map(|v| (v - middle).abs()))
}

/// The binomial probability of at least `hits` in `tries`, each with probability `p`.
pub(crate) fn chance(tries: usize, hits: usize, p: f64) -> f64 {
    if hits == 0 {
        return 1.0;
    }
    if hits > tries || p <= 0.0 {
        return 0.0;
    }
    let (log_p, log_q) = (p.min(1.0).ln(), (1.0 - p).max(f64::MIN_POSITIVE).ln());
    // ln of the binomial coefficient, updated from term to term.
    let mut choose = (0..hits)
        .map(|i| ((tries - i) as f64).ln() - ((i + 1) as f64).ln())
        .sum::<f64>();
    let mut sum = 0.0;
    for k in hits..=tries {
        sum += (choose + k as f64 * log_p + (tries - k) as f64 * log_q).exp();
        choose += ((tries - k) as f64).ln() - ((k + 1) as f64).ln();
    }
    sum.min(1.0)
}

/// Combines the values of several runs at each index, up to the length of the shortest run.
pub(crate) fn combine_runs(runs: &[Vec<f64>], combine: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let len = runs.iter().map(Vec::len).min().unwrap_or_default();
    let at_index = |i: usize| combine(&runs.iter().map(|run| run[i]).collect::<Vec<_>>());
    (0..len).map(at_index).collect()
}

/// The most frequent value and its count; the smaller of two equally frequent values.
pub(crate) fn mode(sample: &[u64]) -> Option<(u64, usize)> {
    let mut sorted = sample.to_vec();
    sorted.sort_unstable();
    let mut best: Option<(u64, usize)> = None;
    for run in sorted.chunk_by(|a, b| a == b) {
        if let Some(&value) = run.first()
            && best.is_none_or(|(_, n)| run.len() > n)
        {
            best = Some((value, run.len()));
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_between_samples() {
        let sample = sorted([4.0, f64::NAN, 1.0, 3.0, 2.0]);
        assert_eq!(
            (
                quantile(&sample, 0.0),
                quantile(&sample, 0.5),
                quantile(&sample, 1.0)
            ),
            (1.0, 2.5, 4.0)
        );
        assert_eq!(median([0.0; 0]), 0.0);
        assert_eq!(spread(&[1.0, 1.0, 1.0, 900.0]), 0.0);
    }

    #[test]
    fn chances_are_binomial() {
        assert!((chance(10, 3, 0.5) - 968.0 / 1024.0).abs() < 1e-9);
        assert!((chance(2, 2, 0.25) - 0.0625).abs() < 1e-12);
        assert_eq!(
            (chance(5, 0, 0.1), chance(5, 6, 0.1), chance(5, 1, 0.0)),
            (1.0, 0.0, 0.0)
        );
        assert!((chance(4000, 1, 1.0) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_mode_is_the_smallest_of_the_most_frequent_values() {
        assert_eq!(mode(&[8, 4, 8, 4, 2]), Some((4, 2)));
        assert_eq!(mode(&[]), None);
    }
}
