//! The data of a survey: its sections, and the difference of two saved surveys. Words, tables and
//! pages are made of it elsewhere.
//!
//! | module | contents |
//! |---|---|
//! | [`section`] | the sections of a survey |
//! | [`missing`] | why a section was not gathered |
//! | [`step`] | the steps of a survey, and the machine |
//! | [`capacity`] | size, use and state of each file system |
//! | [`cost`] | what the usual work costs now, and could cost |
//! | [`bounded`] | walks that were stopped at their limits |
//! | [`saved`] | a survey as `fathom survey --json` wrote it, read back |
//! | [`diff`] | what differs between two saved surveys |
//! | [`error`] | why a document is not a survey |
#![forbid(unsafe_code)]

pub mod bounded;
pub mod capacity;
pub mod cost;
pub mod diff;
pub mod error;
pub mod missing;
pub mod saved;
pub mod section;
pub mod step;

pub use error::Error;
pub use missing::{Failure, Missing, Task, Unseen};
pub use section::Section;
pub use step::{Machine, StepState, StepTaken};
