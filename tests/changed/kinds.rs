//! Tests that each kind of change is reported as such.

use std::collections::BTreeSet;
use std::fs::{self};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, RenameFlags, Timespec, Timestamps, XattrFlags, lsetxattr, renameat_with,
    utimensat,
};
use rustix::mount::MountFlags;
use serde_json::{Value, json};

use super::since::{Change, catalog, changed, changes, expect, on_each_kind, since};
use crate::support::build::{bush, chmod, dir, file, name, odd_names, unmount, unmount_whole};
use crate::support::disks::{EXT4, image, mount_image, mounted, subvolume};
use crate::support::fuse::Manner::Hung;
use crate::support::fuse::serve;
use crate::support::reference::settle;
use crate::support::run::{args, calls};
use crate::support::synthetic::{SyntheticTree, serve_hung, serve_synthetic};
use crate::support::trees::grow;
use crate::support::{Need, fathom, in_namespace, require, run};

const DISK: [Need; 2] = [Need::Root, Need::Loop];

/// The reported changes, without changed directories: other changes update their times.
fn but_for_directories(mut found: BTreeSet<Change>, top: &Path) -> BTreeSet<Change> {
    found.retain(|(change, path, _)| {
        change != "changed" || !top.join(path).symlink_metadata().is_ok_and(|s| s.is_dir())
    });
    found
}

#[test]
fn unchanged_tree_has_no_changes() {
    if require(&DISK) {
        on_each_kind(|top, to, kind| {
            grow(top, 1, 300);
            let to = catalog(top, to);
            let before = fs::read(&to).unwrap();
            for more in [
                &["--json"][..],
                &["--json", "--engine", "stat"],
                &["--json", "--engine", "threads"],
            ] {
                let value = changed(top, &to, more).exits(0).json();
                assert_eq!(value["result"]["unchanged"], true, "{kind}: {value}");
                assert_eq!(
                    value["result"]["entries"].as_array().unwrap().len(),
                    0,
                    "{kind}"
                );
            }
            for format in [
                "paths", "paths0", "ndjson", "restic", "borg", "rsync", "tar",
            ] {
                let ran = changed(top, &to, &["--format", format]).exits(0);
                // restic refuses an empty list.
                let nothing: &[u8] = if format == "restic" {
                    b"/dev/null\0"
                } else {
                    b""
                };
                assert_eq!(ran.stdout, nothing, "{kind}: {ran}");
            }
            assert_eq!(fs::read(&to).unwrap(), before);
        });
    }
}

#[test]
fn excluded_entries_are_not_reported() {
    if require(&DISK) {
        on_each_kind(|top, to, kind| {
            grow(top, 1, 60);
            file(top.join("skipped/in/old"), 10);
            file(top.join("kept/old"), 10);
            settle(top);
            let to = catalog(top, to);
            for dir in ["skipped/in", "kept"] {
                fs::remove_file(top.join(dir).join("old")).unwrap();
                file(top.join(dir).join("new"), 20);
            }
            let globs = to.with_extension("globs");
            fs::write(&globs, format!("{}/skipped\n", top.display())).unwrap();
            let from_file = ["--json", "--exclude-from", globs.to_str().unwrap()];
            for more in [&from_file[..], &["--json", "--exclude", "skipped"]] {
                let found = changes(&changed(top, &to, more).exits(0).json());
                let expected = [("removed", "kept/old"), ("added", "kept/new")];
                assert_eq!(but_for_directories(found, top), expect(expected), "{kind}");
            }
            changed(top, &to, &["--update", "--exclude", "skipped"]).refused();
        });
    }
}

#[test]
fn unchanged_tree_is_not_walked_where_the_file_system_has_a_token() {
    if require(&DISK) {
        on_each_kind(|top, to, kind| {
            bush(top, 20, 200);
            settle(top);
            let to = catalog(top, to);
            let value = changed(top, &to, &["--json"]).exits(0).json();
            let total: u64 = calls(&value["gates"]).values().sum();
            assert_eq!(value["result"]["unchanged"], true, "{kind}");
            assert!(
                kind == "tmpfs" || total < 400,
                "{kind}: {total} calls: {value}"
            );
        });
    }
}

