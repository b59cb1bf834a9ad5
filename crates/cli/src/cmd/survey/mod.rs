//! `fathom survey`: one page about a machine. The crate `survey` takes the measurements, and
//! derives findings and advice; `show` makes the text, the JSON and the page.

pub(crate) mod args;
mod command;
mod run;
mod show;
#[cfg(test)]
mod tests;
mod warning;

pub(crate) use run::{run, walk_call_by_call};
