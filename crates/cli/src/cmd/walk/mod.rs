//! `fathom walk`: entries below directories.

pub(crate) mod args;
pub(crate) mod compare;
pub(crate) mod run;
pub(crate) mod sinks;

pub(crate) use run::run;
