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
use gate::interrupt::asked;
use gate::process::{Child, Shared, leave};
use gate::usage::{IoBytes, io_bytes};
use survey::{Found, Missing, Section, StepState, StepTaken};

use super::command::Commands;
use super::context::{Ration, SurveyContext};
use super::warning::WarningKind;
use super::{mounts as mount_steps, starting, systems, walking};

pub(super) struct Step {
    /// The section of the page that it is for.
    pub(super) section: Section,
    pub(super) name: &'static str,
    /// What it is done for.
    pub(super) why: &'static str,
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
    /// Does it; the last argument is the number of the turn.
    gather: fn(&SurveyContext<'_>, &mut Found, &Ration, usize) -> Result<(), Missing>,
}

const MIB: u64 = 1 << 20;

/// The steps, in order: what is cheap and tells most comes first; and what goes through the tree,
/// when a walk has brought it into memory.
pub(super) const STEPS: [Step; 9] = [
    Step {
        section: Section::Mounts,
        name: "mount table",
        why: "read the kernel's mount table",
        time: 0.7,
        bytes: 16 * MIB,
        inherits: false,
        turns: once,
        gather: mount_steps::table,
    },
    Step {
        section: Section::Mounts,
        name: "file-system sizes",
        why: "statfs(2) on each mount, except those that may not answer",
        time: 0.1,
        bytes: MIB,
        inherits: false,
        turns: once,
        gather: mount_steps::capacities,
    },
    Step {
        section: Section::Walk,
        name: "walk with each engine",
        why: "measure the cost of reading all metadata",
        time: 2.5,
        bytes: 128 * MIB,
        inherits: false,
        turns: once,
        gather: walking::engines,
    },
    Step {
        section: Section::Dump,
        name: "metadata for a dump",
        why: "measure the cost of a nightly dump before it reads file data",
        time: 1.0,
        bytes: 16 * MIB,
        inherits: false,
        turns: once,
        gather: walking::dump,
    },
    Step {
        section: Section::Mounts,
        name: "methods to find mounts",
        why: "compare the methods of the papers of 1988 with the mount table",
        time: 1.5,
        bytes: 16 * MIB,
        inherits: false,
        turns: once,
        gather: mount_steps::methods,
    },
    Step {
        section: Section::Account,
        name: "system calls of a walk",
        why: "count the calls of a walk, and find redundant ones",
        time: 1.3,
        bytes: 0,
        inherits: false,
        turns: once,
        gather: walking::account,
    },
    Step {
        section: Section::Startup,
        name: "program starts",
        why: "count failed lookups by shells, the dynamic linker and Python",
        time: 1.6,
        bytes: 0,
        inherits: true,
        turns: starting::programs,
        gather: starting::start,
    },
    Step {
        section: Section::Gates,
        name: "system-call prices",
        why: "measure the price of each call on this machine",
        time: 0.5,
        bytes: 40 * MIB,
        inherits: true,
        turns: once,
        gather: systems::gates,
    },
    Step {
        section: Section::Probe,
        name: "experiments on each file system",
        why: "measure block size and readahead with unnamed temporary files",
        time: 1.6,
        bytes: u64::MAX,
        inherits: true,
        turns: |found| found.to_probe.len(),
        gather: systems::probe,
    },
];

fn once(_: &Found) -> usize {
    1
}

/// Bytes for all steps together.
pub(super) fn bytes(deep: bool) -> u64 {
    if deep { 4096 * MIB } else { 256 * MIB }
}

/// Time for all steps together, if each uses up all that it has, and what it takes to end those
/// that would use more.
pub(super) fn time(limit: Duration) -> Duration {
    const ENDING: f64 = 1.1;
    limit.mul_f64(STEPS.iter().map(|step| step.time).sum::<f64>() * ENDING)
}

/// Takes all steps. Where this process is left behind by the one that comes through, it ends here,
/// as that one does.
pub(super) fn take_all(context: &SurveyContext<'_>, found: &mut Found) {
    let begun = Instant::now();
    for (nth, step) in STEPS.iter().enumerate() {
        let turns = (step.turns)(found);
        for turn in 0..turns {
            let of = if turns > 1 {
                format!(", {} of {turns}", turn + 1)
            } else {
                String::new()
            };
            let stage = format!("{} of {}, {}{of}", nth + 1, STEPS.len(), step.name);
            let ration = ration(context, found, nth, (turn, turns), begun, stage);
            take(context, found, step, turn, ration);
        }
    }
}

fn take(
    context: &SurveyContext<'_>,
    found: &mut Found,
    step: &'static Step,
    turn: usize,
    ration: Ration,
) {
    /// How late a step may be to see that its time is over.
    const LATE: Duration = Duration::from_millis(500);
    let mut taken = StepTaken {
        name: step.name,
        section: step.section,
        state: StepState::Skipped,
        seconds: 0.0,
        bytes_read: 0,
        bytes_written: 0,
    };
    if asked().is_some() {
        lacks(context, found, step, Missing::Interrupted);
        return found.steps.push(taken);
    }
    let time = ration.left();
    if context.out.verbose {
        context
            .out
            .note(format_args!("{}: {}", ration.stage, step.why));
    }
    let (begun, before) = (Instant::now(), io_bytes(None).unwrap_or_default());
    let spent = match split(time + (time / 10).max(LATE)) {
        Ok(words) => {
            // A child has moved nothing yet.
            let (before, charged) = (io_bytes(None).unwrap_or_default(), found.charged);
            let done = (step.gather)(context, found, &ration, turn);
            let spent = io_bytes(None).unwrap_or_default().since(before);
            found.charged = charged + (found.charged - charged).max(spent.sum());
            taken.state = match &done {
                _ if asked().is_some() => StepState::Stopped,
                Err(missing) if !missing.is_stopped() => StepState::Skipped,
                Err(_) => StepState::Stopped,
                Ok(()) => StepState::Done,
            };
            if let Err(missing) = done {
                lacks(context, found, step, missing);
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
            lacks(context, found, step, why);
            // What it has drawn on the terminal stands there still.
            drop(ration.progress());
            spent
        }
    };
    let IoBytes { read, written } = spent;
    (taken.seconds, taken.bytes_read, taken.bytes_written) =
        (begun.elapsed().as_secs_f64(), read, written);
    found.steps.push(taken);
}

/// Enters why a step gathered nothing. The first reason of a section is kept.
fn lacks(context: &SurveyContext<'_>, found: &mut Found, step: &Step, missing: Missing) {
    if missing.is_wrong() {
        found.warnings.push(Warning::general(WarningKind::Step {
            step: step.name,
            missing: missing.clone(),
            command: Commands::new(&context.root.path, None).gather(step.section),
        }));
    }
    found.missing.entry(step.section).or_insert(missing);
}

fn ration(
    context: &SurveyContext<'_>,
    found: &Found,
    nth: usize,
    (turn, turns): (usize, usize),
    begun: Instant,
    stage: String,
) -> Ration {
    let step = &STEPS[nth];
    let (limit, deep) = (context.args.limit(), context.args.deep);
    let left = bytes(deep).saturating_sub(found.charged);
    let left = match turns.saturating_sub(turn) {
        0 | 1 => left,
        // The first one is the file system of DIR, which says most: it has half.
        _ if turn == 0 => left / 2,
        others => left / others as u64,
    };
    // More is asked of each file system then, and of each.
    let share = if deep {
        step.time.max(turns as f64)
    } else {
        step.time
    } / turns.max(1) as f64;
    let before: f64 = STEPS[..nth].iter().map(|step| step.time).sum();
    let inherited = begun + limit.mul_f64(before + share * (turn + 1) as f64);
    let until = Instant::now() + limit.mul_f64(share);
    Ration {
        each: limit,
        until: if step.inherits {
            until.max(inherited)
        } else {
            until
        },
        bytes: left.min(if deep { u64::MAX } else { step.bytes }),
        has_progress: context.out.progress,
        stage,
    }
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
    const LOOK: Duration = Duration::from_millis(50);
    const GRACE: Duration = Duration::from_secs(1);
    let (begun, mut limit, mut was_asked) = (Instant::now(), limit, false);
    let is_through = || words.first().is_some_and(|word| word.load(SeqCst) == 1);
    loop {
        if let Some(ended) = child.wait(LOOK) {
            return match (is_through(), ended.status, ended.signal) {
                (true, Some(status), _) => leave(u8::try_from(status).unwrap_or(2)),
                (true, None, signal) => leave(128 + u8::try_from(signal.unwrap_or(0)).unwrap_or(0)),
                (false, None, Some(signal)) => Missing::Killed(signal),
                (false, ..) => Missing::ProcessFailed,
            };
        }
        // A terminal asks all of us; who asks this process alone means the child as well.
        if asked().is_some() && !was_asked {
            child.ask_to_stop();
            (limit, was_asked) = (limit.min(begun.elapsed() + GRACE), true);
        }
        if begun.elapsed() > limit && !is_through() {
            child.kill();
            child.wait(Duration::from_millis(200));
            return match was_asked {
                true => Missing::InterruptedMidway,
                false => Missing::Overdue(limit),
            };
        }
    }
}
