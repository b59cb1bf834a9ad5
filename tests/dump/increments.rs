//! Tests of the contents of increments.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::Command;

use rustix::fs::{XattrFlags, lsetxattr, removexattr};

use super::changes::overwrite_unseen;
use super::full::{NEEDS, dump};
use super::rounds::{Series, by_gnu_tar, on, told};
use crate::support::build::{bind, chmod, dir, file, tmpfs};
use crate::support::disks::{BTRFS, EXT4, XFS};
use crate::support::reference::settle;
use crate::support::restrict::fathom_as_nobody;
use crate::support::run::{args, calls};
use crate::support::snapshot::{kept, same, snapshot};
use crate::support::tool::tool;
use crate::support::{fathom, require, run};

/// Renamed directories are recorded as renames only, even if they exchange their names.
#[test]
fn renamed_directories_are_not_dumped_again() {
    if !require(&NEEDS) {
        return;
    }
    on(Some(EXT4[0]), |at, ground| {
        let mut series = Series::new(at, ground);
        let tree = series.tree.clone();
        for name in ["a", "b/c/d", "old", "new", "x", "y", "outer/inner"] {
            (0..20).for_each(|n| drop(file(tree.join(name).join(format!("file {n}")), 100)));
        }
        settle(at);
        series.round("the full dump");
        let rename = |from: &str, to: &str| fs::rename(tree.join(from), tree.join(to)).unwrap();
        rename("b/c", "elsewhere");
        rename("a", "elsewhere/a");
        told(
            &series.round("two renames"),
            &[("renamed", 2), ("files", 0), ("removed", 0)],
        );
        rename("x", "z");
        rename("y", "x");
        rename("z", "y");
        told(
            &series.round("two that change places"),
            &[("renamed", 2), ("files", 0), ("removed", 0)],
        );
        fs::remove_dir_all(tree.join("old")).unwrap();
        rename("new", "old");
        let result = series.round("the new one in the place of the old one");
        told(&result, &[("renamed", 1), ("files", 0), ("removed", 20)]);
        rename("outer/inner", "aside");
        fs::remove_dir(tree.join("outer")).unwrap();
        rename("aside", "outer");
        told(
            &series.round("out of what it was in, into its place"),
            &[("renamed", 1), ("files", 0), ("removed", 0)],
        );
        rename("elsewhere/d", "d");
        rename("elsewhere", "d/a");
        told(
            &series.round("into what was in it"),
            &[("renamed", 2), ("files", 0), ("removed", 0)],
        );
        // A directory that replaces a file is dumped again: GNU tar would have to remove the file
        // first.
        fs::write(tree.join("f"), b"f").unwrap();
        series.round("a file");
        fs::remove_file(tree.join("f")).unwrap();
        rename("x", "f");
        told(
            &series.round("in the place of a file"),
            &[("renamed", 0), ("files", 20)],
        );
    });
}

/// Unchanged entries are not dumped, and keep their checksums in the catalog.
#[test]
fn only_changes_are_dumped() {
    if !require(&NEEDS) {
        return;
    }
    on(Some(EXT4[0]), |at, ground| {
        let mut series = Series::new(at, ground);
        let tree = series.tree.clone();
        for d in 0..5 {
            (0..20).for_each(|n| drop(file(tree.join(format!("d{d}/f{n}")), 1000)));
        }
        settle(at);
        series.round("the full dump");
        let result = series.round("nothing");
        told(
            &result,
            &[
                ("files", 0),
                ("directories", 1),
                ("dumped", 1),
                ("unchanged", 105),
                ("entries", 106),
            ],
        );
        overwrite_unseen(&tree.join("d1/f1"), b'o');
        told(
            &series.round("only the ctime tells"),
            &[("files", 1), ("directories", 2)],
        );
        lsetxattr(tree.join("d2/f2"), "user.x", b"x", XattrFlags::empty()).unwrap();
        told(
            &series.round("an extended attribute"),
            &[("files", 1), ("directories", 2)],
        );
        fs::remove_file(tree.join("d3/f3")).unwrap();
        told(
            &series.round("a file that goes"),
            &[("files", 0), ("directories", 2), ("removed", 1)],
        );
        fs::hard_link(tree.join("d1/f2"), tree.join("d4/link")).unwrap();
        told(
            &series.round("another name"),
            &[("files", 1), ("links", 1), ("directories", 3)],
        );
        // The directory is new to the archive, but its file is not: one of its names is already
        // restored.
        fs::create_dir(tree.join("d5")).unwrap();
        fs::hard_link(tree.join("d1/f2"), tree.join("d5/third")).unwrap();
        series.round("a third name");
        fs::rename(tree.join("d4"), tree.join("d6")).unwrap();
        told(
            &series.round("a rename"),
            &[("files", 0), ("links", 0), ("renamed", 1)],
        );
        let ran = dump(
            &tree,
            &ground.join("last.tar"),
            &[
                "--since",
                series.catalog.to_str().unwrap(),
                "--catalog",
                "/dev/null",
            ],
        );
        assert!(!ran.exits(0).stderr.contains("checksums"));
    });
}

