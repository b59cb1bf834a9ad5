//! Tests that `--dry-run` prints the figures of the dump that follows.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::Value;

use super::changes::change;
use super::full::{NEEDS, dump};
use super::rounds::{grown, on};
use crate::support::build::{dir, file, tmpfs};
use crate::support::disks::{BTRFS, EXT4, XFS};
use crate::support::run::{args, calls};
use crate::support::trees::Dice;
use crate::support::{Need, fathom, in_namespace, require, run};

/// Files of all sizes, links and odd names, without extended attributes and holes.
fn plain_tree(tree: &Path) {
    for (n, size) in [0, 1, 511, 512, 513, 10_000, 1 << 20, (1 << 20) + 1, 3 << 20]
        .iter()
        .enumerate()
    {
        file(tree.join(format!("d{n}/file of {size}")), *size);
    }
    fs::hard_link(tree.join("d1/file of 1"), tree.join("link")).unwrap();
    symlink("a".repeat(99), tree.join("short")).unwrap();
    symlink("a".repeat(300), tree.join("long")).unwrap();
    dir(tree.join("empty"));
    file(
        tree.join("n".repeat(255))
            .join("m".repeat(200))
            .join("\u{fc}"),
        10,
    );
    fifo(&tree.join("fifo"));
}

fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR, 0).unwrap();
}

/// The fields that both results have.
fn figures(value: &Value) -> Vec<&Value> {
    let fields = [
        "dumped",
        "files",
        "directories",
        "symlinks",
        "links",
        "other",
        "bytes",
        "archive_bytes",
        "removed",
        "renamed",
        "unchanged",
    ];
    fields.iter().map(|field| &value[field]).collect()
}

/// The estimates of a dry run with some options.
fn estimates(tree: &Path, more: &[&str]) -> Value {
    let arguments = args!["dump", tree.file_name().unwrap(), "-n", "--json"];
    let ran = run(fathom(arguments)
        .args(more)
        .current_dir(tree.parent().unwrap()));
    assert!(ran.code() < 2, "{ran}");
    ran.json()
}

