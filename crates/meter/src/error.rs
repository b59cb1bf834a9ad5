//! Why a command cannot be metered, and the warnings of a meter.

use std::ffi::{CStr, CString};

use gate::Errno;
use gate::bpf::LoadError;

/// Why there are no figures for a command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The command cannot be run.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// A process or a cgroup cannot be attached to.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The meter cannot work on this machine. The command has not begun, so a different meter may
    /// try.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The meter failed after the command had begun. Trying a different meter would run it twice.
    #[error("cannot {0}: {1}")]
    Late(MeterStep, Errno),
}

/// Why a process or a cgroup cannot be attached to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The process does not exist, or has ended.
    #[error("process {0} does not exist")]
    NoProcess(u32),
    /// The number is the id of a thread of another process.
    #[error("{0} is a thread of process {1}")]
    Thread(u32, u32),
    /// The process is a kernel thread, which makes no system calls.
    #[error("process {0} is a kernel thread, which makes no system calls")]
    KernelThread(u32),
    /// The process is fathom itself.
    #[error("process {0} is fathom itself")]
    Myself(u32),
    /// The process belongs to another user, and fathom is not privileged.
    #[error("process {0} belongs to another user")]
    OtherUser(u32),
    /// The process has a tracer already, and ptrace(2) allows only one.
    #[error("process {0} is traced by process {1}")]
    Traced(u32, u32),
    /// The directory of a cgroup cannot be opened.
    #[error("cannot open '{}': {}", escape(.0), .1)]
    Unopened(Vec<u8>, Errno),
    /// The directory is in no cgroup file system.
    #[error("'{}' is not a cgroup", escape(.0))]
    NotCgroup(Vec<u8>),
}

/// Why a command cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The command has no words, its first word is empty, or a word contains a NUL.
    #[error("the command is empty")]
    Empty,
    /// No directory of `PATH` contains the command.
    #[error("cannot find the command '{}' in PATH", escape(.0))]
    NotFound(Vec<u8>),
    /// execve(2) of this program failed.
    #[error("cannot run '{}': {}", escape(.0.as_bytes()), .1)]
    NotExecuted(CString, Errno),
}

impl CommandError {
    /// The exit status that env(1), nohup(1) and shells give for this error: 127 for a command that
    /// is not found, 126 for a command that cannot be executed.
    pub fn exit_status(&self) -> i32 {
        match self {
            CommandError::Empty | CommandError::NotFound(_) => 127,
            CommandError::NotExecuted(_, errno) => match *errno {
                Errno::ENOENT | Errno::ENOTDIR => 127,
                _ => 126,
            },
        }
    }
}

fn escape(name: &[u8]) -> String {
    String::from_utf8_lossy(name).escape_debug().to_string()
}

/// Why a meter cannot work on this machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The layout of this processor's registers is unknown.
    #[error("this processor architecture is not supported")]
    Architecture,
    /// The kernel is older than this version.
    #[error("requires Linux {0}")]
    NeedsLinux(&'static str),
    /// A step failed before the command began.
    #[error("cannot {0}: {1}")]
    Step(MeterStep, Errno),
    /// A BPF map or ring cannot be created.
    #[error("{}", map_refused(*.0))]
    BpfMap(Errno),
    /// The kernel rejected a BPF program. The verifier log is empty if the kernel wrote none.
    #[error("{}", program_refused(*.0, .1))]
    BpfProgram(Errno, String),
    /// The BPF programs cannot be linked to the kernel's types: a bug of fathom.
    #[error("cannot link the BPF programs")]
    BpfObject,
    /// A BPF program cannot be attached to this raw tracepoint.
    #[error("cannot attach to the tracepoint {}: {}", .0.to_string_lossy(), .1)]
    Attach(&'static CStr, Errno),
    /// The kernel has no BTF, and the offsets of fields in `task_struct` cannot be found by their
    /// values either.
    #[error(
        "the kernel has no BTF (/sys/kernel/btf/vmlinux), and the layout of its task_struct is unknown"
    )]
    NoBtf,
    /// The meter can only attach to processes, not to a cgroup or the machine.
    #[error("can only attach to processes (-p)")]
    OnlyProcesses,
    /// The kernel has no BTF, or its BTF lacks the types needed to find a process or its ids.
    #[error("this needs a kernel with BTF (/sys/kernel/btf/vmlinux)")]
    AttachNeedsBtf,
    /// ptrace(2) failed.
    #[error("ptrace is not permitted: {0}")]
    Ptrace(Errno),
    /// No meter has this name.
    #[error("unknown meter: use auto, {}", .0.join(", "))]
    UnknownMeter(Vec<&'static str>),
    /// No meter works here.
    #[error("no meter works here: {}", refusals(.0))]
    NoMeter(Vec<Refusal>),
}

impl From<LoadError> for Unavailable {
    fn from(LoadError { errno, log }: LoadError) -> Unavailable {
        Unavailable::BpfProgram(errno, log)
    }
}

