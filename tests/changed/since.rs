//! Helpers of tests that write a catalog, and list the changes since.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, mount};
use serde_json::Value;

use crate::support::build::dir;
use crate::support::disks::{BTRFS, EXT4, XFS, mounted};
use crate::support::reference::settle;
use crate::support::run::{Ran, args, path};
use crate::support::{fathom, in_namespace, run};

/// Writes a catalog of `top` to a file outside the tree.
pub(crate) fn catalog(top: &Path, to: &Path) -> PathBuf {
    run(&mut fathom(args!["walk", top, "--catalog", to])).exits(0);
    to.to_owned()
}

pub(crate) fn changed(top: &Path, since: &Path, more: &[&str]) -> Ran {
    let mut arguments = args!["changed", top, "--since", since].to_vec();
    arguments.extend(more.iter().map(OsString::from));
    run(&mut fathom(arguments))
}

/// A reported change: its kind, the path, and the former path if the entry was renamed.
pub(crate) type Change = (String, PathBuf, Option<PathBuf>);

/// The changes in a result. Checks that the counts match the list.
pub(crate) fn changes(value: &Value) -> BTreeSet<Change> {
    let result = &value["result"];
    let entries = result["entries"].as_array().unwrap();
    let change = |entry: &Value| {
        let from = entry.get("from").map(|_| path(entry, "from"));
        (
            entry["change"].as_str().unwrap().to_owned(),
            path(entry, "path"),
            from,
        )
    };
    let found: BTreeSet<Change> = entries.iter().map(change).collect();
    assert_eq!(found.len(), entries.len(), "something is given twice");
    for kind in ["added", "changed", "removed", "renamed"] {
        assert_eq!(
            result[kind],
            found.iter().filter(|(change, ..)| change == kind).count(),
            "{kind}"
        );
    }
    assert_eq!(result["unchanged"], found.is_empty());
    found
}

/// The changes since a catalog, by every engine that can report them.
pub(crate) fn since(top: &Path, catalog: &Path) -> BTreeSet<Change> {
    changes(&changed(top, catalog, &["--json"]).exits(0).json())
}

/// Changes from a list of words and paths.
pub(crate) fn expect<'a>(list: impl IntoIterator<Item = (&'a str, &'a str)>) -> BTreeSet<Change> {
    let one = |(change, path): (&str, &str)| match path.split_once(" <- ") {
        Some((path, from)) => (
            change.to_owned(),
            PathBuf::from(path),
            Some(PathBuf::from(from)),
        ),
        None => (change.to_owned(), PathBuf::from(path), None),
    };
    list.into_iter().map(one).collect()
}

/// Runs on a file system of each kind: the directory `tree` in it, and a place for catalogs outside
/// it.
pub(crate) fn on_each_kind(look: impl Fn(&Path, &Path, &str) + Sync) {
    for kind in ["tmpfs", "ext4", "xfs", "btrfs"] {
        in_namespace(|ground| {
            let at = dir(ground.join("disk"));
            let make = [EXT4[0], XFS[0], BTRFS[0]]
                .into_iter()
                .find(|make| make.fstype == kind);
            match make {
                Some(make) => assert!(mounted(make, &at)),
                None => mount("still", &at, "tmpfs", MountFlags::NOATIME, c"mode=755").unwrap(),
            }
            look(
                &dir(at.join("tree")),
                &dir(ground.join("out")).join("catalog"),
                kind,
            );
            settle(&at);
        });
    }
}
