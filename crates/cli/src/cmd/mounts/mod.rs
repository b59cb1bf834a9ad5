//! `fathom mounts`: lists and diagnoses mount points.

pub(crate) mod args;
mod assert;
pub(crate) mod compare;
mod fstab;
pub(crate) mod methods;
mod run;
pub(crate) mod show;
pub(crate) mod tree;
mod watch;

pub(crate) use run::run;
