//! The meter for everybody: ptrace(2), with a seccomp filter so that only file-system calls stop.
//!
//! A call costs two stops, at each of which the thread waits for this process: about 10 µs a call.
//! What two stops cost is measured in the command's own process before it executes the command, and
//! subtracted from the time of each call. A process that installs a seccomp filter of its own stops
//! at all its calls from then on: this meter's filter does not see those that the new one answers.
//!
//! Calls of 32-bit programs are not counted, and set-user-ID programs run without their privilege
//! if this process has none: there are warnings for both. A process has at most one tracer, so a
//! debugger in the command cannot trace its children. When this process ends early, the command is
//! killed: without a tracer all its file-system calls would fail.

use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gate::clock::{self, EMPTY_FILE_CALL};
use gate::command::{Held, Running};
use gate::cpu_time::process_cpu_time;
use gate::file;
use gate::fs::{self, CWD};
use gate::process::{self, Shared};
use gate::ptrace::{self, At, Came, Doing, How, Stop};
use gate::seccomp::{ARCH, Filter};
use gate::{Errno, machine, usage};

use crate::attach::{
    Attach, MOST_LISTS, Status, ended_before, is_asked_to_stop, list_threads, myself, running,
};
use crate::call::{Call, Command, Ended, Fork, LONGEST_NAME, Listener, Meter, Metered};
use crate::collector::{Collector, Timing, run_held, warn_of};
use crate::cpu_time::CpuTime;
use crate::error::{Error, Step, TargetError, Unavailable, WarningKind};
use crate::names::{Attached, OpenFiles};
use crate::syscalls::{self, CLONE, CLONE_FILES, CLONE_FS, CLONE_THREAD, Kind, PRCTL, SECCOMP};
use crate::totals::{Program, Sums};

/// The meter.
pub(crate) struct Ptrace;

