//! Tests of hostile and changing trees: no panic, no hang, and no wrong result that is reported as
//! complete.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::METHODS;
use super::methods::{BY_DEVICE, every_method_is_right, whole};
use crate::support::build::{bush, chmod, deep, dir, file, tmpfs, tmpfs_on};
use crate::support::concurrent::{Done, with_threads};
use crate::support::restrict::fathom_as_nobody;
use crate::support::run::{args, path, targets};
use crate::support::{Need, fathom, in_namespace, require, run};

/// Changes everything under `place` until `done` is set: creates, removes and moves directories,
/// and replaces them by files. Counts its iterations.
fn trouble(place: &Path, done: &Done, rounds: &AtomicU64) {
    let [a, b, c] = ["a", "b", "c"].map(|name| place.join(name));
    while !done.is_set() {
        // Each step may fail, because a second thread runs the same loop.
        let _ = fs::create_dir_all(a.join("x/y/z"));
        let _ = mount("t", &a, "tmpfs", MountFlags::empty(), None);
        let _ = fs::create_dir_all(a.join("x/y"));
        let _ = fs::rename(a.join("x/y"), a.join("moved"));
        let _ = symlink("/", a.join("link"));
        let _ = fs::rename(&b, &c);
        let _ = rustix::mount::mount_bind(place, a.join("x"));
        let _ = fs::create_dir(&b);
        let _ = fs::write(&c, "a file now");
        let _ = unmount(a.join("x"), UnmountFlags::DETACH);
        let _ = unmount(&a, UnmountFlags::DETACH);
        let _ = fs::remove_file(&c);
        let _ = fs::remove_dir_all(&b);
        let _ = fs::remove_dir_all(&a);
        rounds.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn tree_that_changes_during_the_search() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let quiet: BTreeSet<PathBuf> = ["1", "2/3", "9"]
                .map(|at| tmpfs(base.join("quiet").join(at)))
                .into();
            bush(&base.join("quiet"), 20, 5);
            let wild = dir(base.join("wild"));
            let rounds = AtomicU64::new(0);
            let count = || rounds.load(Ordering::SeqCst);
            with_threads(
                2,
                |_, until| trouble(&wild, until, &rounds),
                || {
                    let (mut passes, mut disturbed) = (0, 0);
                    while passes < 4 || disturbed < 10 {
                        for by in METHODS {
                            let before = count();
                            let ran = run(&mut fathom(whole(base, by)));
                            disturbed += u32::from(count() > before);
                            assert!([0, 1].contains(&ran.code()), "{ran}");
                            let found: BTreeSet<PathBuf> =
                                targets(&ran.json()).into_iter().collect();
                            assert!(
                                found.is_superset(&quiet),
                                "{by} lost a mount that nobody touched: {ran}"
                            );
                        }
                        for more in [
                            &["--check"][..],
                            &["--beneath"],
                            &["--boundaries"],
                            &["--format", "mnttab"],
                        ] {
                            let ran = run(fathom(args!["mounts", base]).args(more));
                            assert!([0, 1].contains(&ran.code()), "{ran}");
                        }
                        passes += 1;
                    }
                },
            );
        });
    }
}

