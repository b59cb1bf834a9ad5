//! `fathom compare`: runs from many machines.

pub(crate) mod args;
mod growth;
mod page;
mod run;
pub(crate) mod show;

pub(crate) use run::run;
