//! The meter for root where BPF is not to be had: the kernel records each call, on its way in and
//! on its way out, in a ring for each processor, and this side adds them up.
//!
//! Records have numbers and arguments but not what these point to: there are no names. Processors
//! write their rings independently; to see things in their order, records are merged by time, up to
//! a time before which everything is known to have been written. That no record was lost is checked
//! against the kernel's own count of them.
//!
//! What it cannot see: a set-user-ID program that another user begins (the kernel lets go of it),
//! and whether a call that was cut short in the main thread of a process that ended had a signal or
//! another thread to blame: such a call is counted.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gate::command::{Held, Running, Unstarted};
use gate::file::read_kernel;
use gate::fs::{At, CWD, Want as Ask, statx};
use gate::perf::{Event, Ring, Watch as Watched, perf_event_open, permitted, wait};
use gate::process::{self, Ahead, Shared};
use gate::{Errno, clock, machine, usage};
use ondisk::perf::{self, Abi, Record, Syscall, Task as Ids};

use crate::call::{Call, Choice, Command, Ended, Fork, Listener, Meter, Metered, Want};
use crate::error::{Error, Step, Unavailable, WarningKind};
use crate::executable::file_of;
use crate::families::Families;
use crate::syscalls;
use crate::totals::{Program, Totals};
use crate::tracefs::Tracepoints;
use crate::trial::trial;

/// Bytes of all rings together, and of each: the fewer processors, the larger.
const ROOM: usize = 32 << 20;
const MOST: usize = 8 << 20;
const LEAST: usize = 64 << 10;
/// How long to wait at most: a ring that fills wakes earlier, and so does the end of the last
/// thread. What is read soon after it was written is in the other processor's cache, and to fetch
/// it from there holds up both.
const LULL: Duration = Duration::from_millis(20);

/// The meter.
pub struct Perf;

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

    fn run(&self, command: &Command, want: Want, to: &mut dyn Listener) -> Result<Metered, Error> {
        let tracepoints = Tracepoints::find()?;
        let tried = Shared::new(1).map_err(Step::ShareMemory.early())?;
        let bare = trial();
        let prepare = || {
            tried[0].store(trial(), Ordering::Relaxed);
            Ok(())
        };
        let held =
            Held::fork(&command.program, &command.args, prepare).map_err(Step::Fork.early())?;
        // The command has its own limit already.
        process::raise_open_files();
        let ids = !in_first_namespace();
        let mut events =
            Events::open(&tracepoints, ids, held.id()).map_err(Unavailable::PerfEvent)?;
        // What is not read in time is lost.
        let ahead = Ahead::get();
        let before = usage::children_time();
        let start = clock::monotonic();
        let mut running = held.go().map_err(Step::Start.early())?;
        let mut watch = Watch::new(tracepoints, ids, running.id() as u32, want.calls(), to);
        let ended = watch
            .until_the_end(&mut running, &mut events)
            .map_err(Step::Wait.late())?;
        let real = Duration::from_nanos(clock::monotonic().saturating_sub(start));
        drop(ahead);
        // Who still runs goes on unseen: what is counted from here on would be missing.
        let missing = events.stop().and_then(|()| {
            watch.listen(&mut events.rings);
            events.count()
        });
        let missing = missing.map_err(Step::CountRecords.late())?;
        match running.unstarted() {
            Some(Unstarted::NotRun(errno)) => return Err(command.not_executed(errno)),
            Some(Unstarted::Unprepared(errno)) => return Err(Step::Prepare.early()(errno)),
            None => {}
        }
        let after = usage::children_time();
        let lost = missing[0]
            .saturating_sub(watch.entries)
            .max(missing[1].saturating_sub(watch.returns));
        let each = tried[0].load(Ordering::Relaxed).saturating_sub(bare);
        let (totals, crowded) = watch.totals.finish();
        let mut warnings = watch.warnings;
        warnings.extend(crowded);
        let mut warn = |number: u64, kind: fn(u64) -> WarningKind| {
            warnings.extend((number > 0).then(|| kind(number)));
        };
        warn(lost, WarningKind::LostRecords);
        warn(watch.narrow, WarningKind::Calls32Bit);
        warn(watch.let_go, WarningKind::HiddenPrograms);
        let calls: u64 = totals.iter().map(|total| total.calls).sum();
        Ok(Metered {
            meter: self.name(),
            sees_names: self.sees_names(),
            choice: Choice::Requested,
            warnings,
            totals,
            reported: watch.reported,
            unfinished: watch.unfinished,
            lost,
            overhead: Duration::from_nanos(each.saturating_mul(calls)),
            ended: Ended::from(&ended),
            real,
            user: after.0.saturating_sub(before.0),
            sys: after.1.saturating_sub(before.1),
        })
    }
}