#[test]
fn each_kind_of_change() {
    if require(&DISK) {
        on_each_kind(|top, to, kind| {
            for at in [
                "grows",
                "mode",
                "owner",
                "touched",
                "attribute",
                "rewritten",
                "goes",
                "moves",
                "linked",
                "same",
                "over",
                "under",
            ] {
                file(top.join("d").join(at), 100);
            }
            symlink("one", top.join("d/link")).unwrap();
            let to = catalog(top, to);
            let at = |name: &str| top.join("d").join(name);
            fs::write(at("grows"), [0; 200]).unwrap();
            chmod(at("mode"), 0o600);
            std::os::unix::fs::chown(at("owner"), Some(7), None).unwrap();
            let times = Timestamps {
                last_access: Timespec {
                    tv_sec: 1,
                    tv_nsec: 1,
                },
                last_modification: Timespec {
                    tv_sec: 1,
                    tv_nsec: 1,
                },
            };
            utimensat(CWD, at("touched"), &times, AtFlags::empty()).unwrap();
            lsetxattr(
                at("attribute"),
                "trusted.new",
                b"value",
                XattrFlags::empty(),
            )
            .unwrap();
            // The file keeps its size and its mtime.
            let status = fs::metadata(at("rewritten")).unwrap();
            fs::write(at("rewritten"), [1; 100]).unwrap();
            fs::File::open(at("rewritten"))
                .unwrap()
                .set_modified(status.modified().unwrap())
                .unwrap();
            fs::remove_file(at("goes")).unwrap();
            fs::rename(at("moves"), at("moved")).unwrap();
            fs::hard_link(at("linked"), at("second name")).unwrap();
            fs::write(at("new"), "").unwrap();
            fs::remove_file(at("link")).unwrap();
            symlink("two", at("link")).unwrap();
            fs::rename(at("over"), at("under")).unwrap();
            let found = but_for_directories(since(top, &to), top);
            let mut expected = expect([
                ("changed", "d/grows"),
                ("changed", "d/mode"),
                ("changed", "d/owner"),
                ("changed", "d/touched"),
                ("changed", "d/attribute"),
                ("changed", "d/rewritten"),
                ("removed", "d/goes"),
                ("renamed", "d/moved <- d/moves"),
                ("changed", "d/linked"),
                ("added", "d/second name"),
                ("added", "d/new"),
                ("changed", "d/link"),
                ("renamed", "d/under <- d/over"),
            ]);
            // A file over which a different file was renamed may also be reported as removed.
            expected.extend(
                found
                    .iter()
                    .filter(|change| **change == ("removed".to_owned(), "d/under".into(), None))
                    .cloned(),
            );
            assert_eq!(found, expected, "{kind}");
            let whole = since(top, &to);
            assert!(
                whole.contains(&("changed".to_owned(), "d".into(), None)),
                "{kind}: the directory's own times have changed"
            );
        });
    }
}

#[test]
fn renamed_directory_is_one_entry() {
    if require(&DISK) {
        on_each_kind(|top, to, kind| {
            bush(&top.join("a"), 3, 20);
            bush(&top.join("b"), 2, 10);
            dir(top.join("c"));
            file(top.join("a/d0/inner/deep"), 5);
            let to = catalog(top, to);
            fs::rename(top.join("a/d0"), top.join("c/moved")).unwrap();
            fs::rename(top.join("c/moved/inner"), top.join("c/moved/within")).unwrap();
            fs::write(top.join("c/moved/f1"), "new contents").unwrap();
            fs::remove_file(top.join("c/moved/f2")).unwrap();
            renameat_with(
                CWD,
                top.join("a/d1"),
                CWD,
                top.join("b/d1"),
                RenameFlags::EXCHANGE,
            )
            .unwrap();
            let found = but_for_directories(since(top, &to), top);
            let expected = expect([
                ("renamed", "c/moved <- a/d0"),
                ("renamed", "c/moved/within <- a/d0/inner"),
                ("changed", "c/moved/f1"),
                ("removed", "a/d0/f2"),
                ("renamed", "a/d1 <- b/d1"),
                ("renamed", "b/d1 <- a/d1"),
            ]);
            assert_eq!(found, expected, "{kind}");
        });
    }
}

