//! Counts of system calls by gate.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::gates::{GATES, Gate};

/// Number of buckets in a histogram. Bucket `b` counts calls of 2^b up to 2^(b+1) nanoseconds; the
/// last bucket also counts all longer ones.
pub(crate) const BUCKETS: usize = 36;

/// Counts of the calls through one gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateCounts {
    /// Number of calls, including failed ones.
    pub calls: u64,
    /// Number of failed calls.
    pub errors: u64,
    /// Wall time spent in the calls, in nanoseconds; 0 unless profiling.
    pub nanos: u64,
    /// Number of calls by duration; all 0 unless profiling.
    pub(crate) histogram: [u64; BUCKETS],
}

impl GateCounts {
    /// The number of 64-bit words of [`GateCounts::words`].
    pub(crate) const WORDS: usize = 3 + BUCKETS;

    pub(crate) const NONE: GateCounts = GateCounts::from_words([0; GateCounts::WORDS]);

    pub(crate) const fn from_words(words: [u64; GateCounts::WORDS]) -> GateCounts {
        let [calls, errors, nanos, histogram @ ..] = words;
        GateCounts {
            calls,
            errors,
            nanos,
            histogram,
        }
    }

    pub(crate) fn words(&self) -> [u64; GateCounts::WORDS] {
        let mut words = [0; GateCounts::WORDS];
        words[..3].copy_from_slice(&[self.calls, self.errors, self.nanos]);
        words[3..].copy_from_slice(&self.histogram);
        words
    }

    /// The duration that `share` (0 to 1) of the calls do not exceed, in nanoseconds, rounded up to
    /// the end of a bucket. `None` if no call was timed.
    pub fn percentile(&self, share: f64) -> Option<u64> {
        let timed: u64 = self.histogram.iter().sum();
        let rank = (share * timed as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let bucket = self.histogram.iter().position(|n| {
            seen += n;
            seen >= rank
        });
        bucket.map(|bucket| 2 << bucket)
    }
}

/// Counts of the calls through each gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    pub(crate) gates: [GateCounts; GATES],
}

impl Default for Tally {
    fn default() -> Tally {
        Tally::NONE
    }
}

impl Tally {
    pub(crate) const NONE: Tally = Tally {
        gates: [GateCounts::NONE; GATES],
    };
    /// The number of 64-bit words that [`Tally::publish`] writes.
    pub const WORDS: usize = GATES * GateCounts::WORDS;

    /// The counts of one gate.
    pub fn counts(&self, gate: Gate) -> &GateCounts {
        &self.gates[gate as usize]
    }

    /// The gates that were called, in the order of the enum.
    pub fn used(&self) -> impl Iterator<Item = (Gate, &GateCounts)> {
        Gate::ALL
            .iter()
            .map(|&g| (g, self.counts(g)))
            .filter(|(_, counts)| counts.calls > 0)
    }

    /// Number of calls of all gates.
    pub fn calls(&self) -> u64 {
        self.gates.iter().map(|counts| counts.calls).sum()
    }

    /// Number of calls of `statx` and `newfstatat`.
    pub fn stat_calls(&self) -> u64 {
        self.counts(Gate::Statx).calls + self.counts(Gate::Newfstatat).calls
    }

    fn combine(&mut self, other: &Tally, with: impl Fn(u64, u64) -> u64) {
        let pairs = self.gates.iter_mut().zip(&other.gates);
        // Skip unused gates, which most are: every thread that ends adds its tally.
        for (mine, theirs) in pairs.filter(|(_, theirs)| theirs.calls > 0) {
            let (a, b) = (mine.words(), theirs.words());
            *mine = GateCounts::from_words(std::array::from_fn(|word| with(a[word], b[word])));
        }
    }

    /// Adds another tally to this one.
    pub fn add(&mut self, other: &Tally) {
        self.combine(other, |a, b| a + b);
    }

    /// The difference between this tally and one that was taken earlier.
    pub fn since(&self, earlier: &Tally) -> Tally {
        let mut difference = self.clone();
        difference.combine(earlier, u64::saturating_sub);
        difference
    }

    /// Writes the tally into [`Tally::WORDS`] words of shared memory, for another process to read.
    ///
    /// # Panics
    /// If `words` is shorter.
    pub fn publish(&self, words: &[AtomicU64]) {
        assert!(words.len() >= Tally::WORDS, "too few words for a tally");
        let values = self.gates.iter().flat_map(GateCounts::words);
        for (word, value) in words.iter().zip(values) {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// Reads a tally that [`Tally::publish`] wrote.
    ///
    /// # Panics
    /// If `words` is shorter than [`Tally::WORDS`].
    pub fn collect(words: &[AtomicU64]) -> Tally {
        let (words, _) = words[..Tally::WORDS].as_chunks::<{ GateCounts::WORDS }>();
        Tally {
            gates: std::array::from_fn(|gate| {
                let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
                GateCounts::from_words(words[gate].each_ref().map(load))
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_is_published_and_collected() {
        let mut tally = Tally::default();
        tally.gates[3] = GateCounts {
            calls: 7,
            errors: 2,
            nanos: 99,
            histogram: [1; BUCKETS],
        };
        let words: Vec<AtomicU64> = (0..Tally::WORDS).map(|_| AtomicU64::new(0)).collect();
        tally.publish(&words);
        assert_eq!(Tally::collect(&words), tally);
    }

    #[test]
    fn percentiles_are_upper_ends_of_buckets() {
        let mut counts = GateCounts::NONE;
        assert_eq!(counts.percentile(0.5), None);
        counts.histogram[8] = 99; // 256..512 ns
        counts.histogram[20] = 1;
        assert_eq!(counts.percentile(0.5), Some(512));
        assert_eq!(counts.percentile(1.0), Some(1 << 21));
    }
}
