//! The tables of the Multics memo of 1974 for a dump: its CPU time by function, the cost of each
//! system call, and the cost of other gathering methods.
//!
//! The purpose of a call follows from the current activity of the dump. While the dump gathers
//! metadata, every call is for information. While the dump reads files, open and close are for
//! effect, and queries of metadata are for information. While the dump writes the catalog, write,
//! fsync and linkat are for effect. A call that lists a directory is charged to the directory, and
//! a call on an entry to the entry; a call for many entries is shared among all entries.

use std::time::Duration;

use archive::account::{GatherCost, Unavailable};
use archive::gather::Gather;
use gate::attribution::CallCharge;
use gate::attribution::{Attribution, Function, Line};

use crate::gates::{Gate, PerKind};
use crate::model::{CallReplacement, Cost, GateSet, KeptWork, Proposal, predict};

/// The three tables of a dump.
#[derive(Clone, Debug)]
pub struct DumpAccount {
    /// The number of directories whose metadata was gathered.
    pub directories: u64,
    /// The number of other entries whose metadata was gathered.
    pub files: u64,
    /// CPU time of the dump, without the metering.
    pub cpu: Duration,
    /// CPU time of the metering.
    pub metering: Duration,
    /// The CPU time by function.
    pub functions: [FunctionShare; Function::ALL.len()],
    /// The cost of each system call.
    pub gates: Vec<GateUse>,
    /// The fixed price of a call, in milliseconds.
    pub fixed_ms: f64,
    /// The cheapest system call, whose price is the fixed price.
    pub cheapest: &'static str,
    /// The gathering methods, each with its predicted and its measured cost.
    pub options: Vec<GatherOption>,
}

/// A row of the memo's first table: the CPU time of a function.
#[derive(Clone, Copy, Debug)]
pub struct FunctionShare {
    /// The function that the time was spent on.
    pub function: Function,
    /// CPU time of the function.
    pub cpu: Duration,
    /// The share of the total in percent, to a tenth: shares add up to 100.
    pub percent: f64,
}

/// A row of the memo's table of system calls.
#[derive(Clone, Copy, Debug)]
pub struct GateUse {
    /// The system call of this row.
    pub gate: gate::Gate,
    /// The purpose of the calls: for information, for effect, and so on.
    pub function: Function,
    /// The number of calls.
    pub calls: u64,
    /// CPU milliseconds per call.
    pub ms: f64,
    /// The number of calls per directory and per file.
    pub each: PerKind<f64>,
}

/// The calls for one directory or file, and their time in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct DumpCost {
    /// The number of calls.
    pub calls: f64,
    /// The time of the calls.
    pub cost: Cost,
}

/// The measured cost of a gathering method.
#[derive(Clone, Copy, Debug)]
pub struct MeasuredGathering {
    /// Cost of the system calls that gather metadata, per directory and per file.
    pub each: PerKind<DumpCost>,
    /// The total number of system calls that gather metadata.
    pub calls: u64,
    /// CPU time in system calls that gather metadata.
    pub gates: Duration,
    /// CPU time in user mode, outside of the system calls that gather metadata.
    pub own: Duration,
}

/// A gathering method: its predicted and its measured cost.
#[derive(Clone, Debug)]
pub struct GatherOption {
    /// The name of the gathering method.
    pub name: &'static str,
    /// The cost that the model predicts from this run's figures.
    pub predicted: PerKind<DumpCost>,
    /// The measured cost; `None` where the method is unavailable.
    pub measured: Option<MeasuredGathering>,
    /// Why the method is unavailable.
    pub reason: Option<Unavailable>,
}

/// The calls that list a directory: openat2, two getdents64 (the second finds the end) and close.
const LISTING: (&str, PerKind<f64>) = ("listing", PerKind::new(4.0, 0.0));

/// A gathering method, the calls that it makes instead of all that ask for metadata, and the useful
/// work that remains.
type Way = (Gather, &'static [(&'static str, PerKind<f64>)], KeptWork);

const WAYS: [Way; 4] = [
    (
        Gather::PerCall,
        &[
            LISTING,
            ("statx", PerKind::new(13.0, 13.0)),
            ("xattr", PerKind::new(3.0, 3.0)),
        ],
        KeptWork::All,
    ),
    (
        Gather::Combined,
        &[LISTING, ("statx", PerKind::new(1.0, 1.0))],
        KeptWork::All,
    ),
    (
        Gather::Batched,
        &[LISTING, ("batch", PerKind::new(0.01, 0.01))],
        KeptWork::All,
    ),
    (
        Gather::Raw,
        &[("pread64", PerKind::new(0.01, 0.001))],
        KeptWork::Entries,
    ),
];

/// The measured cost of each gathering method on the same tree, or why it is unavailable.
pub type GatherCosts = [(Gather, Result<GatherCost, Unavailable>)];

