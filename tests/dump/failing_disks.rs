//! No change is lost on full disks, on disks that fail, and with servers that fail.

use std::fs::{self, File};
use std::path::Path;

use rustix::fs::FallocateFlags;
use rustix::mount::MountFlags;

use super::fire::{is_sound, names};
use super::full::NEEDS;
use super::rounds::{by_gnu_tar, on};
use crate::support::build::{dir, file, tmpfs, unmount_whole};
use crate::support::disks::{BTRFS, EXT4, XFS};
use crate::support::run::{Ran, args};
use crate::support::snapshot::{kept, same, snapshot};
use crate::support::synthetic::{SyntheticTree, serve_synthetic};
use crate::support::trees::Dice;
use crate::support::{Need, fathom, in_namespace, require, run};

/// If the disk is full, no archive is left and the old catalog stays. With space again, the next
/// dump succeeds.
#[test]
fn full_disk_for_the_archive() {
    if !require(&NEEDS) {
        return;
    }
    on(Some(EXT4[0]), |at, ground| {
        let (tree, small) = (dir(at.join("tree")), dir(ground.join("small")));
        rustix::mount::mount("small", &small, "tmpfs", MountFlags::NOATIME, c"size=1m").unwrap();
        let (catalog, restored) = (ground.join("catalog"), dir(at.join("restored")));
        let round = |archive: &Path| {
            let mut command = fathom(args!["dump", "tree", "-o", archive, "--catalog", catalog]);
            if catalog.exists() {
                command.args(args!["--since", catalog]);
            }
            run(command.current_dir(at))
        };
        file(tree.join("f"), 100);
        round(&small.join("0.tar")).exits(0);
        by_gnu_tar(&small.join("0.tar"), &restored);
        let before = fs::read(&catalog).unwrap();
        let mut dice = Dice::new(1);
        let noise: Vec<u8> = (0..400_000)
            .flat_map(|_| dice.roll().to_le_bytes())
            .collect();
        fs::write(tree.join("large"), noise).unwrap();
        for name in ["1.tar", "1.tar.zst"] {
            let ran = round(&small.join(name)).refused();
            assert!(
                ran.stderr.contains("No space left") && ran.stderr.contains("free some space"),
                "{ran}"
            );
        }
        assert_eq!(names(&small), ["0.tar"]);
        assert_eq!(fs::read(&catalog).unwrap(), before);
        round(&ground.join("1.tar")).exits(0);
        by_gnu_tar(&ground.join("1.tar"), &restored);
        same(&kept(&tree), &snapshot(&restored.join("tree")), "with room");
    });
}

#[test]
fn full_disk_for_the_catalog() {
    if !require(&NEEDS) {
        return;
    }
    on(Some(EXT4[0]), |at, ground| {
        let (tree, small) = (dir(at.join("tree")), dir(ground.join("small")));
        rustix::mount::mount("small", &small, "tmpfs", MountFlags::NOATIME, c"size=512k").unwrap();
        let (catalog, restored) = (small.join("catalog"), dir(at.join("restored")));
        let archive = |name: &str| ground.join(name);
        (0..100).for_each(|n| drop(file(tree.join(format!("f{n}")), 100)));
        let first = args!["dump", "tree", "-o", archive("0.tar"), "--catalog", catalog];
        run(fathom(first).current_dir(at)).exits(0);
        by_gnu_tar(&archive("0.tar"), &restored);
        let before = fs::read(&catalog).unwrap();
        let ballast = small.join("ballast");
        let _ = fs::write(&ballast, vec![b'b'; 1 << 20]);
        fs::write(tree.join("f1"), b"changed").unwrap();
        fs::rename(tree.join("f2"), tree.join("g2")).unwrap();
        let next = |name: &str| {
            let next = args![
                "dump",
                "tree",
                "-o",
                archive(name),
                "--since",
                catalog,
                "--catalog",
                catalog
            ];
            run(fathom(next).current_dir(at))
        };
        let ran = next("1.tar").refused();
        assert!(
            ran.stderr.contains("catalog") && ran.stderr.contains("No space left"),
            "{ran}"
        );
        // The archive had its final name already. It is complete, but it is not the base of the
        // next dump.
        is_sound(&archive("1.tar"));
        assert_eq!(names(&small), ["ballast", "catalog"]);
        assert_eq!(fs::read(&catalog).unwrap(), before);
        fs::remove_file(&ballast).unwrap();
        fs::remove_file(tree.join("g2")).unwrap();
        next("2.tar").exits(0);
        by_gnu_tar(&archive("2.tar"), &restored);
        same(&kept(&tree), &snapshot(&restored.join("tree")), "with room");
    });
}

