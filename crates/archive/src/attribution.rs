//! Charges the calls and the CPU time of a dump as the Multics memo of 1974 does: by [`Function`],
//! by gate, and for directories or for files.

use std::time::Duration;

use gate::Gate;
pub use gate::attribution::start;
use gate::attribution::{self, Activity, Charge};
use walk::attribution::Subject;

/// What a call is for: the rows of the memo's first table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Function {
    /// None of the others.
    Other,
    /// Reading metadata of entries.
    Information,
    /// Calls for their effect: opening a file to read it, closing it, giving an archive its name.
    Effect,
    /// Reading the contents of files.
    Copy,
    /// Writing the archive.
    Write,
    /// Writing the list of what was dumped.
    Map,
}

impl Function {
    /// Every function, in the order of the enum.
    pub const ALL: [Function; 6] = [
        Function::Other,
        Function::Information,
        Function::Effect,
        Function::Copy,
        Function::Write,
        Function::Map,
    ];
}

impl From<Function> for Activity {
    fn from(function: Function) -> Self {
        Activity::new(function as u8)
    }
}

/// The calls of one gate for one function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line {
    /// The gate.
    pub gate: Gate,
    /// The function.
    pub function: Function,
    /// Calls for all entries alike.
    pub all: Charge,
    /// Calls for directories.
    pub directory: Charge,
    /// Calls for files.
    pub file: Charge,
}

/// The calls and the CPU time of a run.
#[derive(Clone, Debug)]
pub struct Attribution {
    /// CPU time by function, in the order of [`Function::ALL`], without the metering.
    pub cpu: [Duration; Function::ALL.len()],
    /// CPU time of the metering.
    pub metering: Duration,
    /// The calls, by function and gate.
    pub lines: Vec<Line>,
}

/// Ends what [`start`] began and returns what was charged.
pub fn stop() -> Attribution {
    let charged = attribution::stop();
    let line = |function: Function, gate: Gate| {
        let charge = |subject: Subject| charged.charge(gate, function.into(), subject.into());
        Line {
            gate,
            function,
            all: charge(Subject::All),
            directory: charge(Subject::Directory),
            file: charge(Subject::File),
        }
    };
    let lines = Function::ALL
        .into_iter()
        .flat_map(|function| Gate::ALL.iter().map(move |&gate| (function, gate)))
        .map(|(function, gate)| line(function, gate))
        .filter(|line| line.all.calls + line.directory.calls + line.file.calls > 0)
        .collect();
    Attribution {
        cpu: Function::ALL.map(|function| charged.cpu(function.into())),
        metering: charged.overhead,
        lines,
    }
}

/// Sets the function of every thread that has none of its own.
pub fn set_phase(function: Function) {
    attribution::set_phase(function.into());
}

/// Does some work as a function of this thread.
#[inline]
pub fn with_function<T>(function: Function, work: impl FnOnce() -> T) -> T {
    attribution::with_activity(function.into(), work)
}
