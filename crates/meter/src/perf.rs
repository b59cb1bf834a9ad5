//! The meter for root where BPF is unavailable: perf events at the tracepoints of each call's entry
//! and exit write a record into a ring buffer per processor, and this process adds them up.
//!
//! Records have numbers and arguments of calls but no names. The rings are merged by time, up to a
//! time before which all records are known to be written. That no record was lost is checked
//! against the kernel's own count of them.
//!
//! To attach to processes that run already, the events are those of all processes: a ring per
//! processor, all of which exist before the threads are listed. So a thread that is in no list has a
//! record of its creation.
//!
//! It does not see set-user-ID programs of other users (the kernel detaches the events). A call
//! that a signal cut short in the main thread of an ending process is counted even if the signal
//! ended the process, since records do not show that.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gate::command::{Held, Running};
use gate::file::read_kernel;
use gate::fs::{At, CWD, Open, Want, openat, pread64, statx};
use gate::long::c_string;
use gate::perf::{ALL, Event, Ring, Watch, perf_event_open, permitted, wait};
use gate::process::{self, Ahead, Shared};
use gate::{Errno, clock, machine};
use ondisk::perf::{self, Abi, Record, Task as Ids};

use crate::attach::{
    Attach, MOST_LISTS, Status, ended_before, is_asked_to_stop, list_threads, running,
};
use crate::call::{Call, Command, Ended, Fork, Listener, Meter, Metered};
use crate::collector::{Collector, Timing, run_held, time_empty_call, warn_of};
use crate::cpu_time::CpuTime;
use crate::error::{Error, Step, Unavailable, WarningKind};
use crate::executable::file_of;
use crate::names::{Attached, OpenFiles};
use crate::syscalls::{self, CLONE, CLONE_FILES, CLONE_FS, Kind};
use crate::totals::{Program, Sums};
use crate::tracefs::Tracepoints;

/// Bytes of all rings together, and the bounds of each ring.
const ALL_RINGS: usize = 32 << 20;
const LARGEST_RING: usize = 8 << 20;
const SMALLEST_RING: usize = 64 << 10;
/// The longest wait for records; a ring that fills, and the end of the last thread, end it earlier.
/// Records that are read soon after they were written are still in the other processor's cache, and
/// fetching them from there delays both processors.
const LONGEST_WAIT: Duration = Duration::from_millis(20);

/// The meter.
pub(crate) struct Perf;

impl Meter for Perf {
    fn name(&self) -> &'static str {
        "perf"
    }

    fn sees_names(&self) -> bool {
        false
    }

    fn check(&self) -> Result<(), Unavailable> {
        Tracepoints::find()?;
        permitted(processors().first().copied().unwrap_or_default()).map_err(Unavailable::PerfEvent)
    }

    fn run(&self, command: &Command, calls: u64, to: &mut dyn Listener) -> Result<Metered, Error> {
        let tracepoints = Tracepoints::find()?;
        let metered_call = Shared::new(1).map_err(Step::ShareMemory.early())?;
        let unmetered_call = time_empty_call();
        let prepare = || {
            metered_call[0].store(time_empty_call(), Ordering::Relaxed);
            Ok(())
        };
        let held =
            Held::fork(&command.program, &command.args, prepare).map_err(Step::Fork.early())?;
        process::raise_open_files(); // of this process only: the command is forked already
        let has_ids = !in_first_pid_namespace();
        let mut events =
            Events::open(&tracepoints, has_ids, held.id()).map_err(Unavailable::PerfEvent)?;
        let root = held.id() as u32;
        let mut reader = Reader::new(Collector::new(calls, to), tracepoints, has_ids);
        reader.root = Some(root);
        reader.threads.insert(root, Thread::new(root));
        let timing = {
            let _ahead = Ahead::get(); // records that are not read in time are lost
            run_held(held, command, Step::Prepare, |running| {
                let ended = reader.follow(running, &mut events);
                ended.map_err(Step::Wait.late())
            })?
        };
        let metered_call = metered_call[0].load(Ordering::Relaxed);
        let overhead = metered_call.saturating_sub(unmetered_call);
        self.finish(reader, events, overhead, timing)
    }

    fn attach(
        &self,
        attach: &Attach<'_>,
        calls: u64,
        to: &mut dyn Listener,
    ) -> Result<Metered, Error> {
        let processes = attach.processes()?;
        let tracepoints = Tracepoints::find()?;
        let unmetered_call = time_empty_call();
        let has_ids = !in_first_pid_namespace();
        let mut reader = Reader::new(Collector::new(calls, to), tracepoints, has_ids);
        let before: Vec<OpenFiles> = processes.iter().map(|pid| OpenFiles::of(*pid)).collect();
        process::raise_open_files();
        let mut events =
            Events::open(&reader.tracepoints, has_ids, ALL).map_err(Unavailable::PerfEvent)?;
        let start = clock::monotonic();
        let mut attached = Vec::new();
        for (&pid, before) in processes.iter().zip(&before) {
            if attached.contains(&pid) {
                continue;
            }
            if reader.attach(pid, before) {
                attached.push(pid);
            }
        }
        for pid in ended_before(processes, &attached)? {
            reader.warn(WarningKind::EndedBefore(pid));
        }
        let mut cpu = CpuTime::of(&attached);
        let overhead = time_empty_call().saturating_sub(unmetered_call);
        (attach.ready)(attached.len());
        {
            let _ahead = Ahead::get(); // records that are not read in time are lost
            let until = attach.until(start);
            let followed = reader.follow_attached(&mut events, until, &mut cpu);
            followed.map_err(Step::Wait.late())?;
        }
        let timing = Timing::detached(attached.len(), start, cpu);
        self.finish(reader, events, overhead, timing)
    }
}

