//! The memo's tables for a run: from what was booked to what is shown.
//!
//! What a call is for follows from what was being done: in gathering, everything is asked for
//! information; where files are read, their opening and closing is for effect, what is asked of
//! them for information; where the catalog is written, so are its write, its fsync and its linkat
//! for effect. For whom: what lists a directory is for it, what is asked of an entry for that; a
//! call that asks for many is shared among all.

use std::time::Duration;

use account::{Asked, Gate, Keeps, Per, Proposal, Swap, predict};
use archive::account::{Took, Unavailable};
use archive::attribution::{Attribution, Function, Line};
use archive::gather::Gather;
use gate::attribution::Charge;
use report::account::{Account, Figure, Figures, Measured, Way};

use super::run::shown_cost;

/// Charge for a directory, and for a file.
const fn calls(dir: f64, file: f64) -> Per<f64> {
    Per { dir, file }
}

/// What each way of gathering asks, by its design: openat2, getdents64 (the last of them says that
/// there is no more) and close of a directory, and what is asked of each entry.
const LISTING: (&str, Per<f64>) = ("listing", calls(4.0, 0.0));
const WAYS: [(Gather, Proposal); 4] = [
    (
        Gather::PerCall,
        Proposal {
            name: "percall",
            swaps: &[Swap {
                gates: Asked::All,
                by: &[
                    LISTING,
                    ("statx", calls(13.0, 13.0)),
                    ("xattr", calls(3.0, 3.0)),
                ],
            }],
            keeps: Keeps::All,
        },
    ),
    (
        Gather::Combined,
        Proposal {
            name: "combined",
            swaps: &[Swap {
                gates: Asked::All,
                by: &[LISTING, ("statx", calls(1.0, 1.0))],
            }],
            keeps: Keeps::All,
        },
    ),
    (
        Gather::Batched,
        Proposal {
            name: "batched",
            swaps: &[Swap {
                gates: Asked::All,
                by: &[LISTING, ("batch", calls(0.01, 0.01))],
            }],
            keeps: Keeps::All,
        },
    ),
    (
        Gather::Raw,
        Proposal {
            name: "raw",
            swaps: &[Swap {
                gates: Asked::All,
                by: &[("pread64", calls(0.01, 0.001))],
            }],
            keeps: Keeps::Entries,
        },
    ),
];

/// The memo's tables for a run: its books, and what each way of gathering took on the same tree, or
/// why it did not.
pub(crate) fn of_run(
    books: &Attribution,
    directories: u64,
    files: u64,
    ways: &[(Gather, Result<Took, Unavailable>)],
) -> Account {
    let seen = Seen { directories, files };
    let lines: Vec<(Function, &Line)> = books
        .lines
        .iter()
        .map(|line| (purpose(line), line))
        .collect();
    let in_gates = |wanted: Function| -> Duration {
        lines
            .iter()
            .filter(|(function, _)| *function == wanted)
            .map(|(_, line)| sum(line).cpu)
            .sum()
    };
    let total: Duration = books.cpu.iter().sum();
    // Of a file that is read, what is asked of it, its opening and its closing are in rows of their
    // own.
    let moved: Duration = lines
        .iter()
        .filter(|(function, line)| line.function == Function::Copy && *function != Function::Copy)
        .map(|(_, line)| sum(line).cpu)
        .sum();
    let copy = books.cpu[Function::Copy as usize].saturating_sub(moved);
    let (write, map) = (
        books.cpu[Function::Write as usize],
        books.cpu[Function::Map as usize],
    );
    let (information, effect) = (in_gates(Function::Information), in_gates(Function::Effect));
    let other = [copy, write, map, information, effect]
        .iter()
        .fold(total, |left, part| left.saturating_sub(*part));
    let rows = [
        (COPY, copy),
        (WRITE, write),
        (MAP, map),
        (INFORMATION, information),
        (EFFECT, effect),
        (OTHER, other),
    ];
    let (cheapest, fixed_ms) = cheapest(&books.lines, ways, &seen).unwrap_or(("none", 0.0));
    let asked: Vec<Gate> = books
        .lines
        .iter()
        .filter(|line| line.function == Function::Information)
        .map(|line| seen.gate(line))
        .collect();
    Account {
        directories,
        files,
        seconds: total.as_secs_f64(),
        metering_seconds: books.metering.as_secs_f64(),
        functions: report::account::functions(&rows.map(|(name, time)| (name, time.as_secs_f64()))),
        gates: lines
            .iter()
            .map(|(function, line)| seen.row(*function, line))
            .collect(),
        fixed_ms,
        cheapest,
        options: WAYS
            .iter()
            .map(|(gather, proposal)| {
                let took = ways
                    .iter()
                    .find(|(way, _)| way == gather)
                    .map(|(_, took)| took);
                way(&asked, fixed_ms, proposal, took)
            })
            .collect(),
    }
}

const COPY: &str = "copy files";
const WRITE: &str = "write archive";
const MAP: &str = "write map";
const INFORMATION: &str = "gate calls for information";
const EFFECT: &str = "gate calls for effect";
const OTHER: &str = "other";

