//! Estimated times of calls under ptrace: number of calls × price.
//!
//! ptrace adds ten microseconds and more to each call, depending on the load of the machine: the
//! calls of the same `ls` took 0.03 or 0.27 s in sum. So all calls of a system call whose mean
//! measured time is little more than its mean price get this price. If the mean is much longer,
//! calls have waited for a disk or a server, and all calls of the system call keep their measured
//! times, as do those without a price (calls that change something). Measured times may include time
//! of the tracer, and the report says so.

use std::collections::{BTreeMap, BTreeSet};

use meter::call::Total;
use meter::syscalls::{self, Kind};

use crate::ledger::{Detail, UnwaitedCalls};
use crate::prices::{PriceKind, Prices};
use crate::whatif::LISTED;

/// Maximum nanoseconds that the meter is assumed to add to a call.
const NOISE: f64 = 50_000.0;

/// Assumed bytes of a directory entry in getdents64, with a short name.
const ENTRY: f64 = 32.0;

/// The price per call, by system call number, of system calls whose measured times are noise.
pub(crate) fn call_prices<'a>(
    measured: impl Iterator<Item = (u16, &'a UnwaitedCalls)>,
    prices: &Prices,
) -> BTreeMap<u32, f64> {
    let price = |(number, made): (u16, &UnwaitedCalls)| {
        use Kind::{Batch, Change, Exec, Mount, Sync, Watch};
        let syscall = syscalls::by_number(u32::from(number))?;
        let has_price = !matches!(syscall.kind, Batch | Change | Exec | Mount | Sync | Watch);
        let calls = made.work.calls().max(1) as f64;
        let stat = prices.price(PriceKind::Stat);
        let byte = match syscall.kind {
            Kind::List => LISTED * stat / ENTRY,
            _ => prices.byte,
        };
        // The command stats many different files, which costs more than a stat of the same file
        // again.
        let differ = made.work.calls_of(PriceKind::Stat) as f64 * stat * (prices.many - 1.0);
        let all = prices.cost(&made.work) * 1e9 + made.bytes as f64 * byte + differ;
        let price = all / calls;
        let measured = made.nanos as f64 / calls;
        (has_price && measured < price + NOISE).then_some((syscall.number, price))
    };
    measured.filter_map(price).collect()
}

/// Replaces measured times by calls × price, in the totals and in the detail. Returns the numbers
/// of the system calls whose times were replaced.
pub(crate) fn estimate(
    totals: &mut [Total],
    detail: &mut Detail,
    priced: &Prices,
) -> BTreeSet<u32> {
    let measured = detail.measured.iter();
    let prices = call_prices(measured.map(|(number, made)| (*number, made)), priced);
    let waited = detail.waits.calls(&detail.programs);
    for total in totals {
        if let Some(price) = prices.get(&total.number) {
            let key = (total.number, total.pid, &total.program[..]);
            let waited = waited.get(&key).copied().unwrap_or_default();
            let calls = total.calls.saturating_sub(waited);
            total.nanos = (calls as f64 * price).round() as u64;
        }
    }
    let mut before = 0;
    let mut after = 0;
    for file in &mut detail.files {
        before += file.sum.nanos;
        file.estimate(&prices);
        after += file.sum.nanos;
    }
    if before > 0 {
        let scale = after as f64 / before as f64;
        detail.unheld.nanos = (detail.unheld.nanos as f64 * scale).round() as u64;
        detail.patterns.scale(scale);
    }
    prices.into_keys().collect()
}

#[cfg(test)]
mod tests {
    use meter::call::{Call, Listener};
    use meter::names::InheritedFiles;

    use super::*;
    use crate::ledger::Ledger;
    use crate::prices::{KnownPrices, PriceRequest, PricedCalls};

    const STAT: f64 = 400.0;
    const CALLS: u64 = 10;

    /// Test prices: 400 ns per stat.
    fn priced() -> Prices {
        let wanted = PriceRequest {
            work: &PricedCalls::default(),
            bytes: false,
        };
        let given = KnownPrices {
            empty: None,
            stat: Some(STAT),
            miss: None,
            open_close: None,
            xattr: None,
        };
        let mut prices = Prices::measure(None, wanted).replace_known(&given, "a test".to_owned());
        (prices.part, prices.byte, prices.many) = (0.0, 0.0, 1.0);
        prices
    }

    /// The estimated nanoseconds of ten calls with this name, each measured as `nanos`: in the
    /// totals, and in the row of the file.
    fn estimated(name: &str, nanos: u64) -> [u64; 2] {
        let number = syscalls::by_name(name).unwrap().number;
        let mut ledger = Ledger::new(InheritedFiles::default());
        for _ in 0..CALLS {
            ledger.call(&Call {
                pid: 1,
                tid: 1,
                number,
                args: [-100_i64 as u64, 0, 0, 0, 0, 0],
                name: Some(b"/d/f"),
                other: None,
                result: Some(0),
                start: 0,
                nanos,
            });
        }
        let mut detail = ledger.close();
        let mut totals = [Total {
            program: Vec::new(),
            pid: 1,
            number,
            calls: CALLS,
            nanos: CALLS * nanos,
            errors: Vec::new(),
        }];
        let replaced = estimate(&mut totals, &mut detail, &priced());
        assert_eq!(replaced.contains(&number), totals[0].nanos != CALLS * nanos);
        [totals[0].nanos, detail.files[0].sum.nanos]
    }

    #[test]
    fn calls_have_their_price_however_long_the_meter_stopped_them() {
        for nanos in [500, 3_000, 40_000, 50_300] {
            assert_eq!(estimated("newfstatat", nanos), [4000, 4000], "{nanos}");
        }
    }

    #[test]
    fn calls_that_waited_and_those_without_a_price_keep_their_time() {
        for (name, nanos) in [
            ("newfstatat", 50_500),
            ("newfstatat", 2_000_000),
            ("mkdirat", 500),
        ] {
            assert_eq!(estimated(name, nanos), [CALLS * nanos; 2], "{name} {nanos}");
        }
    }
}
