//! Pure data in; tables, JSON and other formats out. Nothing here does I/O.
//!
//! | room | what is in it |
//! |---|---|
//! | [`mounts`] | mount points in every format |
//! | [`compare`] | the comparison of the methods that find them |
//! | [`compare_runs`] | ratios of runs on many systems |
//! | [`walk`] | what a walk found |
//! | [`du`] | what each directory holds |
//! | [`entries`] | entries, one a line |
//! | [`probe`] | what the experiments on a file system have found |
//! | [`plot`] | figures of samples, as SVG and PNG |
//! | [`account`] | where a run's CPU time went, gate by gate, and what would have cost less |
//! | [`meter`] | what the calls of a command cost, and what would save them |
//! | [`pathsearch`] | the path searches of a command |
//! | [`startup`] | what starting programs costs |
//! | [`draw`] | the plots of pages, as SVG |
#![forbid(unsafe_code)]

pub mod account;
pub mod compare;
pub mod compare_runs;
pub mod draw;
pub mod du;
pub mod entries;
pub mod meter;
pub mod mounts;
pub mod pathsearch;
pub mod plot;
pub mod probe;
pub mod startup;
pub mod walk;
