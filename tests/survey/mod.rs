//! End-to-end tests of `fathom survey`. Most need root, and have a mount namespace of their own.
//! The page of a survey is written to a directory of the test's, or not at all.

mod bounds;
mod deep;
mod diff;
mod odd;
mod page;
mod sections;
mod stopped;

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use crate::support::fathom;

/// A survey that writes no page.
fn survey(args: impl IntoIterator<Item = OsString>) -> Command {
    fathom(
        [OsString::from("survey"), "--no-page".into()]
            .into_iter()
            .chain(args),
    )
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
