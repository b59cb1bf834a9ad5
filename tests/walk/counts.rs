//! Tests that the counts of every engine equal those of strace.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::engines::still;
use super::right::engines;
use crate::support::build::dir;
use crate::support::disks::{BTRFS, EXT4, XFS, mounted};
use crate::support::run::{args, calls};
use crate::support::strace::{agree, less_start};
use crate::support::trees::grow;
use crate::support::{Need, fathom, in_namespace, require, run};

fn all_agree(base: &Path, top: &Path, engines: &[&str], more: &[&str]) {
    for engine in engines.iter().copied().chain(["auto"]) {
        for jobs in ["1", "3"] {
            let arguments = args!["walk", top, "--engine", engine, "-j", jobs, "--json"];
            let traced = less_start(
                &base.join("log"),
                arguments.into_iter().chain(more.iter().map(Into::into)),
            );
            agree(
                &traced.ran.exits(0).json()["gates"],
                &traced.counts,
                &format!("{engine} -j {jobs} {more:?}"),
            );
        }
    }
}

#[test]
fn call_counts_of_every_engine_equal_strace() {
    if require(&[Need::Root, Need::Loop, Need::Program("strace")]) {
        in_namespace(|base| {
            for make in [EXT4[0], XFS[0], BTRFS[0]] {
                let at = base.join(make.fstype);
                assert!(mounted(make, &at));
                grow(&dir(at.join("tree")), 1, 300);
                all_agree(base, &at, engines(make.fstype), &[]);
            }
            let top = still(&base.join("tmpfs")).to_owned();
            grow(&top, 2, 300);
            all_agree(base, &top, engines("tmpfs"), &["--top", "5"]);
            all_agree(base, &top, &["stat"], &["--explain"]);
        });
    }
}

/// An engine on the file API needs one statx for each entry, and few calls for each directory; a
/// raw engine needs far fewer calls.
#[test]
fn calls_per_entry_are_bounded() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|base| {
            for make in [EXT4[0], XFS[0], BTRFS[0]] {
                let at = base.join(make.fstype);
                assert!(mounted(make, &at));
                crate::support::build::bush(&at, 50, 100);
                for engine in engines(make.fstype) {
                    let value = run(&mut fathom(args![
                        "walk", &at, "--engine", engine, "--json"
                    ]))
                    .exits(0)
                    .json();
                    let entries = value["result"]["entries"].as_u64().unwrap();
                    let directories = value["result"]["directories"].as_u64().unwrap();
                    let gates = calls(&value["gates"]);
                    let total: u64 = gates.values().sum();
                    let most = match *engine {
                        // Calls per directory: openat, close, and getdents64 until it returns 0.
                        "stat" | "threads" => entries + 5 * directories + 50,
                        "bulkstat" => 5 * directories + entries / 10 + 200,
                        _ => entries / 10 + 200,
                    };
                    assert!(
                        total <= most,
                        "{engine}: {total} calls for {entries} entries: {gates:?}"
                    );
                }
            }
        });
    }
}

/// In a directory with many subdirectories, only a limited number of them wait: the next ones are
/// read after those have been walked.
#[test]
fn a_wide_directory_is_read_piece_by_piece() {
    const MANY: usize = 13_000;
    const MOST_WAITING: usize = 11_000;
    if !require(&[Need::Program("strace")]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let (many, log) = (dir(scratch.path().join("many")), scratch.path().join("log"));
    (0..MANY).for_each(|nth| fs::create_dir(many.join(format!("directory{nth}"))).unwrap());
    let mut strace = Command::new("strace");
    strace.args([
        "-f",
        "-y",
        "--seccomp-bpf",
        "-e",
        "trace=getdents64,openat,openat2",
        "-o",
    ]);
    strace.arg(&log).arg(env!("CARGO_BIN_EXE_fathom"));
    let walk = args!["walk", &many, "--engine", "threads", "-j", "1", "--json"];
    let value = run(strace.args(walk)).exits(0).json();
    assert_eq!(value["result"]["directories"], MANY + 1);
    let (mut read, mut opened, mut most) = (0, 0, 0);
    let log = fs::read_to_string(log).unwrap();
    for line in log.lines().filter(|line| line.contains("/many>, ")) {
        let entries = line
            .split_once("/* ")
            .and_then(|(_, rest)| rest.split_once(" entries"));
        match entries {
            Some((entries, _)) => read += entries.parse::<usize>().unwrap(),
            None => opened += usize::from(line.contains(", \"directory")),
        }
        most = most.max(read - opened);
    }
    // The names include `.` and `..`.
    assert_eq!((read, opened), (MANY + 2, MANY));
    assert!(most <= MOST_WAITING, "{most} directories wait");
}
