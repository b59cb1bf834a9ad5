//! Characterises a file system by experiments: one file per experiment, after the paper *Exploring
//! and Measuring Unix-Based File Systems*, extended by today's kernel interfaces.
//!
//! | module | contents |
//! |---|---|
//! | `timer` | choice of the clock |
//! | `block` | the units in which a file system works |
//! | `readahead` | data that is fetched before it is read |
//! | `cache` | capacity of the page cache |
//! | `extent` | layout of a file on the device |
//! | `gates` | prices of system calls |
//! | `supervise`, `run` | the supervisor, and its child process that runs the experiments |
//! | `report` | options and report |
//! | [`finding`] | a value, how it was found, and the kernel's own value |
//! | `samples` | measurements as they are written and read again |
//! | `infer` | inference from samples: pure functions |
//! | `context` | clock, limits, callback for progress |
//! | [`dir`] | the probed directory, and temporary files in it |
//! | `io`, `residency` | file operations that several experiments share |
//! | [`cgroup`] | memory cgroups |
//! | `names`, `clock`, [`activity`], [`error`] | types that all of these use |
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
pub use infer::series::{combined, evaluate, marks};
pub use names::{Call, Experiment, Kind, Quantity, Unit};
pub use report::{CacheOptions, Limits, MeasuredFinding, Price, ProbeOptions, ProbeReport};
pub use samples::Series;
pub use supervise::probe;
pub use timer::NO_VDSO;
