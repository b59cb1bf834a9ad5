//! Charges calls, and CPU time, to tags that the caller chooses.
//!
//! A tag is a small number, without a meaning in this crate. Between [`start`] and [`stop`], each call
//! is charged to the gate, to an [`Activity`] (what the program does) and to a [`Subject`] (for what),
//! together with the CPU time spent in the call. The rest of the CPU time is charged to the activity
//! alone. The activity is that of the thread, if it has set one ([`with_activity`]), otherwise that of
//! the process ([`set_phase`]).
//!
//! Reading a CPU clock often costs more than the call. Its cost is measured at the start and subtracted
//! from the charges. One attribution runs at a time; without one, the functions cost one relaxed load.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::Duration;

use crate::cpu_time::{process_cpu_time, thread_cpu_time};
use crate::gates::{GATES, Gate};
use crate::sync::Mutex;
use crate::watch::{attributing, set_attributing};

/// A number below `COUNT`, of which the default is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tag<const COUNT: usize>(u8);

/// What the program does; the default is anything else.
pub type Activity = Tag<8>;

/// What a call is made for; the default is anything else.
pub type Subject = Tag<4>;

impl<const COUNT: usize> Tag<COUNT> {
    /// The number of tags, the default included.
    pub const COUNT: usize = COUNT;

    /// The tag with this number.
    ///
    /// # Panics
    /// When the number is not below `COUNT`.
    pub const fn new(number: u8) -> Tag<COUNT> {
        assert!((number as usize) < COUNT);
        Tag(number)
    }

    fn index(self) -> usize {
        self.0.into()
    }
}

/// Calls, and the CPU time spent in them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Charge {
    /// The number of calls.
    pub calls: u64,
    /// CPU time in the calls, without the cost of reading the clock.
    pub cpu: Duration,
}

type Charges = [[Charge; Subject::COUNT]; Activity::COUNT];

/// The charges between [`start`] and [`stop`].
#[derive(Clone, Debug, Default)]
pub struct Attribution {
    /// CPU time spent on the attribution itself.
    pub overhead: Duration,
    cpu: [Duration; Activity::COUNT],
    charges: Vec<Charges>,
}

impl Attribution {
    /// CPU time of an activity, its calls included, without the overhead.
    pub fn cpu(&self, activity: Activity) -> Duration {
        self.cpu[activity.index()]
    }

    /// The calls through a gate during an activity and for a subject.
    pub fn charge(&self, gate: Gate, activity: Activity, subject: Subject) -> Charge {
        self.charges
            .get(gate as usize)
            .map(|charges| charges[activity.index()][subject.index()])
            .unwrap_or_default()
    }
}

/// The attribution that is running.
#[derive(Default)]
struct Running {
    /// The process's CPU time at the beginning of the phase.
    phase_start: Duration,
    /// CPU time charged during this phase by threads with an activity of their own.
    switched: Duration,
    switches: [u32; Activity::COUNT],
    costs: Costs,
    charged: Attribution,
}

impl Running {
    fn new(costs: Costs) -> Running {
        let mut running = Running {
            phase_start: process_cpu_time(),
            costs,
            ..Running::default()
        };
        running.charged.charges = vec![Charges::default(); GATES];
        running
    }
}

/// The costs of attribution itself.
#[derive(Clone, Copy, Default)]
struct Costs {
    /// CPU time between two readings of the clock.
    reading: Duration,
    /// Charging a call.
    charge: Duration,
    /// Switching the activity of a thread.
    switch: Duration,
}

static RUNNING: Mutex<Option<Running>> = Mutex::new(None);
/// The number of the activity of every thread that has none of its own.
static PHASE: AtomicU8 = AtomicU8::new(0);

thread_local! {
    /// The activity of this thread, and the thread's CPU time when it began.
    static ACTIVITY: Cell<Option<(Activity, Duration)>> = const { Cell::new(None) };
    static SUBJECT: Cell<Subject> = const { Cell::new(Subject::new(0)) };
}

fn with_running<T>(work: impl FnOnce(&mut Running) -> T) -> Option<T> {
    RUNNING.lock().as_mut().map(work)
}

fn replace_running(running: Option<Running>) -> Option<Running> {
    std::mem::replace(&mut *RUNNING.lock(), running)
}

/// Starts an attribution. One that is running is discarded.
pub fn start() {
    // The costs are measured by attributing for a while.
    replace_running(Some(Running::new(Costs::default())));
    set_attributing(true);
    let costs = measure_costs();
    ACTIVITY.set(None);
    SUBJECT.set(Subject::default());
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
            switch_activity(Some(Activity::default()));
        }),
    }
}

/// Sets the activity of every thread that has none of its own.
pub fn set_phase(activity: Activity) {
    with_running(|running| {
        let now = process_cpu_time();
        let cpu = now
            .saturating_sub(running.phase_start)
            .saturating_sub(running.switched);
        running.charged.cpu[usize::from(PHASE.load(Relaxed))] += cpu;
        (running.phase_start, running.switched) = (now, Duration::ZERO);
        PHASE.store(activity.0, Relaxed);
    });
}

