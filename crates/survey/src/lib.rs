//! A survey of a machine: its steps, what they gather, and what is concluded from it, as data. The command
//! line makes words, tables and pages of it.
//!
//! | module | contents |
//! |---|---|
//! | [`section`] | the sections of a survey |
//! | [`missing`] | why a section was not gathered |
//! | [`step`] | the steps of a survey, and how each ended |
//! | [`machine`] | the machine |
//! | `steps` | take the steps, each in a process of its own |
//! | [`warning`] | the warnings of a survey |
//! | [`found`] | what the steps gathered |
//! | [`survey`] | a survey: what was gathered and what is concluded from it |
//! | [`conclude`](mod@conclude) | draws findings, advice and costs from what was gathered |
//! | [`conclusion`] | findings and advice as data |
//! | [`command`] | the commands that a survey names |
//! | [`known`] | what the experiments tell of a file system |
//! | [`capacity`] | size, use and state of each file system |
//! | [`cost`] | what the usual work costs now, and could cost |
//! | [`bounded`] | walks that were stopped at their limits |
#![forbid(unsafe_code)]

pub mod bounded;
pub mod capacity;
pub mod command;
pub mod conclude;
pub mod conclusion;
pub mod cost;
pub mod found;
pub mod known;
pub mod machine;
pub mod missing;
pub mod section;
pub mod step;
mod steps;
pub mod survey;
pub mod warning;

use std::time::Instant;

pub use command::Command;
pub use conclude::{activity_costs, conclude};
pub use conclusion::{Conclusion, Cost, Effort, Statement};
pub use found::{ComparedMethods, Found, Mounted, Probed, SkippedMethods, Walking};
pub use machine::Machine;
pub use missing::{Failure, Missing, Task, Unseen};
pub use section::Section;
pub use step::{StepKind, StepState, StepTaken};
pub use steps::context::{Activity, CallByCallWalk, Observer, SurveyOptions, Turn};
pub use steps::mounts::TRIALS;
pub use steps::walking::walk_call_by_call;
pub use survey::Survey;
pub use warning::{FailedStep, WarningKind};

/// Takes the steps of a survey, and tells `observer` what it is doing. The calling process must have
/// one thread: it splits in two before each step, and this function returns in the process that has
/// taken the last one. The others end as that one does.
pub fn gather(options: &SurveyOptions, observer: &mut Observer<'_>) -> (Found, Machine) {
    let (when, begun) = (gate::clock::time_of_day() / 1_000_000, Instant::now());
    let mut found = Found::default();
    steps::take::take_all(options, &mut found, observer);
    let when = i64::try_from(when).unwrap_or(0);
    let machine = Machine::of_survey(options, &mut found, when, begun);
    (found, machine)
}
