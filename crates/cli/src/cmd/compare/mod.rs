//! `fathom compare`: runs from many machines.

pub(crate) mod args;
pub(crate) mod run;
mod show;

pub(crate) use run::run;
