//! Charges the calls and the CPU time of a run like the Multics memo of 1974: by [`Function`], by
//! gate, and for directories or for files.
//!
//! Between [`start`] and [`stop`], each call is charged to its gate, to a function (the program's
//! activity) and to a [`CallSubject`] (the kind of entry), together with the CPU time spent in the
//! call. The rest of the CPU time is charged to the function alone. The function is that of the
//! thread, if it has set one ([`with_function`]), otherwise that of the process ([`set_phase`]).
//!
//! Reading a CPU clock often costs more than the call. Its cost is measured at the start and
//! subtracted from the charges. One attribution runs at a time; without one, the functions of this
//! module cost one relaxed load.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::Duration;

use ondisk::FileType;

use crate::cpu_time::{process_cpu_time, thread_cpu_time};
use crate::gates::{GATES, Gate};
use crate::sync::Mutex;
use crate::watch::{attributing, set_attributing};

ondisk::named! {
    /// The program's activity that a call belongs to: the rows of the first table of the Multics
    /// memo.
    #[derive(Default)]
    Function {
        /// Any activity that no other variant covers.
        #[default]
        Other "other",
        /// Reading metadata of entries.
        Information "gate calls for information",
        /// System calls made for their effect: opening and closing a file, giving an archive its
        /// name.
        Effect "gate calls for effect",
        /// Reading the contents of files.
        Copy "copy files",
        /// Writing the archive.
        Write "write archive",
        /// Writing the list of dumped entries (`--map`).
        Map "write map",
    }
}

/// The kind of entry that a call is made for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CallSubject {
    /// The call is for entries of all types alike, or for none.
    #[default]
    All,
    /// The call is for a directory.
    Directory,
    /// The call is for an entry of any other type.
    File,
}

impl CallSubject {
    /// The subject of calls for an entry of this type.
    pub fn from_type(kind: FileType) -> CallSubject {
        match kind {
            FileType::Directory => CallSubject::Directory,
            _ => CallSubject::File,
        }
    }
}

/// Calls, and the CPU time spent in them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CallCharge {
    /// Number of calls.
    pub calls: u64,
    /// CPU time spent in the calls, without reading the clock.
    pub cpu: Duration,
}

/// The calls of one gate that were charged to one function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line {
    /// The gate (system call).
    pub gate: Gate,
    /// The [`Function`] that the calls are charged to.
    pub function: Function,
    /// Calls that are made for all entries alike.
    pub all: CallCharge,
    /// Calls for directories.
    pub directory: CallCharge,
    /// Calls for entries of any other type.
    pub file: CallCharge,
}

/// The charges between [`start`] and [`stop`].
#[derive(Clone, Debug, Default)]
pub struct Attribution {
    /// CPU time by function, in the order of [`Function::ALL`], including calls, excluding the
    /// metering.
    pub cpu: [Duration; Function::ALL.len()],
    /// CPU time of the metering itself.
    pub metering: Duration,
    /// Charges of calls, by function and gate.
    pub lines: Vec<Line>,
}

type ChargeBySubject = [CallCharge; 3];

/// The state of the running attribution.
#[derive(Default)]
struct Running {
    /// CPU time of the process when [`set_phase`] was last called.
    phase_start: Duration,
    /// CPU time since `phase_start` of threads that had set their own function.
    switched: Duration,
    switches: [u32; Function::ALL.len()],
    costs: Costs,
    cpu: [Duration; Function::ALL.len()],
    /// Charges by [`Function`], then by gate.
    charges: Vec<[ChargeBySubject; GATES]>,
}

impl Running {
    fn new(costs: Costs) -> Running {
        Running {
            phase_start: process_cpu_time(),
            costs,
            charges: vec![[ChargeBySubject::default(); GATES]; Function::ALL.len()],
            ..Running::default()
        }
    }
}

