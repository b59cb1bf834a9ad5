//! `fathom completions` and `fathom man`: shell completions and man pages.

pub(crate) mod args;
pub(crate) mod run;

pub(crate) use run::{completions, man};
