//! `fathom verify`: archives checked.

pub(crate) mod args;
pub(crate) mod run;

pub(crate) use run::run;