/// Whether this is the PID namespace whose ids every tracepoint's record has. To have the kernel
/// write those of another one takes some 0.17 µs a call more.
fn in_first_namespace() -> bool {
    const FIRST: u64 = 0xEFFF_FFFC; // PROC_PID_INIT_INO
    statx(CWD, c"/proc/self/ns/pid", At::empty(), Ask::INO)
        .is_ok_and(|namespace| namespace.ino == FIRST)
}

/// Numbers of the processors that are running.
fn processors() -> Vec<u32> {
    let online = read_kernel(c"/sys/devices/system/cpu/online").unwrap_or_default();
    let listed = str::from_utf8(&online)
        .ok()
        .and_then(ranges)
        .filter(|list| !list.is_empty());
    listed.unwrap_or_else(|| (0..machine::processors() as u32).collect())
}

/// Numbers as in `0-3,8`.
fn ranges(text: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        all.extend(first..=last.min(first.saturating_add(1 << 16)));
    }
    Some(all)
}

/// The events of every processor, and their rings.
struct Events {
    enter: Vec<Event>,
    others: Vec<Event>,
    exit: Vec<Event>,
    rings: Vec<Ring>,
}

impl Events {
    fn open(tracepoints: &Tracepoints, ids: bool, tid: i32) -> gate::Result<Events> {
        let processors = processors();
        let size = (ROOM / processors.len().max(1)).clamp(LEAST, MOST);
        let mut pages = (size / page()).max(1).next_power_of_two();
        let watermark = (pages * page() / 4) as u32;
        let watch = |tracepoint, sample, tasks| Watched {
            tracepoint,
            sample,
            registers: 1,
            tasks,
            watermark,
        };
        let sample = perf::SAMPLE | if ids { perf::IDS } else { 0 };
        let enter = Watched {
            registers: 0,
            ..watch(tracepoints.enter, sample, true)
        };
        let exit = Watched {
            registers: 0,
            ..watch(tracepoints.exit, sample, false)
        };
        let exec = watch(tracepoints.exec, sample | perf::ABI, false);
        let mut events = Events {
            enter: Vec::new(),
            others: Vec::new(),
            exit: Vec::new(),
            rings: Vec::new(),
        };
        for &processor in &processors {
            let first = perf_event_open(&enter, tid, processor)?;
            let ring = loop {
                match first.ring(pages) {
                    Err(Errno::EPERM | Errno::ENOMEM) if pages * page() > LEAST => pages /= 2,
                    other => break other?,
                }
            };
            let exit = perf_event_open(&exit, tid, processor)?;
            exit.set_output(&first)?;
            let exec = perf_event_open(&exec, tid, processor)?;
            exec.set_output(&first)?;
            events.enter.push(first);
            events.exit.push(exit);
            events.others.push(exec);
            events.rings.push(ring);
        }
        // What happened before there was a ring would be counted, and missing.
        for event in events
            .enter
            .iter()
            .chain(&events.exit)
            .chain(&events.others)
        {
            event.enable()?;
        }
        Ok(events)
    }

    fn stop(&self) -> gate::Result<()> {
        // A call of which only the end is seen would count as one that a filter has answered.
        self.exit
            .iter()
            .chain(&self.enter)
            .chain(&self.others)
            .try_for_each(Event::disable)
    }

    /// How often a call was entered, and how often one returned, whether that was recorded or not.
    fn count(&self) -> gate::Result<[u64; 2]> {
        let sum = |events: &[Event]| events.iter().map(Event::count).sum::<gate::Result<u64>>();
        Ok([sum(&self.enter)?, sum(&self.exit)?])
    }
}

