//! Metering of running processes: which processes, and for how long.

use std::time::Duration;

use gate::file::{kernel_field, read_kernel};
use gate::fs::{AtFlags, CWD, StatxMask, readlinkat, statx};
use gate::interrupt;
use gate::process::{is_me, is_root};

use crate::cgroup::Cgroup;
use crate::error::{TargetError, Unavailable};
use crate::listing::numbers_in;

/// The processes to attach to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttachTarget {
    /// These processes, and the children that they start later.
    Processes(Vec<u32>),
    /// All processes, present and future, of the cgroup with this directory and of its descendants.
    Cgroup(Vec<u8>),
    /// All processes of this PID namespace except this one.
    Machine,
}

/// The processes to attach to, and for how long.
pub struct Attach<'a> {
    /// The processes to attach to.
    pub target: AttachTarget,
    /// When to detach. Metering ends earlier when the last of the processes has ended, or on
    /// SIGINT, SIGTERM or SIGHUP.
    pub duration: Option<Duration>,
    /// Called once all of the processes are metered, with their number.
    pub ready: &'a dyn Fn(usize),
}

impl Attach<'_> {
    /// Checks that at least one of the processes exists, and that a meter can attach to each
    /// existing one. For a cgroup, checks that the path is the directory of a cgroup.
    ///
    /// # Errors
    /// The first process or cgroup that cannot be attached to, and why.
    pub(crate) fn check(&self) -> Result<(), TargetError> {
        match &self.target {
            AttachTarget::Processes(processes) => check_all(processes),
            AttachTarget::Cgroup(path) => Cgroup::open(path).map(drop),
            AttachTarget::Machine => Ok(()),
        }
    }

    /// The listed processes, for a meter that can attach neither to a cgroup nor to the machine.
    ///
    /// # Errors
    /// [`Unavailable::OnlyProcesses`]
    pub(crate) fn processes(&self) -> Result<&[u32], Unavailable> {
        match &self.target {
            AttachTarget::Processes(processes) => Ok(processes),
            AttachTarget::Cgroup(_) | AttachTarget::Machine => Err(Unavailable::OnlyProcesses),
        }
    }

    /// When to detach if metering began at `start`; both in nanoseconds of `CLOCK_MONOTONIC`.
    pub(crate) fn until(&self, start: u64) -> Option<u64> {
        self.duration
            .map(|duration| start + duration.as_nanos() as u64)
    }
}

/// The wanted processes, without duplicates, that had ended before the meter attached to them.
///
/// # Errors
/// If all of them had.
pub(crate) fn ended_before(wanted: &[u32], attached: &[u32]) -> Result<Vec<u32>, TargetError> {
    if attached.is_empty() {
        let first = wanted.first().copied().unwrap_or_default();
        return Err(TargetError::NoProcess(first));
    }
    let each = wanted.iter().enumerate();
    let ended = each.filter(|(n, pid)| !attached.contains(pid) && !wanted[..*n].contains(pid));
    Ok(ended.map(|(_, pid)| *pid).collect())
}

/// Whether the user wants fathom to detach.
pub(crate) fn is_asked_to_stop() -> bool {
    interrupt::pending_signal().is_some()
}

/// The PID of fathom in the PID namespace of /proc.
pub(crate) fn myself() -> Option<u32> {
    let name = readlinkat(CWD, c"/proc/self").ok()?;
    str::from_utf8(&name).ok()?.parse().ok()
}

/// All processes except fathom and kernel threads.
pub(crate) fn all_processes() -> Vec<u32> {
    let myself = myself();
    let mut processes = numbers_in("/proc");
    let is_of_users = |pid: u32| Status::read(pid).is_some_and(|it| !it.is_kernel_thread);
    processes.retain(|pid| Some(*pid) != myself && is_of_users(*pid));
    processes
}

/// The number of threads on the machine, from /proc/loadavg.
pub(crate) fn count_threads() -> u32 {
    let text = read_kernel(c"/proc/loadavg").unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let all = text.split([' ', '/']).nth(4);
    all.and_then(|all| all.parse().ok()).unwrap_or_default()
}

/// Checks a list of PIDs, such as pgrep(1) prints. Some of the processes may have ended.
fn check_all(processes: &[u32]) -> Result<(), TargetError> {
    let mut first_ended = None;
    let mut exists = false;
    for pid in processes {
        match check(*pid) {
            Ok(()) => exists = true,
            Err(ended @ TargetError::NoProcess(_)) => first_ended = first_ended.or(Some(ended)),
            Err(other) => return Err(other),
        }
    }
    match first_ended {
        Some(ended) if !exists => Err(ended),
        _ => Ok(()),
    }
}

