//! Figures per interval of a run: the calls, and the costliest system call, program and directory.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::time::Duration;

use foldhash::{HashMap, HashMapExt};
use meter::call::{Call, Fork, Interval, Listener, LongCall};
use meter::names::AttachedProcess;
use meter::syscalls;

use crate::estimate::call_prices;
use crate::ledger::Ledger;
use crate::prices::{KnownPrices, PriceRequest, PricedCalls, Prices};

/// The calls of an interval. Their time excludes waits, as far as the calls were reported
/// individually.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntervalRow {
    /// The number of file-system calls.
    pub calls: u64,
    /// The number of failed calls.
    pub errors: u64,
    /// Nanoseconds in the calls; estimated as in the report, if the meter stops processes.
    pub nanos: u64,
    /// The system call that took most of the time.
    pub call: Option<&'static str>,
    /// The program that took most of the time.
    pub program: Option<Vec<u8>>,
    /// The directory whose individually reported calls took most of the time.
    pub directory: Option<Vec<u8>>,
}

/// The length of intervals, and a function to call after each.
pub struct Intervals<'a> {
    /// The length of an interval.
    pub every: Duration,
    /// Receives the row of each interval.
    pub show: &'a mut dyn FnMut(&IntervalRow),
}

/// A ledger that also reports intervals.
pub(crate) struct IntervalLedger<'a> {
    pub(crate) ledger: Ledger,
    intervals: Option<Intervals<'a>>,
    /// The prices for estimates; `None` without intervals.
    prices: Option<Prices>,
    /// Nanoseconds up to the end of the last interval, by directory.
    directories: HashMap<Vec<u8>, u64>,
    /// Nanoseconds and numbers of waits up to the end of the last interval, by program and system
    /// call number.
    waits: [HashMap<(Vec<u8>, u32), u64>; 2],
}

impl<'a> IntervalLedger<'a> {
    /// Prices for the intervals are measured now: later, that would delay metered processes.
    pub(crate) fn new(
        ledger: Ledger,
        intervals: Option<Intervals<'a>>,
        given: Option<&(KnownPrices, String)>,
    ) -> IntervalLedger<'a> {
        let measure = |_: &Intervals<'_>| {
            let wanted = PriceRequest {
                work: &PricedCalls::one_of_each(),
                bytes: true,
            };
            let prices = Prices::measure(None, wanted);
            match given {
                Some((given, source)) => prices.replace_known(given, source.clone()),
                None => prices,
            }
        };
        IntervalLedger {
            ledger,
            prices: intervals.as_ref().map(measure),
            intervals,
            directories: HashMap::new(),
            waits: [HashMap::new(), HashMap::new()],
        }
    }
}

impl Listener for IntervalLedger<'_> {
    fn interval(&self) -> Option<Duration> {
        Some(self.intervals.as_ref()?.every)
    }

    fn tick(&mut self, interval: &Interval) {
        let prices = self.prices.as_ref().filter(|_| interval.stops_processes);
        let prices = prices.map_or_else(BTreeMap::new, |prices| {
            call_prices(self.ledger.measured(), prices)
        });
        let waits = [
            self.ledger.waited(|sum| sum.nanos),
            self.ledger.waited(|sum| sum.calls),
        ];
        let [wait_nanos, wait_calls] = [0, 1].map(|at| grown(&waits[at], &self.waits[at]));
        self.waits = waits;
        let directories = self.ledger.directory_nanos(&prices);
        let directory = costliest(grown(&directories, &self.directories));
        self.directories = directories;
        let mut row = IntervalRow {
            directory,
            ..IntervalRow::default()
        };
        let (mut calls, mut programs) = (HashMap::new(), HashMap::new());
        for sum in &interval.sums {
            let key = (sum.program.clone(), sum.number);
            let unwaited = |all: u64, waited: &HashMap<(Vec<u8>, u32), u64>| {
                all.saturating_sub(waited.get(&key).copied().unwrap_or(0))
            };
            let nanos = match prices.get(&sum.number) {
                Some(price) => (unwaited(sum.calls, &wait_calls) as f64 * price).round() as u64,
                None => unwaited(sum.nanos, &wait_nanos),
            };
            row.calls += sum.calls;
            row.errors += sum.errors;
            row.nanos += nanos;
            *calls.entry(sum.number).or_insert(0) += nanos;
            *programs.entry(sum.program.clone()).or_insert(0) += nanos;
        }
        let call = costliest(calls).and_then(syscalls::by_number);
        row.call = call.map(|call| call.name);
        row.program = costliest(programs);
        if let Some(intervals) = &mut self.intervals {
            (intervals.show)(&row);
        }
    }

    fn attach(&mut self, process: &AttachedProcess) {
        self.ledger.attach(process);
    }

    fn call(&mut self, call: &Call<'_>) {
        self.ledger.call(call);
    }

    fn long_call(&mut self, long: &LongCall<'_>) {
        self.ledger.long_call(long);
    }

    fn fork(&mut self, fork: &Fork) {
        self.ledger.fork(fork);
    }

    fn exec(&mut self, pid: u32, program: &[u8]) {
        self.ledger.exec(pid, program);
    }

    fn exit(&mut self, pid: u32, tid: u32) {
        self.ledger.exit(pid, tid);
    }
}