fn page() -> usize {
    gate::cache::page_size()
}

/// The call that a thread is in.
#[derive(Clone, Copy)]
struct Entered {
    number: u32,
    args: [u64; 6],
    start: u64,
}

/// A call that has returned.
#[derive(Clone, Copy)]
struct Returned {
    entered: Entered,
    result: i64,
    nanos: u64,
}

struct Thread {
    pid: u32,
    call: Option<Entered>,
    /// A signal cut it short. If the thread makes another call, it has returned; if the thread
    /// ends, it has not.
    cut_short: Option<Returned>,
    /// The flags of the clone(2) that it is in, if it is in one.
    clone: Option<u64>,
    program: Program,
    /// It runs a program of 32 bits, whose calls have other numbers.
    narrow: bool,
    /// It did until this very execve, which therefore does not count.
    was_narrow: bool,
}

impl Thread {
    fn new(pid: u32, program: Program, narrow: bool) -> Thread {
        Thread {
            pid,
            call: None,
            cut_short: None,
            clone: None,
            program,
            narrow,
            was_narrow: false,
        }
    }
}

/// The watch over a command and all that comes of it.
struct Watch<'a> {
    to: &'a mut dyn Listener,
    tracepoints: Tracepoints,
    /// Records of tracepoints have ids besides their own.
    ids: bool,
    /// The command, and whether it has begun: before that, its process was still ours.
    root: u32,
    began: bool,
    tell: u64,
    reported: u64,
    unfinished: u64,
    narrow: u64,
    /// Programs that the kernel has let go of.
    let_go: u64,
    /// Records of calls that begin, and of calls that return.
    entries: u64,
    returns: u64,
    threads: HashMap<u32, Thread>,
    families: Families,
    totals: Totals,
    warnings: Vec<WarningKind>,
}

#[cfg(target_arch = "x86_64")]
const CLONE: i64 = 56;
#[cfg(not(target_arch = "x86_64"))]
const CLONE: i64 = 220;
// CLONE_FS and CLONE_FILES of clone(2).
const FS: u64 = 0x200;
const FILES: u64 = 0x400;

/// A signal cut the call short: EINTR, ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND,
/// ERESTART_RESTARTBLOCK.
fn is_cut_short(result: i64) -> bool {
    matches!(result, -4 | -512 | -513 | -514 | -516)
}

