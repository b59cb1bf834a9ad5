//! `fathom list`: members of archives.

pub(crate) mod args;
pub(crate) mod run;

pub(crate) use run::run;
