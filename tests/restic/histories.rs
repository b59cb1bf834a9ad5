//! Tests of snapshots with a state directory while the tree changes: the trees of unchanged
//! directories are reused, and every tree equals that of a complete snapshot.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::restic::{NEEDS, check, dump, init, restic, restored, said, tracked, trees};
use crate::support::build::{chmod, dir, file};
use crate::support::disks::{EXT4, mounted};
use crate::support::effort::effort;
use crate::support::reference::settle;
use crate::support::run::args;
use crate::support::snapshot::{kept, same};
use crate::support::tool::tool;
use crate::support::trees::{Dice, grow, mutate, plant, shuffle};
use crate::support::{Need, in_namespace, require};

/// The last snapshot, as restic lists it.
fn last(at: &Path) -> Value {
    let listed = said(at, args!["snapshots", "--json", "latest"]);
    serde_json::from_str::<Value>(&listed).unwrap()[0].clone()
}

/// The files and directories of the last snapshot, as restic counts them.
fn counts(at: &Path) -> (u64, u64, u64) {
    let listed = said(at, args!["ls", "--json", "latest"]);
    let nodes = listed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let nodes: Vec<Value> = nodes
        .filter(|it: &Value| it["struct_type"] == "node")
        .collect();
    let directories = nodes.iter().filter(|it| it["type"] == "dir").count() as u64;
    let bytes = nodes.iter().filter_map(|it| it["size"].as_u64()).sum();
    (nodes.len() as u64 - directories, directories, bytes)
}

/// The numbers of all files and directories and their size, by the JSON of fathom.
fn told(made: &Value) -> (u64, u64, u64) {
    let sum = |names: [&str; 3]| names.iter().map(|name| made[name].as_u64().unwrap()).sum();
    (
        sum(["files_new", "files_changed", "files_unmodified"]),
        // The root of a snapshot has no name, so restic does not list it.
        sum([
            "directories_new",
            "directories_changed",
            "directories_unmodified",
        ]) - 1,
        made["bytes"].as_u64().unwrap(),
    )
}

#[test]
fn directories_without_changes_are_neither_encoded_nor_looked_up() {
    if !require(&NEEDS) || !require(&[Need::Loop, Need::Program("mkfs.ext4")]) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        let disk = dir(ground.join("disk"));
        assert!(mounted(EXT4[0], &disk));
        let tree = dir(disk.join("tree"));
        for nth in 0..300 {
            file(tree.join(format!("d{nth}/e/f")), 100);
        }
        fs::create_dir(ground.join("state")).unwrap();
        settle(&tree);
        let words = || args!["disk/tree"];
        let first = tracked(ground, words()).0;
        assert_eq!(first["files_new"], 300);
        // After a change of one file, only the trees of its parent directories are read.
        file(tree.join("d7/e/f"), 200);
        let (made, few) = tracked(ground, words());
        assert_eq!(
            (&made["files_changed"], &made["files_unmodified"]),
            (&1.into(), &299.into())
        );
        assert_eq!(
            (
                &made["directories_changed"],
                &made["directories_unmodified"]
            ),
            (&5.into(), &598.into()),
            "{made}"
        );
        assert_eq!(told(&made), counts(ground));
        assert_eq!(last(ground)["parent"], first["snapshot"]);
        // With different options, the catalog cannot be used to find the changes.
        file(tree.join("d8/e/f"), 200);
        let (made, all) = tracked(ground, args!["disk/tree", "--exclude", "none"]);
        assert_eq!(made["directories_unmodified"], 598);
        assert!(few + 500 < all, "{few} {all}");
        // A snapshot by restic gives the same tree.
        restic(ground, args!["backup", "disk/tree"]).exits(0);
        let found = trees(ground);
        assert_eq!(found[2], found[3]);
        check(ground);
    });
}

#[test]
fn trees_are_those_of_restic_while_directories_move() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        let tree = dir(ground.join("tree"));
        fs::create_dir(ground.join("state")).unwrap();
        let mut dice = Dice::new(27);
        plant(&tree, &mut dice);
        let words = || args!["tree"];
        for round in 0..effort(2, 20) {
            shuffle(&tree, &mut dice, 2);
            if dice.one_in(3) {
                plant(&tree, &mut dice);
            }
            settle(&tree);
            let backup = || drop(restic(ground, args!["backup", "tree"]).exits(0));
            // If restic comes first, the last snapshot is not the one of the catalog.
            let restic_is_first = dice.one_in(4);
            if restic_is_first {
                backup();
            }
            let made = tracked(ground, words()).0;
            assert_eq!(told(&made), counts(ground), "round {round}");
            if !restic_is_first {
                backup();
            }
            let found = trees(ground);
            let [.., one, other] = &found[..] else {
                panic!()
            };
            assert_eq!(one, other, "round {round}: {found:?}");
            // Old versions of restic record no summary, so fathom cannot reuse trees of their
            // snapshots.
            if !restic_is_first {
                let id = last(ground)["id"].as_str().unwrap().to_owned();
                restic(ground, args!["forget", id]).exits(0);
            }
        }
        check(ground);
        let copy = restored(ground, "copy").join("tree");
        same(&kept(&tree), &kept(&copy), "after the changes");
    });
}

#[test]
fn trees_of_anything_are_those_of_an_archive_of_everything() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        let tree = dir(ground.join("tree"));
        grow(&tree, 3, 200);
        let mut find = Command::new("find");
        find.arg(&tree)
            .args(["-type", "f", "-exec", "chattr", "-ia", "{}", ";"]);
        tool(&mut find);
        let mut find = Command::new("find");
        find.arg(&tree)
            .args(["-type", "f", "-size", "+4M", "-delete"]);
        tool(&mut find);
        fs::create_dir(ground.join("state")).unwrap();
        chmod(&tree, 0o755);
        let mut dice = Dice::new(28);
        for round in 0..effort(2, 20) {
            let _orphans = mutate(&tree, &mut dice, 8);
            settle(&tree);
            let made = tracked(ground, args!["tree"]).0;
            let full = dump(ground, args!["tree"]);
            assert_eq!(made["tree"], full["tree"], "round {round}");
            assert_eq!(told(&made), told(&full), "round {round}");
            assert_eq!(full["files_new"], 0, "round {round}: {full}");
        }
        check(ground);
    });
}
