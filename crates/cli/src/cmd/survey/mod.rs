//! `fathom survey`: one page about a machine.

pub(crate) mod args;
pub(crate) mod diff;
pub(crate) mod found;
pub(crate) mod mounts;
pub(crate) mod run;
pub(crate) mod starting;
pub(crate) mod steps;
pub(crate) mod systems;
pub(crate) mod tread;
pub(crate) mod walking;

pub(crate) use run::run;