#[test]
fn entries_of_a_replaced_directory_are_removed() {
    if require(&DISK) {
        on_each_kind(|top, to, kind| {
            for directory in ["a", "b", "gone", "comes", "away/within"] {
                for name in ["both", "old"] {
                    file(top.join(directory).join(name), 1);
                }
            }
            let to = catalog(top, to);
            fs::remove_file(top.join("a/both")).unwrap();
            renameat_with(
                CWD,
                top.join("a"),
                CWD,
                top.join("b"),
                RenameFlags::EXCHANGE,
            )
            .unwrap();
            fs::remove_dir_all(top.join("gone")).unwrap();
            fs::rename(top.join("comes"), top.join("gone")).unwrap();
            fs::remove_dir_all(top.join("away/within")).unwrap();
            fs::rename(top.join("away"), top.join("went")).unwrap();
            file(top.join("away/within/both"), 1);
            let found = but_for_directories(since(top, &to), top);
            let expected = expect([
                ("renamed", "a <- b"),
                ("renamed", "b <- a"),
                ("removed", "a/both"),
                ("renamed", "gone <- comes"),
                ("removed", "gone/both"),
                ("removed", "gone/old"),
                ("renamed", "went <- away"),
                ("added", "away"),
                ("added", "away/within"),
                ("removed", "away/within"),
                ("added", "away/within/both"),
                ("removed", "away/within/both"),
                ("removed", "away/within/old"),
            ]);
            assert_eq!(found, expected, "{kind}");
        });
    }
}

/// Hard-linked backups that share unchanged files: each backup adds a name to the same file.
#[test]
fn hard_links_belong_to_their_directories() {
    if require(&DISK) {
        on_each_kind(|top, to, kind| {
            for n in 0..20 {
                let name = |backup: u32| top.join(format!("daily.{backup}/sub/{n}"));
                file(name(0), 1);
                for backup in [1, 2] {
                    dir(name(backup).parent().unwrap());
                    fs::hard_link(name(0), name(backup)).unwrap();
                }
            }
            let to = catalog(top, to);
            let backup = |n: u32| top.join(format!("daily.{n}"));
            (0..3)
                .rev()
                .for_each(|n| fs::rename(backup(n), backup(n + 1)).unwrap());
            let expected = (0..3).map(|n| ("renamed", format!("daily.{} <- daily.{n}", n + 1)));
            let expected: Vec<_> = expected.collect();
            let expected = expect(
                expected
                    .iter()
                    .map(|(change, path)| (*change, path.as_str())),
            );
            for engine in [&[][..], &["--engine", "stat"], &["--engine", "threads"]] {
                let json = changed(top, &to, &[engine, &["--json"]].concat())
                    .exits(0)
                    .json();
                assert_eq!(
                    but_for_directories(changes(&json), top),
                    expected,
                    "{kind}, {engine:?}"
                );
            }
        });
    }
}

/// If a directory loses a name of a file and gets a new one, the file was renamed; if it only gets
/// a new name, the other names of the file have changed.
#[test]
fn new_names_of_a_file_are_added_or_renamed() {
    if require(&DISK) {
        on_each_kind(|top, to, kind| {
            fs::hard_link(file(top.join("a"), 1), top.join("b")).unwrap();
            let to = catalog(top, to);
            fs::hard_link(top.join("a"), top.join("c")).unwrap();
            let found = but_for_directories(since(top, &to), top);
            let expected = [("changed", "a"), ("changed", "b"), ("added", "c")];
            assert_eq!(found, expect(expected), "{kind}");
            fs::remove_file(top.join("b")).unwrap();
            let found = but_for_directories(since(top, &to), top);
            let expected = [("changed", "a"), ("renamed", "c <- b")];
            assert_eq!(found, expect(expected), "{kind}");
        });
    }
}