/// A file that fills the disk up to a number of free bytes.
struct Ballast(File);

impl Ballast {
    fn new(at: &Path) -> Ballast {
        Ballast(File::create(at.join("ballast")).unwrap())
    }

    /// Sets the approximate number of free bytes.
    fn leave(&self, room: u64) {
        let mut size = self.0.metadata().unwrap().len();
        for piece in (12..28).rev().map(|bits| 1 << bits) {
            while rustix::fs::fallocate(&self.0, FallocateFlags::empty(), size, piece).is_ok() {
                size += piece;
            }
        }
        self.0.set_len(size.saturating_sub(room)).unwrap();
        rustix::fs::syncfs(&self.0).unwrap();
    }
}

/// With ever less space for archive, map and catalog: every file with its final name is complete,
/// no others are left, and the catalog belongs to existing archives.
#[test]
fn disk_with_less_and_less_room() {
    if !require(&NEEDS) {
        return;
    }
    for make in [EXT4[0], XFS[0], BTRFS[0]] {
        on(Some(make), |at, ground| {
            let other = tmpfs(ground.join("other"));
            let (tree, restored) = (dir(other.join("tree")), dir(other.join("restored")));
            let mut dice = Dice::new(9);
            let mut noise = |len: usize| {
                (0..len)
                    .map(|_| dice.roll().to_le_bytes()[0])
                    .collect::<Vec<u8>>()
            };
            (0..300).for_each(|n| drop(file(tree.join(format!("d{}/f{n}", n % 9)), 300)));
            let (catalog, map) = (at.join("catalog"), at.join("map"));
            let dump = |archive: &Path| {
                let mut command = fathom(args![
                    "dump",
                    "tree",
                    "-o",
                    archive,
                    "--catalog",
                    catalog,
                    "--map",
                    map,
                    "-q"
                ]);
                if catalog.exists() {
                    command.args(args!["--since", catalog]);
                }
                run(command.current_dir(&other))
            };
            dump(&at.join("0.tar")).exits(0);
            by_gnu_tar(&at.join("0.tar"), &restored);
            let ballast = Ballast::new(at);
            let (mut refused, mut done) = (0, 0);
            for (nth, room) in [0, 16, 64, 256, 600, 800, 1000, 1100, 1200, 1400, 4000]
                .into_iter()
                .enumerate()
            {
                ballast.0.set_len(0).unwrap();
                fs::write(tree.join("large"), noise(1 << 20)).unwrap();
                fs::write(tree.join("d3/f3"), noise(200 + nth)).unwrap();
                fs::remove_file(&map).unwrap();
                fs::write(&map, b"old").unwrap();
                ballast.leave(room << 10);
                let (before, archive) = (
                    fs::read(&catalog).unwrap(),
                    at.join(format!("{nth}.next.tar")),
                );
                let ran = dump(&archive);
                if ran.code() == 0 {
                    done += 1;
                    by_gnu_tar(&archive, &restored);
                    same(
                        &kept(&tree),
                        &snapshot(&restored.join("tree")),
                        &format!("{} {room}", make.fstype),
                    );
                } else {
                    refused += 1;
                    let ran = ran.refused();
                    assert!(
                        ran.stderr.contains("No space left")
                            && ran.stderr.contains("free some space"),
                        "{ran}"
                    );
                    assert_eq!(fs::read(&catalog).unwrap(), before, "{ran}");
                    if archive.exists() {
                        is_sound(&archive);
                    } else {
                        assert_eq!(fs::read(&map).unwrap(), b"old", "{ran}");
                    }
                }
                let left = names(at)
                    .into_iter()
                    .filter(|name| name.starts_with('.'))
                    .collect::<Vec<_>>();
                assert!(left.is_empty(), "{left:?}: {room}");
                let _ = fs::remove_file(&archive);
            }
            assert!(
                refused > 3 && done > 0,
                "{}: {refused} refused, {done} done",
                make.fstype
            );
            drop(ballast);
            fs::remove_file(at.join("ballast")).unwrap();
            dump(&at.join("last.tar")).exits(0);
            by_gnu_tar(&at.join("last.tar"), &restored);
            same(&kept(&tree), &snapshot(&restored.join("tree")), make.fstype);
        });
    }
}

