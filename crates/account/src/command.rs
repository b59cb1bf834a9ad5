//! Runs a command under a meter, and estimates the cost of its calls and the savings of changes.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;

use base::path::ancestors;
use gate::Errno;
use gate::fs::{FileType, StatxMask};
use gate::long::lstat_long;
use gate::process::is_root;
use meter::attach::{Attach, AttachTarget};
use meter::call::{Command, Listener, Metered, Total};
use meter::names::{InheritedFiles, Names};
use meter::syscalls;
use mounts::may_hang;
use mounts::names::open_device;
use mounts::table::read_either;
use ondisk::Mount;

use crate::estimate::estimate;
use crate::intervals::{IntervalLedger, Intervals};
use crate::ledger::{Detail, LastDirectory, Ledger};
use crate::prices::{FEWEST_CALLS, KnownPrices, PriceRequest, PricedCalls, Prices};
use crate::whatif::{
    ChangeKind, Costs, Extrapolation, Obstacle, ReplacedCalls, WhatIf, WhatIfChange, is_ext,
    metadata_calls, what_if,
};

/// A metered run of a command, or of running processes.
#[derive(Debug)]
pub struct CommandAccount {
    /// The meter's result; times of calls exclude waits for pipes, sockets and locks.
    pub metered: Metered,
    pub(crate) detail: Detail,
    pub(crate) prices: Prices,
    pub(crate) what_if: WhatIf,
    /// Numbers of the system calls whose times are calls × price.
    pub(crate) priced: BTreeSet<u32>,
}

impl CommandAccount {
    /// Whether times are estimates: calls × price, except system calls that took much longer on
    /// average, or that have no price.
    pub fn is_estimate(&self) -> bool {
        self.metered.stops_processes()
    }

    /// Runs a command under the meter with this name, which reports up to `calls` calls
    /// individually. Prices that are not given are measured.
    ///
    /// # Errors
    /// Why the command could not be metered.
    pub fn take(
        words: &[OsString],
        meter: &str,
        calls: u64,
        given: Option<(KnownPrices, String)>,
        intervals: Option<Intervals<'_>>,
    ) -> Result<CommandAccount, meter::Error> {
        let command = Command::find(words)?;
        let ledger = Ledger::new(InheritedFiles::from_this_process());
        let ledger = IntervalLedger::new(ledger, intervals, given.as_ref());
        Self::meter(ledger, given, |ledger| {
            meter::run(meter, &command, calls, ledger)
        })
    }

    /// [`CommandAccount::take`] for running processes.
    ///
    /// # Errors
    /// Why the processes could not be metered.
    pub fn attach(
        attach: &Attach<'_>,
        meter: &str,
        calls: u64,
        given: Option<(KnownPrices, String)>,
        intervals: Option<Intervals<'_>>,
    ) -> Result<CommandAccount, meter::Error> {
        let ledger = match attach.target {
            AttachTarget::Machine => Ledger::with_names(Names::of_machine()),
            _ => Ledger::new(InheritedFiles::default()),
        };
        let ledger = IntervalLedger::new(ledger, intervals, given.as_ref());
        Self::meter(ledger, given, |ledger| {
            meter::attach(meter, attach, calls, ledger)
        })
    }

    fn meter(
        mut ticking: IntervalLedger<'_>,
        given: Option<(KnownPrices, String)>,
        run: impl FnOnce(&mut dyn Listener) -> Result<Metered, meter::Error>,
    ) -> Result<CommandAccount, meter::Error> {
        let mut metered = run(&mut ticking)?;
        let mut detail = ticking.ledger.close();
        detail
            .waits
            .take_from(&mut metered.totals, &detail.programs);
        let systems = FileSystems::read();
        let costs = match metered.meter {
            _ if metered.stops_processes() => Costs::Noisy,
            PRECISE if given.is_none() => Costs::Metered,
            _ => Costs::Priced,
        };
        let prices = find_prices(&detail, &systems, given, costs);
        let priced = match metered.stops_processes() {
            true => estimate(&mut metered.totals, &mut detail, &prices),
            false => BTreeSet::new(),
        };
        let what_if = predict(&metered, &detail, &systems, (&prices, costs));
        Ok(CommandAccount {
            metered,
            detail,
            prices,
            what_if,
            priced,
        })
    }
}