/// Entries that the catalog excludes have not changed.
#[test]
fn options_are_those_of_the_catalog() {
    if require(&DISK) {
        on_each_kind(|top, to, kind| {
            let names = ["a/b/c", "x.o", "y"];
            names.iter().for_each(|name| drop(file(top.join(name), 1)));
            let options = ["--exclude", "*.o", "--max-depth", "1"];
            let walk = args!["walk", top, "--catalog", to];
            run(fathom(walk).args(options)).exits(0);
            for name in names {
                fs::write(top.join(name), "22").unwrap();
            }
            assert_eq!(since(top, to), expect([("changed", "y")]), "{kind}");
        });
    }
}

#[test]
fn entries_moved_into_and_out_of_the_tree() {
    if require(&DISK) {
        on_each_kind(|top, to, kind| {
            let outside = dir(top.join("../outside"));
            bush(&outside.join("comes"), 1, 3);
            bush(&top.join("leaves"), 1, 3);
            let to = catalog(top, to);
            fs::rename(outside.join("comes"), top.join("came")).unwrap();
            fs::rename(top.join("leaves"), outside.join("left")).unwrap();
            let found = but_for_directories(since(top, &to), top);
            let each = |change: &str, at: &str| {
                let names =
                    ["", "/d0", "/d0/f0", "/d0/f1", "/d0/f2"].map(|below| format!("{at}{below}"));
                names.map(|name| (change.to_owned(), PathBuf::from(name), None))
            };
            let expected: BTreeSet<Change> = each("added", "came")
                .into_iter()
                .chain(each("removed", "leaves"))
                .collect();
            assert_eq!(found, expected, "{kind}");
        });
    }
}

#[test]
fn odd_names_are_exact() {
    if require(&DISK) {
        on_each_kind(|top, to, kind| {
            for odd in odd_names() {
                file(top.join("old").join(name(&odd)), 1);
            }
            let to = catalog(top, to);
            fs::rename(top.join("old"), top.join("new")).unwrap();
            for odd in odd_names() {
                file(top.join("added").join(name(&odd)), 1);
            }
            let added: BTreeSet<PathBuf> = since(top, &to)
                .into_iter()
                .filter(|(change, ..)| change == "added")
                .map(|(_, path, _)| path)
                .collect();
            let expected = odd_names()
                .iter()
                .map(|odd| Path::new("added").join(name(odd)))
                .chain(["added".into()])
                .collect();
            assert_eq!(added, expected, "{kind}");
            let ran = changed(top, &to, &["--format", "paths0"]).exits(0);
            let told: BTreeSet<&[u8]> = ran.stdout.split(|&b| b == 0).collect();
            for odd in odd_names() {
                let whole = [b"added/", &odd[..]].concat();
                assert!(
                    told.iter().any(|path| path.ends_with(&whole)),
                    "{kind}: {}",
                    Path::new(name(&whole)).display()
                );
            }
            let lines = changed(top, &to, &["--format", "ndjson"]).exits(0);
            for line in lines.stdout.split_inclusive(|&b| b == b'\n') {
                serde_json::from_slice::<serde_json::Value>(line).unwrap();
            }
            assert!(!top.as_os_str().as_bytes().is_empty());
        });
    }
}

