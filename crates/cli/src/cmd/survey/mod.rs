//! `fathom survey`: one page about a machine.
//!
//! | module | contents |
//! |---|---|
//! | [`args`], [`mod@run`] | the flags, and the work |
//! | [`steps`], [`context`] | the steps in order, and the time and bytes that each may use |
//! | [`mounts`], [`walking`], [`starting`], [`systems`] | the steps |
//! | [`survey`] | what the steps found, from which [`show`] makes the text, the JSON and the page |
//! | `conclude`, `finding`, `known` | findings and advice |
//! | [`command`] | the commands that a survey names |
//! | [`diff`] | `--diff`: what changed from one survey to another |

pub(crate) mod args;
mod command;
mod conclude;
mod context;
mod diff;
mod finding;
mod known;
mod mounts;
mod run;
mod show;
mod starting;
mod steps;
#[expect(clippy::module_inception)]
mod survey;
mod systems;
#[cfg(test)]
mod tests;
pub(crate) mod walking;
mod warning;

pub(crate) use run::run;
