//! The meter for everybody: ptrace(2), with a seccomp filter so that only file-system calls stop.
//!
//! A call costs two stops. At each the thread waits until this process has run: that is dear (some
//! 10 µs a call), but takes no privilege. What two stops take is tried out in the command's own
//! process before it becomes the command, and taken off the time of each call.
//!
//! A process that puts itself under a filter of its own stops at all its calls from then on: those
//! that its filter answers would never come to ours.
//!
//! What this way cannot see, or changes: calls of 32-bit programs pass uncounted (it is said); from
//! an unprivileged process, set-user-ID programs run without their privilege (it is said); a
//! process cannot be traced by two, so a debugger in the command finds its children taken. When
//! this process ends early the command is killed: without a tracer its file-system calls would all
//! fail.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gate::clock::{self, EMPTY_FILE_CALL};
use gate::command::{Held, Running, Unstarted};
use gate::cpu_time::process_cpu_time;
use gate::file;
use gate::fs::{self, CWD};
use gate::process::{self, Shared};
use gate::ptrace::{self, At, Came, Doing, How, Stop};
use gate::seccomp::{ARCH, Filter};
use gate::{Errno, machine, usage};

use crate::call::{
    Call, Choice, Command, Ended, Fork, LONGEST_NAME, Listener, Meter, Metered, Want,
};
use crate::error::{Error, Step, Unavailable, WarningKind};
use crate::syscalls::{self, Kind, Name};
use crate::totals::{Program, Totals};

/// The meter.
pub struct Ptrace;

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

    fn run(&self, command: &Command, want: Want, to: &mut dyn Listener) -> Result<Metered, Error> {
        let filter = Filter::trace(
            syscalls::all()
                .iter()
                .map(|call| call.number)
                .chain([PRCTL, SECCOMP]),
        );
        let told = Shared::new(WORDS).map_err(Step::ShareMemory.early())?;
        let prepare = || prepare(&filter, &told);
        let held =
            Held::fork(&command.program, &command.args, prepare).map_err(Step::Fork.early())?;
        ptrace::seize(held.id()).map_err(Unavailable::Ptrace)?;
        let before = usage::children_time();
        let start = clock::monotonic();
        let mut running = held.go().map_err(Step::Start.early())?;

        let mut watch = Watch::new(running.id() as u32, want.calls(), &told, to);
        let ended = watch.follow(&mut running);
        let real = Duration::from_nanos(clock::monotonic().saturating_sub(start));
        match running.unstarted() {
            Some(Unstarted::NotRun(errno)) => return Err(command.not_executed(errno)),
            Some(Unstarted::Unprepared(errno)) => {
                return Err(Step::InstallFilter.early()(errno));
            }
            None if watch.too_old => {
                return Err(Unavailable::NeedsLinux("5.3").into());
            }
            None => {}
        }
        let after = usage::children_time();
        let all_calls = |word: usize| {
            let per_call = told[word].load(Ordering::SeqCst) / u64::from(ROUNDS);
            Duration::from_nanos(per_call.saturating_mul(watch.calls))
        };
        let (overhead, busy) = (all_calls(ELAPSED), all_calls(BUSY));
        let (totals, crowded) = watch.totals.finish();
        let mut warnings = watch.warnings;
        warnings.extend(crowded);
        Ok(Metered {
            meter: self.name(),
            sees_names: self.sees_names(),
            choice: Choice::Requested,
            warnings,
            totals,
            reported: watch.reported,
            unfinished: watch.unfinished,
            lost: 0,
            overhead,
            ended,
            real,
            user: after.0.saturating_sub(before.0) + watch.user,
            sys: (after.1.saturating_sub(before.1) + watch.sys).saturating_sub(busy),
        })
    }
}

