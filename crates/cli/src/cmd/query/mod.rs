//! `fathom query`: lists and counts entries of catalogs.

pub(crate) mod args;
mod diff;
pub(crate) mod run;
mod show;

pub(crate) use run::run;

const SCHEMA: &str = "fathom.query/1";
