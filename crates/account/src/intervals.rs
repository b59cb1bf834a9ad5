//! Figures per interval of a run: the calls, and the costliest system call, program and directory.

use std::hash::Hash;
use std::time::Duration;

use foldhash::{HashMap, HashMapExt};
use meter::call::{Call, Fork, Interval, Listener, LongCall};
use meter::names::AttachedProcess;
use meter::syscalls;

use crate::ledger::Ledger;

/// The calls of an interval. Their time excludes waits, as far as the calls were reported
/// individually.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntervalRow {
    /// The number of file-system calls.
    pub calls: u64,
    /// The number of failed calls.
    pub errors: u64,
    /// Nanoseconds in the calls.
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
    /// Nanoseconds up to the end of the last interval: by directory, and in `waits` those of waits,
    /// by program and system call number.
    directories: HashMap<Vec<u8>, u64>,
    waits: HashMap<(Vec<u8>, u32), u64>,
}

impl<'a> IntervalLedger<'a> {
    pub(crate) fn new(ledger: Ledger, intervals: Option<Intervals<'a>>) -> IntervalLedger<'a> {
        IntervalLedger {
            ledger,
            intervals,
            directories: HashMap::new(),
            waits: HashMap::new(),
        }
    }
}

impl Listener for IntervalLedger<'_> {
    fn interval(&self) -> Option<Duration> {
        Some(self.intervals.as_ref()?.every)
    }

    fn tick(&mut self, interval: &Interval) {
        let waits = self.ledger.wait_nanos();
        let waited = grown(&waits, &self.waits);
        self.waits = waits;
        let directories = self.ledger.directory_nanos();
        let directory = costliest(grown(&directories, &self.directories));
        self.directories = directories;
        let mut row = IntervalRow {
            directory,
            ..IntervalRow::default()
        };
        let (mut calls, mut programs) = (HashMap::new(), HashMap::new());
        for sum in &interval.sums {
            let waited = waited.get(&(sum.program.clone(), sum.number));
            let nanos = sum.nanos.saturating_sub(waited.copied().unwrap_or(0));
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
        let mut ticking =
            IntervalLedger::new(Ledger::new(InheritedFiles::default()), Some(intervals));
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
        });
        ticking.tick(&Interval { sums: vec![] });
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
}