/// The token of the file system says that nothing has changed, so the tree is not walked.
#[test]
fn unchanged_tree_costs_no_call_per_entry() {
    if !require(&NEEDS) {
        return;
    }
    for make in [EXT4[0], XFS[0], BTRFS[0]] {
        on(Some(make), |at, ground| {
            let mut series = Series::new(at, ground);
            for d in 0..30 {
                (0..30).for_each(|n| drop(file(series.tree.join(format!("d{d}/f{n}")), 10)));
            }
            settle(at);
            series.dump(&[]).exits(0);
            by_gnu_tar(&series.archive(), &dir(ground.join("restored")));
            series.number = 1;
            let before = fs::read(&series.catalog).unwrap();
            let value = series.dump(&[]).exits(0).json();
            let (result, gates) = (&value["result"], calls(&value["gates"]));
            let total: u64 = gates.values().sum();
            told(
                result,
                &[
                    ("dumped", 1),
                    ("entries", 931),
                    ("unchanged", 930),
                    ("removed", 0),
                ],
            );
            assert!(
                result["why"]
                    .as_str()
                    .unwrap()
                    .contains("is unchanged since the catalog"),
                "{}: {value}",
                make.fstype
            );
            assert!(total < 150, "{}: {total} calls: {gates:?}", make.fstype);
            assert_eq!(fs::read(&series.catalog).unwrap(), before);
            // With a different name for the new catalog, the old one is copied.
            let copy = ground.join("copy");
            let since = series.catalog.to_str().unwrap();
            let archive = series.archive();
            dump(
                &series.tree,
                &archive,
                &["--since", since, "--catalog", copy.to_str().unwrap()],
            )
            .exits(0);
            assert_eq!(fs::read(&copy).unwrap(), before);
            by_gnu_tar(&archive, &ground.join("restored"));
            same(
                &kept(&series.tree),
                &snapshot(&ground.join("restored/tree")),
                make.fstype,
            );
            fs::write(series.tree.join("d1/f1"), b"other").unwrap();
            series.restored = ground.join("restored");
            told(&series.round("a change"), &[("files", 1)]);
        });
    }
}

/// The row groups of a catalog: all but its description, which has the token.
fn row_groups(catalog: &Path) -> Vec<u8> {
    let mut bytes = fs::read(catalog).unwrap();
    let (_, end) = bytes.split_last_chunk::<8>().unwrap();
    let footer = u32::from_le_bytes(*end.first_chunk().unwrap());
    bytes.truncate(bytes.len() - 8 - footer as usize);
    bytes
}

/// Without a token, the digest shows that nothing has changed, with every method of gathering.
#[test]
fn unchanged_tree_is_recognized_by_the_digest() {
    if !require(&NEEDS) {
        return;
    }
    for make in [Some(EXT4[0]), Some(XFS[0]), Some(BTRFS[0]), None] {
        on(make, |at, ground| {
            let name = make.map_or("tmpfs", |make| make.fstype);
            let mut series = Series::new(at, ground);
            for d in 0..30 {
                (0..30).for_each(|n| drop(file(series.tree.join(format!("d{d}/f{n}")), 10)));
            }
            settle(at);
            series.dump(&[]).exits(0);
            series.restore();
            let before = row_groups(&series.catalog);
            for gather in ["auto", "percall", "combined", "batched", "raw"] {
                fs::write(at.join("beside"), gather).unwrap();
                settle(at);
                let value = series.dump(&["--gather", gather]).exits(0).json();
                told(
                    &value["result"],
                    &[
                        ("dumped", 1),
                        ("entries", 931),
                        ("unchanged", 930),
                        ("removed", 0),
                    ],
                );
                let by = match (name, gather) {
                    ("btrfs", "auto") => "nothing in the directory was written",
                    ("ext4" | "xfs", "auto") => "all inodes are equal to those in the catalog",
                    _ => "the digest of all",
                };
                assert!(
                    value["result"]["why"].as_str().unwrap().contains(by),
                    "{name}: {value}"
                );
                assert!(row_groups(&series.catalog) == before, "{name}: {value}");
                by_gnu_tar(&series.archive(), &series.restored);
                series.is_restored(name);
            }
            // Only the time of one file changes, to the value that it already has: only its ctime
            // changes.
            let same_time = fs::metadata(series.tree.join("d7/f7"))
                .unwrap()
                .modified()
                .unwrap();
            fs::File::options()
                .write(true)
                .open(series.tree.join("d7/f7"))
                .unwrap()
                .set_modified(same_time)
                .unwrap();
            told(
                &series.round("a ctime"),
                &[("files", 1), ("directories", 2)],
            );
        });
    }
}

