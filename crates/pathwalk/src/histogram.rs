//! How long look-ups take: a histogram in the manner of HDR ones, its buckets at most 1/32 as wide
//! as what is in them, so that a percentile is right to 3 %, from a nanosecond to centuries.

/// Buckets in each power of two.
const PARTS: u64 = 32;
/// Values below this have a bucket each.
const EXACT: u64 = 2 * PARTS;
/// How many buckets there are.
const BUCKETS: usize = (EXACT + (63 - 5) * PARTS) as usize;

/// Durations in nanoseconds, counted.
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: Box<[u64; BUCKETS]>,
    sum: u64,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram {
            counts: Box::new([0; BUCKETS]),
            sum: 0,
            min: u64::MAX,
            max: 0,
        }
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.buckets()).finish()
    }
}

/// The bucket of a value.
#[inline]
fn bucket(value: u64) -> usize {
    if value < EXACT {
        return value as usize;
    }
    let power = u64::from(value.ilog2()); // 6 to 63
    let part = (value >> (power - 5)) & (PARTS - 1);
    (EXACT + (power - 6) * PARTS + part) as usize
}

/// The least value of a bucket.
fn least(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < EXACT {
        return bucket;
    }
    let (power, part) = ((bucket - EXACT) / PARTS + 6, (bucket - EXACT) % PARTS);
    (PARTS + part) << (power - 5)
}

impl Histogram {
    /// Counts one.
    #[inline]
    pub fn record(&mut self, nanos: u64) {
        if let Some(count) = self.counts.get_mut(bucket(nanos)) {
            *count += 1;
        }
        self.sum = self.sum.saturating_add(nanos);
        self.min = self.min.min(nanos);
        self.max = self.max.max(nanos);
    }

    /// Adds what another has counted.
    pub fn add(&mut self, other: &Histogram) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts.iter()) {
            *mine = mine.saturating_add(*theirs);
        }
        self.sum = self.sum.saturating_add(other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// How many were counted.
    pub fn calls(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The shortest; `None` when there was none.
    pub fn min(&self) -> Option<u64> {
        (self.min <= self.max).then_some(self.min)
    }

    /// The longest.
    pub fn max(&self) -> Option<u64> {
        (self.min <= self.max).then_some(self.max)
    }

    /// The mean, in nanoseconds.
    pub fn mean(&self) -> Option<f64> {
        let calls = self.calls();
        (calls > 0).then(|| self.sum as f64 / calls as f64)
    }

    /// What `share` (0 to 1) of them do not exceed, up to 3 % too long.
    pub fn percentile(&self, share: f64) -> Option<u64> {
        let wanted = (share * self.calls() as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        self.buckets().find_map(|(_, to, count)| {
            seen += count;
            (seen >= wanted).then_some(to.min(self.max))
        })
    }

    /// The buckets in which there are any: the least and the greatest value in nanoseconds, and how
    /// many.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        let greatest = |at: usize| {
            if at + 1 < BUCKETS {
                least(at + 1) - 1
            } else {
                u64::MAX
            }
        };
        let used = self
            .counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0);
        used.map(move |(at, count)| (least(at), greatest(at), *count))
    }

    /// As numbers that [`Histogram::from_words`] reads.
    pub(crate) fn to_words(&self) -> Vec<u64> {
        let mut words = vec![self.sum, self.min, self.max];
        words.extend(self.buckets().flat_map(|(least, _, count)| [least, count]));
        words
    }

    pub(crate) fn from_words(words: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        if let [sum, min, max, buckets @ ..] = words {
            (histogram.sum, histogram.min, histogram.max) = (*sum, *min, *max);
            for pair in buckets.chunks_exact(2) {
                if let Some(count) = histogram.counts.get_mut(bucket(pair[0])) {
                    *count = pair[1];
                }
            }
        }
        histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_one_another_and_are_narrow() {
        assert_eq!((bucket(0), bucket(u64::MAX)), (0, BUCKETS - 1));
        for at in 1..BUCKETS {
            let (from, before) = (least(at), least(at - 1));
            assert!(from > before, "{at}");
            assert_eq!((bucket(from), bucket(from - 1)), (at, at - 1));
            assert!(
                at <= EXACT as usize || (from - before) * PARTS <= before,
                "{at} is too wide"
            );
        }
    }

    #[test]
    fn percentiles_are_right_to_three_per_cent() {
        let mut histogram = Histogram::default();
        (1..=100_000).for_each(|n| histogram.record(n * 7));
        for (share, exact) in [
            (0.5, 350_000.0),
            (0.9, 630_000.0),
            (0.99, 693_000.0),
            (0.999, 699_300.0),
        ] {
            let found = histogram.percentile(share).unwrap() as f64;
            assert!(exact <= found && found <= exact * 1.032, "{share}: {found}");
        }
        assert_eq!(
            (histogram.percentile(0.0), histogram.percentile(1.0)),
            (Some(7), Some(700_000))
        );
        assert_eq!((histogram.min(), histogram.max()), (Some(7), Some(700_000)));
        assert_eq!(histogram.mean(), Some(350_003.5));
    }

    #[test]
    fn nothing_has_no_percentiles() {
        let none = Histogram::default();
        assert_eq!(
            (none.percentile(0.5), none.mean(), none.min(), none.max()),
            (None, None, None, None)
        );
    }

    #[test]
    fn added_up_or_as_words_it_is_the_same() {
        let (mut all, mut one, mut two) = (
            Histogram::default(),
            Histogram::default(),
            Histogram::default(),
        );
        for n in 0..1000_u64 {
            all.record(n * n);
            if n % 3 == 0 {
                one.record(n * n)
            } else {
                two.record(n * n)
            }
        }
        one.add(&Histogram::from_words(&two.to_words()));
        assert_eq!(one, all);
        assert_eq!(
            Histogram::from_words(&Histogram::default().to_words()),
            Histogram::default()
        );
    }
}
