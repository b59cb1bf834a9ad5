//! Runs a command under a meter, and estimates the cost of its calls and the savings of changes.

use std::collections::HashMap;
use std::ffi::OsString;

use gate::fs::{AtFlags, FileType, StatxMask};
use gate::long::statx_long;
use meter::attach::{Attach, AttachTarget};
use meter::call::{Command, Listener, Metered};
use meter::names::{InheritedFiles, Names};
use mounts::may_hang;
use mounts::table::read_either;

use crate::estimate::estimate;
use crate::intervals::{IntervalLedger, Intervals};
use crate::ledger::{Detail, LastDirectory, Ledger};
use crate::prices::{FEWEST_CALLS, KnownPrices, PriceRequest, PricedCalls, Prices};
use crate::whatif::{Costs, WhatIf, metadata_calls, what_if};

/// A metered run of a command, or of running processes.
#[derive(Debug)]
pub struct CommandAccount {
    /// The meter's result; times of calls exclude waits for pipes, sockets and locks.
    pub metered: Metered,
    pub(crate) detail: Detail,
    pub(crate) prices: Prices,
    pub(crate) what_if: WhatIf,
}

impl CommandAccount {
    /// Whether times are estimates: calls × price, except calls that took much longer.
    pub fn is_estimate(&self) -> bool {
        self.metered.meter == STOPS
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
        Self::meter(IntervalLedger::new(ledger, intervals), given, |ledger| {
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
        Self::meter(IntervalLedger::new(ledger, intervals), given, |ledger| {
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
            STOPS => Costs::Noisy,
            PRECISE if given.is_none() => Costs::Metered,
            _ => Costs::Priced,
        };
        let prices = find_prices(&detail, &systems, given, costs);
        if metered.meter == STOPS {
            estimate(&mut metered.totals, &mut detail, &prices);
        }
        let what_if = predict(&metered, &detail, &systems, (&prices, costs));
        Ok(CommandAccount {
            metered,
            detail,
            prices,
            what_if,
        })
    }
}

/// The meter that stops the process at each call, which distorts times.
const STOPS: &str = "ptrace";
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
    let what_if = what_if(detail, &asked, prices, user, cpu, elapsed);
    if share > 0.0 {
        what_if.scaled(1.0 / share)
    } else {
        what_if
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

/// The type of each mounted file system, by mount point.
struct FileSystems(HashMap<Vec<u8>, Vec<u8>>);

impl FileSystems {
    /// Reads the mount table; empty if it cannot be read.
    fn read() -> FileSystems {
        let mounts = read_either(false, None).map(|(table, _)| table.mounts);
        let mounts = mounts.unwrap_or_default();
        let row = |mount: ondisk::Mount| Some((mount.target?, mount.content.fstype.clone()));
        // Of several mounts on one directory, the last one hides the others.
        FileSystems(mounts.into_iter().filter_map(row).collect())
    }

    fn fstype<'a>(&'a self, path: &'a [u8]) -> Option<&'a [u8]> {
        let mut path = path;
        loop {
            if let Some(fstype) = self.0.get(path) {
                return Some(fstype);
            }
            if path == b"/" || path.is_empty() {
                return None;
            }
            path = base::path::parent(path);
        }
    }

    fn is_plain(&self, name: &[u8]) -> bool {
        let fstype = self.fstype(name);
        fstype.is_some_and(|fstype| PLAIN.contains(&fstype) && !may_hang(fstype))
    }

    fn is_sample(&self, name: &[u8]) -> bool {
        let seen = || {
            let at = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
            statx_long(name, at, StatxMask::TYPE)
        };
        self.is_plain(name) && seen().is_ok_and(|file| file.file_type == FileType::Regular)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_are_found_by_the_mount_above() {
        let systems = FileSystems(HashMap::from([
            (b"/".to_vec(), b"xfs".to_vec()),
            (b"/a".to_vec(), b"tmpfs".to_vec()),
        ]));
        let fstype = |path: &[u8]| systems.fstype(path).map(<[u8]>::to_vec);
        assert_eq!(fstype(b"/a/b/c"), Some(b"tmpfs".to_vec()));
        assert_eq!(
            [fstype(b"/ab"), fstype(b"/")],
            [Some(b"xfs".to_vec()), Some(b"xfs".to_vec())]
        );
        assert_eq!(FileSystems(HashMap::new()).fstype(b"/x"), None);
    }
}
