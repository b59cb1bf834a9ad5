//! `timer`: which clock to go by.
//!
//! The paper timed by the processor's counter of cycles (TSC), and checked it once against
//! gettimeofday(2) over a sleep of a second. Here each clock says what a look at it costs, how fine
//! it is, and whether they run alike; and the counter is believed only where all these hold: it
//! runs at one speed in all states of the processor and is read in order, the kernel itself goes by
//! it, it never runs backwards from one processor to the next, and in three windows its speed is
//! the same within 50 millionths.

use std::time::Duration;

use gate::clock::{affinity, counter, monotonic_raw, rdtscp, set_affinity, time_of_day};
use gate::file::read_kernel;

use crate::desk::{Desk, Trouble};
use crate::finding::{Experiment, Finding};

/// A clock, and how its readings become nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Clock {
    /// `CLOCK_MONOTONIC_RAW`.
    #[default]
    Raw,
    /// The time-stamp counter, with the length of its tick in nanoseconds.
    Tsc(f64),
}

impl Clock {
    /// A look at the clock.
    #[inline]
    pub fn now(self) -> u64 {
        match self {
            Clock::Raw => monotonic_raw(),
            Clock::Tsc(_) => rdtscp(),
        }
    }

    /// Nanoseconds since an earlier look.
    #[inline]
    pub fn since(self, earlier: u64) -> f64 {
        let passed = self.now().wrapping_sub(earlier) as f64;
        match self {
            Clock::Raw => passed,
            Clock::Tsc(tick) => passed * tick,
        }
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Clock::Raw => "clock-monotonic-raw",
            Clock::Tsc(_) => "tsc",
        }
    }
}

/// How long each window is in which the clocks are compared.
const WINDOW: Duration = Duration::from_millis(100);
/// How many there are.
const WINDOWS: usize = 3;
/// A look that costs more, in nanoseconds, enters the kernel each time.
pub const NO_VDSO: f64 = 100.0;

/// Finds the clock to go by, and what the others are worth.
pub fn timer(desk: &mut Desk<'_>) -> Result<Vec<Finding>, Trouble> {
    desk.go_on("timer: what each clock costs, and whether they run alike")?;
    let tsc = counter().filter(|counter| counter.ordered);
    let mut found = Vec::new();
    let known = |name, unit, value: f64, method: String| {
        Finding::known(Experiment::Timer, name, unit, value, 1.0, method).tried(BATCHES)
    };

    let raw_cost = cost(monotonic_raw);
    let price = format!("the quickest of {BATCHES} times {LOOKS} looks");
    found.push(known(
        "overhead-clock-monotonic-raw",
        "ns",
        raw_cost,
        price.clone(),
    ));
    found.push(known(
        "overhead-gettimeofday",
        "ns",
        cost(time_of_day),
        price.clone(),
    ));
    let step = "the least that two looks in a row lay apart, if they were not the same".to_owned();
    found.push(known(
        "resolution-clock-monotonic-raw",
        "ns",
        resolution(monotonic_raw),
        step.clone(),
    ));
    found.push(known(
        "resolution-gettimeofday",
        "ns",
        1000.0 * resolution(time_of_day),
        step.clone(),
    ));

    let windows: Vec<Window> = (0..WINDOWS).map(|_| Window::of(tsc.is_some())).collect();
    desk.still()?;
    let apart = |window: &Window| (window.wall / window.raw - 1.0) * 1e6;
    let drift =
        windows.iter().map(apart).fold(
            0.0,
            |worst: f64, ppm| if ppm.abs() > worst.abs() { ppm } else { worst },
        );
    let over = format!(
        "the worst of {WINDOWS} windows of {} ms, against CLOCK_MONOTONIC_RAW",
        WINDOW.as_millis()
    );
    found.push(
        known(
            "drift-gettimeofday",
            "ppm",
            drift,
            format!("{over}; the clock on the wall is steered"),
        )
        .tried(WINDOWS),
    );

    let mut clock = Clock::Raw;
    let (trusted, why) = match tsc {
        None => (
            false,
            "the processor has no counter that is read in order (rdtscp)".to_owned(),
        ),
        Some(counter) => {
            let speeds: Vec<f64> = windows
                .iter()
                .map(|window| window.ticks / window.raw)
                .collect();
            let (slow, fast) = speeds
                .iter()
                .fold((f64::MAX, 0.0_f64), |(a, b), v| (a.min(*v), b.max(*v)));
            let ppm = (fast / slow - 1.0) * 1e6;
            let tick = 1.0 / (speeds.iter().sum::<f64>() / WINDOWS as f64);
            let tsc_cost = cost(rdtscp);
            found.push(known("overhead-tsc", "ns", tsc_cost, price));
            found.push(known(
                "resolution-tsc",
                "ns",
                tick * resolution(rdtscp),
                step,
            ));
            found.push(
                known("frequency-tsc", "Hz", (1e9 / tick).round(), over.clone()).tried(WINDOWS),
            );
            found.push(
                known(
                    "drift-tsc",
                    "ppm",
                    ppm,
                    format!("how far {over} of its speeds lie apart"),
                )
                .tried(WINDOWS),
            );
            let reasons = distrust(counter.invariant, ppm);
            if reasons.is_empty() && (raw_cost > NO_VDSO || tsc_cost < raw_cost / 2.0) {
                clock = Clock::Tsc(tick);
            }
            let all = "it runs at one speed, the kernel goes by it, and it never ran backwards";
            (
                reasons.is_empty(),
                if reasons.is_empty() {
                    all.to_owned()
                } else {
                    reasons.join("; ")
                },
            )
        }
    };
    let word = if trusted { "yes" } else { "no" };
    found.push(
        Finding::known(Experiment::Timer, "tsc-trusted", "word", word, 1.0, why).tried(WINDOWS),
    );
    let dear = raw_cost > NO_VDSO && clock == Clock::Raw;
    let why = match clock {
        Clock::Tsc(_) => "the counter may be trusted, and a look at it costs less than half".to_owned(),
        Clock::Raw if dear => {
            format!(
                "a look costs {raw_cost:.0} ns: it enters the kernel each time (no vDSO), and short calls look long"
            )
        }
        Clock::Raw => {
            "it costs hardly more than the counter, is in nanoseconds, and is there on every machine".to_owned()
        }
    };
    found.insert(
        0,
        Finding::known(Experiment::Timer, "timer", "word", clock.name(), 1.0, why).tried(WINDOWS),
    );
    desk.clock = clock;
    Ok(found)
}

