//! Tests of `--strip-components`, compared with GNU tar and bsdtar.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::Command;

use crate::support::build::{bush, dir, file, tmpfs};

use crate::support::effort::effort;
use crate::support::run::args;
use crate::support::snapshot::{Snapshot, alike, kept};
use crate::support::tool::tool;
use crate::support::trees::grow;
use crate::support::{Need, fathom, in_namespace, require, run};

/// Creates a tree below two directories: `a` has most of it, `b` some hard links and symlinks to
/// `a`.
fn tree(top: &Path, seed: u64) {
    grow(&dir(top.join("tree/a")), seed, 200);
    // Remove sockets. Some are in directories with the immutable flag, where that fails.
    let _ = Command::new("find")
        .arg(top)
        .args(["-type", "s", "-delete"])
        .output();
    file(top.join("tree/b/c/one"), 10);
    fs::hard_link(top.join("tree/b/c/one"), top.join("tree/b/c/two")).unwrap();
    fs::hard_link(top.join("tree/b/c/one"), top.join("tree/b/three")).unwrap();
    symlink("../../a/b/c", top.join("tree/b/c/four")).unwrap();
}

/// The tree that a tool extracts from an archive, and whether the tool succeeded.
fn extracted(tool: &str, archive: &Path, components: &str, to: &Path) -> (Snapshot, bool) {
    let mut command = Command::new(tool);
    command.args(["-xp", "--xattrs", "--acls"]);
    if tool == "tar" {
        command.args(["--xattrs-include=*", "--warning=none"]);
    }
    command.arg("--strip-components").arg(components);
    command.arg("-f").arg(archive).arg("-C").arg(dir(to));
    let done = command.output().unwrap();
    (kept(to), done.status.success())
}

/// Compares the trees below the top. The top and the directory `implied` have the time of the
/// extraction.
#[track_caller]
fn alike_below(a: &Snapshot, b: &Snapshot, implied: &[u8], what: &str) {
    let below = |all: &Snapshot| {
        let mut all = all.clone();
        all.remove(&b""[..]);
        all
    };
    alike(&below(a), &below(b), what, |name, seen| {
        seen.atime = (0, 0);
        if name == implied {
            seen.mtime = (0, 0);
        }
        // GNU tar restores each hard link to a device or fifo as a separate one.
        if seen.kind != 'f' {
            seen.twin = None;
        }
    });
}

#[test]
fn names_lose_as_many_components_as_by_gnu_tar() {
    if !require(&[Need::Root, Need::Program("bsdtar")]) {
        return;
    }
    for seed in 1..=effort(1, 3) as u64 {
        in_namespace(|ground| {
            let top = tmpfs(ground.join("top"));
            tree(&top, seed);
            for given in ["tree", "./tree/.", "tree/b", "."] {
                let archive = ground.join("archive");
                tool(
                    Command::new("tar")
                        .args(["--format=posix", "--xattrs", "--xattrs-include=*", "--acls"])
                        .args([
                            "--atime-preserve=system",
                            "--sparse",
                            "--warning=none",
                            "-cf",
                        ])
                        .arg(&archive)
                        .arg("-C")
                        .arg(&top)
                        .arg(given),
                );
                for components in ["0", "1", "2", "3", "4"] {
                    let what = format!("{given} {components}, seed {seed}");
                    let at = |tool: &str| ground.join(format!("by {tool}"));
                    let (by_tar, is_right) = extracted("tar", &archive, components, &at("tar"));
                    let to = dir(at("fathom"));
                    let mut restore = fathom(args!["restore", &archive, "-C", &to]);
                    restore.args(["--strip-components", components]);
                    // If the target of a link is stripped to nothing, both report an error.
                    let dry = run(fathom(restore.get_args()).arg("--dry-run"));
                    let ran = run(&mut restore).exits(i32::from(!is_right));
                    let implied: &[u8] = if given == "tree/b" { b"tree" } else { b"" };
                    alike_below(&by_tar, &kept(&to), implied, &what);
                    assert_eq!(dry.code(), ran.code(), "{what}: {dry}");
                    let made = ["file ", "directory ", "symlink ", "link "];
                    let is_made = |line: &&&str| made.iter().any(|kind| line.starts_with(kind));
                    let promised = dry.lines().iter().filter(is_made).count();
                    assert_eq!(promised == 0, by_tar.len() == 1, "{what}: {dry}");
                    // bsdtar restores less metadata, and removes a leading backslash like a slash.
                    let (by_bsdtar, _) = extracted("bsdtar", &archive, components, &at("bsdtar"));
                    let names =
                        |all: Snapshot| all.into_keys().filter(|name| !name.contains(&b'\\'));
                    assert!(names(by_tar).eq(names(by_bsdtar)), "{what}");
                    for tool in ["tar", "fathom", "bsdtar"] {
                        fs::remove_dir_all(at(tool)).unwrap();
                    }
                }
            }
        });
    }
}

