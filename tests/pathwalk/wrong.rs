//! Tests that an error is one line and a hint, and that the benchmark touches no file that it did
//! not create.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::{listing, pathwalk, untimed};
use crate::support::build::{chmod, deep, dir, file, tmpfs};
use crate::support::disks::{EXT4, Make, image, mount_image};
use crate::support::restrict::fathom_as_nobody;
use crate::support::run::{Ran, args};
use crate::support::{Need, in_namespace, require, run};

/// Checks that a run is refused with these words.
fn refused(ran: Ran, words: &str) {
    let ran = ran.refused();
    assert!(ran.stderr.contains(words), "no {words}: {ran}");
}

/// The paths of the warnings.
fn warned(ran: &Ran, root: &Path) -> Vec<String> {
    let value = ran.json();
    let about = |warning| {
        let path = crate::support::run::path(warning, "path");
        path.strip_prefix(root)
            .unwrap_or(&path)
            .display()
            .to_string()
    };
    let mut about: Vec<String> = value["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .map(about)
        .collect();
    about.sort();
    about
}

#[test]
fn a_root_that_exists_is_not_touched() {
    let scratch = tempfile::tempdir().unwrap();
    let (plain, full) = (
        file(scratch.path().join("plain"), 3),
        dir(scratch.path().join("full")),
    );
    let (link, dead) = (scratch.path().join("link"), scratch.path().join("dead"));
    file(full.join("0/0.0"), 3);
    symlink("full", &link).unwrap();
    symlink("nowhere", &dead).unwrap();
    let before = listing(scratch.path());
    for root in [&plain, &full, &link, &dead] {
        refused(pathwalk("-c -l 2 -f 2", root), "File exists");
        refused(pathwalk("-ctr -l 2 -f 2", root), "File exists");
    }
    refused(
        pathwalk("-c", &scratch.path().join("no/such")),
        "create its parent directory first",
    );
    refused(pathwalk("-c", &plain.join("x")), "Not a directory");
    assert_eq!(listing(scratch.path()), before);
}

#[test]
fn a_missing_root_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().join("x");
    for test in [
        "-t",
        "-t -F",
        "-t -C",
        "-t -j 2",
        "-t --method dirfd",
        "-t --repeat 3 --json",
        "-t -f 99999999999",
    ] {
        refused(pathwalk(test, &root), "create the tree with -c");
    }
    refused(pathwalk("-t -f 0", &root), "create the tree with -c");
    refused(pathwalk("-r", &root), "check the path of the tree");
    let plain = file(scratch.path().join("plain"), 1);
    for part in ["-t", "-t -F", "-r"] {
        refused(pathwalk(part, &plain), "Not a directory");
    }
}

#[test]
fn a_tree_of_another_shape_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().join("x");
    pathwalk("-c -l 4 -f 10", &root).exits(0);
    refused(pathwalk("-t -l 4 -f 11", &root), "x/3/3.10': No such file");
    refused(
        pathwalk("-t -l 4 -f 99999999999999", &root),
        "not -l 4 -f 99999999999999",
    );
    refused(pathwalk("-t -l 4 -f 11 -j 3", &root), "3.10");
    refused(pathwalk("-t -l 5 -f 1", &root), "x/4/4.0");
    refused(pathwalk("-t -l 5 -f 1 --method dirfd", &root), "x/4'");
    refused(pathwalk("-t -l 1000000000000 -f 1", &root), "1 GiB");
    // Searching for fewer files than the tree has is no error.
    pathwalk("-t -l 3 -f 9", &root).exits(0);
    // A missing directory is not searched, and a warning says so.
    fs::remove_dir_all(root.join("1")).unwrap();
    let ran = pathwalk("-t -l 4 -f 10", &root).exits(1);
    assert!(ran.stderr.contains("1 of 4 directories"), "{ran}");
    assert_eq!(
        untimed(&ran.lines().join("\n")),
        ["pathwalk: Found 10/10 files in 4 directories"]
    );
    // The last directory contains all names. A file with the name in an earlier directory ends the
    // search too soon.
    file(root.join("2/3.5"), 0);
    refused(pathwalk("-t -l 4 -f 10", &root), "x/2/3.5");
    file(root.join("0/-1.9"), 0);
    refused(pathwalk("-t -F -l 4 -f 10", &root), "x/0/-1.9");
    pathwalk("-t -F -l 4 -f 9", &root).exits(1);
}

