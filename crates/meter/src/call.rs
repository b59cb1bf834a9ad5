//! What a meter reports: calls, processes, and their totals.

use std::ffi::CString;
use std::time::Duration;

use gate::Errno;

use crate::attach::Attach;
use crate::error::{CommandError, Error, Refusal, Unavailable, WarningKind, refusals};
use crate::names::{AttachedProcess, DescriptorKind};

/// The maximum length of a reported path name in bytes; longer ones are truncated. It is `PATH_MAX`
/// without the NUL, so the kernel accepts no longer path.
pub const LONGEST_NAME: usize = 4095;

/// A system call of a metered process, reported when the call returns or its thread ends in it.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The process id, in the PID namespace of the meter.
    pub pid: u32,
    /// The thread id, in the PID namespace of the meter; equals `pid` for the main thread.
    pub tid: u32,
    /// The number of the system call, see [`crate::syscalls::by_number`].
    pub number: u32,
    /// The arguments at entry; 0 for arguments that the meter does not record. Every meter records
    /// descriptors and flags.
    pub args: [u64; 6],
    /// The string of the first path argument at entry, truncated to [`LONGEST_NAME`]. `None`
    /// without a path argument, or if the string cannot be read (a bad or null pointer).
    pub name: Option<&'a [u8]>,
    /// The string of the second path argument, for calls such as rename(2) or link(2).
    pub other: Option<&'a [u8]>,
    /// The return value: 0 or more, or the negative error number (-512 and the like for a call that
    /// is restarted after a signal, as strace shows it). `None` if the thread ended in the call.
    pub result: Option<i64>,
    /// Time of entry, in nanoseconds of `CLOCK_MONOTONIC`.
    pub start: u64,
    /// Nanoseconds from entry to return; 0 if the call never returned.
    pub nanos: u64,
}

impl Call<'_> {
    /// The error number, if the call failed.
    pub fn errno(&self) -> Option<i32> {
        self.result
            .filter(|result| (-4095..0).contains(result))
            .map(|result| -result as i32)
    }
}

/// Minimum duration in nanoseconds of a call that counts as waiting: for a disk, a server, or the
/// other end of a pipe.
pub const LONG_CALL: u64 = 1_000_000;

/// A slow call, reported although the limit of individually reported calls has been reached.
#[derive(Clone, Copy, Debug)]
pub struct LongCall<'a> {
    /// The call, without path names.
    pub call: Call<'a>,
    /// The executable of the calling process.
    pub program: &'a [u8],
    /// The kind of the descriptor that the call used or opened, if the meter knows.
    pub descriptor: Option<DescriptorKind>,
}

/// The creation of a process or thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fork {
    /// The process that created it.
    pub parent: u32,
    /// The new process; for a new thread, its process, which is `parent`.
    pub pid: u32,
    /// The new thread's id; equals `pid` for a new process.
    pub tid: u32,
    /// The child shares the descriptor table of its parent (`CLONE_FILES`) instead of copying it.
    pub shares_files: bool,
    /// The child shares working directory and root of its parent (`CLONE_FS`) instead of copying
    /// them.
    pub shares_fs: bool,
}

impl Fork {
    /// A new thread of a process. Threads share all with each other.
    pub fn thread(pid: u32, tid: u32) -> Fork {
        Fork {
            parent: pid,
            pid,
            tid,
            shares_files: true,
            shares_fs: true,
        }
    }

    /// A new process that shares nothing with its parent.
    pub fn process(parent: u32, pid: u32) -> Fork {
        Fork {
            parent,
            pid,
            tid: pid,
            shares_files: false,
            shares_fs: false,
        }
    }
}

/// The calls of one interval of [`Listener::interval`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// Sums by program and system call.
    pub sums: Vec<IntervalSum>,
    /// The meter stops processes at each call, as in [`Metered::stops_processes`].
    pub stops_processes: bool,
}

/// Calls with one system call number by all processes of one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntervalSum {
    /// The path of the executable.
    pub program: Vec<u8>,
    /// The number of the system call.
    pub number: u32,
    /// The number of calls that returned.
    pub calls: u64,
    /// The number of calls that failed.
    pub errors: u64,
    /// The sum of the nanoseconds from entry to return.
    pub nanos: u64,
}