/// The meter that adds little to the times of calls.
const PRECISE: &str = "bpf";

fn find_prices(
    detail: &Detail,
    systems: &FileSystems,
    given: Option<(KnownPrices, String)>,
    costs: Costs,
) -> Prices {
    let samples = detail.samples(SAMPLES).into_iter();
    let sample = samples
        .map(|file| &*file.name)
        .find(|name| systems.is_sample(name));
    // An estimate from fewer than `FEWEST_CALLS` calls is not shown, so its prices are not
    // measured.
    let is_short = costs != Costs::Noisy && detail.work.calls() < FEWEST_CALLS;
    let wanted = PriceRequest {
        work: if is_short {
            &PricedCalls::default()
        } else {
            &detail.work
        },
        bytes: costs == Costs::Noisy,
    };
    let mut prices = Prices::measure(sample, wanted);
    if costs != Costs::Metered {
        prices.measure_many(neighbours(detail, systems).into_iter());
    }
    match given {
        Some((given, source)) => prices.replace_known(&given, source),
        None => prices,
    }
}

fn predict(
    metered: &Metered,
    detail: &Detail,
    systems: &FileSystems,
    prices: (&Prices, Costs),
) -> WhatIf {
    let asked = metadata_calls(detail, |dir| systems.fstype(dir).map(<[u8]>::to_vec));
    let all: u64 = metered.totals.iter().map(|total| total.calls).sum();
    // The share of calls that was reported individually.
    let share = match all {
        0 => 1.0,
        all => detail.work.calls() as f64 / all as f64,
    };
    let user = metered.user.as_secs_f64() * share;
    let cpu = (metered.user + metered.sys).saturating_sub(metered.overhead);
    let cpu = cpu.as_secs_f64() * share;
    let mut last = LastDirectory::default();
    let may_wait = |dir| systems.fstype(dir).is_some_and(may_hang);
    let files = detail.files.iter();
    let waited = files.filter(|file| last.get(file.dir(), may_wait));
    let waited: u64 = waited.map(|file| file.sum.nanos).sum();
    let real = metered.real.saturating_sub(metered.overhead).as_secs_f64() * share;
    let elapsed = (waited as f64 / 1e9 > cpu).then_some(real);
    let times = if share > 0.0 { 1.0 / share } else { 1.0 };
    let what_if = what_if(detail, &asked, prices, user, cpu, elapsed);
    let mut what_if = what_if.scaled(times, |kind| {
        extrapolation(&metered.totals, detail, (times, prices.1), kind)
    });
    let is_raw = |change: &&mut WhatIfChange| matches!(change.kind, ChangeKind::RawTables { .. });
    if let Some(raw) = what_if.changes.iter_mut().find(is_raw)
        && raw.is_advised()
        && !systems.can_open_devices(detail)
    {
        raw.obstacle = Some(Obstacle::Device);
    }
    what_if
}

/// The extrapolation of a change to a run that lasts `times` as long as its individually reported
/// part. The first calls of a run are often slower than the others, so the ratio of their times is
/// measured where times are no noise.
fn extrapolation(
    totals: &[Total],
    detail: &Detail,
    (times, costs): (f64, Costs),
    change: ChangeKind,
) -> Extrapolation {
    let replaces = |number: u32| {
        syscalls::by_number(number).is_some_and(|syscall| change.replaces(syscall.kind))
    };
    let (mut calls, mut nanos) = (0, 0);
    for total in totals.iter().filter(|total| replaces(total.number)) {
        calls += total.calls;
        nanos += total.nanos;
    }
    let all = ReplacedCalls::new(calls, nanos as f64 / 1e9);
    let (mut reported, mut reported_nanos) = (0, 0);
    let measured = detail.measured.iter();
    for (_, part) in measured.filter(|(number, _)| replaces(u32::from(**number))) {
        reported += part.work.calls();
        reported_nanos += part.nanos;
    }
    let ratio = |whole: u64, part: u64| match part {
        _ if times <= 1.0 => 1.0,
        0 => times,
        part => whole as f64 / part as f64,
    };
    let calls = ratio(calls, reported).max(1.0);
    let seconds = match costs {
        Costs::Noisy => calls,
        _ => ratio(nanos, reported_nanos),
    };
    Extrapolation {
        calls,
        seconds,
        all,
    }
}

