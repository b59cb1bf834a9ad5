//! Latencies of lookups: a histogram of nanoseconds.

use serde::{Deserialize, Serialize};

/// Latencies in nanoseconds. Buckets are at most 1/128 as wide as their values, so a percentile is
/// exact to 1 %; count, sum, minimum and maximum are exact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "HistogramCounts", into = "HistogramCounts")]
pub struct Histogram {
    buckets: hdrhistogram::Histogram<u64>,
    sum: u64,
    min: u64,
    max: u64,
}

/// A nonempty bucket of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The smallest value of the bucket.
    pub from: u64,
    /// The largest value of the bucket.
    pub to: u64,
    /// The number of values in the bucket.
    pub calls: u64,
}

/// The form of a histogram that ranks exchange: exact figures, and the largest value and count of
/// each bucket.
#[derive(Serialize, Deserialize)]
struct HistogramCounts {
    sum: u64,
    min: u64,
    max: u64,
    buckets: Vec<(u64, u64)>,
}

impl Default for Histogram {
    fn default() -> Histogram {
        /// Significant decimal digits: two digits give buckets of at most 1/128 of their values.
        const DIGITS: u8 = 2;
        // With this maximum no value is out of range.
        let buckets = hdrhistogram::Histogram::new_with_max(u64::MAX, DIGITS);
        Histogram {
            buckets: buckets.expect("at most 5 digits and a maximum above 1 are valid"),
            sum: 0,
            min: u64::MAX,
            max: 0,
        }
    }
}

impl Histogram {
    /// Adds a value.
    #[inline]
    pub fn record(&mut self, nanos: u64) {
        self.buckets.saturating_record(nanos);
        self.sum = self.sum.saturating_add(nanos);
        self.min = self.min.min(nanos);
        self.max = self.max.max(nanos);
    }

    /// Adds the values of a second histogram.
    pub(crate) fn merge(&mut self, other: &Histogram) {
        self.buckets += &other.buckets;
        self.sum = self.sum.saturating_add(other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// The number of values.
    pub fn calls(&self) -> u64 {
        self.buckets.len()
    }

    /// The minimum; `None` without values.
    pub fn min(&self) -> Option<u64> {
        (self.calls() > 0).then_some(self.min)
    }

    /// The maximum; `None` without values.
    pub fn max(&self) -> Option<u64> {
        (self.calls() > 0).then_some(self.max)
    }

    /// The mean; `None` without values.
    pub fn mean(&self) -> Option<f64> {
        let calls = self.calls();
        (calls > 0).then(|| self.sum as f64 / calls as f64)
    }

    /// The percentile `share` (0 to 1), at most 1 % too high; `None` without values.
    pub fn percentile(&self, share: f64) -> Option<u64> {
        let max = self.max()?;
        Some(self.buckets.value_at_quantile(share).min(max))
    }

    /// The nonempty buckets, in ascending order.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> {
        self.buckets.iter_recorded().map(|recorded| Bucket {
            from: self.buckets.lowest_equivalent(recorded.value_iterated_to()),
            to: recorded.value_iterated_to(),
            calls: recorded.count_at_value(),
        })
    }
}

impl From<Histogram> for HistogramCounts {
    fn from(histogram: Histogram) -> HistogramCounts {
        let buckets = histogram.buckets();
        HistogramCounts {
            sum: histogram.sum,
            min: histogram.min,
            max: histogram.max,
            buckets: buckets.map(|bucket| (bucket.to, bucket.calls)).collect(),
        }
    }
}

impl From<HistogramCounts> for Histogram {
    fn from(counts: HistogramCounts) -> Histogram {
        let mut histogram = Histogram {
            sum: counts.sum,
            min: counts.min,
            max: counts.max,
            ..Histogram::default()
        };
        for (value, calls) in counts.buckets {
            histogram.buckets.saturating_record_n(value, calls);
        }
        histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_do_not_overlap_and_are_narrow() {
        let mut histogram = Histogram::default();
        let values = (0..64).flat_map(|bit| [1_u64 << bit, (1 << bit) + (1 << bit) / 3]);
        values
            .chain([0, u64::MAX])
            .for_each(|value| histogram.record(value));
        let buckets: Vec<Bucket> = histogram.buckets().collect();
        assert!(buckets.windows(2).all(|pair| pair[0].to < pair[1].from));
        for bucket in buckets {
            let width = bucket.to - bucket.from;
            assert!(width <= bucket.from / 100, "{bucket:?} is too wide");
        }
    }

    #[test]
    fn percentiles_are_right_to_one_per_cent() {
        let mut histogram = Histogram::default();
        (1..=100_000).for_each(|n| histogram.record(n * 7));
        for (share, exact) in [
            (0.5, 350_000.0),
            (0.9, 630_000.0),
            (0.99, 693_000.0),
            (0.999, 699_300.0),
        ] {
            let found = histogram.percentile(share).unwrap() as f64;
            assert!(exact <= found && found <= exact * 1.01, "{share}: {found}");
        }
        assert_eq!(
            (histogram.percentile(0.0), histogram.percentile(1.0)),
            (Some(7), Some(700_000))
        );
        assert_eq!((histogram.min(), histogram.max()), (Some(7), Some(700_000)));
        assert_eq!(histogram.mean(), Some(350_003.5));
    }

    #[test]
    fn an_empty_histogram_has_no_percentiles() {
        let none = Histogram::default();
        assert_eq!(
            (none.percentile(0.5), none.mean(), none.min(), none.max()),
            (None, None, None, None)
        );
    }

    #[test]
    fn merging_the_counts_of_a_part_gives_the_whole() {
        let mut whole = Histogram::default();
        let mut thirds = [Histogram::default(), Histogram::default()];
        for n in 0..1000_u64 {
            whole.record(n * n);
            thirds[usize::from(n % 3 == 0)].record(n * n);
        }
        let [mut one, two] = thirds;
        one.merge(&Histogram::from(HistogramCounts::from(two)));
        assert_eq!(one, whole);
        let empty = Histogram::default();
        assert_eq!(Histogram::from(HistogramCounts::from(empty.clone())), empty);
    }
}
