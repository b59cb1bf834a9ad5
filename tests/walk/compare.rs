//! Tests of `--explain`, which lists the possible engines, and of `--compare`, which runs all of
//! them.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use rustix::mount::MountFlags;

use super::engines::still;
use super::right::{engines, summary};
use crate::support::build::{dir, file, tmpfs};
use crate::support::disks::{BTRFS, EXT4, XFS, image, mount_image, mounted};
use crate::support::repeat::repeat_until;
use crate::support::run::{args, path};
use crate::support::trees::grow;
use crate::support::{Need, fathom, in_namespace, require, run};

const ALL: [&str; 5] = ["threads", "bulkstat", "btrfs", "ext4", "stat"];

/// Creates the tree on each type of file system, and calls `look` with the engines for it.
fn on_each_kind(look: impl Fn(&Path, &[&str]) + Sync) {
    in_namespace(|base| {
        for make in [EXT4[0], XFS[0], BTRFS[0]] {
            let at = base.join(make.fstype);
            assert!(mounted(make, &at));
            grow(&dir(at.join("tree")), 1, 100);
            look(&at, engines(make.fstype));
        }
        let tmpfs = still(&base.join("tmpfs")).to_owned();
        grow(&tmpfs, 1, 100);
        look(&tmpfs, engines("tmpfs"));
    });
}

#[test]
fn every_engine_is_explained() {
    if require(&[Need::Root, Need::Loop]) {
        on_each_kind(|at, possible| {
            let value = summary(at, "auto", &["--explain"]);
            let explained = value["result"]["explain"].as_array().unwrap();
            for engine in ALL {
                let row = explained
                    .iter()
                    .find(|row| row["engine"] == engine)
                    .unwrap_or_else(|| panic!("no {engine}: {value}"));
                assert_eq!(row["possible"], possible.contains(&engine), "{row}");
                assert_eq!(path(row, "path"), at);
                assert!(
                    possible.contains(&engine) || row["why"].as_str().unwrap().len() > 5,
                    "{row}"
                );
            }
            let taken = &summary(at, "auto", &[])["result"]["engine"];
            assert_eq!(taken, &value["result"]["engine"], "what is said is done");
            assert!(
                value["result"]["why"].as_str().unwrap().len() > 5,
                "{value}"
            );
        });
    }
}

#[test]
fn explain_keeps_access_times() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|base| {
            let (disk, at) = (base.join("image"), dir(base.join("disk")));
            image(EXT4[0], 64, &disk);
            assert!(mount_image(EXT4[0], &disk, &at, MountFlags::empty()));
            let tree: Vec<PathBuf> = ["", "a", "a/b", "c"]
                .map(|name| dir(at.join("tree").join(name)))
                .into();
            let time = |tv_sec| Timespec { tv_sec, tv_nsec: 7 };
            let times = Timestamps {
                last_access: time(1_000_000_000),
                last_modification: time(1_100_000_000),
            };
            tree.iter()
                .for_each(|path| utimensat(CWD, path, &times, AtFlags::empty()).unwrap());
            let seen = || {
                tree.iter()
                    .map(|path| path.metadata().unwrap().atime())
                    .collect::<Vec<_>>()
            };
            let before = seen();
            for command in ["walk", "dump"] {
                let value = run(&mut fathom(args![command, tree[0], "--explain", "--json"]))
                    .exits(0)
                    .json();
                // The plan estimates the number of entries below, for which it reads directories,
                // without updating access times.
                assert!(
                    command == "dump" || value.to_string().contains(" entries"),
                    "{value}"
                );
                assert_eq!(seen(), before, "{command} --explain");
            }
            std::fs::read_dir(&tree[0]).unwrap().for_each(drop);
            assert_ne!(
                seen(),
                before,
                "the kernel moves no access times here; the test says nothing"
            );
        });
    }
}

#[test]
fn all_possible_engines_are_compared_and_report_the_same_tree() {
    if require(&[Need::Root, Need::Loop]) {
        on_each_kind(|at, possible| {
            let ran = run(&mut fathom(args![
                "walk",
                at,
                "--compare",
                "--trials",
                "2",
                "--json"
            ]))
            .exits(0);
            let compare = &ran.json()["result"]["compare"];
            let names = |of: &str| -> BTreeSet<String> {
                let rows = compare[of].as_array().unwrap().iter();
                rows.map(|row| row["engine"].as_str().unwrap().to_owned())
                    .collect()
            };
            let expected = |can: bool| {
                ALL.into_iter()
                    .filter(|e| possible.contains(e) == can)
                    .map(str::to_owned)
                    .collect()
            };
            assert_eq!(names("engines"), expected(true));
            assert!(names("left_out").is_subset(&expected(false)));
            assert_eq!(compare["agree"], true);
            assert_eq!(compare["tree_changed"], false);
            let digest = &summary(at, "stat", &[])["result"]["digest"];
            for engine in compare["engines"].as_array().unwrap() {
                assert_eq!(&engine["digest"], digest, "{engine}");
            }
            let text = run(&mut fathom(args!["walk", at, "--compare", "--trials", "1"])).exits(0);
            assert!(
                text.lines()
                    .iter()
                    .any(|line| line.contains("All engines report the same tree")),
                "{text}"
            );
        });
    }
}

#[test]
fn tree_that_changes_during_the_comparison_is_no_disagreement() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let tree = dir(tmpfs(base.join("tmpfs")).join("tree"));
            let is_over = AtomicBool::new(false);
            let compare = |more: &str| {
                let words = ["walk", "--compare", "--trials", "3", more];
                run(fathom(words).arg(&tree)).exits(0)
            };
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for n in (0..).take_while(|_| !is_over.load(Relaxed)) {
                        file(tree.join(n.to_string()), 0);
                        std::thread::sleep(Duration::from_micros(100));
                    }
                });
                let _over = SetAtEnd(&is_over);
                // On a busy machine, the last walks of all engines may find the same tree.
                repeat_until("a comparison whose walks found different trees", || {
                    let value = compare("--json").json();
                    let compared = &value["result"]["compare"];
                    let agree = compared["agree"].as_bool().unwrap();
                    assert!(agree || compared["tree_changed"] == true, "{value}");
                    (!agree).then_some(())
                });
                repeat_until("a comparison that says that the tree changed", || {
                    let ran = compare("--quiet");
                    let text = String::from_utf8_lossy(&ran.stdout);
                    assert!(!text.contains("wrong") && ran.stderr.is_empty(), "{ran}");
                    let is_told = text.contains("\nThe tree changed during the comparison, ");
                    is_told.then_some(())
                });
            });
        });
    }
}

/// Stops the writer even if an assertion fails.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
