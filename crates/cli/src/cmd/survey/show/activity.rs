//! The current activity of a survey, in words.

use show::name::printable;
use survey::{Activity, StepKind, StepRun, TRIALS};

use crate::progress::Progress;

/// The progress of a survey: `7 of 9, program starts, 1 of 2`.
pub(crate) fn stage(turn: &StepRun) -> String {
    let StepRun { step, nth, turns } = turn;
    let stage = format!(
        "{} of {}, {}",
        step.number(),
        StepKind::ALL.len(),
        step.name()
    );
    match turns {
        0 | 1 => stage,
        turns => format!("{stage}, {} of {turns}", nth + 1),
    }
}

/// The purpose of a step, in words.
pub(crate) fn purpose(step: StepKind) -> &'static str {
    match step {
        StepKind::MountTable => "read the kernel's mount table",
        StepKind::Capacities => "statfs(2) on each mount, except those that may not answer",
        StepKind::Engines => "measure the cost of reading all metadata",
        StepKind::Dump => "measure the cost of a nightly dump before it reads file data",
        StepKind::Methods => "compare the methods of the papers of 1988 with the mount table",
        StepKind::Account => "count the calls of a walk, and find redundant ones",
        StepKind::Starts => "count failed lookups by shells, the dynamic linker and Python",
        StepKind::Prices => "measure the price of each call on this machine",
        StepKind::Experiments => "measure block size and readahead with unnamed temporary files",
    }
}

/// Shows the activity of a step in the progress line.
pub(crate) fn show(activity: &Activity<'_>, line: &mut Progress) {
    match *activity {
        Activity::Announced | Activity::Begun | Activity::Ended => {}
        Activity::Searching(far, path) => line.search(far, path),
        Activity::Method(name, trial) => line.trial(name, (trial, TRIALS), "profile"),
        Activity::Engine(name, trial) => line.trial(name, (trial, TRIALS), "warming caches"),
        Activity::Checking(done, of) => line.at(|| format!("{done} of {of} mounts have answered")),
        Activity::Scouting(engine) => line.at(|| format!("{}, until the limit", engine.name())),
        Activity::Levels(levels) => line.at(|| format!("the uppermost {levels} levels")),
        Activity::Starting(program) => line.at(|| program.to_owned()),
        Activity::Probing(dir, activity) => {
            line.at(|| format!("{}: {activity}", printable(dir)));
        }
    }
}
