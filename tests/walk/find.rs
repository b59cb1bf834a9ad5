//! Tests that every engine prints the entries that find prints, for any form of DIR.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use super::engines::{mounted_or_still, still};
use super::right::{engines, entry, objects};
use crate::support::build::{deep, dir, file, name, odd_names};
use crate::support::disks::{BTRFS, EXT4, XFS, subvolume};
use crate::support::effort::effort;
use crate::support::reference::settle;
use crate::support::run::args;
use crate::support::tool::tool;
use crate::support::{Need, fathom, in_namespace, require, run};

/// Entries, each as formatted by find, in order of their lines.
type Lines = Vec<(Vec<u8>, String)>;

/// The entries that find prints in `at`.
fn by_find(at: &Path, given: &[&str], more: &[&str]) -> Lines {
    let mut find = Command::new("find");
    find.args(given)
        .args(more)
        .args(["-printf", r"%p\0%y %i %m %n %U %G %s %b %T@\0"])
        .current_dir(at);
    let printed = tool(&mut find);
    let mut fields = printed.split(|&b| b == 0);
    let mut lines = Lines::new();
    while let (Some(path), Some(rest)) = (fields.next(), fields.next()) {
        lines.push((path.to_vec(), String::from_utf8(rest.to_vec()).unwrap()));
    }
    lines.sort();
    lines
}

/// The entries that an engine prints in `at`.
fn by_engine(at: &Path, engine: &str, given: &[&str], more: &[&str]) -> Lines {
    let mut command = fathom(args!["walk", "--engine", engine, "--format", "ndjson"]);
    let ran = run(command.args(more).arg("--").args(given).current_dir(at)).exits(0);
    let line = |line| {
        let (path, e) = entry(line);
        let letter = match &e.kind[..] {
            "symlink" => "l",
            "fifo" => "p",
            other => &other[..1],
        };
        let mode = u32::from_str_radix(&e.mode, 8).unwrap();
        let (ino, nlink, uid, gid) = (e.ino, e.nlink, e.uid, e.gid);
        (
            path,
            format!(
                "{letter} {ino} {mode:o} {nlink} {uid} {gid} {} {} {}0",
                e.size, e.blocks, e.mtime
            ),
        )
    };
    let mut lines: Lines = objects(&ran).iter().map(line).collect();
    lines.sort();
    lines
}

/// Creates a directory with all kinds of entries: unusual names, links, a chain of directories,
/// other mounts, and a symlink to the directory.
fn scenery(at: &Path) {
    let here = dir(at.join("here"));
    for odd in odd_names() {
        file(here.join("sub").join(name(&odd)).join("file"), 3);
    }
    deep(&here.join("sub"), "down", 40);
    file(here.join("sub/a/b/c/d"), 5000);
    fs::hard_link(here.join("sub/a/b/c/d"), here.join("sub/a/e")).unwrap();
    symlink("sub", here.join("link")).unwrap();
    symlink("nowhere", here.join("sub/a/link")).unwrap();
    file(still(&dir(here.join("sub/a/mounted"))).join("within/it"), 1);
    file(
        still(&dir(here.join("sub/a/mounted/within/again"))).join("file"),
        1,
    );
}

#[test]
fn every_engine_prints_what_find_prints() {
    if !require(&[Need::Root, Need::Loop]) {
        return;
    }
    let makes = [Some(BTRFS[0]), Some(EXT4[0]), Some(XFS[0]), None];
    for make in makes.into_iter().take(effort(2, 4)) {
        in_namespace(|base| {
            let at = base.join("disk");
            mounted_or_still(make, &at);
            scenery(&at);
            let here = at.join("here");
            if make.is_some_and(|make| make.fstype == "btrfs") {
                let inner = subvolume(&here.join("sub/a/volume"), None);
                file(inner.join("in/it"), 1);
                subvolume(&here.join("sub/a/snapshot"), Some(&inner));
            }
            settle(&at);
            let absolute = here.join("sub").to_str().unwrap().to_owned();
            let plain: [&[&str]; 11] = [
                &["."],
                &["./"],
                &[".."],
                &["sub"],
                &["sub/"],
                &[".//sub//"],
                &["sub/../sub/a"],
                &["link/"],
                &["link/../sub/a/mounted/.", "sub/a"],
                &["sub", "sub/a", "sub"],
                &[&absolute],
            ];
            let fewer: [(&[&str], &[&str]); 4] = [
                (&["-x"], &["-xdev"]),
                (&["--max-depth", "0"], &["-maxdepth", "0"]),
                (&["--max-depth", "3"], &["-maxdepth", "3"]),
                (&["-x", "--max-depth", "4"], &["-xdev", "-maxdepth", "4"]),
            ];
            let each_kind = plain.iter().map(|given| (*given, (&[][..], &[][..])));
            let cases = each_kind.chain(
                fewer
                    .iter()
                    .flat_map(|more| [(plain[0], *more), (plain[8], *more)]),
            );
            for (given, (ours, finds)) in cases {
                let expected = by_find(&here, given, finds);
                for engine in engines(make.map_or("tmpfs", |make| make.fstype))
                    .iter()
                    .chain([&"auto"])
                {
                    // A raw engine walks only its own file system, and this DIR is on a different
                    // one.
                    if given.iter().any(|dir| dir.contains("mounted"))
                        && !["stat", "threads", "auto"].contains(engine)
                    {
                        continue;
                    }
                    let found = by_engine(&here, engine, given, ours);
                    let differ = || {
                        let missing = expected.iter().filter(|line| !found.contains(line)).take(3);
                        let more = found.iter().filter(|line| !expected.contains(line)).take(3);
                        let show = |(path, line): &(Vec<u8>, String)| {
                            format!("{} {line}", path.escape_ascii())
                        };
                        (
                            missing.map(show).collect::<Vec<_>>(),
                            more.map(show).collect::<Vec<_>>(),
                        )
                    };
                    assert!(
                        found == expected,
                        "{engine} {given:?} {ours:?}: {:#?}",
                        differ()
                    );
                }
            }
        });
    }
}

/// Five thousand nested directories with names of maximum length: paths of more than a megabyte.
#[test]
fn five_thousand_levels_of_long_names() {
    if !require(&[Need::Root, Need::Loop]) {
        return;
    }
    const DEPTH: usize = 5000;
    for make in [Some(EXT4[0]), Some(XFS[0]), Some(BTRFS[0]), None] {
        in_namespace(|base| {
            let at = base.join("disk");
            mounted_or_still(make, &at);
            let long = "n".repeat(255);
            let last = deep(&at, &long, DEPTH);
            rustix::fs::mkdirat(
                &last,
                OsStr::from_bytes(b"the end"),
                rustix::fs::Mode::from(0o755),
            )
            .unwrap();
            let mut digests = Vec::new();
            for engine in engines(make.map_or("tmpfs", |make| make.fstype)) {
                let value = run(&mut fathom(args![
                    "walk", &at, "--engine", engine, "--json"
                ]))
                .exits(0)
                .json();
                assert_eq!(value["result"]["max_depth"], DEPTH + 1, "{engine}: {value}");
                digests.push(value["result"]["digest"].clone());
            }
            digests.dedup();
            assert_eq!(digests.len(), 1, "{digests:?}");
        });
    }
}
