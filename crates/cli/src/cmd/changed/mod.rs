//! `fathom changed`: lists changes since a catalog was written.

pub(crate) mod args;
pub(crate) mod run;
pub(crate) mod show;

pub(crate) use run::run;
