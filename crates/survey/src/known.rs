//! What the experiments tell of a file system, and the prices of its system calls.

use probe::finding::Source;
use probe::{Finding, Price, ProbeReport, Quantity, Value};

/// The price of a system call on one thread; of several, the first, which has the plainest
/// argument.
pub fn best_price<'a>(prices: &'a [Price], gate: &str, warm: bool) -> Option<&'a Price> {
    let mut prices = prices.iter();
    prices.find(|price| price.call.name() == gate && price.warm == warm && price.threads == 1)
}

/// The results that give a file system's block, the better one first. All are in bytes.
pub const BLOCK: [Quantity; 2] = [Quantity::AllocationBlock, Quantity::AllocationBlockByTime];
/// The same of its readahead.
pub const READAHEAD: [Quantity; 2] = [Quantity::ReadaheadSteady, Quantity::ReadaheadSteadyByTime];
/// The same of its extents.
pub const EXTENT: [Quantity; 2] = [Quantity::ExtentLargest, Quantity::ExtentByTime];

/// What is known of a property of a file system, in bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Known<'a> {
    /// It was measured.
    Measured(&'a Value),
    /// It could not be measured; the kernel states this.
    Stated(&'a Value),
    /// It could not be measured, and the kernel states nothing.
    Unknown,
    /// No experiment was made.
    NotMeasured,
}

impl<'a> Known<'a> {
    /// From these results, the better one first.
    pub fn new(report: &'a ProbeReport, quantities: &[Quantity]) -> Known<'a> {
        let quantities = quantities.iter();
        let results: Vec<&Finding> = quantities
            .filter_map(|quantity| report.find(*quantity))
            .collect();
        let measured = results.iter().find_map(|result| result.value());
        let stated = results.iter().find_map(|result| result.truth.as_ref());
        match (measured, stated) {
            (Some(value), _) => Known::Measured(value),
            (None, Some(truth)) => Known::Stated(&truth.value),
            (None, None) if results.is_empty() => Known::NotMeasured,
            (None, None) => Known::Unknown,
        }
    }
}

/// How much of a file system the page cache holds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum CacheSize<'a> {
    /// It was measured, or not.
    Known(Known<'a>),
    /// At most so much, for lack of memory, or by the limit of a cgroup in this file.
    AtMost(&'a Value, Option<&'a str>),
}

impl<'a> CacheSize<'a> {
    /// A size measured in a cgroup that was made for it, with a limit of its own, is not that of
    /// other processes: the limit of this process's own cgroup then says more.
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
            _ => CacheSize::Known(Known::new(report, &[Quantity::CacheCapacity])),
        }
    }
}