impl Perf {
    /// The result. Threads that still run are not metered any more: records of their calls would be
    /// missing.
    fn finish(
        &self,
        mut reader: Reader<'_>,
        mut events: Events,
        overhead: u64,
        timing: Timing,
    ) -> Result<Metered, Error> {
        let written = events.stop().and_then(|()| {
            reader.read(&mut events.rings);
            events.count()
        });
        let [entries, returns] = written.map_err(Step::CountRecords.late())?;
        let lost = entries
            .saturating_sub(reader.entries)
            .max(returns.saturating_sub(reader.returns));
        let mut metered = reader.collector.finish(self, overhead, timing);
        metered.lost = lost + reader.unfollowed;
        warn_of(&mut metered, lost, WarningKind::LostRecords);
        for (number, kind) in [
            (
                reader.unfollowed,
                WarningKind::UnfollowedThreads as fn(u64) -> WarningKind,
            ),
            (reader.compat_calls, WarningKind::Calls32Bit),
            (reader.hidden_programs, WarningKind::HiddenPrograms),
        ] {
            warn_of(&mut metered, number, kind);
        }
        Ok(metered)
    }
}

/// Whether this process is in the first PID namespace, whose ids the records of tracepoints have.
/// Having the kernel write the ids of another namespace costs 0.17 µs per call.
fn in_first_pid_namespace() -> bool {
    const PROC_PID_INIT_INO: u64 = 0xEFFF_FFFC;
    statx(CWD, c"/proc/self/ns/pid", At::empty(), Want::INO)
        .is_ok_and(|namespace| namespace.ino == PROC_PID_INIT_INO)
}

/// The numbers of the online processors.
fn processors() -> Vec<u32> {
    let online = read_kernel(c"/sys/devices/system/cpu/online").unwrap_or_default();
    let listed = str::from_utf8(&online).ok().and_then(parse_ranges);
    listed.unwrap_or_else(|| (0..machine::processors() as u32).collect())
}

/// Numbers as in `0-3,8`.
fn parse_ranges(text: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        all.extend(first..=last.min(first.saturating_add(1 << 16)));
    }
    Some(all)
}

/// The events of every processor, and their rings.
#[derive(Default)]
struct Events {
    enter: Vec<Event>,
    exec: Vec<Event>,
    exit: Vec<Event>,
    rings: Vec<Ring>,
}