#[test]
fn estimates_equal_the_dumps_of_all_levels() {
    if !require(&NEEDS) {
        return;
    }
    for (seed, make) in [
        (1, Some(EXT4[0])),
        (2, Some(XFS[0])),
        (3, Some(BTRFS[0])),
        (4, None),
    ] {
        on(make, |at, ground| {
            let (tree, state) = (dir(at.join("tree")), dir(ground.join("state")));
            let state_dir = state.to_str().unwrap();
            plain_tree(&tree);
            let mut dice = Dice::new(seed);
            for level in [0, 1, 2, 4, 0, 3] {
                let all = estimates(&tree, &["--state", state_dir]);
                let all = all["result"]["estimates"].as_array().unwrap().clone();
                let number = level.to_string();
                let options = ["--level", &number, "--state", state_dir];
                let one = estimates(&tree, &options);
                let one = &one["result"]["estimates"][0];
                let out = ground.join("archive.tar");
                let name = ground.join(format!("{}.tar", dice.roll()));
                let options = [&options[..], &["--json"]].concat();
                let written = dump(&tree, &name, &options).exits(0).json();
                fs::rename(&name, &out).unwrap();
                let written = &written["result"];
                assert_eq!(figures(one), figures(written), "level {level}, {make:?}");
                assert_eq!(fs::metadata(&out).unwrap().len(), one["archive_bytes"]);
                if let Some(row) = all.iter().find(|row| row["level"] == level) {
                    assert_eq!(row, one, "level {level}, {make:?}");
                } else {
                    // A level above the highest catalog has the same base as the last row.
                    let last = all.last().unwrap();
                    assert_eq!(figures(last), figures(one), "level {level}, {make:?}");
                }
                file(tree.join(format!("new {level}")), 1000 + level);
                fs::rename(tree.join("empty"), tree.join("renamed")).unwrap();
                fs::rename(tree.join("renamed"), tree.join("empty")).unwrap();
                let _ = fs::remove_file(tree.join("short"));
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
        });
    }
}

/// A hole counts as no data, and a small file counts with its size.
#[test]
fn holes_are_not_counted_as_data() {
    let place = tempfile::tempdir().unwrap();
    let tree = dir(place.path().join("tree"));
    let sparse = fs::File::create(tree.join("sparse")).unwrap();
    sparse.set_len(200 << 20).unwrap();
    file(tree.join("small"), 100);
    file(tree.join("plain"), 50_000);
    let value = estimates(&tree, &[]);
    let row = &value["result"]["estimates"][0];
    assert_eq!(row["bytes"], (200 << 20) + 50_100, "{row}");
    assert_eq!(row["data_bytes"], 50_100, "{row}");
    let words = args!["dump", "tree", "-n"];
    let table = run(fathom(words).current_dir(place.path())).exits(0);
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(
        table.contains("48.9 KiB") && !table.contains("200 MiB"),
        "{table}"
    );
}

/// The estimated members are those of the dump, for a tree of every kind of file.
#[test]
fn estimates_of_odd_trees_have_the_same_members() {
    if !require(&NEEDS) {
        return;
    }
    on(Some(EXT4[0]), |at, ground| {
        let (tree, catalog) = (dir(at.join("tree")), ground.join("catalog"));
        let option = catalog.to_str().unwrap();
        let mut dice = Dice::new(7);
        grown(&tree, 7);
        for round in 0..4 {
            let since: &[&str] = if round > 0 { &["--since", option] } else { &[] };
            let expected = estimates(&tree, since);
            let out = ground.join("archive.tar");
            let options = [since, &["--catalog", option, "--json"]].concat();
            let written = dump(&tree, &out, &options).exits(0).json();
            let mut fields = figures(&written["result"]);
            fields.remove(7);
            let mut found = figures(&expected["result"]["estimates"][0]);
            found.remove(7);
            assert_eq!(found, fields, "round {round}");
            change(&tree, &mut dice, 20);
        }
    });
}

/// An estimate of all levels costs only the calls that read their catalogs: the tree is examined
/// once.
#[test]
fn all_levels_are_estimated_from_one_gathering() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let at = tmpfs(ground.join("at"));
            let (tree, state) = (dir(at.join("tree")), dir(at.join("state")));
            for d in 0..20 {
                (0..50).for_each(|f| drop(file(tree.join(format!("d{d}/f{f}")), 10)));
            }
            let state = state.to_str().unwrap();
            let gates = |more: &[&str]| {
                let options = [&["-j", "1"], more].concat();
                calls(&estimates(&tree, &options)["gates"])
            };
            let alone = gates(&[]);
            for level in ["0", "1", "2", "3"] {
                let out = at.join(format!("{level}.tar"));
                dump(&tree, &out, &["--level", level, "--state", state]).exits(0);
            }
            let all = gates(&["--state", state]);
            assert_eq!(all["getdents64"], alone["getdents64"]);
            assert!(alone["statx"] >= 1020, "{alone:?}");
            // A level adds calls that find its catalog and open it.
            assert!(all["statx"] <= alone["statx"] + 80, "{all:?} {alone:?}");
            assert!(all["openat"] <= alone["openat"] + 40, "{all:?} {alone:?}");
            // Estimates open no files of the tree.
            assert!(alone["openat"] < 60, "{alone:?}");
        });
    }
}

#[test]
fn dry_run_writes_nothing() {
    let place = tempfile::tempdir().unwrap();
    let at = place.path();
    file(at.join("tree/f"), 10);
    fs::create_dir(at.join("state")).unwrap();
    let fathom = |line: &str| run(fathom(line.split(' ')).current_dir(at));
    let ran = fathom("dump tree -n -o a.tar --catalog c").exits(0);
    assert!(ran.lines()[1].ends_with("10 KiB -"), "{ran}");
    fathom("dump tree -n --level 0 --state state").exits(0);
    let ran = fathom("dump tree -n --state state").exits(0);
    assert_eq!(ran.lines().len(), 2, "{ran}");
    let left: Vec<_> = fs::read_dir(at)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 2, "{left:?}");
    assert_eq!(fs::read_dir(at.join("state")).unwrap().count(), 0);
    for line in [
        "dump -n",
        "dump missing -n",
        "dump tree -n --state nowhere/state",
        "dump tree -n --since nowhere",
        "dump tree -n --account",
        "dump tree -n --prune --keep-full 1 --state state",
    ] {
        fathom(line).refused();
    }
}
