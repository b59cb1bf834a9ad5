//! What a survey does, step by step, and what each step may use up.
//!
//! No step can take the others with it, whatever it comes upon: a server that never answers, a disk
//! that takes minutes, a mistake of ours. Before each step the process splits in two. The child
//! takes the step, and goes on from there with all that has been found, to the very end. The parent
//! keeps what was found before, and waits. If the child does not come through the step in its time,
//! it is killed, and the parent goes on without what the step was to find; and if the child comes
//! through, all that is left for the parent is to pass on how it ends.
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
use gate::interrupt::asked;
use gate::process::{Child, Shared, leave};
use gate::usage::{IoBytes, io_bytes};

use super::context::{Activity, Observer, StepContext, SurveyOptions, Turn};
use super::{mounts as mount_steps, starting, systems, walking};
use crate::found::Found;
use crate::missing::Missing;
use crate::step::{StepKind, StepState, StepTaken};
use crate::warning::FailedStep;

type Gather = fn(&mut StepContext<'_>, &mut Found) -> Result<(), Missing>;

struct Step {
    kind: StepKind,
    /// Time for all turns together, in units of `--limit`.
    time: f64,
    /// Bytes that it may have read from disks and written to them, all turns together: of 256 MiB,
    /// or with `--deep` of what that allows.
    bytes: u64,
    /// What the steps before it have left of their time is its as well: it would not be done more
    /// often in more time, but may be slow, as the machine or a disk is.
    inherits: bool,
    /// How often it is done.
    turns: fn(&Found) -> usize,
    gather: Gather,
}

const MIB: u64 = 1 << 20;

/// The steps, in order: what is cheap and tells most comes first; and what goes through the tree,
/// when a walk has brought it into memory.
const STEPS: [Step; StepKind::COUNT] = [
    Step::new(StepKind::MountTable, 0.7, 16 * MIB, mount_steps::table),
    Step::new(StepKind::Capacities, 0.1, MIB, mount_steps::capacities),
    Step::new(StepKind::Engines, 2.5, 128 * MIB, walking::engines),
    Step::new(StepKind::Dump, 1.0, 16 * MIB, walking::dump),
    Step::new(StepKind::Methods, 1.5, 16 * MIB, mount_steps::methods),
    Step::new(StepKind::Account, 1.3, 0, walking::account),
    Step {
        inherits: true,
        turns: starting::programs,
        ..Step::new(StepKind::Starts, 1.6, 0, starting::start)
    },
    Step {
        inherits: true,
        ..Step::new(StepKind::Prices, 0.5, 40 * MIB, systems::gates)
    },
    Step {
        inherits: true,
        turns: |found| found.to_probe.len(),
        ..Step::new(StepKind::Experiments, 1.6, u64::MAX, systems::probe)
    },
];

impl Step {
    /// A step that is taken once.
    const fn new(kind: StepKind, time: f64, bytes: u64, gather: Gather) -> Step {
        Step {
            kind,
            time,
            bytes,
            inherits: false,
            turns: |_| 1,
            gather,
        }
    }
}

/// Bytes for all steps together.
pub(crate) fn bytes(deep: bool) -> u64 {
    if deep { 4096 * MIB } else { 256 * MIB }
}

/// Time for all steps together, if each uses up all that it has, and what it takes to end those
/// that would use more.
pub(crate) fn time(limit: Duration) -> Duration {
    const ENDING: f64 = 1.1;
    limit.mul_f64(STEPS.iter().map(|step| step.time).sum::<f64>() * ENDING)
}

/// Takes all steps. Where this process is left behind by the one that comes through, it ends here,
/// as that one does.
pub(crate) fn take_all(options: &SurveyOptions, found: &mut Found, observer: &mut Observer<'_>) {
    let begun = Instant::now();
    for (at, step) in STEPS.iter().enumerate() {
        let turns = (step.turns)(found);
        for nth in 0..turns {
            let turn = Turn {
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

fn take(mut context: StepContext<'_>, found: &mut Found, step: &Step) {
    /// How late a step may be to see that its time is over.
    const LATE: Duration = Duration::from_millis(500);
    let mut taken = StepTaken {
        name: step.kind.name(),
        section: step.kind.section(),
        state: StepState::Skipped,
        seconds: 0.0,
        bytes_read: 0,
        bytes_written: 0,
    };
    if asked().is_some() {
        lacks(found, step.kind, Missing::Interrupted);
        return found.steps.push(taken);
    }
    let time = context.left();
    context.report(Activity::Announced);
    let (begun, before) = (Instant::now(), io_bytes(None).unwrap_or_default());
    let spent = match split(time + (time / 10).max(LATE)) {
        Ok(words) => {
            context.report(Activity::Begun);
            // A child has moved nothing yet.
            let (before, charged) = (io_bytes(None).unwrap_or_default(), found.charged);
            let done = (step.gather)(&mut context, found);
            let spent = io_bytes(None).unwrap_or_default().since(before);
            found.charged = charged + (found.charged - charged).max(spent.sum());
            taken.state = match &done {
                _ if asked().is_some() => StepState::Stopped,
                Err(missing) if !missing.is_stopped() => StepState::Skipped,
                Err(_) => StepState::Stopped,
                Ok(()) => StepState::Done,
            };
            if let Err(missing) = done {
                lacks(found, step.kind, missing);
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
            lacks(found, step.kind, why);
            spent
        }
    };
    context.report(Activity::Ended);
    let IoBytes { read, written } = spent;
    (taken.seconds, taken.bytes_read, taken.bytes_written) =
        (begun.elapsed().as_secs_f64(), read, written);
    found.steps.push(taken);
}

/// Enters why a step gathered nothing. The first reason of a section is kept.
fn lacks(found: &mut Found, step: StepKind, missing: Missing) {
    if missing.is_wrong() {
        let missing = missing.clone();
        found
            .warnings
            .push(Warning::general(FailedStep { step, missing }));
    }
    found.missing.entry(step.section()).or_insert(missing);
}

/// When a turn of the step `at` must have ended, and the bytes that it may read and write.
fn limits(
    options: &SurveyOptions,
    found: &Found,
    at: usize,
    turn: &Turn,
    begun: Instant,
) -> (Instant, u64) {
    let (step, Turn { nth, turns, .. }) = (&STEPS[at], *turn);
    let (limit, deep) = (options.limit, options.deep);
    let left = bytes(deep).saturating_sub(found.charged);
    let left = match turns.saturating_sub(nth) {
        0 | 1 => left,
        // The first one is the file system of DIR, which says most: it has half.
        _ if nth == 0 => left / 2,
        others => left / others as u64,
    };
    // More is asked of each file system then, and of each.
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

/// Splits this process in two. The child takes the step, and marks the shared word when it has come
/// through; this process fails with the reason if the child does not. Where no child can be made,
/// this process takes the step, and nobody watches it.
fn split(limit: Duration) -> Result<Option<Shared>, Missing> {
    let Ok(words) = Shared::new(1) else {
        return Ok(None);
    };
    match Child::split() {
        Err(_) => Ok(None),
        Ok(None) => Ok(Some(words)),
        Ok(Some(child)) => Err(attend(child, &words, limit)),
    }
}

/// Waits for a child. When it ends having come through its step, it has done all there was to do,
/// and this process ends as it did; else this says why it has not come through.
fn attend(mut child: Child, words: &Shared, limit: Duration) -> Missing {
    let supervision = Supervision {
        limit,
        grace: Duration::from_secs(1),
        interval: Duration::from_millis(50),
    };
    let is_through = || words.first().is_some_and(|word| word.load(SeqCst) == 1);
    // Once through its step, the child has no limit.
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
