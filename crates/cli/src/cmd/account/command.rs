//! `fathom account -- COMMAND`: runs a command under a meter, and shows what its calls cost.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use account::ledger;
use account::ledger::{Detail, Directory, File, Ledger, first};
use account::prices::{Given, Prices};
use account::whatif::{self, WhatIf};
use gate::Errno;
use gate::fs::{At, FileType, Want as Ask};
use gate::long::statx_long;
use meter::call::{Command, Ended, Metered, Total, Want};
use meter::names::Inherited;
use meter::syscalls;
use mounts::table::read_either;
use mounts::{Warning, may_hang};
use report::meter as shown;
use show::table::TableStyle;

use super::run::SCHEMA;
use crate::cmd::account::args::{Account as Args, AccountBy};
use crate::cmd::metered::{Report, not_metered};
use crate::error::{Error, Outcome};
use crate::input::whole;
use crate::out::{Out, envelope_line, seconds};

/// Rows of a table for people, and of a list for programs, unless another number is asked for.
const TOP: usize = 10;
const TOP_JSON: usize = 10_000;

pub(super) fn run(args: &Args, out: &Out) -> Outcome {
    // What can be refused is refused before anything runs.
    let given = args.prices.as_deref().map(read_prices).transpose()?;
    let report = Report::begin(args.output.as_deref(), out)?;
    let taken = take(&args.command, args.meter.name(), args.calls, given)
        .map_err(|why| not_metered(why, out))?;
    let top = args.top.map(|top| top as usize);
    let rows = top.unwrap_or(if out.json { TOP_JSON } else { TOP });
    let account = taken.shown(args.by, rows);
    let status = account.exit;
    let warnings: Vec<Warning> = taken
        .metered
        .warnings()
        .into_iter()
        .map(Warning::general)
        .collect();
    let text = |style: TableStyle| match out.json {
        true => envelope_line(SCHEMA, &account, &warnings),
        false => account.to_text(style, rows),
    };
    report.end(text, status, out)?;
    out.warn(&warnings);
    out.exit_with(status);
    // Names by the ten thousand, one by one: the kernel gives them back at once, since this process
    // ends.
    std::mem::forget(taken);
    Ok(0)
}

/// A run, and what is made of it.
pub(crate) struct Taken {
    pub(crate) metered: Metered,
    detail: Detail,
    prices: Prices,
    what_if: WhatIf,
}

/// Runs a command under a meter, looks at so many of its calls one by one, and works out what
/// changes would save. Prices that are not given are measured.
pub(crate) fn take(
    words: &[OsString],
    meter: &str,
    calls: u64,
    given: Option<(Given, String)>,
) -> Result<Taken, meter::Error> {
    let command = Command::find(words)?;
    let mut ledger = Ledger::new(Inherited::from_this_process());
    let metered = meter::run(meter, &command, Want::Detail { calls }, &mut ledger)?;
    let detail = ledger.close();
    let systems = FileSystems::read();
    let sample = detail
        .samples(SAMPLES)
        .into_iter()
        .map(|file| &*file.name)
        .find(|name| systems.is_sample(name));
    let mut prices = Prices::measure(sample, &detail.work);
    prices.measure_many(neighbours(&detail, &systems).into_iter());
    let prices = match given {
        Some((given, source)) => prices.given(&given, source),
        None => prices,
    };
    let asked = whatif::asked(&detail, |dir| systems.of(dir).map(<[u8]>::to_vec));
    let all: u64 = metered.totals.iter().map(|total| total.calls).sum();
    let share = if all > 0 {
        detail.work.calls() as f64 / all as f64
    } else {
        1.0
    };
    let user = metered.user.as_secs_f64() * share;
    let cpu = (metered.user + metered.sys)
        .saturating_sub(metered.overhead)
        .as_secs_f64()
        * share;
    let what_if = whatif::what_if(&detail, &asked, &prices, user, cpu);
    let what_if = if share > 0.0 {
        what_if.scaled(1.0 / share)
    } else {
        what_if
    };
    Ok(Taken {
        metered,
        detail,
        prices,
        what_if,
    })
}

/// Files that are looked at for one to find prices with.
const SAMPLES: usize = 32;
/// Files that are asked for, to find what many cost.
const MANY: usize = 512;

/// Files that the command has asked for one after the other.
fn neighbours<'a>(detail: &'a Detail, systems: &FileSystems) -> Vec<&'a [u8]> {
    let sound = || {
        detail
            .files
            .iter()
            .filter(|file| file.sum.errors == 0)
            .map(|file| &*file.name)
    };
    // Those in the middle: what began the command and what ended it is like no other.
    let from = sound().count().saturating_sub(MANY) / 2;
    sound()
        .skip(from)
        .take(MANY)
        .filter(|name| systems.is_plain(name))
        .collect()
}