/// The CPU time that attribution itself takes.
#[derive(Clone, Copy, Default)]
struct Costs {
    /// CPU time between two readings of the CPU clock.
    reading: Duration,
    /// CPU time to charge a call.
    charge: Duration,
    /// CPU time to switch the [`Function`] of a thread.
    switch: Duration,
}

static RUNNING: Mutex<Option<Running>> = Mutex::new(None);
/// Index of the [`Function`] of every thread that has set none.
static PHASE: AtomicU8 = AtomicU8::new(0);

thread_local! {
    /// The [`Function`] of this thread, and the thread's CPU time when it was set.
    static FUNCTION: Cell<Option<(Function, Duration)>> = const { Cell::new(None) };
    static SUBJECT: Cell<CallSubject> = const { Cell::new(CallSubject::All) };
}

fn with_running<T>(work: impl FnOnce(&mut Running) -> T) -> Option<T> {
    RUNNING.lock().as_mut().map(work)
}

fn replace_running(running: Option<Running>) -> Option<Running> {
    std::mem::replace(&mut *RUNNING.lock(), running)
}

/// Starts an attribution, and discards a running one.
pub fn start() {
    // The costs of metering are measured in a trial attribution.
    replace_running(Some(Running::new(Costs::default())));
    set_attributing(true);
    let costs = measure_costs();
    FUNCTION.set(None);
    SUBJECT.set(CallSubject::default());
    PHASE.store(0, Relaxed);
    replace_running(Some(Running::new(costs)));
}

fn measure_costs() -> Costs {
    const ROUNDS: u32 = 1000;
    let average = |work: &dyn Fn()| {
        let start = thread_cpu_time();
        (0..ROUNDS).for_each(|_| work());
        thread_cpu_time().saturating_sub(start) / ROUNDS
    };
    let empty_call = || {
        let start = black_box(thread_cpu_time());
        black_box(thread_cpu_time()).saturating_sub(start)
    };
    Costs {
        reading: (0..ROUNDS).map(|_| empty_call()).min().unwrap_or_default(),
        charge: average(&|| charge(Gate::Close, empty_call())),
        switch: average(&|| {
            switch_function(Some(Function::default()));
        }),
    }
}

/// Sets the [`Function`] of every thread that has not set its own.
pub fn set_phase(function: Function) {
    with_running(|running| {
        let now = process_cpu_time();
        let cpu = now
            .saturating_sub(running.phase_start)
            .saturating_sub(running.switched);
        running.cpu[usize::from(PHASE.load(Relaxed))] += cpu;
        (running.phase_start, running.switched) = (now, Duration::ZERO);
        PHASE.store(function as u8, Relaxed);
    });
}

/// Sets the function of this thread; with `None`, the function of the process applies again.
/// Returns the previous function of the thread.
fn switch_function(to: Option<Function>) -> Option<Function> {
    if !attributing() {
        return None;
    }
    let now = thread_cpu_time();
    let (from, since) = FUNCTION.replace(to.map(|to| (to, now)))?;
    with_running(|running| {
        let cpu = now.saturating_sub(since);
        running.cpu[from as usize] += cpu;
        running.switched += cpu;
        running.switches[from as usize] += 1;
    });
    Some(from)
}

/// Calls `work`, and charges its calls and CPU time to a function.
#[inline]
pub fn with_function<T>(function: Function, work: impl FnOnce() -> T) -> T {
    if !attributing() {
        return work();
    }
    let before = switch_function(Some(function));
    let done = work();
    switch_function(before);
    done
}

/// Calls `work`, and charges its calls to a subject.
#[inline]
pub fn with_subject<T>(subject: CallSubject, work: impl FnOnce() -> T) -> T {
    if !attributing() {
        return work();
    }
    let before = SUBJECT.replace(subject);
    let done = work();
    SUBJECT.set(before);
    done
}

