//! The timed loop makes the look-ups of the paper, and no other call; strace is the witness.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::pathwalk;
use super::reference::reference;
use crate::support::run::args;
use crate::support::strace::{agree, less_start};
use crate::support::{Need, require, run};

/// The look-ups in a tree, in turn: the call, the path and the result.
fn look_ups(program: &[&str], flags: &[&str], root: &Path, log: &Path) -> Vec<String> {
    let mut strace = Command::new("strace");
    strace
        .args(["-s", "4096", "-e", "trace=%file", "-o"])
        .arg(log)
        .args(program)
        .args(flags)
        .arg(root);
    run(&mut strace).exits(0);
    let start = format!("\"{}/", root.display());
    let said = fs::read_to_string(log).unwrap();
    // Between the path and the flags stands where the answer goes, or what it is.
    let line = |line: &str| {
        let (call, answer) = line.split_once("\", ").unwrap();
        let (_, flags) = answer.rsplit_once(", ").unwrap();
        format!("{call} {flags}")
    };
    said.lines()
        .filter(|line| line.contains(&start))
        .map(line)
        .collect()
}

#[test]
fn the_same_look_ups_in_the_same_order_as_the_reference() {
    if require(&[Need::Program("cc"), Need::Program("strace")]) {
        let ground = tempfile::tempdir().unwrap();
        let (root, log) = (ground.path().join("x"), ground.path().join("log"));
        pathwalk("-c -l 4 -f 12", &root).exits(0);
        let ours = [env!("CARGO_BIN_EXE_fathom"), "pathwalk"];
        let theirs = [reference().to_str().unwrap()];
        for flags in [&["-t"][..], &["-tF"], &["-tC"], &["-tCF"]] {
            let flags = [flags, &["-l", "4", "-f", "12"]].concat();
            let looked = look_ups(&ours, &flags, &root, &log);
            assert_eq!(looked, look_ups(&theirs, &flags, &root, &log), "{flags:?}");
            assert_eq!(
                looked.len(),
                4 * if flags[0].contains('C') { 13 } else { 12 }
            );
        }
    }
}

#[test]
fn strace_counts_the_same_and_just_the_look_ups() {
    if require(&[Need::Program("strace")]) {
        let ground = tempfile::tempdir().unwrap();
        let (root, log) = (ground.path().join("x"), ground.path().join("log"));
        for part in [
            "-c",
            "-t",
            "-tF",
            "-tC",
            "-t -j2",
            "-t --method=statx",
            "-t --method=access",
            "-t --method=open",
            "-r",
        ] {
            let flags = part.split_whitespace().map(Into::into);
            let all = args!["pathwalk", "-l", "4", "-f", "25", "--json", &root]
                .into_iter()
                .chain(flags);
            let traced = less_start(&log, all);
            agree(&traced.ran.exits(0).json()["gates"], &traced.counts, part);
            let wanted = match part {
                "-c" | "-r" => continue,
                "-tF" => ("newfstatat", (100, 100)),
                "-tC" => ("newfstatat", (104, 78)),
                "-t --method=statx" => ("statx", (100, 75)),
                "-t --method=access" => ("faccessat", (100, 75)),
                // One for ROOT, and one for each directory: whether they are there, once the search
                // is over.
                "-t --method=open" => ("openat", (105, 75)),
                _ => ("newfstatat", (100, 75)),
            };
            assert_eq!(traced.counts[wanted.0], wanted.1, "{part}");
        }
        pathwalk("-c -l 4 -f 25", &root).exits(0);
        let traced = less_start(
            &log,
            args![
                "pathwalk", "-t", "-l", "4", "-f", "25", "--method", "dirfd", "--json", &root
            ],
        );
        agree(
            &traced.ran.exits(0).json()["gates"],
            &traced.counts,
            "dirfd",
        );
        assert_eq!(traced.counts["newfstatat"], (100, 75));
    }
}

/// What a run does not depend on the number of files is not in the loop.
#[test]
fn nothing_else_grows_with_the_files() {
    if require(&[Need::Program("strace")]) {
        let ground = tempfile::tempdir().unwrap();
        let (root, log) = (ground.path().join("x"), ground.path().join("log"));
        pathwalk("-c -l 3 -f 4000", &root).exits(0);
        let count = |files: &str| {
            less_start(&log, args!["pathwalk", "-t", "-l", "3", "-f", files, &root]).counts
        };
        let (few, many) = (count("10"), count("4000"));
        for (name, (calls, errors)) in many {
            let (before, failed) = few.get(&name).copied().unwrap_or_default();
            let grown = if name == "newfstatat" {
                (3 * 3990, 2 * 3990)
            } else {
                (0, 0)
            };
            assert_eq!((calls - before, errors - failed), grown, "{name}");
        }
    }
}