// Calls that install a seccomp filter, and what they say then: PR_SET_SECCOMP of prctl(2),
// SECCOMP_SET_MODE_FILTER of seccomp(2).
const PRCTL: u32 = if cfg!(target_arch = "x86_64") {
    157
} else {
    167
};
const SECCOMP: u32 = if cfg!(target_arch = "x86_64") {
    317
} else {
    277
};
const INSTALLS: [(u64, u64); 2] = [(PRCTL as u64, 22), (SECCOMP as u64, 1)];

/// What the command's process tells before it is the command.
const WORDS: usize = 3;
const GIVEN_UP: usize = 0;
const ELAPSED: usize = 1;
const BUSY: usize = 2;
/// Calls that nobody counts, to see what metering costs; and so many before them, until all is
/// warm.
const ROUNDS: u32 = 64;
const WARMING: u32 = 16;
/// How long to look for the next stop before going to sleep; and what is not long to have waited
/// for one, in nanoseconds, with all that waking up takes.
const AWAKE: Duration = Duration::from_micros(200);
const SWIFT: u64 = 500_000;

/// Run in the command's process, just before it becomes the command.
fn prepare(filter: &Filter, told: &[AtomicU64]) -> gate::Result<()> {
    let given_up = filter.install()?;
    told[GIVEN_UP].store(u64::from(given_up), Ordering::SeqCst);
    (0..WARMING).for_each(|_| clock::empty_file_call());
    let (before, busy) = (clock::monotonic(), process_cpu_time());
    (0..ROUNDS).for_each(|_| clock::empty_file_call());
    told[ELAPSED].store(clock::monotonic().saturating_sub(before), Ordering::SeqCst);
    told[BUSY].store(
        process_cpu_time().saturating_sub(busy).as_nanos() as u64,
        Ordering::SeqCst,
    );
    Ok(())
}

/// The call that a thread is in.
#[derive(Clone, Copy)]
struct Entered {
    number: u32,
    args: [u64; 6],
    /// Which of the thread's names are this call's.
    named: [bool; 2],
    start: u64,
}

struct Thread {
    pid: u32,
    call: Option<Entered>,
    /// It is in a call that installs a filter.
    installs: bool,
    /// What the path arguments of the call point to; kept, so that no call allocates.
    names: [Vec<u8>; 2],
}

impl Thread {
    fn new(pid: u32) -> Thread {
        Thread {
            pid,
            call: None,
            installs: false,
            names: [Vec::new(), Vec::new()],
        }
    }

    fn shown<'a>(
        &'a self,
        entered: &Entered,
        result: Option<i64>,
        nanos: u64,
        tid: u32,
    ) -> Call<'a> {
        let [name, other] = &self.names;
        Call {
            pid: self.pid,
            tid,
            number: entered.number,
            args: entered.args,
            name: entered.named[0].then_some(&name[..]),
            other: entered.named[1].then_some(&other[..]),
            result,
            start: entered.start,
            nanos,
        }
    }
}

struct Process {
    program: Program,
    /// The process that made it; and its serial, since ids come again.
    parent: (u32, u64),
    serial: u64,
    /// Processes that it has made and that live.
    children: u32,
    /// It is under a filter of its own, which may answer calls before ours sees them: it stops at
    /// all.
    filtered: bool,
}

/// Whether there is a processor to spare. While there is, and stops come one upon the other, this
/// side stays awake: a processor that sleeps has to be woken for each, and on a virtual machine
/// that takes a hundred times as long as the stop.
struct Spare {
    processors: usize,
    /// It did not take long until the last stop.
    swift: bool,
    /// Waits since it was last looked whether somebody else had this thread's processor, and how
    /// often that was so by then.
    waits: u32,
    preemptions: i64,
    /// Looks until which it is taken for granted that somebody wants it again.
    rest: u32,
}

