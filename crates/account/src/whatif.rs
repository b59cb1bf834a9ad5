//! What changes would save: the memo's model on a run.
//!
//! The memo of 1974 takes a fixed price for each call, that of the cheapest gate that asks
//! something by name, and regards the rest as useful: a change saves the fixed price of each call
//! that goes ([`Change::overhead`]). That is all that is saved where the same work is done in fewer
//! calls. A call that asks what is known already does nothing useful either, so that all of its
//! cost is saved ([`Change::seconds`]).
//!
//! What a call costs is the time that was metered in it, if the meter adds little to that (`Costs`):
//! calls on other files, or past other mounts, cost something else than those that prices are
//! measured with. What the meter adds to the time, a tenth of a microsecond, is about what it takes to
//! enter and to leave the kernel, which is not in the time. Otherwise it is the price.
//!
//! What batches and raw tables cost instead was measured on the engines of `fathom walk`, as a
//! multiple of the price of a stat, so that it follows the machine: see docs/account.md.

use std::collections::{BTreeMap, HashMap};

use crate::ledger::Detail;
use crate::patterns::{Pattern, Spare};
use crate::prices::{Prices, Sort, URING_BATCH, Work};

/// The price of an entry by XFS's bulkstat, joined with its name from getdents64, in stats.
const BULKSTAT: f64 = 1.7;
/// The price of an entry by the tables of ext4, its name included, in stats.
const RAW: f64 = 0.25;
/// Inodes that one call returns, in both.
const BATCH: u64 = 1024;
/// The price of an entry of a list, in stats.
pub(crate) const LISTED: f64 = 0.25;
/// With fewer entries, reading the whole file system is not worth it.
const WHOLE: u64 = 1000;
/// With fewer calls, or less time in them, an estimate would be noise.
const FEWEST_CALLS: u64 = 100;
const SHORTEST: f64 = 0.010;

/// What would be changed.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the fields are explained above them")]
pub enum ChangeKind {
    /// Redundant calls go.
    Spare(Spare),
    /// XFS's bulkstat for each stat; whether there was any on such a file system.
    Bulkstat { is_asked: bool },
    /// statx by io_uring: its price, and that of a stat, in nanoseconds.
    Uring { ring: f64, stat: f64 },
    /// The inode tables of ext4 for each stat; whether there was any on such a file system.
    RawTables { is_asked: bool },
}

impl ChangeKind {
    /// Its name in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            ChangeKind::Spare(Spare::CombineStat) => "combine-stat",
            ChangeKind::Spare(Spare::CombineXattr) => "combine-xattr",
            ChangeKind::Spare(Spare::SkipXattr) => "skip-xattr",
            ChangeKind::Spare(Spare::KeepStat) => "keep-stat",
            ChangeKind::Spare(Spare::CacheMisses) => "cache-misses",
            ChangeKind::Spare(Spare::Buffer) => "buffer",
            ChangeKind::Spare(Spare::SyncOnce) => "sync-once",
            ChangeKind::Spare(Spare::DirectoryFd) => "directory-fd",
            ChangeKind::Bulkstat { .. } => "batch-bulkstat",
            ChangeKind::Uring { .. } => "batch-uring",
            ChangeKind::RawTables { .. } => "raw-tables",
        }
    }
}

/// A change, and what it would save.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// What would be changed.
    pub kind: ChangeKind,
    /// Calls that would go, less those that would come.
    pub calls: i64,
    /// CPU seconds that would be saved, or elapsed ones ([`WhatIf::elapsed`]); below 0, it would cost
    /// more.
    pub seconds: f64,
    /// Of the CPU time of the command, or of its elapsed time.
    pub percent: f64,
    /// By the memo's model: the fixed price of each call that goes, in seconds.
    pub overhead: f64,
    /// Time in the calls that would go, as it was metered, in seconds; waiting included. `None`
    /// where only prices are known.
    pub elapsed: Option<f64>,
    /// What the estimate rests on.
    pub basis: Basis,
    /// Whether it is worth doing.
    pub advised: bool,
}

