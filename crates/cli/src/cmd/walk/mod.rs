//! `fathom walk`: lists or summarizes the entries below directories.

pub(crate) mod args;
pub(crate) mod compare;
mod lines;
mod ncdu;
pub(crate) mod output;
mod parts;
mod request;
pub(crate) mod run;
pub(crate) mod show;
pub(crate) mod sinks;

pub(crate) use run::run;
