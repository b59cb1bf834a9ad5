//! Tests that options, trees and output lines equal those of the reference program, and that each
//! program runs on the trees of the other.

use std::fs;

use super::reference::by_reference;
use super::{listing, pathwalk, untimed};
use crate::support::run::args;
use crate::support::{Need, fathom, in_namespace, require, run};

/// Numbers of directories and files: 0 and 1, and numbers where one more digit is needed.
const SHAPES: [(u32, u32); 8] = [
    (1, 1),
    (1, 0),
    (16, 10),
    (3, 0),
    (5, 101),
    (1, 1001),
    (1, 12),
    (11, 3),
];

#[test]
fn output_lines_equal_those_of_llnl() {
    if require(&[Need::Root]) {
        in_namespace(|scratch| {
            let root = scratch.join("abc");
            let ran = pathwalk("-c -t -r", &root).exits(0);
            assert!(ran.stderr.is_empty(), "{ran}");
            assert_eq!(
                untimed(&ran.lines().join("\n")),
                [
                    "pathwalk: Created 160001 objects",
                    "pathwalk: Found 10000/10000 files in 16 directories",
                    "pathwalk: Removed 160001 objects",
                ]
            );
            assert!(!root.exists());
        });
    }
}

#[test]
fn fathom_and_the_reference_use_the_trees_of_each_other() {
    if !require(&[Need::Root, Need::Program("cc")]) {
        return;
    }
    in_namespace(|scratch| {
        let (ours, theirs) = (scratch.join("ours"), scratch.join("theirs"));
        for (length, files) in SHAPES {
            let flags = |parts: &str| format!("{parts} -l {length} -f {files}");
            let same = |parts: &str, ours_on, theirs_on| {
                let (a, b) = (
                    pathwalk(&flags(parts), ours_on),
                    by_reference(&flags(parts), theirs_on).exits(0),
                );
                assert_eq!(
                    untimed(&a.lines().join("\n")),
                    untimed(&b.stderr),
                    "{parts} {length} {files}"
                );
                a.exits(0);
            };
            same("-c", &ours, &theirs);
            assert_eq!(listing(&ours), listing(&theirs), "{length} {files}");
            same("-t", &theirs, &ours);
            same("-t", &ours, &ours);
            same("-t -F", &theirs, &ours);
            if files > 0 {
                same("-t -C", &theirs, &ours);
            }
            same("-tFC", &theirs, &ours);
            same("-r", &theirs, &ours);
            same("-ctr", &ours, &theirs);
            assert!(!ours.exists() && !theirs.exists());
        }
    });
}

#[test]
fn priming_an_empty_tree_finds_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let ran = pathwalk("-ctr -C -l 2 -f 0", &scratch.path().join("x")).exits(0);
    let lines = untimed(&ran.lines().join("\n"));
    assert_eq!(
        lines[1..3],
        [
            "pathwalk: Found 0/1 files in 2 directories",
            "pathwalk: Found 0/0 files in 2 directories"
        ]
    );
}

#[test]
fn options_are_parsed_as_by_getopt() {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().join("x");
    let expected = [
        "pathwalk: Created 13 objects",
        "pathwalk: Found 1/1 files in 3 directories",
    ];
    for options in [
        &["-ctrC", "-l3", "-f4"][..],
        &[
            "--create",
            "--test",
            "--remove",
            "--primecache",
            "--length=3",
            "--files",
            "4",
        ],
        &[
            "--cre",
            "--te",
            "--rem",
            "--cacheonly",
            "--len",
            "3",
            "--fil=4",
        ],
        &["-ctr", "-C", "-c", "-l7", "-f", "9", "-l", "3", "--files=4"],
    ] {
        for first in [true, false] {
            let (mut before, mut behind) = (args!["pathwalk"].to_vec(), args![&root].to_vec());
            if first { &mut behind } else { &mut before }.extend(options.iter().map(Into::into));
            let ran = run(&mut fathom(before.into_iter().chain(behind))).exits(0);
            assert_eq!(untimed(&ran.lines().join("\n"))[..2], expected, "{ran}");
        }
    }
}

#[test]
fn permissions_respect_the_umask() {
    if require(&[Need::Program("cc")]) {
        let scratch = tempfile::tempdir().unwrap();
        let by = |what: &str, root: &std::path::Path| {
            let mut shell = std::process::Command::new("sh");
            shell
                .args(["-c", "umask 027; exec \"$0\" \"$@\""])
                .args(what.split_whitespace());
            run(shell.args(["-c", "-l", "2", "-f", "2"]).arg(root)).exits(0);
            listing(root)
        };
        let ours = by(
            &format!("{} pathwalk", env!("CARGO_BIN_EXE_fathom")),
            &scratch.path().join("ours"),
        );
        let theirs = by(
            &super::reference::reference().display().to_string(),
            &scratch.path().join("theirs"),
        );
        assert_eq!(ours, theirs);
        assert!(
            ours[0].ends_with(" 40750 0") && ours.iter().any(|line| line.ends_with(" 100640 0")),
            "{ours:?}"
        );
    }
}

#[test]
fn root_may_have_any_name() {
    use std::os::unix::ffi::OsStrExt;
    let scratch = tempfile::tempdir().unwrap();
    for name in crate::support::build::odd_names() {
        let root = scratch.path().join(std::ffi::OsStr::from_bytes(&name));
        let ran = pathwalk("-ctr -l 2 -f 3 --json", &root).exits(0);
        assert_eq!(
            crate::support::run::path(&ran.json()["result"], "root"),
            root
        );
        assert_eq!(
            untimed(
                &pathwalk("-ctr -l 2 -f 3", &root)
                    .exits(0)
                    .lines()
                    .join("\n")
            )
            .len(),
            3
        );
        assert!(fs::symlink_metadata(&root).is_err());
    }
    // Relative names, with a leading dash or trailing slashes.
    for root in ["-r", "./x/", "x//"] {
        let mut command = fathom(["pathwalk", "-ctr", "-l", "1", "-f", "1", "--", root]);
        assert_eq!(
            untimed(
                &run(command.current_dir(scratch.path()))
                    .exits(0)
                    .lines()
                    .join("\n")
            )
            .len(),
            3
        );
    }
}
