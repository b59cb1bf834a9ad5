//! `timer`: choice of the clock.
//!
//! The paper used the processor's time-stamp counter (TSC), and checked it once against
//! gettimeofday(2) over a sleep of a second. Here each clock's cost per reading, resolution and
//! drift are measured. The counter is trusted only if it has a constant rate in all states of the
//! processor and is read in order, the kernel itself uses it, it never runs backwards between
//! processors, and its rates in three windows differ by less than 50 millionths.

use std::time::Duration;

use std::thread::Builder;

use gate::clock::{affinity, counter, monotonic_raw, rdtscp, set_affinity, time_of_day};
use gate::file::read_kernel;
use gate::meter::spawn_scoped;

use crate::activity::Activity;
use crate::clock::Clock;
use crate::context::Context;
use crate::error::Result;
use crate::finding::{Finding, Method, TscFault, Value, WindowFigure};
use crate::names::Quantity;

/// The length of a window in which the clocks are compared.
const WINDOW: Duration = Duration::from_millis(100);
const WINDOWS: usize = 3;
/// Cost in nanoseconds of a clock reading above which each reading enters the kernel.
pub const NO_VDSO: f64 = 100.0;

/// Chooses the clock, and measures the properties of all clocks.
pub(crate) fn timer(context: &mut Context<'_>) -> Result<Vec<Finding>> {
    context.begin(Activity::Clocks)?;
    let tsc = counter().filter(|counter| counter.ordered);
    let raw_cost = cost(monotonic_raw);
    let time_of_day_step = 1000.0 * resolution(time_of_day);
    let mut found = vec![
        overhead(Quantity::RawOverhead, raw_cost),
        overhead(Quantity::TimeOfDayOverhead, cost(time_of_day)),
        step(Quantity::RawResolution, resolution(monotonic_raw)),
        step(Quantity::TimeOfDayResolution, time_of_day_step),
    ];

    let windows = [(); WINDOWS].map(|()| Window::measure(tsc.is_some()));
    context.check()?;
    let drifts = windows
        .iter()
        .map(|window| (window.wall / window.raw - 1.0) * 1e6);
    let worst = drifts.max_by(|a, b| f64::total_cmp(&a.abs(), &b.abs()));
    let figure = WindowFigure::WorstOfSteered;
    found.push(compared(
        Quantity::TimeOfDayDrift,
        worst.unwrap_or_default(),
        figure,
    ));

    let (clock, distrust) = match tsc {
        None => (Clock::Raw, vec![TscFault::NoCounter]),
        Some(counter) => judge_tsc(&windows, counter.invariant, raw_cost, &mut found),
    };
    let reason = match clock {
        Clock::Tsc(_) => Method::TscCheaper,
        Clock::Raw if raw_cost > NO_VDSO => Method::RawEntersKernel { ns: raw_cost },
        Clock::Raw => Method::RawGoodEnough,
    };
    let by_windows =
        |quantity, value, method| Finding::known(quantity, value, 1.0, method).with_trials(WINDOWS);
    let trusted = Value::Holds(distrust.is_empty());
    found.push(by_windows(
        Quantity::TscTrusted,
        trusted,
        Method::TscChecked(distrust),
    ));
    found.insert(0, by_windows(Quantity::Timer, Value::Clock(clock), reason));
    context.clock = clock;
    Ok(found)
}

fn overhead(quantity: Quantity, ns: f64) -> Finding {
    let method = Method::QuickestBatch {
        batches: BATCHES,
        readings: READINGS,
    };
    Finding::known(quantity, ns, 1.0, method).with_trials(BATCHES)
}

fn step(quantity: Quantity, ns: f64) -> Finding {
    Finding::known(quantity, ns, 1.0, Method::LeastStep).with_trials(BATCHES)
}

fn compared(quantity: Quantity, value: f64, figure: WindowFigure) -> Finding {
    let method = Method::Windows {
        windows: WINDOWS,
        millis: WINDOW.as_millis() as u64,
        figure,
    };
    Finding::known(quantity, value, 1.0, method).with_trials(WINDOWS)
}

