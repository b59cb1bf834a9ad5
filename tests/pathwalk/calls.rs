//! Tests that the timed loop makes the lookups of the paper and no other call, by strace.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::pathwalk;
use super::reference::reference;
use crate::support::run::args;
use crate::support::strace::{agree, less_start};
use crate::support::{Need, require, run};

/// The lookups in a tree by strace, in order: the call, the path and the result.
fn lookups(program: &[&str], flags: &[&str], root: &Path, log: &Path) -> Vec<String> {
    let mut strace = Command::new("strace");
    strace
        .args(["-s", "4096", "-e", "trace=%file", "-o"])
        .arg(log)
        .args(program)
        .args(flags)
        .arg(root);
    run(&mut strace).exits(0);
    let start = format!("\"{}/", root.display());
    let trace = fs::read_to_string(log).unwrap();
    // The buffer is between the path and the flags: its address, or its contents.
    let line = |line: &str| {
        let (call, answer) = line.split_once("\", ").unwrap();
        let (_, flags) = answer.rsplit_once(", ").unwrap();
        format!("{call} {flags}")
    };
    trace
        .lines()
        .filter(|line| line.contains(&start))
        .map(line)
        .collect()
}

#[test]
fn the_lookups_and_their_order_are_those_of_the_reference() {
    if require(&[Need::Program("cc"), Need::Program("strace")]) {
        let scratch = tempfile::tempdir().unwrap();
        let (root, log) = (scratch.path().join("x"), scratch.path().join("log"));
        pathwalk("-c -l 4 -f 12", &root).exits(0);
        let ours = [env!("CARGO_BIN_EXE_fathom"), "pathwalk"];
        let theirs = [reference().to_str().unwrap()];
        for flags in [&["-t"][..], &["-tF"], &["-tC"], &["-tCF"]] {
            let flags = [flags, &["-l", "4", "-f", "12"]].concat();
            let looked = lookups(&ours, &flags, &root, &log);
            assert_eq!(looked, lookups(&theirs, &flags, &root, &log), "{flags:?}");
            assert_eq!(
                looked.len(),
                4 * if flags[0].contains('C') { 13 } else { 12 }
            );
        }
    }
}

#[test]
fn strace_counts_the_same_calls_and_only_lookups() {
    if require(&[Need::Program("strace")]) {
        let scratch = tempfile::tempdir().unwrap();
        let (root, log) = (scratch.path().join("x"), scratch.path().join("log"));
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
            let expected = match part {
                "-c" | "-r" => continue,
                "-tF" => ("newfstatat", (100, 100)),
                "-tC" => ("newfstatat", (104, 78)),
                "-t --method=statx" => ("statx", (100, 75)),
                "-t --method=access" => ("faccessat", (100, 75)),
                // After the search, ROOT and each directory are opened to see whether they exist.
                "-t --method=open" => ("openat", (105, 75)),
                _ => ("newfstatat", (100, 75)),
            };
            assert_eq!(traced.counts[expected.0], expected.1, "{part}");
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

/// A call inside the loop would be made for each file.
#[test]
fn only_lookups_grow_with_the_files() {
    if require(&[Need::Program("strace")]) {
        let scratch = tempfile::tempdir().unwrap();
        let (root, log) = (scratch.path().join("x"), scratch.path().join("log"));
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
