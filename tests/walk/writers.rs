//! Tests of trees that have just changed, and of trees that change during the walk.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::engines::still;
use super::right::{census_of, engines, entry, objects, same, summary, totals, walk};
use crate::support::build::{dir, file};
use crate::support::concurrent::{Done, with_threads};
use crate::support::disks::{BTRFS, EXT4, Make, XFS, mounted};
use crate::support::effort::effort;
use crate::support::reference::{Census, census, settle};
use crate::support::repeat::repeat_until;
use crate::support::trees::{Dice, grow, mutate};
use crate::support::{Need, in_namespace, require};

/// The number of changes before each walk.
const CHANGES: usize = 4000;

fn rounds_on(make: Make, seed: u64) {
    in_namespace(|base| {
        let at = base.join("disk");
        assert!(mounted(make, &at));
        let top = dir(at.join("tree"));
        let mut dice = Dice::new(seed);
        let (plain, special) = (["stat", "threads"], *engines(make.fstype).last().unwrap());
        for round in 0..effort(2, 50) {
            let _orphans = mutate(&top, &mut dice, CHANGES);
            // Walk at once, while most changes are only in memory.
            let what = format!(
                "{special} on {} with {}, seed {seed}, round {round}",
                make.fstype, make.name
            );
            let given = census_of(&objects(
                &walk(&top, special, &["--format", "ndjson"]).exits(0),
            ));
            settle(&top);
            let expected = census(&top);
            assert!(expected.len() > 40, "{}", expected.len());
            same(&given, &expected, &what);
            let value = summary(&top, special, &[]);
            totals(&value["result"], &top, &expected, &what);
            let plain = plain[round % 2];
            assert_eq!(
                value["result"]["digest"],
                summary(&top, plain, &[])["result"]["digest"],
                "{what}, and {plain}"
            );
        }
    });
}

const DISK: [Need; 2] = [Need::Root, Need::Loop];

#[test]
fn recent_changes_on_ext4() {
    if require(&DISK) {
        rounds_on(EXT4[0], 1);
    }
}

#[test]
fn recent_changes_on_ext4_without_checksums_and_on_ext2() {
    if require(&DISK) {
        rounds_on(
            *EXT4
                .iter()
                .find(|make| make.name == "ext3 with 1K blocks")
                .unwrap(),
            2,
        );
        rounds_on(*EXT4.iter().find(|make| make.name == "ext2").unwrap(), 3);
    }
}

#[test]
fn recent_changes_on_ext4_with_fast_commits() {
    if require(&DISK) {
        rounds_on(
            *EXT4
                .iter()
                .find(|make| make.name == "much at once")
                .unwrap(),
            4,
        );
        rounds_on(
            *EXT4.iter().find(|make| make.name == "fast_commit").unwrap(),
            5,
        );
    }
}

#[test]
fn recent_changes_on_xfs() {
    if require(&DISK) {
        rounds_on(XFS[0], 6);
    }
}

#[test]
fn recent_changes_on_btrfs() {
    if require(&DISK) {
        rounds_on(BTRFS[0], 7);
        rounds_on(BTRFS[1], 8);
    }
}

/// Runs `look` while two writers change `busy`; `look` gets a function that returns the number of
/// changes so far.
fn while_busy(busy: &Path, look: impl FnOnce(&dyn Fn() -> usize)) {
    const BATCH: usize = 100;
    let changes = AtomicUsize::new(0);
    let write = |seed, done: &Done| {
        let mut dice = Dice::new(seed);
        while !done.is_set() {
            let _orphans = mutate(busy, &mut dice, BATCH);
            changes.fetch_add(BATCH, Ordering::Relaxed);
        }
    };
    with_threads(2, write, || look(&|| changes.load(Ordering::Relaxed)));
}

