//! `fathom compare`: runs from many machines.

pub(crate) mod args;
mod page;
mod run;
mod show;

pub(crate) use run::run;
