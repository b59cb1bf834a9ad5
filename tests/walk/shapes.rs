//! Tests of trees that take much memory or time in programs that keep whole paths, and of sums that
//! exceed 64 bits.

use std::ffi::OsString;
use std::fs::{File, remove_file, rename};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;

use rustix::fs::{Mode, OFlags, openat};
use serde_json::Value;

use super::engines::mounted_or_still;
use super::right::engines;
use crate::support::build::{deep, dir, tmpfs};
use crate::support::disks::{BTRFS, EXT4, XFS};
use crate::support::effort::effort;
use crate::support::restrict::limit_memory;
use crate::support::run::args;
use crate::support::{Need, fathom, in_namespace, require, run};

/// Creates nested directories. The paths of 900 have 81 MB together, their names 180 kB.
fn nested(at: &Path, depth: usize) -> OwnedFd {
    deep(at, &"d".repeat(200), depth)
}

/// Runs a command whose output is too long to be kept, with a memory limit.
fn within(words: impl IntoIterator<Item = OsString>, mib: u64) {
    let mut command = fathom(words);
    limit_memory(&mut command, mib);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let ended = child.unwrap().wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(
        ended.status.success(),
        "{command:?}: {}: {said}",
        ended.status
    );
}

#[test]
fn memory_for_nested_directories_is_that_of_their_names() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let top = tmpfs(ground.join("top"));
            nested(&top, effort(900, 2000));
            let out = tmpfs(ground.join("out"));
            let [catalog, state] = ["c.parquet", "state"].map(|name| out.join(name));
            dir(&state);
            within(args!["walk", &top, "--catalog", &catalog], 88);
            within(args!["query", &catalog, "--type", "e"], 48);
            for level in ["0", "1"] {
                let archive = out.join(format!("{level}.tar.zst"));
                let words = args!["dump", &top, "-o", &archive, "--state", &state];
                within(words.into_iter().chain(args!["--level", level]), 128);
            }
        });
    }
}

/// Creates a file in each of the [`nested`] directories.
fn fill(top: &Path) {
    let name = "d".repeat(200);
    let mut here = rustix::fs::open(top, OFlags::PATH, Mode::empty()).unwrap();
    while let Ok(below) = openat(&here, &name, OFlags::PATH, Mode::empty()) {
        here = below;
        let how = OFlags::CREATE | OFlags::WRONLY;
        openat(&here, "f", how, Mode::from(0o644)).unwrap();
    }
}

/// The paths of 600 directories have 36 MB together, and so have the paths of the files in them.
#[test]
fn changes_and_groups_keep_names_only() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let top = tmpfs(ground.join("top"));
            nested(&top, effort(600, 2000));
            let [old, new] = ["old.parquet", "new.parquet"].map(|name| ground.join(name));
            within(args!["walk", &top, "--catalog", &old], 88);
            fill(&top);
            within(args!["walk", &top, "--catalog", &new], 88);
            let with = |words: &[OsString], more: &[&str], mib| {
                let more = more.iter().map(OsString::from);
                within(words.iter().cloned().chain(more), mib);
            };
            let groups = ["--group-by", "dir:9999"];
            with(&args!["walk", &top], &groups, 24);
            with(&args!["walk", &top, "--json"], &groups, 24);
            with(&args!["query", &new, "--format", "csv"], &groups, 48);
            let diff = args!["query", "--diff", &old, &new];
            with(&diff, &groups, 48);
            with(&diff, &["--json"], 48);
            let since = |catalog| args!["changed", &top, "--since", catalog];
            for format in ["table", "restic", "borg"] {
                with(&since(&old), &["--format", format], 48);
            }
            // Everything below the directory is renamed with it.
            rename(top.join("d".repeat(200)), top.join("renamed")).unwrap();
            with(&since(&new), &["--format", "rsync"], 48);
        });
    }
}

/// The paths of 450 directories have 20 MB together.
#[test]
fn directories_are_printed_one_after_the_other() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let top = tmpfs(ground.join("top"));
            nested(&top, effort(450, 1600));
            for more in [
                &["--format", "du", "--json"][..],
                &["--format", "du", "--sort", "name"],
                &["--format", "ncdu"],
                &["--format", "csv"],
            ] {
                let more = more.iter().map(OsString::from);
                // On a loaded machine, more threads would be started, each with a stack and a
                // buffer.
                within(args!["walk", &top, "-j", "2"].into_iter().chain(more), 16);
            }
        });
    }
}

