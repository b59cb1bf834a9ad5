//! The common part of all meters: they run the command, report its calls, and sum them up.

use std::time::Duration;

use gate::command::{HeldCommand, Running, StartError};
use gate::{clock, usage};

use crate::call::{
    Call, Command, CommandEnd, Fork, Interval, IntervalSum, LONG_CALL, Listener, LongCall, Meter,
    MeterReason, Metered,
};
use crate::cpu_time::CpuTime;
use crate::error::{Error, MeterStep, WarningKind};
use crate::families::Families;
use crate::names::{AttachedProcess, DescriptorKind};
use crate::totals::{ProgramIndex, Sums, Totals};

/// How a command ended, and the elapsed and CPU time of the command and its descendants.
pub(crate) struct CommandTiming {
    pub(crate) ended: CommandEnd,
    pub(crate) real: Duration,
    pub(crate) user: Duration,
    pub(crate) sys: Duration,
}

impl CommandTiming {
    /// The timing of processes that a meter attached to at `start` (nanoseconds of
    /// `CLOCK_MONOTONIC`) and detaches from now.
    pub(crate) fn detached(processes: usize, start: u64, cpu: CpuTime) -> CommandTiming {
        let (user, sys) = cpu.times();
        CommandTiming {
            ended: CommandEnd::Detached(processes),
            real: Duration::from_nanos(clock::monotonic().saturating_sub(start)),
            user,
            sys,
        }
    }
}

/// Starts a command, and calls `follow` to meter it until it and all its descendants have ended.
/// `prepare` is the step to report if the child process cannot be prepared.
pub(crate) fn run_held(
    held: HeldCommand,
    command: &Command,
    prepare: MeterStep,
    follow: impl FnOnce(&mut Running) -> Result<CommandEnd, Error>,
) -> Result<CommandTiming, Error> {
    let before = usage::children_time();
    let start = clock::monotonic();
    let mut running = held.go().map_err(MeterStep::Start.before_start())?;
    let ended = follow(&mut running)?;
    let real = Duration::from_nanos(clock::monotonic().saturating_sub(start));
    match running.unstarted() {
        Some(StartError::NotRun(errno)) => return Err(command.not_executed(errno)),
        Some(StartError::Unprepared(errno)) => return Err(prepare.before_start()(errno)),
        None => {}
    }
    let after = usage::children_time();
    Ok(CommandTiming {
        ended,
        real,
        user: after.0.saturating_sub(before.0),
        sys: after.1.saturating_sub(before.1),
    })
}

/// Nanoseconds of a file-system call that does nothing: the smallest mean of several rounds. Its
/// difference between a metered and an unmetered process is the cost of metering one call.
pub(crate) fn time_empty_call() -> u64 {
    const ROUNDS: u64 = 16;
    const CALLS: u64 = 32;
    let round = |_| {
        let start = clock::monotonic();
        (0..CALLS).for_each(|_| clock::empty_file_call());
        clock::monotonic().saturating_sub(start) / CALLS
    };
    (0..ROUNDS).map(round).min().unwrap_or_default()
}

/// Passes the events of a meter to the listener, and sums up calls.
pub(crate) struct Collector<'a> {
    pub(crate) to: &'a mut dyn Listener,
    /// The maximum number of calls to report individually.
    wanted: u64,
    reported: u64,
    /// Calls in which the calling thread ended.
    pub(crate) unfinished: u64,
    families: Families,
    pub(crate) totals: Totals,
    pub(crate) warnings: Vec<WarningKind>,
    ticks: Option<Ticks>,
    /// See [`Interval::stops_processes`].
    pub(crate) stops_processes: bool,
}

/// State of the intervals that the listener asked for.
struct Ticks {
    every: Duration,
    /// End of the current interval, in nanoseconds of `CLOCK_MONOTONIC`.
    end: u64,
    /// The sums at the beginning of the current interval.
    before: Sums,
}