pub(crate) fn charge(gate: Gate, cpu: Duration) {
    // A thread that is ending may have dropped its thread-local variables already.
    let function = FUNCTION.try_with(Cell::get).ok().flatten().map_or_else(
        || PHASE.load(Relaxed).into(),
        |(function, _)| function as usize,
    );
    let subject = SUBJECT.try_with(Cell::get).unwrap_or_default();
    with_running(|running| {
        let charge = &mut running.charges[function][gate as usize][subject as usize];
        charge.calls += 1;
        charge.cpu += cpu.saturating_sub(running.costs.reading);
    });
}

/// Ends the attribution and returns its charges; empty if none was running.
pub fn stop() -> Attribution {
    switch_function(None);
    set_phase(Function::default());
    set_attributing(false);
    let Some(running) = replace_running(None) else {
        return Attribution::default();
    };
    let mut attribution = Attribution::default();
    for (function, charges) in Function::ALL.into_iter().zip(&running.charges) {
        let lines = Gate::ALL.iter().zip(charges);
        let lines = lines.map(|(&gate, &[all, directory, file])| Line {
            gate,
            function,
            all,
            directory,
            file,
        });
        let calls = |line: &Line| line.all.calls + line.directory.calls + line.file.calls;
        let first = attribution.lines.len();
        attribution
            .lines
            .extend(lines.filter(|line| calls(line) > 0));
        let calls: u64 = attribution.lines[first..].iter().map(calls).sum();
        let calls = u32::try_from(calls).unwrap_or(u32::MAX);
        let costs = &running.costs;
        let charging = costs.charge.saturating_mul(calls);
        let switching = costs
            .switch
            .saturating_mul(running.switches[function as usize]);
        let cpu = running.cpu[function as usize];
        let metering = charging.saturating_add(switching).min(cpu);
        attribution.metering += metering;
        attribution.cpu[function as usize] = cpu - metering;
    }
    attribution
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::disallowed_methods,
        reason = "the tests need no counts of their threads"
    )]
    use super::*;
    use crate::fs::getcwd;

    fn use_cpu(time: Duration) {
        let start = thread_cpu_time();
        while thread_cpu_time() - start < time {}
    }

    /// One test checks everything, because only one attribution can run at a time.
    #[test]
    fn time_and_calls_are_charged_to_the_functions_and_subjects_that_were_set() {
        let ms = Duration::from_millis;
        let calls = |attribution: &Attribution, function, subject| {
            let mut lines = attribution.lines.iter();
            let line = lines.find(|line| line.gate == Gate::Getcwd && line.function == function);
            line.map_or(0, |line| match subject {
                CallSubject::All => line.all.calls,
                CallSubject::Directory => line.directory.calls,
                CallSubject::File => line.file.calls,
            })
        };
        assert_eq!(
            calls(&stop(), Function::Information, CallSubject::Directory),
            0
        );
        start();
        set_phase(Function::Information);
        use_cpu(ms(20));
        with_subject(CallSubject::Directory, || getcwd().unwrap());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                with_function(Function::Copy, || {
                    with_subject(CallSubject::File, || getcwd().unwrap());
                    use_cpu(ms(40));
                });
            });
            use_cpu(ms(10));
        });
        set_phase(Function::Write);
        use_cpu(ms(5));
        let attribution = stop();
        let cpu = |function| attribution.cpu[function as usize];
        for (function, least) in [
            (Function::Information, 30),
            (Function::Copy, 40),
            (Function::Write, 5),
        ] {
            assert!(
                cpu(function) >= ms(least * 9 / 10),
                "{function:?}: {:?}",
                attribution.cpu
            );
        }
        assert!(
            cpu(Function::Copy) < ms(80) && cpu(Function::default()) < ms(5),
            "{:?}",
            attribution.cpu
        );
        // Other tests of this crate may make calls at the same time, in threads that have set no
        // function.
        assert_eq!(
            calls(&attribution, Function::Information, CallSubject::Directory),
            1
        );
        assert_eq!(calls(&attribution, Function::Copy, CallSubject::File), 1);
        getcwd().unwrap();
        let after = stop();
        assert!(after.lines.is_empty() && after.metering.is_zero());
    }
}
