//! What a file system is, found by experiment: one experiment per file, after the paper *Exploring
//! and Measuring Unix-Based File Systems*, with what else today's kernels let one see.
//!
//! | module | contents |
//! |---|---|
//! | `timer` | which clock to use |
//! | `block` | the units in which a file system works |
//! | `readahead` | what is fetched before it is read |
//! | `cache` | how much the page cache holds |
//! | `extent` | how a file lies on the device |
//! | `gates` | what each call costs |
//! | `supervise`, `run`, `log` | the process that makes the experiments, the one that supervises it, and the log between them |
//! | `report` | options and report |
//! | [`finding`] | a value, how it was found, and what the kernel reports |
//! | `samples` | what was measured, as it is written and read again |
//! | `infer` | from samples to what made them: pure functions |
//! | `context` | the clock, the limits, the callback for progress |
//! | [`dir`] | the directory that is probed, and temporary files in it |
//! | `io`, `residency` | what several experiments do to a file |
//! | [`cgroup`] | memory cgroups |
//! | `names`, `clock`, [`activity`], [`error`] | the types below all of these |
#![forbid(unsafe_code)]

pub mod activity;
mod block;
mod cache;
pub mod cgroup;
mod clock;
mod context;
pub mod dir;
pub mod error;
mod extent;
pub mod finding;
mod gates;
mod infer;
mod io;
mod log;
mod names;
mod readahead;
mod report;
mod residency;
mod run;
mod samples;
mod supervise;
mod timer;

pub use activity::Activity;
pub use error::{Error, Result};
pub use finding::{Finding, Value};
pub use infer::series::{combined, judge, marks};
pub use names::{Call, Experiment, Kind, Quantity, Unit};
pub use report::{CacheOptions, Limits, Measured, Price, ProbeOptions, ProbeReport};
pub use samples::Series;
pub use supervise::probe;
pub use timer::NO_VDSO;
