//! `fathom mounts`: mount points.

pub(crate) mod args;
pub(crate) mod methods;
pub(crate) mod run;
pub(crate) mod show;
pub(crate) mod watch;

pub(crate) use run::run;
