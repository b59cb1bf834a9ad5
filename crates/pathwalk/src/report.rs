//! What the benchmark measured.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cache::DroppedCaches;
use crate::histogram::Histogram;

/// The searches of a tree.
#[derive(Clone, Debug)]
pub struct SearchReport {
    /// The search for one file that primes the caches.
    pub primed: Option<Pass>,
    /// The searches for all files, in turn.
    pub passes: Vec<Pass>,
    /// What was dropped from the caches before the first search; `None` if nothing was to be.
    pub dropped: Option<DroppedCaches>,
}

impl SearchReport {
    /// How much longer the first pass took than the second, which finds all names in the dentry
    /// cache, including those that do not exist.
    pub fn first_to_second(&self) -> Option<f64> {
        let [first, second, ..] = &self.passes[..] else {
            return None;
        };
        let second = second.elapsed.as_secs_f64();
        (second > 0.0).then(|| first.elapsed.as_secs_f64() / second)
    }
}

/// One search for all files, by all threads of all ranks.
#[derive(Clone, Debug, Default)]
pub struct Pass {
    /// Files that were searched for, summed over the ranks.
    pub files: u64,
    /// Files that were found.
    pub found: u64,
    /// Lookups.
    pub lookups: u64,
    /// Lookups that failed with another error than ENOENT or ENOTDIR.
    pub failed: u64,
    /// From the first start of any thread to the last end, on the slowest rank.
    pub elapsed: Duration,
    /// The latencies, if they were asked for.
    pub latency: Option<Latency>,
    /// What each rank did.
    pub ranks: Vec<RankPass>,
}

impl Pass {
    /// Lookups that failed with ENOENT or ENOTDIR.
    pub fn misses(&self) -> u64 {
        self.lookups.saturating_sub(self.found + self.failed)
    }

    /// Misses by lookups; 0 without lookups.
    pub fn miss_share(&self) -> f64 {
        self.misses() as f64 / self.lookups.max(1) as f64
    }

    /// Lookups by seconds; 0 if it took no time.
    pub fn lookups_per_second(&self) -> f64 {
        rate(self.lookups, self.elapsed)
    }
}

/// What one rank did in a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankPass {
    /// Files that were found.
    pub found: u64,
    /// Lookups.
    pub lookups: u64,
    /// From the first start of a thread to the last end.
    pub elapsed: Duration,
}

impl RankPass {
    /// Lookups by seconds; 0 if it took no time.
    pub fn lookups_per_second(&self) -> f64 {
        rate(self.lookups, self.elapsed)
    }
}

fn rate(lookups: u64, elapsed: Duration) -> f64 {
    if elapsed.is_zero() {
        0.0
    } else {
        lookups as f64 / elapsed.as_secs_f64()
    }
}

/// How long lookups took.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    /// Lookups that found a file.
    pub hits: Histogram,
    /// All others.
    pub misses: Histogram,
}

impl Latency {
    /// All lookups.
    pub fn all(&self) -> Histogram {
        let mut all = self.hits.clone();
        all.merge(&self.misses);
        all
    }

    pub(crate) fn merged(mut self, other: Latency) -> Latency {
        self.hits.merge(&other.hits);
        self.misses.merge(&other.misses);
        self
    }
}

/// A tree that was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed {
    /// Objects that were removed, counted as in [`Shape::objects`](crate::Shape::objects).
    pub objects: u64,
    /// Entries that were kept, because the benchmark did not create them.
    pub left: u64,
    /// How long it took.
    pub elapsed: Duration,
}

/// A step that has just been completed.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// The tree was created.
    Created(Duration),
    /// A pass is over; it may be the one that primes the caches.
    Searched(&'a Pass),
    /// The tree was removed, as far as possible.
    Removed(Removed),
}