/// The name of a meter, and why it was not used.
pub(crate) type Refusal = (&'static str, Unavailable);

/// The meters that were not used, in one line of text.
pub(crate) fn refusals(all: &[Refusal]) -> String {
    let all = all.iter().map(|(meter, why)| format!("{meter}: {why}"));
    all.collect::<Vec<String>>().join("; ")
}

fn map_refused(errno: Errno) -> String {
    match errno {
        Errno::EPERM => format!("BPF is not permitted: {errno}"),
        Errno::ENOSYS => format!("this kernel has no BPF: {errno}"),
        Errno::EMFILE => {
            format!(
                "cannot create a BPF map: {errno} (about 20 file descriptors are needed, see ulimit -n)"
            )
        }
        _ => format!("cannot create a BPF map: {errno}"),
    }
}

fn program_refused(errno: Errno, log: &str) -> String {
    if errno == Errno::EPERM && log.is_empty() {
        format!("BPF is not permitted: {errno}")
    } else {
        format!("the kernel rejects a BPF program: {errno}: {log}")
    }
}

/// A step of metering that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MeterStep {
    #[error("fork")]
    Fork,
    #[error("share memory")]
    ShareMemory,
    #[error("start the command")]
    Start,
    #[error("prepare the command")]
    Prepare,
    #[error("install a seccomp filter")]
    InstallFilter,
    /// The BPF program at the tracepoint sys_enter did not see the command: a seccomp filter that
    /// fathom inherited answered the call.
    #[error("trace the command at sys_enter (a seccomp filter may hide it)")]
    BeSeen,
    #[error("wait for the command")]
    Wait,
    #[error("read the maps of the BPF programs")]
    ReadMaps,
    #[error("write the maps of the BPF programs")]
    WriteMaps,
}

impl MeterStep {
    /// The error if this step failed before the command began.
    pub(crate) fn before_start(self) -> impl FnOnce(Errno) -> Error {
        move |errno| Unavailable::Step(self, errno).into()
    }

    /// The error if this step failed after the command had begun.
    pub(crate) fn after_start(self) -> impl FnOnce(Errno) -> Error {
        move |errno| Error::Late(self, errno)
    }
}

/// Why the figures of a meter are incomplete.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WarningKind {
    /// The table of processes is full: later processes are summed up by program.
    #[error("too many processes: the later ones are summed up by program")]
    ManyProcesses,
    /// The table of programs is full: further programs are summed up without a name.
    #[error("more than {0} programs: the others are summed up without a name")]
    ManyPrograms(usize),
    /// Threads were still running when the user asked fathom to stop.
    #[error(
        "{} {} still running when fathom was stopped: later calls were not counted",
        .0,
        if *.0 == 1 { "thread was" } else { "threads were" }
    )]
    StillRunning(u64),
    /// A process ended before the meter had attached to it.
    #[error("process {0} does not exist, or ended before it was attached to")]
    EndedBefore(u32),
    /// Threads did not stop in time for ptrace to detach; the kernel detaches them when fathom
    /// exits.
    #[error("{0} threads did not stop in time to be detached: the kernel detaches them")]
    NotStopped(usize),
    /// Processes were killed when the user asked fathom to stop.
    #[error(
        "{} {} still running when fathom was stopped, and killed",
        .0,
        if *.0 == 1 { "process was" } else { "processes were" }
    )]
    Killed(usize),
    /// The table of calls by process and error was full.
    #[error("{0} calls are in the totals only: the table of processes and errors was full")]
    Unattributed(u64),
    /// Calls are in the totals, but were not reported individually.
    #[error("{0} calls are in the totals only: they came faster than they could be read")]
    Unreported(u64),
    /// The kinds of descriptors of long calls are unknown, so these calls may have waited for a
    /// pipe.
    #[error(
        "{0} calls of 1 ms or longer are in the totals even if they waited for a pipe or a socket: they came faster than they could be read"
    )]
    LostLongCalls(u64),
    /// Fork, exec and exit events were lost.
    #[error("{0} fork, exec and exit events were lost: names of programs and files may be wrong")]
    LostEvents(u64),
    /// The table of threads was full: calls of further threads were not counted.
    #[error("{0} threads were not traced, and their calls not counted: too many at once")]
    UnfollowedThreads(u64),
    /// 32-bit programs made calls, which are not counted.
    #[error("{0} calls of 32-bit programs were not counted")]
    Calls32Bit(u64),
    /// A program for another architecture was executed, whose calls are not counted.
    #[error("'{}' is for another architecture: its calls were not counted", escape(.0))]
    OtherArchitecture(Vec<u8>),
    /// A set-user-ID program was executed without its privilege, because a tracer watched it.
    #[error(
        "'{}' ran without its set-user-ID privilege, because it was traced",
        escape(.0)
    )]
    Unprivileged(Vec<u8>),
    /// Calls were lost for some other reason.
    #[error("{0} calls were lost: the machine was too busy")]
    Lost(u64),
}

impl base::WarningReason for WarningKind {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_of_a_refused_meter_says_what_is_not_permitted() {
        let refused = Unavailable::BpfMap(Errno::EPERM).to_string();
        assert!(refused.starts_with("BPF is not permitted: "), "{refused}");
        let refuse = |errno, log: &str| {
            let log = log.to_owned();
            Unavailable::from(LoadError { errno, log }).to_string()
        };
        assert_eq!(refuse(Errno::EPERM, ""), refused);
        assert!(refuse(Errno::EINVAL, "R0 !read_ok").ends_with("R0 !read_ok"));
    }

    #[test]
    fn the_exit_status_of_a_command_follows_from_the_errno() {
        let status = |errno| {
            let error = CommandError::NotExecuted(c"/x\n".to_owned(), errno);
            assert!(error.to_string().starts_with("cannot run '/x\\n': "));
            error.exit_status()
        };
        assert_eq!(
            [Errno::ENOENT, Errno::ENOTDIR, Errno::EACCES, Errno::ENOEXEC].map(status),
            [127, 127, 126, 126]
        );
    }
}
