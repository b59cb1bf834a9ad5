//! `fathom dump`: trees into an archive.

pub(crate) mod args;
mod map;
pub(crate) mod run;
mod show;

pub(crate) use run::run;
