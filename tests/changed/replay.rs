//! Applies the reported changes to the old tree: after thousands of random changes, the result must
//! be the new tree.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::since::{Change, catalog, changed, changes, on_each_kind};
use crate::support::build::dir;
use crate::support::effort::effort;
use crate::support::reference::{Census, Entry, census, settle};
use crate::support::trees::{Dice, grow, mutate, plant, shuffle};
use crate::support::{Need, require};

/// The names below the top; the top itself is `.`.
fn names(census: &Census, top: &Path) -> BTreeMap<PathBuf, Entry> {
    let below = |path: &[u8]| {
        let path = Path::new(std::ffi::OsStr::from_bytes(path))
            .strip_prefix(top)
            .unwrap();
        if path.as_os_str().is_empty() {
            PathBuf::from(".")
        } else {
            path.to_owned()
        }
    };
    census
        .iter()
        .map(|(path, entry)| (below(path), entry.clone()))
        .collect()
}

/// The current path of the entry that was at `old`, according to the reported changes of it and of
/// its parent directories; `None` if it was removed.
fn now(old: &Path, removed: &BTreeSet<&Path>, renamed: &BTreeMap<&Path, &Path>) -> Option<PathBuf> {
    if removed.contains(old) {
        return None;
    }
    let moved = old
        .ancestors()
        .find_map(|above| renamed.get(above).map(|to| (above, to)));
    Some(match moved {
        Some((above, to)) if above == old => to.to_path_buf(),
        Some((above, to)) => to.join(old.strip_prefix(above).unwrap()),
        None => old.to_owned(),
    })
}

/// The metadata that only a change modifies. Without atimes, which the walk updates, and numbers
/// that depend on the mount.
fn lasting(entry: &Entry) -> Entry {
    Entry {
        atime: String::new(),
        dev: String::new(),
        mount: 0,
        ..entry.clone()
    }
}

fn replay(
    before: &BTreeMap<PathBuf, Entry>,
    after: &BTreeMap<PathBuf, Entry>,
    told: &BTreeSet<Change>,
    what: &str,
) {
    let of = |kind: &'static str| told.iter().filter(move |(change, ..)| change == kind);
    let removed: BTreeSet<&Path> = of("removed").map(|(_, path, _)| path.as_path()).collect();
    let renamed: BTreeMap<&Path, &Path> = of("renamed")
        .map(|(_, path, from)| (from.as_deref().unwrap(), path.as_path()))
        .collect();
    let said: BTreeSet<&Path> = told.iter().map(|(_, path, _)| path.as_path()).collect();
    // A path that an entry has left can have a different entry now: that one is reported as
    // changed.
    let mut replayed: BTreeSet<PathBuf> = of("added")
        .chain(of("changed"))
        .map(|(_, path, _)| path.clone())
        .collect();
    for (old, was) in before {
        let Some(new) = now(old, &removed, &renamed) else {
            continue;
        };
        if let Some(is) = after.get(&new) {
            assert!(
                lasting(is) == lasting(was) || said.contains(new.as_path()),
                "{what}: nothing is said of {}\n was {was:?}\n is {is:?}",
                new.display()
            );
        }
        replayed.insert(new);
    }
    let is: BTreeSet<PathBuf> = after.keys().cloned().collect();
    let differ: Vec<_> = is.symmetric_difference(&replayed).take(6).collect();
    let explained = differ.iter().map(|path| {
        let inode = |in_it: &BTreeMap<PathBuf, Entry>| {
            in_it
                .get(*path)
                .map(|entry| (entry.kind.clone(), entry.ino, entry.nlink))
        };
        let about = told.iter().filter(|(_, at, from)| {
            path.ancestors().any(|above| {
                above.parent().is_some() && (at == above || from.as_deref() == Some(above))
            })
        });
        let (was, is) = (inode(before), inode(after));
        let namesakes = |in_it: &BTreeMap<PathBuf, Entry>| {
            let ino = was.as_ref().or(is.as_ref()).map(|(_, ino, _)| *ino);
            in_it
                .iter()
                .filter(|(_, entry)| Some(entry.ino) == ino)
                .map(|(path, _)| path.clone())
                .collect::<Vec<_>>()
        };
        let about: Vec<_> = about.collect();
        format!(
            "\n{path:?} was {was:?} is {is:?}, told {about:?}; names then {:?} and now {:?}",
            namesakes(before),
            namesakes(after)
        )
    });
    let explained: String = explained.collect();
    assert!(
        differ.is_empty(),
        "{what}, of {} entries: {explained}",
        is.len()
    );
    for (_, path, _) in of("changed") {
        assert!(
            after.contains_key(path),
            "{what}: {} is not there",
            path.display()
        );
        let same = before
            .get(path)
            .is_some_and(|was| lasting(was) == lasting(&after[path]));
        assert!(!same, "{what}: {} has not changed", path.display());
    }
}