impl Events {
    fn open(tracepoints: &Tracepoints, has_ids: bool, tid: i32) -> gate::Result<Events> {
        let processors = processors();
        let page = gate::cache::page_size();
        let size = (ALL_RINGS / processors.len().max(1)).clamp(SMALLEST_RING, LARGEST_RING);
        let mut pages = (size / page).max(1).next_power_of_two();
        let sample = perf::SAMPLE | if has_ids { perf::IDS } else { 0 };
        let enter = Watch {
            tracepoint: tracepoints.enter,
            sample,
            registers: 0,
            tasks: true,
            watermark: (pages * page / 4) as u32,
        };
        let exit = Watch {
            tracepoint: tracepoints.exit,
            tasks: false,
            ..enter
        };
        let exec = Watch {
            tracepoint: tracepoints.exec,
            sample: sample | perf::ABI,
            registers: 1,
            ..exit
        };
        let mut events = Events::default();
        for processor in processors {
            let first = perf_event_open(&enter, tid, processor)?;
            let ring = loop {
                match first.ring(pages) {
                    Err(Errno::EPERM | Errno::ENOMEM) if pages * page > SMALLEST_RING => pages /= 2,
                    other => break other?,
                }
            };
            for (watch, opened) in [(&exit, &mut events.exit), (&exec, &mut events.exec)] {
                let event = perf_event_open(watch, tid, processor)?;
                event.set_output(&first)?;
                opened.push(event);
            }
            events.enter.push(first);
            events.rings.push(ring);
        }
        // Not before all rings exist: what happened before would be counted but not recorded.
        let mut all = events.enter.iter().chain(&events.exit).chain(&events.exec);
        all.try_for_each(Event::enable)?;
        Ok(events)
    }

    /// Stops the exits first: an exit without its entry would look like a call that a seccomp
    /// filter has answered.
    fn stop(&self) -> gate::Result<()> {
        let mut all = self.exit.iter().chain(&self.enter).chain(&self.exec);
        all.try_for_each(Event::disable)
    }

    /// How many entries and exits there were, recorded or not.
    fn count(&self) -> gate::Result<[u64; 2]> {
        let sum = |events: &[Event]| events.iter().map(Event::count).sum::<gate::Result<u64>>();
        Ok([sum(&self.enter)?, sum(&self.exit)?])
    }
}

/// The call that a thread is in.
#[derive(Clone, Copy)]
struct Entered {
    number: u32,
    args: [u64; 6],
    start: u64,
}

impl Entered {
    fn call(&self, by: Ids, result: Option<i64>, nanos: u64) -> Call<'static> {
        Call {
            pid: by.pid,
            tid: by.tid,
            number: self.number,
            args: self.args,
            name: None,
            other: None,
            result,
            start: self.start,
            nanos,
        }
    }

    fn is_exec(&self) -> bool {
        syscalls::by_number(self.number).is_some_and(|call| call.kind == Kind::Exec)
    }
}

#[derive(Clone)]
struct Thread {
    pid: u32,
    call: Option<Entered>,
    /// A call that a signal has cut short, its result, and its nanoseconds. If the thread makes
    /// another call, it has returned; if the thread ends, it has not.
    cut_short: Option<(Entered, i64, u64)>,
    /// The flags of the clone(2) that it is in.
    clone: Option<u64>,
    program: Program,
    /// It executes a 32-bit program, whose calls have other numbers.
    is_compat: bool,
    /// It did so until the execve(2) that it is in, which therefore does not count.
    was_compat: bool,
    /// It may be in a call that it has begun before it was metered, which does not count.
    is_attached: bool,
}

impl Thread {
    fn new(pid: u32) -> Thread {
        Thread {
            pid,
            call: None,
            cut_short: None,
            clone: None,
            program: Program::default(),
            is_compat: false,
            was_compat: false,
            is_attached: false,
        }
    }
}

/// Reads the records of a command and its descendants.
struct Reader<'a> {
    collector: Collector<'a>,
    tracepoints: Tracepoints,
    /// Records have the ids of this PID namespace, besides those of the tracepoint.
    has_ids: bool,
    /// The command, and whether it has begun: before, its process executed this program. `None` if
    /// records are of all processes, and those of other threads than `threads` are ignored.
    root: Option<u32>,
    has_begun: bool,
    /// Processes whose threads came and went too fast to find all.
    unfollowed: u64,
    /// Records of entries and exits.
    entries: u64,
    returns: u64,
    compat_calls: u64,
    /// Programs that the kernel has detached from the events.
    hidden_programs: u64,
    threads: HashMap<u32, Thread>,
}

/// Whether a signal cut the call short: EINTR, ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND,
/// ERESTART_RESTARTBLOCK.
fn is_cut_short(result: i64) -> bool {
    matches!(result, -4 | -512 | -513 | -514 | -516)
}