/// What a call is for: where files are read, it depends on the gate.
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
            | G::Fdatasync
            | G::Linkat
            | G::Renameat2
            | G::Unlinkat
            | G::Ftruncate,
        ) => Function::Effect,
        (function, _) => function,
    }
}

fn sum(line: &Line) -> Charge {
    let parts = [line.all, line.directory, line.file];
    Charge {
        calls: parts.iter().map(|part| part.calls).sum(),
        cpu: parts.iter().map(|part| part.cpu).sum(),
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// How many there are of each kind.
struct Seen {
    directories: u64,
    files: u64,
}

impl Seen {
    /// For a directory, and for a file; what is for all is shared among all alike.
    fn each(&self, line: &Line, of: impl Fn(&Charge) -> f64) -> Per<f64> {
        use gate::Gate as G;
        if line.function == Function::Information
            && matches!(line.gate, G::Openat | G::Openat2 | G::Getdents64 | G::Close)
        {
            return Per {
                dir: of(&sum(line)) / self.directories.max(1) as f64,
                file: 0.0,
            };
        }
        let shared = of(&line.all) / (self.directories + self.files).max(1) as f64;
        Per {
            dir: of(&line.directory) / self.directories.max(1) as f64 + shared,
            file: of(&line.file) / self.files.max(1) as f64
                + if self.files > 0 { shared } else { 0.0 },
        }
    }

    fn gate(&self, line: &Line) -> Gate {
        let all = sum(line);
        Gate {
            name: line.gate.name().to_owned(),
            ms: ms(all.cpu) / all.calls.max(1) as f64,
            calls: self.each(line, |calls| calls.calls as f64),
            for_effect: false,
        }
    }

    fn row(&self, function: Function, line: &Line) -> report::account::Gate {
        let Gate { ms, calls, .. } = self.gate(line);
        let name = match function {
            Function::Copy => COPY,
            Function::Write => WRITE,
            Function::Map => MAP,
            Function::Information => INFORMATION,
            Function::Effect => EFFECT,
            Function::Other => OTHER,
        };
        report::account::Gate {
            gate: line.gate.name(),
            function: name,
            for_effect: function == Function::Effect,
            calls: sum(line).calls,
            ms_per_call: ms,
            calls_per_dir: calls.dir,
            calls_per_file: calls.file,
        }
    }

    /// What calls for information took.
    fn figures(&self, lines: &[Line], fixed_ms: f64) -> Figures {
        let mut figures = [Figure::default(); 2];
        for line in lines {
            let (calls, cpu) = (
                self.each(line, |calls| calls.calls as f64),
                self.each(line, |calls| ms(calls.cpu)),
            );
            for (figure, (calls, cpu)) in figures
                .iter_mut()
                .zip([(calls.dir, cpu.dir), (calls.file, cpu.file)])
            {
                let overhead = (calls * fixed_ms).min(cpu);
                figure.calls += calls;
                figure.cost.overhead += overhead;
                figure.cost.useful += cpu - overhead;
            }
        }
        let [dir, file] = figures;
        Figures { dir, file }
    }
}

/// The cheapest gate that gathering asks something of for every hundredth entry at least, here or
/// in any of the ways; and its price. What is asked of a file that is open already is cheaper, and
/// no price for what is asked by name.
fn cheapest(
    lines: &[Line],
    ways: &[(Gather, Result<Took, Unavailable>)],
    seen: &Seen,
) -> Option<(&'static str, f64)> {
    let here = lines
        .iter()
        .filter(|line| line.function == Function::Information);
    let there = ways
        .iter()
        .filter_map(|(_, took)| took.as_ref().ok())
        .flat_map(|took| &took.lines);
    here.chain(there)
        .filter(|line| {
            line.gate != gate::Gate::Close && sum(line).calls * 100 > seen.directories + seen.files
        })
        .map(|line| (line.gate.name(), seen.gate(line).ms))
        .min_by(|a, b| a.1.total_cmp(&b.1))
}

/// An option, predicted and measured.
fn way(
    asked: &[Gate],
    fixed_ms: f64,
    proposal: &Proposal,
    took: Option<&Result<Took, Unavailable>>,
) -> Way {
    let figure = |cost: account::Cost| Figure {
        calls: if fixed_ms > 0.0 {
            cost.overhead / fixed_ms
        } else {
            0.0
        },
        cost: shown_cost(cost),
    };
    let predicted = predict(asked, fixed_ms, proposal).unwrap_or_default();
    let measured = took.and_then(|took| took.as_ref().ok()).map(|took| {
        let seen = Seen {
            directories: took.directories,
            files: took.files,
        };
        let all: Vec<Charge> = took.lines.iter().map(sum).collect();
        Measured {
            figures: seen.figures(&took.lines, fixed_ms),
            calls: all.iter().map(|calls| calls.calls).sum(),
            gates_seconds: all.iter().map(|calls| calls.cpu.as_secs_f64()).sum(),
            own_seconds: took.own.as_secs_f64(),
        }
    });
    Way {
        name: proposal.name,
        predicted: Figures {
            dir: figure(predicted.dir),
            file: figure(predicted.file),
        },
        measured,
        why: took.and_then(|took| Some(took.as_ref().err()?.to_string())),
    }
}
