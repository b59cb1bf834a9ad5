//! Reads the records of a command and its descendants, or of processes that run already.

use std::time::Duration;

use foldhash::{HashMap, HashMapExt};
use gate::command::Running;
use gate::fs::{CWD, Open, openat, pread64};
use gate::long::c_string;
use gate::perf::{Ring, wait};
use gate::{Errno, clock};
use ondisk::perf::{self, Abi, Record, Task as Ids};

use super::events::Events;
use super::thread::{Entered, Thread};
use crate::attach::{MOST_LISTS, Status, is_asked_to_stop, list_threads, running};
use crate::call::{Ended, Fork, Meter, Metered};
use crate::collector::{Collector, Timing, warn_of};
use crate::cpu_time::CpuTime;
use crate::error::{Error, Step, WarningKind};
use crate::executable::file_of;
use crate::names::{Attached, OpenFiles};
use crate::syscalls::{self, CLONE, CLONE_FILES, CLONE_FS, Kind};
use crate::totals::Sums;
use crate::tracefs::Tracepoints;

/// The longest wait for records; a ring that fills, and the end of the last thread, end it earlier.
/// Records that are read soon after they were written are still in the other processor's cache, and
/// fetching them from there delays both processors.
const LONGEST_WAIT: Duration = Duration::from_millis(20);

/// Reads the records of a command and its descendants.
pub(super) struct Reader<'a> {
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
    pub(super) fn new(
        collector: Collector<'a>,
        tracepoints: Tracepoints,
        has_ids: bool,
    ) -> Reader<'a> {
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

    /// Meters the command in this process from its execve(2) on.
    pub(super) fn follow_command(&mut self, root: u32) {
        self.root = Some(root);
        self.threads.insert(root, Thread::new(root));
    }

    pub(super) fn warn(&mut self, kind: WarningKind) {
        self.collector.warnings.push(kind);
    }

    /// Meters the threads of a process that runs already. Returns whether there are any.
    pub(super) fn attach(&mut self, pid: u32, before: &OpenFiles) -> bool {
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
            open: OpenFiles::read(pid).since(before),
        });
        true
    }

    /// Reads until no metered thread is left, until this time of the monotonic clock, or until the user
    /// asks this process to stop.
    pub(super) fn follow_attached(
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
            self.collector.tick(|_| Ok::<_, Errno>(Sums::default()))?;
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
    pub(super) fn follow(
        &mut self,
        running: &mut Running,
        events: &mut Events,
    ) -> gate::Result<Ended> {
        let mut ended = None;
        let mut threads_left = true;
        loop {
            self.read(&mut events.rings);
            self.collector.tick(|_| Ok(Sums::default()))?;
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

    /// The result. Threads that still run are not metered any more: records of their calls would be
    /// missing.
    pub(super) fn finish(
        mut self,
        meter: &dyn Meter,
        mut events: Events,
        overhead: u64,
        timing: Timing,
    ) -> Result<Metered, Error> {
        let written = events.stop().and_then(|()| {
            self.read(&mut events.rings);
            events.count()
        });
        let [entries, returns] = written.map_err(Step::CountRecords.late())?;
        let lost = entries
            .saturating_sub(self.entries)
            .max(returns.saturating_sub(self.returns));
        let mut metered = self.collector.finish(meter, overhead, timing);
        metered.lost = lost + self.unfollowed;
        warn_of(&mut metered, lost, WarningKind::LostRecords);
        for (number, kind) in [
            (
                self.unfollowed,
                WarningKind::UnfollowedThreads as fn(u64) -> WarningKind,
            ),
            (self.compat_calls, WarningKind::Calls32Bit),
            (self.hidden_programs, WarningKind::HiddenPrograms),
        ] {
            warn_of(&mut metered, number, kind);
        }
        Ok(metered)
    }

    /// Reads the records of all rings in the order of time, up to now. A thread that moves to
    /// another processor has written its records before.
    fn read(&mut self, rings: &mut [Ring]) {
        let until = clock::monotonic();
        rings.iter_mut().for_each(Ring::look);
        let next_times = rings.iter_mut().map(|ring| self.read_until(ring, 0));
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
            times[first] = self.read_until(ring, second.min(until));
        }
    }

    /// Reads the next records of a ring, up to this time, and those without a time. Returns the time of
    /// the record after them; `u64::MAX` without one.
    fn read_until(&mut self, ring: &mut Ring, until: u64) -> u64 {
        while let Some(bytes) = ring.record() {
            let record = Record::parse(bytes, self.has_ids);
            if let Some((record, time)) = record.and_then(|it| Some((it, it.time()?))) {
                if time > until {
                    return time;
                }
                self.record(&record);
            }
            ring.advance();
        }
        u64::MAX
    }

    fn record(&mut self, record: &Record<'_>) {
        match *record {
            Record::Sample { by, time, raw, abi } => {
                let number = perf::tracepoint(raw).map(u64::from);
                if number == Some(self.tracepoints.enter) {
                    self.entries += 1;
                    if let Some(perf::Syscall::Enter { number, args }) = perf::Syscall::enter(raw) {
                        self.enter(ids(by, raw), number, args, time);
                    }
                } else if number == Some(self.tracepoints.exit) {
                    self.returns += 1;
                    if let Some(perf::Syscall::Exit { number, result }) = perf::Syscall::exit(raw) {
                        self.leave(ids(by, raw).tid, number, result, time);
                    }
                } else if number == Some(self.tracepoints.exec) {
                    let mut by = ids(by, raw);
                    if let Some(thread) = self.threads.get(&by.tid) {
                        by.pid = thread.pid;
                    }
                    let name = perf::text(raw, self.tracepoints.filename as usize);
                    self.exec(by, name.unwrap_or_default(), abi == Some(Abi::Bits32));
                }
            }
            Record::Fork { made, by, .. } => self.fork(made, by),
            Record::Exit { ended, .. } => self.exit(ended),
            Record::Lost(_) | Record::Other => {}
        }
    }

    /// A thread enters a call.
    fn enter(&mut self, by: Ids, number: i64, args: [u64; 6], time: u64) {
        let call = u32::try_from(number).ok().and_then(syscalls::by_number);
        if !self.has_begun {
            let is_exec = call.is_some_and(|call| call.kind == Kind::Exec);
            self.has_begun = Some(by.tid) == self.root && is_exec;
        }
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
            let (by, program) = (thread.ids(by.tid), thread.program);
            self.collector
                .add(program, &entered.call(by, Some(result), nanos));
        }
    }

    /// A call returns.
    fn leave(&mut self, tid: u32, number: i64, result: i64, time: u64) {
        let Some(thread) = self.threads.get_mut(&tid).filter(|_| self.has_begun) else {
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
            let (by, program) = (thread.ids(tid), thread.program);
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

/// The ids of a tracepoint's record. If it has only a thread id, the process is unknown, and that of a
/// thread of which nothing else is known.
fn ids(by: Option<Ids>, raw: &[u8]) -> Ids {
    by.unwrap_or_else(|| {
        let tid = perf::thread(raw).unwrap_or_default();
        Ids { pid: tid, tid }
    })
}
