//! `fathom space`: where every byte of a file system is.

pub(crate) mod args;
pub(crate) mod run;
pub(crate) mod show;

pub(crate) use run::run;