/// Names that now belong to different files, in directories that are unchanged, or that changed in
/// the tick of the last dump.
#[test]
fn swapped_names_are_restored() {
    if !require(&NEEDS) {
        return;
    }
    on(Some(XFS[0]), |at, ground| {
        let mut series = Series::new(at, ground);
        let tree = series.tree.clone();
        for d in 0..8 {
            (0..8).for_each(|n| drop(file(tree.join(format!("d{d}/in/f{n}")), 10 * n)));
        }
        settle(at);
        let mut round = |what: &str, change: &dyn Fn()| {
            change();
            series.round_by(&["--gather", "batched"], what);
        };
        let name = |name: &str| tree.join(name);
        let rename = |from: &str, to: &str| fs::rename(name(from), name(to)).unwrap();
        let exchange = |a: &str, b: &str| {
            let how = rustix::fs::RenameFlags::EXCHANGE;
            rustix::fs::renameat_with(rustix::fs::CWD, name(a), rustix::fs::CWD, name(b), how)
                .unwrap();
        };
        round("everything", &|| ());
        round("two files that change places", &|| {
            exchange("d0/in/f1", "d0/in/f2")
        });
        round("two directories that do", &|| exchange("d1", "d2"));
        round("and what is in two others", &|| exchange("d3/in", "d4/in"));
        round("a directory that is another one", &|| {
            fs::remove_dir_all(name("d5/in")).unwrap();
            file(name("d5/in/f9"), 5);
        });
        round("one that is moved below a new one", &|| {
            rename("d6", "kept");
            rename("kept/in", "moved");
            fs::create_dir(name("d6")).unwrap();
            rename("moved", "d6/in");
        });
        round("a further name", &|| {
            fs::hard_link(name("d7/in/f1"), name("d7/in/again")).unwrap()
        });
        round("which is that of another file now", &|| {
            fs::remove_file(name("d7/in/again")).unwrap();
            fs::hard_link(name("d7/in/f2"), name("d7/in/again")).unwrap();
        });
        // Change a directory in the tick of the last dump, several times in a row.
        for n in 0..20 {
            round("something new", &|| {
                drop(file(name(&format!("d{}/in/new{n}", n % 8)), n))
            });
        }
    });
}

#[test]
fn entries_below_a_mount_are_new_after_umount() {
    if !require(&NEEDS) {
        return;
    }
    on(Some(XFS[0]), |at, ground| {
        let mut series = Series::new(at, ground);
        let tree = series.tree.clone();
        for d in 0..4 {
            (0..4).for_each(|n| drop(file(tree.join(format!("d{d}/in/f{n}")), 10)));
        }
        settle(at);
        let mut round = |what: &str| drop(series.round_by(&["--gather", "batched"], what));
        tmpfs(tree.join("d1/in"));
        file(tree.join("d1/in/other"), 20);
        let beside = at.join("beside");
        file(beside.join("in/f7"), 30);
        bind(&beside, tree.join("d3/in"));
        round("with mounts");
        rustix::mount::unmount(tree.join("d1/in"), rustix::mount::UnmountFlags::DETACH).unwrap();
        rustix::mount::unmount(tree.join("d3/in"), rustix::mount::UnmountFlags::DETACH).unwrap();
        let ran = series.dump(&["--gather", "batched"]).exits(1);
        let gone = "'tree/d1/in': 1 entry was on a mount that is no longer there";
        assert!(ran.stderr.contains(gone), "{ran}");
        series.restore();
        series.is_restored("without them");
        let mut round = |what: &str| drop(series.round_by(&["--gather", "batched"], what));
        bind(&beside, tree.join("d2"));
        round("with another one");
    });
}