/// Archives with an index: only the frames of the PATHs are read.
#[test]
fn paths_are_the_names_in_the_archive() {
    let place = tempfile::tempdir().unwrap();
    let at = place.path();
    bush(&at.join("top/tree"), 3, 3);
    run(fathom(["dump", "top", "-o", "a.tar.zst", "-q"]).current_dir(at)).exits(0);
    fs::remove_dir_all(at.join("top")).unwrap();
    let restored = |more: &[&str]| {
        let to = tempfile::tempdir_in(at).unwrap();
        let mut restore = fathom(args!["restore", "a.tar.zst", "-C", to.path()]);
        let ran = run(restore.args(more).current_dir(at));
        let found = kept(to.path()).into_keys();
        let names = found.map(|name| String::from_utf8(name).unwrap());
        (ran, names.collect::<Vec<_>>())
    };
    let two = ["--strip-components", "2"];
    let (ran, names) = restored(&[&["top/tree/d1"], &two[..]].concat());
    ran.exits(0);
    assert_eq!(names, ["", "d1", "d1/f0", "d1/f1", "d1/f2"]);
    let (ran, names) = restored(&[&two[..], &["top/*/f0"]].concat());
    ran.exits(0);
    assert_eq!(names, ["", "d0", "d0/f0", "d1", "d1/f0", "d2", "d2/f0"]);
    let (ran, names) = restored(&[&two[..], &["--", "d1"]].concat());
    assert!(ran.exits(1).stderr.contains("no archive has a member"));
    assert_eq!(names, [""]);
    // If all components of a name are stripped, the member is skipped without a warning.
    let (ran, names) = restored(&["top/tree/d1/f1", "--strip-components", "9"]);
    ran.exits(0);
    assert_eq!(names, [""]);
    restored(&["--strip-components", "-1"]).0.refused();
}

#[test]
fn link_whose_target_is_stripped_to_nothing_is_reported() {
    let place = tempfile::tempdir().unwrap();
    let at = place.path();
    file(at.join("0"), 3);
    fs::create_dir(at.join("d")).unwrap();
    fs::hard_link(at.join("0"), at.join("d/link")).unwrap();
    file(at.join("d/other"), 3);
    tool(
        Command::new("tar")
            .current_dir(at)
            .args(["-cf", "a.tar", "0", "d"]),
    );
    fs::create_dir(at.join("to")).unwrap();
    for more in [&["--dry-run"][..], &[]] {
        let mut restore = fathom(args![
            "restore",
            "a.tar",
            "-C",
            "to",
            "--strip-components=1"
        ]);
        let ran = run(restore.args(more).current_dir(at)).exits(1);
        assert!(
            ran.stderr.contains("'d/link'") && ran.stderr.contains("hard link to '0'"),
            "{ran}"
        );
    }
    assert_eq!(fs::read_dir(at.join("to")).unwrap().count(), 1);
    assert_eq!(fs::metadata(at.join("to/other")).unwrap().nlink(), 1);
}

/// Increments of a chain remove and rename entries by their full names, so their names cannot be
/// stripped.
#[test]
fn chain_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let at = place.path();
    file(at.join("tree/f"), 1);
    for directory in ["state", "to"] {
        fs::create_dir(at.join(directory)).unwrap();
    }
    for level in ["0", "1"] {
        let archive = format!("{level}.tar");
        let dump = [
            "dump", "tree", "-o", &archive, "--level", level, "--state", "state", "-q",
        ];
        run(fathom(dump).current_dir(at)).exits(0);
    }
    let strip = ["-C", "to", "--strip-components", "1"];
    for archives in [&["0.tar", "1.tar"][..], &["--state", "state"]] {
        for more in [&[][..], &["--dry-run"]] {
            let arguments = [&["restore"], archives, &strip, more].concat();
            let ran = run(fathom(arguments).current_dir(at));
            assert_eq!(ran.code(), 2, "{ran}");
            assert!(
                ran.stderr.contains("several archives") && ran.stderr.contains("hint: "),
                "{ran}"
            );
        }
    }
    assert_eq!(kept(&at.join("to")).len(), 1);
    run(fathom(args!["restore", "0.tar"])
        .args(strip)
        .current_dir(at))
    .exits(0);
    assert_eq!(kept(&at.join("to")).len(), 2);
}
