//! End-to-end tests of `fathom survey`. Most need root, and have their own mount namespace. The
//! page of a survey is written to a directory of the test, or not at all.

mod bounds;
mod deep;
mod odd;
mod page;
mod sections;
mod stopped;
mod wrong;

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use crate::support::fathom;

/// More time than a step takes on any machine: surveys run with the lowest priority, so that a step of
/// one second can take a minute on a busy one.
const PATIENT: [&str; 2] = ["--limit", "10m"];

/// A survey without a page, with a limit so long that no step is skipped for lack of time.
fn survey(args: impl IntoIterator<Item = OsString>) -> Command {
    survey_within(PATIENT[1], args)
}

/// A survey without a page, with a time limit for each step.
fn survey_within(limit: &str, args: impl IntoIterator<Item = OsString>) -> Command {
    let mut command = fathom(["survey", "--no-page", "--limit", limit]);
    command.args(args);
    command
}

/// The names in a directory, in order.
fn names(dir: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.unwrap().file_name().to_string_lossy().into_owned()
    };
    let mut names: Vec<String> = std::fs::read_dir(dir).unwrap().map(name).collect();
    names.sort();
    names
}
