//! What a meter tells: one call, what becomes of processes, and the sum of it all.

use std::ffi::CString;
use std::fmt;
use std::time::Duration;

use gate::Errno;

use crate::error::{CommandError, Error, Refusal, Refusals, Unavailable, WarningKind};

/// Bytes of a name that are told; what is longer is cut (the kernel takes no more than this, and a
/// NUL).
pub const LONGEST_NAME: usize = 4095;

/// One call through the gate that a metered process made, told when it has returned, or when its
/// caller has ended in it.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The process, as the PID namespace of the metering process knows it.
    pub pid: u32,
    /// The thread, likewise; that of the main thread is `pid`.
    pub tid: u32,
    /// The number of the system call: [`crate::syscalls::by_number`] knows it.
    pub number: u32,
    /// Its arguments, as they were at the entry; 0 for those that the meter has not. It has those
    /// that are descriptors or flags.
    pub args: [u64; 6],
    /// What its first path argument pointed to at the entry: the bytes up to the NUL, at most
    /// [`LONGEST_NAME`] of them. `None` when it has no path argument, or when that cannot be read
    /// (a bad or a null pointer).
    pub name: Option<&'a [u8]>,
    /// The same of its second path argument.
    pub other: Option<&'a [u8]>,
    /// What it answered: 0 or more, or minus the error number (minus 512 and the like for a call
    /// that a signal has cut short and that begins again, as strace shows it). `None` when it never
    /// returned: its thread ended in it.
    pub result: Option<i64>,
    /// When it was entered, in nanoseconds of `CLOCK_MONOTONIC`.
    pub start: u64,
    /// Nanoseconds from the entry to the return; 0 when it never returned.
    pub nanos: u64,
}

impl Call<'_> {
    /// The error number, when it failed.
    pub fn errno(&self) -> Option<i32> {
        self.result
            .filter(|result| (-4095..0).contains(result))
            .map(|result| -result as i32)
    }
}

/// A process or a thread that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fork {
    /// The process that made it.
    pub parent: u32,
    /// The process that it belongs to: `parent` for a thread, else its own.
    pub pid: u32,
    /// Its thread id; `pid`, unless it is a thread.
    pub tid: u32,
    /// It has one table of descriptors with its maker (`CLONE_FILES`), and not a copy.
    pub shares_files: bool,
    /// It has one working directory and root with its maker (`CLONE_FS`), and not a copy.
    pub shares_fs: bool,
}

/// What a meter tells as it happens; for each process in the order in which it happened, as far as
/// the meter knows it.
pub trait Listener {
    /// A call has returned, or its thread has ended in it.
    fn call(&mut self, _call: &Call<'_>) {}
    /// A process or thread begins.
    fn fork(&mut self, _fork: &Fork) {}
    /// A process runs another program from now on, which has closed what was to be closed; its
    /// other threads are no more.
    fn exec(&mut self, _pid: u32, _program: &[u8]) {}
    /// A thread has ended; of a process the last word is that of `tid == pid`, as a rule.
    fn exit(&mut self, _pid: u32, _tid: u32) {}
}

/// Nobody.
impl Listener for () {}

/// How much is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// The totals only.
    Totals,
    /// Besides, so many calls one by one, with their names; afterwards the totals only. `u64::MAX`
    /// is all of them.
    Detail {
        /// The number of calls.
        calls: u64,
    },
}

impl Want {
    /// How many calls are to be told.
    pub fn calls(self) -> u64 {
        match self {
            Want::Totals => 0,
            Want::Detail { calls } => calls,
        }
    }
}

/// The command that is metered. It has the environment, descriptors, terminal and process group of
/// the metering process.
#[derive(Clone, Debug)]
pub struct Command {
    /// The program's file, found already: what execve(2) is given.
    pub program: CString,
    /// Its arguments, beginning with its name as it was asked for.
    pub args: Vec<CString>,
}