/// If the map does not fit, the archive may have its final name, and the old catalog stays.
#[test]
fn full_disk_for_the_map() {
    if !require(&NEEDS) {
        return;
    }
    on(Some(EXT4[0]), |at, ground| {
        let (tree, small) = (dir(at.join("tree")), dir(ground.join("small")));
        rustix::mount::mount("small", &small, "tmpfs", MountFlags::NOATIME, c"size=64k").unwrap();
        (0..2000).for_each(|n| {
            drop(file(
                tree.join(format!("a name that takes some room in the map {n}")),
                1,
            ))
        });
        let (archive, catalog) = (ground.join("1.tar"), ground.join("catalog"));
        let arguments = args![
            "dump",
            "tree",
            "-o",
            archive,
            "--catalog",
            catalog,
            "--map",
            small.join("map")
        ];
        let ran = run(fathom(arguments).current_dir(at)).refused();
        assert!(
            ran.stderr.contains("cannot write map") && ran.stderr.contains("free some space"),
            "{ran}"
        );
        assert!(!archive.exists() && !catalog.exists() && names(&small).is_empty());
    });
}

/// Dumps the tree of a FUSE server, the first time in full, and restores the archive over the last
/// restored tree.
fn dump_synthetic(far: &SyntheticTree, ground: &Path, number: usize) -> Ran {
    let (at, archive, catalog) = (
        ground.join("far"),
        ground.join(format!("{number}.tar")),
        ground.join("catalog"),
    );
    let server = serve_synthetic(far.clone(), &at);
    let mut command = fathom(args![
        "dump",
        "far",
        "-o",
        archive,
        "--catalog",
        catalog,
        "--json"
    ]);
    if number > 0 {
        command.args(args!["--since", catalog]);
    }
    let ran = run(command.current_dir(ground));
    unmount_whole(&at);
    drop(server);
    is_sound(&archive);
    by_gnu_tar(&archive, &dir(ground.join("restored")));
    ran
}

