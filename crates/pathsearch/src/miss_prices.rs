//! Prices of failed lookups, in place of times that are mostly the meter's own work.

use std::collections::HashMap;

use crate::lookup::split;
use crate::trace::{NameUse, Trace};

/// The seconds and number of timed lookups.
#[derive(Clone, Copy, Default)]
struct Sample {
    seconds: f64,
    lookups: u32,
}

impl Sample {
    fn add(&mut self, seconds: f64) {
        self.seconds += seconds;
        self.lookups += 1;
    }

    /// The time of this number of lookups in nanoseconds.
    fn nanos(&self, lookups: u64) -> u64 {
        let each = 1e9 * self.seconds / f64::from(self.lookups.max(1));
        (lookups as f64 * each).round() as u64
    }
}

/// Replaces the times of failed lookups by their number × the price of a failed lookup in the same
/// directory, which `time_miss` measures without a meter. ptrace(2) stops each call twice, which
/// takes up to a hundred times as long as the lookup, and varies as much: 98 failed lookups of the
/// same command took 4 µs to 27 ms under ptrace, and 120 to 144 µs under BPF.
///
/// On a network file system the price is the mean time under the meter: waiting for the server takes
/// far longer than the meter, and a second lookup would not wait, because the client keeps the
/// answer.
pub(crate) fn price_misses(
    trace: &mut Trace,
    is_network: impl Fn(&[u8]) -> bool,
    time_miss: impl Fn(&[u8]) -> Option<f64>,
) {
    const SAMPLES: usize = 256;
    /// The root directory has no such entry, unless somebody creates it.
    const ABSENT: &[u8] = b"/.fathom-absent";
    let Trace {
        names,
        directories,
        searches,
        totals,
        ..
    } = trace;
    let missing = names.iter().filter(|used| {
        used.count.misses > 0 && used.count.hits == 0 && used.path.starts_with(b"/")
    });
    let missing: Vec<&NameUse> = missing.collect();
    let every = missing.len().div_ceil(SAMPLES).max(1);
    let mut all = Sample::default();
    let mut samples: HashMap<&[u8], Sample> = HashMap::new();
    for used in missing.into_iter().step_by(every) {
        let (dir, _) = split(&used.path);
        if is_network(dir) {
            let seconds = used.nanos as f64 / 1e9 / used.count.misses as f64;
            samples.entry(dir).or_default().add(seconds);
        } else if let Some(seconds) = time_miss(&used.path) {
            all.add(seconds);
            samples.entry(dir).or_default().add(seconds);
        }
    }
    if all.lookups == 0 && totals.misses > 0 {
        time_miss(ABSENT).into_iter().for_each(|one| all.add(one));
    }
    let price = |dir: &[u8]| samples.get(dir).copied().unwrap_or(all);
    let (mut listed, mut nanos) = (0, 0);
    for (dir, lookups) in directories {
        let misses = lookups.counts.total().misses;
        lookups.nanos = price(&dir[..]).nanos(misses);
        listed += misses;
        nanos += lookups.nanos;
    }
    totals.nanos = nanos + all.nanos(totals.misses.saturating_sub(listed));
    for search in searches {
        let tried = search.tried.iter();
        let tried = tried.map(|it| price(split(&it.path).0).nanos(it.count.misses));
        search.nanos = tried.sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::{Count, Kind};
    use crate::trace::{DirectoryLookups, Totals};

    #[test]
    fn times_of_the_meter_are_replaced_by_prices() {
        let name = |path: &str, misses| NameUse {
            path: path.as_bytes().into(),
            count: Count { hits: 0, misses },
            nanos: 9_000_000 * misses,
            ..NameUse::default()
        };
        let directory = |dir: &str, misses| {
            let mut lookups = DirectoryLookups {
                nanos: 9_000_000 * misses,
                ..DirectoryLookups::default()
            };
            lookups.counts.get_mut(Kind::Path).misses = misses;
            (dir.as_bytes().to_vec(), lookups)
        };
        let mut trace = Trace {
            names: vec![name("/a/x", 2), name("/b/x", 3), name("x", 1)],
            directories: vec![directory("/a", 2), directory("/b", 3), directory("", 1)],
            totals: Totals {
                lookups: 8,
                misses: 8,
                nanos: 72_000_000,
            },
            ..Trace::default()
        };
        let time = |path: &[u8]| Some(if path == b"/a/x" { 1e-6 } else { 3e-6 });
        let local = |_: &[u8]| false;
        price_misses(&mut trace, local, time);
        let nanos: Vec<u64> = trace.directories.iter().map(|(_, it)| it.nanos).collect();
        assert_eq!(nanos, [2000, 9000, 2000]);
        // Two lookups are in no directory of the table.
        assert_eq!(trace.totals.nanos, 13_000 + 4000);
        // Names that exist by now have the price of a different lookup.
        price_misses(&mut trace, local, |path| {
            (!path.ends_with(b"/x")).then_some(2e-6)
        });
        assert_eq!(trace.totals.nanos, 16_000);
        price_misses(&mut trace, local, |_| None);
        assert_eq!(trace.totals.nanos, 0);
        // On a network file system, each of the three lookups keeps its time under the meter.
        price_misses(&mut trace, |dir| dir == b"/b", time);
        let nanos: Vec<u64> = trace.directories.iter().map(|(_, it)| it.nanos).collect();
        assert_eq!(nanos, [2000, 27_000_000, 1000]);
    }
}
