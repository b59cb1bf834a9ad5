//! Tests of SRCs that are given twice, or lie inside each other: the trees equal those of restic.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::restic::{NEEDS, check, init, restic, said, tracked, trees};
use crate::support::build::{dir, file, tmpfs};
use crate::support::reference::settle;
use crate::support::run::args;
use crate::support::{in_namespace, require};

/// Checks that snapshots of fathom and restic have the same tree, with and without changes since
/// the last one. Returns the first result of fathom.
fn is_as_by_restic(at: &Path, words: &[&str], change: &Path) -> Value {
    let words = || words.iter().map(OsString::from);
    let made = |files_changed: u64| {
        let made = tracked(at, words()).0;
        restic(at, args!["backup"].into_iter().chain(words())).exits(0);
        let trees = trees(at);
        assert_eq!(trees[trees.len() - 1], trees[trees.len() - 2], "{made}");
        assert_eq!(made["files_changed"], files_changed, "{made}");
        // Forget all other snapshots: the last one must be that of the catalog.
        let last = said(at, args!["list", "snapshots"]);
        let ours = made["snapshot"].as_str().unwrap();
        let others = last.lines().filter(|id| *id != ours).map(OsString::from);
        restic(at, args!["forget"].into_iter().chain(others)).exits(0);
        made
    };
    let first = made(0);
    let files = made(0)["files_unmodified"].as_u64().unwrap();
    fs::write(
        change,
        format!("changed by {:?}", words().collect::<Vec<_>>()),
    )
    .unwrap();
    settle(at);
    assert_eq!(made(1)["files_unmodified"], files - 1);
    first
}

#[test]
fn sources_in_sources_are_archived_once() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        dir(ground.join("state"));
        for path in ["a/b/c/f", "a/b/f", "a/b-/f", "a/f", "a/z/f", "other/f"] {
            file(ground.join(path), 100);
        }
        let change = ground.join("a/b/c/f");
        for words in [
            &["a", "./a", "a/"][..],
            &["other", "a", "a/f", "a/b/c", "a/b"],
            &["a/b", "a/b/c", "a/z"],
        ] {
            is_as_by_restic(ground, words, &change);
        }
        // SRC contains other file systems, of which only one is a SRC itself.
        for mounted in ["a/one", "a/two"] {
            file(tmpfs(ground.join(mounted)).join("d/f"), 100);
        }
        let change = ground.join("a/one/d/f");
        let made = is_as_by_restic(ground, &["-x", "a", "a/one"], &change);
        assert_eq!(made["files_new"], 6, "{made}");
        check(ground);
        // The repository is inside two SRCs, and is skipped in both.
        dir(ground.join("outer/inner"));
        fs::rename(ground.join("repo"), ground.join("outer/inner/repo")).unwrap();
        std::os::unix::fs::symlink("outer/inner/repo", ground.join("repo")).unwrap();
        tracked(ground, args!["outer", "outer/inner"]);
        let listed = said(ground, args!["ls", "latest"]);
        assert!(
            listed.contains("/outer/inner") && !listed.contains("inner/repo"),
            "{listed}"
        );
    });
}