impl Spare {
    fn is_there(&mut self, threads: usize) -> bool {
        const LOOK: u32 = 64;
        const REST: u32 = 64;
        self.waits += 1;
        if self.waits >= LOOK {
            self.waits = 0;
            let preemptions = usage::preemptions();
            let wanted = preemptions != self.preemptions;
            self.rest = if wanted {
                REST
            } else {
                self.rest.saturating_sub(1)
            };
            self.preemptions = preemptions;
        }
        self.swift && self.rest == 0 && threads < self.processors
    }
}

/// The watch over the command and all that comes of it.
struct Watch<'a> {
    to: &'a mut dyn Listener,
    told_by_child: &'a [AtomicU64],
    /// So many calls are to be told, and have been.
    tell: u64,
    reported: u64,
    calls: u64,
    unfinished: u64,
    totals: Totals,
    threads: HashMap<u32, Thread>,
    processes: HashMap<u32, Process>,
    serial: u64,
    /// Threads that have stopped or ended before their maker was seen to make them.
    early: Vec<u32>,
    gone: Vec<u32>,
    root: u32,
    spare: Spare,
    /// The command's own program is in place.
    began: bool,
    /// What the empty calls took, until then; afterwards what a call takes that does nothing.
    trips: Vec<u64>,
    trip: u64,
    /// Some process has outlived its maker, so that nobody adds up what it uses.
    orphans: bool,
    user: Duration,
    sys: Duration,
    too_old: bool,
    ending: bool,
    warnings: Vec<WarningKind>,
    warned_of_arch: bool,
    warned_of_setuid: bool,
}

