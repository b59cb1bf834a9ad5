//! What is known of a file system, and what a call costs on it.

use std::fmt;

use report::probe::{Price, Probe};
use show::name::printable;

/// The price of a gate on one thread; of several, the first, which is the plainest.
pub(crate) fn best_price<'a>(prices: &'a [Price], gate: &str, state: &str) -> Option<&'a Price> {
    prices
        .iter()
        .find(|price| price.gate == gate && price.state == state && price.threads == 1)
}

/// The findings that say what a file system's block, readahead and extents are, the better one
/// first.
pub(crate) const BLOCK: &[&str] = &["allocation-block", "allocation-block-by-time"];
pub(crate) const READAHEAD: &[&str] = &["readahead-steady", "readahead-steady-by-time"];
pub(crate) const EXTENT: &[&str] = &["extent-largest", "extent-by-time"];

/// What is known of a file system.
#[derive(PartialEq, Eq)]
pub(crate) enum Known {
    /// It was found.
    Found(String),
    /// It was not; the kernel says this.
    KernelsWord(String),
    /// It was not; the kernel allows so much.
    UpTo(String),
    /// It was not.
    CannotTell,
    /// Nobody has looked.
    NotAsked,
}

impl Known {
    /// By the first of these findings that has something.
    pub(crate) fn of(probe: &Probe<'_>, names: &[&str]) -> Known {
        let found = || {
            names
                .iter()
                .filter_map(|name| probe.experiments.iter().find(|found| found.name == *name))
        };
        if let Some(value) =
            found().find_map(|found| found.inferred.as_ref().map(|value| value.text(found.unit)))
        {
            return Known::Found(value);
        }
        let truth =
            found().find_map(|found| found.truth.as_ref().map(|value| value.text(found.unit)));
        match (truth, found().next()) {
            (Some(value), _) => Known::KernelsWord(value),
            (None, Some(_)) => Known::CannotTell,
            (None, None) => Known::NotAsked,
        }
    }

    /// How much of a file system stays in memory. What was found in a group that was made for it,
    /// with a limit of its own, says nothing of the cache that others have.
    pub(crate) fn cache(probe: &Probe<'_>) -> Known {
        let find = |name: &str| probe.experiments.iter().find(|found| found.name == name);
        let (capacity, limit) = (find("cache-capacity"), find("cache-limit"));
        match limit.and_then(|limit| limit.truth.as_ref()) {
            Some(truth)
                if capacity.is_none_or(|found| {
                    found.inferred.is_none() || found.truth.as_ref() != Some(truth)
                }) =>
            {
                Known::UpTo(truth.text("bytes"))
            }
            _ => Known::of(probe, &["cache-capacity"]),
        }
    }
}

/// What bounds the cache, in words.
pub(crate) fn bounded_by(probe: &Probe<'_>) -> String {
    let limit = probe
        .experiments
        .iter()
        .find(|found| found.name == "cache-limit");
    match limit
        .and_then(|limit| limit.truth_source)
        .filter(|source| source.starts_with('/'))
    {
        Some(file) => format!(
            "the limit of the cgroup that this ran in, {}",
            printable(file.as_bytes())
        ),
        None => "all the memory that there is; no cgroup limits it".to_owned(),
    }
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Known::Found(value) => f.write_str(value),
            Known::KernelsWord(value) => write!(f, "{value} (kernel's word)"),
            Known::UpTo(value) => write!(f, "up to {value}"),
            Known::CannotTell => f.write_str("cannot tell"),
            Known::NotAsked => f.write_str("not measured"),
        }
    }
}
