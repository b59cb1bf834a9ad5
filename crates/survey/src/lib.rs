//! The data of a survey: what its steps gather, and what is concluded from it. Words, tables and pages
//! are made of it elsewhere.
//!
//! | module | contents |
//! |---|---|
//! | [`section`] | the sections of a survey |
//! | [`missing`] | why a section was not gathered |
//! | [`step`] | the steps of a survey, and the machine |
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
pub mod missing;
pub mod section;
pub mod step;
pub mod survey;

pub use command::Command;
pub use conclude::{activity_costs, conclude};
pub use conclusion::{Conclusion, Cost, Effort, Statement};
pub use found::{ComparedMethods, Found, Mounted, Probed, SkippedMethods, Walking};
pub use missing::{Failure, Missing, Task, Unseen};
pub use section::Section;
pub use step::{Machine, StepState, StepTaken};
pub use survey::Survey;
