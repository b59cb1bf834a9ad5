//! The measured properties of a file system, and the prices of its system calls.

use probe::finding::Source;
use probe::{Finding, Price, ProbeReport, Quantity, Value};

/// The price of a system call on one thread. If several prices match, the first one is returned:
/// its call has the simplest argument.
pub fn best_price<'a>(prices: &'a [Price], gate: &str, warm: bool) -> Option<&'a Price> {
    let mut prices = prices.iter();
    prices.find(|price| price.call.name() == gate && price.warm == warm && price.threads == 1)
}

/// Quantities that measure a file system's block, the more reliable one first. All are in bytes.
pub const BLOCK: [Quantity; 2] = [Quantity::AllocationBlock, Quantity::AllocationBlockByTime];
/// Quantities that measure readahead, the more reliable one first.
pub const READAHEAD: [Quantity; 2] = [Quantity::ReadaheadSteady, Quantity::ReadaheadSteadyByTime];
/// Quantities that measure extents, the more reliable one first.
pub const EXTENT: [Quantity; 2] = [Quantity::ExtentLargest, Quantity::ExtentByTime];

/// A property of a file system: measured, reported by the kernel, or unknown. Values are in bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum PropertyValue<'a> {
    /// The measured value.
    Measured(&'a Value),
    /// The kernel's value, because the property could not be measured.
    Stated(&'a Value),
    /// The property could not be measured, and the kernel does not report it.
    Unknown,
    /// No experiment was made.
    NotMeasured,
}

impl<'a> PropertyValue<'a> {
    /// The measured value, else the kernel's, of the first quantity that has one.
    pub fn new(report: &'a ProbeReport, quantities: &[Quantity]) -> PropertyValue<'a> {
        let quantities = quantities.iter();
        let results: Vec<&Finding> = quantities
            .filter_map(|quantity| report.find(*quantity))
            .collect();
        let measured = results.iter().find_map(|result| result.value());
        let stated = results.iter().find_map(|result| result.truth.as_ref());
        match (measured, stated) {
            (Some(value), _) => PropertyValue::Measured(value),
            (None, Some(truth)) => PropertyValue::Stated(&truth.value),
            (None, None) if results.is_empty() => PropertyValue::NotMeasured,
            (None, None) => PropertyValue::Unknown,
        }
    }
}

/// The size of the page cache for a file system.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum CacheSize<'a> {
    /// The result of an experiment, or its absence.
    Known(PropertyValue<'a>),
    /// An upper bound: the size of memory, or the limit of a cgroup, with the file that contains
    /// the limit.
    AtMost(&'a Value, Option<&'a str>),
}

impl<'a> CacheSize<'a> {
    /// Determines the size of the page cache from a report. A size measured in a temporary cgroup
    /// with a limit of its own does not apply to other processes, so the limit of this process's
    /// cgroup is used instead.
    pub fn new(report: &'a ProbeReport) -> CacheSize<'a> {
        let capacity = report.find(Quantity::CacheCapacity);
        let limit = report.find(Quantity::CacheLimit);
        let is_measured_under = |limit: &Value| {
            let capacity = capacity.filter(|capacity| capacity.value().is_some());
            let truth = capacity.and_then(|capacity| capacity.truth.as_ref());
            truth.is_some_and(|truth| truth.value == *limit)
        };
        match limit.and_then(|limit| limit.truth.as_ref()) {
            Some(limit) if !is_measured_under(&limit.value) => {
                let file = match &limit.source {
                    Source::File(file) => Some(&file[..]),
                    _ => None,
                };
                CacheSize::AtMost(&limit.value, file)
            }
            _ => CacheSize::Known(PropertyValue::new(report, &[Quantity::CacheCapacity])),
        }
    }
}
