//! `fathom account`: the file-system calls of a command.

pub(crate) mod accounting;
pub(crate) mod args;
pub(crate) mod command;
pub(crate) mod run;

pub(crate) use run::run;
