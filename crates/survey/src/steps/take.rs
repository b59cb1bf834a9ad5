//! Runs the steps of a survey, each within its limits.
//!
//! A step cannot stop the whole survey, even if a server never answers, a disk takes minutes, or
//! the step has a bug. Before each step the process forks. The child runs the step, and continues
//! from there to the end of the survey, with all results so far. The parent keeps the earlier
//! results, and waits. If the child does not finish the step in time, the parent kills the child,
//! and continues without the results of this step. If the child finishes the step, the parent only
//! exits with the child's status.
//!
//! ```text
//! 1 ─ waits ───────────────────────────────────────── ends as 2 does
//!   └ 2: mounts ─ waits ─ kills 3, goes on with dumping ─ ...
//!                 └ 3: walking (stuck)
//! ```

use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use base::Warning;
use base::child::{Supervision, supervise};
use gate::interrupt::pending_signal;
use gate::process::{Child, SharedWords, leave};
use gate::usage::{IoBytes, io_bytes};

use super::context::{Activity, Observer, StepContext, StepRun, SurveyOptions};
use super::{mounts as mount_steps, starting, systems, walking};
use crate::found::SurveyResults;
use crate::missing::Missing;
use crate::step::{StepKind, StepState, StepTaken};
use crate::warning::FailedStep;

