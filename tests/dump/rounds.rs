//! Tests of series of increments: restored in order after the full dump, they give each tree.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::changes::change;
use super::full::{NEEDS, dump, quiet};
use crate::support::build::{dir, tmpfs};
use crate::support::disks::{BTRFS, EXT4, Make, XFS, mounted};
use crate::support::effort::effort;
use crate::support::reference::settle;
use crate::support::run::{Ran, args};
use crate::support::snapshot::{kept, same, snapshot};
use crate::support::tool::tool;
use crate::support::trees::{Dice, grow, plant, shuffle};
use crate::support::{fathom, in_namespace, require, run};

/// A tree that is dumped repeatedly, and its restored copy.
pub(crate) struct Series {
    pub(crate) tree: PathBuf,
    pub(crate) catalog: PathBuf,
    archives: PathBuf,
    pub(crate) restored: PathBuf,
    pub(crate) number: usize,
}

impl Series {
    /// A series for the directory `tree` in `at`; archives are written to `ground`.
    pub(crate) fn new(at: &Path, ground: &Path) -> Series {
        Series {
            tree: dir(at.join("tree")),
            catalog: ground.join("catalog"),
            archives: dir(ground.join("archives")),
            restored: dir(at.join("restored")),
            number: 0,
        }
    }

    /// The path of the next archive.
    pub(crate) fn archive(&self) -> PathBuf {
        self.archives.join(format!("{}.tar", self.number))
    }

    /// Makes the next dump: the first is full, the others are increments.
    pub(crate) fn dump(&self, more: &[&str]) -> Ran {
        let catalog = self.catalog.to_str().unwrap();
        let since: &[&str] = if self.number == 0 {
            &[]
        } else {
            &["--since", catalog]
        };
        dump(
            &self.tree,
            &self.archive(),
            &[since, &["--catalog", catalog, "--json"], more].concat(),
        )
    }

    /// Restores the last archive with GNU tar over the restored tree.
    pub(crate) fn restore(&mut self) {
        by_gnu_tar(&self.archive(), &self.restored);
        self.number += 1;
    }

    /// Checks that the restored tree equals the tree.
    #[track_caller]
    pub(crate) fn is_restored(&self, what: &str) {
        same(
            &kept(&self.tree),
            &snapshot(&self.restored.join("tree")),
            what,
        );
    }

    /// Dumps and restores, checks the restored tree, and returns the JSON result.
    #[track_caller]
    pub(crate) fn round(&mut self, what: &str) -> Value {
        self.round_by(&[], what)
    }

    /// The same, with more options.
    #[track_caller]
    pub(crate) fn round_by(&mut self, more: &[&str], what: &str) -> Value {
        let value = self.dump(more).exits(0).json();
        self.restore();
        self.is_restored(what);
        self.is_restored_by_fathom(what);
        value["result"].clone()
    }

    /// Restores all archives with `fathom restore`, and checks the restored tree.
    #[track_caller]
    pub(crate) fn is_restored_by_fathom(&self, what: &str) {
        let to = dir(self.restored.with_extension("by fathom"));
        let archives = (0..self.number).map(|number| self.archives.join(format!("{number}.tar")));
        run(fathom(args!["restore", "--numeric-owner", "-C", &to]).args(archives)).exits(0);
        same(
            &kept(&self.tree),
            &snapshot(&to.join("tree")),
            &format!("{what}, by fathom restore"),
        );
        fs::remove_dir_all(to).unwrap();
    }
}

/// Restores an increment or a full dump with GNU tar.
pub(crate) fn by_gnu_tar(archive: &Path, to: &Path) {
    let options = [
        "--listed-incremental=/dev/null",
        "--xattrs",
        "--xattrs-include=*",
        "--acls",
        "-p",
        "--same-owner",
    ];
    let silent = [
        "--numeric-owner",
        "--warning=no-timestamp",
        "--warning=no-unknown-keyword",
    ];
    quiet(
        Command::new("tar")
            .args(options)
            .args(silent)
            .arg("-xf")
            .arg(archive)
            .arg("-C")
            .arg(to),
    );
}

/// Runs a test on a file system (`None`: tmpfs).
pub(crate) fn on(make: Option<Make>, look: impl FnOnce(&Path, &Path) + Send) {
    in_namespace(|ground| {
        let at = dir(ground.join("disk"));
        match make {
            Some(make) => assert!(mounted(make, &at)),
            None => drop(tmpfs(&at)),
        }
        look(&at, ground);
    });
}

/// Grows a tree with every kind of file except sockets.
pub(crate) fn grown(tree: &Path, seed: u64) {
    grow(tree, seed, 120);
    // Remove the immutable and append-only flags, which would prevent changes. (This fails for
    // symlinks and the like.)
    let _ = Command::new("chattr")
        .args(["-R", "-f", "-i", "-a"])
        .arg(tree)
        .output();
    tool(
        Command::new("find")
            .arg(tree)
            .args(["-type", "s", "-delete"]),
    );
    // Deep chains of directories make each comparison slow.
    fs::remove_dir_all(tree.join("deep")).unwrap();
    fs::remove_dir_all(tree.join("wide")).unwrap();
    fs::remove_dir_all(tree.join("scattered")).unwrap();
}

fn random_rounds(make: Option<Make>, seed: u64, few: usize) {
    if !require(&NEEDS) {
        return;
    }
    on(make, |at, ground| {
        let mut series = Series::new(at, ground);
        grown(&series.tree, seed);
        settle(at);
        series.round("the full dump");
        let mut dice = Dice::new(seed);
        for round in 0..effort(few, 50) {
            let many = [1, 5, 20, 60][round % 4];
            change(&series.tree, &mut dice, many);
            series.round(&format!("round {round}"));
        }
    });
}

#[test]
fn rounds_of_random_changes_on_ext4() {
    random_rounds(Some(EXT4[0]), 1, 8);
}

#[test]
fn rounds_of_random_changes_on_xfs() {
    random_rounds(Some(XFS[0]), 2, 4);
}

#[test]
fn rounds_of_random_changes_on_btrfs() {
    random_rounds(Some(BTRFS[0]), 3, 4);
}

#[test]
fn rounds_of_random_changes_on_tmpfs() {
    random_rounds(None, 4, 4);
}

/// Directories exchange places, and files have hard links in several of them.
#[test]
fn rounds_of_changes_that_reuse_all_names() {
    if !require(&NEEDS) {
        return;
    }
    for (seed, make) in [
        (41, None),
        (42, Some(EXT4[0])),
        (43, Some(XFS[0])),
        (44, Some(BTRFS[0])),
    ] {
        on(make, |at, ground| {
            let (mut series, mut dice) = (Series::new(at, ground), Dice::new(seed));
            for round in 0..effort(3, 50) {
                plant(&series.tree, &mut dice);
                series.round(&format!("round {round}, filled up"));
                shuffle(&series.tree, &mut dice, [3, 8, 20][round % 3]);
                if round % 2 == 0 {
                    settle(at); // otherwise some changes fall into the tick of the dump
                }
                series.round(&format!("round {round}, {make:?}"));
            }
        });
    }
}

/// Checks counts in the JSON result of an increment.
#[track_caller]
pub(crate) fn told(result: &Value, wanted: &[(&str, u64)]) {
    for (what, count) in wanted {
        assert_eq!(result[*what], *count, "{what}: {result}");
    }
}