/// The dumpdir of a directory is too long: a restore would refuse it.
#[test]
fn too_long_list_of_names_is_skipped() {
    if require(&NEEDS) {
        on(None, |at, ground| {
            let (tree, many, catalog) = (
                at.join("tree"),
                dir(at.join("tree/many")),
                ground.join("catalog"),
            );
            let catalog = catalog.to_str().unwrap();
            // The names, with two more bytes each, exceed 32 MiB. Hard links are created faster
            // than files.
            let first = file(tree.join("f"), 1);
            (0..131_000)
                .for_each(|n| fs::hard_link(&first, many.join(format!("{n:0255}"))).unwrap());
            dump(&tree, &ground.join("0.tar"), &["--catalog", catalog, "-q"]).exits(0);
            file(many.join("new"), 1);
            let archive = ground.join("1.tar");
            let value = dump(&tree, &archive, &["--since", catalog, "--json"])
                .exits(1)
                .json();
            let message = value["warnings"][0]["message"].as_str().unwrap();
            assert!(message.contains("more than 32 MiB of names"), "{message}");
            run(&mut fathom(args!["verify", archive, "-q"])).exits(0);
        });
    }
}

/// Renames are recorded only within a SRC.
#[test]
fn increments_of_several_sources() {
    if !require(&NEEDS) {
        return;
    }
    on(Some(EXT4[0]), |at, ground| {
        for name in ["one/a/f", "one/b/g", "two/c/h", "three"] {
            file(at.join(name), 100);
        }
        let (catalog, restored) = (ground.join("catalog"), dir(at.join("restored")));
        let mut number = 0;
        let mut round = || {
            let archive = ground.join(format!("{number}.tar"));
            let mut arguments = args![
                "dump",
                "one",
                "two",
                "three",
                "-o",
                archive,
                "--catalog",
                catalog,
                "--json"
            ]
            .to_vec();
            if number > 0 {
                arguments.extend(args!["--since", catalog]);
            }
            number += 1;
            let value = run(fathom(arguments).current_dir(at)).exits(0).json();
            by_gnu_tar(&archive, &restored);
            for name in ["one", "two", "three"] {
                same(&kept(&at.join(name)), &snapshot(&restored.join(name)), name);
            }
            value["result"].clone()
        };
        round();
        fs::rename(at.join("one/a"), at.join("one/z")).unwrap();
        fs::rename(at.join("two/c"), at.join("two/a")).unwrap();
        told(&round(), &[("renamed", 2), ("files", 0)]);
        fs::rename(at.join("one/b"), at.join("two/b")).unwrap();
        fs::write(at.join("three"), b"3").unwrap();
        told(&round(), &[("renamed", 0), ("files", 2)]);
    });
}

/// Without btime, only engines that read generations recognize a reused inode number.
#[test]
fn reused_inode_number_of_a_directory_gives_the_same_archive_by_all_ways() {
    if !require(&NEEDS) {
        return;
    }
    let small = EXT4.into_iter().find(|make| make.mkfs == "-I 128").unwrap();
    on(Some(small), |at, ground| {
        let (tree, catalog) = (dir(at.join("tree")), ground.join("catalog"));
        let old = dir(tree.join("d/old"));
        file(old.join("f"), 100);
        for number in 0..1000 {
            file(tree.join(format!("many/{number}")), 0);
        }
        settle(&tree);
        dump(
            &tree,
            &ground.join("0.tar"),
            &[
                "-q",
                "--gather",
                "raw",
                "--catalog",
                catalog.to_str().unwrap(),
            ],
        )
        .exits(0);
        let ino = fs::metadata(&old).unwrap().ino();
        fs::remove_dir_all(&old).unwrap();
        let others = (0..100).map(|number| dir(tree.join(format!("d/{number}"))));
        assert!(
            others
                .into_iter()
                .any(|other| fs::metadata(other).unwrap().ino() == ino),
            "the number is not used again"
        );
        let archives = ["percall", "combined", "batched", "raw"].map(|way| {
            let archive = ground.join(way);
            dump(
                &tree,
                &archive,
                &["-q", "--gather", way, "--since", catalog.to_str().unwrap()],
            )
            .exits(0);
            fs::read(archive).unwrap()
        });
        assert!(archives.iter().all(|archive| *archive == archives[0]));
    });
}

