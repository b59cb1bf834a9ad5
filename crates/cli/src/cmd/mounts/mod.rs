//! `fathom mounts`: mount points.

pub(crate) mod args;
mod assert;
pub(crate) mod compare;
pub(crate) mod methods;
mod run;
pub(crate) mod show;
mod watch;

pub(crate) use run::run;
