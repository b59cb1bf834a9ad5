//! `fathom compare`: compares the figures of two files, and runs on many machines.

pub(crate) mod args;
mod figures;
mod page;
mod run;
pub(crate) mod show;

pub(crate) use run::run;