/// File systems whose files can be opened without any other consequence.
const PLAIN: [&[u8]; 9] = [
    b"ext4", b"ext3", b"ext2", b"xfs", b"btrfs", b"tmpfs", b"overlay", b"f2fs", b"zfs",
];

/// The file systems, by where they are mounted.
struct FileSystems(HashMap<Vec<u8>, Vec<u8>>);

impl FileSystems {
    /// Without a table nothing is known.
    fn read() -> FileSystems {
        let mounts = read_either(false, None)
            .map(|(table, _)| table.mounts)
            .unwrap_or_default();
        let row = |mount: ondisk::Mount| Some((mount.target?, mount.content.fstype.clone()));
        // Of those in one place, the last one lies above the others.
        FileSystems(mounts.into_iter().filter_map(row).collect())
    }

    fn of<'a>(&'a self, path: &'a [u8]) -> Option<&'a [u8]> {
        let mut path = path;
        loop {
            if let Some(fstype) = self.0.get(path) {
                return Some(fstype);
            }
            if path == b"/" || path.is_empty() {
                return None;
            }
            path = mounts::path::parent(path);
        }
    }

    fn is_plain(&self, name: &[u8]) -> bool {
        self.of(name)
            .is_some_and(|fstype| PLAIN.contains(&fstype) && !may_hang(fstype))
    }

    fn is_sample(&self, name: &[u8]) -> bool {
        let plain = self.is_plain(name);
        let at = At::SYMLINK_NOFOLLOW | At::NO_AUTOMOUNT;
        plain
            && statx_long(name, at, Ask::TYPE).is_ok_and(|file| file.file_type == FileType::Regular)
    }
}

fn percent(nanos: u64, of: u64) -> f64 {
    if of > 0 {
        100.0 * nanos as f64 / of as f64
    } else {
        0.0
    }
}

fn sum(sum: &ledger::Sum) -> shown::Sum {
    shown::Sum {
        calls: sum.calls,
        errors: sum.errors,
        seconds: seconds(sum.nanos),
    }
}

impl Taken {
    /// The account as it is shown; of files and directories, so many rows.
    pub(crate) fn shown(&self, by: AccountBy, rows: usize) -> shown::Account<'_> {
        let Taken {
            metered,
            detail,
            prices,
            what_if,
        } = self;
        let all: u64 = metered.totals.iter().map(|total| total.nanos).sum();
        let calls: u64 = metered.totals.iter().map(|total| total.calls).sum();
        let directories = detail.directories(None);
        let told = detail.work.calls();
        let complete =
            told >= calls && detail.unheld.calls == 0 && detail.forgotten == 0 && metered.lost == 0;
        let exit = metered.ended.status();
        shown::Account {
            gates: gates(&metered.totals, all),
            programs: programs(&metered.totals, all, false),
            by: match by {
                AccountBy::Program => shown::By::Program,
                AccountBy::Process => {
                    let mut processes = programs(&metered.totals, all, true);
                    let of = processes.len() as u64;
                    processes.truncate(rows);
                    shown::By::Process(processes, of)
                }
                AccountBy::Directory(depth) => {
                    let directories = detail.directories(depth);
                    let of = directories.len() as u64;
                    shown::By::Directory(places(directories, rows), of)
                }
            },
            per_file: detail.costliest(rows).into_iter().map(file).collect(),
            detail: shown::Detail {
                calls: told,
                complete,
                files: detail.files.len() as u64,
                directories: directories.len() as u64,
                unheld: sum(&detail.unheld),
                nameless: sum(&detail.nameless),
                forgotten: detail.forgotten,
            },
            per_directory: places(directories, rows),
            patterns: detail
                .patterns
                .found()
                .map(|(pattern, found)| pattern_row(pattern, found))
                .collect(),
            what_if: what_if.changes.iter().map(change).collect(),
            model: shown::Model {
                fixed_ns: what_if.fixed,
                prices: prices.source.clone(),
                cpu_seconds: what_if.cpu,
                priced_seconds: what_if.priced,
            },
            meter: metered.meter,
            why: metered.why(),
            lost: metered.lost,
            unfinished: metered.unfinished,
            overhead_seconds: metered.overhead.as_secs_f64(),
            exit,
            signal: match metered.ended {
                Ended::Killed(signal) => Some(signal),
                Ended::Exited(_) => None,
            },
            real: metered.real.as_secs_f64(),
            user: metered.user.as_secs_f64(),
            sys: metered.sys.as_secs_f64(),
        }
    }
}

