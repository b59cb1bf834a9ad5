//! Kills and failing calls at each step: of dumps to compressed archives and from lists, of pruning,
//! of renewing tokens, and of restoring one file by the index.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::full::NEEDS;
use super::rounds::on;
use crate::support::build::{dir, file};
use crate::support::disks::{BTRFS, EXT4, XFS};
use crate::support::effort::effort;
use crate::support::reference::settle;
use crate::support::run::args;
use crate::support::snapshot::{kept, same, snapshot};
use crate::support::strace::{calls_in_a_thread, with_fault};
use crate::support::tool::tool;
use crate::support::{Need, fathom, require, run};

/// System calls, each with a fault to inject: a kill, or an error.
const FAULTS: [(&str, &str); 11] = [
    ("openat", "signal=KILL"),
    ("write", "signal=KILL"),
    ("fsync", "signal=KILL"),
    ("linkat", "signal=KILL"),
    ("renameat2", "signal=KILL"),
    ("unlinkat", "signal=KILL"),
    ("write", "error=ENOSPC"),
    ("fsync", "error=EIO"),
    ("linkat", "error=EIO"),
    ("renameat2", "error=EIO"),
    ("unlinkat", "error=EIO"),
];

/// Runs a command without a fault, and then with each fault at `few` of its calls, or at all of
/// them. The calls are evenly spread and include the last one. `check` gets the fault and whether
/// the command succeeded, and must restore the initial state.
fn at_calls(
    at: &Path,
    line: &[&str],
    faults: &[(&str, &str)],
    few: usize,
    mut check: impl FnMut((&str, &str), bool, &str),
) {
    let mut command = fathom(line.iter().copied());
    command.current_dir(at);
    let calls: Vec<&str> = faults.iter().map(|(call, _)| *call).collect();
    let most = calls_in_a_thread(&command, &calls);
    check(("", ""), true, &format!("{} without a fault", line[0]));
    let (mut runs, mut hits) = (0, 0);
    for &fault in faults {
        let most = most.get(fault.0).copied().unwrap_or_default();
        let points = effort(few, most).min(most);
        for nth in (1..=points).map(|point| point * most / points) {
            let (status, is_hit) = with_fault(&command, fault, nth);
            (runs, hits) = (runs + 1, hits + usize::from(is_hit));
            let what = format!("{} {fault:?} at call {nth} of {most}", line[0]);
            check(fault, status.success(), &what);
        }
        if is_kill(fault) {
            // The next run removes temporary files of the killed one.
            let is_well = run(&mut command).code() == 0;
            check(("", ""), is_well, &format!("{} after {fault:?}", line[0]));
        }
    }
    // Threads divide the work differently in each run, so some make fewer calls than before.
    assert!(2 * hits > runs, "{line:?}: {hits} faults in {runs} runs");
}

/// The names in a directory, except temporary files that a killed process has left.
fn names(at: &Path, is_killed: bool) -> Vec<String> {
    let names = fs::read_dir(at).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names
        .filter(|name| !(is_killed && name.starts_with(".fathom-")))
        .collect();
    names.sort();
    names
}

fn is_kill(fault: (&str, &str)) -> bool {
    fault.1.contains("KILL")
}

