//! User space's part of a measurement: reads the ring buffer, and removes ended processes from the
//! maps, so that the maps need not grow.

use std::collections::HashSet;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use foldhash::{HashMap, HashMapExt};
use gate::bpf::Ring;
use gate::clock;
use gate::command::Running;
use gate::notify::{Event, poll};
use gate::process::SharedWords;

use super::joined::{JoinedProcesses, JoinedThread};
use super::kit::Maps;
use super::layout::{double, fork, kind, long, names, shared, slot, task, word};
use super::long_calls;
use super::record::{call_in, names_in, program_name};
use super::slots::{SlotSelection, read_spilt};
use crate::attach::is_asked_to_stop;
use crate::call::{Call, CommandEnd, Fork, Meter, Metered};
use crate::collector::{Collector, CommandTiming, warn_of};
use crate::cpu_time::CpuTime;
use crate::error::{Error, MeterStep, WarningKind};
use crate::executable::file_of;
use crate::names::AttachedProcess;
use crate::syscalls::NUMBERS;
use crate::totals::{self, ProgramIndex, Sums};

/// Time to sleep after a read with records: more records will come, and reading few at a time costs
/// more.
const BUSY: Duration = Duration::from_millis(1);
/// Time to sleep after a read without records. The ring buffer's watermark and the last thread's
/// exit end this sleep early.
const IDLE: Duration = Duration::from_millis(100);
/// The maximum number of reported calls: the BPF programs count down in a signed word.
pub(super) const MOST_REPORTED: u64 = i64::MAX as u64;

