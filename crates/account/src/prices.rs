//! The prices of the model: the costs of calls without a meter.
//!
//! Times from a meter include its own work. So saved calls are priced by the cost of calls of their
//! `PriceKind` without a meter: measured here in a few milliseconds (`Prices::measure`), or given
//! (`Prices::replace_known`). A price is for a cached path of one component; each further component adds
//! `Prices::part`.

mod measure;

use gate::Errno;
use meter::call::Call;
use meter::names::CallFile;
use meter::syscalls::{Kind, Syscall};

pub(crate) use self::measure::PriceRequest;

/// Requests that are submitted to io_uring at once.
pub(crate) const URING_BATCH: u32 = 32;
/// Minimum number of calls for an estimate.
pub(crate) const FEWEST_CALLS: u64 = 100;

/// A kind of call with its own price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PriceKind {
    /// Metadata, access check or link, by name.
    Stat,
    /// Calls of fstat.
    OpenStat,
    /// A failed lookup.
    Miss,
    /// A failed lookup by open or execve, which costs more than a failed stat. The price is that of
    /// a failed open.
    OpenMiss,
    Open,
    Close,
    /// getdents64 at the end of a directory.
    List,
    /// Extended attributes, by name.
    Xattr,
    /// Extended attributes of an open file.
    OpenXattr,
    /// A read of a few bytes.
    Read,
    /// A write. The price is that of [`PriceKind::Read`], since nothing is written to measure
    /// prices.
    Write,
    /// Any other call. The price is that of an empty call.
    Other,
}

impl PriceKind {
    pub(crate) const ALL: [PriceKind; 12] = [
        PriceKind::Stat,
        PriceKind::OpenStat,
        PriceKind::Miss,
        PriceKind::OpenMiss,
        PriceKind::Open,
        PriceKind::Close,
        PriceKind::List,
        PriceKind::Xattr,
        PriceKind::OpenXattr,
        PriceKind::Read,
        PriceKind::Write,
        PriceKind::Other,
    ];

    pub(crate) fn classify(syscall: &Syscall, call: &Call<'_>, about: &CallFile) -> PriceKind {
        let by_name = about.by_name;
        match syscall.kind {
            Kind::Open | Kind::Exec if is_failed_lookup(syscall, call, about) => {
                PriceKind::OpenMiss
            }
            _ if is_failed_lookup(syscall, call, about) => PriceKind::Miss,
            Kind::Stat if !by_name => PriceKind::OpenStat,
            Kind::Stat | Kind::Access => PriceKind::Stat,
            Kind::Link if by_name => PriceKind::Stat,
            Kind::Open => PriceKind::Open,
            Kind::Close => PriceKind::Close,
            Kind::List => PriceKind::List,
            Kind::Xattr if by_name => PriceKind::Xattr,
            Kind::Xattr => PriceKind::OpenXattr,
            Kind::Read => PriceKind::Read,
            Kind::Write => PriceKind::Write,
            _ => PriceKind::Other,
        }
    }
}

/// Whether a lookup by name failed with `ENOENT` or `ENOTDIR`.
fn is_failed_lookup(syscall: &Syscall, call: &Call<'_>, about: &CallFile) -> bool {
    use Kind::{Access, Exec, Link, Open, Stat, Xattr};
    let is_lookup = matches!(syscall.kind, Stat | Access | Link | Open | Exec | Xattr);
    let errno = call.errno().map(Errno);
    is_lookup && about.by_name && matches!(errno, Some(Errno::ENOENT | Errno::ENOTDIR))
}

/// Numbers of calls by [`PriceKind`], and the sum of the path components beyond the first of each
/// call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PricedCalls {
    calls: [u64; PriceKind::ALL.len()],
    parts: u64,
}

impl PricedCalls {
    /// Adds calls of one kind; `parts` is the sum of the path components beyond the first of each
    /// call.
    pub(crate) fn add(&mut self, sort: PriceKind, calls: u64, parts: u64) {
        self.calls[sort as usize] += calls;
        self.parts += parts;
    }

    pub(crate) fn join(&mut self, other: &PricedCalls) {
        for (mine, theirs) in self.calls.iter_mut().zip(other.calls) {
            *mine += theirs;
        }
        self.parts += other.parts;
    }

    /// Subtracts calls that were added before.
    pub(crate) fn take(&mut self, sort: PriceKind, calls: u64, parts: u64) {
        let mine = &mut self.calls[sort as usize];
        *mine = mine.saturating_sub(calls);
        self.parts = self.parts.saturating_sub(parts);
    }

    /// One call of each kind.
    pub(crate) fn one_of_each() -> PricedCalls {
        PricedCalls {
            calls: [1; PriceKind::ALL.len()],
            parts: 0,
        }
    }

    pub(crate) fn scaled(self, times: f64) -> PricedCalls {
        let scaled = |number: u64| (number as f64 * times).round() as u64;
        PricedCalls {
            calls: self.calls.map(scaled),
            parts: scaled(self.parts),
        }
    }

    pub(crate) fn calls(&self) -> u64 {
        self.calls.iter().sum()
    }

    pub(crate) fn calls_of(&self, sort: PriceKind) -> u64 {
        self.calls[sort as usize]
    }
}

/// Prices of calls, in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Prices {
    each: [f64; PriceKind::ALL.len()],
    /// The price of a path component beyond the first.
    pub(crate) part: f64,
    /// The price of a byte that is read or written.
    pub(crate) byte: f64,
    /// The price of a call that does nothing.
    pub(crate) empty: f64,
    /// The price of a statx by io_uring, including the CPU time of its worker threads.
    pub(crate) uring: f64,
    /// The price of a stat of many different files, as a multiple of the price of repeated stats of
    /// one file: many inodes are cached in memory, but not in the processor's caches.
    pub(crate) many: f64,
    /// The origin of the prices, in words.
    pub(crate) source: String,
}