impl<'a> Collector<'a> {
    pub(crate) fn new(wanted: u64, to: &'a mut dyn Listener) -> Collector<'a> {
        let ticks = to.interval().map(|every| Ticks {
            every,
            end: clock::monotonic() + every.as_nanos() as u64,
            before: Sums::default(),
        });
        Collector {
            to,
            wanted,
            reported: 0,
            unfinished: 0,
            families: Families::default(),
            totals: Totals::default(),
            warnings: Vec::new(),
            ticks,
            stops_processes: false,
        }
    }

    /// Time until the current interval ends; `None` if the listener wants no intervals.
    pub(crate) fn until_tick(&self) -> Option<Duration> {
        let left = self.ticks.as_ref()?.end.saturating_sub(clock::monotonic());
        Some(Duration::from_nanos(left))
    }

    /// Ends the interval if its time is over. `others` returns the sums of calls that are not in
    /// the totals yet.
    ///
    /// # Errors
    /// The error of `others`.
    pub(crate) fn tick<E>(
        &mut self,
        others: impl FnOnce(&mut Totals) -> Result<Sums, E>,
    ) -> Result<(), E> {
        let Some(mut ticks) = self.ticks.take_if(|ticks| clock::monotonic() >= ticks.end) else {
            return Ok(());
        };
        let mut now = others(&mut self.totals)?;
        self.totals.sum_by_call(&mut now);
        let sums = self.interval_sums(&mut ticks, &now);
        self.to.tick(&Interval {
            sums,
            stops_processes: self.stops_processes,
        });
        // If this process is late, skip the missed intervals instead of reporting several at once.
        let every = ticks.every.as_nanos() as u64;
        ticks.end = (ticks.end + every).max(clock::monotonic());
        self.ticks = Some(ticks);
        Ok(())
    }

    /// Ends the last interval, which is shorter than the others, after all calls were added up.
    fn end_last_interval(&mut self) {
        if let Some(mut ticks) = self.ticks.take() {
            let mut now = Sums::default();
            self.totals.sum_by_call(&mut now);
            let sums = self.interval_sums(&mut ticks, &now);
            if !sums.is_empty() {
                self.to.tick(&Interval {
                    sums,
                    stops_processes: self.stops_processes,
                });
            }
        }
    }

    /// The calls since the end of the previous interval.
    fn interval_sums(&self, ticks: &mut Ticks, now: &Sums) -> Vec<IntervalSum> {
        let mut sums = Vec::new();
        for (&(program, number), now) in now {
            let before = ticks.before.entry((program, number)).or_default();
            // A BPF counter that is read while the kernel updates it may be missing from one read:
            // saturate.
            let [calls, errors, nanos] = [0, 1, 2].map(|at| now[at].saturating_sub(before[at]));
            *before = [0, 1, 2].map(|at| now[at].max(before[at]));
            if calls > 0 {
                sums.push(IntervalSum {
                    program: self.totals.name(program),
                    number,
                    calls,
                    errors,
                    nanos,
                });
            }
        }
        sums
    }

    /// Whether the next call would be reported individually.
    pub(crate) fn wants_calls(&self) -> bool {
        self.reported < self.wanted
    }

    /// Reports a call, unless the limit of reported calls has been reached.
    pub(crate) fn report(&mut self, call: &Call<'_>) {
        if self.wants_calls() {
            self.reported += 1;
            self.to.call(call);
        }
    }

    /// Reports a call in which its thread ended.
    pub(crate) fn end_in(&mut self, call: &Call<'_>) {
        self.unfinished += 1;
        self.report(call);
    }

    /// Adds up a call that has returned, and reports it.
    pub(crate) fn add(&mut self, program: ProgramIndex, call: &Call<'_>) {
        let (nanos, errno) = (call.nanos, call.errno());
        self.totals
            .add(program, call.pid, call.number, 1, nanos, errno);
        if self.wants_calls() {
            self.report(call);
        } else if nanos >= LONG_CALL {
            self.report_long(program, call, None);
        }
    }

    /// Reports a slow call after the limit of reported calls has been reached.
    pub(crate) fn report_long(
        &mut self,
        program: ProgramIndex,
        call: &Call<'_>,
        descriptor: Option<DescriptorKind>,
    ) {
        self.to.long_call(&LongCall {
            call: *call,
            program: &self.totals.name(program),
            descriptor,
        });
    }

    /// Reports to the listener that a running process is metered from now on.
    pub(crate) fn attach(&mut self, process: &AttachedProcess) {
        let pid = process.pid;
        for &tid in process.threads.iter().filter(|tid| **tid != pid) {
            self.families.fork(&Fork::thread(pid, tid));
        }
        self.to.attach(process);
    }

    pub(crate) fn fork(&mut self, fork: &Fork) {
        self.families.fork(fork);
        self.to.fork(fork);
    }

    pub(crate) fn exec(&mut self, pid: u32, program: &[u8]) {
        self.families.exec(pid);
        self.to.exec(pid, program);
    }

    pub(crate) fn exit(&mut self, pid: u32, tid: u32) {
        self.families
            .exit(pid, tid, |pid, tid| self.to.exit(pid, tid));
    }

    /// The result of a run in which metering made each call `overhead` nanoseconds longer.
    pub(crate) fn finish(
        mut self,
        meter: &dyn Meter,
        overhead: u64,
        timing: CommandTiming,
    ) -> Metered {
        self.end_last_interval();
        let (totals, full_tables) = self.totals.finish();
        let calls: u64 = totals.iter().map(|total| total.calls).sum();
        let mut warnings = self.warnings;
        warnings.extend(full_tables);
        Metered {
            meter: meter.name(),
            choice: MeterReason::Requested,
            warnings,
            totals,
            unfinished: self.unfinished,
            lost: 0,
            overhead: Duration::from_nanos(overhead.saturating_mul(calls)),
            ended: timing.ended,
            real: timing.real,
            user: timing.user,
            sys: timing.sys,
        }
    }
}

/// Adds a warning if the number is not 0.
pub(crate) fn warn_of(metered: &mut Metered, number: u64, kind: fn(u64) -> WarningKind) {
    metered.warnings.extend((number > 0).then(|| kind(number)));
}
