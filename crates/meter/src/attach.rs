//! Metering of processes that run already: which ones, and for how long.

use std::time::Duration;

use gate::file::read_kernel;
use gate::fs::{At, CWD, Open, Want, getdents64, openat, readlinkat, statx};
use gate::process::{is_me, is_root};
use gate::{Errno, clock, interrupt};

use crate::error::TargetError;

/// What to attach to, and for how long.
pub struct Attach<'a> {
    /// The processes; what they start later is metered, too.
    pub processes: Vec<u32>,
    /// When to detach; otherwise when the last process has ended, or SIGINT, SIGTERM or SIGHUP has arrived.
    pub duration: Option<Duration>,
    /// Is called when all of the processes are metered, with their number.
    pub ready: &'a dyn Fn(usize),
}

impl Attach<'_> {
    /// Checks that each of the processes can be metered.
    ///
    /// # Errors
    /// The first one that cannot, and why.
    pub(crate) fn check(&self) -> Result<(), TargetError> {
        self.processes.iter().try_for_each(|pid| check(*pid))
    }
}

/// Whether the user wants fathom to detach.
pub(crate) fn is_asked_to_stop() -> bool {
    interrupt::asked().is_some()
}

fn check(pid: u32) -> Result<(), TargetError> {
    let myself = readlinkat(CWD, c"/proc/self").ok();
    if myself == Some(pid.to_string().into_bytes()) {
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
    let owner = dir.and_then(|dir| statx(CWD, &dir, At::empty(), Want::UID));
    match owner {
        Ok(owner) if is_root() || is_me(owner.uid) => Ok(()),
        Ok(_) => Err(TargetError::OtherUser(pid)),
        Err(_) => Err(TargetError::NoProcess(pid)),
    }
}

/// What /proc/PID/stat and /proc/PID/status say of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    /// The process; another one if the id is that of a thread.
    pub(crate) process: u32,
    pub(crate) is_kernel_thread: bool,
    /// It has ended, and waits for its parent.
    pub(crate) has_ended: bool,
    /// User and system CPU time, in ticks of 10 ms, with those of the children that it has waited for.
    pub(crate) user: u64,
    pub(crate) sys: u64,
    /// When it began: no two processes with one id have the same time.
    pub(crate) start: u64,
}

impl Status {
    /// `None` if there is no such process.
    pub(crate) fn read(pid: u32) -> Option<Status> {
        let read = |file: &str| {
            let path = format!("/proc/{pid}/{file}");
            read_kernel(&gate::long::c_string(path.as_bytes()).ok()?).ok()
        };
        Status::parse(&read("stat")?, &read("status")?)
    }

    fn parse(stat: &[u8], status: &[u8]) -> Option<Status> {
        /// `PF_KTHREAD`
        const KERNEL_THREAD: u64 = 0x20_0000;
        // The name of the program, in parentheses, may contain anything.
        let end = stat.iter().rposition(|&byte| byte == b')')?;
        let rest = str::from_utf8(stat.get(end + 1..)?).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // Fields are numbered from 1 in proc(5), and the state is the third.
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        let mut lines = status.split(|&byte| byte == b'\n');
        let process = lines.find_map(|line| line.strip_prefix(b"Tgid:"))?;
        Some(Status {
            process: str::from_utf8(process).ok()?.trim().parse().ok()?,
            is_kernel_thread: number(9)? & KERNEL_THREAD != 0,
            has_ended: matches!(*fields.first()?, "Z" | "X"),
            user: number(14)? + number(16)?,
            sys: number(15)? + number(17)?,
            start: number(22)?,
        })
    }
}

/// The CPU time of processes since this was made.
pub(crate) struct CpuTime {
    /// Each process, what it had used then, and what it had used when it was last read.
    processes: Vec<(u32, Status, Status)>,
    /// When to read them again, in nanoseconds of the monotonic clock.
    next: u64,
}

impl CpuTime {
    pub(crate) fn of(processes: &[u32]) -> CpuTime {
        let status = |pid: &u32| Some((*pid, Status::read(*pid)?));
        let all = processes.iter().filter_map(status);
        CpuTime {
            processes: all.map(|(pid, status)| (pid, status, status)).collect(),
            next: 0,
        }
    }

    /// Reads the times now and then: there is none of a process that has ended.
    pub(crate) fn update(&mut self) {
        const INTERVAL: u64 = 100_000_000;
        let now = clock::monotonic();
        if now >= self.next {
            self.next = now + INTERVAL;
            self.read();
        }
    }

    fn read(&mut self) {
        for (pid, start, last) in &mut self.processes {
            let now = Status::read(*pid);
            *last = now.filter(|now| now.start == start.start).unwrap_or(*last);
        }
    }

    /// User and system time until now, or until a process was last read before it ended.
    pub(crate) fn times(mut self) -> (Duration, Duration) {
        self.read();
        // `USER_HZ` is 100 on every architecture that is supported.
        let time = |ticks: u64| Duration::from_millis(10 * ticks);
        let sum = |of: fn(&Status) -> u64| {
            let each = self.processes.iter();
            each.map(|(_, start, last)| of(last).saturating_sub(of(start)))
                .sum()
        };
        (time(sum(|it| it.user)), time(sum(|it| it.sys)))
    }
}

/// The threads of a process; none if it has ended.
pub(crate) fn threads(pid: u32) -> Vec<u32> {
    numbers_in(&format!("/proc/{pid}/task"))
}

/// The entries of a directory whose names are numbers.
pub(crate) fn numbers_in(dir: &str) -> Vec<u32> {
    let read = || -> Result<Vec<u32>, Errno> {
        let name = gate::long::c_string(dir.as_bytes())?;
        let dir = openat(CWD, &name, Open::DIRECTORY)?;
        let mut buffer = vec![0; 8 << 10];
        let mut numbers = Vec::new();
        loop {
            let n = getdents64(&dir, &mut buffer)?;
            let Some(entries) = buffer.get(..n).filter(|entries| !entries.is_empty()) else {
                return Ok(numbers);
            };
            let names = ondisk::dirent::entries(entries).map(|entry| entry.name.to_str());
            numbers.extend(names.filter_map(|name| name.ok()?.parse::<u32>().ok()));
        }
    };
    read().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_behind_any_name() {
        let stat = b"7 (a) b) R 1 1 1 0 -1 2097152 0 0 0 0 5 6 1 2 20 0 1 0 99 0 0";
        let parsed = Status::parse(stat, b"Name:\ta) b\nTgid:\t7\n").unwrap();
        let expected = Status {
            process: 7,
            is_kernel_thread: true,
            has_ended: false,
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
        assert!(threads(std::process::id()).contains(&std::process::id()));
        assert!(threads(u32::MAX).is_empty());
    }
}