impl<'a> Watch<'a> {
    fn new(
        tracepoints: Tracepoints,
        ids: bool,
        root: u32,
        tell: u64,
        to: &'a mut dyn Listener,
    ) -> Watch<'a> {
        Watch {
            to,
            tracepoints,
            ids,
            root,
            began: false,
            tell,
            reported: 0,
            unfinished: 0,
            narrow: 0,
            let_go: 0,
            entries: 0,
            returns: 0,
            threads: HashMap::from([(root, Thread::new(root, Program::default(), false))]),
            families: Families::default(),
            totals: Totals::default(),
            warnings: Vec::new(),
        }
    }

    /// Until no watched thread is left, or the command has ended and somebody says that it is
    /// enough.
    fn until_the_end(
        &mut self,
        running: &mut Running,
        events: &mut Events,
    ) -> gate::Result<process::Ended> {
        let mut ended = None;
        let mut somebody = true;
        loop {
            self.listen(&mut events.rings);
            if ended.is_none() {
                ended = running.try_wait()?;
            }
            if !somebody {
                break;
            }
            if running.asked_to_stop() {
                let left = self.threads.len() as u64;
                self.warnings.push(WarningKind::StillRunning(left));
                break;
            }
            somebody = wait(events.enter.iter(), LULL)?;
        }
        match ended {
            Some(ended) => Ok(ended),
            None => running.wait(),
        }
    }

    /// Takes in what the rings have, in the order of time. What happened before the rings are
    /// looked at is in them, and so is all that led to it: a thread that goes on elsewhere has
    /// written its records before.
    fn listen(&mut self, rings: &mut [Ring]) {
        let until = clock::monotonic();
        rings.iter_mut().for_each(Ring::look);
        let ids = self.ids;
        let mut times: Vec<u64> = rings.iter_mut().map(|ring| next_time(ring, ids)).collect();
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
            let Some(ring) = rings.get_mut(first) else {
                return;
            };
            if times[first] > until {
                return;
            }
            // All that the first has before the second's next.
            while times[first] <= second.min(until) {
                if let Some(record) = ring.record().and_then(|record| Record::parse(record, ids)) {
                    self.record(&record);
                }
                ring.advance();
                times[first] = next_time(ring, ids);
            }
        }
    }

    fn record(&mut self, record: &Record<'_>) {
        match *record {
            Record::Sample { by, time, raw, abi } => {
                let by = by.unwrap_or_else(|| self.who(raw));
                let number = perf::tracepoint(raw).map(u64::from);
                if number == Some(self.tracepoints.enter) {
                    self.entries += 1;
                    if let Some(Syscall::Enter { number, args }) = Syscall::enter(raw) {
                        self.enters(by, number, args, time);
                    }
                } else if number == Some(self.tracepoints.exit) {
                    self.returns += 1;
                    if let Some(Syscall::Exit { number, result }) = Syscall::exit(raw) {
                        self.returns(by, number, result, time);
                    }
                } else if number == Some(self.tracepoints.exec) {
                    let called =
                        perf::text(raw, self.tracepoints.filename as usize).unwrap_or_default();
                    self.execs(by, called, abi == Some(Abi::Bits32));
                }
            }
            Record::Fork { made, by, .. } => self.forks(made, by),
            Record::Exit { ended, .. } => self.exits(ended),
            Record::Lost(_) | Record::Other => {}
        }
    }

    /// Whose record of a tracepoint it is, when it has no other ids than its own.
    fn who(&self, raw: &[u8]) -> Ids {
        let tid = perf::thread(raw).unwrap_or_default();
        Ids {
            pid: self.threads.get(&tid).map_or(tid, |thread| thread.pid),
            tid,
        }
    }

    fn enters(&mut self, by: Ids, number: i64, args: [u64; 6], time: u64) {
        let call = u32::try_from(number).ok().and_then(syscalls::by_number);
        if !self.began {
            self.began =
                by.tid == self.root && call.is_some_and(|call| call.kind == syscalls::Kind::Exec);
            if !self.began {
                return;
            }
        }
        // One whose making was lost is one of them all the same.
        let thread = self
            .threads
            .entry(by.tid)
            .or_insert_with(|| Thread::new(by.pid, Program::default(), false));
        let cut_short = thread.cut_short.take();
        thread.clone = (number == CLONE).then_some(args[0]);
        if thread.narrow {
            self.narrow += 1;
        } else {
            thread.call = call.map(|call| Entered {
                number: call.number,
                args,
                start: time,
            });
        }
        if let Some(returned) = cut_short {
            self.settle(by, returned);
        }
    }

    fn returns(&mut self, by: Ids, number: i64, result: i64, time: u64) {
        let Some(thread) = self.threads.get_mut(&by.tid).filter(|_| self.began) else {
            return;
        };
        // An execve returns in the program that it begins: if that is one of 32 bits, by another
        // number.
        let entered = match thread.call.take() {
            Some(entered) => entered,
            None if thread.narrow || std::mem::take(&mut thread.was_narrow) => return,
            // One that was not seen to begin: a filter (seccomp) has answered in the place of the
            // kernel.
            None => match u32::try_from(number).ok().and_then(syscalls::by_number) {
                Some(call) => Entered {
                    number: call.number,
                    args: [0; 6],
                    start: time,
                },
                None => return,
            },
        };
        let returned = Returned {
            entered,
            result,
            nanos: time.saturating_sub(entered.start),
        };
        if is_cut_short(result) {
            thread.cut_short = Some(returned);
        } else {
            self.settle(by, returned);
        }
    }

    fn settle(
        &mut self,
        by: Ids,
        Returned {
            entered,
            result,
            nanos,
        }: Returned,
    ) {
        let program = self
            .threads
            .get(&by.tid)
            .map(|thread| thread.program)
            .unwrap_or_default();
        let call = shown(by, &entered, Some(result), nanos);
        self.totals
            .add(program, by.pid, entered.number, 1, nanos, call.errno());
        self.tell(&call);
    }

    fn tell(&mut self, call: &Call<'_>) {
        if self.reported < self.tell {
            self.reported += 1;
            self.to.call(call);
        }
    }

    fn forks(&mut self, made: Ids, by: Ids) {
        let maker = self.threads.get(&by.tid);
        let is_thread = made.pid == by.pid;
        // clone3(2) has its flags where they cannot be seen; it is threads that are made by it, or
        // plain processes.
        let shares = |flag| {
            maker
                .and_then(|maker| maker.clone)
                .map_or(is_thread, |flags| flags & flag != 0)
        };
        let (shares_files, shares_fs) = (shares(FILES), shares(FS));
        let (program, narrow) = maker.map_or((Program::default(), false), |maker| {
            (maker.program, maker.narrow)
        });
        self.threads
            .insert(made.tid, Thread::new(made.pid, program, narrow));
        let fork = Fork {
            parent: by.pid,
            pid: made.pid,
            tid: made.tid,
            shares_files,
            shares_fs,
        };
        self.families.fork(&fork);
        self.to.fork(&fork);
    }

    fn execs(&mut self, by: Ids, called: &[u8], narrow: bool) {
        let file = file_of(by.pid, called, 0);
        let program = self.totals.program(&file);
        // The one thread that is left goes by the process's id now, whatever it was before.
        let former = self.threads.iter().find(|(_, thread)| {
            thread.pid == by.pid
                && thread
                    .call
                    .is_some_and(|call| syscalls::by_number(call.number).is_some_and(is_exec))
        });
        let call = former.and_then(|(_, thread)| thread.call);
        let was_narrow = self
            .threads
            .values()
            .any(|thread| thread.pid == by.pid && thread.narrow);
        if let Some(former) = former.map(|(tid, _)| *tid) {
            self.threads.remove(&former);
        }
        self.threads.insert(
            by.tid,
            Thread {
                call,
                was_narrow,
                ..Thread::new(by.pid, program, narrow)
            },
        );
        self.families.exec(by.pid);
        self.to.exec(by.pid, &file);
    }

    fn exits(&mut self, ended: Ids) {
        let Some(thread) = self.threads.remove(&ended.tid) else {
            return;
        };
        if let Some(returned) = thread.cut_short {
            if ended.pid == ended.tid {
                self.threads.insert(
                    ended.tid,
                    Thread {
                        cut_short: None,
                        ..thread
                    },
                );
                self.settle(ended, returned);
                self.threads.remove(&ended.tid);
            } else {
                self.ends_in(ended, &returned.entered);
            }
        } else if let Some(entered) = thread.call.filter(|_| self.began) {
            // Whatever becomes of an execve, it returns: this is no end, but the last that is seen
            // of it.
            self.let_go += u64::from(syscalls::by_number(entered.number).is_some_and(is_exec));
            self.ends_in(ended, &entered);
        }
        let to = &mut *self.to;
        self.families
            .exit(ended.pid, ended.tid, |pid, tid| to.exit(pid, tid));
    }

    fn ends_in(&mut self, by: Ids, entered: &Entered) {
        self.unfinished += 1;
        self.tell(&shown(by, entered, None, 0));
    }
}

/// When the next record of a ring was made; that is never, when there is none. Those without a time
/// are passed over.
fn next_time(ring: &mut Ring, ids: bool) -> u64 {
    loop {
        let Some(record) = ring.record() else {
            return u64::MAX;
        };
        match Record::parse(record, ids).and_then(|record| record.time()) {
            Some(time) => return time,
            None => ring.advance(),
        }
    }
}

fn is_exec(call: &syscalls::Syscall) -> bool {
    call.kind == syscalls::Kind::Exec
}

fn shown(by: Ids, entered: &Entered, result: Option<i64>, nanos: u64) -> Call<'static> {
    let Entered {
        number,
        args,
        start,
    } = *entered;
    Call {
        pid: by.pid,
        tid: by.tid,
        number,
        args,
        name: None,
        other: None,
        result,
        start,
        nanos,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_listed_as_ranges() {
        assert_eq!(ranges("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(ranges("0"), Some(vec![0]));
        assert_eq!(ranges(""), None);
        assert!(!processors().is_empty());
    }
}