impl Command {
    /// execve(2) has refused to run it.
    pub(crate) fn not_executed(&self, errno: Errno) -> Error {
        let program = self.program.clone();
        CommandError::NotExecuted { program, errno }.into()
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With this exit status.
    Exited(i32),
    /// By this signal.
    Killed(i32),
}

impl From<&gate::process::Ended> for Ended {
    fn from(ended: &gate::process::Ended) -> Ended {
        match ended.signal {
            Some(signal) => Ended::Killed(signal),
            None => Ended::Exited(ended.status.unwrap_or_default()),
        }
    }
}

impl Ended {
    /// The exit status that passes it on, as a shell does: 128 and the signal.
    pub fn status(self) -> i32 {
        match self {
            Ended::Exited(status) => status,
            Ended::Killed(signal) => 128 + signal,
        }
    }
}

/// Calls of one kind that a process made while it ran one program.
#[derive(Clone, Debug, PartialEq)]
pub struct Total {
    /// The file of the program: an absolute name, as far as it is known. Before the first execve
    /// has succeeded: the name that it was given.
    pub program: Vec<u8>,
    /// The process; 0 when it is several that ran this program, for which there was no room one by
    /// one.
    pub pid: u32,
    /// The number of the system call.
    pub number: u32,
    /// How often it returned: what `strace -c` counts. An execve that succeeds returns in the
    /// program that it begins.
    pub calls: u64,
    /// Time between entry and return, all together, in nanoseconds.
    pub nanos: u64,
    /// How often it failed, by error number.
    pub errors: Vec<(i32, u64)>,
}

/// Why a meter was used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// It was asked for by name.
    Requested,
    /// It reports every call one by one, and loses none.
    Exact,
    /// It is the cheapest that works here. These were tried before it.
    Cheapest(Vec<Refusal>),
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Choice::Requested => f.write_str("it was asked for"),
            Choice::Exact => f.write_str("it tells of every call"),
            Choice::Cheapest(refused) if refused.is_empty() => {
                f.write_str("it is the cheapest, and works here")
            }
            Choice::Cheapest(refused) => {
                write!(f, "the cheapest that works here ({})", Refusals(refused))
            }
        }
    }
}

/// A run that has been metered.
#[derive(Clone, Debug)]
pub struct Metered {
    /// The name of the meter that did it.
    pub meter: &'static str,
    /// Whether it sees what the path arguments of calls point to.
    pub sees_names: bool,
    /// Why this meter.
    pub choice: Choice,
    /// What was not seen, and what could not be held.
    pub warnings: Vec<WarningKind>,
    /// All calls, in no order; each (program, pid, number) once.
    pub totals: Vec<Total>,
    /// Calls that were told one by one.
    pub reported: u64,
    /// Calls in which their thread ended: they never returned, and are not in the totals (nor does
    /// `strace -c` count them).
    pub unfinished: u64,
    /// Calls that were made and are neither told nor in the totals, as far as is known.
    pub lost: u64,
    /// Time that metering took from the metered processes, all together, as far as the meter knows.
    pub overhead: Duration,
    /// How the command itself ended.
    pub ended: Ended,
    /// From the command's start to the end of the last metered process.
    pub real: Duration,
    /// CPU time of the metered processes, in the programs. What a meter makes the kernel do for
    /// them may be in `sys`; ptrace, which stops them at each call, takes it off.
    pub user: Duration,
    /// CPU time of the metered processes in the kernel.
    pub sys: Duration,
}

impl Metered {
    /// Why this meter was used, and what it lacks.
    pub fn why(&self) -> String {
        let lack = if self.sees_names {
            ""
        } else {
            "; it sees no names"
        };
        format!("{}{lack}", self.choice)
    }

    /// What the meter warns about. Calls that were lost are always among it.
    pub fn warnings(&self) -> Vec<WarningKind> {
        let mut warnings = self.warnings.clone();
        if self.lost > 0 && warnings.is_empty() {
            warnings.push(WarningKind::Lost(self.lost));
        }
        warnings
    }
}

/// A way to meter.
pub trait Meter {
    /// Its name: `bpf`, `perf`, `ptrace`.
    fn name(&self) -> &'static str;

    /// Whether it tells what the path arguments of calls point to.
    fn sees_names(&self) -> bool {
        true
    }

    /// Looks whether it can work here, with few and cheap questions.
    ///
    /// # Errors
    /// Why it cannot.
    fn check(&self) -> Result<(), Unavailable>;

    /// Runs the command to its end, and to the end of all that it has started, and tells what they
    /// did.
    ///
    /// # Errors
    /// Of the meter: the command has not begun, and another meter may be tried. Of the command: it
    /// cannot be run.
    fn run(&self, command: &Command, want: Want, to: &mut dyn Listener) -> Result<Metered, Error>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_the_last_4095_numbers() {
        let call = |result| Call {
            pid: 1,
            tid: 1,
            number: 0,
            args: [0; 6],
            name: None,
            other: None,
            result,
            start: 0,
            nanos: 0,
        };
        let errno = |result| call(result).errno();
        assert_eq!(
            [Some(-2), Some(-4095), Some(-4096), Some(0), Some(7), None].map(errno),
            [Some(2), Some(4095), None, None, None, None]
        );
    }

    #[test]
    fn a_signal_is_passed_on_as_a_shell_does() {
        assert_eq!(
            [Ended::Exited(3), Ended::Killed(9)].map(Ended::status),
            [3, 137]
        );
    }
}
