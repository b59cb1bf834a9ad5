//! `fathom completions`: shell completions, generated from the definitions in [`crate::args`].

pub(crate) mod args;
pub(crate) mod run;

pub(crate) use run::run;