#[test]
fn update_replaces_the_catalog() {
    if require(&DISK) {
        on_each_kind(|top, to, kind| {
            grow(top, 1, 50);
            let to = catalog(top, to);
            for n in 0..3 {
                file(top.join(format!("new {n}")), n);
                let found = changed(top, &to, &["--update", "--json"]).exits(0).json();
                assert_eq!(found["result"]["added"], 1, "{kind}: {found}");
                let entries = found["result"]["entries"].as_array().unwrap();
                let added = entries.iter().find(|it| it["change"] == "added").unwrap();
                assert_eq!(added["size"], n, "{kind}: {found}");
                assert_eq!(since(top, &to), BTreeSet::new(), "{kind}, after round {n}");
            }
            assert_eq!(fs::read_dir(to.parent().unwrap()).unwrap().count(), 1);
        });
    }
}

/// btrfs reports which inodes were written. A new subvolume has its own tree, so everything is
/// walked.
#[test]
fn btrfs_compares_only_what_was_written() {
    if require(&DISK) {
        on_each_kind(|top, to, kind| {
            if kind != "btrfs" {
                return;
            }
            bush(top, 40, 100);
            settle(top);
            let to = catalog(top, to);
            fs::write(top.join("d7/f7"), "new contents").unwrap();
            fs::rename(top.join("d8"), top.join("d9/d8")).unwrap();
            fs::remove_dir_all(top.join("d10")).unwrap();
            let value = changed(top, &to, &["--json"]).exits(0).json();
            let total: u64 = calls(&value["gates"]).values().sum();
            assert!(total < 700, "{total} calls for 4000 entries: {value}");
            let walked = changed(top, &to, &["--json", "--engine", "stat"])
                .exits(0)
                .json();
            assert_eq!(changes(&value), changes(&walked));
            subvolume(&top.join("d11/subvolume"), None);
            file(top.join("d11/subvolume/file"), 1);
            let value = changed(top, &to, &["--json"]).exits(0).json();
            assert!(
                !value["result"]["why"]
                    .as_str()
                    .unwrap()
                    .contains("written after"),
                "{value}"
            );
            assert!(
                changes(&value).contains(&("added".to_owned(), "d11/subvolume/file".into(), None)),
                "{value}"
            );
        });
    }
}

/// If one file in fifty was written, the changed inodes and their directories suffice to find the
/// changes.
#[test]
fn one_file_in_fifty_is_few_on_ext4_and_xfs() {
    if require(&DISK) {
        on_each_kind(|top, to, kind| {
            if !["ext4", "xfs"].contains(&kind) {
                return;
            }
            bush(top, 40, 50);
            settle(top);
            let to = catalog(top, to);
            for d in 0..39 {
                fs::write(top.join(format!("d{d}/f{d}")), "new contents").unwrap();
            }
            settle(top);
            let value = changed(top, &to, &["--json"]).exits(0).json();
            let why = value["result"]["why"].as_str().unwrap();
            assert!(why.contains("only inodes that differ"), "{value}");
            assert_eq!(value["result"]["changed"], 39, "{value}");
            let walked = changed(top, &to, &["--json", "--engine", "stat"]).exits(0);
            assert_eq!(changes(&value), changes(&walked.json()));
        });
    }
}

/// In a snapshot, an empty directory replaces a nested subvolume. btrfs recreates it at each
/// lookup: that is no change.
#[test]
fn placeholder_of_a_subvolume_in_a_snapshot_is_unchanged() {
    if require(&DISK) {
        on_each_kind(|top, to, kind| {
            if kind != "btrfs" {
                return;
            }
            let outer = subvolume(&top.join("outer"), None);
            subvolume(&outer.join("inner"), None);
            let snapshot = subvolume(&top.join("snapshot"), Some(&outer));
            for (nth, top) in [top, &snapshot].into_iter().enumerate() {
                settle(top);
                let to = catalog(top, to);
                for engine in ["stat", "threads", "btrfs"] {
                    let value = changed(top, &to, &["--engine", engine, "--json"])
                        .exits(0)
                        .json();
                    assert_eq!(changes(&value), BTreeSet::new(), "{engine}: {value}");
                    let why = value["result"]["why"].as_str().unwrap();
                    assert!(!why.contains("compared all entries"), "{engine}: {why}");
                }
                let new = snapshot.join(format!("new {nth}"));
                file(&new, 1);
                let path = |at: &Path| match at.strip_prefix(top).unwrap() {
                    below if below.as_os_str().is_empty() => PathBuf::from("."),
                    below => below.to_owned(),
                };
                let expected = [("added", path(&new)), ("changed", path(&snapshot))];
                let expected = expected.map(|(change, path)| (change.to_owned(), path, None));
                assert_eq!(since(top, &to), expected.into(), "{}", top.display());
                let updated = changed(top, &to, &["--update", "--json"]).exits(0).json();
                assert_eq!(changes(&updated).len(), 2, "{updated}");
            }
        });
    }
}

