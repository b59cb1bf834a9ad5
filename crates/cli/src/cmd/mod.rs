//! The commands, a folder each: `args.rs` has the flags, `run.rs` the work, `show.rs` the words.

pub(crate) mod account;
pub(crate) mod changed;
pub(crate) mod compare;
pub(crate) mod dump;
pub(crate) mod list;
pub(crate) mod metered;
pub(crate) mod mounts;
pub(crate) mod paper;
pub(crate) mod pathsearch;
pub(crate) mod pathwalk;
pub(crate) mod probe;
pub(crate) mod restore;
pub(crate) mod survey;
pub(crate) mod verify;
pub(crate) mod walk;
