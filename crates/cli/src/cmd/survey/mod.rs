//! `fathom survey`: one page about a machine.

pub(crate) mod args;
mod conclude;
pub(crate) mod diff;
#[cfg(test)]
mod example;
mod finding;
pub(crate) mod found;
pub(crate) mod known;
pub(crate) mod mounts;
pub(crate) mod run;
pub(crate) mod show;
pub(crate) mod starting;
pub(crate) mod steps;
#[expect(clippy::module_inception)]
pub(crate) mod survey;
pub(crate) mod systems;
#[cfg(test)]
mod tests;
pub(crate) mod tread;
pub(crate) mod walking;
mod warning;

pub(crate) use run::run;