impl DumpAccount {
    /// The tables for a dump, from the attribution of its calls and CPU time, and from the costs of
    /// all gathering methods on the same tree (`ways`).
    pub fn new(
        charged: &Attribution,
        directories: u64,
        files: u64,
        ways: &GatherCosts,
    ) -> DumpAccount {
        let entries = EntryCounts { directories, files };
        let lines: Vec<(Function, &Line)> = charged
            .lines
            .iter()
            .map(|line| (purpose(line), line))
            .collect();
        let (cheapest, fixed_ms) =
            find_cheapest(&charged.lines, ways, &entries).unwrap_or(("none", 0.0));
        let asked: Vec<Gate> = information(&charged.lines)
            .map(|line| entries.gate(line))
            .collect();
        let option = |way: &Way| {
            let took = ways.iter().find(|(gather, _)| *gather == way.0);
            gather_option(&asked, fixed_ms, way, took.map(|(_, took)| took))
        };
        DumpAccount {
            directories,
            files,
            cpu: charged.cpu.iter().sum(),
            metering: charged.metering,
            functions: shares(split_by_function(charged, &lines)),
            gates: lines
                .iter()
                .map(|(function, line)| entries.gate_use(*function, line))
                .collect(),
            fixed_ms,
            cheapest,
            options: WAYS.iter().map(option).collect(),
        }
    }
}

/// The CPU time by function, in the order of the memo's table.
fn split_by_function(
    charged: &Attribution,
    lines: &[(Function, &Line)],
) -> [(Function, Duration); Function::ALL.len()] {
    use Function::{Copy, Effect, Information, Map, Other, Write};
    let in_gates = |wanted: Function| -> Duration {
        let wanted = lines.iter().filter(|(function, _)| *function == wanted);
        wanted.map(|(_, line)| sum(line).cpu).sum()
    };
    // Open, close and stat of a file that is read count as information or effect, so their time is
    // subtracted from that of copying.
    let elsewhere: Duration = lines
        .iter()
        .filter(|(function, line)| line.function == Copy && *function != Copy)
        .map(|(_, line)| sum(line).cpu)
        .sum();
    let cpu = |function: Function| charged.cpu[function as usize];
    let rows = [
        (Copy, cpu(Copy).saturating_sub(elsewhere)),
        (Write, cpu(Write)),
        (Map, cpu(Map)),
        (Information, in_gates(Information)),
        (Effect, in_gates(Effect)),
    ];
    let total: Duration = charged.cpu.iter().sum();
    let other = rows
        .iter()
        .fold(total, |left, (_, part)| left.saturating_sub(*part));
    let [copy, write, map, information, effect] = rows;
    [copy, write, map, information, effect, (Other, other)]
}

/// Converts times to percents, to a tenth, that add up to 100. If all times are 0, the last row
/// gets 100.
fn shares<const N: usize>(rows: [(Function, Duration); N]) -> [FunctionShare; N] {
    const ALL: f64 = 1000.0; // tenths of a percent
    let total: f64 = rows.iter().map(|(_, cpu)| cpu.as_secs_f64()).sum();
    let exact = rows.map(|(_, cpu)| (ALL * cpu.as_secs_f64() / total).max(0.0));
    let mut tenths = exact.map(f64::floor);
    if total > 0.0 {
        // Give the remainder of rounding down to the rows with the largest rounding error.
        let mut by_loss: [usize; N] = std::array::from_fn(|row| row);
        by_loss.sort_by(|&a, &b| {
            let loss = |row: usize| exact[row] - tenths[row];
            loss(b).total_cmp(&loss(a)).then(a.cmp(&b))
        });
        let left = ALL - tenths.iter().sum::<f64>();
        for row in by_loss.into_iter().take(left as usize) {
            tenths[row] += 1.0;
        }
    } else if let Some(last) = tenths.last_mut() {
        *last = ALL;
    }
    std::array::from_fn(|row| {
        let ((function, cpu), percent) = (rows[row], tenths[row] / 10.0);
        FunctionShare {
            function,
            cpu,
            percent,
        }
    })
}

/// The purpose of a call. While the dump reads files or writes the catalog, the purpose depends on
/// the system call.
fn purpose(line: &Line) -> Function {
    use gate::Gate as G;
    match (line.function, line.gate) {
        (Function::Copy, G::Openat | G::Openat2 | G::Close) => Function::Effect,
        (Function::Copy, G::Read | G::Pread64 | G::Lseek | G::Fadvise64) => Function::Copy,
        (Function::Copy, _) => Function::Information,
        (
            Function::Other,
            G::Write
            | G::SyncFileRange
            | G::Fsync
            | G::Linkat
            | G::Renameat2
            | G::Unlinkat
            | G::Ftruncate,
        ) => Function::Effect,
        (function, _) => function,
    }
}

