//! `fathom survey`: one page about a machine. The steps in `steps` gather what `survey::Found` holds,
//! the crate `survey` draws findings and advice from it, and `show` makes the text, the JSON and the
//! page.

pub(crate) mod args;
mod command;
mod context;
mod mounts;
mod run;
mod show;
mod starting;
mod steps;
mod systems;
#[cfg(test)]
mod tests;
pub(crate) mod walking;
mod warning;

pub(crate) use run::run;
