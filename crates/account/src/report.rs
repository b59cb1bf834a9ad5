//! The account of a command: its calls by name, program, file and directory, redundant calls, and
//! the savings of changes.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use gate::Errno;
use meter::call::{Metered, Total};
use meter::syscalls;

use crate::command::CommandAccount;
use crate::ledger::{Detail, Directory, File, Sum, costliest};
use crate::patterns::{FoundPattern, Pattern};
use crate::waits::Wait;
use crate::whatif::{ReplacedCalls, WhatIf, WhatIfChange};

/// The account of a command, in the order in which it is printed.
#[derive(Clone, Debug)]
pub struct AccountReport<'a> {
    /// The result of the meter, and how the command ended.
    pub metered: &'a Metered,
    /// Calls by system call.
    pub gates: BTreeMap<&'static str, GateTotal>,
    /// Waits of calls, the longest first. No other row includes their time.
    pub waits: Vec<Wait>,
    /// Calls by program, the costliest first.
    pub programs: Vec<ProgramTotal>,
    /// The rows of the chosen grouping.
    pub groups: Groups<'a>,
    /// The costliest files.
    pub per_file: Vec<FileRow<'a>>,
    /// The costliest directories.
    pub per_directory: Vec<FileRow<'a>>,
    /// The part of the run that the rows of files cover.
    pub coverage: Coverage,
    /// The redundant patterns.
    pub patterns: Vec<(Pattern, &'a FoundPattern)>,
    /// The savings of changes.
    pub what_if: &'a WhatIf,
    /// The origin of the prices.
    pub price_source: &'a str,
    /// Times are estimates from these prices, except those of system calls that are not
    /// [`GateTotal::is_priced`].
    pub is_estimate: bool,
}

/// Calls of one system call.
#[derive(Clone, Debug, Default)]
pub struct GateTotal {
    /// All calls of this system call.
    pub sum: Sum,
    /// Failed calls by error number.
    pub errors: Vec<(Errno, u64)>,
    /// The time is calls × price, not measured.
    pub is_priced: bool,
}

impl GateTotal {
    /// The calls that did not wait. Only their number changes, because the time of waits is not in
    /// the sum.
    pub fn without(&self, waits: &Sum) -> Sum {
        Sum {
            calls: self.sum.calls.saturating_sub(waits.calls),
            errors: self.sum.errors.saturating_sub(waits.errors),
            ..self.sum
        }
    }
}

/// Calls of a program, or of one of its processes.
#[derive(Clone, Debug, Default)]
pub struct ProgramTotal {
    /// The path of the executable.
    pub program: Vec<u8>,
    /// The process id; `None` if the row is for all processes.
    pub pid: Option<u32>,
    /// The number of processes that executed the program.
    pub processes: u64,
    /// The total of the program's calls.
    pub sum: Sum,
    /// The number of these calls that waited; the sum does not include their time.
    pub wait_calls: u64,
    /// The calls of the program by system call.
    pub gates: BTreeMap<&'static str, u64>,
}

/// Calls on a file, or in a directory.
#[derive(Clone, Debug, Default)]
pub struct FileRow<'a> {
    /// The absolute path.
    pub path: &'a [u8],
    /// The number of different files, for a directory.
    pub files: Option<u64>,
    /// The total of the calls.
    pub sum: Sum,
    /// Calls by system call.
    pub gates: BTreeMap<&'static str, u64>,
}

/// The part of the run that was reported individually.
#[derive(Clone, Copy, Debug, Default)]
pub struct Coverage {
    /// The number of reported calls.
    pub calls: u64,
    /// Whether all calls were reported, and there was room for all files.
    pub complete: bool,
    /// The number of different files.
    pub files: u64,
    /// The number of different directories.
    pub directories: u64,
    /// Calls on further files, for which the table of files had no room.
    pub unheld: Sum,
    /// Calls on files without a known name.
    pub nameless: Sum,
    /// Descriptors and threads that could not be tracked.
    pub forgotten: u64,
}

/// The criterion by which calls are grouped, in addition to the tables of files and directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// Calls by program.
    Program,
    /// Calls by process.
    Process,
    /// Calls by directory, cut to a number of path components.
    Directory(Option<usize>),
}

