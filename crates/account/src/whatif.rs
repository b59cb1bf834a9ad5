//! What changes would save: the memo's model on a run.
//!
//! The memo of 1974 takes a fixed price for each call, that of the cheapest gate that asks
//! something by name, and holds the rest for useful: a change saves the fixed price of each call
//! that goes ([`Change::overhead`]). That is all that is saved where the same work is done in fewer
//! calls. A call that asks what is known already does nothing useful either, so what it costs goes
//! whole ([`Change::seconds`]), at [`Prices`] without a meter.
//!
//! What batches and raw tables cost instead was measured on the engines of `fathom walk`, and is
//! counted in prices of a question by name, so that it follows the machine: docs/account.md says
//! how.

use std::collections::{BTreeMap, HashMap};

use crate::ledger::Detail;
use crate::patterns::Spare;
use crate::prices::{Prices, Sort, URING_BATCH, Work};

/// What an entry costs by XFS's bulkstat, joined with its name from getdents64: in questions by
/// name.
const BULKSTAT: f64 = 1.7;
/// Inodes that it gives at once.
const BULKSTAT_BATCH: u64 = 1024;
/// What an entry costs by the tables of ext4, its name included, in questions by name.
const RAW: f64 = 0.25;
/// Entries whose inodes and names lie in what is read at once.
const RAW_BATCH: u64 = 1024;
/// What an entry of a list costs, in questions by name.
const LISTED: f64 = 0.25;
/// Entries from which on it is worth to ask for all at once.
const WHOLE: u64 = 1000;

/// A change, and what it would save.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Its name.
    pub name: &'static str,
    /// Calls that would go, less those that would come.
    pub calls: i64,
    /// CPU seconds that would be saved; below 0, it would cost more.
    pub seconds: f64,
    /// Of the CPU time of the command.
    pub percent: f64,
    /// What the memo's model says: the fixed price of each call that goes, in seconds.
    pub overhead: f64,
    /// Time in the calls that would go, as it was metered, in seconds; waiting included. Not where
    /// prices are all there is.
    pub elapsed: Option<f64>,
    /// Whether it is worth doing.
    pub advised: bool,
    /// How it is done; or why it is not to be had.
    pub how: String,
}

/// What there is to be changed.
#[derive(Clone, Debug, PartialEq)]
pub struct WhatIf {
    /// The fixed price of a call, in nanoseconds.
    pub fixed: f64,
    /// CPU time of the command without a meter, in seconds: what percents are of. Of the part of
    /// the run that was told call by call, until it is [`scaled`](WhatIf::scaled).
    pub cpu: f64,
    /// The calls at their prices, in seconds; likewise.
    pub priced: f64,
    /// The changes, the same ones always.
    pub changes: Vec<Change>,
}

/// What was asked of the files of one file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Different files.
    pub entries: u64,
    /// The calls.
    pub work: Work,
}

/// What was asked of files, by the type of their file system; of those whose it is not known, by
/// the empty name. Of those that there was no room for it is taken that they are like the others.
pub fn asked(
    detail: &Detail,
    fstype: impl Fn(&[u8]) -> Option<Vec<u8>>,
) -> BTreeMap<Vec<u8>, Asked> {
    let mut types: HashMap<&[u8], usize> = HashMap::new();
    let mut asked: Vec<(Vec<u8>, Asked)> = Vec::new();
    let mut last: (&[u8], usize) = (b"", 0);
    for file in &detail.files {
        let work = file.asking();
        if work.calls() == 0 {
            continue;
        }
        let dir = file.dir();
        // Files of one directory come one after the other, as a rule.
        if asked.is_empty() || last.0 != dir {
            let of = |dir: &&[u8]| {
                let fstype = fstype(dir).unwrap_or_default();
                asked
                    .iter()
                    .position(|(known, _)| *known == fstype)
                    .unwrap_or_else(|| {
                        asked.push((fstype, Asked::default()));
                        asked.len() - 1
                    })
            };
            last = (dir, *types.entry(dir).or_insert_with_key(of));
        }
        if let Some((_, row)) = asked.get_mut(last.1) {
            row.entries += 1;
            row.work.join(&work);
        }
    }
    let named = detail.work.calls().saturating_sub(detail.nameless.calls);
    let held = named.saturating_sub(detail.unheld.calls);
    let times = if held > 0 {
        named as f64 / held as f64
    } else {
        1.0
    };
    let scaled = |asked: Asked| Asked {
        entries: (asked.entries as f64 * times).round() as u64,
        work: asked.work.scaled(times),
    };
    asked
        .into_iter()
        .map(|(fstype, asked)| (fstype, scaled(asked)))
        .collect()
}

