//! What a meter reports: calls, processes, and their totals.

use std::ffi::CString;
use std::fmt;
use std::time::Duration;

use gate::Errno;

use crate::attach::Attach;
use crate::error::{CommandError, Error, Refusal, Refusals, Unavailable, WarningKind};
use crate::names::{Attached, DescriptorKind};

/// The longest name that is reported, in bytes; longer ones are cut. The kernel accepts no longer
/// ones: `PATH_MAX` without the NUL.
pub const LONGEST_NAME: usize = 4095;

/// A call of a metered process, reported when it has returned, or when its thread has ended in it.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The process, in the PID namespace of the meter.
    pub pid: u32,
    /// The thread, likewise; `pid` for the main thread.
    pub tid: u32,
    /// The number of the system call, see [`crate::syscalls::by_number`].
    pub number: u32,
    /// Its arguments at the entry; 0 for those that the meter does not see. Every meter sees
    /// descriptors and flags.
    pub args: [u64; 6],
    /// The name that its first path argument pointed to at the entry, cut to [`LONGEST_NAME`].
    /// `None` without a path argument, or if it cannot be read (a bad or a null pointer).
    pub name: Option<&'a [u8]>,
    /// The name that its second path argument pointed to.
    pub other: Option<&'a [u8]>,
    /// Its result: 0 or more, or minus the error number (minus 512 and the like for a call that is
    /// restarted after a signal, as strace shows it). `None` if its thread ended in it.
    pub result: Option<i64>,
    /// When it was entered, in nanoseconds of `CLOCK_MONOTONIC`.
    pub start: u64,
    /// Nanoseconds from the entry to the return; 0 if it never returned.
    pub nanos: u64,
}

impl Call<'_> {
    /// The error number, if it failed.
    pub fn errno(&self) -> Option<i32> {
        self.result
            .filter(|result| (-4095..0).contains(result))
            .map(|result| -result as i32)
    }
}

/// Nanoseconds of a call that has waited: for a disk, a server, or the other end of a pipe.
pub const LONG_CALL: u64 = 1_000_000;

/// A call beyond the number of those that are reported one by one.
#[derive(Clone, Copy, Debug)]
pub struct LongCall<'a> {
    /// The call, without names.
    pub call: Call<'a>,
    /// The program that its process executed.
    pub program: &'a [u8],
    /// What the descriptor is that it used or opened, if the meter knows.
    pub descriptor: Option<DescriptorKind>,
}

/// A new process or thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fork {
    /// The process that created it.
    pub parent: u32,
    /// The process that it belongs to: `parent` for a thread.
    pub pid: u32,
    /// Its thread id; `pid` for a process.
    pub tid: u32,
    /// It shares the table of descriptors with its parent (`CLONE_FILES`), and has no copy.
    pub shares_files: bool,
    /// It shares working directory and root with its parent (`CLONE_FS`), and has no copy.
    pub shares_fs: bool,
}

/// The calls of an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// By program and system call.
    pub sums: Vec<IntervalSum>,
}

/// Calls of one number that processes made while they executed one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntervalSum {
    /// The file of the program.
    pub program: Vec<u8>,
    /// The number of the system call.
    pub number: u32,
    /// How many times it returned.
    pub calls: u64,
    /// How many times it failed.
    pub errors: u64,
    /// Nanoseconds between entry and return, summed.
    pub nanos: u64,
}

