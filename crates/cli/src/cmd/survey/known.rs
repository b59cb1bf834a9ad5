//! What the experiments tell of a file system, and the prices of its system calls.

use crate::cmd::survey::show::probe::{Experiment, Price, Probe, Value};

/// The price of a system call on one thread; of several, the first, which has the plainest
/// argument.
pub(crate) fn best_price<'a>(prices: &'a [Price], gate: &str, state: &str) -> Option<&'a Price> {
    prices
        .iter()
        .find(|price| price.gate == gate && price.state == state && price.threads == 1)
}

/// The results that give a file system's block, readahead and extents, the better one first.
pub(crate) const BLOCK: &[&str] = &["allocation-block", "allocation-block-by-time"];
pub(crate) const READAHEAD: &[&str] = &["readahead-steady", "readahead-steady-by-time"];
pub(crate) const EXTENT: &[&str] = &["extent-largest", "extent-by-time"];

/// A value with its unit.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Reading {
    pub(crate) value: Value,
    pub(crate) unit: &'static str,
}

impl Reading {
    pub(crate) fn inferred(experiment: &Experiment<'_>) -> Option<Reading> {
        Reading::new(&experiment.inferred, experiment.unit)
    }

    pub(crate) fn stated(experiment: &Experiment<'_>) -> Option<Reading> {
        Reading::new(&experiment.truth, experiment.unit)
    }

    fn new(value: &Option<Value>, unit: &'static str) -> Option<Reading> {
        value.clone().map(|value| Reading { value, unit })
    }
}

/// What is known of a property of a file system.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Known {
    /// It was measured.
    Measured(Reading),
    /// It could not be measured; the kernel states this.
    Stated(Reading),
    /// It could not be measured, and the kernel states nothing.
    Unknown,
    /// It was not measured.
    NotMeasured,
}

impl Known {
    /// Takes the first of these results that has a value.
    pub(crate) fn new(probe: &Probe<'_>, names: &[&str]) -> Known {
        let results: Vec<_> = names.iter().filter_map(|name| find(probe, name)).collect();
        let first = |read: fn(&Experiment<'_>) -> Option<Reading>| {
            results.iter().find_map(|result| read(result))
        };
        match (first(Reading::inferred), first(Reading::stated)) {
            (Some(reading), _) => Known::Measured(reading),
            (None, Some(reading)) => Known::Stated(reading),
            (None, None) if results.is_empty() => Known::NotMeasured,
            (None, None) => Known::Unknown,
        }
    }
}

/// How much of a file system the page cache holds.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum CacheSize {
    /// It was measured, or not.
    Known(Known),
    /// At most so much.
    AtMost {
        most: Reading,
        /// The file of the cgroup's limit; none where only memory limits it.
        limit: Option<String>,
    },
}

impl CacheSize {
    /// A size measured in a cgroup that was made for it, with a limit of its own, is not that of
    /// other processes: the limit of this process's own cgroup then says more.
    pub(crate) fn new(probe: &Probe<'_>) -> CacheSize {
        let (capacity, limit) = (find(probe, "cache-capacity"), find(probe, "cache-limit"));
        let Some(limit) = limit.filter(|limit| limit.truth.is_some()) else {
            return CacheSize::Known(Known::new(probe, &["cache-capacity"]));
        };
        let is_measured_here =
            capacity.is_some_and(|found| found.inferred.is_some() && found.truth == limit.truth);
        match Reading::new(&limit.truth, "bytes") {
            Some(most) if !is_measured_here => CacheSize::AtMost {
                most,
                limit: limit
                    .truth_source
                    .filter(|source| source.starts_with('/'))
                    .map(str::to_owned),
            },
            _ => CacheSize::Known(Known::new(probe, &["cache-capacity"])),
        }
    }
}

fn find<'a, 'b>(probe: &'a Probe<'b>, name: &str) -> Option<&'a Experiment<'b>> {
    probe.experiments.iter().find(|found| found.name == name)
}