/// Chooses the clock on a machine with a time-stamp counter, and lists reasons to distrust that.
fn judge_tsc(
    windows: &[Window],
    invariant: bool,
    raw_cost: f64,
    found: &mut Vec<Finding>,
) -> (Clock, Vec<TscFault>) {
    let speeds = windows.iter().map(|window| window.ticks / window.raw);
    let speeds: Vec<f64> = speeds.collect();
    let slow = speeds.iter().copied().fold(f64::MAX, f64::min);
    let fast = speeds.iter().copied().fold(0.0, f64::max);
    let ppm = (fast / slow - 1.0) * 1e6;
    let tick = 1.0 / (speeds.iter().sum::<f64>() / WINDOWS as f64);
    let (tsc_cost, hertz) = (cost(rdtscp), (1e9 / tick).round());
    found.extend([
        overhead(Quantity::TscOverhead, tsc_cost),
        step(Quantity::TscResolution, tick * resolution(rdtscp)),
        compared(Quantity::TscFrequency, hertz, WindowFigure::Worst),
        compared(Quantity::TscDrift, ppm, WindowFigure::Spread),
    ]);
    let reasons = distrust(invariant, ppm);
    let is_cheaper = raw_cost > NO_VDSO || tsc_cost < raw_cost / 2.0;
    let clock = if reasons.is_empty() && is_cheaper {
        Clock::Tsc(tick)
    } else {
        Clock::Raw
    };
    (clock, reasons)
}

/// The advance of each clock in a window, in nanoseconds and in ticks.
struct Window {
    raw: f64,
    wall: f64,
    ticks: f64,
}

impl Window {
    fn measure(with_ticks: bool) -> Window {
        let ticks = || if with_ticks { rdtscp() } else { 0 };
        let read = || (monotonic_raw(), time_of_day(), ticks());
        let before = read();
        std::thread::sleep(WINDOW);
        let after = read();
        Window {
            raw: after.0.wrapping_sub(before.0).max(1) as f64,
            wall: after.1.wrapping_sub(before.1) as f64 * 1000.0,
            ticks: after.2.wrapping_sub(before.2) as f64,
        }
    }
}

fn distrust(invariant: bool, ppm: f64) -> Vec<TscFault> {
    const TOLERATED: f64 = 50.0;
    let mut reasons = Vec::new();
    if !invariant {
        reasons.push(TscFault::NotInvariant);
    }
    let source = read_kernel(c"/sys/devices/system/clocksource/clocksource0/current_clocksource")
        .unwrap_or_default();
    if source.trim_ascii() != b"tsc" {
        let name = String::from_utf8_lossy(source.trim_ascii()).into_owned();
        reasons.push(TscFault::ClockSource(name));
    }
    if ppm > TOLERATED {
        let windows = WINDOWS;
        reasons.push(TscFault::Drift { windows, ppm });
    }
    if runs_backwards() {
        reasons.push(TscFault::Backwards);
    }
    reasons
}

/// Whether the counter of a processor is ever behind that of the previous one. A thread visits all
/// processors.
fn runs_backwards() -> bool {
    const ROUNDS: usize = 3;
    let visit = || {
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
    let visited = std::thread::scope(|scope| {
        let thread = spawn_scoped(scope, Builder::new(), visit).ok()?;
        thread.join().ok()
    });
    visited.unwrap_or(true)
}

const BATCHES: usize = 9;
const READINGS: u32 = 1000;

fn cost(read: impl Fn() -> u64) -> f64 {
    let batch = |_| {
        let begun = monotonic_raw();
        for _ in 0..READINGS {
            std::hint::black_box(read());
        }
        monotonic_raw().wrapping_sub(begun) as f64 / f64::from(READINGS)
    };
    (0..BATCHES).map(batch).fold(f64::INFINITY, f64::min)
}

/// The smallest observed step of a clock, in its own units.
fn resolution(read: impl Fn() -> u64) -> f64 {
    const STEPS: usize = 100;
    let mut least = u64::MAX;
    let mut last = read();
    for _ in 0..STEPS {
        let mut readings = std::iter::repeat_with(&read).take(100_000);
        let now = readings.find(|now| *now != last).unwrap_or(last);
        least = least.min(now.wrapping_sub(last)).max(1);
        last = now;
    }
    least as f64
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;
    use std::time::Instant;

    use super::*;
    use crate::dir::ProbeDir;
    use crate::report::Limits;

    #[test]
    fn a_clock_is_always_found() {
        let dir = std::env::temp_dir();
        let dir = ProbeDir::open_unnamed_only(dir.as_os_str().as_bytes()).unwrap();
        let mut ignore = |_| {};
        let limits = Limits {
            bytes: 0,
            time: Duration::from_secs(60),
        };
        let mut context = Context::new(&dir, limits, &mut ignore);
        let found = timer(&mut context).unwrap();
        assert_eq!(found[0].quantity, Quantity::Timer);
        let around = Instant::now();
        let begun = context.clock.now();
        std::thread::sleep(Duration::from_millis(5));
        let passed = context.clock.since(begun);
        // The rates of the two clocks may differ by 1 %.
        let most = around.elapsed().as_nanos() as f64 * 1.01;
        assert!((4.95e6..most).contains(&passed), "{passed}");
    }
}