/// The costliest rows of a [`Grouping`], and the total number of rows.
#[derive(Clone, Debug)]
pub enum Groups<'a> {
    /// The rows of programs, which are in [`AccountReport::programs`].
    Program,
    /// Rows of processes, and their total number.
    Process(Vec<ProgramTotal>, u64),
    /// Rows of directories, and their total number.
    Directory(Vec<FileRow<'a>>, u64),
}

impl<'a> AccountReport<'a> {
    /// The account, with at most `rows` files, directories and groups.
    pub fn new(account: &'a CommandAccount, grouping: Grouping, rows: usize) -> AccountReport<'a> {
        let is_estimate = account.is_estimate();
        let CommandAccount {
            metered,
            detail,
            prices,
            what_if,
            priced,
        } = account;
        let directories = detail.directories(None);
        let directory_count = directories.len() as u64;
        let waited = detail.waits.calls(&detail.programs);
        let place = |file: &'a File| FileRow {
            path: &file.name,
            files: None,
            sum: file.sum,
            gates: file.gates(),
        };
        let groups = match grouping {
            Grouping::Program => Groups::Program,
            Grouping::Process => {
                let mut processes = programs(&metered.totals, true, &waited);
                let all = processes.len() as u64;
                processes.truncate(rows);
                Groups::Process(processes, all)
            }
            Grouping::Directory(depth) => {
                let directories = detail.directories(depth);
                let all = directories.len() as u64;
                Groups::Directory(places(directories, rows), all)
            }
        };
        AccountReport {
            metered,
            gates: gates(&metered.totals, priced),
            waits: detail.waits.rows(),
            programs: programs(&metered.totals, false, &waited),
            groups,
            per_file: detail.costliest(rows).into_iter().map(place).collect(),
            per_directory: places(directories, rows),
            coverage: Coverage::new(metered, detail, directory_count),
            patterns: detail.patterns.found().collect(),
            what_if,
            price_source: &prices.source,
            is_estimate,
        }
    }

    /// The number of all calls.
    pub fn calls(&self) -> u64 {
        self.gates.values().map(|gate| gate.sum.calls).sum()
    }

    /// The waits of one system call, such as reads of a pipe.
    pub fn waits_in(&self, gate: &str) -> Sum {
        let mut sum = Sum::default();
        for wait in &self.waits {
            if let Some(waited) = wait.gates.get(gate) {
                sum.join(waited);
            }
        }
        sum
    }

    /// The errors of a system call by number, except in calls that waited; the most frequent first.
    pub fn errors_in(&self, gate: &str) -> Vec<(Errno, u64)> {
        let errors = self.gates.get(gate).map_or(&[][..], |gate| &gate.errors);
        let waited = |errno: Errno| {
            let waits = self.waits.iter();
            let errors = waits.flat_map(|wait| &wait.errors);
            let of_gate = errors.filter(|((name, number), _)| *name == gate && *number == errno.0);
            of_gate.map(|(_, times)| times).sum::<u64>()
        };
        let errors = errors.iter();
        let mut errors: Vec<_> = errors
            .map(|(errno, times)| (*errno, times.saturating_sub(waited(*errno))))
            .filter(|(_, times)| *times > 0)
            .collect();
        errors.sort_by_key(|(errno, times)| (std::cmp::Reverse(*times), errno.name()));
        errors
    }

    /// Whether there were too few calls, or too little time in them, for an estimate of any saving.
    pub fn is_too_short(&self) -> bool {
        ReplacedCalls::new(self.calls(), self.nanos() as f64 / 1e9).is_too_short()
    }

    /// Time of all calls that did not wait, in nanoseconds.
    pub fn nanos(&self) -> u64 {
        self.gates.values().map(|gate| gate.sum.nanos).sum()
    }

    /// The patterns that occurred, costliest first.
    pub fn found_patterns(&self) -> Vec<(Pattern, &'a FoundPattern)> {
        let mut found = self.patterns.clone();
        found.retain(|(_, found)| found.count > 0);
        found.sort_by_key(|(_, found)| std::cmp::Reverse(found.nanos));
        found
    }

    /// The changes that would save or cost something, the largest saving first.
    pub fn effective_changes(&self) -> Vec<&'a WhatIfChange> {
        let changes = self.what_if.changes.iter();
        let mut changes: Vec<_> = changes
            .filter(|change| change.calls != 0 || change.seconds != 0.0)
            .collect();
        changes.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        changes
    }
}

