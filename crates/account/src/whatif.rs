//! Savings of changes: the memo's model applied to a run.
//!
//! The memo of 1974 takes a fixed price for each call, that of the cheapest call for information by
//! name, and regards the rest as useful: a change saves the fixed price of each call avoided
//! ([`WhatIfChange::overhead`]). That is all that is saved where the same work is done in fewer
//! calls. A call for known information does nothing useful either, so that its whole cost is saved
//! ([`WhatIfChange::seconds`]).
//!
//! The cost of a call is its metered time, if the meter adds little to it (`Costs`): calls on other
//! files, or across other mounts, cost something else than the sample of the prices. The tenth of a
//! microsecond that the meter adds is about the time to enter and leave the kernel, which the
//! metered time lacks. With any other meter, the cost is the price.
//!
//! The kernel's cost of batched calls and raw tables was measured on the engines of `fathom walk`
//! as a multiple of a stat's price, so that it scales with the machine: see docs/account.md. The
//! user time of the command stays, since it processes the same entries.

use std::collections::BTreeMap;

use crate::ledger::Detail;
use crate::patterns::{Pattern, PatternFix};
use crate::prices::{PriceKind, Prices, URING_BATCH};

mod change;
mod metadata;

pub(crate) use self::change::Extrapolation;
pub use self::change::{ChangeKind, Obstacle, ReplacedCalls, WhatIfChange};
pub(crate) use self::metadata::{MetadataCalls, metadata_calls};

/// The price of an inode by XFS's bulkstat, joined with its name from getdents64, as a multiple of
/// the price of a stat.
const BULKSTAT: f64 = 1.7;
/// The price of an inode and its name from the tables of ext4, as a multiple of the price of a
/// stat.
const RAW: f64 = 0.25;
/// The number of inodes per call, of bulkstat and of ext4's tables.
const BATCH: u64 = 1024;
/// The price of an entry from getdents64, as a multiple of the price of a stat.
pub(crate) const LISTED: f64 = 0.25;
/// Minimum number of entries for which reading the metadata of the whole file system pays.
const WHOLE: u64 = 1000;

/// The estimated savings of changes.
#[derive(Clone, Debug, PartialEq)]
pub struct WhatIf {
    /// The fixed price of a call, in nanoseconds.
    pub fixed: f64,
    /// CPU time of the command without a meter, in seconds, on which percents are based. Before
    /// scaling, of the individually reported part of the run only.
    pub cpu: f64,
    /// The calls at their prices, in seconds; before scaling, of the reported part only.
    pub priced: f64,
    /// Elapsed seconds of the command without a meter, if it waited for network file systems longer
    /// than it used the processors: then changes save elapsed time.
    pub elapsed: Option<f64>,
    /// All changes in a fixed order, including those that save nothing.
    pub changes: Vec<WhatIfChange>,
}

/// How the cost of calls is determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Costs {
    /// A call costs its metered time.
    Metered,
    /// A call costs its price, because the meter adds to times, or prices were given.
    Priced,
    /// A call costs its price, and times are too noisy to tell whether an estimate is possible.
    Noisy,
}

/// Estimates what each change would save.
///
/// `user` is the user CPU time of the command, and `cpu` all its CPU time less that of metering; in
/// seconds, of the individually reported part of the run. `elapsed` is as in [`WhatIf`].
pub(crate) fn what_if(
    detail: &Detail,
    asked: &BTreeMap<Vec<u8>, MetadataCalls>,
    (prices, costs): (&Prices, Costs),
    user: f64,
    cpu: f64,
    elapsed: Option<f64>,
) -> WhatIf {
    let fixed = prices.fixed(&detail.work);
    let priced = prices.cost(&detail.work);
    // The overhead of a meter may be overestimated; the calls cost at least their prices.
    let cpu = cpu.max(user + priced);
    let model = Model {
        fixed,
        costs,
        cpu,
        system: cpu - user,
        elapsed,
    };
    let spares = PatternFix::ALL.into_iter();
    let mut changes: Vec<WhatIfChange> = spares
        .map(|spare| model.pattern_change(spare, detail, prices))
        .collect();
    let xfs = MetadataCalls::sum(asked, |fstype| fstype == b"xfs");
    let ext4 = MetadataCalls::sum(asked, is_ext);
    let is_asked = xfs.entries > 0;
    changes.push(model.whole(ChangeKind::Bulkstat { is_asked }, &xfs, prices, BULKSTAT));
    changes.push(model.uring(detail, prices));
    let is_asked = ext4.entries > 0;
    changes.push(model.whole(ChangeKind::RawTables { is_asked }, &ext4, prices, RAW));
    WhatIf {
        fixed,
        cpu,
        priced,
        elapsed,
        changes,
    }
}

/// Whether the engine ext4 of `fathom walk` reads file systems of this type.
pub(crate) fn is_ext(fstype: &[u8]) -> bool {
    [&b"ext4"[..], b"ext3", b"ext2"].contains(&fstype)
}

impl WhatIf {
    /// The time on which percents are based, in seconds.
    pub fn all(&self) -> f64 {
        self.elapsed.unwrap_or(self.cpu)
    }

    /// Extrapolates to a run that lasts `times` as long, and each change as `extrapolation` returns
    /// it. Prices stay.
    pub(crate) fn scaled(
        mut self,
        times: f64,
        extrapolation: impl Fn(ChangeKind) -> Extrapolation,
    ) -> WhatIf {
        self.cpu *= times;
        self.priced *= times;
        self.elapsed = self.elapsed.map(|elapsed| elapsed * times);
        let all = self.all();
        for change in &mut self.changes {
            change.extrapolate(&extrapolation(change.kind));
            change.seconds = change.seconds.min(all);
            change.percent = percent_of(change.seconds, all);
        }
        self
    }
}