/// The calls that a change replaces, as they were metered.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Basis {
    pub calls: u64,
    pub seconds: f64,
}

impl Change {
    /// Whether too few calls, or too little time in them, were metered for an estimate.
    pub fn is_too_short(&self) -> bool {
        self.basis.calls < FEWEST_CALLS || self.basis.seconds < SHORTEST
    }
}

/// What changes would save.
#[derive(Clone, Debug, PartialEq)]
pub struct WhatIf {
    /// The fixed price of a call, in nanoseconds.
    pub fixed: f64,
    /// CPU time of the command without a meter, in seconds: what percents are of. Of the part of
    /// the run that was reported call by call, until it is scaled.
    pub cpu: f64,
    /// The calls at their prices, in seconds; likewise.
    pub priced: f64,
    /// Elapsed time of the command without a meter, in seconds, if it waited for network file systems
    /// longer than it used the processors: then that is what changes save.
    pub elapsed: Option<f64>,
    /// Always the same ones.
    pub changes: Vec<Change>,
}

/// The calls for metadata of the files of one file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Different files.
    entries: u64,
    work: Work,
    /// Time in these calls, as it was metered.
    nanos: u64,
}

/// The calls for metadata by the type of the file system, with an empty name if it is unknown.
/// Files for which there was no room are assumed to be like the others.
pub(crate) fn asked(
    detail: &Detail,
    fstype: impl Fn(&[u8]) -> Option<Vec<u8>>,
) -> BTreeMap<Vec<u8>, Asked> {
    let mut types: HashMap<&[u8], usize> = HashMap::new();
    let mut asked: Vec<(Vec<u8>, Asked)> = Vec::new();
    let mut last: (&[u8], usize) = (b"", 0);
    for file in &detail.files {
        let (work, nanos) = file.asking();
        if work.calls() == 0 {
            continue;
        }
        let dir = file.dir();
        // Files of one directory mostly follow one another.
        if asked.is_empty() || last.0 != dir {
            let of = |dir: &&[u8]| {
                let fstype = fstype(dir).unwrap_or_default();
                let known = asked.iter().position(|(known, _)| *known == fstype);
                known.unwrap_or_else(|| {
                    asked.push((fstype, Asked::default()));
                    asked.len() - 1
                })
            };
            last = (dir, *types.entry(dir).or_insert_with_key(of));
        }
        if let Some((_, row)) = asked.get_mut(last.1) {
            row.entries += 1;
            row.work.join(&work);
            row.nanos += nanos;
        }
    }
    let named = detail.work.calls().saturating_sub(detail.nameless.calls);
    let held = named.saturating_sub(detail.unheld.calls);
    let times = match held {
        0 => 1.0,
        held => named as f64 / held as f64,
    };
    for (_, row) in &mut asked {
        row.entries = (row.entries as f64 * times).round() as u64;
        row.work = row.work.scaled(times);
        row.nanos = (row.nanos as f64 * times).round() as u64;
    }
    asked.into_iter().collect()
}

/// What the cost of calls is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Costs {
    /// Time in them, as it was metered.
    Metered,
    /// Their prices: times are noise, or prices were given.
    Priced,
}