/// A FUSE server that returns a few bytes per read, and fails reads of some files for a while.
#[test]
fn source_with_failing_and_slow_reads() {
    if !require(&NEEDS) || !require(&[Need::Fuse]) {
        return;
    }
    in_namespace(|ground| {
        let far = SyntheticTree {
            directories: 3,
            files: 200,
            piece: Some(7),
            ..SyntheticTree::default()
        };
        let restored = ground.join("restored");
        let round = |far: &SyntheticTree, number| dump_synthetic(far, ground, number);
        let content = |d: usize, f: usize| fs::read(restored.join(format!("far/d{d}/f{f}"))).ok();
        let is_right = |d: usize, f: usize| content(d, f) == Some(vec![f as u8; f]);
        let broken = vec![("d0/f9", libc::EIO), ("d2/f150", libc::EIO)];
        let ran = round(
            &SyntheticTree {
                broken,
                unreadable: vec![("d1", libc::EIO)],
                ..far.clone()
            },
            0,
        )
        .exits(1);
        let value = ran.json();
        let warned: Vec<&str> = value["warnings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|warning| warning["path"].as_str().unwrap())
            .collect();
        for path in ["far/d0/f9", "far/d2/f150", "far/d1"] {
            assert!(warned.contains(&path), "{path}: {warned:?}");
        }
        assert_eq!(
            (content(0, 9), content(2, 150), content(1, 1)),
            (None, None, None)
        );
        for (d, f) in [(0, 199), (2, 151), (2, 0)] {
            assert!(is_right(d, f), "far/d{d}/f{f}: {:?}: {ran}", content(d, f));
        }
        // Files that were not read count as new in the next increment.
        let value = round(&far, 1).exits(0).json();
        assert_eq!(value["result"]["files"], 202, "{value}");
        assert!((0..3).all(|d| (0..200).all(|f| is_right(d, f))));
        let value = round(&far, 2).exits(0).json();
        assert_eq!(value["result"]["files"], 0, "{value}");
    });
}

/// If a server does not find an entry that its directories list, the entry is never recorded as
/// removed: restoring the increment keeps it, and the next increment contains it again.
#[test]
fn what_is_listed_and_not_found_is_not_removed() {
    if !require(&NEEDS) || !require(&[Need::Fuse]) {
        return;
    }
    in_namespace(|ground| {
        let far = SyntheticTree {
            directories: 5,
            files: 30,
            ..SyntheticTree::default()
        };
        let restored = ground.join("restored");
        let round = |far: &SyntheticTree, number| dump_synthetic(far, ground, number);
        let is_right = |d: usize, f: usize| {
            fs::read(restored.join(format!("far/d{d}/f{f}"))).ok() == Some(vec![f as u8; f])
        };
        let are_all_right = || (0..5).all(|d| (0..30).all(|f| is_right(d, f)));
        round(&far, 0).exits(0);
        assert!(are_all_right());
        for (number, errno) in [(1, libc::ENOENT), (3, libc::ELOOP), (5, libc::ENOTDIR)] {
            let faulty = SyntheticTree {
                lost: vec![("d0/f9", errno), ("d1", errno)],
                unopened: vec![("d2", errno)],
                unreadable: vec![("d3", errno)],
                ..far.clone()
            };
            let value = round(&faulty, number).exits(1).json();
            assert_eq!(value["result"]["removed"], 0, "{value}");
            assert!(are_all_right(), "{errno}");
            round(&far, number + 1).exits(0);
            assert!(are_all_right(), "{errno}");
        }
        // Listed names that are not found are not recorded as removed either.
        fs::write(ground.join("list"), "far/d0/f9\nfar/d1\nfar/d2\n").unwrap();
        let listed = |far: &SyntheticTree, level: &str| {
            let at = ground.join("far");
            let server = serve_synthetic(far.clone(), &at);
            let (archive, state) = (
                ground.join(format!("list{level}.tar")),
                dir(ground.join("state")),
            );
            let words = args![
                "dump",
                "--files-from",
                "list",
                "-o",
                archive,
                "--level",
                level,
                "--state",
                state,
                "--json"
            ];
            let ran = run(fathom(words).current_dir(ground));
            unmount_whole(&at);
            drop(server);
            ran
        };
        listed(&far, "0").exits(0);
        let lost = SyntheticTree {
            lost: vec![("d0/f9", libc::ENOENT), ("d1", libc::ENOTDIR)],
            ..far.clone()
        };
        let value = listed(&lost, "1").exits(1).json();
        assert_eq!(value["result"]["removed"], 0, "{value}");
        // A file whose data cannot be read is not recorded as deleted.
        let unopened = SyntheticTree {
            unopened: vec![("d0/f9", libc::ENOENT)],
            ..far.clone()
        };
        let full = |far| {
            fs::remove_file(ground.join("catalog")).unwrap();
            round(far, 0)
        };
        let value = full(&unopened).exits(1).json();
        let message = value["warnings"][0]["message"].as_str().unwrap();
        assert!(message.starts_with("cannot read, skipped"), "{message}");
    });
}

/// A read error in a large file: the archive has zeros from the error on, and the next increment
/// has the complete file.
#[test]
fn read_error_within_a_file() {
    if !require(&NEEDS) || !require(&[Need::Fuse]) {
        return;
    }
    in_namespace(|ground| {
        const MIB: usize = 1 << 20;
        let restored = ground.join("restored");
        let far = SyntheticTree {
            directories: 1,
            files: 7,
            unit: MIB as u64,
            ..SyntheticTree::default()
        };
        let round = |far: &SyntheticTree, number| dump_synthetic(far, ground, number);
        let broken = SyntheticTree {
            broken_from: Some(("d0/f5", 3 * MIB as u64, libc::EIO)),
            ..far.clone()
        };
        let value = round(&broken, 0).exits(1).json();
        let [warning] = &value["warnings"].as_array().unwrap()[..] else {
            panic!("one warning: {value}")
        };
        assert_eq!(
            (&warning["path"], &warning["errno"]),
            (&"far/d0/f5".into(), &"EIO".into()),
            "{warning}"
        );
        assert!(
            warning["message"]
                .as_str()
                .unwrap()
                .contains("cannot read from byte"),
            "{warning}"
        );
        let content = fs::read(restored.join("far/d0/f5")).unwrap();
        let right = content.iter().position(|&byte| byte != 5).unwrap();
        assert!(
            (2 * MIB..=3 * MIB).contains(&right) && content.len() == 5 * MIB,
            "{right}"
        );
        assert!(content[right..].iter().all(|&byte| byte == 0));
        let value = round(&far, 1).exits(0).json();
        assert_eq!(value["result"]["files"], 1, "{value}");
        for f in 0..7 {
            assert!(
                fs::read(restored.join(format!("far/d0/f{f}"))).unwrap() == vec![f as u8; f * MIB],
                "f{f}"
            );
        }
    });
}
