//! Tests that restic and fathom share stored data: they cut files into the same blobs, and encode
//! directories in the same way.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::restic::{
    NEEDS, check, copy_fixture, dump, dump_command, init, restic, restic_command, restored, said,
    tracked, trees,
};
use crate::support::build::{chmod, dir, file, name};
use crate::support::disks::{EXT4, mounted};
use crate::support::reference::settle;
use crate::support::run::{Ran, args};
use crate::support::snapshot::{kept, same};
use crate::support::tool::tool;
use crate::support::trees::Dice;
use crate::support::{Need, in_namespace, require, run};

/// The number of blobs of a kind that the index of the repository lists.
fn blobs(at: &Path, kind: &str) -> usize {
    let listed = said(at, args!["list", "blobs"]);
    listed.lines().filter(|line| line.starts_with(kind)).count()
}

/// Makes a snapshot with restic. Returns its summary.
fn backup(at: &Path, words: impl IntoIterator<Item = OsString>) -> Value {
    let head = args!["backup", "--json"].into_iter();
    let said = said(at, head.chain(words));
    serde_json::from_str(said.lines().last().unwrap()).unwrap()
}

#[test]
fn large_files_are_cut_where_restic_cuts_them() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        let plant = |top: &str, seed: u64| {
            let top = dir(ground.join(top));
            let random = Dice::new(seed).bytes(9 << 20);
            fs::write(top.join("random"), &random).unwrap();
            fs::write(top.join("part"), &random[1234..5 << 20]).unwrap();
            fs::write(top.join("one"), &random[..512 << 10]).unwrap();
            fs::write(top.join("zeros"), vec![0; 3 << 20]).unwrap();
            let line = format!("{seed} is a line of a text\n");
            fs::write(top.join("text"), line.repeat(100_000)).unwrap();
        };
        // Snapshots of different paths have no parent, so each file is read.
        for (seed, [first, second]) in [(1, ["a", "b"]), (2, ["c", "d"])] {
            plant(first, seed);
            plant(second, seed);
            match seed {
                1 => {
                    backup(ground, args![first]);
                    let made = dump(ground, args![second]);
                    assert_eq!(made["files_new"], 5);
                    assert!(made["bytes_added"].as_u64() < Some(10_000), "{made}");
                }
                _ => {
                    let made = dump(ground, args![first]);
                    assert!(made["bytes_added"].as_u64() > Some(9 << 20), "{made}");
                    let theirs = backup(ground, args![second]);
                    assert_eq!(
                        (&theirs["files_new"], &theirs["data_blobs"]),
                        (&5.into(), &0.into())
                    );
                }
            }
        }
        check(ground);
        let copy = restored(ground, "copy");
        same(&kept(&ground.join("d")), &kept(&copy.join("d")), "the copy");
    });
}

#[test]
fn directories_of_odd_entries_have_the_trees_of_restic() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        let tree = dir(ground.join("tree"));
        for odd in [
            &b"\xff \"quoted\" \n \\ \x07\x01\x7f"[..],
            b"<&>",
            "é e\u{301} \u{1f600}".as_bytes(),
            "\u{a0}\u{200b}\u{2028}\u{e000}\u{10ffff}".as_bytes(),
        ] {
            file(tree.join("names").join(name(odd)), 3);
            symlink(
                name(odd),
                tree.join("names").join(name(&[odd, b".link"].concat())),
            )
            .ok();
        }
        // Old versions of restic encode symlink targets that are not UTF-8 differently.
        let mut find = Command::new("find");
        find.arg(&tree).args(["-name", "*quoted*.link", "-delete"]);
        tool(&mut find);
        let kinds = dir(tree.join("kinds"));
        symlink("/nowhere/<&>", kinds.join("link")).unwrap();
        tool(Command::new("mkfifo").arg(kinds.join("fifo")));
        tool(
            Command::new("mknod")
                .arg(kinds.join("char"))
                .args(["c", "1", "3"]),
        );
        tool(
            Command::new("mknod")
                .arg(kinds.join("block"))
                .args(["b", "7", "300"]),
        );
        for (nth, mode) in [0, 0o777, 0o4755, 0o2755, 0o1777].into_iter().enumerate() {
            let path = kinds.join(format!("mode{nth}"));
            file(path.clone(), nth);
            chmod(path, mode);
        }
        let times = dir(tree.join("times"));
        for time in [
            "1960-02-29 01:02:03.000000001",
            "1970-01-01 00:00:00",
            "2024-03-31 02:30:00.5",
            "2100-12-31 23:59:59.120",
        ] {
            let path = times.join(time);
            file(path.clone(), 1);
            tool(Command::new("touch").args(["-d", time]).arg(path));
        }
        for zone in ["UTC", "Europe/Berlin", "America/St_Johns"] {
            let command = |command: &mut Command| {
                run(command.env("TZ", zone)).exits(0);
            };
            command(&mut dump_command(ground, args!["tree"]));
            command(&mut restic_command(ground, args!["backup", "tree"]));
            let found = trees(ground);
            let [.., ours, theirs] = &found[..] else {
                panic!()
            };
            assert_eq!(ours, theirs, "{zone}");
        }
        check(ground);
    });
}

