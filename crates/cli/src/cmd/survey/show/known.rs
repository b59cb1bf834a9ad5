//! Properties of file systems in words.

use show::name::printable;

use crate::cmd::survey::known::{CacheSize, Known, Reading};

/// A value with its unit.
pub(crate) fn text(reading: &Reading) -> String {
    reading.value.text(reading.unit)
}

/// A property in a cell of a table.
pub(crate) fn known_text(known: &Known) -> String {
    match known {
        Known::Measured(reading) => text(reading),
        Known::Stated(reading) => format!("{} (kernel's word)", text(reading)),
        Known::Unknown => "cannot tell".to_owned(),
        Known::NotMeasured => "not measured".to_owned(),
    }
}

/// The size of the cache in a cell of a table.
pub(crate) fn cache_text(cache: &CacheSize) -> String {
    match cache {
        CacheSize::Known(known) => known_text(known),
        CacheSize::AtMost { most, .. } => format!("up to {}", text(most)),
    }
}

/// A property in a sentence: `measured` with its value in place of `%`, or that `what` is unknown.
pub(crate) fn known_sentence(known: &Known, measured: &str, what: &str) -> Option<String> {
    match known {
        Known::Measured(reading) => Some(measured.replace('%', &text(reading))),
        Known::Stated(reading) => Some(format!(
            "{what} cannot be told (the kernel says {})",
            text(reading)
        )),
        Known::Unknown => Some(format!("{what} cannot be told")),
        Known::NotMeasured => None,
    }
}

/// The size of the cache in a sentence.
pub(crate) fn cache_sentence(cache: &CacheSize) -> Option<String> {
    match cache {
        CacheSize::Known(known) => known_sentence(
            known,
            "% of it stay in memory",
            "how much of it stays in memory",
        ),
        CacheSize::AtMost { most, limit } => Some(format!(
            "what was read stays in memory as long as there is room, up to {} ({})",
            text(most),
            limited_by(limit)
        )),
    }
}

/// What limits the cache.
pub(crate) fn limited_by(limit: &Option<String>) -> String {
    match limit {
        Some(file) => format!(
            "the limit of the cgroup that this ran in, {}",
            printable(file.as_bytes())
        ),
        None => "all the memory that there is; no cgroup limits it".to_owned(),
    }
}
