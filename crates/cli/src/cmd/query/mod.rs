//! `fathom query`: entries of catalogs.

pub(crate) mod args;
pub(crate) mod run;

pub(crate) use run::run;
