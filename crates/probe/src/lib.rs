//! What a file system is, found by experiment: one experiment per file, after the paper *Exploring
//! and Measuring Unix-Based File Systems*, with what else today's kernels let one see.
//!
//! | module | what is in it |
//! |---|---|
//! | [`timer`] | which clock to use |
//! | [`block`] | the units in which a file system works |
//! | [`readahead`] | what is fetched before it is read |
//! | [`cache`] | how much the page cache holds |
//! | [`extent`] | how a file lies on the device |
//! | [`gates`] | what each call costs |
//! | `supervise`, `run`, `log` | the process that makes the experiments, the one that supervises it, and the log between them |
//! | [`report`] | options and report |
//! | [`finding`] | a value, how it was found, and what the kernel reports |
//! | [`samples`] | what was measured, as it is written and read again |
//! | [`infer`] | from samples to what made them: pure functions |
//! | [`context`] | the clock, the limits, the callback for progress |
//! | [`dir`] | the directory that is probed, and temporary files in it |
//! | `io`, `residency` | what several experiments do to a file |
//! | [`cgroup`] | memory cgroups |
//! | [`names`], [`clock`], [`activity`], [`error`] | the types below all of these |
#![forbid(unsafe_code)]

pub mod activity;
pub mod block;
pub mod cache;
pub mod cgroup;
pub mod clock;
pub mod context;
pub mod dir;
pub mod error;
pub mod extent;
pub mod finding;
pub mod gates;
pub mod infer;
mod io;
mod log;
pub mod names;
pub mod readahead;
pub mod report;
mod residency;
mod run;
pub mod samples;
mod supervise;
pub mod timer;

pub use activity::Activity;
pub use context::Limits;
pub use error::{Error, Result};
pub use finding::{Finding, Value};
pub use names::{Experiment, Kind, Quantity};
pub use report::{CacheOptions, Measured, Price, ProbeOptions, ProbeReport};
pub use samples::Series;
pub use supervise::probe;
