//! `fathom changed`: what changed since a catalog.

pub(crate) mod args;
pub(crate) mod run;
pub(crate) mod show;

pub(crate) use run::run;