#[test]
fn directories_without_read_permission() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let tree = dir(base.join("tree"));
            let open = tmpfs(tree.join("open"));
            let [unreadable, unsearchable] =
                ["unreadable", "unsearchable"].map(|name| dir(tree.join(name)));
            let beyond = tmpfs(unreadable.join("mount"));
            tmpfs(unsearchable.join("mount"));
            chmod(&unreadable, 0o711);
            chmod(&unsearchable, 0o744);
            for by in ["search", "naive", "getmnt1", "getmnt2", "getmnt3"] {
                let mut command =
                    fathom_as_nobody(base, whole(&tree, by).into_iter().chain(args!["--quiet"]));
                let value = run(&mut command).exits(1).json();
                assert_eq!(value["result"]["complete"], false, "{by}");
                let warned: BTreeSet<PathBuf> = value["warnings"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .filter(|w| w["errno"] == "EACCES")
                    .map(|w| path(w, "path"))
                    .collect();
                // The mount table names the mounts in the unreadable directory, so `search` need
                // not read it.
                assert!(
                    by == "search" || warned.iter().any(|path| path.starts_with(&unreadable)),
                    "{by}: {value}"
                );
                assert!(
                    warned.iter().any(|path| path.starts_with(&unsearchable)),
                    "{by}: {value}"
                );
                let found = targets(&value);
                assert!(found.contains(&open), "{by}: {value}");
                assert!(
                    found.iter().all(|path| *path == open || *path == beyond),
                    "{by}: {value}"
                );
            }
        });
    }
}

#[test]
fn names_of_255_bytes() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let long = "n".repeat(255);
            let mut place = base.to_owned();
            for _ in 0..7 {
                file(place.join("m".repeat(255)), 0);
                place = tmpfs(place.join(&long));
            }
            every_method_is_right(base);
        });
    }
}

#[test]
fn nesting_4000_deep_with_a_mount_at_the_bottom() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            const DEPTH: usize = 4000;
            let name = "nested-dir";
            let tree = dir(base.join("tree"));
            tmpfs_on(&deep(&tree, name, DEPTH));
            let bottom = tree.join(vec![name; DEPTH].join("/"));
            assert!(bottom.as_os_str().len() > 40_000);
            for by in &METHODS[1..7] {
                let value = run(&mut fathom(whole(&tree, by))).exits(0).json();
                assert_eq!(targets(&value), std::slice::from_ref(&bottom), "{by}");
            }
            for hints in ["none", "ids"] {
                let ran = run(fathom(whole(&tree, "search")).args(["--hints", hints]));
                assert_eq!(
                    targets(&ran.json()),
                    std::slice::from_ref(&bottom),
                    "search, hints: {hints}"
                );
            }
            // `naive` uses full path names, which are limited to PATH_MAX: it finds the mount, or
            // reports where it stopped.
            let naive = run(&mut fathom(whole(&tree, "naive"))).json();
            assert!(naive["result"]["complete"] == false || targets(&naive) == [bottom]);
            for more in ["--check", "--beneath", "--boundaries"] {
                let ran = run(&mut fathom(args!["mounts", &tree, "--json", more]));
                assert!([0, 1].contains(&ran.code()), "{ran}");
            }
        });
    }
}

#[test]
fn nesting_4000_deep_without_a_mount() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let tree = dir(base.join("tree"));
            deep(&tree, "d", 4000);
            let hints = ["--hints", "none"];
            let value = run(fathom(whole(&tree, "search")).args(hints))
                .exits(0)
                .json();
            assert_eq!(targets(&value), [""; 0].map(PathBuf::from));
            assert_eq!(value["result"]["search"]["directories"], 4001);
            for by in BY_DEVICE {
                assert_eq!(
                    targets(&run(&mut fathom(whole(&tree, by))).json()),
                    [""; 0].map(PathBuf::from),
                    "{by}"
                );
            }
        });
    }
}

#[test]
fn low_limits_of_descriptors_and_memory() {
    if require(&[Need::Root, Need::Program("prlimit")]) {
        in_namespace(|base| {
            bush(base, 300, 3);
            tmpfs_on(&deep(&dir(base.join("tree")), "d", 300));
            for by in METHODS {
                let mut command = std::process::Command::new("prlimit");
                command
                    .args([
                        "--nofile=20",
                        "--stack=1048576",
                        "--",
                        env!("CARGO_BIN_EXE_fathom"),
                    ])
                    .args(whole(base, by));
                assert_eq!(targets(&run(&mut command).exits(0).json()).len(), 2, "{by}");
            }
        });
    }
}
