//! The meter for unprivileged users: ptrace(2), with a seccomp filter so that only file-system
//! calls stop.
//!
//! A call costs two stops, at each of which the thread waits for fathom: about 10 µs a call. The
//! cost of two stops is measured in the child process before it executes the command, and
//! subtracted from the time of each call. A process that installs a seccomp filter of its own stops
//! at all its calls from then on, because this meter's filter does not see the calls that the new
//! filter answers.
//!
//! Calls of 32-bit programs are not counted, and set-user-ID programs run without their privilege
//! if fathom has none: there are warnings for both. A process has at most one tracer, so a debugger
//! in the command cannot trace its children. When fathom ends early, the command is killed: without
//! a tracer, all its file-system calls would fail with ENOSYS.

mod attach;
mod poller;
mod processes;
mod queue;
mod thread;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gate::clock::{self, EMPTY_FILE_CALL};
use gate::command::{HeldCommand, Running};
use gate::cpu_time::process_cpu_time;
use gate::process::{self, SharedWords};
use gate::ptrace::{self, PtraceStop, ResumeMode, StoppedThread, SyscallStop, ThreadEvent};
use gate::seccomp::{ARCH, Filter, TAG};
use gate::{Errno, Fd, machine};

use self::poller::Poller;
use self::queue::Queue;
use self::thread::{CallInProgress, Process, Thread};
use crate::attach::Attach;
use crate::call::{Command, CommandEnd, LONG_CALL, LONGEST_NAME, Listener, Meter, Metered};
use crate::collector::{Collector, CommandTiming, run_held, warn_of};
use crate::cpu_time::CpuTime;
use crate::error::{Error, MeterStep, Unavailable, WarningKind};
use crate::syscalls::{self, CLONE, CLONE_UNTRACED, CLONE3, Kind, PRCTL, SECCOMP};
use crate::totals::Sums;

/// The meter `ptrace`.
pub(crate) struct Ptrace;

impl Meter for Ptrace {
    fn name(&self) -> &'static str {
        "ptrace"
    }

    fn check(&self) -> Result<(), Unavailable> {
        if ARCH == 0 {
            return Err(Unavailable::Architecture);
        }
        let held = HeldCommand::fork(c"/", &[], || Ok(()))
            .map_err(|errno| Unavailable::Step(MeterStep::Fork, errno))?;
        ptrace::seize(held.id()).map_err(Unavailable::Ptrace)
    }

    fn run(&self, command: &Command, calls: u64, to: &mut dyn Listener) -> Result<Metered, Error> {
        let numbers = syscalls::all().map(|call| call.number);
        let numbers = numbers.chain([PRCTL, SECCOMP, CLONE3]);
        let filter = Filter::trace(numbers, (CLONE, CLONE_UNTRACED as u32));
        let words = SharedWords::new(WORDS).map_err(MeterStep::ShareMemory.before_start())?;
        let held = HeldCommand::fork(&command.program, &command.args, || prepare(&filter, &words))
            .map_err(MeterStep::Fork.before_start())?;
        ptrace::seize(held.id()).map_err(Unavailable::Ptrace)?;
        let mut tracer = Tracer::new(held.id() as u32, &words, Collector::new(calls, to));
        let timing = run_held(held, command, MeterStep::InstallFilter, |running| {
            Ok(tracer.follow(running))
        })?;
        let per_call = |word: usize| words[word].load(Ordering::SeqCst) / u64::from(ROUNDS);
        let (user, sys) = (tracer.user, tracer.sys);
        let mut metered = tracer.collector.finish(self, per_call(ELAPSED), timing);
        let calls: u64 = metered.totals.iter().map(|total| total.calls).sum();
        let busy = Duration::from_nanos(per_call(BUSY).saturating_mul(calls));
        metered.user += user;
        metered.sys = (metered.sys + sys).saturating_sub(busy);
        Ok(metered)
    }

    fn attach(
        &self,
        attach: &Attach<'_>,
        calls: u64,
        to: &mut dyn Listener,
    ) -> Result<Metered, Error> {
        let processes = attach.processes()?;
        let words = SharedWords::new(WORDS).map_err(MeterStep::ShareMemory.before_start())?;
        words[UNPRIVILEGED].store(u64::from(!process::is_root()), Ordering::SeqCst);
        let mut tracer = Tracer::new(0, &words, Collector::new(calls, to));
        (tracer.threads, tracer.processes) = (HashMap::new(), HashMap::new());
        tracer.has_begun = true;
        let start = clock::monotonic();
        let attached = Ptrace::seize_all(&mut tracer, processes)?;
        let mut cpu = CpuTime::of_processes(&attached);
        tracer.stop_all();
        (attach.ready)(attached.len());
        tracer.follow_attached(attach.until(start), &mut cpu);
        tracer.detach_all();
        let overhead = Duration::from_nanos(tracer.stopped_for);
        let unfollowed = tracer.unfollowed;
        let timing = CommandTiming::detached(attached.len(), start, cpu);
        let mut metered = tracer.collector.finish(self, 0, timing);
        (metered.overhead, metered.lost) = (overhead, unfollowed);
        warn_of(&mut metered, unfollowed, WarningKind::UnfollowedThreads);
        Ok(metered)
    }
}

