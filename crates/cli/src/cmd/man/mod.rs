//! `fathom man`: man pages, made from the definitions in [`crate::args`].

pub(crate) mod args;
pub(crate) mod run;

pub(crate) use run::run;
