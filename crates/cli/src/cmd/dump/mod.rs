//! `fathom dump`: writes directory trees into an archive.

pub(crate) mod args;
mod automatic;
#[cfg(feature = "restic")]
mod environment;
mod map;
mod options;
mod parts;
pub(crate) mod run;
mod show;
mod snapshot;

pub(crate) use run::run;