/// Calls that install a seccomp filter, with their first arguments: PR_SET_SECCOMP of prctl(2),
/// SECCOMP_SET_MODE_FILTER of seccomp(2).
const INSTALLS: [(u32, u64); 2] = [(PRCTL, 22), (SECCOMP, 1)];

// Indexes of words in memory shared with the child, which it writes before it executes the command:
// whether it set no_new_privs, and nanoseconds of elapsed and CPU time of the empty calls.
const UNPRIVILEGED: usize = 0;
const ELAPSED: usize = 1;
const BUSY: usize = 2;
const WORDS: usize = 3;
/// Number of empty calls that measure the cost of metering, and number of empty calls before them
/// that only warm caches.
const ROUNDS: u32 = 64;
const WARMING: u32 = 16;
/// How long to poll for the next stop before sleeping in waitpid(2).
const POLLING: Duration = Duration::from_micros(200);
/// Time without any event after the command was suspended (^Z), before fathom suspends itself.
const QUIET: Duration = Duration::from_millis(20);
/// Nanoseconds. Only if the last stop came within this time, wake-up included, the tracer polls for
/// the next stop instead of sleeping.
const SOON: u64 = 500_000;

/// Runs in the child process, just before it executes the command.
fn prepare(filter: &Filter, words: &[AtomicU64]) -> gate::Result<()> {
    let store = |word: usize, value: u64| words[word].store(value, Ordering::SeqCst);
    store(UNPRIVILEGED, u64::from(filter.install()?));
    (0..WARMING).for_each(|_| clock::empty_file_call());
    let (before, busy) = (clock::monotonic(), process_cpu_time());
    (0..ROUNDS).for_each(|_| clock::empty_file_call());
    store(ELAPSED, clock::monotonic().saturating_sub(before));
    let busy = process_cpu_time().saturating_sub(busy);
    store(BUSY, busy.as_nanos() as u64);
    Ok(())
}

/// Traces a command and its descendants.
struct Tracer<'a> {
    collector: Collector<'a>,
    /// Memory shared with the child process.
    words: &'a [AtomicU64],
    threads: HashMap<u32, Thread>,
    processes: HashMap<u32, Process>,
    last_serial: u64,
    /// Threads that stopped or ended before their creator reported the fork.
    early: Vec<u32>,
    gone: Vec<u32>,
    root: u32,
    poller: Poller,
    queue: Queue,
    /// Whether the execve(2) of the command's own program has happened.
    has_begun: bool,
    /// Nanoseconds of each empty call before the exec of the command, and their median.
    empty_calls: Vec<u64>,
    empty_call: u64,
    /// Whether some process has outlived its parent: the CPU time of that process is not in the CPU
    /// time of fathom's children.
    has_orphans: bool,
    user: Duration,
    sys: Duration,
    /// Whether the kernel lacks `PTRACE_GET_SYSCALL_INFO` (before Linux 5.3).
    lacks_syscall_info: bool,
    is_ending: bool,
    /// Number of processes whose threads started and ended too fast for the meter to find all of
    /// them.
    unfollowed: u64,
    /// Nanoseconds that stopped threads have waited for fathom, counted from when fathom noticed
    /// the stop.
    stopped_for: u64,
    /// Time of the last stop, in nanoseconds of `CLOCK_MONOTONIC`.
    came_at: u64,
    /// The signal that suspended the command, and the time of this signal.
    suspended: Option<(i32, u64)>,
    /// Maximum time that [`Tracer::wait`] waits for an event; an interval of the listener may end
    /// the wait earlier.
    limit: Option<Duration>,
    /// On virtual machines, keeps idle processors from halting: each ptrace stop has to wake one.
    _awake: Option<Fd>,
}