fn gates(totals: &[Total], all: u64) -> BTreeMap<&'static str, shown::Gate> {
    let mut nanos: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut gates: BTreeMap<&'static str, shown::Gate> = BTreeMap::new();
    for total in totals.iter().filter(|total| total.calls > 0) {
        let Some(syscall) = syscalls::by_number(total.number) else {
            continue;
        };
        let gate = gates.entry(syscall.name).or_default();
        gate.calls += total.calls;
        for (errno, times) in &total.errors {
            gate.errors += times;
            *gate
                .errnos
                .entry(Errno(*errno).name().into_owned())
                .or_default() += times;
        }
        *nanos.entry(syscall.name).or_default() += total.nanos;
    }
    for (name, gate) in &mut gates {
        let nanos = nanos.get(name).copied().unwrap_or_default();
        gate.seconds = seconds(nanos);
        gate.ms_per_call = 1e3 * gate.seconds / gate.calls as f64;
        gate.percent = percent(nanos, all);
    }
    gates
}

/// By program, or by program and process; costliest first.
fn programs(totals: &[Total], all: u64, each: bool) -> Vec<shown::Program> {
    #[derive(Default)]
    struct Row {
        pids: BTreeSet<u32>,
        sum: ledger::Sum,
        gates: BTreeMap<&'static str, u64>,
    }
    let mut rows: BTreeMap<(&[u8], u32), Row> = BTreeMap::new();
    for total in totals.iter().filter(|total| total.calls > 0) {
        let Some(syscall) = syscalls::by_number(total.number) else {
            continue;
        };
        let row = rows
            .entry((&total.program, if each { total.pid } else { 0 }))
            .or_default();
        row.pids.insert(total.pid);
        row.sum.calls += total.calls;
        row.sum.nanos += total.nanos;
        row.sum.errors += total.errors.iter().map(|(_, times)| times).sum::<u64>();
        *row.gates.entry(syscall.name).or_default() += total.calls;
    }
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by(|(_, a), (_, b)| {
        b.sum
            .nanos
            .cmp(&a.sum.nanos)
            .then(b.sum.calls.cmp(&a.sum.calls))
    });
    let program = |((program, pid), row): ((&[u8], u32), Row)| shown::Program {
        program: program.to_vec(),
        pid: each.then_some(pid),
        processes: row.pids.len() as u64,
        sum: sum(&row.sum),
        percent: percent(row.sum.nanos, all),
        gates: row.gates,
    };
    rows.into_iter().map(program).collect()
}

fn file(file: &File) -> shown::Place<'_> {
    shown::Place {
        path: &file.name,
        files: None,
        sum: sum(&file.sum),
        gates: file.gates(),
    }
}

/// So many of the directories, costliest first.
fn places<'a>(directories: Vec<Directory<'a>>, rows: usize) -> Vec<shown::Place<'a>> {
    let order = |a: &Directory<'a>, b: &Directory<'a>| {
        b.sum
            .nanos
            .cmp(&a.sum.nanos)
            .then_with(|| a.name.cmp(b.name))
    };
    let place = |row: &Directory<'a>| shown::Place {
        path: row.name,
        files: Some(row.files),
        sum: sum(&row.sum),
        gates: row.gates(),
    };
    first(directories, rows, order).iter().map(place).collect()
}

fn pattern_row(
    pattern: account::patterns::Pattern,
    found: &account::patterns::Found,
) -> shown::Pattern<'_> {
    shown::Pattern {
        name: pattern.name(),
        count: found.count,
        calls: found.calls,
        seconds: seconds(found.nanos),
        example: found.example.as_deref(),
    }
}

fn change(change: &whatif::Change) -> shown::Change {
    shown::Change {
        change: change.name,
        saves_calls: change.calls,
        saves_seconds: change.seconds,
        saves_percent: change.percent,
        saves_overhead_seconds: change.overhead,
        elapsed_seconds: change.elapsed,
        advised: change.advised,
        how: change.how.clone(),
    }
}

/// The prices that `fathom probe DIR gates --json` has printed.
fn read_prices(file: &OsStr) -> Result<(Given, String), Error> {
    const MOST: usize = 8 << 20;
    const NEXT: &str = "give the output of fathom probe DIR gates --json";
    let path = file.as_bytes();
    let cannot =
        |e: &dyn std::fmt::Display| Error::read("cannot use the prices", path, e.to_string(), NEXT);
    let text = whole(path, MOST, "cannot read the prices", NEXT)?;
    let value: serde_json::Value =
        serde_json::from_slice(&text).map_err(|e| cannot(&format!("it is not JSON: {e}")))?;
    let given = given(&value);
    if given == Given::default() {
        return Err(cannot(&"there are no prices in it"));
    }
    let dir = value["result"]["dir"].as_str().unwrap_or("a file");
    Ok((
        given,
        format!(
            "fathom probe {} gates",
            show::name::printable(dir.as_bytes())
        ),
    ))
}

