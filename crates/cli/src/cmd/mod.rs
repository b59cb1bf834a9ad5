//! The commands. Most have a folder with `args.rs` (flags), `run.rs` (the work) and `show.rs`
//! (output).

pub(crate) mod account;
pub(crate) mod changed;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod dump;
pub(crate) mod groups;
pub(crate) mod levels;
pub(crate) mod list;
pub(crate) mod man;
pub(crate) mod metered;
pub(crate) mod mounts;
pub(crate) mod pathsearch;
pub(crate) mod pathwalk;
pub(crate) mod probe;
pub(crate) mod query;
pub(crate) mod restore;
pub(crate) mod selection;
pub(crate) mod space;
pub(crate) mod survey;
pub(crate) mod verify;
pub(crate) mod walk;