impl<'a> Tracer<'a> {
    fn new(root: u32, words: &'a [AtomicU64], mut collector: Collector<'a>) -> Tracer<'a> {
        collector.stops_processes = true;
        Tracer {
            collector,
            words,
            threads: HashMap::from([(root, Thread::new(root))]),
            processes: HashMap::from([(root, Process::default())]),
            last_serial: 0,
            early: Vec::new(),
            gone: Vec::new(),
            root,
            poller: Poller {
                processors: machine::processors(),
                ..Poller::default()
            },
            queue: Queue::default(),
            has_begun: false,
            empty_calls: Vec::with_capacity((WARMING + ROUNDS) as usize),
            empty_call: 0,
            has_orphans: false,
            user: Duration::ZERO,
            sys: Duration::ZERO,
            lacks_syscall_info: false,
            is_ending: false,
            unfollowed: 0,
            stopped_for: 0,
            came_at: 0,
            suspended: None,
            limit: None,
            _awake: machine::keep_awake(),
        }
    }

    /// Traces until no process is left, and returns how the command itself ended.
    fn follow(&mut self, running: &mut Running) -> CommandEnd {
        let mut command_ended = None;
        loop {
            match self.wait() {
                Ok((tid, ThreadEvent::Stopped(stop))) => self.stopped(tid, stop),
                Ok((tid, ThreadEvent::Ended(ended))) => {
                    if tid == self.root && command_ended.is_none() {
                        running.ended();
                        command_ended = Some(CommandEnd::from(&ended));
                    }
                    self.ended(tid, &ended);
                }
                Err(Errno::EINTR | Errno::EAGAIN) => {}
                Err(_) => return command_ended.unwrap_or(CommandEnd::Exited(0)),
            }
            self.tick();
            self.stop_with_command(running);
            if running.asked_to_stop() && !self.processes.is_empty() {
                self.kill_all();
            }
        }
    }

    /// Continues a new thread, or a thread that continues after SIGCONT.
    fn begins(&mut self, tid: u32) {
        if self.is_of_command(tid) {
            self.suspended = None;
        }
        self.resume(tid, 0);
    }

    /// Handles the suspension of a thread's process by a signal such as SIGTSTP.
    fn stops(&mut self, tid: u32, signal: i32) {
        let _ = ptrace::resume(tid, ResumeMode::Listen, 0);
        if self.is_of_command(tid) && self.suspended.is_none() {
            self.suspended = Some((signal, clock::monotonic()));
        }
    }

    fn is_of_command(&self, tid: u32) -> bool {
        self.threads
            .get(&tid)
            .is_some_and(|thread| thread.pid == self.root)
    }

    /// Suspends fathom with the command (^Z), once no event has come for a while: until then, other
    /// processes of the job still restore the terminal's modes, and that takes calls.
    fn stop_with_command(&mut self, running: &Running) {
        let Some((signal, since)) = self.suspended else {
            return;
        };
        let now = clock::monotonic();
        let is_over = |since: u64, limit: Duration| u128::from(now - since) >= limit.as_nanos();
        if is_over(self.came_at, QUIET) || is_over(since, 10 * QUIET) {
            self.suspended = None;
            running.stopped(signal);
        }
    }

    fn tick(&mut self) {
        let _ = self.collector.tick(|_| Ok::<_, Errno>(Sums::default()));
    }

    fn wait(&mut self) -> gate::Result<(u32, ThreadEvent)> {
        let polling = match self.poller.should_poll(self.threads.len()) {
            true => POLLING,
            false => Duration::ZERO,
        };
        let before = clock::monotonic();
        let quiet = self.suspended.map(|_| QUIET);
        let limits = [self.limit, self.collector.until_tick(), quiet];
        let limit = limits.into_iter().flatten().min();
        let times = self.has_orphans;
        let came = self
            .queue
            .next(self.threads.len() > 1, |is_ready| match is_ready {
                true => ptrace::wait(times, Duration::from_nanos(1), None),
                false => ptrace::wait(times, polling, limit),
            });
        let now = clock::monotonic();
        self.poller.is_busy = came.is_ok() && now.saturating_sub(before) < SOON;
        if came.is_ok() {
            self.came_at = now;
        }
        came
    }

    fn stopped(&mut self, tid: u32, stop: PtraceStop) {
        match stop {
            PtraceStop::Enters if self.is_stopped_by_its_own_filter(tid) => {
                let _ = ptrace::refuse_call(tid, Errno::ENOSYS);
                self.resume(tid, 0);
            }
            PtraceStop::Enters => self.enter(tid),
            PtraceStop::Returns => self.leave(tid, clock::monotonic()),
            PtraceStop::Makes => self.fork(tid),
            PtraceStop::Execs => self.exec(tid),
            PtraceStop::Begins if self.threads.contains_key(&tid) => self.begins(tid),
            PtraceStop::Begins => self.early.push(tid),
            PtraceStop::Group(signal) => self.stops(tid, signal),
            PtraceStop::Signal(signal) => self.resume(tid, signal),
        }
    }

    /// Whether a seccomp filter of the program, not that of the meter, has stopped a thread at a call:
    /// it asks for a tracer of the program, and without one the call fails with `ENOSYS`.
    fn is_stopped_by_its_own_filter(&self, tid: u32) -> bool {
        let thread = self.threads.get(&tid);
        let process = thread.and_then(|thread| self.processes.get(&thread.pid));
        process.is_some_and(|process| process.is_filtered)
            && ptrace::event_message(tid).is_ok_and(|data| data != TAG)
    }

    /// The state of a stopped thread. Before Linux 5.3 the thread's registers tell the call, and
    /// its earlier stops tell entry from return.
    fn doing(&mut self, tid: u32, is_inside: bool) -> gate::Result<StoppedThread> {
        if !self.lacks_syscall_info {
            match ptrace::syscall_info(tid) {
                Err(Errno::EIO | Errno::EINVAL) => self.lacks_syscall_info = true,
                other => return other,
            }
        }
        let registers = ptrace::call_registers(tid)?;
        Ok(StoppedThread {
            arch: if registers.is_some() { ARCH } else { 0 },
            call: registers.map(|registers| match is_inside {
                true => SyscallStop::Exit {
                    result: registers.result,
                },
                false => SyscallStop::Entry {
                    number: registers.number,
                    args: registers.args,
                },
            }),
        })
    }

    /// Resumes a thread until its current call returns. Resuming fails if the thread was killed
    /// meanwhile; the next wait reports that it has ended.
    fn resume(&mut self, tid: u32, signal: i32) {
        let thread = self.threads.get_mut(&tid);
        let stops_at_calls = thread.is_some_and(|thread| {
            let process = self.processes.get(&thread.pid);
            let stops = thread.call.is_some()
                || thread.installs_filter
                || process.is_some_and(|process| process.is_filtered);
            thread.is_inside &= stops;
            stops
        });
        let how = if stops_at_calls {
            ResumeMode::Syscall
        } else {
            ResumeMode::Cont
        };
        let _ = ptrace::resume(tid, how, signal);
    }

    /// Handles the entry of a thread into a call. A thread that stops at all calls may stop here
    /// twice: at syscall entry and at this meter's seccomp filter.
    fn enter(&mut self, tid: u32) {
        let (number, args) = match self.doing(tid, false) {
            Ok(StoppedThread {
                call: Some(SyscallStop::Entry { number, args }),
                arch: ARCH,
            }) => (number, args),
            _ => return self.resume(tid, 0),
        };
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        self.trace_child(tid, number, args[0]);
        let Some(thread) = self.threads.get_mut(&tid) else {
            return self.resume(tid, 0);
        };
        thread.is_inside = true;
        thread.installs_filter = INSTALLS.contains(&(number, args[0]));
        let Some(call) = syscalls::by_number(number) else {
            return self.resume(tid, 0);
        };
        let delay = match self.queue.is_shared {
            true => self.queue.delay_of(tid, &mut thread.delay),
            false => None,
        };
        let mut has_names = [false; 2];
        if self.collector.wants_calls() || call.kind == Kind::Exec {
            let names = has_names.iter_mut().zip(&mut thread.names);
            for ((has_name, bytes), name) in names.zip(call.names) {
                *has_name = read_name(tid, args[name.arg], bytes);
            }
        }
        thread.call = Some(CallInProgress {
            number: call.number,
            args,
            has_names,
            start: clock::monotonic(),
            delay,
        });
        self.resume(tid, 0);
    }

    /// Handles the return of a call at the time `now`.
    fn leave(&mut self, tid: u32, now: u64) {
        let is_inside = self.threads.get(&tid).is_some_and(|it| it.is_inside);
        let call = self.doing(tid, is_inside).ok().and_then(|doing| doing.call);
        let result = match call {
            Some(SyscallStop::Exit { result }) => result,
            Some(SyscallStop::Entry { .. }) => return self.enter(tid),
            _ => return self.resume(tid, 0),
        };
        let Some(thread) = self.threads.get_mut(&tid) else {
            return self.resume(tid, 0);
        };
        let pid = thread.pid;
        thread.is_inside = false;
        if std::mem::take(&mut thread.installs_filter)
            && result >= 0
            && let Some(process) = self.processes.get_mut(&pid)
        {
            process.is_filtered = true;
        }
        let entered = thread.call.take();
        let took = entered.map_or(0, |entered| {
            let took = now.saturating_sub(entered.start);
            took.saturating_sub(
                self.queue
                    .held_up(took, entered.delay, thread.delay.as_ref()),
            )
        });
        // A short call is recorded while its thread runs. For a long call, read the kind of the
        // descriptor from /proc while the thread is stopped: it may close the descriptor next.
        let is_long = took >= LONG_CALL;
        if !is_long {
            self.resume(tid, 0);
        }
        self.record(tid, entered, result, took);
        if is_long {
            self.resume(tid, 0);
        }
    }

    /// Records a call that has returned after `took` nanoseconds.
    fn record(&mut self, tid: u32, entered: Option<CallInProgress>, result: i64, took: u64) {
        let (Some(entered), Some(thread)) = (entered, self.threads.get(&tid)) else {
            return;
        };
        if !self.has_begun {
            if entered.number == EMPTY_FILE_CALL {
                self.empty_calls.push(took);
            }
            return;
        }
        let pid = thread.pid;
        let nanos = took.saturating_sub(self.empty_call);
        let program = self.processes.get(&pid).map(|process| process.program);
        let call = thread.call(tid, &entered, Some(result), nanos);
        self.collector.add(program.unwrap_or_default(), &call);
    }
}

/// Reads a string up to its NUL, or its first [`LONGEST_NAME`] bytes. `false` if it is unreadable.
fn read_name(tid: u32, address: u64, into: &mut Vec<u8>) -> bool {
    /// Bytes of the first read: most names are shorter, and within one page.
    const FIRST: usize = 256;
    if address == 0 {
        return false;
    }
    let mut have = 0;
    for upto in [FIRST, LONGEST_NAME + 1] {
        into.resize(upto, 0);
        let Some(rest) = into.get_mut(have..) else {
            return false;
        };
        let read = ptrace::read_memory(tid, address.wrapping_add(have as u64), rest);
        let short = read < rest.len();
        if let Some(end) = rest.iter().take(read).position(|byte| *byte == 0) {
            into.truncate(have + end);
            return true;
        }
        if short {
            return false;
        }
        have += read;
    }
    into.truncate(LONGEST_NAME);
    true
}