/// Checks that everything in `calm`, and every entry called `keep...` in `busy`, is emitted exactly
/// once and right: these entries exist throughout.
fn beside_writers(top: &Path, engines: &[&str]) {
    let (calm, busy) = (dir(top.join("calm")), dir(top.join("busy")));
    grow(&calm, 1, 200);
    for d in 0..8 {
        for f in 0..30 {
            file(busy.join(format!("keep{d}/keep{f}")), f * 100);
        }
    }
    settle(top);
    let kept = |path: &[u8]| {
        path.rsplit(|&b| b == b'/')
            .next()
            .unwrap()
            .starts_with(b"keep")
    };
    let before: Census = census(top)
        .into_iter()
        .filter(|(path, _)| kept(path) || starts(path, &calm))
        .collect();
    assert!(before.len() > 1000);
    while_busy(&busy, |changes| {
        repeat_until("many changes", || {
            thread::sleep(Duration::from_millis(1));
            (changes() > 2000).then_some(())
        });
        for round in 0..effort(1, 3) {
            for engine in engines {
                let ran = repeat_until("a walk during which there were changes", || {
                    let before = changes();
                    let ran = walk(top, engine, &["--format", "ndjson"]).exits(0);
                    (changes() > before).then_some(ran)
                });
                let mut found: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
                let mut given = Census::new();
                for (path, entry) in objects(&ran).iter().map(entry) {
                    *found.entry(path.clone()).or_default() += 1;
                    given.insert(path, entry);
                }
                let what = format!("{engine}, round {round}");
                for (path, entry) in &before {
                    let path_shown = path.escape_ascii();
                    assert_eq!(
                        found.get(path),
                        Some(&1),
                        "{what}: how often {path_shown} is given"
                    );
                    // The times and sizes of directories change while entries are created in them;
                    // their other fields do not.
                    let reported = &given[path];
                    let same = if entry.kind == "directory" && !starts(path, &calm) {
                        (
                            reported.ino,
                            &reported.kind,
                            &reported.mode,
                            &reported.btime,
                        ) == (entry.ino, &entry.kind, &entry.mode, &entry.btime)
                    } else {
                        reported == entry
                    };
                    assert!(
                        same,
                        "{what}: {path_shown}\n  is {entry:?}\nreported {reported:?}"
                    );
                }
                for path in given.keys() {
                    let known = before.contains_key(path)
                        || path == top.as_os_str().as_bytes()
                        || starts(path, &busy);
                    let spare = Path::new(OsStr::from_bytes(path)).ends_with("lost+found");
                    assert!(known || spare, "{what}: made up: {}", path.escape_ascii());
                }
            }
        }
    });
    fs::remove_dir_all(&busy).unwrap();
}

fn starts(path: &[u8], directory: &Path) -> bool {
    Path::new(OsStr::from_bytes(path)).starts_with(directory)
}

fn beside_writers_on(make: Make) {
    in_namespace(|base| {
        let at = base.join("disk");
        assert!(mounted(make, &at));
        beside_writers(&at, engines(make.fstype));
    });
}

#[test]
fn with_concurrent_writers_on_ext4() {
    if require(&DISK) {
        beside_writers_on(EXT4[0]);
    }
}

#[test]
fn with_concurrent_writers_on_ext4_without_checksums() {
    if require(&DISK) {
        beside_writers_on(
            *EXT4
                .iter()
                .find(|make| make.name == "ext3 with 1K blocks")
                .unwrap(),
        );
    }
}

#[test]
fn with_concurrent_writers_on_xfs() {
    if require(&DISK) {
        beside_writers_on(XFS[0]);
    }
}

#[test]
fn with_concurrent_writers_on_btrfs() {
    if require(&DISK) {
        beside_writers_on(BTRFS[0]);
    }
}

#[test]
fn with_concurrent_writers_on_tmpfs() {
    if require(&[Need::Root]) {
        in_namespace(|base| beside_writers(still(&base.join("still")), engines("tmpfs")));
    }
}
