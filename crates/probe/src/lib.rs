//! What a file system is, found by experiment: one experiment a file, each after the paper
//! *Exploring and Measuring Unix-Based File Systems*, with what else the kernel lets be seen today.
//!
//! | room | what is in it |
//! |---|---|
//! | [`timer`] | which clock to go by |
//! | [`block`] | the units in which a file system works |
//! | [`readahead`] | what is fetched before it is asked for |
//! | [`cache`] | how much the page cache holds |
//! | [`extent`] | how a file lies on the device |
//! | [`gates`] | what each call costs |
//! | [`run`](mod@run) | all of them, one after the other |
//! | [`finding`] | what an experiment has found, and what the kernel says of it |
//! | [`samples`] | what was measured, as it is kept and read again |
//! | [`infer`] | from samples to what made them: pure functions |
//! | [`desk`] | what every experiment works with: the clock, what it may use up |
//! | `watch`, `log` | the process that does them, who watches it, and what the one tells the other |
//! | [`place`] | the directory that is probed, and files in it to experiment on |
//! | [`cgroup`] | a group of processes with a memory limit of its own |
#![forbid(unsafe_code)]

pub mod block;
pub mod cache;
pub mod cgroup;
pub mod desk;
pub mod extent;
pub mod finding;
pub mod gates;
pub mod infer;
mod log;
pub mod place;
pub mod readahead;
pub mod run;
pub mod samples;
pub mod timer;
mod watch;
mod work;

pub use desk::{Limits, Trouble};
pub use finding::{Experiment, Finding, Value};
pub use gates::Price;
pub use run::{Answer, Measured, Question, run};
pub use samples::{Kind, Series};
