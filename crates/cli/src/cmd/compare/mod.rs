//! `fathom compare`: runs from many machines.

pub(crate) mod args;
mod page;
mod run;
pub(crate) mod show;

pub(crate) use run::run;
