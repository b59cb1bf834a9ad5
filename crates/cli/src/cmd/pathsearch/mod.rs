//! `fathom pathsearch`: the path searches of a command.

pub(crate) mod args;
pub(crate) mod run;
pub(crate) mod show;

pub(crate) use run::run;