impl Meter for Ptrace {
    fn name(&self) -> &'static str {
        "ptrace"
    }

    fn check(&self) -> Result<(), Unavailable> {
        if ARCH == 0 {
            return Err(Unavailable::Architecture);
        }
        let held = Held::fork(c"/", &[], || Ok(()))
            .map_err(|errno| Unavailable::Step(Step::Fork, errno))?;
        ptrace::seize(held.id()).map_err(Unavailable::Ptrace)
    }

    fn run(&self, command: &Command, calls: u64, to: &mut dyn Listener) -> Result<Metered, Error> {
        let numbers = syscalls::all().map(|call| call.number);
        let filter = Filter::trace(numbers.chain([PRCTL, SECCOMP]));
        let words = Shared::new(WORDS).map_err(Step::ShareMemory.early())?;
        let held = Held::fork(&command.program, &command.args, || prepare(&filter, &words))
            .map_err(Step::Fork.early())?;
        ptrace::seize(held.id()).map_err(Unavailable::Ptrace)?;
        let mut tracer = Tracer::new(held.id() as u32, &words, Collector::new(calls, to));
        let timing = run_held(held, command, Step::InstallFilter, |running| {
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
        let words = Shared::new(WORDS).map_err(Step::ShareMemory.early())?;
        words[UNPRIVILEGED].store(u64::from(!process::is_root()), Ordering::SeqCst);
        let mut tracer = Tracer::new(0, &words, Collector::new(calls, to));
        (tracer.threads, tracer.processes) = (HashMap::new(), HashMap::new());
        tracer.has_begun = true;
        let start = clock::monotonic();
        let attached = Ptrace::seize_all(&mut tracer, processes)?;
        let mut cpu = CpuTime::of(&attached);
        tracer.stop_all();
        (attach.ready)(attached.len());
        tracer.follow_attached(attach.until(start), &mut cpu);
        tracer.detach_all();
        let overhead = Duration::from_nanos(tracer.stopped_for);
        let unfollowed = tracer.unfollowed;
        let timing = Timing::detached(attached.len(), start, cpu);
        let mut metered = tracer.collector.finish(self, 0, timing);
        (metered.overhead, metered.lost) = (overhead, unfollowed);
        warn_of(&mut metered, unfollowed, WarningKind::UnfollowedThreads);
        Ok(metered)
    }
}

impl Ptrace {
    /// Attaches to the processes, and returns those that have not ended.
    fn seize_all(tracer: &mut Tracer<'_>, processes: &[u32]) -> Result<Vec<u32>, Error> {
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

/// Calls that install a seccomp filter, with their first arguments: PR_SET_SECCOMP of prctl(2),
/// SECCOMP_SET_MODE_FILTER of seccomp(2).
const INSTALLS: [(u64, u64); 2] = [(PRCTL as u64, 22), (SECCOMP as u64, 1)];

// Words that the command's process writes before it executes the command: whether the filter took
// its right to gain privileges, and nanoseconds of time and CPU time of the empty calls.
const UNPRIVILEGED: usize = 0;
const ELAPSED: usize = 1;
const BUSY: usize = 2;
const WORDS: usize = 3;
/// Empty calls that measure what metering costs, and those before them, until all caches are warm.
const ROUNDS: u32 = 64;
const WARMING: u32 = 16;
/// How long to poll for the next stop before sleeping.
const POLLING: Duration = Duration::from_micros(200);
/// Nanoseconds. A stop that came within this time, wake-up included, came soon.
const SOON: u64 = 500_000;

/// Runs in the command's process, just before it executes the command.
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

/// The call that a thread is in.
#[derive(Clone, Copy)]
struct Entered {
    number: u32,
    args: [u64; 6],
    /// Which of the thread's names are this call's.
    has_names: [bool; 2],
    start: u64,
}

struct Thread {
    pid: u32,
    call: Option<Entered>,
    /// It has entered a call, and stops when that returns. Only this tells entry from return before
    /// Linux 5.3.
    is_inside: bool,
    /// It is in a call that installs a seccomp filter.
    installs_filter: bool,
    /// What the path arguments of the call point to; kept, so that calls do not allocate.
    names: [Vec<u8>; 2],
}

impl Thread {
    fn new(pid: u32) -> Thread {
        Thread {
            pid,
            call: None,
            is_inside: false,
            installs_filter: false,
            names: [Vec::new(), Vec::new()],
        }
    }

    fn call<'a>(
        &'a self,
        tid: u32,
        entered: &Entered,
        result: Option<i64>,
        nanos: u64,
    ) -> Call<'a> {
        let name = |at: usize| entered.has_names[at].then_some(&self.names[at][..]);
        Call {
            pid: self.pid,
            tid,
            number: entered.number,
            args: entered.args,
            name: name(0),
            other: name(1),
            result,
            start: entered.start,
            nanos,
        }
    }
}

#[derive(Default)]
struct Process {
    program: Program,
    /// Its parent's id and serial number: the kernel reuses ids.
    parent: (u32, u64),
    serial: u64,
    /// Live processes that it has created.
    children: u32,
    /// It has a seccomp filter of its own, which may answer calls before ours sees them: it stops
    /// at all calls.
    is_filtered: bool,
}

/// Decides whether to poll for the next stop instead of sleeping. While a processor is idle and
/// stops follow each other soon, polling is faster: a sleeping processor has to be woken for each
/// stop, which takes a hundred times as long as the stop on a virtual machine.
#[derive(Default)]
struct Poller {
    processors: usize,
    /// The last stop came soon.
    is_busy: bool,
    /// Waits since the preemptions of this thread were last read, and their number then.
    waits: u32,
    preemptions: i64,
    /// How many more times to read the preemptions before polling again.
    pause: u32,
}

impl Poller {
    fn should_poll(&mut self, threads: usize) -> bool {
        const WAITS: u32 = 64;
        const PAUSE: u32 = 64;
        self.waits += 1;
        if self.waits >= WAITS {
            self.waits = 0;
            let before = std::mem::replace(&mut self.preemptions, usage::preemptions());
            self.pause = match self.preemptions == before {
                true => self.pause.saturating_sub(1),
                false => PAUSE,
            };
        }
        self.is_busy && self.pause == 0 && threads < self.processors
    }
}

/// Traces a command and its descendants.
struct Tracer<'a> {
    collector: Collector<'a>,
    /// The words of the command's process.
    words: &'a [AtomicU64],
    threads: HashMap<u32, Thread>,
    processes: HashMap<u32, Process>,
    last_serial: u64,
    /// Threads that have stopped or ended before the stop of the fork that created them.
    early: Vec<u32>,
    gone: Vec<u32>,
    root: u32,
    poller: Poller,
    /// The command's own program has been executed.
    has_begun: bool,
    /// Nanoseconds of the empty calls, until then; and their median.
    empty_calls: Vec<u64>,
    empty_call: u64,
    /// Some process has outlived its parent, so that its CPU time is not in that of our children.
    has_orphans: bool,
    user: Duration,
    sys: Duration,
    /// The kernel has no `PTRACE_GET_SYSCALL_INFO` (before Linux 5.3).
    lacks_syscall_info: bool,
    is_ending: bool,
    /// Processes whose threads came and went too fast to find all.
    unfollowed: u64,
    /// Nanoseconds that stopped threads have waited for this process, once it knew of the stop.
    stopped_for: u64,
    /// When [`Tracer::wait`] is to return at the latest, without intervals.
    limit: Option<Duration>,
}

