//! `fathom survey`: one page about a machine.
//!
//! | module | contents |
//! |---|---|
//! | [`args`], [`mod@run`] | the flags, and the work |
//! | [`steps`] | the steps in order, and the time and bytes that each may use |
//! | [`mounts`], [`walking`], [`starting`], [`systems`] | the steps |
//! | [`found`] | what the steps have found so far, and why a section is missing |
//! | [`survey`] | the result, from which [`show`] makes the text, the JSON and the page |
//! | `conclude`, `finding` | findings and advice |
//! | [`diff`] | `--diff`: what changed from one survey to another |

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
