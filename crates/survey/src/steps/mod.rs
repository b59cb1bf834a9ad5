//! The steps of a survey: each adds a part of [`SurveyResults`](crate::SurveyResults), within its
//! own limits.
//!
//! | module | contents |
//! |---|---|
//! | [`context`] | the input of a step: directory, options, limits; and its progress reports |
//! | [`mounts`] | mount points, capacities, the methods to find mounts |
//! | [`walking`] | the cost of a walk, of a dump, and of the system calls of a walk |
//! | [`starting`] | the cost of program starts |
//! | [`systems`] | experiments on file systems, prices of system calls |
//! | [`take`] | the table of the steps; runs each in a process of its own |

pub(crate) mod context;
pub(crate) mod mounts;
mod starting;
mod systems;
pub(crate) mod take;
pub(crate) mod walking;
