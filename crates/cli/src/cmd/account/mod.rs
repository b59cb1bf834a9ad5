//! `fathom account`: counts and prices the file-system calls of a command.

pub(crate) mod args;
mod command;
mod run;
pub(crate) mod show;

pub(crate) use run::run;