/// Patterns of all forms; with names that prevent a path from matching until its end.
#[test]
fn patterns_exclude_the_same_at_any_depth() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let top = tmpfs(ground.join("top"));
            let depth = effort(200, 1600);
            nested(&top, depth);
            let long = "d".repeat(200);
            for (pattern, entries) in [
                ("a/b".to_owned(), depth + 1),
                ("*/a/*".to_owned(), depth + 1),
                (format!("{long}/{long}"), 2),
                (format!("?{long}*/*"), depth + 1),
                ("top/d*/d*".to_owned(), 2),
                ("*d/*d/*d/*e".to_owned(), depth + 1),
                (format!("{}/top/{long}", ground.display()), 1),
            ] {
                let ran = run(&mut fathom(args![
                    "walk",
                    &top,
                    "--exclude",
                    &pattern,
                    "--json"
                ]));
                assert_eq!(
                    ran.exits(0).json()["result"]["entries"],
                    entries,
                    "{pattern}"
                );
            }
        });
    }
}

/// Files whose sizes add up to more than 2^64: every sum saturates.
#[test]
fn sums_of_sizes_do_not_wrap() {
    const LARGEST: u64 = i64::MAX as u64;
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let top = tmpfs(ground.join("top"));
            let [catalog, before, archive] =
                ["c.parquet", "b.parquet", "a.tar"].map(|name| ground.join(name));
            let json = |words: &[OsString]| -> Value {
                let words = words.iter().cloned().chain(["--json".into()]);
                run(&mut fathom(words)).exits(0).json()["result"].clone()
            };
            let is_most = |value: &Value| assert_eq!(*value, u64::MAX);
            json(&args!["walk", &top, "--catalog", &before]);
            for name in ["a", "b", "c"] {
                let file = File::create(top.join(name)).unwrap();
                file.set_len(LARGEST).unwrap();
            }
            let ran = run(&mut fathom(args!["walk", &top, "--catalog", &catalog])).exits(0);
            assert!(
                ran.lines().iter().any(|line| line.contains("16 EiB")),
                "{ran}"
            );
            is_most(&json(&args!["walk", &top])["bytes"]);
            is_most(&json(&args!["walk", &top, "--format", "du"])["du"][0]["apparent"]);
            let by = |field: &str| ["--group-by", field, "--sort", "bytes"].map(OsString::from);
            for (source, field) in [("walk", "owner"), ("query", "ext"), ("query", "dir")] {
                let from = if source == "walk" { &top } else { &catalog };
                let groups = json(&[&args![source, from][..], &by(field)].concat());
                is_most(&groups["groups"][0]["bytes"]);
            }
            is_most(&json(&args!["query", &catalog])["bytes"]);
            for (old, new, growth) in [(&before, &catalog, i64::MAX), (&catalog, &before, i64::MIN)]
            {
                let groups = json(&[&args!["query", "--diff", old, new][..], &by("type")].concat());
                let found = groups["groups"].as_array().unwrap();
                let is_most = |group: &Value| group["bytes"].as_i64() == Some(growth);
                assert!(found.iter().any(is_most), "{growth}: {groups}");
            }
            // The difference of two sums that exceed 64 bits is exact.
            let fewer = ground.join("fewer.parquet");
            remove_file(top.join("c")).unwrap();
            json(&args!["walk", &top, "--catalog", &fewer]);
            let words = [&args!["query", "--diff", &catalog, &fewer][..], &by("type")].concat();
            let groups = json(&words);
            let mut found = groups["groups"].as_array().unwrap().iter();
            assert!(
                found.any(|it| it["key"] == "file" && it["bytes"] == -(LARGEST as i64)),
                "{groups}"
            );
            let ran = run(&mut fathom(words)).exits(0);
            assert!(
                ran.lines().iter().any(|line| line.contains("-8 EiB")),
                "{ran}"
            );
            File::create(top.join("c"))
                .unwrap()
                .set_len(LARGEST)
                .unwrap();
            is_most(&json(&args!["dump", &top, "-n"])["estimates"][0]["bytes"]);
            is_most(&json(&args!["dump", &top, "-o", &archive])["bytes"]);
            is_most(&json(&args!["list", &archive])["bytes"]);
        });
    }
}

/// Each engine on its own file system. The paths have 100 MB together.
#[test]
fn every_engine_keeps_names_only() {
    if require(&[Need::Root, Need::Loop]) {
        for make in [EXT4[0], XFS[0], BTRFS[0]] {
            in_namespace(|base| {
                let at = base.join("disk");
                mounted_or_still(Some(make), &at);
                nested(&at, effort(1000, 2000));
                let engine = engines(make.fstype).last().unwrap();
                let words = args!["walk", &at, "--engine", engine, "--type", "e"];
                within(words.into_iter().chain(args!["--exclude", "a/b*"]), 96);
            });
        }
    }
}