/// Number of candidate files for measuring prices.
const SAMPLES: usize = 32;
/// Number of files to stat once each, to measure the price of a stat of many files.
const MANY: usize = 512;

/// Files that the command used consecutively, as samples for the price of a stat of many files.
fn neighbours<'a>(detail: &'a Detail, systems: &FileSystems) -> Vec<&'a [u8]> {
    let files = || detail.files.iter().filter(|file| file.sum.errors == 0);
    // From the middle of the run: files of a command's start and end are not typical.
    let from = files().count().saturating_sub(MANY) / 2;
    let names = files().skip(from).take(MANY).map(|file| &*file.name);
    names.filter(|name| systems.is_plain(name)).collect()
}

/// File systems on which opening a file has no side effects.
const PLAIN: [&[u8]; 9] = [
    b"ext4", b"ext3", b"ext2", b"xfs", b"btrfs", b"tmpfs", b"overlay", b"f2fs", b"zfs",
];

/// The mounted file systems, by mount point.
struct FileSystems(HashMap<Vec<u8>, Mount>);

impl FileSystems {
    /// Reads the mount table; empty if it cannot be read.
    fn read() -> FileSystems {
        let mounts = read_either(false, None).map(|(table, _)| table.mounts);
        let mounts = mounts.unwrap_or_default();
        let row = |mount: Mount| Some((mount.target.clone()?, mount));
        // Of several mounts on one directory, the last one hides the others.
        FileSystems(mounts.into_iter().filter_map(row).collect())
    }

    fn fstype(&self, path: &[u8]) -> Option<&[u8]> {
        self.mount(path).map(|mount| &mount.content.fstype[..])
    }

    /// Whether root can open the devices of all ext4 file systems in which the command listed
    /// directories: `fathom walk` would read these. This process opens them as the engine ext4 does:
    /// in a container, even root may be refused.
    fn can_open_devices(&self, detail: &Detail) -> bool {
        let mut used: Vec<&Mount> = Vec::new();
        let mut last = LastDirectory::default();
        let listed = detail.files.iter().filter(|file| file.is_listed());
        for mount in listed.filter_map(|file| last.get(file.dir(), |dir| self.mount(dir))) {
            if is_ext(&mount.content.fstype) && used.iter().all(|known| known.dev != mount.dev) {
                used.push(mount);
            }
        }
        let can_open =
            |mount: &&Mount| match open_device(mount.dev, mount.content.source.as_deref()) {
                Ok(_) => true,
                Err(failed) => failed.is_some_and(|it| it.errno == Errno::EACCES && !is_root()),
            };
        used.iter().all(can_open)
    }

    fn mount(&self, path: &[u8]) -> Option<&Mount> {
        ancestors(path).find_map(|dir| self.0.get(dir))
    }

    fn is_plain(&self, name: &[u8]) -> bool {
        let fstype = self.fstype(name);
        fstype.is_some_and(|fstype| PLAIN.contains(&fstype) && !may_hang(fstype))
    }

