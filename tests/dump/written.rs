//! Tests of increments on btrfs, ext4 and XFS, which report the inodes written since the base.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::MountFlags;
use serde_json::Value;

use super::changes::change;
use super::full::{NEEDS, dump};
use super::rounds::{Series, grown, on, told};
use crate::support::build::{dir, file, unmount_whole};
use crate::support::concurrent::{Done, with_threads};
use crate::support::disks::{BTRFS, EXT4, Make, XFS, mount_image};
use crate::support::effort::effort;
use crate::support::reference::settle;
use crate::support::run::args;
use crate::support::trees::Dice;
use crate::support::{fathom, require, run};

/// The reason when only written files were read.
const ONLY: [&str; 2] = [
    "compared only what was written after generation",
    "compared only inodes that differ from the catalog",
];

/// Reading only written files gives the same archive as a walk, and a catalog with the same digest;
/// even if files were moved out of the tree or into it.
#[test]
fn only_written_files_are_dumped() {
    if require(&NEEDS) {
        // On XFS, an entry that has left the tree causes a walk.
        check_only_written(BTRFS[0], ONLY[0], 4);
        check_only_written(XFS[0], ONLY[1], 3);
    }
}

/// Rounds on a file system, of which at least `in_six` out of six read only written files.
fn check_only_written(make: Make, only: &str, in_six: usize) {
    on(Some(make), |at, ground| {
        let mut series = Series::new(at, ground);
        series.restored = dir(ground.join("restored"));
        grown(&series.tree, 5);
        // Compressed files have an attribute that would not be restored on other file systems.
        let _ = Command::new("chattr")
            .args(["-R", "-f", "-c"])
            .arg(&series.tree)
            .output();
        (0..40).for_each(|d| {
            (0..9).for_each(|n| drop(file(series.tree.join(format!("still {d}/{n}")), 50)))
        });
        let outside = dir(at.join("outside"));
        settle(at);
        series.round("the full dump");
        let (mut dice, all, mut quickly) = (Dice::new(5), effort(4, 50), 0);
        for round in 0..all {
            change(&series.tree, &mut dice, [1, 3, 10][round % 3]);
            let mut inside: Vec<PathBuf> = fs::read_dir(&series.tree)
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .collect();
            inside.sort();
            match round % 4 {
                1 => fs::rename(dice.pick(&inside), outside.join("from the tree")).unwrap(),
                3 => fs::rename(
                    outside.join("from the tree"),
                    series.tree.join(format!("back {round}")),
                )
                .unwrap(),
                _ => fs::write(outside.join("beside"), format!("{round}")).unwrap(),
            }
            settle(at);
            let (before, by_walk) = (ground.join("before"), ground.join("by walk"));
            fs::copy(&series.catalog, &before).unwrap();
            let (since, catalog) = (before.to_str().unwrap(), by_walk.to_str().unwrap());
            let walk = [
                "--since",
                since,
                "--catalog",
                catalog,
                "--gather",
                "combined",
                "--json",
            ];
            dump(&series.tree, &ground.join("by walk.tar"), &walk).exits(0);
            let (what, last) = (format!("round {round}"), series.archive());
            let result = series.round(&what);
            quickly += usize::from(result["why"].as_str().unwrap().contains(only));
            assert!(
                fs::read(last).unwrap() == fs::read(ground.join("by walk.tar")).unwrap(),
                "{what}: {result}"
            );
            let again = [
                "--since",
                series.catalog.to_str().unwrap(),
                "--gather",
                "combined",
                "--json",
            ];
            let again = dump(&series.tree, &ground.join("again.tar"), &again)
                .exits(0)
                .json();
            assert!(
                again["result"]["why"]
                    .as_str()
                    .unwrap()
                    .contains("the digest of all"),
                "{what}: {again}"
            );
        }
        assert!(quickly * 6 >= all * in_six, "{quickly} rounds of {all}");
    });
}

