//! ptrace(2) of processes that are already running.

use std::collections::HashSet;
use std::time::Duration;

use gate::ptrace::{self, PtraceStop, ThreadEvent};
use gate::{Errno, clock};

use super::thread::{Process, Thread};
use super::{Ptrace, Tracer};
use crate::attach::{
    MOST_LISTS, Status, ended_before, is_asked_to_stop, list_threads, myself, running,
};
use crate::cpu_time::CpuTime;
use crate::error::{Error, TargetError, Unavailable, WarningKind};
use crate::names::{AttachedProcess, OpenFiles};

impl Ptrace {
    /// Attaches to the processes by PTRACE_SEIZE, and returns those that have not ended.
    pub(super) fn seize_all(tracer: &mut Tracer<'_>, processes: &[u32]) -> Result<Vec<u32>, Error> {
        let mut attached = Vec::new();
        for (n, &pid) in processes.iter().enumerate() {
            if processes[..n].contains(&pid) {
                continue;
            }
            match tracer.seize(pid) {
                Ok(true) => attached.push(pid),
                Ok(false) => {}
                Err(errno) => {
                    let by = Status::read(pid).map_or(0, |status| status.tracer);
                    tracer.detach_all();
                    return Err(match by {
                        0 => Unavailable::Ptrace(errno).into(),
                        by => TargetError::Traced(pid, by).into(),
                    });
                }
            }
        }
        let ended = ended_before(processes, &attached)?.into_iter();
        let warnings = &mut tracer.collector.warnings;
        warnings.extend(ended.map(WarningKind::EndedBefore));
        Ok(attached)
    }
}