/// Prices that were measured before, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KnownPrices {
    /// The price of an empty call.
    pub empty: Option<f64>,
    /// The price of a stat by name.
    pub stat: Option<f64>,
    /// The price of a failed lookup (ENOENT).
    pub miss: Option<f64>,
    /// The price of opening a file by name, and closing it.
    pub open_close: Option<f64>,
    /// The price of reading by name an extended attribute that does not exist.
    pub xattr: Option<f64>,
}

impl Prices {
    pub(crate) fn price(&self, sort: PriceKind) -> f64 {
        self.each[sort as usize]
    }

    /// The total cost of calls, in seconds.
    pub(crate) fn cost(&self, work: &PricedCalls) -> f64 {
        let calls = work.calls.iter().zip(self.each);
        let calls: f64 = calls.map(|(calls, each)| *calls as f64 * each).sum();
        (calls + work.parts as f64 * self.part) / 1e9
    }

    /// The fixed price of any call, in nanoseconds: that of the cheapest call for information by
    /// name, among the calls made. Calls on an open file are cheaper, but give no price for a call
    /// by name.
    pub(crate) fn fixed(&self, made: &PricedCalls) -> f64 {
        let asked = [PriceKind::Stat, PriceKind::Miss, PriceKind::Xattr].into_iter();
        let prices = asked
            .filter(|sort| made.calls_of(*sort) > 0)
            .map(|sort| self.price(sort));
        prices
            .min_by(f64::total_cmp)
            .unwrap_or(self.price(PriceKind::Stat))
    }

    /// Replaces prices by `given` prices. All other prices are multiplied by the ratio of the given
    /// to the measured price of an empty call.
    pub(crate) fn replace_known(self, given: &KnownPrices, source: String) -> Prices {
        let scale = given.empty.map_or(1.0, |empty| empty / self.empty);
        let mut prices = Prices {
            each: self.each.map(|ns| ns * scale),
            part: self.part * scale,
            byte: self.byte,
            empty: self.empty * scale,
            uring: self.uring * scale,
            many: self.many,
            source,
        };
        let both = prices.price(PriceKind::Open) + prices.price(PriceKind::Close);
        if let Some(open_close) = given.open_close {
            for sort in [PriceKind::Open, PriceKind::Close] {
                prices.each[sort as usize] *= open_close / both;
            }
        }
        if let Some(ns) = given.stat {
            prices.uring *= ns / prices.price(PriceKind::Stat);
        }
        if let Some(ns) = given.miss {
            prices.each[PriceKind::OpenMiss as usize] *= ns / prices.price(PriceKind::Miss);
        }
        for (sort, ns) in [
            (PriceKind::Stat, given.stat),
            (PriceKind::Miss, given.miss),
            (PriceKind::Xattr, given.xattr),
        ] {
            if let Some(ns) = ns {
                prices.each[sort as usize] = ns;
            }
        }
        prices
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_prices_are_plausible() {
        let mut all = PricedCalls::default();
        PriceKind::ALL
            .into_iter()
            .for_each(|sort| all.add(sort, FEWEST_CALLS, 0));
        let prices = Prices::measure(
            None,
            PriceRequest {
                work: &all,
                bytes: true,
            },
        );
        for sort in PriceKind::ALL {
            assert!(
                prices.price(sort) >= prices.empty && prices.price(sort) < 1e6,
                "{sort:?}: {prices:?}"
            );
        }
        assert!(
            prices.price(PriceKind::Open) > prices.price(PriceKind::OpenStat),
            "{prices:?}"
        );
        assert!(
            prices.price(PriceKind::Stat) > prices.empty
                && prices.part < prices.price(PriceKind::Stat),
            "{prices:?}"
        );
        // Without any calls, only the price of a stat is measured.
        let none = Prices::measure(
            None,
            PriceRequest {
                work: &PricedCalls::default(),
                bytes: false,
            },
        );
        assert!(
            none.price(PriceKind::Stat) > none.empty && none.price(PriceKind::Open) == none.empty,
            "{none:?}"
        );
    }

    #[test]
    fn prices_that_are_not_given_are_scaled_by_the_empty_call() {
        let here = Prices {
            each: [200.0; PriceKind::ALL.len()],
            part: 10.0,
            byte: 0.0,
            empty: 100.0,
            uring: 800.0,
            many: 1.0,
            source: String::new(),
        };
        let given = KnownPrices {
            empty: Some(50.0),
            stat: Some(300.0),
            open_close: Some(900.0),
            ..KnownPrices::default()
        };
        let prices = here.replace_known(&given, "a file".to_owned());
        let of = |sort| prices.price(sort);
        assert_eq!(
            (
                of(PriceKind::Stat),
                of(PriceKind::Open),
                of(PriceKind::Close),
                of(PriceKind::Miss)
            ),
            (300.0, 450.0, 450.0, 100.0)
        );
        assert_eq!(
            (prices.part, prices.empty, prices.uring),
            (5.0, 50.0, 1200.0)
        );
        let work_of = |sort, calls| {
            let mut work = PricedCalls::default();
            work.add(sort, calls, 0);
            work
        };
        let mut work = work_of(PriceKind::Stat, 2);
        work.add(PriceKind::Open, 1, 4);
        assert!((prices.cost(&work) - 1070e-9).abs() < 1e-15);
        assert_eq!(prices.fixed(&work), 300.0);
        assert_eq!(prices.fixed(&work_of(PriceKind::Miss, 1)), 100.0);
        work.take(PriceKind::Stat, 5, 9);
        assert_eq!((work.calls(), work.parts), (1, 0));
    }
}