/// Entries that cannot be examined stay in the catalog, so that a removal is found later.
#[test]
fn update_keeps_what_it_could_not_read() {
    if !require(&[Need::Root]) {
        return;
    }
    in_namespace(|ground| {
        let (far, to) = (ground.join("far"), ground.join("catalog"));
        let serve = |unopened: &[&'static str], files| {
            let tree = SyntheticTree {
                directories: 2,
                files,
                lost: unopened.iter().map(|path| (*path, libc::EIO)).collect(),
                ..SyntheticTree::default()
            };
            serve_synthetic(tree, &far)
        };
        let server = serve(&[], 3);
        run(&mut fathom(args!["walk", far, "--catalog", to, "-q"])).exits(0);
        unmount_whole(&far);
        drop(server);
        let before = fs::read(&to).unwrap();
        let server = serve(&["d1/f2"], 3);
        let ran = changed(&far, &to, &["--update"]).exits(1);
        assert!(ran.stderr.contains("not replaced: it has 1 ent"), "{ran}");
        assert_eq!(fs::read(&to).unwrap(), before);
        unmount_whole(&far);
        drop(server);
        let server = serve(&[], 2);
        let found = changed(&far, &to, &["--update", "--json"]).exits(0).json();
        // The inode numbers of the server depend on the number of files.
        assert_eq!(found["result"]["removed"], 1, "{found}");
        unmount_whole(&far);
        drop(server);
    });
}

/// A mount whose server stopped after the catalog was written is skipped, and none of its entries
/// is reported as removed.
#[test]
fn mount_that_stopped_answering_is_unchanged() {
    if !require(&[Need::Root, Need::Fuse]) {
        return;
    }
    in_namespace(|ground| {
        let (top, whole, one) = (ground.join("top"), ground.join("c"), ground.join("x"));
        file(top.join("near"), 10);
        let far = top.join("far");
        let serve_again = || serve_synthetic(SyntheticTree::of(2, 3), &far);
        let server = serve_again();
        settle(ground);
        catalog(&top, &whole);
        run(&mut fathom(args!["walk", &top, "-x", "--catalog", &one])).exits(0);
        unmount(&far);
        drop(server);
        let server = serve_hung(&far);
        let before = fs::read(&whole).unwrap();
        for (since, more) in [
            (&whole, &[][..]),
            (&whole, &["--engine", "threads"][..]),
            (&whole, &["--update"][..]),
            (&one, &["-x"][..]),
        ] {
            let words = [more, &["--json", "--deadline", "1s"]].concat();
            let value = changed(&top, since, &words).exits(1).json();
            assert_eq!(changes(&value), expect([]), "{more:?}");
            let warnings = value["warnings"].to_string();
            assert!(warnings.contains("does not answer within"), "{warnings}");
            assert!(!warnings.contains("no longer there"), "{warnings}");
        }
        assert_eq!(fs::read(&whole).unwrap(), before);
        let excluded = ["--exclude", "far", "--json"];
        let value = changed(&top, &whole, &excluded).exits(0).json();
        assert_eq!(changes(&value), expect([]));
        drop(server);
        unmount(&far);
        let _server = serve_again();
        for since in [&whole, &one] {
            let value = changed(&top, since, &["--json"]).exits(0).json();
            assert_eq!(changes(&value), expect([]));
        }
    });
}