/// What each change would save.
///
/// `user` is the CPU time of the command in its programs, and `cpu` all of it, less what metering
/// took; in seconds, of the part of the run that the detail is of.
pub fn what_if(
    detail: &Detail,
    asked: &BTreeMap<Vec<u8>, Asked>,
    prices: &Prices,
    user: f64,
    cpu: f64,
) -> WhatIf {
    let fixed = prices.fixed(&detail.work);
    let priced = prices.cost(&detail.work);
    // What a meter has the kernel do may look like the command's; its calls cost something all the
    // same.
    let cpu = cpu.max(user + priced);
    let model = Model {
        fixed,
        cpu,
        user,
        calls: detail.work.calls(),
    };
    let mut changes: Vec<Change> = Spare::ALL
        .iter()
        .map(|spare| model.spare(*spare, detail, prices))
        .collect();
    let of = |names: &[&[u8]]| {
        let mut all = Asked::default();
        for row in names.iter().filter_map(|name| asked.get(*name)) {
            all.entries += row.entries;
            all.work.join(&row.work);
        }
        all
    };
    changes.push(model.whole(
        "batch-bulkstat",
        &of(&[b"xfs"]),
        prices,
        (BULKSTAT, BULKSTAT_BATCH),
        "many inodes a call, on XFS, as root (fathom walk --engine bulkstat): fewer calls, but hardly less CPU time",
    ));
    changes.push(model.uring(detail, prices));
    changes.push(model.whole(
        "raw-tables",
        &of(&[b"ext4", b"ext3", b"ext2"]),
        prices,
        (RAW, RAW_BATCH),
        "read the inodes from the device, on ext4, as root (fathom walk --engine ext4): for whole trees",
    ));
    WhatIf {
        fixed,
        cpu,
        priced,
        changes,
    }
}

impl WhatIf {
    /// The same of a run that goes on as the part of it that was told, so many times as long.
    /// Prices and percents stay.
    pub fn scaled(mut self, times: f64) -> WhatIf {
        self.cpu *= times;
        self.priced *= times;
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
    cpu: f64,
    user: f64,
    calls: u64,
}

impl Model {
    fn change(
        &self,
        name: &'static str,
        calls: i64,
        seconds: f64,
        elapsed: Option<f64>,
        how: String,
    ) -> Change {
        let percent = if self.cpu > 0.0 {
            100.0 * seconds / self.cpu
        } else {
            0.0
        };
        let overhead = calls as f64 * self.fixed / 1e9;
        Change {
            name,
            calls,
            seconds,
            percent,
            overhead,
            elapsed,
            advised: seconds > 0.0,
            how,
        }
    }

    fn spare(&self, by: Spare, detail: &Detail, prices: &Prices) -> Change {
        let spared = detail.patterns.spared(by);
        let (name, how) = match by {
            Spare::CombineStat => (
                "combine-stat",
                "one statx for stat, open and fstat: ask what is open, or ask by name and do not open (that it was mapped is not seen)",
            ),
            Spare::CombineXattr => (
                "combine-xattr",
                "one listxattr for all attributes of a file, and listxattrat and getxattrat by name in place of an open for them",
            ),
            Spare::KeepStat => ("keep-stat", "remember what stat said"),
            Spare::CacheMisses => (
                "cache-misses",
                "remember what is not there, or list the directory once",
            ),
            Spare::Buffer => ("buffer", "read and write a page at least"),
            Spare::SyncOnce => (
                "sync-once",
                "one fsync for all that is written to a file; what it saves is waiting",
            ),
            Spare::DirectoryFd => (
                "directory-fd",
                "open the directory once, and look names up from there",
            ),
        };
        let mut seconds = prices.cost(&spared.work);
        if by == Spare::CombineXattr {
            // In the place of each opening comes the way along a name.
            let dearer = (prices.price(Sort::Xattr) - prices.price(Sort::OpenXattr)).max(0.0);
            seconds -= spared.work.calls_of(Sort::Open) as f64 * dearer / 1e9;
        }
        let calls = i64::try_from(spared.work.calls()).unwrap_or(i64::MAX);
        let elapsed = (calls > 0).then_some(spared.nanos as f64 / 1e9);
        self.change(name, calls, seconds, elapsed, how.to_owned())
    }

    /// All questions for entries of one kind of file system, in another way.
    fn whole(
        &self,
        name: &'static str,
        asked: &Asked,
        prices: &Prices,
        (each, batch): (f64, u64),
        how: &str,
    ) -> Change {
        if asked.entries == 0 {
            return self.change(
                name,
                0,
                0.0,
                None,
                format!("nothing was asked of such a file system; {how}"),
            );
        }
        let comes = asked.entries.div_ceil(batch);
        let calls = i64::try_from(asked.work.calls())
            .unwrap_or(i64::MAX)
            .saturating_sub_unsigned(comes);
        let entries = asked.entries as f64;
        let question = prices.price(Sort::Stat) / 1e9;
        // Each file is another one, and a list is as long as it has entries.
        let far = asked.work.calls_of(Sort::Stat) as f64 * question * (prices.many - 1.0);
        let listed = if asked.work.calls_of(Sort::List) > 0 {
            entries * LISTED * question
        } else {
            0.0
        };
        // Who does little else has no work of its own besides.
        let own = if asked.work.calls() * 10 >= self.calls * 9 {
            self.user
        } else {
            0.0
        };
        let now = prices.cost(&asked.work) + far + listed + own;
        let change = self.change(
            name,
            calls,
            now - entries * each * question,
            None,
            how.to_owned(),
        );
        Change {
            advised: change.advised && asked.entries >= WHOLE,
            ..change
        }
    }