/// GNU tar keeps such attributes; `fathom restore` removes them.
#[test]
fn removed_extended_attribute_of_a_directory() {
    if !require(&NEEDS) {
        return;
    }
    on(Some(EXT4[0]), |at, ground| {
        let mut series = Series::new(at, ground);
        let kept = dir(series.tree.join("kept"));
        lsetxattr(&kept, "user.x", b"x", XattrFlags::empty()).unwrap();
        lsetxattr(
            dir(series.tree.join("replaced")),
            "user.x",
            b"x",
            XattrFlags::empty(),
        )
        .unwrap();
        series.round("the full dump");
        fs::remove_dir(series.tree.join("replaced")).unwrap();
        dir(series.tree.join("replaced"));
        series.round("a directory that was replaced");
        removexattr(&kept, "user.x").unwrap();
        series.dump(&[]).exits(0);
        series.number += 1;
        series.is_restored_by_fathom("an attribute that was taken away");
    });
}

/// A restore does not remove unreadable entries, and the next increment tries to read them again.
#[test]
fn unreadable_entries_stay_in_the_restored_tree() {
    if !require(&NEEDS) {
        return;
    }
    on(None, |at, ground| {
        let tree = dir(at.join("tree"));
        for name in ["open/f", "closed/g", "closed/below/h", "closed file"] {
            file(tree.join(name), 100);
        }
        tool(Command::new("chown").args(["-R", "1000:1000"]).arg(at));
        let (catalog, restored) = (at.join("catalog"), dir(at.join("restored")));
        let round = |number: usize| {
            let archive = at.join(format!("{number}.tar"));
            let dump = args!["dump", "tree", "-o", archive, "--catalog", catalog];
            let mut command = fathom_as_nobody(at, dump);
            command.current_dir(at);
            if number > 0 {
                command.args(args!["--since", catalog]);
            }
            let ran = run(&mut command);
            by_gnu_tar(&archive, &restored);
            ran
        };
        let chmod = |name: &str, mode: u32| {
            chmod(tree.join(name), mode);
        };
        round(0).exits(0);
        same(
            &kept(&tree),
            &snapshot(&restored.join("tree")),
            "the full dump",
        );
        chmod("closed", 0);
        chmod("closed file", 0);
        fs::write(tree.join("closed/below/h"), b"changed").unwrap();
        fs::remove_file(tree.join("closed/g")).unwrap();
        round(1).exits(1);
        assert_eq!(
            fs::read(restored.join("tree/closed file")).unwrap().len(),
            100
        );
        assert_eq!(
            fs::read(restored.join("tree/closed/below/h"))
                .unwrap()
                .len(),
            100
        );
        chmod("closed", 0o755);
        chmod("closed file", 0o644);
        round(2).exits(0);
        same(
            &kept(&tree),
            &snapshot(&restored.join("tree")),
            "when it can be read again",
        );
        assert!(ground.exists());
    });
}

/// A SRC contains a second one, or is given twice: each directory is renamed once.
#[test]
fn what_two_sources_have_is_renamed_once() {
    if !require(&NEEDS) {
        return;
    }
    for sources in [
        &["s", "s"][..],
        &["s", "./s"],
        &["s", "s/www"],
        &["s/www", "s"],
        &["s/www/b", "s", "s/www"],
    ] {
        on(Some(EXT4[0]), |at, ground| {
            let tree = dir(at.join("s"));
            for name in ["www/a", "www/b", "www/c", "x", "y", "moved"] {
                (0..2).for_each(|n| drop(file(tree.join(name).join(format!("{n}")), 10)));
                file(tree.join(name).join(name.replace('/', "-")), 10);
            }
            let night = |n: usize| {
                settle(at);
                let (level, archive) = (n.min(1).to_string(), ground.join(format!("{n}.tar")));
                let state = dir(ground.join("state"));
                let words = args![
                    "dump", "-q", "-o", archive, "--level", level, "--state", state
                ];
                let mut command = fathom(words);
                run(command.args(sources).current_dir(at)).exits(0);
                let restored = dir(ground.join("restored"));
                let to = dir(ground.join(format!("own-{n}")));
                run(&mut fathom(args![
                    "restore", "-q", "--state", state, "-C", to
                ]))
                .exits(0);
                if sources[0].len() < 4 {
                    by_gnu_tar(&archive, &restored);
                    same(&kept(&tree), &kept(&restored.join("s")), "GNU tar");
                }
                same(&kept(&tree), &kept(&to.join("s")), "restored");
            };
            night(0);
            let rename = |from: &str, to: &str| fs::rename(tree.join(from), tree.join(to)).unwrap();
            for (from, to) in [("a", "t"), ("b", "a"), ("t", "b")] {
                rename(&format!("www/{from}"), &format!("www/{to}"));
            }
            for (from, to) in [("x", "t"), ("y", "x"), ("t", "y"), ("moved", "www/c/moved")] {
                rename(from, to);
            }
            night(1);
        });
    }
}