impl Coverage {
    fn new(metered: &Metered, detail: &Detail, directories: u64) -> Coverage {
        let all: u64 = metered.totals.iter().map(|total| total.calls).sum();
        let calls = detail.work.calls();
        Coverage {
            calls,
            complete: calls >= all
                && detail.unheld.calls == 0
                && detail.forgotten == 0
                && metered.lost == 0,
            files: detail.files.len() as u64,
            directories,
            unheld: detail.unheld,
            nameless: detail.nameless,
            forgotten: detail.forgotten,
        }
    }
}

/// Report rows of the costliest directories.
fn places<'a>(directories: Vec<Directory<'a>>, rows: usize) -> Vec<FileRow<'a>> {
    let place = |directory: &Directory<'a>| FileRow {
        path: directory.name,
        files: Some(directory.files),
        sum: directory.sum,
        gates: directory.gates(),
    };
    let directories = costliest(directories, rows, |one| (one.sum.nanos, one.name));
    directories.iter().map(place).collect()
}

/// The nonempty totals of known system calls, with their names.
fn named(totals: &[Total]) -> impl Iterator<Item = (&'static str, &Total)> {
    let totals = totals.iter().filter(|total| total.calls > 0);
    totals.filter_map(|total| Some((syscalls::by_number(total.number)?.name, total)))
}

fn gates(totals: &[Total], priced: &BTreeSet<u32>) -> BTreeMap<&'static str, GateTotal> {
    let mut gates: BTreeMap<&'static str, GateTotal> = BTreeMap::new();
    for (name, total) in named(totals) {
        let gate = gates.entry(name).or_default();
        gate.sum.join(&Sum::from(total));
        gate.is_priced = priced.contains(&total.number);
        for &(errno, times) in &total.errors {
            let known = gate.errors.iter_mut().find(|(known, _)| known.0 == errno);
            match known {
                Some((_, sum)) => *sum += times,
                None => gate.errors.push((Errno(errno), times)),
            }
        }
    }
    gates
}

/// The number of calls that waited, by system call number, process and program.
type WaitedCalls<'a> = HashMap<(u32, u32, &'a [u8]), u64>;

/// Sums by program, or by program and process; the costliest first.
fn programs(totals: &[Total], by_process: bool, waited: &WaitedCalls<'_>) -> Vec<ProgramTotal> {
    let mut rows = BTreeMap::<(&[u8], u32), (BTreeSet<u32>, ProgramTotal)>::new();
    for (name, total) in named(totals) {
        let key = (&total.program[..], if by_process { total.pid } else { 0 });
        let (pids, row) = rows.entry(key).or_default();
        pids.insert(total.pid);
        row.sum.join(&Sum::from(total));
        let waited = waited.get(&(total.number, total.pid, &total.program[..]));
        row.wait_calls += waited.map_or(0, |waited| total.calls.min(*waited));
        *row.gates.entry(name).or_default() += total.calls;
    }
    let mut rows: Vec<ProgramTotal> = rows
        .into_iter()
        .map(|((program, pid), (pids, row))| ProgramTotal {
            program: program.to_vec(),
            pid: by_process.then_some(pid),
            processes: pids.len() as u64,
            ..row
        })
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse((row.sum.nanos, row.sum.calls)));
    rows
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
        let priced = BTreeSet::from([totals[0].number]);
        let gates = gates(&totals, &priced);
        assert!(gates["openat"].is_priced && !gates["close"].is_priced);
        let open = &gates["openat"];
        assert_eq!((open.sum.calls, open.sum.errors), (4, 3));
        assert_eq!(open.sum.nanos, 4_000);
        assert_eq!(open.errors, [(Errno::ENOENT, 2), (Errno::EACCES, 1)]);
        let rows = |each| {
            let waited = WaitedCalls::from([(
                (syscalls::by_name("close").unwrap().number, 2, &b"/b"[..]),
                4,
            )]);
            let rows = programs(&totals, each, &waited);
            for row in &rows {
                let expected = if row.program == b"/b" { 4 } else { 0 };
                assert_eq!(row.wait_calls, expected, "{row:?}");
            }
            let row = |row: ProgramTotal| {
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
}