    fn uring(&self, detail: &Detail, prices: &Prices) -> Change {
        let stats = detail.work.calls_of(Sort::Stat) + detail.work.calls_of(Sort::Miss);
        let calls = i64::try_from(stats - stats.div_ceil(URING_BATCH.into())).unwrap_or(i64::MAX);
        let each = prices.price(Sort::Stat);
        let seconds = stats as f64 * (each - prices.uring) / 1e9;
        let how = format!(
            "statx by io_uring: fewer calls, but each goes to a worker thread and costs {:.0} ns of CPU time in place of {each:.0}; do not",
            prices.uring
        );
        let change = self.change("batch-uring", calls, seconds, None, how);
        Change {
            advised: false,
            ..change
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

    /// So many files are asked for, opened, asked and closed.
    fn detail(files: u32) -> Detail {
        let mut ledger = Ledger::new(Inherited {
            cwd: Some(b"/x".to_vec()),
            files: vec![],
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
                    nanos: 2000,
                });
            }
        }
        ledger.close()
    }

    fn of<'a>(what: &'a WhatIf, name: &str) -> &'a Change {
        what.changes
            .iter()
            .find(|change| change.name == name)
            .unwrap()
    }

    #[test]
    fn what_is_redundant_is_saved_whole() {
        let (detail, prices) = (detail(2000), prices());
        let asked = asked(&detail, |dir| (dir == b"/x").then(|| b"ext4".to_vec()));
        assert_eq!(
            asked
                .iter()
                .map(|(name, asked)| (&name[..], asked.entries))
                .collect::<Vec<_>>(),
            [(&b"ext4"[..], 2000)]
        );
        let what = what_if(&detail, &asked, &prices, 0.010, 0.001);
        assert_eq!(what.fixed, 400.0);
        let fstat = prices.price(Sort::OpenStat);
        let combine = of(&what, "combine-stat");
        assert_eq!(combine.calls, 6000);
        assert!(
            (combine.seconds - 2000.0 * (1000.0 + fstat) / 1e9).abs() < 1e-9,
            "{combine:?}"
        );
        assert!((combine.overhead - 6000.0 * 400.0 / 1e9).abs() < 1e-12 && combine.advised);
        assert_eq!(combine.elapsed, Some(6000.0 * 2000.0 / 1e9));
        assert!((what.cpu - (0.010 + what.priced)).abs() < 1e-12);
        assert!((combine.percent - 100.0 * combine.seconds / what.cpu).abs() < 1e-9);
        let uring = of(&what, "batch-uring");
        assert!(!uring.advised && uring.seconds < 0.0 && uring.calls == 2000 - 63);
        assert!(
            (uring.seconds + 2000.0 * 800.0 / 1e9).abs() < 1e-12 && uring.how.contains("1200 ns")
        );
        // Asked are the name and the descriptor: opening and closing are not for the question.
        let raw = of(&what, "raw-tables");
        assert!(
            (raw.seconds - 2000.0 * (400.0 + fstat - 100.0) / 1e9).abs() < 1e-9 && raw.advised,
            "{raw:?}"
        );
        let bulk = of(&what, "batch-bulkstat");
        assert!(bulk.calls == 0 && !bulk.advised && bulk.how.starts_with("nothing was asked"));
    }

    #[test]
    fn what_goes_on_as_it_began_saves_as_much_again() {
        let detail = detail(2000);
        let part = what_if(
            &detail,
            &asked(&detail, |_| Some(b"ext4".to_vec())),
            &prices(),
            0.010,
            0.001,
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
    fn files_that_there_is_no_room_for_are_like_the_others() {
        let files = MOST_FILES as u32 * 2;
        let asked = asked(&detail(files), |_| Some(b"ext4".to_vec()));
        let Asked { entries, work } = asked[&b"ext4"[..]];
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
    fn nothing_is_saved_of_nothing() {
        let detail = detail(0);
        let what = what_if(&detail, &BTreeMap::new(), &prices(), 0.0, 0.0);
        assert_eq!(what.changes.len(), 10);
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
    fn few_files_are_not_worth_a_look_at_all_tables() {
        let detail = detail(10);
        let asked = asked(&detail, |_| Some(b"ext4".to_vec()));
        assert!(!of(&what_if(&detail, &asked, &prices(), 0.0, 0.0), "raw-tables").advised);
    }
}