/// After any fault, an archive with its final name is complete, and the catalog belongs to an
/// existing archive.
#[test]
fn compressed_dumps_of_lists_are_complete_or_not_there() {
    let needs = ["strace", "tar", "zstd", "gzip", "xz"].map(Need::Program);
    if !require(&needs) {
        return;
    }
    let suffixes = ["tar.zst", "tar.gz", "tar.xz"];
    for suffix in suffixes.into_iter().take(effort(1, 3)) {
        let place = tempfile::tempdir().unwrap();
        let at = place.path();
        (0..20).for_each(|n| drop(file(at.join(format!("tree/d{}/f{n}", n % 3)), 3000)));
        fs::write(at.join("list"), "tree/d0\ntree/d1/f1\n").unwrap();
        let out = dir(at.join("out"));
        let first = "dump --files-from list -o out/0.tar --catalog out/c -q".split(' ');
        run(fathom(first).current_dir(at)).exits(0);
        fs::write(at.join("list"), "tree/d1\ntree/d2\n").unwrap();
        let archive = format!("out/1.{suffix}");
        let line = [
            "dump",
            "--files-from",
            "list",
            "-o",
            &archive,
            "--since",
            "out/c",
            "--catalog",
            "out/c",
            "-q",
        ];
        let before = fs::read(out.join("c")).unwrap();
        let archive = at.join(&archive);
        at_calls(at, &line, &FAULTS, 1, |fault, is_well, what| {
            let is_there = archive.exists();
            if is_there {
                run(&mut fathom(args!["verify", &archive, "-q"])).exits(0);
                tool(Command::new("tar").arg("-tf").arg(&archive));
            }
            let is_new = fs::read(out.join("c")).unwrap() != before;
            assert!(is_there || !is_new, "{what}: a catalog without archive");
            assert!(!is_well || is_new, "{what}: no new catalog");
            let left = names(&out, is_kill(fault));
            let known = |name: &String| name == "0.tar" || name == "c" || archive.ends_with(name);
            assert!(left.iter().all(known), "{what}: {left:?}");
            if is_new {
                let to = dir(at.join("to"));
                let archives = [out.join("0.tar"), archive.clone()];
                run(fathom(args!["restore", "-q", "-C", &to]).args(archives)).exits(0);
                assert!(!to.join("tree/d0").exists(), "{what}");
                for part in ["d1", "d2"] {
                    let [a, b] = [at, &to].map(|top| snapshot(&top.join("tree").join(part)));
                    assert!(a.keys().eq(b.keys()), "{what}");
                }
                fs::remove_dir_all(&to).unwrap();
            }
            fs::write(out.join("c"), &before).unwrap();
            let _ = fs::remove_file(&archive);
        });
    }
}

/// An interrupted prune has removed only dumps that are not needed, and the next prune removes the
/// rest.
#[test]
fn interrupted_pruning_keeps_what_is_needed() {
    if !require(&[Need::Program("strace")]) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let at = place.path();
    let tree = dir(at.join("tree"));
    let (state, saved) = (dir(at.join("state")), at.join("saved"));
    let out = dir(at.join("out"));
    let mut last = None;
    for (number, level) in [0, 1, 2, 0, 1, 2].into_iter().enumerate() {
        file(tree.join(format!("f{number}")), 100);
        let line = format!("dump tree -q -o out/{number}.tar --level {level} --state state");
        run(fathom(line.split(' ')).current_dir(at)).exits(0);
        last = Some(kept(&tree));
    }
    let copy = |from: &Path, to: &Path| {
        let _ = fs::remove_dir_all(to);
        tool(Command::new("cp").arg("-a").arg(from).arg(to));
    };
    copy(&state, &saved.with_extension("state"));
    copy(&out, &saved.with_extension("out"));
    let line = [
        "dump",
        "--state",
        "state",
        "--prune",
        "--keep-full",
        "1",
        "--yes",
        "-q",
    ];
    let mut interrupted = 0;
    at_calls(at, &line, &FAULTS, 1, |_, is_well, what| {
        interrupted += usize::from(!is_well);
        let check = |what: &str| {
            for number in 3..6 {
                assert!(out.join(format!("{number}.tar")).exists(), "{what}");
            }
            let to = dir(at.join("to"));
            let restore = args!["restore", "-q", "--state", &state, "-C", &to];
            run(&mut fathom(restore)).exits(0);
            same(last.as_ref().unwrap(), &snapshot(&to.join("tree")), what);
            fs::remove_dir_all(&to).unwrap();
            run(&mut fathom(args!["list", "--state", &state])).exits(0);
        };
        check(what);
        run(fathom(line).current_dir(at)).exits(0);
        check(&format!("{what}, pruned again"));
        assert_eq!(names(&out, false), ["3.tar", "4.tar", "5.tar"], "{what}");
        copy(&saved.with_extension("state"), &state);
        copy(&saved.with_extension("out"), &out);
    });
    assert!(interrupted > effort(5, 10), "{interrupted}");
}

