//! Pure data in; tables, JSON and other formats out. Nothing here does I/O.
//!
//! | room | what is in it |
//! |---|---|
//! | [`compare_runs`] | ratios of runs on many systems |
//! | [`probe`] | what the experiments on a file system have found |
//! | [`account`] | where a run's CPU time went, gate by gate, and what would have cost less |
//! | [`meter`] | what the calls of a command cost, and what would save them |
//! | [`pathsearch`] | the path searches of a command |
//! | [`startup`] | what starting programs costs |
#![forbid(unsafe_code)]

pub mod account;
pub mod compare_runs;
pub mod meter;
pub mod pathsearch;
pub mod probe;
pub mod startup;