/// Sets the activity of this thread; with `None`, it is the process's again. Returns the one before.
fn switch_activity(to: Option<Activity>) -> Option<Activity> {
    if !attributing() {
        return None;
    }
    let now = thread_cpu_time();
    let (from, since) = ACTIVITY.replace(to.map(|to| (to, now)))?;
    with_running(|running| {
        let cpu = now.saturating_sub(since);
        running.charged.cpu[from.index()] += cpu;
        running.switched += cpu;
        running.switches[from.index()] += 1;
    });
    Some(from)
}

/// Does work as an activity of this thread.
#[inline]
pub fn with_activity<T>(activity: Activity, work: impl FnOnce() -> T) -> T {
    if !attributing() {
        return work();
    }
    let before = switch_activity(Some(activity));
    let done = work();
    switch_activity(before);
    done
}

/// Does work whose calls are made for a subject.
#[inline]
pub fn with_subject<T>(subject: Subject, work: impl FnOnce() -> T) -> T {
    if !attributing() {
        return work();
    }
    let before = SUBJECT.replace(subject);
    let done = work();
    SUBJECT.set(before);
    done
}

/// Charges a call.
pub(crate) fn charge(gate: Gate, cpu: Duration) {
    // A thread that is ending may have dropped its cells already.
    let activity = ACTIVITY.try_with(Cell::get).ok().flatten().map_or_else(
        || PHASE.load(Relaxed).into(),
        |(activity, _)| activity.index(),
    );
    let subject = SUBJECT.try_with(Cell::get).unwrap_or_default();
    with_running(|running| {
        let charge = &mut running.charged.charges[gate as usize][activity][subject.index()];
        charge.calls += 1;
        charge.cpu += cpu.saturating_sub(running.costs.reading);
    });
}

/// Ends the attribution and returns its charges: none, if none was running.
pub fn stop() -> Attribution {
    switch_activity(None);
    set_phase(Activity::default());
    set_attributing(false);
    let Some(running) = replace_running(None) else {
        return Attribution::default();
    };
    let (costs, mut attribution) = (running.costs, running.charged);
    for (activity, cpu) in attribution.cpu.iter_mut().enumerate() {
        let calls: u64 = attribution
            .charges
            .iter()
            .flat_map(|charges| &charges[activity])
            .map(|charge| charge.calls)
            .sum();
        let calls = u32::try_from(calls).unwrap_or(u32::MAX);
        let charging = costs.charge.saturating_mul(calls);
        let switching = costs.switch.saturating_mul(running.switches[activity]);
        let overhead = charging.saturating_add(switching).min(*cpu);
        attribution.overhead += overhead;
        *cpu -= overhead;
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

    const INFORMATION: Activity = Activity::new(1);
    const COPY: Activity = Activity::new(2);
    const WRITE: Activity = Activity::new(3);
    const DIRECTORY: Subject = Subject::new(1);
    const FILE: Subject = Subject::new(2);

    fn use_cpu(time: Duration) {
        let start = thread_cpu_time();
        while thread_cpu_time() - start < time {}
    }

    /// One test for everything, since one attribution runs at a time.
    #[test]
    fn time_and_calls_are_charged_to_the_tags_that_were_set() {
        let ms = Duration::from_millis;
        let calls = |attribution: &Attribution, activity, subject| {
            attribution.charge(Gate::Getcwd, activity, subject).calls
        };
        assert_eq!(calls(&stop(), INFORMATION, DIRECTORY), 0);
        start();
        set_phase(INFORMATION);
        use_cpu(ms(20));
        with_subject(DIRECTORY, || getcwd().unwrap());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                with_activity(COPY, || {
                    with_subject(FILE, || getcwd().unwrap());
                    use_cpu(ms(40));
                });
            });
            use_cpu(ms(10));
        });
        set_phase(WRITE);
        use_cpu(ms(5));
        let attribution = stop();
        let cpu = |activity| attribution.cpu(activity);
        for (activity, least) in [(INFORMATION, 30), (COPY, 40), (WRITE, 5)] {
            assert!(
                cpu(activity) >= ms(least * 9 / 10),
                "{activity:?}: {:?}",
                attribution.cpu
            );
        }
        assert!(
            cpu(COPY) < ms(80) && cpu(Activity::default()) < ms(5),
            "{:?}",
            attribution.cpu
        );
        // Other tests of this crate may make calls at the same time, in threads without tags.
        assert_eq!(calls(&attribution, INFORMATION, DIRECTORY), 1);
        assert_eq!(calls(&attribution, COPY, FILE), 1);
        getcwd().unwrap();
        let after = stop();
        assert!(after.charges.is_empty() && after.overhead.is_zero());
    }
}