impl<'a> Tracer<'a> {
    fn new(root: u32, words: &'a [AtomicU64], collector: Collector<'a>) -> Tracer<'a> {
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
            limit: None,
        }
    }

    /// Traces until no process is left, and returns how the command itself ended.
    fn follow(&mut self, running: &mut Running) -> Ended {
        let mut command_ended = None;
        loop {
            match self.wait() {
                Ok((tid, Came::Stopped(stop))) => self.stopped(tid, stop),
                Ok((tid, Came::Ended(ended))) => {
                    if tid == self.root && command_ended.is_none() {
                        running.ended();
                        command_ended = Some(Ended::from(&ended));
                    }
                    self.ended(tid, &ended);
                }
                Err(Errno::EINTR | Errno::EAGAIN) => {}
                Err(_) => return command_ended.unwrap_or(Ended::Exited(0)),
            }
            self.tick();
            if running.asked_to_stop() && !self.processes.is_empty() {
                self.kill_all();
            }
        }
    }

    fn tick(&mut self) {
        let _ = self.collector.tick(|_| Ok::<_, Errno>(Sums::new()));
    }

    /// Traces all threads of a process that runs already. Returns whether there are any.
    fn seize(&mut self, pid: u32) -> gate::Result<bool> {
        let before = OpenFiles::of(pid);
        let mut seized = Vec::new();
        let mut seen = HashSet::new();
        // A thread that is not traced yet may create others; one that is has its threads traced.
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
                    Err(_) if self.is_traced_by_us(tid) => {}
                    Err(errno) => return Err(errno),
                }
                // So that it can be detached, whatever follows.
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
            is_filtered: true, // it stops at all its calls
            ..Process::default()
        };
        self.processes.insert(pid, process);
        self.collector.attach(&Attached {
            pid,
            threads: seized,
            program,
            open: OpenFiles::of(pid).since(&before),
        });
        Ok(true)
    }

    fn is_traced_by_us(&self, tid: u32) -> bool {
        let tracer = Status::read(tid).map(|status| status.tracer);
        tracer.is_some() && tracer == myself()
    }

    /// Waits until the threads that were seized have stopped once, a few milliseconds at most. A
    /// thread that cannot be interrupted is in a call that has begun before. No call of it is lost:
    /// the kernel stops it when it returns from that call, before it can make another one.
    fn stop_all(&mut self) {
        const LIMIT: u64 = 200_000_000;
        let until = clock::monotonic() + LIMIT;
        let mut left: HashSet<u32> = self.threads.keys().copied().collect();
        self.limit = Some(Duration::from_millis(10));
        while !left.is_empty() && clock::monotonic() < until {
            match self.wait() {
                Ok((tid, came)) => {
                    left.remove(&tid);
                    self.came(tid, came);
                }
                Err(Errno::EINTR | Errno::EAGAIN) => {}
                Err(_) => return,
            }
        }
    }

    fn came(&mut self, tid: u32, came: Came) {
        let since = clock::monotonic();
        match came {
            Came::Stopped(stop) => self.stopped(tid, stop),
            Came::Ended(ended) => self.ended(tid, &ended),
        }
        self.stopped_for += clock::monotonic().saturating_sub(since);
    }

    /// Traces until no process is left, until this time of the monotonic clock, or until the user asks
    /// this process to stop.
    fn follow_attached(&mut self, until: Option<u64>, cpu: &mut CpuTime<'_>) {
        const LONGEST: Duration = Duration::from_millis(100);
        loop {
            let left = until.map(|until| until.saturating_sub(clock::monotonic()));
            if left == Some(0) || is_asked_to_stop() || self.threads.is_empty() {
                return;
            }
            self.limit = Some(left.map_or(LONGEST, |left| LONGEST.min(Duration::from_nanos(left))));
            match self.wait() {
                Ok((tid, came)) => self.came(tid, came),
                Err(Errno::EINTR | Errno::EAGAIN) => {}
                Err(_) => return,
            }
            self.tick();
            cpu.update();
        }
    }

    /// Lets all threads go on as they were. What cannot be stopped now, the kernel detaches when this
    /// process ends.
    fn detach_all(&mut self) {
        const LIMIT: u64 = 2_000_000_000;
        let until = clock::monotonic() + LIMIT;
        // Those have stopped already.
        for tid in std::mem::take(&mut self.early) {
            let _ = ptrace::detach(tid, 0);
        }
        let mut left: HashSet<u32> = self.threads.keys().copied().collect();
        left.retain(|tid| ptrace::interrupt(*tid).is_ok());
        let mut detached = HashSet::new();
        self.limit = Some(Duration::from_millis(20));
        while !left.is_empty() && clock::monotonic() < until {
            match self.wait() {
                Ok((tid, Came::Stopped(stop))) => {
                    let other = ptrace::event_message(tid).ok();
                    let signal = match stop {
                        Stop::Signal(signal) => signal,
                        Stop::Makes => {
                            // The new thread is traced, and stops, too.
                            left.extend(other.filter(|other| !detached.contains(other)));
                            0
                        }
                        Stop::Execs => {
                            // The thread has got the id of the process.
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
                Ok((tid, Came::Ended(_))) => drop(left.remove(&tid)),
                Err(Errno::EINTR) => {}
                // A main thread that has ended before others does not stop.
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

    fn wait(&mut self) -> gate::Result<(u32, Came)> {
        let polling = match self.poller.should_poll(self.threads.len()) {
            true => POLLING,
            false => Duration::ZERO,
        };
        let before = clock::monotonic();
        let limit = match (self.limit, self.collector.until_tick()) {
            (Some(limit), Some(tick)) => Some(limit.min(tick)),
            (limit, tick) => limit.or(tick),
        };
        let came = ptrace::wait(self.has_orphans, polling, limit);
        self.poller.is_busy = came.is_ok() && clock::monotonic().saturating_sub(before) < SOON;
        came
    }

    fn stopped(&mut self, tid: u32, stop: Stop) {
        match stop {
            Stop::Enters => self.enter(tid),
            Stop::Returns => self.leave(tid, clock::monotonic()),
            Stop::Makes => self.fork(tid),
            Stop::Execs => self.exec(tid),
            Stop::Begins if self.threads.contains_key(&tid) => self.resume(tid, 0),
            Stop::Begins => self.early.push(tid),
            Stop::Group => drop(ptrace::resume(tid, How::Listen, 0)),
            Stop::Signal(signal) => self.resume(tid, signal),
        }
    }

    /// What a stopped thread does. Before Linux 5.3 its registers say which call that is, and the stops
    /// before this one whether it has entered it.
    fn doing(&mut self, tid: u32, is_inside: bool) -> gate::Result<Doing> {
        if !self.lacks_syscall_info {
            match ptrace::syscall_info(tid) {
                Err(Errno::EIO | Errno::EINVAL) => self.lacks_syscall_info = true,
                other => return other,
            }
        }
        let registers = ptrace::call_registers(tid)?;
        Ok(Doing {
            arch: if registers.is_some() { ARCH } else { 0 },
            call: registers.map(|registers| match is_inside {
                true => At::Exit {
                    result: registers.result,
                },
                false => At::Entry {
                    number: registers.number,
                    args: registers.args,
                },
            }),
        })
    }

    /// Resumes a thread, until the call that it is in returns. A thread that has been killed
    /// meanwhile cannot be resumed; the next wait says that it has ended.
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
            How::Syscall
        } else {
            How::Cont
        };
        let _ = ptrace::resume(tid, how, signal);
    }

    /// A thread enters a call. One that stops at all calls may stop here twice: at the call, and at
    /// this meter's filter.
    fn enter(&mut self, tid: u32) {
        let (number, args) = match self.doing(tid, false) {
            Ok(Doing {
                call: Some(At::Entry { number, args }),
                arch: ARCH,
            }) => (number, args),
            _ => return self.resume(tid, 0),
        };
        let Some(thread) = self.threads.get_mut(&tid) else {
            return self.resume(tid, 0);
        };
        thread.is_inside = true;
        thread.installs_filter = INSTALLS.contains(&(number, args[0]));
        let Some(call) = u32::try_from(number).ok().and_then(syscalls::by_number) else {
            return self.resume(tid, 0);
        };
        let mut has_names = [false; 2];
        if self.collector.wants_calls() || call.kind == Kind::Exec {
            let names = has_names.iter_mut().zip(&mut thread.names);
            for ((has_name, bytes), name) in names.zip(call.names) {
                *has_name = read_name(tid, args[name.arg], bytes);
            }
        }
        thread.call = Some(Entered {
            number: call.number,
            args,
            has_names,
            start: clock::monotonic(),
        });
        self.resume(tid, 0);
    }

    /// A call returns, at the time `now`.
    fn leave(&mut self, tid: u32, now: u64) {
        let is_inside = self.threads.get(&tid).is_some_and(|it| it.is_inside);
        let call = self.doing(tid, is_inside).ok().and_then(|doing| doing.call);
        let result = match call {
            Some(At::Exit { result }) => result,
            Some(At::Entry { .. }) => return self.enter(tid),
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
        self.resume(tid, 0); // now, so that it runs while its call is recorded
        let (Some(entered), Some(thread)) = (entered, self.threads.get(&tid)) else {
            return;
        };
        let took = now.saturating_sub(entered.start);
        if !self.has_begun {
            if entered.number == EMPTY_FILE_CALL {
                self.empty_calls.push(took);
            }
            return;
        }
        let nanos = took.saturating_sub(self.empty_call);
        let program = self.processes.get(&pid).map(|process| process.program);
        let call = thread.call(tid, &entered, Some(result), nanos);
        self.collector.add(program.unwrap_or_default(), &call);
    }

    /// A thread has created a process or a thread.
    fn fork(&mut self, by: u32) {
        let parent = self.threads.get(&by).map(|thread| thread.pid);
        if let (Ok(tid), Some(parent)) = (ptrace::event_message(by), parent) {
            let flags = clone_flags(by);
            if !self.threads.contains_key(&tid) {
                let is_thread = flags & CLONE_THREAD != 0;
                self.begin(&Fork {
                    parent,
                    pid: if is_thread { parent } else { tid },
                    tid,
                    shares_files: flags & CLONE_FILES != 0,
                    shares_fs: flags & CLONE_FS != 0,
                });
            }
            if let Some(at) = self.early.iter().position(|early| *early == tid) {
                self.early.swap_remove(at);
                self.resume(tid, 0);
            } else if let Some(at) = self.gone.iter().position(|gone| *gone == tid) {
                self.gone.swap_remove(at);
                self.exit(tid);
            }
        }
        self.resume(by, 0);
    }

    fn begin(&mut self, fork: &Fork) {
        let parent = self.processes.get(&fork.parent);
        let is_inside = parent.is_some_and(|parent| parent.is_filtered);
        let thread = Thread {
            is_inside, // the fork that it returns from
            ..Thread::new(fork.pid)
        };
        self.threads.insert(fork.tid, thread);
        if fork.pid == fork.tid {
            self.last_serial += 1;
            let mut made = Process {
                parent: (fork.parent, 0),
                serial: self.last_serial,
                ..Process::default()
            };
            if let Some(parent) = self.processes.get_mut(&fork.parent) {
                parent.children += 1;
                made.parent.1 = parent.serial;
                (made.program, made.is_filtered) = (parent.program, parent.is_filtered);
            }
            self.processes.insert(fork.pid, made);
        }
        self.collector.to.fork(fork);
    }

    /// Begins threads whose parents were perhaps killed before the stop of their fork; /proc says
    /// whose they are.
    fn begin_early(&mut self) {
        for tid in std::mem::take(&mut self.early) {
            let status = CString::new(format!("/proc/{tid}/status")).unwrap_or_default();
            let status = file::read_kernel(&status).unwrap_or_default();
            let field = |name: &[u8]| {
                let mut lines = status.split(|byte| *byte == b'\n');
                let value = lines.find_map(|line| line.strip_prefix(name))?;
                str::from_utf8(value.trim_ascii()).ok()?.parse().ok()
            };
            let pid = field(b"Tgid:").unwrap_or(tid);
            let is_thread = pid != tid;
            let parent = if is_thread {
                Some(pid)
            } else {
                field(b"PPid:")
            };
            self.begin(&Fork {
                parent: parent.unwrap_or(self.root),
                pid,
                tid,
                shares_files: is_thread,
                shares_fs: is_thread,
            });
            self.resume(tid, 0);
        }
    }

    /// A process executes a program. Its other threads have ended, and the one that goes on has got
    /// the id of the process.
    fn exec(&mut self, pid: u32) {
        let former = ptrace::event_message(pid).unwrap_or(pid);
        let threads = self.threads.iter();
        let ended = threads.filter(|(tid, thread)| thread.pid == pid && **tid != former);
        let ended: Vec<u32> = ended.map(|(tid, _)| *tid).collect();
        for tid in ended {
            self.remove(tid);
            if tid != pid {
                self.collector.to.exit(pid, tid);
            }
        }
        let thread = self.threads.remove(&former);
        let given = thread.as_ref().map(|thread| thread.names[0].clone());
        self.threads.extend(thread.map(|thread| (pid, thread)));
        if pid == self.root && !self.has_begun {
            self.has_begun = true;
            self.empty_calls.sort_unstable();
            let median = self.empty_calls.get(self.empty_calls.len() / 2);
            self.empty_call = median.copied().unwrap_or_default();
        }
        let exe = CString::new(format!("/proc/{pid}/exe")).unwrap_or_default();
        let program = fs::readlinkat(CWD, &exe).unwrap_or_else(|_| given.unwrap_or_default());
        if let Some(process) = self.processes.get_mut(&pid) {
            process.program = self.collector.totals.program(&program);
        }
        self.warn_of_differences(pid, &exe, &program);
        self.collector.to.exec(pid, &program);
        self.resume(pid, 0);
    }

    /// Warns, once each, of what would be different without a meter.
    fn warn_of_differences(&mut self, pid: u32, exe: &CString, program: &[u8]) {
        let is_given = |warning: &WarningKind| matches!(warning, WarningKind::OtherArchitecture(_));
        let has_other_arch = !self.collector.warnings.iter().any(is_given)
            && self.doing(pid, true).is_ok_and(|doing| doing.arch != ARCH);
        let warnings = &mut self.collector.warnings;
        if has_other_arch {
            warnings.push(WarningKind::OtherArchitecture(program.to_vec()));
        }
        let is_unprivileged = self.words[UNPRIVILEGED].load(Ordering::SeqCst) != 0;
        let is_given = |warning: &WarningKind| matches!(warning, WarningKind::Unprivileged(_));
        if is_unprivileged && !warnings.iter().any(is_given) {
            let wanted = fs::Want::MODE | fs::Want::UID | fs::Want::GID;
            let gains_privilege = |file: fs::Statx| {
                let (uid, gid) = process::ids();
                file.mode & 0o4000 != 0 && file.uid != uid
                    || file.mode & 0o2010 == 0o2010 && file.gid != gid
            };
            if fs::statx(CWD, exe, fs::At::empty(), wanted).is_ok_and(gains_privilege) {
                warnings.push(WarningKind::Unprivileged(program.to_vec()));
            }
        }
    }

    fn ended(&mut self, tid: u32, ended: &process::Ended) {
        let Some(thread) = self.threads.get(&tid) else {
            return self.gone.push(tid);
        };
        if thread.pid == tid
            && let Some(process) = self.processes.get(&tid)
        {
            let (parent, serial) = process.parent;
            let parent = self.processes.get(&parent);
            let is_orphan = parent.is_none_or(|parent| parent.serial != serial);
            if is_orphan && tid != self.root {
                self.user += ended.user;
                self.sys += ended.sys;
            }
            self.has_orphans |= process.children > 0;
        }
        self.exit(tid);
        self.begin_early();
    }

    /// A thread has ended, and with the main thread its process.
    fn exit(&mut self, tid: u32) {
        let Some(pid) = self.remove(tid) else { return };
        if pid == tid
            && let Some(process) = self.processes.remove(&pid)
            && let Some(parent) = self.processes.get_mut(&process.parent.0)
            && parent.serial == process.parent.1
        {
            parent.children = parent.children.saturating_sub(1);
        }
        self.collector.to.exit(pid, tid);
    }

    /// Removes a thread, and returns its process. The call that it is in has not returned.
    fn remove(&mut self, tid: u32) -> Option<u32> {
        let thread = self.threads.remove(&tid)?;
        if let Some(entered) = thread.call.filter(|_| self.has_begun) {
            self.collector.end_in(&thread.call(tid, &entered, None, 0));
        }
        Some(thread.pid)
    }

    /// Kills what the command has left behind: the user does not wait for it.
    fn kill_all(&mut self) {
        if !std::mem::replace(&mut self.is_ending, true) {
            let warning = WarningKind::Killed(self.processes.len());
            self.collector.warnings.push(warning);
        }
        self.processes.keys().copied().for_each(ptrace::kill);
    }
}

/// Reads a name up to its NUL, or its first [`LONGEST_NAME`] bytes. `false` if it cannot be read.
fn read_name(tid: u32, address: u64, into: &mut Vec<u8>) -> bool {
    /// Most names are shorter, and within one page.
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

/// The flags of the clone(2) or clone3(2) that a thread is in; none for fork(2) and vfork(2), or if
/// they cannot be read (a 32-bit program).
fn clone_flags(tid: u32) -> u64 {
    const CLONE3: u64 = 435;
    let registers = ptrace::call_registers(tid).ok().flatten();
    match registers.map(|registers| (registers.number, registers.args[0])) {
        Some((call, flags)) if call == u64::from(CLONE) => flags,
        Some((CLONE3, address)) => {
            let mut flags = [0; 8];
            let read = ptrace::read_memory(tid, address, &mut flags);
            if read == flags.len() {
                u64::from_ne_bytes(flags)
            } else {
                0
            }
        }
        _ => 0,
    }
}