/// The catalog with new tokens replaces the old one atomically.
#[test]
fn interrupted_renewal_of_tokens_leaves_a_catalog() {
    if !require(&NEEDS) || !require(&[Need::Program("strace")]) {
        return;
    }
    on(Some(EXT4[0]), |at, _| {
        let tree = dir(at.join("tree"));
        (0..20).for_each(|n| drop(file(tree.join(format!("d{}/f{n}", n % 3)), 300)));
        let out = dir(at.join("out"));
        settle(at);
        run(fathom("dump tree -q -o out/0.tar --catalog out/c".split(' ')).current_dir(at))
            .exits(0);
        let line = [
            "dump",
            "tree",
            "-q",
            "-o",
            "out/1.tar",
            "--since",
            "out/c",
            "--catalog",
            "out/c",
        ];
        let before = fs::read(out.join("c")).unwrap();
        let mut renewed = 0;
        at_calls(at, &line, &FAULTS, 1, |_, is_well, what| {
            let now = fs::read(out.join("c")).unwrap();
            renewed += usize::from(now != before);
            assert!(!is_well || out.join("1.tar").exists(), "{what}");
            // The next increment is based on either catalog.
            file(tree.join("new"), 10);
            let next = "dump tree -q -o out/2.tar --since out/c".split(' ');
            run(fathom(next).current_dir(at)).exits(0);
            let to = dir(at.join("to"));
            let archives = ["0.tar", "1.tar", "2.tar"].map(|name| out.join(name));
            let is_on_it = |archive: &&PathBuf| now != before || !archive.ends_with("1.tar");
            let chain = archives.iter().filter(is_on_it);
            run(fathom(args!["restore", "-q", "-C", &to]).args(chain)).exits(0);
            same(&kept(&tree), &snapshot(&to.join("tree")), what);
            fs::remove_dir_all(&to).unwrap();
            fs::remove_file(tree.join("new")).unwrap();
            let _ = fs::remove_file(out.join("1.tar"));
            fs::write(out.join("c"), &before).unwrap();
        });
        assert!(renewed > 0, "no token was renewed");
    });
}

/// A file restored by the index is complete, or does not exist.
#[test]
fn interrupted_restore_by_the_index_leaves_no_part_of_a_file() {
    if !require(&[Need::Program("strace")]) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let at = place.path();
    (0..30).for_each(|n| drop(file(at.join(format!("tree/f{n}")), 300_000)));
    run(fathom("dump tree -q -o a.tar.zst".split(' ')).current_dir(at)).exits(0);
    let line = ["restore", "a.tar.zst", "-q", "-C", "to", "--", "tree/f7"];
    let whole = fs::read(at.join("tree/f7")).unwrap();
    let to = dir(at.join("to"));
    let reads = [
        ("pread64", "error=EIO"),
        ("read", "error=EIO"),
        ("pread64", "signal=KILL"),
        ("pwrite64", "signal=KILL"),
        ("pwrite64", "error=ENOSPC"),
    ];
    let faults: Vec<_> = reads.into_iter().chain(FAULTS).collect();
    at_calls(at, &line, &faults, 2, |_, is_well, what| {
        let restored: PathBuf = to.join("tree/f7");
        match fs::read(&restored) {
            Ok(data) => assert!(data == whole, "{what}: a part of the file"),
            Err(_) => assert!(!is_well, "{what}: no file and no error"),
        }
        let _ = fs::remove_dir_all(&to);
        dir(&to);
    });
}