/// Of what was priced, what there is a use for: warm, and on one thread.
fn given(value: &serde_json::Value) -> Given {
    let prices = value["result"]["prices"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let price = |gate: &str, what: &[&str]| {
        let is_it = |price: &&serde_json::Value| {
            price["gate"] == gate
                && price["state"] == "warm"
                && price["threads"] == 1
                && what.iter().any(|what| price["what"] == *what)
        };
        prices.iter().find(is_it)?["ns"]
            .as_f64()
            .filter(|ns| ns.is_finite() && *ns > 0.0)
    };
    const FILE: [&str; 2] = ["a file, by name", "the directory"];
    Given {
        empty: price("getppid", &["an empty call"]),
        stat: price("newfstatat", &FILE).or_else(|| price("statx", &FILE)),
        miss: price("statx", &["a name that is not there"]),
        open_close: price("openat+close", &FILE),
        xattr: price("lgetxattr", &["one that is not there"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(program: &str, pid: u32, gate: &str, calls: u64, errors: &[(i32, u64)]) -> Total {
        let number = syscalls::by_name(gate).unwrap().number;
        Total {
            program: program.into(),
            pid,
            number,
            calls,
            nanos: 1000 * calls,
            errors: errors.to_vec(),
        }
    }

    #[test]
    fn totals_are_added_up_by_gate_program_and_process() {
        let totals = [
            total("/a", 1, "openat", 3, &[(2, 1), (13, 1)]),
            total("/a", 2, "openat", 1, &[(2, 1)]),
            total("/a", 2, "close", 1, &[]),
            total("/b", 2, "close", 5, &[]),
        ];
        let gates = gates(&totals, 10_000);
        let open = &gates["openat"];
        assert_eq!((open.calls, open.errors, open.percent), (4, 3, 40.0));
        assert_eq!(
            open.errnos,
            BTreeMap::from([("EACCES".to_owned(), 1), ("ENOENT".to_owned(), 2)])
        );
        let rows = |each| {
            let rows = programs(&totals, 10_000, each);
            let row = |row: shown::Program| {
                (
                    String::from_utf8(row.program).unwrap(),
                    row.pid,
                    row.processes,
                    row.sum.calls,
                )
            };
            rows.into_iter().map(row).collect::<Vec<_>>()
        };
        let name = str::to_owned;
        assert_eq!(
            rows(false),
            [(name("/a"), None, 2, 5), (name("/b"), None, 1, 5)]
        );
        assert_eq!(
            rows(true),
            [
                (name("/b"), Some(2), 1, 5),
                (name("/a"), Some(1), 1, 3),
                (name("/a"), Some(2), 1, 2)
            ]
        );
    }

    #[test]
    fn file_systems_are_found_by_the_mount_above() {
        let systems = FileSystems(HashMap::from([
            (b"/".to_vec(), b"xfs".to_vec()),
            (b"/a".to_vec(), b"tmpfs".to_vec()),
        ]));
        let of = |path: &[u8]| systems.of(path).map(<[u8]>::to_vec);
        assert_eq!(of(b"/a/b/c"), Some(b"tmpfs".to_vec()));
        assert_eq!(
            [of(b"/ab"), of(b"/")],
            [Some(b"xfs".to_vec()), Some(b"xfs".to_vec())]
        );
        assert_eq!(FileSystems(HashMap::new()).of(b"/x"), None);
    }

    #[test]
    fn prices_are_those_of_warm_calls_on_one_thread() {
        let value = serde_json::json!({"result": {"prices": [
            {"gate": "statx", "what": "a file, by name", "state": "cold", "threads": 1, "ns": 9000.0},
            {"gate": "statx", "what": "a file, by name", "state": "warm", "threads": 2, "ns": 900.0},
            {"gate": "statx", "what": "a file, by name", "state": "warm", "threads": 1, "ns": 350.0},
            {"gate": "openat+close", "what": "a new file", "state": "warm", "threads": 1, "ns": 9000.0},
            {"gate": "getppid", "what": "an empty call", "state": "warm", "threads": 1, "ns": 90},
        ]}});
        assert_eq!(
            given(&value),
            Given {
                empty: Some(90.0),
                stat: Some(350.0),
                ..Given::default()
            }
        );
        assert_eq!(given(&serde_json::json!([])), Given::default());
    }
}