/// Receives the events of a meter. The events of one process come in the order in which they
/// happened, as far as the meter knows that order.
pub trait Listener {
    /// The meter has attached to a process that was already running.
    fn attach(&mut self, _process: &AttachedProcess) {}
    /// A call has returned, or its thread has ended in it.
    fn call(&mut self, _call: &Call<'_>) {}
    /// A call took [`LONG_CALL`] or longer after the limit of reported calls was reached.
    fn long_call(&mut self, _long: &LongCall<'_>) {}
    /// A process or thread was created.
    fn fork(&mut self, _fork: &Fork) {}
    /// A process executed a program (execve(2)): its other threads and its close-on-exec
    /// descriptors are gone.
    fn exec(&mut self, _pid: u32, _program: &[u8]) {}
    /// A thread ended. The main thread of a process is usually reported last.
    fn exit(&mut self, _pid: u32, _tid: u32) {}
    /// The interval at which to call [`Listener::tick`]; `None`, the default, for never.
    fn interval(&self) -> Option<Duration> {
        None
    }
    /// An interval of [`Listener::interval`] ended.
    fn tick(&mut self, _interval: &Interval) {}
}

impl Listener for () {}

/// The command to meter. It inherits the environment, descriptors, terminal and process group of
/// fathom.
#[derive(Clone, Debug)]
pub struct Command {
    /// The path of the executable, as execve(2) takes it.
    pub program: CString,
    /// The arguments, beginning with `argv[0]` as the user gave it.
    pub args: Vec<CString>,
}

impl Command {
    pub(crate) fn not_executed(&self, errno: Errno) -> Error {
        CommandError::NotExecuted(self.program.clone(), errno).into()
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandEnd {
    /// The command exited with this status.
    Exited(i32),
    /// A signal with this number killed the command.
    Killed(i32),
    /// No command was started: the meter detached from this number of processes.
    Detached(usize),
}

impl From<&gate::process::ProcessEnd> for CommandEnd {
    fn from(ended: &gate::process::ProcessEnd) -> CommandEnd {
        let status = ended.status.unwrap_or_default();
        ended
            .signal
            .map_or(CommandEnd::Exited(status), CommandEnd::Killed)
    }
}

impl CommandEnd {
    /// The exit status for the caller, as a shell's: that of the command, or 128 plus the signal.
    pub fn status(self) -> i32 {
        match self {
            CommandEnd::Exited(status) => status,
            CommandEnd::Killed(signal) => 128 + signal,
            CommandEnd::Detached(_) => 0,
        }
    }
}

/// Calls with one system call number by one process while it executed one program.
#[derive(Clone, Debug, PartialEq)]
pub struct Total {
    /// The path of the executable, absolute if known. Before the first successful execve(2): the
    /// path that was passed to it.
    pub program: Vec<u8>,
    /// The process id; 0 for the sum over several processes, when there were too many to list.
    pub pid: u32,
    /// The number of the system call.
    pub number: u32,
    /// The number of calls that returned, as `strace -c` counts. A successful execve(2) returns in
    /// the new program.
    pub calls: u64,
    /// The sum of the nanoseconds from entry to return.
    pub nanos: u64,
    /// The number of failed calls, by error number.
    pub errors: Vec<(i32, u64)>,
}

/// Why a meter was used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MeterReason {
    /// The user asked for this meter by name.
    #[error("chosen with --meter")]
    Requested,
    /// This meter stops a process until each call is reported, so that it loses none, and the
    /// environment of each program can be read.
    #[error("it loses no call, and stops each program until its environment is read")]
    Exact,
    /// This meter is the cheapest one that works here. The listed cheaper meters were refused.
    #[error("it has the lowest overhead{}", those_that_work(.0))]
    Cheapest(Vec<Refusal>),
}

fn those_that_work(refused: &[Refusal]) -> String {
    match refused {
        [] => String::new(),
        refused => format!(" of those that work here ({})", refusals(refused)),
    }
}

/// The result of metering a command or running processes.
#[derive(Clone, Debug)]
pub struct Metered {
    /// The name of the meter.
    pub meter: &'static str,
    /// Why this meter was used.
    pub choice: MeterReason,
    /// Limits of the measurement: what the meter did not see or had no room for.
    pub warnings: Vec<WarningKind>,
    /// All calls, unordered; each (program, pid, number) once.
    pub totals: Vec<Total>,
    /// Calls in which the calling thread ended. The totals do not include them, as in `strace -c`.
    pub unfinished: u64,
    /// Calls that are neither reported nor in the totals, as far as this is known.
    pub lost: u64,
    /// The time that metering cost the metered processes, summed, as far as this is known.
    pub overhead: Duration,
    /// How the command itself ended, apart from its descendants.
    pub ended: CommandEnd,
    /// Elapsed time from the start of the command to the end of the last metered process.
    pub real: Duration,
    /// User CPU time of the metered processes.
    pub user: Duration,
    /// System CPU time of the metered processes. It may include kernel work of BPF programs; the
    /// time of ptrace stops is subtracted.
    pub sys: Duration,
}

impl Metered {
    /// Whether the meter stops processes at each call, which distorts times.
    pub fn stops_processes(&self) -> bool {
        self.meter == "ptrace"
    }

    /// The warnings of the meter, and one about lost calls if there were any.
    pub fn warnings(&self) -> Vec<WarningKind> {
        let mut warnings = self.warnings.clone();
        if self.lost > 0 && warnings.is_empty() {
            warnings.push(WarningKind::Lost(self.lost));
        }
        warnings
    }
}

/// A meter: a way to observe the system calls of other processes.
pub trait Meter {
    /// The name of the meter: `bpf`, `ptrace`.
    fn name(&self) -> &'static str;

    /// Checks cheaply whether the meter works on this machine.
    ///
    /// # Errors
    /// Why the meter is unavailable.
    fn check(&self) -> Result<(), Unavailable>;

    /// Runs a command until it and all its descendants have ended. Reports the first `calls` calls
    /// individually, and sums up all calls.
    ///
    /// # Errors
    /// Why there are no figures.
    fn run(&self, command: &Command, calls: u64, to: &mut dyn Listener) -> Result<Metered, Error>;

    /// Meters running processes and their future children until all have ended or `attach` says to
    /// detach. Reports calls as [`Meter::run`] does.
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
            [CommandEnd::Exited(3), CommandEnd::Killed(9)].map(CommandEnd::status),
            [3, 137]
        );
    }
}