/// A SRC lies outside the other SRC, but its member name is below that of the other.
#[test]
fn sources_below_the_name_of_another_stay() {
    if !require(&NEEDS) {
        return;
    }
    on(Some(EXT4[0]), |at, ground| {
        let tree = dir(at.join("srv"));
        for name in [
            "srv/f",
            "srv/d/e/1",
            "home/u1/thesis",
            "home/u2/mail",
            "home/list",
            "sub/in",
        ] {
            file(at.join(name), 10);
        }
        let elsewhere = |name: &str| at.join(name).to_str().unwrap().to_owned();
        let [home, list] = ["home", "home/list"].map(elsewhere);
        for (nth, (sources, code)) in [
            ([".", &home], 0),
            ([&home, "."], 0),
            ([".", &list], 0),
            // The member name of the second SRC equals that of a directory in the first.
            ([".", "../sub"], 2),
        ]
        .into_iter()
        .enumerate()
        {
            let state = dir(ground.join(format!("state-{nth}")));
            let night = |n: usize| {
                settle(at);
                let (level, archive) =
                    (n.min(1).to_string(), ground.join(format!("{nth}-{n}.tar")));
                let words = args![
                    "dump", "-q", "-o", archive, "--level", level, "--state", state
                ];
                run(fathom(words).args(sources).current_dir(&tree))
            };
            if code == 2 {
                file(tree.join("sub/other"), 10);
            }
            night(0).exits(0);
            let to = dir(ground.join(format!("restored-{nth}")));
            let restore = |to: &Path| {
                run(&mut fathom(args![
                    "restore", "-q", "--state", state, "-C", to
                ]))
                .exits(0);
            };
            file(tree.join(format!("new-{nth}")), 10);
            night(1).exits(code);
            night(2).exits(code);
            restore(&to);
            let whole = if sources.contains(&&home[..]) {
                &home
            } else {
                &list
            };
            if code == 0 {
                let path = whole.trim_start_matches('/');
                assert!(to.join(path).exists(), "{sources:?}");
                assert!(to.join(format!("new-{nth}")).exists(), "{sources:?}");
                if Path::new(whole).is_dir() {
                    same(
                        &kept(Path::new(whole)),
                        &kept(&to.join(path)),
                        "the other SRC",
                    );
                }
            }
        }
    });
}

/// A restore would find a symlink where it needs a directory.
#[test]
fn source_behind_a_symlink_of_another_is_refused() {
    let at = tempfile::tempdir().unwrap();
    let at = at.path();
    file(at.join("s/real/d/f"), 10);
    file(at.join("s/plain/f"), 10);
    symlink("real", at.join("s/link")).unwrap();
    let dump = |sources: &[&str], more: &[&str]| {
        let command = ["dump", "-q", "-o", "a.tar"];
        run(fathom(command).args(more).args(sources).current_dir(at))
    };
    for sources in [
        &["s", "s/link/d"][..],
        &["s/link/d", "./s"],
        &["s/plain", "s/link", "s/link/d/f"],
    ] {
        for more in [&[][..], &["--catalog", "c"], &["-n"]] {
            let refused = dump(sources, more).refused();
            let text = &refused.stderr;
            assert!(text.contains("through the symlink '"), "{text}");
            assert!(!at.join("a.tar").exists() && !at.join("c").exists());
        }
    }
    for (sources, more) in [
        (&["s", "s/real/d"][..], &[][..]),
        (&["s/plain", "s/link/d"], &[]),
        (&["s", "s/link/d"], &["--exclude", "link"]),
    ] {
        dump(sources, more).exits(0);
        let to = dir(at.join("to"));
        run(&mut fathom(args![
            "restore",
            "-q",
            at.join("a.tar"),
            "-C",
            to
        ]))
        .exits(0);
        assert!(to.join(sources[1]).exists(), "{sources:?}");
        std::fs::remove_dir_all(to).unwrap();
    }
}