/// From 4 MiB on, writing an archive bypasses the page cache, until a write fails with EINVAL. The
/// last, unaligned part goes through the page cache. btrfs does not report that it supports this.
#[test]
fn large_archives_bypass_the_page_cache() {
    if !require(&NEEDS) || !require(&[Need::Program("strace")]) {
        return;
    }
    for (make, can) in [(EXT4[0], true), (XFS[0], true), (BTRFS[0], false)] {
        on(Some(make), |at, ground| {
            (0..20).for_each(|n| drop(file(at.join(format!("tree/f{n}")), 700_001)));
            let expected = run(fathom(["dump", "tree", "-q", "-o", "-"]).current_dir(at)).exits(0);
            let expected = expected.stdout;
            let line = ["dump", "tree", "-q", "-o", "a.tar"];
            let trace = ground.join("trace");
            let modes = |fault: Option<&str>| {
                let _ = fs::remove_file(at.join("a.tar"));
                let fathom = fathom(line);
                let mut strace = Command::new("strace");
                strace
                    .args(["-f", "-qq", "-e", "trace=fcntl,write", "-o"])
                    .arg(&trace);
                strace.args(fault.map(|fault| format!("-einject=write:error=EINVAL:when={fault}")));
                strace.arg(fathom.get_program()).args(fathom.get_args());
                let is_well = strace.current_dir(at).status().unwrap().success();
                if is_well {
                    assert!(fs::read(at.join("a.tar")).unwrap() == expected, "{fault:?}");
                }
                let calls = fs::read_to_string(&trace).unwrap();
                let set = calls.lines().filter(|line| line.contains("F_SETFL"));
                let set: Vec<bool> = set.map(|line| line.contains("O_DIRECT")).collect();
                (is_well, set)
            };
            let both: &[bool] = if can { &[true, false] } else { &[] };
            assert_eq!(modes(None), (true, both.to_vec()));
            assert_eq!(modes(Some("7")), (can, both.to_vec()));
            assert_eq!(modes(Some("3")), (false, Vec::new()));
        });
    }
}

/// Dry runs make no call that changes anything.
#[test]
fn dry_runs_change_nothing() {
    if !require(&[Need::Program("strace")]) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let at = place.path();
    file(at.join("tree/f"), 100);
    fs::write(at.join("list"), "tree/f\n").unwrap();
    dir(at.join("state"));
    dir(at.join("to"));
    for number in 0..2 {
        let line = format!("dump tree -q -o {number}.tar.zst --level 0 --state state");
        run(fathom(line.split(' ')).current_dir(at)).exits(0);
    }
    for line in [
        "dump tree -n -o 2.tar.zst --catalog c",
        "dump tree -n --state state",
        "dump --files-from list -n -o 2.tar.gz",
        "dump --state state --prune --keep-full 1",
        "restore -n 0.tar.zst -C to",
        "restore -n 0.tar.zst -C to -- tree/f",
    ] {
        let log = at.join("log");
        let fathom = fathom(line.split(' '));
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-o"]).arg(&log);
        strace.args(["-e", "trace=%file,%desc"]);
        strace.arg(fathom.get_program()).args(fathom.get_args());
        strace
            .current_dir(at)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        strace.status().unwrap();
        let traced = fs::read_to_string(&log).unwrap();
        fs::remove_file(&log).unwrap();
        assert!(traced.lines().count() > 20, "{line}: {traced}");
        const CHANGES: [&str; 15] = [
            "O_CREAT",
            "O_TMPFILE",
            "O_TRUNC",
            "mkdirat(",
            "mknodat(",
            "symlinkat(",
            "linkat(",
            "renameat",
            "unlinkat(",
            "fchmod",
            "fchown",
            "utimensat(",
            "setxattr",
            "ftruncate(",
            "pwrite",
        ];
        for change in CHANGES {
            let made = traced.lines().find(|call| call.contains(change));
            // readlinkat(2) and the lock of a state directory change nothing.
            let made = made.filter(|call| !call.contains("readlinkat(") && !call.contains("lock"));
            assert!(made.is_none(), "{line}: {made:?}");
        }
    }
}
