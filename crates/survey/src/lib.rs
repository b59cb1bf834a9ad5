//! A survey of a machine: its steps, their results, and the conclusions, as data. The crate `cli`
//! makes text, tables and pages of it.
//!
//! | module | contents |
//! |---|---|
//! | [`section`] | the sections of a survey |
//! | [`missing`] | the reasons why a section is missing |
//! | [`step`] | the steps of a survey, and how each ended |
//! | [`machine`] | the machine |
//! | `steps` | runs the steps, each in a process of its own |
//! | [`warning`] | the warnings of a survey |
//! | [`found`] | the results of the steps |
//! | [`survey`] | a survey: results and conclusions |
//! | [`conclude`](mod@conclude) | derives findings, advice and costs from the results |
//! | [`conclusion`] | findings and advice as data |
//! | [`command`] | the commands that a survey recommends |
//! | [`known`] | measured properties of a file system |
//! | [`capacity`] | size, use and state of each file system |
//! | [`cost`] | the present and the possible cost of usual work |
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
pub use conclusion::{Conclusion, Cost, Statement, WalkTime};
pub use found::{
    ComparedMethods, ProbedFileSystem, SkippedMethods, SurveyResults, SurveyedMounts, WalkCosts,
};
pub use machine::Machine;
pub use missing::{Failure, Missing, PrivilegedResult, Task};
pub use section::Section;
pub use step::{StepKind, StepState, StepTaken};
pub use steps::context::{Activity, CallByCallWalk, Observer, StepRun, SurveyOptions};
pub use steps::mounts::TRIALS;
pub use steps::walking::walk_call_by_call;
pub use survey::Survey;
pub use warning::{FailedStep, WarningKind};

/// Runs the steps of a survey, and reports its activity to `observer`. The calling process must
/// have one thread, because this function forks before each step. The function returns in the
/// process that ran the last step; all other processes exit with the status of that process.
pub fn gather(options: &SurveyOptions, observer: &mut Observer<'_>) -> (SurveyResults, Machine) {
    let (when, begun) = (gate::clock::time_of_day() / 1_000_000, Instant::now());
    let mut found = SurveyResults::default();
    steps::take::take_all(options, &mut found, observer);
    let when = i64::try_from(when).unwrap_or(0);
    let machine = Machine::of_survey(options, &mut found, when, begun);
    (found, machine)
}