/// A series whose tree has twenty directories of twenty files each, dumped once.
fn four_hundred(at: &Path, ground: &Path) -> Series {
    let mut series = Series::new(at, ground);
    series.restored = dir(ground.join("restored"));
    (0..20)
        .for_each(|d| (0..20).for_each(|n| drop(file(series.tree.join(format!("{d}/{n}")), 50))));
    settle(at);
    series.round("the full dump");
    series
}

/// Unmounts the file system of [`on`], passes its image to `change`, and mounts it again.
pub(crate) fn mounted_again(make: Make, at: &Path, flags: MountFlags, change: impl FnOnce(&Path)) {
    let image = at.with_extension("image");
    unmount_whole(at);
    change(&image);
    assert!(mount_image(make, &image, at, flags));
}

/// Writes outside of SRC do not cause a walk. A SRC that was moved and replaced by a symlink to its
/// new path is an error, although btrfs reports no written inode of the tree.
#[test]
fn writes_elsewhere_in_the_file_system_do_not_matter() {
    if !require(&NEEDS) {
        return;
    }
    on(Some(BTRFS[0]), |at, ground| {
        let mut series = four_hundred(at, ground);
        let busy = at.join("busy");
        let write = |_, done: &Done| {
            while !done.is_set() {
                fs::write(&busy, "busy").unwrap();
            }
        };
        with_threads(1, write, || {
            for round in 0..3 {
                fs::write(series.tree.join(format!("{round}/new")), "new").unwrap();
                let result = series.round(&format!("round {round}"));
                told(
                    &result,
                    &[("files", 1), ("directories", 2), ("unchanged", 419 + round)],
                );
                assert!(
                    result["why"].as_str().unwrap().contains(ONLY[0]),
                    "{result}"
                );
            }
        });
        fs::rename(&series.tree, at.join("moved")).unwrap();
        symlink("moved", &series.tree).unwrap();
        settle(at);
        assert!(
            series
                .dump(&[])
                .exits(2)
                .stderr
                .contains("was a directory, and is not one now")
        );
    });
}

/// After an unmount, names are read again: xfs_repair may remove names without changing times.
#[test]
fn xfs_names_are_read_again_after_an_unmount() {
    if !require(&NEEDS) {
        return;
    }
    on(Some(XFS[0]), |at, ground| {
        let mut series = four_hundred(at, ground);
        let mut why = |round: &str| {
            fs::write(series.tree.join("7/7"), round).unwrap();
            settle(at);
            series.round(round)["why"].as_str().unwrap().to_owned()
        };
        // A deleted file does not count, although it is still open.
        let open = fs::File::open(at.join("tree/3/3")).unwrap();
        fs::remove_file(at.join("tree/3/3")).unwrap();
        let (before, again) = (why("mounted"), why("mounted still"));
        assert!(
            before.contains(ONLY[1]) && again.contains(ONLY[1]),
            "{before}; {again}"
        );
        drop(open);
        mounted_again(XFS[0], at, MountFlags::NOATIME, |_| ());
        let (before, again) = (why("mounted again"), why("mounted again still"));
        assert!(
            !before.contains(ONLY[1]) && again.contains(ONLY[1]),
            "{before}; {again}"
        );
    });
}

/// The sums in a catalog are a hint. If they are damaged, the rows are compared. After an unmount,
/// everything is compared: e2fsck or xfs_repair may have changed names.
#[test]
fn damaged_sums_and_other_mounts_are_not_relied_on() {
    if !require(&NEEDS) {
        return;
    }
    for make in [EXT4[0], XFS[0]] {
        on(Some(make), |at, ground| {
            let series = four_hundred(at, ground);
            let base = fs::read(&series.catalog).unwrap();
            let sums = place_of_sums(&series.catalog);
            let damaged = ground.join("damaged");
            let why = |change: &str| {
                fs::write(at.join("beside"), change).unwrap();
                settle(at);
                let since = ["--since", damaged.to_str().unwrap(), "--json"];
                let result = dump(&series.tree, &ground.join("next.tar"), &since);
                let result = result.exits(0).json();
                told(&result["result"], &[("unchanged", 420), ("directories", 1)]);
                result["result"]["why"].as_str().unwrap().to_owned()
            };
            for at in sums.clone() {
                let mut bytes = base.clone();
                bytes[at] ^= 1 << (at % 8);
                fs::write(&damaged, bytes).unwrap();
                assert_eq!(why(&format!("{at}")), SAME);
            }
            fs::write(&damaged, &base).unwrap();
            mounted_again(make, at, MountFlags::NOATIME, |_| ());
            let why = why("mounted again");
            assert!(why.contains("the digest of all"), "{make:?}: {why}");
        });
    }
}