/// How far each clock went while the process slept, in nanoseconds and in ticks.
struct Window {
    raw: f64,
    wall: f64,
    ticks: f64,
}

impl Window {
    fn of(with_ticks: bool) -> Window {
        let look = || {
            (
                monotonic_raw(),
                time_of_day(),
                if with_ticks { rdtscp() } else { 0 },
            )
        };
        let before = look();
        std::thread::sleep(WINDOW);
        let after = look();
        Window {
            raw: after.0.wrapping_sub(before.0).max(1) as f64,
            wall: after.1.wrapping_sub(before.1) as f64 * 1000.0,
            ticks: after.2.wrapping_sub(before.2) as f64,
        }
    }
}

/// Why the counter should not be believed; nothing, if it should.
fn distrust(invariant: bool, ppm: f64) -> Vec<String> {
    const APART: f64 = 50.0;
    let mut reasons = Vec::new();
    if !invariant {
        reasons.push("its speed may change with the processor's".to_owned());
    }
    let source = read_kernel(c"/sys/devices/system/clocksource/clocksource0/current_clocksource")
        .unwrap_or_default();
    if source.trim_ascii() != b"tsc" {
        reasons.push(format!(
            "the kernel goes by {}",
            String::from_utf8_lossy(source.trim_ascii())
        ));
    }
    if ppm > APART {
        reasons.push(format!(
            "its speed in {WINDOWS} windows differed by {ppm:.0} millionths"
        ));
    }
    if runs_backwards() {
        reasons.push("it ran backwards from one processor to the next".to_owned());
    }
    reasons
}

/// Whether the counter is ever behind what it was on the processor before. A thread goes round all
/// of them.
fn runs_backwards() -> bool {
    const ROUNDS: usize = 3;
    let look = || {
        let mut last = 0;
        let mut back = false;
        let processors = affinity();
        for processor in std::iter::repeat_n(&processors, ROUNDS).flatten() {
            if set_affinity(&[*processor]).is_ok() {
                let now = rdtscp();
                back |= now < last;
                last = now;
            }
        }
        back
    };
    std::thread::scope(|scope| scope.spawn(look).join()).unwrap_or(true)
}

const BATCHES: usize = 9;
const LOOKS: u32 = 1000;

/// What a look at a clock costs, in nanoseconds.
fn cost(look: impl Fn() -> u64) -> f64 {
    let batch = |_| {
        let begun = monotonic_raw();
        for _ in 0..LOOKS {
            std::hint::black_box(look());
        }
        monotonic_raw().wrapping_sub(begun) as f64 / f64::from(LOOKS)
    };
    (0..BATCHES).map(batch).fold(f64::INFINITY, f64::min)
}

/// The least step of a clock, in its own units.
fn resolution(look: impl Fn() -> u64) -> f64 {
    const STEPS: usize = 100;
    let mut least = u64::MAX;
    let mut last = look();
    for _ in 0..STEPS {
        let now = std::iter::repeat_with(&look)
            .take(100_000)
            .find(|now| *now != last)
            .unwrap_or(last);
        least = least.min(now.wrapping_sub(last)).max(1);
        last = now;
    }
    least as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desk::Limits;

    #[test]
    fn there_is_always_a_clock() {
        let mut say = |_: &str| {};
        let mut desk = Desk::new(
            Limits {
                bytes: 0,
                time: Duration::from_secs(60),
            },
            &mut say,
        );
        let found = timer(&mut desk).unwrap();
        assert_eq!(found[0].name, "timer");
        let begun = desk.clock.now();
        std::thread::sleep(Duration::from_millis(5));
        let passed = desk.clock.since(begun);
        assert!((5e6..5e9).contains(&passed), "{passed}");
    }
}
