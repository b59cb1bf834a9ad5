//! `fathom space`: accounts for every byte of a file system.

pub(crate) mod args;
pub(crate) mod run;
pub(crate) mod show;

pub(crate) use run::run;