/// The byte range of the sums over the inodes in a catalog.
fn place_of_sums(catalog: &Path) -> Range<usize> {
    let bytes = fs::read(catalog).unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (_, place) = text.rsplit_once("\"inode_sums\":").unwrap();
    let mut place = serde_json::Deserializer::from_str(place).into_iter::<Value>();
    let place = place.next().unwrap().unwrap();
    let number = |key: &str| usize::try_from(place[key].as_u64().unwrap()).unwrap();
    let from = number("offset");
    from..from + number("length")
}

/// A disk restored from a copy can reach the same generation again with different writes.
#[test]
fn btrfs_disk_restored_from_a_copy() {
    if !require(&NEEDS) {
        return;
    }
    on(Some(BTRFS[0]), |at, ground| {
        let mut series = four_hundred(at, ground);
        let copy = at.with_extension("copy");
        let mounted_again =
            |meanwhile: &dyn Fn(&Path)| mounted_again(BTRFS[0], at, MountFlags::NOATIME, meanwhile);
        let write = |name: &str, content: &str| {
            fs::write(at.join("tree").join(name), content).unwrap();
            settle(at);
        };
        mounted_again(&|image| assert!(fs::copy(image, &copy).is_ok()));
        for n in 0..5 {
            write("1/1", &format!("{n} times"));
        }
        write("1/gone", "");
        let result = series.round("before it is put back");
        assert!(
            result["why"].as_str().unwrap().contains(ONLY[0]),
            "{result}"
        );
        // The last write of the base is unchanged, so the file system has the history of the base.
        mounted_again(&|_| ());
        write("3/3", "later");
        let result = series.round("mounted again");
        assert!(
            result["why"].as_str().unwrap().contains(ONLY[0]),
            "{result}"
        );
        mounted_again(&|image| assert!(fs::copy(&copy, image).is_ok()));
        write("2/2", "by another way");
        for n in 0..20 {
            write("4/4", &format!("{n} times"));
        }
        let result = series.round("put back");
        assert!(
            !result["why"].as_str().unwrap().contains(ONLY[0]),
            "{result}"
        );
    });
}

/// The reason when all inodes were compared with the catalog.
const SAME: &str = "all inodes are equal to those in the catalog";

/// The catalog distinguishes inodes that were only read from changed ones, without examining their
/// files. The archive and the new catalog have the current access times.
#[test]
fn inodes_that_were_only_read_are_not_examined() {
    if require(&NEEDS) {
        // On ext4, a walk is as fast as a search for changed inodes.
        let walked = "starting ext4 would cost more than it saves";
        for (make, only) in [(BTRFS[0], ONLY[0]), (XFS[0], ONLY[1]), (EXT4[0], walked)] {
            on(Some(make), |at, ground| {
                mounted_again(make, at, MountFlags::STRICTATIME, |_| ());
                check_only_read(at, ground, only);
            });
        }
    }
}