/// The increase of each counter since `before`.
fn grown<K: Hash + Eq + Clone>(now: &HashMap<K, u64>, before: &HashMap<K, u64>) -> HashMap<K, u64> {
    let more = |(key, now): (&K, &u64)| {
        let before = before.get(key).copied().unwrap_or(0);
        (key.clone(), now.saturating_sub(before))
    };
    now.iter().map(more).collect()
}

/// The key with the largest sum; of several such keys, the first in order. `None` if all sums are
/// 0.
fn costliest<K: Ord>(sums: HashMap<K, u64>) -> Option<K> {
    let some = sums.into_iter().filter(|(_, nanos)| *nanos > 0);
    let most = some.max_by(|(a, x), (b, y)| x.cmp(y).then_with(|| b.cmp(a)));
    most.map(|(key, _)| key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use meter::call::IntervalSum;
    use meter::names::InheritedFiles;

    #[test]
    fn the_costliest_of_an_interval_are_those_that_grew_most() {
        let mut rows = Vec::new();
        let mut show = |row: &IntervalRow| rows.push(row.clone());
        let intervals = Intervals {
            every: Duration::from_secs(1),
            show: &mut show,
        };
        let mut ticking = IntervalLedger::new(
            Ledger::new(InheritedFiles::default()),
            Some(intervals),
            None,
        );
        let open = syscalls::by_name("openat").unwrap().number;
        let sum = |program: &str, calls, nanos| IntervalSum {
            program: program.into(),
            number: open,
            calls,
            errors: 1,
            nanos,
        };
        for (name, nanos) in [(&b"/a/x"[..], 9), (b"/b/x", 5)] {
            ticking.call(&Call {
                pid: 1,
                tid: 1,
                number: open,
                args: [-100_i64 as u64, 0, 0, 0, 0, 0],
                name: Some(name),
                other: None,
                result: Some(3),
                start: 0,
                nanos,
            });
        }
        ticking.tick(&Interval {
            sums: vec![sum("/p", 3, 5), sum("/q", 4, 9)],
            stops_processes: false,
        });
        ticking.tick(&Interval::default());
        let row = IntervalRow {
            calls: 7,
            errors: 2,
            nanos: 14,
            call: Some("openat"),
            program: Some(b"/q".to_vec()),
            directory: Some(b"/a".to_vec()),
        };
        assert_eq!(rows, [row, IntervalRow::default()]);
    }

    #[test]
    fn intervals_of_a_meter_that_stops_processes_have_prices_like_the_report() {
        const CALLS: u64 = 3;
        const MEASURED: u64 = 20_000;
        let mut rows = Vec::new();
        let mut show = |row: &IntervalRow| rows.push(row.nanos);
        let intervals = Intervals {
            every: Duration::from_secs(1),
            show: &mut show,
        };
        let given = KnownPrices {
            stat: Some(400.0),
            ..KnownPrices::default()
        };
        let given = (given, "a test".to_owned());
        let ledger = Ledger::new(InheritedFiles::default());
        let mut ticking = IntervalLedger::new(ledger, Some(intervals), Some(&given));
        for name in ["newfstatat", "mkdirat"] {
            let number = syscalls::by_name(name).unwrap().number;
            for _ in 0..CALLS {
                ticking.call(&Call {
                    pid: 1,
                    tid: 1,
                    number,
                    args: [-100_i64 as u64, 0, 0, 0, 0, 0],
                    name: Some(b"/x"),
                    other: None,
                    result: Some(0),
                    start: 0,
                    nanos: MEASURED,
                });
            }
            ticking.tick(&Interval {
                sums: vec![IntervalSum {
                    program: b"/p".to_vec(),
                    number,
                    calls: CALLS,
                    errors: 0,
                    nanos: CALLS * MEASURED,
                }],
                stops_processes: true,
            });
        }
        // Calls that change something have no price.
        assert_eq!(rows, [CALLS * 400, CALLS * MEASURED]);
    }
}