fn percent_of(seconds: f64, all: f64) -> f64 {
    match all > 0.0 {
        true => 100.0 * seconds / all,
        false => 0.0,
    }
}

struct Model {
    fixed: f64,
    costs: Costs,
    cpu: f64,
    /// The part of the CPU time in system calls.
    system: f64,
    elapsed: Option<f64>,
}

impl Model {
    /// A change, whose saving is limited to the metered time of the avoided calls.
    fn change(
        &self,
        kind: ChangeKind,
        calls: i64,
        seconds: f64,
        basis: ReplacedCalls,
    ) -> WhatIfChange {
        let all = self.elapsed.unwrap_or(self.cpu);
        let seconds = seconds.min(basis.seconds).min(all);
        WhatIfChange {
            kind,
            calls,
            seconds,
            percent: percent_of(seconds, all),
            overhead: (calls as f64 * self.fixed / 1e9).min(basis.seconds),
            elapsed: None,
            basis,
            obstacle: None,
        }
    }

    fn pattern_change(&self, by: PatternFix, detail: &Detail, prices: &Prices) -> WhatIfChange {
        let spared = detail.patterns.avoided_calls(by);
        let metered = spared.busy_seconds();
        let metered = metered.filter(|_| self.costs == Costs::Metered);
        let mut seconds = metered.unwrap_or_else(|| prices.cost(&spared.work));
        if self.elapsed.is_some() {
            seconds = seconds.max(spared.nanos as f64 / 1e9);
        }
        if by == PatternFix::CombineXattr {
            // Reading attributes by name costs more than from an open file, so the saving of each
            // avoided open is reduced by the difference.
            let dearer =
                (prices.price(PriceKind::Xattr) - prices.price(PriceKind::OpenXattr)).max(0.0);
            seconds -= spared.work.calls_of(PriceKind::Open) as f64 * dearer / 1e9;
        }
        let calls = i64::try_from(spared.work.calls()).unwrap_or(i64::MAX);
        let (count, nanos) = match by {
            // Lookups relative to an open directory become cheaper, but not fewer: no call is
            // avoided.
            PatternFix::DirectoryFd => {
                let long_names = detail.patterns.get(Pattern::LongNames);
                (long_names.count, long_names.nanos)
            }
            _ => (spared.work.calls(), spared.nanos),
        };
        let basis = ReplacedCalls::new(count, self.basis_seconds(nanos, prices.cost(&spared.work)));
        WhatIfChange {
            elapsed: (calls > 0).then_some(spared.nanos as f64 / 1e9),
            ..self.change(ChangeKind::Spare(by), calls, seconds, basis)
        }
    }

    /// The metered time of the calls in seconds. If metered times are noise, at most the calls'
    /// price.
    fn basis_seconds(&self, nanos: u64, price: f64) -> f64 {
        let measured = nanos as f64 / 1e9;
        match (self.costs, self.elapsed) {
            (Costs::Noisy, None) => measured.min(price),
            _ => measured,
        }
    }

    /// The change that reads all metadata of one type of file system by a different method. An
    /// entry then costs `each` times the price of a stat.
    fn whole(
        &self,
        kind: ChangeKind,
        asked: &MetadataCalls,
        prices: &Prices,
        each: f64,
    ) -> WhatIfChange {
        if asked.entries == 0 {
            return self.change(kind, 0, 0.0, ReplacedCalls::default());
        }
        let new_calls = asked.entries.div_ceil(BATCH);
        let calls = i64::try_from(asked.work.calls()).unwrap_or(i64::MAX);
        let calls = calls.saturating_sub_unsigned(new_calls);
        let entries = asked.entries as f64;
        let stat = prices.price(PriceKind::Stat) / 1e9;
        let mut now = prices.cost(&asked.work);
        // Stats of many different files cost more than of one file, and getdents64 costs more for
        // more entries; the price of a call includes neither.
        now += asked.work.calls_of(PriceKind::Stat) as f64 * stat * (prices.many - 1.0);
        if asked.work.calls_of(PriceKind::List) > 0 {
            now += entries * LISTED * stat;
        }
        let basis = ReplacedCalls::new(asked.work.calls(), self.basis_seconds(asked.nanos, now));
        if self.costs == Costs::Metered {
            now = basis.seconds;
        }
        // Calls that waited for a processor took longer than their CPU time, so the CPU time is a
        // limit.
        let now = now
            .min(basis.seconds)
            .min(self.elapsed.unwrap_or(self.system));
        let change = self.change(kind, calls, now - entries * each * stat, basis);
        WhatIfChange {
            obstacle: (asked.entries < WHOLE).then_some(Obstacle::FewFiles),
            ..change
        }
    }

    fn uring(&self, detail: &Detail, prices: &Prices) -> WhatIfChange {
        let stats = detail.work.calls_of(PriceKind::Stat) + detail.work.calls_of(PriceKind::Miss);
        let calls = i64::try_from(stats - stats.div_ceil(URING_BATCH.into())).unwrap_or(i64::MAX);
        let (ring, stat) = (prices.uring, prices.price(PriceKind::Stat));
        let seconds = stats as f64 * (stat - ring) / 1e9;
        let basis = ReplacedCalls::new(stats, self.cpu);
        WhatIfChange {
            obstacle: Some(Obstacle::Costlier),
            ..self.change(ChangeKind::Uring { ring, stat }, calls, seconds, basis)
        }
    }
}

#[cfg(test)]
mod tests;
