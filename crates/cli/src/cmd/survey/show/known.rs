//! Measured and reported properties of file systems, in words.

use probe::{Unit, Value};
use show::name::printable;

use crate::cmd::probe::show::{Report, value_text};
use survey::ProbedFileSystem;
use survey::known::{CacheSize, PropertyValue};

/// The results of the experiments, as `probe` prints them.
pub(crate) fn report(probed: &ProbedFileSystem) -> Report<'_> {
    Report {
        dir: Some(&probed.dir),
        report: &probed.report,
    }
}

pub(crate) fn bytes_text(value: &Value) -> String {
    value_text(value, Unit::Bytes)
}

/// The text of a property in a table cell.
pub(crate) fn known_text(known: PropertyValue<'_>) -> String {
    match known {
        PropertyValue::Measured(value) => bytes_text(value),
        PropertyValue::Stated(value) => format!("{} (from the kernel)", bytes_text(value)),
        PropertyValue::Unknown => "cannot tell".to_owned(),
        PropertyValue::NotMeasured => "not measured".to_owned(),
    }
}

/// The text of the page cache size in a table cell.
pub(crate) fn cache_text(cache: CacheSize<'_>) -> String {
    match cache {
        CacheSize::Known(known) => known_text(known),
        CacheSize::AtMost(most, _) => format!("up to {}", bytes_text(most)),
    }
}

/// A sentence about a property: `measured` with the value in place of `%`; or, without a measured
/// value, that `what` could not be measured.
pub(crate) fn known_sentence(
    known: PropertyValue<'_>,
    measured: &str,
    what: &str,
) -> Option<String> {
    match known {
        PropertyValue::Measured(value) => Some(measured.replace('%', &bytes_text(value))),
        PropertyValue::Stated(value) => Some(format!(
            "{what} could not be measured (the kernel reports {})",
            bytes_text(value)
        )),
        PropertyValue::Unknown => Some(format!("{what} could not be measured")),
        PropertyValue::NotMeasured => None,
    }
}

pub(crate) fn cache_sentence(cache: CacheSize<'_>) -> Option<String> {
    match cache {
        CacheSize::Known(known) => known_sentence(
            known,
            "the page cache holds %",
            "the size of the page cache",
        ),
        CacheSize::AtMost(most, limit) => Some(format!(
            "the page cache can use up to {} ({})",
            bytes_text(most),
            limited_by(limit)
        )),
    }
}

pub(crate) fn limited_by(file: Option<&str>) -> String {
    match file {
        Some(file) => format!("the limit of the cgroup, {}", printable(file.as_bytes())),
        None => "all memory; no cgroup limits it".to_owned(),
    }
}
