//! Pure data in; tables, JSON and other formats out. Nothing here does I/O.
//!
//! | room | what is in it |
//! |---|---|
//! | [`name`] | names that may hold any byte, for terminals and for JSON |
//! | [`json`] | the envelope of every command's `--json` |
//! | [`table`] | columns that fit the terminal |
//! | [`profile`] | the profile table of the 1988 papers |
//! | [`stats`] | mean, median, max, min, std_dev |
//! | [`mounts`] | mount points in every format |
//! | [`compare`] | the comparison of the methods that find them |
//! | [`compare_runs`] | ratios of runs on many systems |
//! | [`html`] | pages that need nothing beside themselves |
//! | [`walk`] | what a walk found |
//! | [`du`] | what each directory holds |
//! | [`entries`] | entries, one a line |
//! | [`dump`] | what was dumped, and its map |
//! | [`time`] | times of day |
//! | [`pathwalk`] | what LLNL's benchmark of path search has measured |
//! | [`probe`] | what the experiments on a file system have found |
//! | [`plot`] | figures of samples, as SVG and PNG |
//! | [`changed`] | what has changed, for people and for backup tools |
//! | [`nightly`] | what a nightly dump would cost |
//! | [`account`] | where a run's CPU time went, gate by gate, and what would have cost less |
//! | [`meter`] | what the calls of a command cost, and what would save them |
//! | [`restore`] | what was restored |
//! | [`list`] | members of archives |
//! | [`pathsearch`] | the path searches of a command |
//! | [`startup`] | what starting programs costs |
//! | [`survey`] | all of it on one page |
//! | [`verify`] | whether an archive is whole |
//! | [`words`] | figures in words: how many of what, sizes, times |
#![forbid(unsafe_code)]

pub mod account;
pub mod changed;
pub mod compare;
pub mod compare_runs;
pub mod du;
pub mod dump;
pub mod entries;
pub mod html;
pub mod json;
pub mod list;
pub mod meter;
pub mod mounts;
pub mod name;
pub mod nightly;
pub mod pathsearch;
pub mod pathwalk;
pub mod plot;
pub mod probe;
pub mod profile;
pub mod restore;
pub mod startup;
pub mod stats;
pub mod survey;
pub mod table;
pub mod time;
pub mod verify;
pub mod walk;
pub mod words;
