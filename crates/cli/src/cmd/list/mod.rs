//! `fathom list`: lists the members of archives.

pub(crate) mod args;
pub(crate) mod run;
pub(crate) mod show;

pub(crate) use run::run;
