//! The measurements of the benchmark.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cache::DroppedCaches;
use crate::histogram::Histogram;

/// The results of searching a tree.
#[derive(Clone, Debug)]
pub struct SearchReport {
    /// The search for one file that warms the caches.
    pub primed: Option<SearchPass>,
    /// The searches for all files, in order.
    pub passes: Vec<SearchPass>,
    /// The caches dropped before the first search; `None` if that was not requested.
    pub dropped: Option<DroppedCaches>,
}

impl SearchReport {
    /// The ratio of the first pass's time to that of the second, which finds all names in the
    /// dentry cache, including negative dentries.
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
pub struct SearchPass {
    /// The number of files searched for, summed over the ranks.
    pub files: u64,
    /// The number of files found.
    pub found: u64,
    /// The number of lookups.
    pub lookups: u64,
    /// The number of lookups that failed with an error other than ENOENT and ENOTDIR.
    pub failed: u64,
    /// The time from the first start to the last end of any thread, on the slowest rank.
    pub elapsed: Duration,
    /// The latencies, if requested.
    pub latency: Option<Latency>,
    /// The results by rank.
    pub ranks: Vec<RankPass>,
}

impl SearchPass {
    /// The number of lookups that failed with ENOENT or ENOTDIR.
    pub fn misses(&self) -> u64 {
        self.lookups.saturating_sub(self.found + self.failed)
    }

    /// Failed lookups divided by lookups; 0 without lookups.
    pub fn miss_share(&self) -> f64 {
        self.misses() as f64 / self.lookups.max(1) as f64
    }

    /// Lookups per second; 0 if the time is 0.
    pub fn lookups_per_second(&self) -> f64 {
        rate(self.lookups, self.elapsed)
    }
}

/// The results of one rank in a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankPass {
    /// The number of files found.
    pub found: u64,
    /// The number of lookups.
    pub lookups: u64,
    /// The time from the first start to the last end of a thread.
    pub elapsed: Duration,
}

impl RankPass {
    /// Lookups per second; 0 if the time is 0.
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

/// The latencies of lookups.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    /// Latencies of lookups that found a file.
    pub hits: Histogram,
    /// Latencies of failed lookups.
    pub misses: Histogram,
}

impl Latency {
    /// Latencies of all lookups.
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

/// The result of removing a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemovalReport {
    /// The number of removed objects, counted like [`Shape::objects`](crate::Shape::objects).
    pub objects: u64,
    /// The number of kept entries, which the benchmark did not create.
    pub left: u64,
    /// The time to remove the tree.
    pub elapsed: Duration,
}

/// A step that has just finished.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// The tree was created.
    Created(Duration),
    /// A pass has finished, which may be the one that warms the caches.
    Searched(&'a SearchPass),
    /// The tree was removed as far as possible.
    Removed(RemovalReport),
}