fn check(pid: u32) -> Result<(), TargetError> {
    if myself() == Some(pid) {
        return Err(TargetError::Myself(pid));
    }
    let status = Status::read(pid).ok_or(TargetError::NoProcess(pid))?;
    if status.process != pid {
        return Err(TargetError::Thread(pid, status.process));
    }
    if status.is_kernel_thread {
        return Err(TargetError::KernelThread(pid));
    }
    if status.has_ended {
        return Err(TargetError::NoProcess(pid));
    }
    let dir = gate::long::c_string(format!("/proc/{pid}").as_bytes());
    let owner = dir.and_then(|dir| statx(CWD, &dir, AtFlags::empty(), StatxMask::UID));
    match owner {
        Ok(owner) if is_root() || is_me(owner.uid) => Ok(()),
        Ok(_) => Err(TargetError::OtherUser(pid)),
        Err(_) => Err(TargetError::NoProcess(pid)),
    }
}

/// Fields of /proc/PID/stat and /proc/PID/status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    /// The thread group id (`Tgid`): a different process if a thread's id was asked for.
    pub(crate) process: u32,
    pub(crate) is_kernel_thread: bool,
    /// The PID of the process that traces this one with ptrace(2); 0 for none.
    pub(crate) tracer: u32,
    /// The process is a zombie: it has ended, and its parent has not waited for it.
    pub(crate) has_ended: bool,
    /// The number of threads of the process.
    pub(crate) threads: u64,
    /// User and system CPU time in ticks of 10 ms, including waited-for children.
    pub(crate) user: u64,
    pub(crate) sys: u64,
    /// Start time: tells two processes apart that had the same PID one after the other.
    pub(crate) start: u64,
}

impl Status {
    /// Reads the status of a process; `None` if there is no such process.
    pub(crate) fn read(pid: u32) -> Option<Status> {
        let read = |file: &str| {
            let path = format!("/proc/{pid}/{file}");
            read_kernel(&gate::long::c_string(path.as_bytes()).ok()?).ok()
        };
        Status::parse(&read("stat")?, &read("status")?)
    }

    fn parse(stat: &[u8], status: &[u8]) -> Option<Status> {
        /// `PF_KTHREAD` of the kernel's `task_struct.flags`.
        const KERNEL_THREAD: u64 = 0x20_0000;
        // The program name in /proc/PID/stat, in parentheses, may itself contain `)` and spaces.
        let end = stat.iter().rposition(|&byte| byte == b')')?;
        let rest = str::from_utf8(stat.get(end + 1..)?).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // Fields are numbered from 1 in proc(5), and the state is the third.
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        let field = |name| kernel_field(status, name)?.parse().ok();
        Some(Status {
            process: field("Tgid:")?,
            tracer: field("TracerPid:")?,
            is_kernel_thread: number(9)? & KERNEL_THREAD != 0,
            has_ended: matches!(*fields.first()?, "Z" | "X"),
            threads: number(20)?,
            user: number(14)? + number(16)?,
            sys: number(15)? + number(17)?,
            start: number(22)?,
        })
    }
}

/// The executable of a process, from /proc/PID/exe; empty if the process has ended.
pub(crate) fn running(pid: u32) -> Vec<u8> {
    let exe = gate::long::c_string(format!("/proc/{pid}/exe").as_bytes());
    exe.and_then(|exe| readlinkat(CWD, &exe))
        .unwrap_or_default()
}

/// The thread ids of a process; none if the process has ended.
pub(crate) fn threads(pid: u32) -> Vec<u32> {
    numbers_in(&format!("/proc/{pid}/task"))
}

/// The thread ids of a process, and whether the list is complete: when a thread ends during
/// readdir(2) of /proc/PID/task, the kernel may skip others.
pub(crate) fn list_threads(pid: u32) -> (Vec<u32>, bool) {
    let count = || Some(Status::read(pid)?.threads);
    let before = count();
    let listed = threads(pid);
    let is_complete = Some(listed.len() as u64) == before && before == count();
    let is_complete = is_complete || listed.is_empty();
    (listed, is_complete)
}

/// Maximum number of times to list the threads of a process until no new one appears.
pub(crate) const MOST_LISTS: u32 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_behind_any_name() {
        let stat = b"7 (a) b) R 1 1 1 0 -1 2097152 0 0 0 0 5 6 1 2 20 0 1 0 99 0 0";
        let status = b"Name:\ta) b\nTgid:\t7\nTracerPid:\t3\n";
        let parsed = Status::parse(stat, status).unwrap();
        let expected = Status {
            process: 7,
            is_kernel_thread: true,
            tracer: 3,
            has_ended: false,
            threads: 1,
            user: 6,
            sys: 8,
            start: 99,
        };
        assert_eq!(parsed, expected);
        assert_eq!(Status::parse(b"7 (a", b"Tgid:\t7\n"), None);
        assert_eq!(Status::parse(stat, b""), None);
    }

    #[test]
    fn processes_that_cannot_be_metered_are_refused() {
        assert_eq!(
            check(std::process::id()),
            Err(TargetError::Myself(std::process::id()))
        );
        assert_eq!(check(u32::MAX), Err(TargetError::NoProcess(u32::MAX)));
        assert!(count_threads() > 0);
        assert!(
            list_threads(std::process::id())
                .0
                .contains(&std::process::id())
        );
        assert_eq!(list_threads(u32::MAX), (Vec::new(), true));
    }
}