type Gather = fn(&mut StepContext<'_>, &mut SurveyResults) -> Result<(), Missing>;

struct StepSettings {
    kind: StepKind,
    /// The time of all runs of the step together, in units of `--limit`.
    time: f64,
    /// Maximum bytes that all runs of the step read from and write to disks, of 256 MiB in all;
    /// with `--deep`, only the total is limited.
    bytes: u64,
    /// Whether the step also gets the time that earlier steps did not use. With more time, such a
    /// step does not repeat its work more often, but it can finish on a slow machine or disk.
    inherits: bool,
    /// Number of runs of the step.
    turns: fn(&SurveyResults) -> usize,
    gather: Gather,
}

const MIB: u64 = 1 << 20;

/// The steps in the order of execution: cheap and informative steps first; steps that read the tree
/// follow the step that fills the caches.
const STEPS: [StepSettings; StepKind::ALL.len()] = [
    StepSettings::new(StepKind::MountTable, 0.7, 16 * MIB, mount_steps::table),
    StepSettings::new(StepKind::Capacities, 0.1, MIB, mount_steps::capacities),
    StepSettings::new(StepKind::Engines, 2.5, 128 * MIB, walking::engines),
    StepSettings::new(StepKind::Dump, 1.0, 16 * MIB, walking::dump),
    StepSettings::new(StepKind::Methods, 1.5, 16 * MIB, mount_steps::methods),
    StepSettings::new(StepKind::Account, 1.3, 0, walking::account),
    StepSettings {
        inherits: true,
        turns: starting::programs,
        ..StepSettings::new(StepKind::Starts, 1.6, 0, starting::start)
    },
    StepSettings {
        inherits: true,
        ..StepSettings::new(StepKind::Prices, 0.5, 40 * MIB, systems::gates)
    },
    StepSettings {
        inherits: true,
        turns: |found| found.to_probe.len(),
        ..StepSettings::new(StepKind::Experiments, 1.6, u64::MAX, systems::probe)
    },
];

impl StepSettings {
    /// The settings of a step that runs once.
    const fn new(kind: StepKind, time: f64, bytes: u64, gather: Gather) -> StepSettings {
        StepSettings {
            kind,
            time,
            bytes,
            inherits: false,
            turns: |_| 1,
            gather,
        }
    }
}

/// Maximum bytes for all steps together.
pub(crate) fn bytes(deep: bool) -> u64 {
    if deep { 4096 * MIB } else { 256 * MIB }
}

/// Maximum time for all steps together, including the time to kill steps that exceed their limits.
pub(crate) fn time(limit: Duration) -> Duration {
    const ENDING: f64 = 1.1;
    limit.mul_f64(STEPS.iter().map(|step| step.time).sum::<f64>() * ENDING)
}

/// Runs all steps. In a parent whose child finishes the survey, this function exits with the
/// child's status.
pub(crate) fn take_all(
    options: &SurveyOptions,
    found: &mut SurveyResults,
    observer: &mut Observer<'_>,
) {
    let begun = Instant::now();
    for (at, step) in STEPS.iter().enumerate() {
        let turns = (step.turns)(found);
        for nth in 0..turns {
            let turn = StepRun {
                step: step.kind,
                nth,
                turns,
            };
            let (until, bytes) = limits(options, found, at, &turn, begun);
            let context = StepContext {
                options,
                turn,
                until,
                bytes,
                observer: &mut *observer,
            };
            take(context, found, step);
        }
    }
}

fn take(mut context: StepContext<'_>, found: &mut SurveyResults, step: &StepSettings) {
    /// Minimum time from the limit of a step until the step is killed: a step that notices the
    /// limit stops by itself.
    const LATE: Duration = Duration::from_millis(500);
    let mut taken = StepTaken {
        name: step.kind.name(),
        section: step.kind.section(),
        state: StepState::Skipped,
        seconds: 0.0,
        bytes_read: 0,
        bytes_written: 0,
    };
    if pending_signal().is_some() {
        record_missing(found, step.kind, Missing::Interrupted);
        return found.steps.push(taken);
    }
    let time = context.left();
    context.report(Activity::Announced);
    let (begun, before) = (Instant::now(), io_bytes(None).unwrap_or_default());
    let spent = match split(time + (time / 10).max(LATE)) {
        Ok(words) => {
            context.report(Activity::Begun);
            // The I/O counters of a new child process begin with 0, so read the counters again
            // after the fork.
            let (before, charged) = (io_bytes(None).unwrap_or_default(), found.charged);
            let done = (step.gather)(&mut context, found);
            let spent = io_bytes(None).unwrap_or_default().since(before);
            found.charged = charged + (found.charged - charged).max(spent.sum());
            taken.state = match &done {
                _ if pending_signal().is_some() => StepState::Stopped,
                Err(missing) if !missing.is_stopped() => StepState::Skipped,
                Err(_) => StepState::Stopped,
                Ok(()) => StepState::Done,
            };
            if let Err(missing) = done {
                record_missing(found, step.kind, missing);
            }
            if let Some(word) = words.as_deref().and_then(|words| words.first()) {
                word.store(1, SeqCst);
            }
            spent
        }
        Err(why) => {
            let spent = io_bytes(None).unwrap_or_default().since(before);
            found.charged += spent.sum();
            taken.state = StepState::Stopped;
            record_missing(found, step.kind, why);
            spent
        }
    };
    context.report(Activity::Ended);
    let IoBytes { read, written } = spent;
    (taken.seconds, taken.bytes_read, taken.bytes_written) =
        (begun.elapsed().as_secs_f64(), read, written);
    found.steps.push(taken);
}

/// Records why a step has no results. The first reason of a section is kept.
fn record_missing(found: &mut SurveyResults, step: StepKind, missing: Missing) {
    if missing.is_wrong() {
        let missing = missing.clone();
        found
            .warnings
            .push(Warning::general(FailedStep { step, missing }));
    }
    found.missing.entry(step.section()).or_insert(missing);
}

/// The deadline of a run of the step with index `at`, and the bytes that the run may read and
/// write.
fn limits(
    options: &SurveyOptions,
    found: &SurveyResults,
    at: usize,
    turn: &StepRun,
    begun: Instant,
) -> (Instant, u64) {
    let (step, StepRun { nth, turns, .. }) = (&STEPS[at], *turn);
    let (limit, deep) = (options.limit, options.deep);
    let left = bytes(deep).saturating_sub(found.charged);
    let left = match turns.saturating_sub(nth) {
        0 | 1 => left,
        // The first run probes the file system of DIR, the most important one, so this run gets
        // half of the remaining bytes.
        _ if nth == 0 => left / 2,
        others => left / others as u64,
    };
    // With --deep, more is measured on each file system, so each run gets at least the time
    // `--limit`.
    let share = if deep {
        step.time.max(turns as f64)
    } else {
        step.time
    } / turns.max(1) as f64;
    let before: f64 = STEPS[..at].iter().map(|step| step.time).sum();
    let inherited = begun + limit.mul_f64(before + share * (nth + 1) as f64);
    let until = Instant::now() + limit.mul_f64(share);
    let until = match step.inherits {
        true => until.max(inherited),
        false => until,
    };
    (until, left.min(if deep { u64::MAX } else { step.bytes }))
}

/// Forks. The child returns the shared word, which it sets after finishing the step. The parent
/// returns the reason if the child does not finish the step; otherwise the parent exits. If no
/// child can be started, this process runs the step without supervision.
fn split(limit: Duration) -> Result<Option<SharedWords>, Missing> {
    let Ok(words) = SharedWords::new(1) else {
        return Ok(None);
    };
    match Child::split() {
        Err(_) => Ok(None),
        Ok(None) => Ok(Some(words)),
        Ok(Some(child)) => Err(wait_for_child(child, &words, limit)),
    }
}

/// Waits for a child. If the child finished its step, the child also finished the survey, and this
/// process exits with the child's status. Otherwise returns why the step did not finish.
fn wait_for_child(mut child: Child, words: &SharedWords, limit: Duration) -> Missing {
    let supervision = Supervision {
        limit,
        grace: Duration::from_secs(1),
        interval: Duration::from_millis(50),
    };
    let is_through = || words.first().is_some_and(|word| word.load(SeqCst) == 1);
    // The limit applies only until the child has finished its step: then the child continues with
    // the survey.
    let ended = supervise(&mut child, &supervision, |_, standing| {
        (standing.is_late && !is_through()).then_some(match standing.was_asked {
            true => Missing::InterruptedMidway,
            false => Missing::Overdue(limit),
        })
    });
    match ended {
        Err(why) => why,
        Ok(ended) => match (is_through(), ended.status, ended.signal) {
            (true, Some(status), _) => leave(u8::try_from(status).unwrap_or(2)),
            (true, None, signal) => leave(128 + u8::try_from(signal.unwrap_or(0)).unwrap_or(0)),
            (false, None, Some(signal)) => Missing::Killed(signal),
            (false, ..) => Missing::ProcessFailed,
        },
    }
}