fn check_only_read(at: &Path, ground: &Path, only: &str) {
    let series = four_hundred(at, ground);
    read_all(&series.tree);
    settle(at);
    let next = ground.join("next");
    let since = |gather: &str, catalog: &Path| {
        let [since, catalog] = [&series.catalog, catalog].map(|path| path.to_str().unwrap());
        let more = ["--since", since, "--catalog", catalog, "--gather", gather];
        let archive = ground.join(gather);
        let result = dump(&series.tree, &archive, &[&more[..], &["--json"]].concat());
        let result = result.exits(0).json()["result"].take();
        let why = result["why"].as_str().unwrap().to_owned();
        (result, why, fs::read(archive).unwrap())
    };
    let (result, why, _) = since("auto", &next);
    assert_eq!(why, SAME, "{result}");
    told(&result, &[("unchanged", 420), ("directories", 1)]);

    fs::write(series.tree.join("7/7"), "new").unwrap();
    fs::rename(series.tree.join("8"), series.tree.join("eight")).unwrap();
    read_all(&series.tree);
    settle(at);
    let (result, why, archive) = since("auto", &next);
    assert!(why.contains(only), "{result}");
    let by_walk = ground.join("by walk");
    let (_, why, walked) = since("percall", &by_walk);
    assert!(!why.contains(only) && archive == walked, "{why}");
    assert_eq!(access_times(&next), access_times(&by_walk));
}

/// Reads the directories in a directory, and the files in them.
fn read_all(tree: &Path) {
    for dir in fs::read_dir(tree).unwrap() {
        let files = fs::read_dir(dir.unwrap().path()).unwrap();
        files.for_each(|file| drop(fs::read(file.unwrap().path()).unwrap()));
    }
}

/// The access time of each path in a catalog.
fn access_times(catalog: &Path) -> BTreeMap<String, String> {
    let listed = run(&mut fathom(args!["query", catalog, "--format", "ndjson"])).exits(0);
    let entry = |line: &[u8]| {
        let entry: Value = serde_json::from_slice(line).unwrap();
        let text = |field: &str| entry[field].as_str().unwrap().to_owned();
        (text("path"), text("atime"))
    };
    let lines = listed.stdout.split_inclusive(|&b| b == b'\n');
    let times: BTreeMap<_, _> = lines.map(entry).collect();
    assert_eq!(times.len(), 421);
    times
}

/// Between dumps, other programs read the tree, which updates access times and so changes the
/// token. The first dump after that examines the tree; the next one need not.
#[test]
fn tokens_are_renewed_if_nothing_has_changed() {
    if require(&NEEDS) {
        for make in [EXT4[2], XFS[0], BTRFS[0]] {
            on(Some(make), |at, ground| check_renewal(make, at, ground));
        }
    }
}

fn check_renewal(make: Make, at: &Path, ground: &Path) {
    mounted_again(make, at, MountFlags::STRICTATIME, |_| ());
    let series = four_hundred(at, ground);
    let why = |since: &Path, catalog: &Path| {
        let [since, catalog] = [since, catalog].map(|path| path.to_str().unwrap());
        let arguments = ["--since", since, "--catalog", catalog, "--json"];
        let result = dump(&series.tree, &ground.join("next.tar"), &arguments)
            .exits(0)
            .json();
        told(&result["result"], &[("unchanged", 420), ("directories", 1)]);
        result["result"]["why"].as_str().unwrap().to_owned()
    };
    let is_by_token = |why: &str| why.contains("is unchanged since the catalog");
    let read = || {
        (0..20).for_each(|n| drop(fs::read(series.tree.join(format!("{n}/{n}"))).unwrap()));
        settle(at);
    };
    // The catalog is replaced, or a second one is written.
    let (catalog, next) = (&series.catalog, ground.join("next"));
    for to in [catalog, &next] {
        // XFS covers its log some time after the last change, which changes the token once more.
        let is_renewed = (0..3).any(|_| {
            read();
            let (first, second) = (why(catalog, to), why(to, to));
            assert!(!is_by_token(&first), "{make:?}: {first}");
            is_by_token(&second)
        });
        assert!(is_renewed, "{make:?}");
    }
    fs::write(series.tree.join("7/7"), "new").unwrap();
    settle(at);
    for base in [catalog, &next] {
        let base = base.to_str().unwrap();
        let result = dump(
            &series.tree,
            &ground.join("last.tar"),
            &["--since", base, "--json"],
        );
        told(&result.exits(0).json()["result"], &[("files", 1)]);
    }
}
