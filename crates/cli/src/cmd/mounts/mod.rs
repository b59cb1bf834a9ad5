//! `fathom mounts`: mount points.

pub(crate) mod args;
pub(crate) mod run;
pub(crate) mod watch;

pub(crate) use run::run;