#[track_caller]
fn equal(one: &BTreeSet<Change>, other: &BTreeSet<Change>, what: &str) {
    let (only, missing): (Vec<_>, Vec<_>) = (
        one.difference(other).collect(),
        other.difference(one).collect(),
    );
    assert!(
        only.is_empty() && missing.is_empty(),
        "{what}: {only:?}\nand not {missing:?}"
    );
}

#[test]
fn changes_can_be_replayed_when_names_are_reused() {
    if require(&[Need::Root, Need::Loop]) {
        on_each_kind(|top, to, kind| {
            let (mut dice, mut quickly, rounds) = (Dice::new(31), 0, effort(6, 400));
            for round in 0..rounds {
                plant(top, &mut dice);
                settle(top);
                catalog(top, to);
                let before = names(&census(top), top);
                shuffle(top, &mut dice, [3, 8, 20][round % 3]);
                let what = format!("{kind}, round {round}");
                settle(top);
                let after = names(&census(top), top);
                let value = changed(top, to, &["--json"]).exits(0).json();
                quickly += usize::from(
                    value["result"]["why"]
                        .as_str()
                        .unwrap()
                        .starts_with("compared only "),
                );
                let told = changes(&value);
                replay(&before, &after, &told, &what);
                let plain = changes(
                    &changed(top, to, &["--engine", "stat", "--json"])
                        .exits(0)
                        .json(),
                );
                equal(&plain, &told, &format!("{what}, by stat"));
            }
            // On all file systems except tmpfs, most rounds use the file system's record of written
            // inodes.
            assert!(kind == "tmpfs" || 8 * quickly > rounds, "{kind}: {quickly}");
        });
    }
}

#[test]
fn changes_can_be_replayed() {
    if require(&[Need::Root, Need::Loop]) {
        on_each_kind(|top, to, kind| {
            let (mut dice, mut before) = (Dice::new(9), BTreeMap::new());
            for round in 0..effort(3, 50) {
                // The random changes remove more than they add, and `changed` does not ask btrfs
                // about small trees.
                if before.len() < 1100 {
                    grow(&dir(top.join(format!("grown {round}"))), round as u64, 400);
                    settle(top);
                    catalog(top, to);
                    before = names(&census(top), top);
                }
                settle(top);
                let many = [1, 30, 1000, 4000][round % 4];
                let _orphans = mutate(top, &mut dice, many);
                let what = format!("{kind}, round {round}");
                settle(top);
                let value = changed(top, to, &["--json"]).exits(0).json();
                let told = changes(&value);
                if kind == "btrfs" && many < 50 {
                    let why = value["result"]["why"].as_str().unwrap();
                    // A change may write nothing: chmod(2) to the same mode, for example.
                    const NOTHING: &str =
                        "nothing in the directory was written after the generation of the catalog";
                    let is_known = told.is_empty() && why == NOTHING;
                    assert!(
                        is_known || why.contains("written after generation"),
                        "{what}: {why}"
                    );
                }
                let after = names(&census(top), top);
                replay(&before, &after, &told, &what);
                // A plain walk reports the same changes, and so does --update.
                let plain = changes(
                    &changed(top, to, &["--engine", "stat", "--json"])
                        .exits(0)
                        .json(),
                );
                equal(&plain, &told, &format!("{what}, by stat"));
                // `--format tar` lists entries below renamed directories, too, since tar knows no
                // renames.
                let names = |more: &[&str]| changed(top, to, more).exits(0).stdout;
                let (best, stat) = (
                    names(&["--format", "tar"]),
                    names(&["--format", "tar", "--engine", "stat"]),
                );
                assert!(best == stat, "{what}, --format tar");
                let updated = changes(&changed(top, to, &["--update", "--json"]).exits(0).json());
                equal(&updated, &told, &format!("{what}, with --update"));
                before = after;
            }
        });
    }
}