/// A server that does not answer is mounted in the place of a file system whose token is in the
/// catalog: comparing the token would wait for the server.
#[test]
fn token_is_not_read_from_a_server() {
    if !require(&[Need::Root, Need::Fuse, Need::Loop]) {
        return;
    }
    in_namespace(|ground| {
        let (top, disk) = (ground.join("top"), ground.join("inner.image"));
        assert!(mounted(EXT4[0], &top));
        let inner = dir(top.join("inner"));
        image(EXT4[0], 64, &disk);
        assert!(mount_image(EXT4[0], &disk, &inner, MountFlags::NOATIME));
        file(inner.join("file"), 10);
        settle(ground);
        let since = catalog(&top, &ground.join("catalog"));
        unmount_whole(&inner);
        let server = serve(Hung, &inner);
        let ran = changed(&top, &since, &["--json", "--deadline", "1s"]).exits(1);
        assert_eq!(changes(&ran.json()), expect([]), "{ran}");
        drop(server);
        unmount(&inner);
        unmount_whole(&top);
    });
}

#[test]
fn changed_fields_have_names_and_values() {
    let place = tempfile::tempdir().unwrap();
    let top = dir(place.path().join("tree"));
    let at = |name: &str| file(top.join(name), 5);
    let (setuid, longer, linked, replaced) =
        (at("setuid"), at("longer"), at("linked"), at("replaced"));
    chmod(&setuid, 0o755);
    let old = catalog(&top, &place.path().join("old"));
    chmod(&setuid, 0o4755);
    fs::write(&longer, "123456").unwrap();
    fs::hard_link(&linked, top.join("name")).unwrap();
    fs::write(top.join("other"), "12345").unwrap();
    fs::rename(top.join("other"), &replaced).unwrap();
    let new = catalog(&top, &place.path().join("new"));
    let check = |value: Value| {
        let entries = value["result"]["entries"].as_array().unwrap().clone();
        let entry = |name: &str| {
            let mut entries = entries.iter();
            let entry = entries.find(|entry| entry["path"] == name);
            entry.unwrap_or_else(|| panic!("{name}: {value}"))
        };
        let has = |name: &str, field: &str| {
            let fields = entry(name)["fields"].as_array().unwrap();
            fields.iter().any(|it| it == field)
        };
        let own = entry("setuid");
        assert_eq!(own["fields"], json!(["mode", "ctime"]), "{value}");
        assert_eq!(
            (&own["old"]["mode"], &own["new"]["mode"]),
            (&json!("0755"), &json!("4755"))
        );
        assert_eq!(own["old"]["uid"], own["new"]["uid"]);
        let own = entry("longer");
        assert!(has("longer", "size") && has("longer", "mtime"), "{value}");
        assert_eq!(
            (&own["old"]["size"], &own["new"]["size"]),
            (&json!(5), &json!(6))
        );
        assert_eq!(entry("linked")["fields"], json!(["nlink", "ctime"]));
        assert!(
            has("replaced", "ino") && !has("replaced", "size"),
            "{value}"
        );
        assert!(entry("name").get("fields").is_none(), "{value}");
    };
    check(changed(&top, &old, &["--json"]).exits(0).json());
    let walked = changed(&top, &old, &["--json", "--engine", "threads"]);
    check(walked.exits(0).json());
    let diff = run(&mut fathom(args!["query", "--diff", &old, &new, "--json"]));
    check(diff.exits(0).json());
    let line = "* setuid (mode 0755 -> 4755)\n";
    for (more, is_shown) in [("-v", true), ("--format=table", false)] {
        let ran = changed(&top, &old, &[more]).exits(0);
        let text = String::from_utf8(ran.stdout).unwrap();
        assert_eq!(text.contains(line), is_shown, "{text}");
    }
}