impl<'a> Watch<'a> {
    fn new(
        root: u32,
        tell: u64,
        told_by_child: &'a [AtomicU64],
        to: &'a mut dyn Listener,
    ) -> Watch<'a> {
        let process = Process {
            program: Program::default(),
            parent: (0, 0),
            serial: 0,
            children: 0,
            filtered: false,
        };
        Watch {
            to,
            told_by_child,
            tell,
            reported: 0,
            calls: 0,
            unfinished: 0,
            totals: Totals::default(),
            threads: HashMap::from([(root, Thread::new(root))]),
            processes: HashMap::from([(root, process)]),
            serial: 0,
            early: Vec::new(),
            gone: Vec::new(),
            root,
            spare: Spare {
                processors: machine::processors(),
                swift: false,
                waits: 0,
                preemptions: 0,
                rest: 0,
            },
            began: false,
            trips: Vec::with_capacity((WARMING + ROUNDS) as usize),
            trip: 0,
            orphans: false,
            user: Duration::ZERO,
            sys: Duration::ZERO,
            too_old: false,
            ending: false,
            warnings: Vec::new(),
            warned_of_arch: false,
            warned_of_setuid: false,
        }
    }

    /// Until nobody is left. Says how the command itself ended.
    fn follow(&mut self, running: &mut Running) -> Ended {
        let mut how = None;
        loop {
            match self.wait() {
                Ok((tid, Came::Stopped(stop))) => self.stopped(tid, stop),
                Ok((tid, Came::Ended(ended))) => {
                    if tid == self.root && how.is_none() {
                        running.ended();
                        let status = ended.status.unwrap_or_default();
                        how = Some(ended.signal.map_or(Ended::Exited(status), Ended::Killed));
                    }
                    self.ended(tid, &ended);
                }
                Err(Errno::EINTR | Errno::EAGAIN) => {}
                Err(_) => return how.unwrap_or(Ended::Exited(0)),
            }
            if running.asked_to_stop() && !self.processes.is_empty() {
                self.end_all();
            }
        }
    }

    fn wait(&mut self) -> gate::Result<(u32, Came)> {
        let awake = if self.spare.is_there(self.threads.len()) {
            AWAKE
        } else {
            Duration::ZERO
        };
        let before = clock::monotonic();
        let came = ptrace::wait(self.orphans, awake);
        self.spare.swift = came.is_ok() && clock::monotonic().saturating_sub(before) < SWIFT;
        came
    }

    fn stopped(&mut self, tid: u32, stop: Stop) {
        match stop {
            Stop::Enters => self.enters(tid),
            Stop::Returns => self.returns(tid, clock::monotonic()),
            Stop::Makes => self.makes(tid),
            Stop::Execs => self.execs(tid),
            Stop::Begins if self.threads.contains_key(&tid) => self.go_on(tid, 0),
            Stop::Begins => self.early.push(tid),
            Stop::Group => drop(ptrace::resume(tid, How::Listen, 0)),
            Stop::Signal(signal) => self.go_on(tid, signal),
        }
    }

    /// Who has been killed meanwhile cannot go on; that comes up in the next wait. A call that a
    /// thread is in must be seen to return.
    fn go_on(&self, tid: u32, signal: i32) {
        let is_filtered = |thread: &Thread| {
            self.processes
                .get(&thread.pid)
                .is_some_and(|process| process.filtered)
        };
        let all = |thread: &Thread| thread.call.is_some() || thread.installs || is_filtered(thread);
        let how = if self.threads.get(&tid).is_some_and(all) {
            How::Syscall
        } else {
            How::Cont
        };
        let _ = ptrace::resume(tid, how, signal);
    }

    /// At the filter; or before that, who stops at all calls. The latter may be followed by the
    /// former.
    fn enters(&mut self, tid: u32) {
        let doing = ptrace::syscall_info(tid);
        if let Err(Errno::EIO | Errno::EINVAL) = doing {
            self.too_old = true;
            return ptrace::kill(self.root);
        }
        if let (
            Ok(Doing {
                call: Some(At::Entry { number, args }),
                arch: ARCH,
            }),
            Some(thread),
        ) = (doing, self.threads.get_mut(&tid))
        {
            thread.installs = INSTALLS.contains(&(number, args[0]));
            let Some(call) = u32::try_from(number).ok().and_then(syscalls::by_number) else {
                return self.go_on(tid, 0);
            };
            let mut entered = Entered {
                number: call.number,
                args,
                named: [false; 2],
                start: 0,
            };
            if self.reported < self.tell || call.kind == Kind::Exec {
                let places = entered
                    .named
                    .iter_mut()
                    .zip(&mut thread.names)
                    .zip(call.names);
                for ((named, bytes), Name { arg, .. }) in places {
                    let address = args.get(*arg).copied().unwrap_or_default();
                    *named = read_name(tid, address, bytes);
                }
            }
            entered.start = clock::monotonic();
            thread.call = Some(entered);
        }
        self.go_on(tid, 0);
    }

    fn returns(&mut self, tid: u32, now: u64) {
        let result = match ptrace::syscall_info(tid) {
            Ok(Doing {
                call: Some(At::Exit { result }),
                ..
            }) => result,
            Ok(Doing {
                call: Some(At::Entry { .. }),
                ..
            }) => return self.enters(tid),
            _ => return self.go_on(tid, 0),
        };
        let Some(thread) = self.threads.get_mut(&tid) else {
            return self.go_on(tid, 0);
        };
        let pid = thread.pid;
        if std::mem::take(&mut thread.installs)
            && result >= 0
            && let Some(process) = self.processes.get_mut(&pid)
        {
            process.filtered = true;
        }
        let entered = thread.call.take();
        // It may run on while it is put down what it did.
        self.go_on(tid, 0);
        let (Some(entered), Some(thread)) = (entered, self.threads.get(&tid)) else {
            return;
        };
        let took = now.saturating_sub(entered.start);
        if !self.began {
            if entered.number == EMPTY_FILE_CALL {
                self.trips.push(took);
            }
            return;
        }
        let nanos = took.saturating_sub(self.trip);
        let call = thread.shown(&entered, Some(result), nanos, tid);
        let program = self
            .processes
            .get(&call.pid)
            .map(|process| process.program)
            .unwrap_or_default();
        self.calls += 1;
        self.totals
            .add(program, call.pid, call.number, 1, nanos, call.errno());
        if self.reported < self.tell {
            self.reported += 1;
            self.to.call(&call);
        }
    }

    fn makes(&mut self, maker: u32) {
        let made = ptrace::event_message(maker);
        if let (Ok(tid), Some(parent)) = (made, self.threads.get(&maker).map(|thread| thread.pid)) {
            let flags = clone_flags(maker);
            let pid = if flags & THREAD != 0 { parent } else { tid };
            if !self.threads.contains_key(&tid) {
                let (shares_files, shares_fs) = (flags & FILES != 0, flags & FS != 0);
                self.begins(&Fork {
                    parent,
                    pid,
                    tid,
                    shares_files,
                    shares_fs,
                });
            }
            if let Some(at) = self.early.iter().position(|early| *early == tid) {
                self.early.swap_remove(at);
                self.go_on(tid, 0);
            } else if let Some(at) = self.gone.iter().position(|gone| *gone == tid) {
                self.gone.swap_remove(at);
                self.forget(tid);
            }
        }
        self.go_on(maker, 0);
    }

    fn begins(&mut self, fork: &Fork) {
        self.threads.insert(fork.tid, Thread::new(fork.pid));
        if fork.pid == fork.tid {
            self.serial += 1;
            let mut made = Process {
                program: Program::default(),
                parent: (fork.parent, 0),
                serial: self.serial,
                children: 0,
                filtered: false,
            };
            if let Some(maker) = self.processes.get_mut(&fork.parent) {
                maker.children += 1;
                (made.program, made.parent.1, made.filtered) =
                    (maker.program, maker.serial, maker.filtered);
            }
            self.processes.insert(fork.pid, made);
        }
        self.to.fork(fork);
    }

    /// Those whose maker may have been killed before it could say that it has made them: they say
    /// themselves what they are.
    fn adopt(&mut self) {
        for tid in std::mem::take(&mut self.early) {
            let status = CString::new(format!("/proc/{tid}/status")).unwrap_or_default();
            let status = file::read_kernel(&status).unwrap_or_default();
            let field = |name: &[u8]| {
                let value = status
                    .split(|byte| *byte == b'\n')
                    .find_map(|line| line.strip_prefix(name));
                value.and_then(|value| str::from_utf8(value.trim_ascii()).ok()?.parse::<u32>().ok())
            };
            let pid = field(b"Tgid:").unwrap_or(tid);
            let is_thread = pid != tid;
            let parent = if is_thread {
                pid
            } else {
                field(b"PPid:").unwrap_or(self.root)
            };
            self.begins(&Fork {
                parent,
                pid,
                tid,
                shares_files: is_thread,
                shares_fs: is_thread,
            });
            self.go_on(tid, 0);
        }
    }

    fn execs(&mut self, pid: u32) {
        let former = ptrace::event_message(pid).unwrap_or(pid);
        // All other threads have ended; and the one that goes on is called by the process's id now.
        let ended: Vec<u32> = self
            .threads
            .iter()
            .filter(|(tid, thread)| thread.pid == pid && **tid != former)
            .map(|(tid, _)| *tid)
            .collect();
        for tid in ended {
            self.leave(tid);
            if tid != pid {
                self.to.exit(pid, tid);
            }
        }
        if let Some(thread) = self.threads.remove(&former) {
            self.threads.insert(pid, thread);
        }
        if pid == self.root && !self.began {
            self.began = true;
            self.trips.sort_unstable();
            self.trip = self
                .trips
                .get(self.trips.len() / 2)
                .copied()
                .unwrap_or_default();
        }
        let exe = CString::new(format!("/proc/{pid}/exe")).unwrap_or_default();
        let given = self
            .threads
            .get(&pid)
            .map(|thread| thread.names[0].clone())
            .unwrap_or_default();
        let program = fs::readlinkat(CWD, &exe).unwrap_or(given);
        if let Some(process) = self.processes.get_mut(&pid) {
            process.program = self.totals.program(&program);
        }
        self.look_at(pid, &exe, &program);
        self.to.exec(pid, &program);
        self.go_on(pid, 0);
    }

    /// Says once what is not as it would be without a meter.
    fn look_at(&mut self, pid: u32, exe: &CString, program: &[u8]) {
        if !self.warned_of_arch && ptrace::syscall_info(pid).is_ok_and(|doing| doing.arch != ARCH) {
            self.warned_of_arch = true;
            self.warnings
                .push(WarningKind::OtherArchitecture(program.to_vec()));
        }
        if !self.warned_of_setuid && self.told_by_child[GIVEN_UP].load(Ordering::SeqCst) != 0 {
            let file = fs::statx(
                CWD,
                exe,
                fs::At::empty(),
                fs::Want::MODE | fs::Want::UID | fs::Want::GID,
            );
            let gains = |file: fs::Statx| {
                let (uid, gid) = process::ids();
                file.mode & 0o4000 != 0 && file.uid != uid
                    || file.mode & 0o2010 == 0o2010 && file.gid != gid
            };
            if file.is_ok_and(gains) {
                self.warned_of_setuid = true;
                self.warnings
                    .push(WarningKind::Unprivileged(program.to_vec()));
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
            let is_orphan = self
                .processes
                .get(&parent)
                .is_none_or(|parent| parent.serial != serial);
            if is_orphan && tid != self.root {
                self.user += ended.user;
                self.sys += ended.sys;
            }
            self.orphans |= process.children > 0;
        }
        self.forget(tid);
        self.adopt();
    }

    /// A thread has ended, and with the main thread its process.
    fn forget(&mut self, tid: u32) {
        let Some(pid) = self.leave(tid) else { return };
        if pid == tid
            && let Some(Process {
                parent: (parent, serial),
                ..
            }) = self.processes.remove(&pid)
            && let Some(parent) = self.processes.get_mut(&parent)
            && parent.serial == serial
        {
            parent.children = parent.children.saturating_sub(1);
        }
        self.to.exit(pid, tid);
    }

    /// A thread is no more; the call that it is in, if it is in one, never returned. Says whose it
    /// was.
    fn leave(&mut self, tid: u32) -> Option<u32> {
        let thread = self.threads.remove(&tid)?;
        if let Some(entered) = thread.call.filter(|_| self.began) {
            self.unfinished += 1;
            if self.reported < self.tell {
                self.reported += 1;
                self.to.call(&thread.shown(&entered, None, 0, tid));
            }
        }
        Some(thread.pid)
    }

    /// Nobody waits for what the command left behind.
    fn end_all(&mut self) {
        if !self.ending {
            self.ending = true;
            self.warnings
                .push(WarningKind::Killed(self.processes.len()));
        }
        self.processes.keys().copied().for_each(ptrace::kill);
    }
}

/// Reads a name up to its NUL, or as much of it as is told. `false` when it cannot be read.
fn read_name(tid: u32, address: u64, into: &mut Vec<u8>) -> bool {
    /// Most names are shorter, and lie in one page.
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

// CLONE_FS, CLONE_FILES and CLONE_THREAD of clone(2).
const FS: u64 = 0x200;
const FILES: u64 = 0x400;
const THREAD: u64 = 0x1_0000;

/// The flags of the clone(2) or clone3(2) that a thread is in; those of fork(2) and vfork(2), which
/// are none. Where they cannot be read (a 32-bit program): those of a process.
fn clone_flags(tid: u32) -> u64 {
    const CLONE3: u64 = 435;
    const CLONE: u64 = if cfg!(target_arch = "x86_64") {
        56
    } else {
        220
    };
    match ptrace::call_in_progress(tid) {
        Some((CLONE, flags)) => flags,
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
