//! Tests that the number of threads that create files changes neither the tree nor the warnings.

use std::fs;
use std::path::Path;

use ondisk::pax::{Member, MemberKind};
use serde_json::Value;

use crate::support::build::dir;
use crate::support::effort::effort;
use crate::support::pack::{end, plain, push};
use crate::support::run::args;
use crate::support::snapshot::{Snapshot, kept};
use crate::support::trees::Dice;
use crate::support::{Need, fathom, require, run};

/// Random members that replace each other: few names, in any order, of all types.
fn archive(dice: &mut Dice) -> Vec<u8> {
    const NAMES: [&str; 6] = ["a", "b", "A", "c", "d", "a b"];
    let name = |dice: &mut Dice| {
        let depth = 1 + dice.below(4);
        let names: Vec<_> = (0..depth).map(|_| *dice.pick(&NAMES)).collect();
        names.join("/")
    };
    let mut archive = Vec::new();
    for number in 0..20 + dice.below(300) {
        let kind = match dice.below(16) {
            0..3 => MemberKind::Directory,
            3..5 => MemberKind::Symlink,
            5..8 => MemberKind::Link,
            8 => MemberKind::Fifo,
            _ => MemberKind::File,
        };
        let size = match dice.below(20) {
            _ if kind != MemberKind::File => 0,
            0 => 70_000,
            1 => 0,
            size => size * 100,
        };
        let data = vec![number as u8; size];
        let mut member = Member {
            kind,
            mode: *dice.pick(&[0o644, 0o600, 0o755, 0o4755, 0o2700]),
            uid: dice.below(3) as u32 * 1000,
            gid: dice.below(2) as u32 * 1000,
            ..plain(name(dice), &data)
        };
        member.mtime.sec = 1_000_000_000 + number as i64;
        if matches!(kind, MemberKind::Symlink | MemberKind::Link) {
            member.link = name(dice).into_bytes();
        }
        if dice.one_in(10) {
            let value = vec![b'x'; if dice.one_in(5) { 100_000 } else { 10 }];
            member.xattrs = vec![(b"user.x".to_vec(), value)];
        }
        push(&mut archive, &member, &data);
    }
    end(&mut archive);
    archive
}

/// The restored tree, and the JSON of the restore.
fn restored(archive: &Path, to: &Path, jobs: &str) -> (Snapshot, Value) {
    let ran = run(&mut fathom(args![
        "restore",
        archive,
        "-C",
        dir(to),
        "-j",
        jobs,
        "--json"
    ]));
    let mut printed: Value = serde_json::from_slice(&ran.stdout).unwrap();
    printed["result"]["seconds"] = Value::Null;
    printed["gates"] = Value::Null;
    let mut tree = kept(to);
    tree.values_mut().for_each(|seen| seen.atime = (0, 0));
    // Ignore the current times of directories that no member describes.
    tree.values_mut()
        .filter(|seen| seen.mtime.0 > 1_100_000_000)
        .for_each(|seen| seen.mtime = (0, 0));
    (tree, printed)
}

#[test]
fn threads_do_not_change_the_result() {
    if !require(&[Need::Root]) {
        return;
    }
    for seed in 0..effort(4, 2000) as u64 {
        let ground = tempfile::tempdir().unwrap();
        let from = ground.path().join("a.tar");
        fs::write(&from, archive(&mut Dice::new(seed))).unwrap();
        let alone = restored(&from, &ground.path().join("1"), "1");
        for jobs in ["2", "5"] {
            let together = restored(&from, &ground.path().join(jobs), jobs);
            assert_eq!(alone.1, together.1, "seed {seed}, {jobs} threads");
            assert_eq!(alone.0, together.0, "seed {seed}, {jobs} threads");
        }
    }
}