impl<'a> Reader<'a> {
    fn new(collector: Collector<'a>, tracepoints: Tracepoints, has_ids: bool) -> Reader<'a> {
        Reader {
            collector,
            tracepoints,
            has_ids,
            root: None,
            has_begun: false,
            unfollowed: 0,
            entries: 0,
            returns: 0,
            compat_calls: 0,
            hidden_programs: 0,
            threads: HashMap::new(),
        }
    }

    fn warn(&mut self, kind: WarningKind) {
        self.collector.warnings.push(kind);
    }

    /// Meters the threads of a process that runs already. Returns whether there are any.
    fn attach(&mut self, pid: u32, before: &OpenFiles) -> bool {
        let program = running(pid);
        let thread = Thread {
            program: self.collector.totals.program(&program),
            is_compat: has_32_bits(pid),
            is_attached: true,
            ..Thread::new(pid)
        };
        let mut found = Vec::new();
        let mut is_complete = false;
        for _ in 0..MOST_LISTS {
            let (listed, has_all) = list_threads(pid);
            is_complete = has_all;
            // Also those that have ended since: they may have created others.
            found.extend(listed);
            if is_complete {
                break;
            }
        }
        self.unfollowed += u64::from(!is_complete);
        found.sort_unstable();
        found.dedup();
        if found.is_empty() {
            return false;
        }
        self.has_begun = true;
        let threads = found.iter().map(|tid| (*tid, thread.clone()));
        self.threads.extend(threads);
        self.collector.attach(&Attached {
            pid,
            threads: found,
            program,
            open: OpenFiles::of(pid).since(before),
        });
        true
    }

    /// Reads until no metered thread is left, until this time of the monotonic clock, or until the user
    /// asks this process to stop.
    fn follow_attached(
        &mut self,
        events: &mut Events,
        until: Option<u64>,
        cpu: &mut CpuTime<'_>,
    ) -> gate::Result<()> {
        const INTERVAL: u64 = 100_000_000;
        let mut next = 0;
        loop {
            let now = clock::monotonic();
            let mut have_ended = self.threads.is_empty();
            if now >= next {
                next = now + INTERVAL;
                have_ended |= self.have_ended();
            }
            self.read(&mut events.rings);
            self.collector.tick(|_| Ok::<_, Errno>(Sums::new()))?;
            cpu.update();
            let left = until.map(|until| until.saturating_sub(clock::monotonic()));
            if have_ended || left == Some(0) || is_asked_to_stop() {
                return Ok(());
            }
            let left = left.map_or(LONGEST_WAIT, Duration::from_nanos);
            wait(events.enter.iter(), left.min(LONGEST_WAIT))?;
        }
    }

    /// Whether no metered process is left. A thread that was listed while it ended has no record of
    /// its end, so /proc tells.
    fn have_ended(&self) -> bool {
        let mut pids: Vec<u32> = self.threads.values().map(|thread| thread.pid).collect();
        pids.sort_unstable();
        pids.dedup();
        // The main thread may have ended before others.
        let is_last = |it: Status| it.has_ended && it.threads == 1;
        let has_ended = |pid: &u32| Status::read(*pid).is_none_or(is_last);
        pids.iter().all(has_ended)
    }

    /// Reads until no metered thread is left, or the command has ended and the user asks this
    /// process to stop.
    fn follow(&mut self, running: &mut Running, events: &mut Events) -> gate::Result<Ended> {
        let mut ended = None;
        let mut threads_left = true;
        loop {
            self.read(&mut events.rings);
            self.collector.tick(|_| Ok(Sums::new()))?;
            if ended.is_none() {
                ended = running.try_wait()?;
            }
            if !threads_left {
                break;
            }
            if running.asked_to_stop() {
                let left = self.threads.len() as u64;
                let warnings = &mut self.collector.warnings;
                warnings.push(WarningKind::StillRunning(left));
                break;
            }
            threads_left = wait(events.enter.iter(), LONGEST_WAIT)?;
        }
        let ended = ended.map_or_else(|| running.wait(), Ok)?;
        Ok(Ended::from(&ended))
    }

    /// Reads the records of all rings in the order of time, up to now. A thread that moves to
    /// another processor has written its records before.
    fn read(&mut self, rings: &mut [Ring]) {
        let until = clock::monotonic();
        rings.iter_mut().for_each(Ring::look);
        let has_ids = self.has_ids;
        let next_times = rings.iter_mut().map(|ring| next_time(ring, has_ids));
        let mut times: Vec<u64> = next_times.collect();
        loop {
            let (mut first, mut second) = (0, u64::MAX);
            for (n, &time) in times.iter().enumerate().skip(1) {
                if time < times[first] {
                    second = times[first];
                    first = n;
                } else {
                    second = second.min(time);
                }
            }
            let Some(ring) = rings.get_mut(first).filter(|_| times[first] <= until) else {
                return;
            };
            // All records of the first ring that are before those of the second.
            while times[first] <= second.min(until) {
                if let Some(record) = ring
                    .record()
                    .and_then(|record| Record::parse(record, has_ids))
                {
                    self.record(&record);
                }
                ring.advance();
                times[first] = next_time(ring, has_ids);
            }
        }
    }

    fn record(&mut self, record: &Record<'_>) {
        match *record {
            Record::Sample { by, time, raw, abi } => {
                let by = by.unwrap_or_else(|| self.ids(raw));
                let number = perf::tracepoint(raw).map(u64::from);
                if number == Some(self.tracepoints.enter) {
                    self.entries += 1;
                    if let Some(perf::Syscall::Enter { number, args }) = perf::Syscall::enter(raw) {
                        self.enter(by, number, args, time);
                    }
                } else if number == Some(self.tracepoints.exit) {
                    self.returns += 1;
                    if let Some(perf::Syscall::Exit { number, result }) = perf::Syscall::exit(raw) {
                        self.leave(by, number, result, time);
                    }
                } else if number == Some(self.tracepoints.exec) {
                    let name = perf::text(raw, self.tracepoints.filename as usize);
                    self.exec(by, name.unwrap_or_default(), abi == Some(Abi::Bits32));
                }
            }
            Record::Fork { made, by, .. } => self.fork(made, by),
            Record::Exit { ended, .. } => self.exit(ended),
            Record::Lost(_) | Record::Other => {}
        }
    }

    /// The ids of a tracepoint's record that has only a thread id.
    fn ids(&self, raw: &[u8]) -> Ids {
        let tid = perf::thread(raw).unwrap_or_default();
        let pid = self.threads.get(&tid).map_or(tid, |thread| thread.pid);
        Ids { pid, tid }
    }

    /// A thread enters a call.
    fn enter(&mut self, by: Ids, number: i64, args: [u64; 6], time: u64) {
        let call = u32::try_from(number).ok().and_then(syscalls::by_number);
        let is_exec = call.is_some_and(|call| call.kind == Kind::Exec);
        self.has_begun |= Some(by.tid) == self.root && is_exec;
        if !self.has_begun || self.is_other(by) {
            return;
        }
        // The record of its fork may be lost.
        let thread = self
            .threads
            .entry(by.tid)
            .or_insert_with(|| Thread::new(by.pid));
        let cut_short = thread.cut_short.take();
        thread.is_attached = false;
        thread.clone = (number == CLONE as i64).then_some(args[0]);
        if thread.is_compat {
            self.compat_calls += 1;
        } else {
            thread.call = call.map(|call| Entered {
                number: call.number,
                args,
                start: time,
            });
        }
        if let Some((entered, result, nanos)) = cut_short {
            let program = thread.program;
            self.collector
                .add(program, &entered.call(by, Some(result), nanos));
        }
    }

    /// A call returns.
    fn leave(&mut self, by: Ids, number: i64, result: i64, time: u64) {
        let Some(thread) = self.threads.get_mut(&by.tid).filter(|_| self.has_begun) else {
            return;
        };
        // An execve(2) returns in the new program: by another number, if that has 32 bits.
        let entered = match thread.call.take() {
            Some(entered) => entered,
            None if thread.is_compat || std::mem::take(&mut thread.was_compat) => return,
            None if std::mem::take(&mut thread.is_attached) => return,
            // It has no entry: a seccomp filter has answered it.
            None => match u32::try_from(number).ok().and_then(syscalls::by_number) {
                Some(call) => Entered {
                    number: call.number,
                    args: [0; 6],
                    start: time,
                },
                None => return,
            },
        };
        let nanos = time.saturating_sub(entered.start);
        if is_cut_short(result) {
            thread.cut_short = Some((entered, result, nanos));
        } else {
            let program = thread.program;
            self.collector
                .add(program, &entered.call(by, Some(result), nanos));
        }
    }

    /// Whether the records are of all processes, and this thread is not metered.
    fn is_other(&self, thread: Ids) -> bool {
        self.root.is_none() && !self.threads.contains_key(&thread.tid)
    }

    fn fork(&mut self, made: Ids, by: Ids) {
        // It may be in the list of threads, too.
        if self.is_other(by) || self.root.is_none() && !self.is_other(made) {
            return;
        }
        let parent = self.threads.get(&by.tid);
        let is_thread = made.pid == by.pid;
        // The flags of clone3(2) are in memory: only threads and plain processes are told apart.
        let flags = parent.and_then(|parent| parent.clone);
        let shares = |flag| flags.map_or(is_thread, |flags| flags & flag != 0);
        let mut thread = Thread::new(made.pid);
        if let Some(parent) = parent {
            (thread.program, thread.is_compat) = (parent.program, parent.is_compat);
        }
        self.threads.insert(made.tid, thread);
        self.collector.fork(&Fork {
            parent: by.pid,
            pid: made.pid,
            tid: made.tid,
            shares_files: shares(CLONE_FILES),
            shares_fs: shares(CLONE_FS),
        });
    }

    fn exec(&mut self, by: Ids, called: &[u8], is_compat: bool) {
        let is_metered = |thread: &Thread| thread.pid == by.pid;
        if self.root.is_none() && !self.threads.values().any(is_metered) {
            return;
        }
        let file = file_of(by.pid, called, 0);
        let program = self.collector.totals.program(&file);
        // The thread that goes on gets the id of the process, whatever id it had.
        let is_in_exec = |thread: &Thread| thread.call.is_some_and(|call: Entered| call.is_exec());
        let mut threads = self.threads.iter();
        let former = threads.find(|(_, thread)| thread.pid == by.pid && is_in_exec(thread));
        let former = former.map(|(tid, _)| *tid);
        let mut threads = self.threads.values();
        let was_compat = threads.any(|thread| thread.pid == by.pid && thread.is_compat);
        let former = former.and_then(|tid| self.threads.remove(&tid));
        let thread = Thread {
            pid: by.pid,
            call: former.and_then(|thread| thread.call),
            cut_short: None,
            clone: None,
            program,
            is_compat,
            was_compat,
            is_attached: false,
        };
        self.threads.insert(by.tid, thread);
        self.collector.exec(by.pid, &file);
    }

    fn exit(&mut self, ended: Ids) {
        let Some(thread) = self.threads.remove(&ended.tid) else {
            return;
        };
        if let Some((entered, result, nanos)) = thread.cut_short {
            if ended.pid == ended.tid {
                let call = entered.call(ended, Some(result), nanos);
                self.collector.add(thread.program, &call);
            } else {
                self.collector.end_in(&entered.call(ended, None, 0));
            }
        } else if let Some(entered) = thread.call.filter(|_| self.has_begun) {
            // An execve(2) always returns: here the kernel has detached the events in it.
            self.hidden_programs += u64::from(entered.is_exec());
            self.collector.end_in(&entered.call(ended, None, 0));
        }
        self.collector.exit(ended.pid, ended.tid);
    }
}

/// Whether a process executes a 32-bit program, by the header of its file.
fn has_32_bits(pid: u32) -> bool {
    const HEADER: [u8; 5] = *b"\x7fELF\x01";
    let mut header = [0; HEADER.len()];
    let file = c_string(format!("/proc/{pid}/exe").as_bytes());
    let read = file
        .and_then(|file| openat(CWD, &file, Open::empty()))
        .and_then(|file| pread64(&file, &mut header, 0));
    read.is_ok() && header == HEADER
}

/// The time of the next record of a ring; `u64::MAX` without one. Records without a time are
/// skipped.
fn next_time(ring: &mut Ring, has_ids: bool) -> u64 {
    loop {
        let Some(record) = ring.record() else {
            return u64::MAX;
        };
        match Record::parse(record, has_ids).and_then(|record| record.time()) {
            Some(time) => return time,
            None => ring.advance(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_listed_as_ranges() {
        assert_eq!(parse_ranges("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(parse_ranges("0"), Some(vec![0]));
        assert_eq!(parse_ranges(""), None);
        assert!(!processors().is_empty());
    }
}