/// Receives what a meter reports, for each process in the order in which it happened, as far as the
/// meter knows it.
pub trait Listener {
    /// A process that runs already is metered from now on.
    fn attach(&mut self, _process: &Attached) {}
    /// A call has returned, or its thread has ended in it.
    fn call(&mut self, _call: &Call<'_>) {}
    /// A call beyond the number of those that are reported took [`LONG_CALL`] or longer.
    fn long_call(&mut self, _long: &LongCall<'_>) {}
    /// A process or thread begins.
    fn fork(&mut self, _fork: &Fork) {}
    /// A process has executed a program: its other threads and its close-on-exec descriptors are
    /// gone.
    fn exec(&mut self, _pid: u32, _program: &[u8]) {}
    /// A thread has ended. The main thread of a process is reported last, as a rule.
    fn exit(&mut self, _pid: u32, _tid: u32) {}
    /// How often [`Listener::tick`] is to be called; never by default.
    fn interval(&self) -> Option<Duration> {
        None
    }
    /// An interval has ended.
    fn tick(&mut self, _interval: &Interval) {}
}

impl Listener for () {}

/// The command that is metered. It has the environment, descriptors, terminal and process group of
/// this process.
#[derive(Clone, Debug)]
pub struct Command {
    /// The file of the program, as execve(2) takes it.
    pub program: CString,
    /// Its arguments, beginning with the program's name as it was given.
    pub args: Vec<CString>,
}

impl Command {
    pub(crate) fn not_executed(&self, errno: Errno) -> Error {
        CommandError::NotExecuted(self.program.clone(), errno).into()
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With this exit status.
    Exited(i32),
    /// By this signal.
    Killed(i32),
    /// Not a command: so many processes were attached to.
    Detached(usize),
}

impl From<&gate::process::Ended> for Ended {
    fn from(ended: &gate::process::Ended) -> Ended {
        let status = ended.status.unwrap_or_default();
        ended.signal.map_or(Ended::Exited(status), Ended::Killed)
    }
}

impl Ended {
    /// The exit status that passes it on, as a shell does: 128 plus the signal.
    pub fn status(self) -> i32 {
        match self {
            Ended::Exited(status) => status,
            Ended::Killed(signal) => 128 + signal,
            Ended::Detached(_) => 0,
        }
    }
}

/// Calls of one number that a process made while it executed one program.
#[derive(Clone, Debug, PartialEq)]
pub struct Total {
    /// The file of the program: an absolute name, if it is known. Before the first successful
    /// execve(2): the name that it was given.
    pub program: Vec<u8>,
    /// The process; 0 for the sum of several processes, of which there were too many.
    pub pid: u32,
    /// The number of the system call.
    pub number: u32,
    /// How many times it returned, as `strace -c` counts. A successful execve(2) returns in the new
    /// program.
    pub calls: u64,
    /// Nanoseconds between entry and return, summed.
    pub nanos: u64,
    /// How many times it failed, by error number.
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
            Choice::Requested => f.write_str("chosen with --meter"),
            Choice::Exact => f.write_str("it loses no call"),
            Choice::Cheapest(refused) if refused.is_empty() => {
                f.write_str("it has the lowest overhead")
            }
            Choice::Cheapest(refused) => {
                write!(
                    f,
                    "it has the lowest overhead of those that work here ({})",
                    Refusals(refused)
                )
            }
        }
    }
}

/// A run that has been metered.
#[derive(Clone, Debug)]
pub struct Metered {
    /// The name of the meter.
    pub meter: &'static str,
    /// Why this meter was used.
    pub choice: Choice,
    /// What was not seen, and what there was no room for.
    pub warnings: Vec<WarningKind>,
    /// All calls, in no order; each (program, pid, number) once.
    pub totals: Vec<Total>,
    /// Calls in which their thread ended. They are not in the totals, nor does `strace -c` count
    /// them.
    pub unfinished: u64,
    /// Calls that are neither reported nor in the totals, as far as is known.
    pub lost: u64,
    /// The time that metering took from the metered processes, summed, as far as is known.
    pub overhead: Duration,
    /// How the command itself ended.
    pub ended: Ended,
    /// From the start of the command to the end of the last metered process.
    pub real: Duration,
    /// User CPU time of the metered processes.
    pub user: Duration,
    /// System CPU time of the metered processes. It may include kernel work of bpf; the stops
    /// of ptrace are subtracted.
    pub sys: Duration,
}

impl Metered {
    /// What the meter warns about. If calls were lost, there is a warning.
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
    /// Its name: `bpf`, `ptrace`.
    fn name(&self) -> &'static str;

    /// Checks cheaply whether it can work here.
    ///
    /// # Errors
    /// Why it cannot.
    fn check(&self) -> Result<(), Unavailable>;

    /// Runs a command until it and all its descendants have ended. Reports the first `calls` calls
    /// one by one, and adds up all of them.
    ///
    /// # Errors
    /// Why there are no figures.
    fn run(&self, command: &Command, calls: u64, to: &mut dyn Listener) -> Result<Metered, Error>;

    /// Meters processes that run already, and what they start, until they have ended or `attach`
    /// says to detach. Reports calls as [`Meter::run`] does.
    ///
    /// # Errors
    /// Why there are no figures.
    fn attach(
        &self,
        attach: &Attach<'_>,
        calls: u64,
        to: &mut dyn Listener,
    ) -> Result<Metered, Error>;
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