impl Tracer<'_> {
    /// Traces all threads of a running process. Returns whether there are any.
    pub(super) fn seize(&mut self, pid: u32) -> gate::Result<bool> {
        let before = OpenFiles::read(pid);
        let mut seized = Vec::new();
        let mut seen = HashSet::new();
        // A thread that is not yet traced may create threads meanwhile; new threads of a traced one
        // are traced automatically. So list until nothing new appears.
        let mut is_complete = false;
        for _ in 0..MOST_LISTS {
            let (listed, has_all) = list_threads(pid);
            is_complete = has_all;
            for tid in listed {
                if !seen.insert(tid) {
                    continue;
                }
                is_complete = false;
                match ptrace::attach(tid) {
                    Ok(()) => seized.push(tid),
                    Err(Errno::ESRCH) => {}
                    // PTRACE_SEIZE of a zombie thread fails with EPERM.
                    Err(Errno::EPERM) if has_ended(tid) => {}
                    Err(_) if self.is_traced_by_us(tid) => {}
                    Err(errno) => return Err(errno),
                }
                // Record the thread now, so that it is detached even if a later step fails.
                self.threads.insert(tid, Thread::new(pid));
            }
            if is_complete {
                break;
            }
        }
        self.unfollowed += u64::from(!is_complete);
        self.threads
            .retain(|tid, thread| thread.pid != pid || seized.contains(tid));
        if seized.is_empty() {
            return Ok(false);
        }
        let program = running(pid);
        self.last_serial += 1;
        let process = Process {
            program: self.collector.totals.program(&program),
            serial: self.last_serial,
            is_filtered: true, // after PTRACE_SEIZE there is no seccomp filter: the thread stops at all calls
            ..Process::default()
        };
        self.processes.insert(pid, process);
        self.collector.attach(&AttachedProcess {
            pid,
            threads: seized,
            program,
            open: OpenFiles::read(pid).since(&before),
        });
        Ok(true)
    }

    pub(super) fn is_traced_by_us(&self, tid: u32) -> bool {
        let tracer = Status::read(tid).map(|status| status.tracer);
        tracer.is_some() && tracer == myself()
    }

    /// Waits until all seized threads have stopped once, at most a few milliseconds. A thread that
    /// cannot be interrupted is inside a call that began earlier; none of its calls is lost,
    /// because the kernel stops it on return from that call.
    pub(super) fn stop_all(&mut self) {
        const LIMIT: u64 = 200_000_000;
        let until = clock::monotonic() + LIMIT;
        let mut left: HashSet<u32> = self.threads.keys().copied().collect();
        self.limit = Some(Duration::from_millis(10));
        while !left.is_empty() && clock::monotonic() < until {
            match self.wait() {
                Ok((tid, came)) => {
                    left.remove(&tid);
                    self.handle_event(tid, came);
                }
                Err(Errno::EINTR | Errno::EAGAIN) => {}
                Err(_) => return,
            }
        }
    }

    pub(super) fn handle_event(&mut self, tid: u32, came: ThreadEvent) {
        let since = clock::monotonic();
        match came {
            ThreadEvent::Stopped(stop) => self.stopped(tid, stop),
            ThreadEvent::Ended(ended) => self.ended(tid, &ended),
        }
        self.stopped_for += clock::monotonic().saturating_sub(since);
    }

    /// Traces until no process is left, until this time of `CLOCK_MONOTONIC`, or until a signal
    /// asks fathom to stop.
    pub(super) fn follow_attached(&mut self, until: Option<u64>, cpu: &mut CpuTime<'_>) {
        const LONGEST: Duration = Duration::from_millis(100);
        loop {
            let left = until.map(|until| until.saturating_sub(clock::monotonic()));
            if left == Some(0) || is_asked_to_stop() || self.threads.is_empty() {
                return;
            }
            self.limit = Some(left.map_or(LONGEST, |left| LONGEST.min(Duration::from_nanos(left))));
            match self.wait() {
                Ok((tid, came)) => self.handle_event(tid, came),
                Err(Errno::EINTR | Errno::EAGAIN) => {}
                Err(_) => return,
            }
            self.tick();
            cpu.update();
        }
    }

    /// Detaches from all threads, which continue as before. The kernel detaches a thread that
    /// cannot be stopped now when fathom ends.
    pub(super) fn detach_all(&mut self) {
        const LIMIT: u64 = 2_000_000_000;
        let until = clock::monotonic() + LIMIT;
        // Threads in `early` are stopped already, so detach from them at once.
        for tid in std::mem::take(&mut self.early) {
            let _ = ptrace::detach(tid, 0);
        }
        let mut left: HashSet<u32> = self.threads.keys().copied().collect();
        left.retain(|tid| ptrace::interrupt(*tid).is_ok());
        let mut detached = HashSet::new();
        self.limit = Some(Duration::from_millis(20));
        while !left.is_empty() && clock::monotonic() < until {
            match self.wait() {
                Ok((tid, ThreadEvent::Stopped(stop))) => {
                    let other = ptrace::event_message(tid).ok();
                    let signal = match stop {
                        PtraceStop::Signal(signal) => signal,
                        PtraceStop::Makes => {
                            // The new thread is traced too, and will stop.
                            left.extend(other.filter(|other| !detached.contains(other)));
                            0
                        }
                        PtraceStop::Execs => {
                            // A thread that calls execve(2) takes over the id of the process.
                            if let Some(other) = other {
                                left.remove(&other);
                            }
                            0
                        }
                        _ => 0,
                    };
                    let _ = ptrace::detach(tid, signal);
                    left.remove(&tid);
                    detached.insert(tid);
                }
                Ok((tid, ThreadEvent::Ended(_))) => drop(left.remove(&tid)),
                Err(Errno::EINTR) => {}
                // A zombie main thread, which ended before other threads, never stops.
                Err(Errno::EAGAIN) => {
                    left.retain(|tid| Status::read(*tid).is_some_and(|status| !status.has_ended))
                }
                Err(_) => left.clear(),
            }
        }
        if !left.is_empty() {
            let warning = WarningKind::NotStopped(left.len());
            self.collector.warnings.push(warning);
        }
        self.threads.clear();
    }
}

fn has_ended(tid: u32) -> bool {
    Status::read(tid).is_none_or(|status| status.has_ended)
}