    fn is_sample(&self, name: &[u8]) -> bool {
        let seen = || lstat_long(name, StatxMask::TYPE);
        self.is_plain(name) && seen().is_ok_and(|file| file.file_type == FileType::Regular)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use meter::call::Call;
    use proptest::prelude::*;

    #[test]
    fn file_systems_are_found_by_the_mount_above() {
        let mount = |fstype: &[u8]| Mount {
            content: Arc::new(ondisk::Content {
                fstype: fstype.to_vec(),
                ..ondisk::Content::default()
            }),
            ..Mount::default()
        };
        let systems = FileSystems(HashMap::from([
            (b"/".to_vec(), mount(b"xfs")),
            (b"/a".to_vec(), mount(b"tmpfs")),
        ]));
        let fstype = |path: &[u8]| systems.fstype(path).map(<[u8]>::to_vec);
        assert_eq!(fstype(b"/a/b/c"), Some(b"tmpfs".to_vec()));
        assert_eq!(
            [fstype(b"/ab"), fstype(b"/")],
            [Some(b"xfs".to_vec()), Some(b"xfs".to_vec())]
        );
        assert_eq!(FileSystems(HashMap::new()).fstype(b"/x"), None);
    }

    #[test]
    fn advice_for_devices_needs_devices_that_can_be_opened() {
        let ext4 = Mount {
            content: Arc::new(ondisk::Content {
                fstype: b"ext4".to_vec(),
                ..ondisk::Content::default()
            }),
            dev: ondisk::Dev::new(4095, 1),
            ..Mount::default()
        };
        let systems = FileSystems(HashMap::from([(b"/".to_vec(), ext4)]));
        let mut ledger = Ledger::new(InheritedFiles::default());
        assert!(systems.can_open_devices(&Ledger::new(InheritedFiles::default()).close()));
        report_calls(&mut ledger, "newfstatat", 1, 1000);
        report_calls(&mut ledger, "openat", 1, 1000);
        assert!(systems.can_open_devices(&ledger.close()), "not listed");
        let mut ledger = Ledger::new(InheritedFiles::default());
        report_calls(&mut ledger, "openat", 1, 1000);
        report_calls(&mut ledger, "getdents64", 1, 1000);
        assert!(!systems.can_open_devices(&ledger.close()));
    }

    fn report_calls(ledger: &mut Ledger, call: &str, calls: u64, nanos: u64) {
        let number = syscalls::by_name(call).unwrap().number;
        for _ in 0..calls {
            let by_name = matches!(call, "newfstatat" | "openat");
            ledger.call(&Call {
                pid: 1,
                tid: 1,
                number,
                args: [if by_name { -100_i64 as u64 } else { 3 }, 0, 1, 0, 0, 0],
                name: by_name.then_some(&b"/d/f"[..]),
                other: None,
                result: Some(match call {
                    "newfstatat" => 0,
                    "openat" => 3,
                    _ => 1,
                }),
                start: 0,
                nanos,
            });
        }
    }

    proptest! {
        /// The reported calls may be slower than the others, so that an extrapolation by their
        /// number exceeds the time of all calls.
        #[test]
        fn no_extrapolated_saving_exceeds_the_calls_that_it_replaces(
            part in 1..400_u64,
            rest in 0..4000_u64,
            slow in 1..1_000_000_u64,
            fast in 1..10_000_u64,
            costs in prop::sample::select(vec![Costs::Metered, Costs::Priced, Costs::Noisy]),
        ) {
            let mut ledger = Ledger::new(InheritedFiles::default());
            let mut totals = Vec::new();
            for call in ["newfstatat", "read", "close"] {
                report_calls(&mut ledger, call, part, slow);
                totals.push(Total {
                    program: Vec::new(),
                    pid: 1,
                    number: syscalls::by_name(call).unwrap().number,
                    calls: part + rest,
                    nanos: part * slow + rest * fast,
                    errors: Vec::new(),
                });
            }
            let detail = ledger.close();
            let wanted = PriceRequest { work: &PricedCalls::default(), bytes: false };
            let prices = Prices::measure(None, wanted);
            let asked = metadata_calls(&detail, |_| Some(b"ext4".to_vec()));
            let what = what_if(&detail, &asked, (&prices, costs), 1.0, 2.0, None);
            let times = (part + rest) as f64 / part as f64;
            let of = |kind| extrapolation(&totals, &detail, (times, costs), kind);
            let what = what.scaled(times, of);
            for change in &what.changes {
                let all = of(change.kind).all;
                prop_assert!(change.seconds <= all.seconds + 1e-9, "{:?}", change);
                prop_assert!(change.overhead <= all.seconds + 1e-9, "{:?}", change);
                prop_assert!(change.elapsed.unwrap_or(0.0) <= all.seconds + 1e-9, "{:?}", change);
                prop_assert!(change.calls <= all.calls as i64, "{:?}", change);
                prop_assert!(change.percent <= 100.0 + 1e-9, "{:?}", change);
            }
        }
    }
}