/// Estimates what each change would save.
///
/// `user` is the user CPU time of the command, and `cpu` all CPU time less that of metering; in
/// seconds, of the part of the run that was reported call by call. `elapsed` is as in [`WhatIf`].
pub(crate) fn what_if(
    detail: &Detail,
    asked: &BTreeMap<Vec<u8>, Asked>,
    (prices, costs): (&Prices, Costs),
    user: f64,
    cpu: f64,
    elapsed: Option<f64>,
) -> WhatIf {
    let fixed = prices.fixed(&detail.work);
    let priced = prices.cost(&detail.work);
    // The overhead of a meter may be overestimated; the calls cost something in any case.
    let cpu = cpu.max(user + priced);
    let model = Model {
        fixed,
        costs,
        cpu,
        user,
        elapsed,
        calls: detail.work.calls(),
    };
    let spares = Spare::ALL.into_iter();
    let mut changes: Vec<Change> = spares
        .map(|spare| model.spare(spare, detail, prices))
        .collect();
    let of = |is_one: &dyn Fn(&[u8]) -> bool| {
        let mut all = Asked::default();
        for (_, row) in asked.iter().filter(|(fstype, _)| is_one(fstype)) {
            all.entries += row.entries;
            all.work.join(&row.work);
            all.nanos += row.nanos;
        }
        all
    };
    let xfs = of(&|fstype| fstype == b"xfs");
    let ext4 = of(&|fstype| [&b"ext4"[..], b"ext3", b"ext2"].contains(&fstype));
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

impl WhatIf {
    /// What percents are of, in seconds.
    pub fn all(&self) -> f64 {
        self.elapsed.unwrap_or(self.cpu)
    }

    /// The same for a run that goes on in the same way, so many times as long. Prices and percents
    /// stay.
    pub(crate) fn scaled(mut self, times: f64) -> WhatIf {
        self.cpu *= times;
        self.priced *= times;
        self.elapsed = self.elapsed.map(|elapsed| elapsed * times);
        for change in &mut self.changes {
            change.calls = (change.calls as f64 * times).round() as i64;
            change.seconds *= times;
            change.overhead *= times;
            change.elapsed = change.elapsed.map(|elapsed| elapsed * times);
        }
        self
    }
}

struct Model {
    fixed: f64,
    costs: Costs,
    cpu: f64,
    user: f64,
    elapsed: Option<f64>,
    calls: u64,
}

impl Model {
    /// A change saves no more than was metered: the time in the calls that go, and `user`, the time
    /// of the command that goes with them.
    fn change(
        &self,
        kind: ChangeKind,
        calls: i64,
        seconds: f64,
        basis: Basis,
        user: f64,
    ) -> Change {
        let all = self.elapsed.unwrap_or(self.cpu);
        let is_any = all > 0.0;
        let seconds = seconds.min(basis.seconds + user).min(all);
        let change = Change {
            kind,
            calls,
            seconds,
            percent: if is_any { 100.0 * seconds / all } else { 0.0 },
            overhead: (calls as f64 * self.fixed / 1e9).min(basis.seconds),
            elapsed: None,
            basis,
            advised: false,
        };
        Change {
            advised: seconds > 0.0 && !change.is_too_short(),
            ..change
        }
    }

    fn spare(&self, by: Spare, detail: &Detail, prices: &Prices) -> Change {
        let spared = detail.patterns.spared(by);
        let metered = spared.busy_seconds();
        let metered = metered.filter(|_| self.costs == Costs::Metered);
        let mut seconds = metered.unwrap_or_else(|| prices.cost(&spared.work));
        if self.elapsed.is_some() {
            seconds = seconds.max(spared.nanos as f64 / 1e9);
        }
        if by == Spare::CombineXattr {
            // A call by name replaces each opening.
            let dearer = (prices.price(Sort::Xattr) - prices.price(Sort::OpenXattr)).max(0.0);
            seconds -= spared.work.calls_of(Sort::Open) as f64 * dearer / 1e9;
        }
        let calls = i64::try_from(spared.work.calls()).unwrap_or(i64::MAX);
        let (count, nanos) = match by {
            // The calls stay, and cost less.
            Spare::DirectoryFd => {
                let long_names = detail.patterns.get(Pattern::LongNames);
                (long_names.count, long_names.nanos)
            }
            _ => (spared.work.calls(), spared.nanos),
        };
        let basis = Basis {
            calls: count,
            seconds: nanos as f64 / 1e9,
        };
        Change {
            elapsed: (calls > 0).then_some(spared.nanos as f64 / 1e9),
            ..self.change(ChangeKind::Spare(by), calls, seconds, basis, 0.0)
        }
    }

    /// All metadata of one kind of file system, in another way: `each` is the price of an entry, in
    /// stats.
    fn whole(&self, kind: ChangeKind, asked: &Asked, prices: &Prices, each: f64) -> Change {
        if asked.entries == 0 {
            return self.change(kind, 0, 0.0, Basis::default(), 0.0);
        }
        let new_calls = asked.entries.div_ceil(BATCH);
        let calls = i64::try_from(asked.work.calls()).unwrap_or(i64::MAX);
        let calls = calls.saturating_sub_unsigned(new_calls);
        let entries = asked.entries as f64;
        let stat = prices.price(Sort::Stat) / 1e9;
        let mut now = prices.cost(&asked.work);
        // The files differ, and the price of a list depends on its entries.
        now += asked.work.calls_of(Sort::Stat) as f64 * stat * (prices.many - 1.0);
        if asked.work.calls_of(Sort::List) > 0 {
            now += entries * LISTED * stat;
        }
        // The user time of a command that does little else goes as well.
        let user = match asked.work.calls() * 10 >= self.calls * 9 {
            true => self.user,
            false => 0.0,
        };
        let basis = Basis {
            calls: asked.work.calls(),
            seconds: asked.nanos as f64 / 1e9,
        };
        let saved = now + user - entries * each * stat;
        let change = self.change(kind, calls, saved, basis, user);
        Change {
            advised: change.advised && asked.entries >= WHOLE,
            ..change
        }
    }

    fn uring(&self, detail: &Detail, prices: &Prices) -> Change {
        let stats = detail.work.calls_of(Sort::Stat) + detail.work.calls_of(Sort::Miss);
        let calls = i64::try_from(stats - stats.div_ceil(URING_BATCH.into())).unwrap_or(i64::MAX);
        let (ring, stat) = (prices.uring, prices.price(Sort::Stat));
        let seconds = stats as f64 * (stat - ring) / 1e9;
        let basis = Basis {
            calls: stats,
            seconds: self.cpu,
        };
        Change {
            advised: false,
            ..self.change(ChangeKind::Uring { ring, stat }, calls, seconds, basis, 0.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Ledger, MOST_FILES};
    use crate::prices::Given;
    use meter::call::{Call, Listener};
    use meter::names::Inherited;
    use meter::syscalls;
    use proptest::prelude::*;

    /// 400 ns a question by name or a miss, and for a pair of open and close.
    fn prices() -> Prices {
        let mut all = Work::default();
        Sort::ALL.into_iter().for_each(|sort| all.add(sort, 1, 0));
        let here = Prices::measure(None, &all);
        let given = Given {
            empty: None,
            stat: Some(400.0),
            miss: Some(300.0),
            open_close: Some(1000.0),
            xattr: Some(500.0),
        };
        let mut prices = here.given(&given, "a test".to_owned());
        (prices.part, prices.uring) = (0.0, 1200.0);
        prices
    }

    fn detail(files: u32) -> Detail {
        detail_of_calls(files, 3000)
    }

    /// stat, open, fstat and close of each of a number of files; each call takes `nanos`.
    fn detail_of_calls(files: u32, nanos: u64) -> Detail {
        let mut ledger = Ledger::new(Inherited {
            cwd: Some(b"/x".to_vec()),
            ..Inherited::default()
        });
        for n in 0..files {
            let name = n.to_string();
            for (gate, fd, name, result) in [
                ("newfstatat", -100_i64 as u64, Some(name.as_bytes()), 0),
                ("openat", -100_i64 as u64, Some(name.as_bytes()), 3),
                ("fstat", 3, None, 0),
                ("close", 3, None, 0),
            ] {
                let number = syscalls::by_name(gate).unwrap().number;
                let args = [fd, 0, 0, 0, 0, 0];
                let result = Some(result);
                ledger.call(&Call {
                    pid: 1,
                    tid: 1,
                    number,
                    args,
                    name,
                    other: None,
                    result,
                    start: 0,
                    nanos,
                });
            }
        }
        ledger.close()
    }

    /// What changes would save at [`prices`].
    fn at_prices(
        detail: &Detail,
        asked: &BTreeMap<Vec<u8>, Asked>,
        user: f64,
        cpu: f64,
        elapsed: Option<f64>,
    ) -> WhatIf {
        what_if(
            detail,
            asked,
            (&prices(), Costs::Priced),
            user,
            cpu,
            elapsed,
        )
    }

    fn find_change<'a>(what: &'a WhatIf, name: &str) -> &'a Change {
        what.changes
            .iter()
            .find(|change| change.kind.name() == name)
            .unwrap()
    }

    #[test]
    fn redundant_calls_are_saved_at_their_full_price() {
        let (detail, prices) = (detail(2000), prices());
        let asked = asked(&detail, |dir| (dir == b"/x").then(|| b"ext4".to_vec()));
        assert_eq!(
            asked
                .iter()
                .map(|(name, asked)| (&name[..], asked.entries))
                .collect::<Vec<_>>(),
            [(&b"ext4"[..], 2000)]
        );
        let what = what_if(
            &detail,
            &asked,
            (&prices, Costs::Priced),
            0.010,
            0.001,
            None,
        );
        assert_eq!(what.fixed, 400.0);
        let fstat = prices.price(Sort::OpenStat);
        let combine = find_change(&what, "combine-stat");
        assert_eq!(combine.calls, 6000);
        assert!(
            (combine.seconds - 2000.0 * (1000.0 + fstat) / 1e9).abs() < 1e-9,
            "{combine:?}"
        );
        assert!((combine.overhead - 6000.0 * 400.0 / 1e9).abs() < 1e-12 && combine.advised);
        assert_eq!(combine.elapsed, Some(6000.0 * 3000.0 / 1e9));
        assert!((what.cpu - (0.010 + what.priced)).abs() < 1e-12);
        assert!((combine.percent - 100.0 * combine.seconds / what.cpu).abs() < 1e-9);
        let uring = find_change(&what, "batch-uring");
        assert!(!uring.advised && uring.seconds < 0.0 && uring.calls == 2000 - 63);
        assert!(
            (uring.seconds + 2000.0 * 800.0 / 1e9).abs() < 1e-12
                && matches!(uring.kind, ChangeKind::Uring { ring: 1200.0, .. })
        );
        // Asked are the name and the descriptor: opening and closing are not for the question.
        let raw = find_change(&what, "raw-tables");
        assert!(
            (raw.seconds - 2000.0 * (400.0 + fstat - 100.0) / 1e9).abs() < 1e-9 && raw.advised,
            "{raw:?}"
        );
        let bulk = find_change(&what, "batch-bulkstat");
        assert!(bulk.calls == 0 && !bulk.advised);
        assert_eq!(bulk.kind, ChangeKind::Bulkstat { is_asked: false });
    }

    #[test]
    fn calls_that_a_precise_meter_has_timed_cost_what_it_has_metered() {
        // 1 µs each, but for those that have waited.
        let costs = (&prices(), Costs::Metered);
        for (detail, calls) in [(detail_of_calls(2000, 1000), 6000), (detail(0), 0)] {
            let what = what_if(&detail, &BTreeMap::new(), costs, 1.0, 0.0, None);
            let seconds = find_change(&what, "combine-stat").seconds;
            assert!((seconds - f64::from(calls) * 1000.0 / 1e9).abs() < 1e-9);
        }
        let waited = detail_of_calls(2000, 1_000_000);
        let what = what_if(&waited, &BTreeMap::new(), costs, 1.0, 0.0, None);
        let priced = (costs.0, Costs::Priced);
        let by_price = what_if(&waited, &BTreeMap::new(), priced, 1.0, 0.0, None);
        let seconds = |what: &WhatIf| find_change(what, "combine-stat").seconds;
        assert_eq!(seconds(&what), seconds(&by_price));
    }

    #[test]
    fn on_network_file_systems_elapsed_time_is_saved() {
        let detail = detail_of_calls(2000, 1_000_000);
        let asked = asked(&detail, |_| Some(b"nfs4".to_vec()));
        let what = at_prices(&detail, &asked, 0.010, 0.020, Some(9.0));
        assert_eq!(what.all(), 9.0);
        // The redundant calls, at the time that they waited.
        let combined = find_change(&what, "combine-stat");
        assert!(combined.seconds > 1.0 && combined.seconds <= combined.basis.seconds);
        assert!((combined.percent - 100.0 * combined.seconds / 9.0).abs() < 1e-9);
        let local = at_prices(&detail, &asked, 0.010, 0.020, None);
        assert!(find_change(&local, "combine-stat").seconds < 0.020);
    }

    #[test]
    fn savings_of_a_part_are_scaled_to_the_whole_run() {
        let detail = detail(2000);
        let part = at_prices(
            &detail,
            &asked(&detail, |_| Some(b"ext4".to_vec())),
            0.010,
            0.001,
            None,
        );
        let whole = part.clone().scaled(2.5);
        assert_eq!((whole.cpu, whole.fixed), (2.5 * part.cpu, part.fixed));
        for (part, whole) in part.changes.iter().zip(&whole.changes) {
            assert_eq!((whole.percent, whole.advised), (part.percent, part.advised));
            assert!(
                (whole.seconds - 2.5 * part.seconds).abs() < 1e-9
                    && (whole.calls - part.calls * 5 / 2).abs() <= 1
            );
        }
    }

    #[test]
    fn files_beyond_the_limit_are_counted_like_the_others() {
        let files = MOST_FILES as u32 * 2;
        let asked = asked(&detail(files), |_| Some(b"ext4".to_vec()));
        let Asked { entries, work, .. } = asked[&b"ext4"[..]];
        assert!(
            entries.abs_diff(files.into()) * 100 < files.into(),
            "{entries}"
        );
        assert!(
            work.calls_of(Sort::Stat).abs_diff(files.into()) * 100 < files.into(),
            "{work:?}"
        );
    }

    #[test]
    fn without_calls_there_are_no_savings() {
        let detail = detail(0);
        let what = at_prices(&detail, &BTreeMap::new(), 0.0, 0.0, None);
        assert_eq!(what.changes.len(), 11);
        for change in &what.changes {
            assert!(
                change.calls == 0
                    && change.seconds == 0.0
                    && change.percent == 0.0
                    && !change.advised,
                "{change:?}"
            );
        }
    }

    #[test]
    fn raw_tables_are_not_advised_for_few_files() {
        let detail = detail(10);
        let asked = asked(&detail, |_| Some(b"ext4".to_vec()));
        assert!(!find_change(&at_prices(&detail, &asked, 0.0, 0.0, None), "raw-tables").advised);
    }

    #[test]
    fn changes_that_rest_on_few_calls_or_little_time_are_too_short_to_estimate() {
        // Of each file three calls are redundant.
        for (files, nanos, is_too_short) in [
            (33, 1_000_000, true),
            (34, 1_000_000, false),
            (1000, 3_000, true),
            (1000, 4_000, false),
        ] {
            let detail = detail_of_calls(files, nanos);
            let what = at_prices(&detail, &BTreeMap::new(), 0.0, 0.0, None);
            let combine = find_change(&what, "combine-stat");
            assert_eq!(
                (combine.is_too_short(), combine.advised),
                (is_too_short, !is_too_short),
                "{files} files, {nanos} ns a call: {combine:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_saving_exceeds_what_was_measured(
            files in 0..3000_u32,
            nanos in 0..5000_u64,
            user in 0.0..0.1_f64,
            system in 0.0..0.1_f64,
            fstype in prop::sample::select(vec!["ext4", "xfs", "tmpfs"]),
            costs in prop::sample::select(vec![Costs::Metered, Costs::Priced]),
        ) {
            let detail = detail_of_calls(files, nanos);
            let asked = asked(&detail, |_| Some(fstype.into()));
            let what = what_if(&detail, &asked, (&prices(), costs), user, user + system, None);
            let in_calls = 4.0 * f64::from(files) * nanos as f64 / 1e9;
            for change in &what.changes {
                prop_assert!(change.seconds <= in_calls + user + 1e-9, "{:?}", change);
                prop_assert!(change.seconds <= what.cpu + 1e-9, "{:?}", change);
                prop_assert!(change.percent <= 100.0 + 1e-9, "{:?}", change);
                prop_assert!(change.overhead <= in_calls + user + 1e-9 || !change.advised, "{:?}", change);
                prop_assert!(!change.advised || !change.is_too_short(), "{:?}", change);
            }
        }
    }
}
