//! `fathom compare`: runs from many machines.

pub(crate) mod args;
pub(crate) mod run;

pub(crate) use run::run;