/// Finds new processes of a cgroup periodically.
pub(super) trait ProcessFinder {
    /// Meters new processes, and returns them.
    ///
    /// # Errors
    /// If a process cannot be metered.
    fn find(&mut self, reader: &mut Reader<'_>) -> Result<Vec<u32>, Error>;
}

/// How further processes become metered, besides the attached processes and their children.
pub(super) enum JoinPolicy<'f> {
    None,
    /// All threads of a cgroup2, or of the machine, are metered from their next call on.
    Join,
    /// Processes that enter a cgroup of version 1 are found by listing it.
    Find(&'f mut dyn ProcessFinder),
}

/// Reads the ring buffer and the maps while a command or processes are metered.
pub(super) struct Reader<'a> {
    words: &'a SharedWords,
    maps: &'a Maps,
    collector: Collector<'a>,
    /// The maximum number of calls to report individually; the next field is the number read so
    /// far.
    wanted: u64,
    read: u64,
    /// Long names of the current call of each thread, by tid.
    names: HashMap<u32, Vec<u8>>,
    /// The executable of each slot (a process while it executes one program).
    programs: HashMap<u64, ProgramIndex>,
    joined: JoinedProcesses,
    /// Numbers of slots and cells ever created, when the maps were last emptied.
    slots_before: u64,
    cells_before: u64,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        words: &'a SharedWords,
        maps: &'a Maps,
        wanted: u64,
        collector: Collector<'a>,
    ) -> Reader<'a> {
        Reader {
            words,
            maps,
            collector,
            wanted,
            read: 0,
            names: HashMap::new(),
            programs: HashMap::new(),
            joined: JoinedProcesses::default(),
            slots_before: 0,
            cells_before: 0,
        }
    }

    fn shared(&self, word: usize) -> u64 {
        self.words[word].load(Ordering::Acquire)
    }

    /// Nanoseconds of a metered empty call.
    pub(super) fn empty_call(&self) -> u64 {
        self.shared(shared::EMPTY_CALL)
    }

    pub(super) fn warn(&mut self, kind: WarningKind) {
        self.collector.warnings.push(kind);
    }

    /// Records that a running process is metered from now on, and that this slot counts its calls.
    pub(super) fn attached(&mut self, slot: u64, process: &AttachedProcess) {
        let program = self.collector.totals.program(&process.program);
        self.programs.insert(slot, program);
        self.collector.attach(process);
    }

    /// Prepares for threads of running processes that will be metered at their next call; `joined`
    /// has the open files of these processes.
    pub(super) fn expect(&mut self, joined: JoinedProcesses) {
        self.joined = joined;
    }

    /// Reads the ring buffer until this time of `CLOCK_MONOTONIC`, or until a signal asks fathom to
    /// stop; if no further process can `come`, also until no metered thread is left.
    pub(super) fn follow_attached(
        &mut self,
        ring: &mut Ring,
        until: Option<u64>,
        cpu: &mut CpuTime<'_>,
        mut come: JoinPolicy<'_>,
    ) -> Result<(), Error> {
        loop {
            let all_have_ended = matches!(come, JoinPolicy::None) && self.shared(shared::LIVE) == 0;
            let left = until.map(|until| until.saturating_sub(clock::monotonic()));
            let records = self.read_ring(ring);
            cpu.update();
            if all_have_ended || left == Some(0) || is_asked_to_stop() {
                return Ok(());
            }
            if let JoinPolicy::Find(members) = &mut come {
                let found = members.find(self)?;
                found.into_iter().for_each(|pid| cpu.add(pid));
            }
            let most = left.map_or(IDLE, Duration::from_nanos);
            self.pause(records, ring, most)
                .map_err(MeterStep::Wait.after_start())?;
        }
    }

    /// Reads the ring buffer until no metered thread is left, or until the command has ended and a
    /// signal asks fathom to stop.
    pub(super) fn follow(
        &mut self,
        running: &mut Running,
        ring: &mut Ring,
    ) -> gate::Result<CommandEnd> {
        let mut ended = None;
        loop {
            if ended.is_none() {
                ended = running.try_wait()?;
            }
            // `LIVE` is also 0 before the command announces itself, so read `BEGUN` first. Read the
            // ring last: when no thread is left, all records are in it.
            let has_begun = ended.is_some() || self.shared(shared::BEGUN) != 0;
            let all_have_ended = has_begun && self.shared(shared::LIVE) == 0;
            let records = self.read_ring(ring);
            if all_have_ended {
                break;
            }
            if running.asked_to_stop() {
                let left = self.shared(shared::LIVE);
                let warnings = &mut self.collector.warnings;
                warnings.push(WarningKind::StillRunning(left));
                break;
            }
            self.pause(records, ring, IDLE)?;
        }
        let ended = ended.map_or_else(|| running.wait(), Ok)?;
        Ok(CommandEnd::from(&ended))
    }

    /// Removes ended processes from maps that fill up, and waits for records, for at most the time
    /// `most`.
    fn pause(&mut self, records: usize, ring: &Ring, most: Duration) -> gate::Result<()> {
        self.tick()?;
        let most = self
            .collector
            .until_tick()
            .map_or(most, |tick| most.min(tick));
        if self.is_filling() {
            self.harvest(false)?;
        }
        if records > 0 {
            std::thread::sleep(BUSY.min(most));
            return Ok(());
        }
        let asleep = &self.words[shared::ASLEEP];
        asleep.store(1, Ordering::Release);
        poll([(ring.as_fd(), Event::Readable)], Some(IDLE.min(most)))?;
        asleep.store(0, Ordering::Release);
        Ok(())
    }

    fn read_ring(&mut self, ring: &mut Ring) -> usize {
        ring.drain(|record| self.record(record))
    }

    fn record(&mut self, record: &[u8]) {
        match word(record, 0).cast_signed() {
            kind::CALL => self.call(record, true),
            kind::UNFINISHED => self.call(record, false),
            kind::LONG => self.long_call(record),
            kind::NAMES => drop(self.names.insert(word(record, names::TID), record.to_vec())),
            kind::FORK => {
                let shares = word(record, fork::SHARES).cast_signed();
                self.collector.fork(&Fork {
                    parent: word(record, fork::PARENT),
                    pid: word(record, fork::PID),
                    tid: word(record, fork::TID),
                    shares_files: shares & fork::FILES != 0,
                    shares_fs: shares & fork::FS != 0,
                });
            }
            kind::EXEC => self.exec(record),
            kind::JOIN => self.join(record),
            kind::EXIT => {
                // Exit records have pid and tid like `struct task` in `layout.h`.
                let (pid, tid) = (word(record, 8), word(record, 12));
                self.names.remove(&tid);
                self.joined.exit(pid, tid);
                self.collector.exit(pid, tid);
            }
            _ => {}
        }
    }

    fn call(&mut self, record: &[u8], has_returned: bool) {
        self.read += 1;
        if !self.collector.wants_calls() {
            return;
        }
        let at = |field: i16| field - task::RECORD;
        let tid = word(record, at(task::TID));
        let number = word(record, at(task::NUMBER));
        let lengths = [task::FIRST, task::SECOND].map(at);
        let long = if self.names.is_empty() {
            None
        } else {
            self.names.remove(&tid)
        };
        // Ignore long names of an earlier call whose own record found no room in the ring.
        let long = long.filter(|names| {
            word(names, names::NUMBER) == number && double(record, lengths[0]) == 0
        });
        let [name, other] = match &long {
            Some(record) => names_in(record, names::BYTES, [names::FIRST, names::SECOND]),
            None => names_in(record, at(task::NAMES), lengths),
        };
        let call = call_in(record, has_returned);
        self.collector.report(&Call {
            name,
            other,
            ..call
        });
        if !self.collector.wants_calls() {
            self.names = HashMap::new();
        }
    }

    fn long_call(&mut self, record: &[u8]) {
        let slot = double(record, long::SLOT - task::RECORD);
        if slot == slot::FIRST {
            return;
        }
        let mut value = [0; slot::LEN as usize];
        // A process that has ended after its call may have no slot any more.
        let found = self.maps.slots.lookup(&slot.to_ne_bytes(), &mut value);
        let program = self.programs.get(&double(&value, slot::PROGRAM));
        let program = program.filter(|_| found.is_ok()).copied();
        let call = call_in(record, true);
        let descriptor = long_calls::descriptor_in(record, &call);
        self.collector
            .report_long(program.unwrap_or_default(), &call, descriptor);
    }

    /// Handles the record of an execve(2), which has the form of a slot (the map entry of a
    /// process).
    fn exec(&mut self, record: &[u8]) {
        let (pid, inode) = (word(record, slot::PID), double(record, slot::INODE));
        let file = file_of(pid, program_name(record), inode);
        let program = self.collector.totals.program(&file);
        self.programs.insert(double(record, slot::PROGRAM), program);
        // execve(2) may have changed the tid of the thread: keep the long names of that call.
        if let Some(names) = self.names.remove(&word(record, slot::FORMER)) {
            self.names.insert(pid, names);
        }
        self.collector.exec(pid, &file);
    }

    /// Handles the record of a running thread that is metered from now on, which has the form of a
    /// slot.
    fn join(&mut self, record: &[u8]) {
        let (pid, tid) = (word(record, slot::PID), word(record, slot::FORMER));
        let file = self.joined.program(pid);
        let file = file.unwrap_or_else(|| program_name(record).to_vec());
        let program = self.collector.totals.program(&file);
        self.programs.insert(double(record, slot::PROGRAM), program);
        if !self.collector.wants_calls() {
            return;
        }
        match self.joined.join(pid, tid, &file) {
            JoinedThread::Process(process) => self.collector.attach(&process),
            JoinedThread::Thread => self.collector.fork(&Fork::thread(pid, tid)),
            JoinedThread::Known => {}
        }
    }

    /// Whether a quarter of a map was used since it was last emptied.
    fn is_filling(&self) -> bool {
        let made = |word: usize, before: u64| self.shared(word).saturating_sub(before);
        made(shared::SLOTS, self.slots_before) > u64::from(self.maps.slots.entries() / 4)
            || made(shared::CELLS, self.cells_before) > u64::from(self.maps.cells.entries() / 4)
    }

    /// Sums up the calls of ended processes, or of all processes, and deletes the slots and cells
    /// of these processes from the maps.
    fn harvest(&mut self, all: bool) -> gate::Result<()> {
        self.slots_before = self.shared(shared::SLOTS);
        self.cells_before = self.shared(shared::CELLS);
        let Reader {
            programs,
            collector: Collector { totals, .. },
            ..
        } = self;
        // Read slots before cells: an ended slot gets no further calls, so that all its cells are
        // seen.
        let mut used = HashSet::new();
        let slots = SlotSelection::read(self.maps, programs, totals, all, |began| {
            used.insert(began);
        })?;
        let mut gone = Vec::new();
        let mut add = |program, pid, number, calls, nanos, errno| {
            totals.add(program, pid, number, calls, nanos, errno);
        };
        slots.each_cell(self.maps, &mut add, |key| gone.extend_from_slice(key))?;
        if all {
            slots.each_task(self.maps, &mut add, &mut self.read)?;
        }
        self.maps.cells.delete(&gone)?;
        let ended = slots.ended.keys().flat_map(|key| key.to_ne_bytes());
        self.maps.slots.delete(&ended.collect::<Vec<u8>>())?;
        programs.retain(|began, _| used.contains(began));
        Ok(())
    }

    /// Ends the listener's interval if it is over.
    fn tick(&mut self) -> gate::Result<()> {
        let Reader {
            words,
            maps,
            programs,
            collector,
            ..
        } = self;
        collector.tick(|totals| {
            let mut sums = Sums::default();
            let slots = SlotSelection::read(maps, programs, totals, true, |_| {})?;
            let mut add = |program, _, number, calls, nanos, errno: Option<i32>| {
                let errors = if errno.is_some() { calls } else { 0 };
                totals::add(&mut sums, program, number, [calls, errors, nanos]);
            };
            slots.each_cell(maps, &mut add, |_| {})?;
            slots.each_task(maps, &mut add, &mut 0)?;
            for number in 0..NUMBERS {
                let [calls, nanos, errors] = read_spilt(words, number);
                let program = ProgramIndex::default();
                totals::add(&mut sums, program, number as u32, [calls, errors, nanos]);
            }
            Ok(sums)
        })
    }

    /// Reads the remaining contents of the ring and the maps, after the programs are detached.
    pub(super) fn finish(
        mut self,
        ring: &mut Ring,
        meter: &dyn Meter,
        overhead: u64,
        timing: CommandTiming,
    ) -> gate::Result<Metered> {
        self.read_ring(ring);
        self.harvest(true)?;
        let mut spilt = 0;
        for number in 0..NUMBERS {
            let [calls, nanos, errors] = read_spilt(self.words, number);
            let succeeded = calls.saturating_sub(errors);
            for (calls, nanos, errno) in [(succeeded, nanos, None), (errors, 0, Some(0))] {
                if calls > 0 {
                    let totals = &mut self.collector.totals;
                    totals.add(
                        ProgramIndex::default(),
                        0,
                        number as u32,
                        calls,
                        nanos,
                        errno,
                    );
                }
            }
            spilt += calls;
        }
        // A call that was to be reported was either read, has not returned yet, or is lost.
        let left = self.shared(shared::LEFT).cast_signed();
        let claimed = (self.wanted.min(MOST_REPORTED) as i64).saturating_sub(left);
        let wanted = |calls: u64| calls.min(self.wanted);
        let dropped = wanted(claimed.max(0) as u64).saturating_sub(wanted(self.read));
        let [
            lost_events,
            lost_long,
            unfollowed,
            compat_calls,
            unfinished,
            missed,
        ] = [
            shared::LOST_EVENTS,
            shared::LOST_LONG,
            shared::UNFOLLOWED,
            shared::COMPAT_CALLS,
            shared::UNFINISHED,
            shared::MISSED,
        ]
        .map(|word| self.shared(word));
        let mut metered = self.collector.finish(meter, overhead, timing);
        metered.unfinished = unfinished;
        metered.lost = dropped + lost_long + lost_events + unfollowed + missed;
        warn_of(&mut metered, spilt, WarningKind::Unattributed);
        warn_of(&mut metered, dropped, WarningKind::Unreported);
        warn_of(&mut metered, lost_long, WarningKind::LostLongCalls);
        warn_of(&mut metered, missed, WarningKind::Lost);
        warn_of(&mut metered, lost_events, WarningKind::LostEvents);
        warn_of(&mut metered, unfollowed, WarningKind::UnfollowedThreads);
        warn_of(&mut metered, compat_calls, WarningKind::Calls32Bit);
        Ok(metered)
    }
}