#[test]
fn foreign_files_are_kept() {
    let scratch = tempfile::tempdir().unwrap();
    let (root, outside) = (
        scratch.path().join("x"),
        dir(scratch.path().join("outside")),
    );
    file(outside.join("1.0"), 0);
    file(outside.join("1.1"), 0);
    pathwalk("-c -l 6 -f 5", &root).exits(0);
    file(root.join("notes"), 0); // beside the directories of the benchmark
    file(root.join("0/0.5"), 0); // a number beyond that of -f
    file(root.join("0/0.01"), 0); // no name that the benchmark uses
    fs::remove_dir_all(root.join("1")).unwrap();
    symlink(&outside, root.join("1")).unwrap();
    file(root.join("2/2.3"), 7); // a file that is not empty
    fs::remove_file(root.join("3/3.1")).unwrap();
    file(root.join("3/3.1/deep"), 0);
    fs::remove_file(root.join("4/4.2")).unwrap();
    symlink(outside.join("1.0"), root.join("4/4.2")).unwrap();
    let ran = pathwalk("-r -l 6 -f 5 --json", &root).exits(1);
    assert_eq!(warned(&ran, &root), ["", "0", "2", "3", "4"]);
    // Of the 30 files, five were in the directory that was replaced by a symlink, and three were
    // replaced themselves.
    let removed = &ran.json()["result"]["removed"];
    assert_eq!(
        (removed["objects"].as_u64(), removed["left"].as_u64()),
        (Some(22), Some(7)),
        "{ran}"
    );
    let left: Vec<String> = listing(&root)
        .iter()
        .map(|line| line.split(' ').next().unwrap().to_owned())
        .collect();
    assert_eq!(
        left,
        [
            "",
            "0",
            "0/0.01",
            "0/0.5",
            "1",
            "2",
            "2/2.3",
            "3",
            "3/3.1",
            "3/3.1/deep",
            "4",
            "4/4.2",
            "notes"
        ]
    );
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 2);
    let again = pathwalk("-r -l 6 -f 5", &root).exits(1);
    assert!(
        again.lines()[0].starts_with("pathwalk: Removed 0 objects in "),
        "{again}"
    );
    assert!(again.stderr.contains("such as 'notes'"), "{again}");
    // Files with names of the benchmark, directly in a directory that the benchmark did not create.
    let ran = pathwalk("-r", &outside).exits(1);
    assert!(
        ran.lines()[0].starts_with("pathwalk: Removed 0 objects in "),
        "{ran}"
    );
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 2);
}

#[test]
fn a_symlink_to_the_root_is_refused_by_remove() {
    let scratch = tempfile::tempdir().unwrap();
    let (root, link) = (scratch.path().join("x"), scratch.path().join("link"));
    pathwalk("-c -l 2 -f 2", &root).exits(0);
    symlink(&root, &link).unwrap();
    let before = listing(&root);
    refused(pathwalk("-r -l 2 -f 2", &link), "not a symlink");
    refused(
        pathwalk("-r -l 2 -f 2", &scratch.path().join("link/")),
        "not a symlink",
    );
    assert_eq!(listing(&root), before);
    pathwalk("-t -l 2 -f 2", &link).exits(0);
}

#[test]
fn remove_with_a_smaller_shape_keeps_the_rest_of_the_tree() {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().join("x");
    pathwalk("-c -l 4 -f 5", &root).exits(0);
    let ran = pathwalk("-r -l 2 -f 5 --json", &root).exits(1);
    assert_eq!(ran.json()["result"]["removed"]["objects"], 10);
    assert_eq!(warned(&ran, &root), [""]);
    // Removing the rest of the tree warns of missing files.
    let ran = pathwalk("-r -l 4 -f 5 --json", &root).exits(1);
    assert_eq!(ran.json()["result"]["removed"]["objects"], 11);
    assert!(
        ran.stderr.contains("10 of 21 objects did not exist"),
        "{ran}"
    );
    assert!(!root.exists());
}