#[test]
fn a_change_above_the_source_keeps_its_trees() {
    if !require(&NEEDS) || !require(&[Need::Loop, Need::Program("mkfs.ext4")]) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        let (above, disk) = (
            dir(ground.join("above")),
            dir(ground.join("above/middle/disk")),
        );
        assert!(mounted(EXT4[0], &disk));
        for nth in 0..200 {
            file(disk.join(format!("one/d{nth}/f")), 100);
            file(disk.join(format!("two/d{nth}/f")), 101);
        }
        fs::create_dir(ground.join("state")).unwrap();
        settle(&disk);
        let words = || args!["above/middle/disk/one", "above/middle/disk/two"];
        let (first, all) = tracked(ground, words());
        assert_eq!(first["directories_new"], 406);
        let before = blobs(ground, "tree");
        // The trees of the root and of `above` contain the metadata of `middle`, so both change.
        chmod(above.join("middle"), 0o700);
        let (second, few) = tracked(ground, words());
        assert_eq!(blobs(ground, "tree"), before + 2);
        assert_eq!(
            (
                &second["directories_changed"],
                &second["directories_unmodified"]
            ),
            (&3.into(), &403.into()),
            "{second}"
        );
        assert_eq!(
            (&second["files_unmodified"], &second["bytes"]),
            (&400.into(), &first["bytes"])
        );
        assert!(few < 140 && few < all / 10, "{few} {all}");
        // The catalog refers to the new tree.
        let (third, _) = tracked(ground, words());
        assert_eq!(
            (&third["tree"], &third["directories_changed"]),
            (&second["tree"], &0.into())
        );
        assert_eq!(dump(ground, words())["tree"], second["tree"]);
        // A file in one of the SRCs has changed, too: the tree of the other SRC is reused.
        chmod(&above, 0o711);
        file(disk.join("one/d7/f"), 500);
        let (fourth, _) = tracked(ground, words());
        assert_eq!(
            (&fourth["files_changed"], &fourth["directories_changed"]),
            (&1.into(), &6.into()),
            "{fourth}"
        );
        restic(ground, args!["backup"].into_iter().chain(words())).exits(0);
        let found = trees(ground);
        assert_eq!(fourth["tree"], found[found.len() - 1][..]);
        check(ground);
    });
}

#[test]
fn repositories_of_version_1_are_not_compressed() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        copy_fixture("version1", &ground.join("repo"));
        let tree = dir(ground.join("tree"));
        for nth in 0..50 {
            let text = format!("{nth} ").repeat(1000 + nth);
            fs::create_dir_all(tree.join(format!("d{}", nth % 7))).unwrap();
            fs::write(tree.join(format!("d{}/{nth}", nth % 7)), text).unwrap();
        }
        fs::create_dir(ground.join("state")).unwrap();
        settle(&tree);
        let first = tracked(ground, args!["tree"]).0;
        let [added, stored] = ["bytes_added", "bytes_stored"].map(|it| first[it].as_u64().unwrap());
        assert!(stored > added, "{first}");
        file(tree.join("d1/1"), 7000);
        assert_eq!(tracked(ground, args!["tree"]).0["files_changed"], 1);
        assert_eq!(backup(ground, args!["tree"])["files_unmodified"], 50);
        let found = trees(ground);
        assert_eq!(found[1], found[2]);
        check(ground);
        let copy = restored(ground, "copy").join("tree");
        same(&kept(&tree), &kept(&copy), "the copy");
    });
}

#[test]
fn the_same_contents_are_stored_once() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        let tree = dir(ground.join("tree"));
        let large = Dice::new(3).bytes(3 << 20);
        for nth in 0..300 {
            file(tree.join(format!("d{}/{nth}", nth % 9)), 5000);
        }
        (0..8).for_each(|nth| fs::write(tree.join(format!("large{nth}")), &large).unwrap());
        let made = dump(ground, args!["tree"]);
        let stored = blobs(ground, "data");
        assert!((2..12).contains(&stored), "{stored}");
        assert!(made["bytes_added"].as_u64() < Some(4 << 20), "{made}");
        assert_eq!(made["bytes"], 300 * 5000 + ((8 * 3) << 20));
        check(ground);
    });
}

#[test]
fn a_damaged_index_file_is_named() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        file(dir(ground.join("tree")).join("file"), 100);
        dump(ground, args!["tree"]);
        let index = fs::read_dir(ground.join("repo/index"))
            .unwrap()
            .next()
            .unwrap();
        let index = index.unwrap().path();
        let mut bytes = fs::read(&index).unwrap();
        bytes[20] ^= 1;
        chmod(&index, 0o600);
        fs::write(&index, bytes).unwrap();
        let said: Ran = run(&mut dump_command(ground, args!["tree"]));
        let said = said.exits(2).stderr;
        assert!(
            said.contains("index file") && said.contains("repo/index/"),
            "{said}"
        );
        assert_eq!(trees(ground).len(), 1);
    });
}