fn sum(line: &Line) -> CallCharge {
    let parts = [line.all, line.directory, line.file];
    CallCharge {
        calls: parts.iter().map(|part| part.calls).sum(),
        cpu: parts.iter().map(|part| part.cpu).sum(),
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn information(lines: &[Line]) -> impl Iterator<Item = &Line> {
    lines
        .iter()
        .filter(|line| line.function == Function::Information)
}

/// The numbers of directories and of other entries.
struct EntryCounts {
    directories: u64,
    files: u64,
}

impl EntryCounts {
    /// The amount per directory and per file, such as calls or time; the amount of calls for all
    /// entries is shared equally.
    fn each(&self, line: &Line, amount: impl Fn(&CallCharge) -> f64) -> PerKind<f64> {
        use gate::Gate as G;
        if line.function == Function::Information
            && matches!(line.gate, G::Openat | G::Openat2 | G::Getdents64 | G::Close)
        {
            let dir = amount(&sum(line)) / self.directories.max(1) as f64;
            return PerKind { dir, file: 0.0 };
        }
        let shared = amount(&line.all) / (self.directories + self.files).max(1) as f64;
        PerKind {
            dir: amount(&line.directory) / self.directories.max(1) as f64 + shared,
            file: amount(&line.file) / self.files.max(1) as f64
                + if self.files > 0 { shared } else { 0.0 },
        }
    }

    fn gate(&self, line: &Line) -> Gate {
        let all = sum(line);
        Gate {
            name: line.gate.name().to_owned(),
            ms: ms(all.cpu) / all.calls.max(1) as f64,
            calls: self.each(line, |charge| charge.calls as f64),
            for_effect: false,
        }
    }

    fn gate_use(&self, function: Function, line: &Line) -> GateUse {
        let Gate { ms, calls, .. } = self.gate(line);
        GateUse {
            gate: line.gate,
            function,
            calls: sum(line).calls,
            ms,
            each: calls,
        }
    }

    /// The cost of system calls that gather metadata.
    fn figures(&self, lines: &[Line], fixed_ms: f64) -> PerKind<DumpCost> {
        let mut figures = PerKind::<DumpCost>::default();
        let add = |figure: &mut DumpCost, calls: f64, cpu: f64| {
            let overhead = (calls * fixed_ms).min(cpu);
            figure.calls += calls;
            figure.cost.overhead += overhead;
            figure.cost.useful += cpu - overhead;
        };
        for line in lines {
            let calls = self.each(line, |charge| charge.calls as f64);
            let cpu = self.each(line, |charge| ms(charge.cpu));
            add(&mut figures.dir, calls.dir, cpu.dir);
            add(&mut figures.file, calls.file, cpu.file);
        }
        figures
    }
}

/// The name and price of the cheapest system call that any gathering method makes for more than
/// every hundredth entry. close(2) does not count: it is cheaper, but gives no price for a call by
/// name.
fn find_cheapest(
    lines: &[Line],
    ways: &GatherCosts,
    entries: &EntryCounts,
) -> Option<(&'static str, f64)> {
    let there = ways
        .iter()
        .filter_map(|(_, took)| took.as_ref().ok())
        .flat_map(|took| &took.lines);
    let is_asked = |line: &&Line| {
        line.gate != gate::Gate::Close
            && sum(line).calls * 100 > entries.directories + entries.files
    };
    information(lines)
        .chain(there)
        .filter(is_asked)
        .map(|line| (line.gate.name(), entries.gate(line).ms))
        .min_by(|a, b| a.1.total_cmp(&b.1))
}

/// A gathering method, with its predicted and its measured cost.
fn gather_option(
    asked: &[Gate],
    fixed_ms: f64,
    &(gather, by, keeps): &Way,
    took: Option<&Result<GatherCost, Unavailable>>,
) -> GatherOption {
    let figure = |cost: Cost| DumpCost {
        calls: if fixed_ms > 0.0 {
            cost.overhead / fixed_ms
        } else {
            0.0
        },
        cost,
    };
    let gates = GateSet::All;
    let swaps = &[CallReplacement { gates, by }];
    let predicted = predict(asked, fixed_ms, &Proposal { swaps, keeps }).unwrap_or_default();
    let measured = took.and_then(|took| took.as_ref().ok()).map(|took| {
        let entries = EntryCounts {
            directories: took.directories,
            files: took.files,
        };
        let all: Vec<CallCharge> = took.lines.iter().map(sum).collect();
        MeasuredGathering {
            each: entries.figures(&took.lines, fixed_ms),
            calls: all.iter().map(|charge| charge.calls).sum(),
            gates: all.iter().map(|charge| charge.cpu).sum(),
            own: took.own,
        }
    });
    GatherOption {
        name: gather.name(),
        predicted: predicted.map(figure),
        measured,
        reason: took.and_then(|took| took.as_ref().err()).cloned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn shares_add_up_to_100(nanos in proptest::array::uniform6(1..u64::MAX / 10)) {
            let rows = nanos.map(|nanos| (Function::Other, Duration::from_nanos(nanos)));
            let tenths: f64 = shares(rows).iter().map(|row| (row.percent * 10.0).round()).sum();
            prop_assert_eq!(tenths, 1000.0);
        }
    }

    #[test]
    fn of_nothing_the_last_has_all() {
        let rows = [Function::Copy, Function::Other].map(|row| (row, Duration::ZERO));
        assert_eq!(shares(rows).map(|row| row.percent), [0.0, 100.0]);
    }
}
