//! End-to-end tests of `fathom pathwalk`. Where LLNL's program has the same feature, they compare
//! with a reference program, call by call. None depends on the speed of the machine.

mod calls;
mod extensions;
mod lines;
mod reference;
mod stopped;
mod wrong;

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::support::run::{Ran, args};
use crate::support::{fathom, run};

/// Runs `fathom pathwalk` on a tree, with flags separated by blanks.
fn pathwalk(flags: &str, root: &Path) -> Ran {
    let flags = flags.split_whitespace().map(OsString::from);
    run(&mut fathom(
        args!["pathwalk"]
            .into_iter()
            .chain(flags)
            .chain(args!["--", root]),
    ))
}

/// Every name in a tree, with its type, permissions and size.
fn listing(root: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(path) = open.pop() {
        let seen = fs::symlink_metadata(&path).unwrap();
        let size = if seen.is_dir() { 0 } else { seen.len() };
        let name = path.strip_prefix(root).unwrap().display().to_string();
        names.push(format!("{name} {:o} {size}", seen.permissions().mode()));
        if seen.is_dir() {
            open.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        }
    }
    names.sort();
    names
}

/// The lines of the benchmark without the times, whose format is checked.
fn untimed(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let (what, took) = line
            .rsplit_once(" in ")
            .unwrap_or_else(|| panic!("no time: {line}"));
        let (whole, part) = took
            .strip_suffix('s')
            .and_then(|took| took.split_once('.'))
            .unwrap_or_else(|| panic!("{line}"));
        assert!(
            part.len() == 3 && [whole, part].iter().all(|d| d.parse::<u32>().is_ok()),
            "{line}"
        );
        what.to_owned()
    };
    text.lines().map(line).collect()
}
