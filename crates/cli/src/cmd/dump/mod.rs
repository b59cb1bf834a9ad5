//! `fathom dump`: trees into an archive.

pub(crate) mod args;
pub(crate) mod run;

pub(crate) use run::run;