#[test]
fn too_few_inodes_are_refused_before_creating() {
    if require(&[Need::Root]) {
        in_namespace(|scratch| {
            let at = dir(scratch.join("at"));
            rustix::mount::mount(
                "few",
                &at,
                "tmpfs",
                rustix::mount::MountFlags::empty(),
                c"nr_inodes=100",
            )
            .unwrap();
            refused(
                pathwalk("-c -l 4 -f 50", &at.join("x")),
                "the tree needs 204 inodes",
            );
            refused(
                pathwalk("-ctr -f 99999999999", &at.join("x")),
                "use a smaller -l or -f",
            );
            refused(pathwalk("-c -l 99999999999999", &at.join("x")), "inodes");
            assert_eq!(fs::read_dir(&at).unwrap().count(), 0);
            pathwalk("-ctr -l 4 -f 20", &at.join("x")).exits(0);
        });
    }
}

#[test]
fn a_disk_that_becomes_full_leaves_no_tree() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|scratch| {
            let (at, disk) = (dir(scratch.join("at")), scratch.join("image"));
            let make = Make {
                mkfs: "-b 1024 -N 8192 -O ^has_journal",
                ..EXT4[0]
            };
            image(make, 8, &disk);
            assert!(mount_image(
                make,
                &disk,
                &at,
                rustix::mount::MountFlags::empty()
            ));
            let fill = at.join("fill");
            let mut full = fs::File::create(&fill).unwrap();
            while std::io::Write::write_all(&mut full, &[1; 1024]).is_ok() {}
            // Leave blocks for some of the directories only.
            full.set_len(full.metadata().unwrap().len() - 40 * 1024)
                .unwrap();
            full.sync_all().unwrap();
            for flags in [
                "-c -l 4 -f 1500",
                "-ctr -l 4 -f 1500",
                "-c -l 4 -f 1500 --json",
            ] {
                let root = at.join("x");
                let ran = pathwalk(flags, &root);
                assert!(ran.stderr.contains("No space left on device"), "{ran}");
                refused(ran, "the tree was removed again");
                assert!(!root.exists());
            }
            pathwalk("-ctr -l 2 -f 20", &at.join("x")).exits(0);
        });
    }
}

#[test]
fn without_permission_nothing_is_changed_and_other_errors_are_not_misses() {
    if require(&[Need::Root]) {
        in_namespace(|scratch| {
            let root = tmpfs(scratch.join("at")).join("x");
            pathwalk("-c -l 3 -f 4", &root).exits(0);
            let before = listing(&root);
            let nobody = |flags: &str, root: &Path| {
                let mut command = fathom_as_nobody(scratch, args!["pathwalk"]);
                command.args(flags.split_whitespace()).arg(root);
                run(&mut command)
            };
            refused(nobody("-c", &scratch.join("at/y")), "Permission denied");
            refused(nobody("-r -l 3 -f 4", &root), "Permission denied");
            assert_eq!(listing(&root), before);
            nobody("-t -l 3 -f 4", &root).exits(0);
            // A lookup that fails with EACCES does not count as a miss.
            chmod(root.join("1"), 0o700);
            let ran = nobody("-t -l 3 -f 4 --json", &root).exits(1);
            let pass = &ran.json()["result"]["test"]["passes"][0];
            assert_eq!(
                (pass["misses"].as_u64(), pass["failed"].as_u64()),
                (Some(4), Some(4)),
                "{ran}"
            );
            assert!(ran.json()["warnings"][0]["errno"] == "EACCES", "{ran}");
        });
    }
}

#[test]
fn a_root_longer_than_path_max_is_searched_by_dirfd() {
    let scratch = tempfile::tempdir().unwrap();
    let name = "d".repeat(200);
    deep(scratch.path(), &name, 21);
    let root = (0..21)
        .fold(scratch.path().to_owned(), |path, _| path.join(&name))
        .join("x");
    // ROOT is longer than PATH_MAX: the tree is created one level at a time, but stat(2) refuses
    // the full path.
    pathwalk("-c -l 2 -f 2", &root).exits(0);
    refused(pathwalk("-t -l 2 -f 2", &root), "File name too long");
    pathwalk("-t -l 2 -f 2 --method dirfd", &root).exits(0);
    pathwalk("-r -l 2 -f 2", &root).exits(0);
}
