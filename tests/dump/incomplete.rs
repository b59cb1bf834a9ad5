//! Tests of files that cannot be read, and of files that are skipped on purpose: in warnings, in
//! the records of dumps, and in pruning.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use rustix::fs::{XattrFlags, lsetxattr};
use serde_json::Value;

use super::chains::prune;
use super::full::{NEEDS, dump, listed};
use super::rounds::{Series, on, told};
use crate::support::build::{bind, dir, file, tmpfs, unmount, unmount_whole};
use crate::support::disks::{BTRFS, EXT4, subvolume};
use crate::support::reference::settle;
use crate::support::restrict::fail_calls;
use crate::support::run::{Ran, args};
use crate::support::synthetic::{SyntheticTree, serve_hung, serve_synthetic};
use crate::support::tool::tool;
use crate::support::{Need, fathom, in_namespace, require, run};

/// The messages of warnings, with their paths.
fn warnings(ran: &Ran) -> Vec<(String, String)> {
    let value = ran.json();
    let all = value["warnings"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut all: Vec<_> = all
        .map(|it| (text(&it["path"]), text(&it["message"])))
        .collect();
    all.sort();
    all
}

/// A snapshot has a placeholder directory where the subvolume had a nested subvolume.
#[test]
fn a_subvolume_that_a_snapshot_does_not_have_is_named() {
    if require(&NEEDS) {
        on(Some(BTRFS[0]), |at, ground| {
            subvolume(&at.join("srv"), None);
            subvolume(&at.join("srv/db"), None);
            file(at.join("srv/db/data"), 10);
            settle(at);
            let night = |level: &str| {
                let state = dir(ground.join("state"));
                let archive = ground.join(format!("{level}.tar"));
                let words = args![
                    "dump", "srv", "-o", archive, "--level", level, "--state", state, "--json"
                ];
                run(fathom(words).current_dir(at))
            };
            night("0").exits(0);
            fs::rename(at.join("srv"), at.join("live")).unwrap();
            let snapshot = ["subvolume", "snapshot", "-r", "live", "srv"];
            tool(Command::new("btrfs").args(snapshot).current_dir(at));
            let ran = night("1").exits(1);
            let named = warnings(&ran);
            let is_named = |(path, message): &(String, String)| {
                path == "srv/db" && message.contains("no longer there")
            };
            assert!(named.iter().any(is_named), "{named:?}");
        });
    }
}

/// Dumps, to a state directory, of a FUSE server that fails to read some of its files.
struct Dumps<'a> {
    ground: &'a Path,
    number: usize,
}

impl Dumps<'_> {
    /// Makes a dump of a level. Reading fails for the files `broken`; names without a slash are
    /// directories.
    fn dump(&mut self, level: usize, broken: &[&'static str]) -> Ran {
        let with_error = |is_file: bool| {
            let some = broken.iter().filter(|path| path.contains('/') == is_file);
            some.map(|path| (*path, libc::EIO)).collect()
        };
        let tree = SyntheticTree {
            directories: 3,
            files: 4,
            broken: with_error(true),
            unreadable: with_error(false),
            ..SyntheticTree::default()
        };
        let server = serve_synthetic(tree, &self.ground.join("far"));
        let archive = format!("{}.tar.zst", self.number);
        let level = level.to_string();
        let words = args![
            "dump", "far", "-o", archive, "--level", level, "--state", "state"
        ];
        let ran = run(fathom(words).current_dir(self.ground));
        unmount_whole(&self.ground.join("far"));
        drop(server);
        self.number += 1;
        ran.exits(i32::from(!broken.is_empty()))
    }

    fn list(&self, more: &[&str]) -> Ran {
        let words = ["list", "--state", "state"];
        run(fathom(words).args(more).current_dir(self.ground)).exits(0)
    }

    /// Prunes. Returns the archives that are left, and how many dumps are kept only because later
    /// ones are incomplete.
    fn prune(&self) -> (Vec<String>, u64) {
        let pruned = prune(self.ground, 1, &["--yes"]);
        let names = fs::read_dir(self.ground).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut left: Vec<String> = names.filter(|name| name.ends_with(".tar.zst")).collect();
        left.sort();
        (left, pruned["spared"].as_u64().unwrap())
    }
}

fn in_state(test: impl FnOnce(&mut Dumps<'_>) + Send) {
    if require(&NEEDS) && require(&[Need::Fuse]) {
        in_namespace(|ground| {
            dir(ground.join("state"));
            test(&mut Dumps { ground, number: 0 });
        });
    }
}

#[test]
fn incomplete_dumps_are_listed_with_what_is_missing() {
    in_state(|dumps| {
        dumps.dump(0, &[]);
        dumps.dump(0, &["d1", "d0/f3"]);
        dumps.dump(1, &["d0/f3"]);
        dumps.dump(2, &[]);
        let value = dumps.list(&["--json"]).json();
        let all = value["result"]["dumps"].as_array().unwrap();
        let seen = |field: &str| -> Vec<Value> { all.iter().map(|it| it[field].clone()).collect() };
        assert_eq!(seen("status"), ["ok", "incomplete", "incomplete", "ok"]);
        assert_eq!(seen("unread"), [0, 2, 1, 0]);
        assert_eq!(
            all[1]["unread_names"],
            serde_json::json!(["far/d0/f3", "far/d1"])
        );
        assert_eq!(all[2]["unread_names"], serde_json::json!(["far/d0/f3"]));
        let text = String::from_utf8(dumps.list(&[]).stdout).unwrap();
        let has = |line: &str| assert!(text.lines().any(|it| it == line), "{line}: {text}");
        has("dump 2 could not read 2 entries: 'far/d0/f3', 'far/d1'");
        has("dump 3 could not read 1 entry: 'far/d0/f3'");
        assert_eq!(text.matches("incomplete").count(), 2, "{text}");
        let verify = |more: &[&str]| {
            let words = ["verify", "--state", "state"];
            run(fathom(words).args(more).current_dir(dumps.ground))
        };
        let text = String::from_utf8(verify(&[]).stdout).unwrap();
        assert_eq!(text.matches("incomplete").count(), 2, "{text}");
        let line = "dump 3 could not read 1 entry: 'far/d0/f3'\n";
        assert!(text.contains(line), "{text}");
        let value = verify(&["--json"]).json();
        let all = value["result"]["dumps"].as_array().unwrap().iter();
        let unread: Vec<_> = all.map(|dump| dump["unread"].clone()).collect();
        assert_eq!(unread, [0, 2, 1, 0]);
        // A record of an older version does not contain unreadable entries.
        let records = dumps.ground.join("state/dumps.ndjson");
        let lines = fs::read_to_string(&records).unwrap();
        let (before, rest) = lines.split_once("\"unread\":{").unwrap();
        let (_, after) = rest.split_once("]},").unwrap();
        fs::write(&records, format!("{before}{after}")).unwrap();
        let value = dumps.list(&["--json"]).json();
        assert_eq!(value["result"]["dumps"][1]["status"], "ok");
    });
}

#[test]
fn restoring_an_incomplete_dump_warns() {
    in_state(|dumps| {
        dumps.dump(0, &[]);
        dumps.dump(1, &["d1"]);
        dir(dumps.ground.join("to"));
        let restore = |more: &[&str]| {
            let words = ["restore", "--state", "state", "-C", "to", "--overwrite"];
            run(fathom(words).args(more).current_dir(dumps.ground))
        };
        for more in [&[][..], &["far/d1"], &["far/d1/f0"], &["*/f0"], &["-n"]] {
            let ran = restore(more).exits(1);
            let text = "the dump is incomplete: 1 entry could not be read when it was made";
            assert!(ran.stderr.contains(text), "{ran}");
            assert!(ran.stderr.contains("the last complete dump"), "{ran}");
        }
        restore(&["far/d0"]).exits(0);
    });
}

#[test]
fn the_last_complete_dump_is_not_pruned() {
    in_state(|dumps| {
        dumps.dump(0, &[]);
        dumps.dump(1, &[]);
        dumps.dump(0, &["d0", "d1", "d2"]);
        // The last complete dump is the increment, which needs the full dump.
        let [zero, one, two, three] = [0, 1, 2, 3].map(|n| format!("{n}.tar.zst"));
        let three_are_left = (vec![zero.clone(), one.clone(), two.clone()], 2);
        assert_eq!(dumps.prune(), three_are_left);
        assert_eq!(dumps.prune(), three_are_left);
        dumps.dump(0, &["d0"]);
        // The third dump has no entry that is missing in the fourth.
        assert_eq!(dumps.prune(), (vec![zero, one, three], 2));
        dumps.dump(0, &[]);
        assert_eq!(dumps.prune(), (vec!["4.tar.zst".to_owned()], 0));
    });
}

#[test]
fn the_last_data_of_each_entry_is_not_pruned() {
    in_state(|dumps| {
        dumps.dump(0, &["d0/f1", "d1/f1"]);
        dumps.dump(0, &["d1/f1", "d2"]);
        dumps.dump(0, &["d0/f2", "d2"]);
        dumps.dump(0, &["d2", "d0/f1"]);
        // The newest dump has neither d2, which the first one has, nor d0/f1, which the third one
        // has.
        let left = ["0.tar.zst", "2.tar.zst", "3.tar.zst"].map(str::to_owned);
        assert_eq!(dumps.prune(), (left.to_vec(), 2));
        let ran = run(
            fathom(["dump", "--state", "state", "--prune", "--keep-full", "1"])
                .current_dir(dumps.ground),
        )
        .exits(0);
        let note = "3 dumps are kept (2 because later ones could not read everything)";
        assert!(ran.stderr.contains(note), "{ran}");
        // The increment reads all these entries again.
        dumps.dump(1, &[]);
        let left = ["3.tar.zst", "4.tar.zst"].map(str::to_owned);
        assert_eq!(dumps.prune(), (left.to_vec(), 0));
    });
}

/// Files that end before the size that stat reports: on file systems that keep reporting that size,
/// and with FUSE, which corrects it.
#[test]
fn file_that_ends_before_its_size_is_named() {
    if !require(&NEEDS) || !require(&[Need::Fuse]) {
        return;
    }
    // In sysfs, files have the size of a page, whatever their contents.
    in_namespace(|ground| {
        let (archive, catalog) = (ground.join("a.tar"), ground.join("catalog"));
        let online = "sys/devices/system/cpu/online";
        let dump = |more: &[&str]| {
            let words = args![
                "dump",
                online,
                "-o",
                archive,
                "--json",
                "--catalog",
                catalog
            ];
            run(fathom(words).args(more).current_dir("/")).exits(1)
        };
        let size = fs::metadata(format!("/{online}")).unwrap().len();
        let end = fs::read(format!("/{online}")).unwrap().len();
        let message =
            format!("shrank: it ends after {end} of {size} bytes; the rest is filled with zeros");
        assert_eq!(warnings(&dump(&[])), [(online.to_owned(), message.clone())]);
        assert_eq!(listed(&archive), format!("{online}\n").into_bytes());
        run(&mut fathom(args!["verify", archive])).exits(0);
        // The file counts as not dumped, so the next increment reads it again.
        let ran = dump(&["--since", catalog.to_str().unwrap()]);
        assert_eq!(warnings(&ran), [(online.to_owned(), message)]);
    });
    for (unit, path, end) in [(1000, "d0/f3", 2500), (1 << 20, "d0/f5", 3 << 20)] {
        in_namespace(|ground| {
            let tree = SyntheticTree {
                directories: 1,
                files: 7,
                unit,
                broken_from: Some((path, end, 0)), // no error: the end
                ..SyntheticTree::default()
            };
            let archive = ground.join("a.tar");
            let at = ground.join("far");
            let server = serve_synthetic(tree, &at);
            let ran = dump(&at, &archive, &["--json"]).exits(1);
            let [(name, message)] = &warnings(&ran)[..] else {
                panic!("{ran}");
            };
            assert_eq!(*name, format!("far/{path}"));
            assert!(
                message.starts_with(&format!("shrank: it ends after {end} of ")),
                "{ran}"
            );
            unmount_whole(&at);
            drop(server);
            assert_eq!(listed(&archive).split(|&byte| byte == b'\n').count(), 10);
            run(&mut fathom(args!["verify", archive])).exits(0);
        });
    }
}

/// A skipped socket is only noted, not warned of, so that an unchanged tree with a socket is not
/// gathered again.
#[test]
fn sockets_are_skipped_with_a_note() {
    if !require(&NEEDS) {
        return;
    }
    on(Some(EXT4[0]), |at, ground| {
        let mut series = Series::new(at, ground);
        series.restored = dir(ground.join("restored"));
        file(series.tree.join("d/f"), 10);
        let bind = |name: &str| drop(UnixListener::bind(series.tree.join(name)).unwrap());
        bind("d/socket");
        fs::hard_link(series.tree.join("d/socket"), series.tree.join("d/twin")).unwrap();
        settle(at);
        let ran = series.dump(&[]).exits(0);
        let note = "'tree/d/socket' and 1 other socket are skipped";
        assert!(
            ran.stderr.contains(note) && ran.json()["result"]["dumped"] == 3,
            "{ran}"
        );
        series.restore();
        let ran = series.dump(&[]).exits(0);
        let why = ran.json()["result"]["why"].as_str().unwrap().to_owned();
        assert!(
            why.contains("is unchanged since the catalog was written"),
            "{why}"
        );
        assert!(!ran.stderr.contains("socket"), "{ran}");
        series.restore();
        // A socket replaces a file, and a new socket appears.
        fs::remove_file(series.tree.join("d/f")).unwrap();
        let bind = |name: &str| drop(UnixListener::bind(series.tree.join(name)).unwrap());
        bind("d/f");
        settle(at);
        let ran = series.dump(&[]).exits(0);
        assert!(
            ran.stderr
                .contains("'tree/d/f' is a socket, and is skipped"),
            "{ran}"
        );
        series.restore();
        assert!(!series.restored.join("tree/d/f").exists());
        // A socket is named in a list, or is a SRC.
        fs::write(at.join("list"), "tree/d/socket\n").unwrap();
        for words in [&["--files-from", "list"][..], &["tree/d/socket"]] {
            let ran = run(fathom(["dump", "-o", "a.tar"]).args(words).current_dir(at)).exits(0);
            assert!(ran.stderr.contains("'tree/d/socket' is a socket"), "{ran}");
        }
    });
}

/// If extended attributes cannot be read, the next increments warn, too, until reading succeeds.
#[test]
fn attributes_that_could_not_be_read_are_read_again() {
    if !require(&NEEDS) {
        return;
    }
    on(Some(EXT4[0]), |at, ground| {
        let mut series = Series::new(at, ground);
        series.restored = dir(ground.join("restored"));
        let files = [
            file(series.tree.join("d/f"), 10),
            dir(series.tree.join("e")),
        ];
        for file in &files {
            lsetxattr(file, "user.x", b"x", XattrFlags::empty()).unwrap();
        }
        file(series.tree.join("e/g"), 10);
        settle(at);
        let catalog = series.catalog.to_str().unwrap().to_owned();
        let broken = |archive: &Path, more: &[&str]| {
            let words = args![
                "dump",
                "tree",
                "-o",
                archive,
                "--catalog",
                catalog,
                "--json"
            ];
            let mut command = fathom(words);
            command.args(more).current_dir(at);
            const GETXATTRAT: u32 = 464;
            let calls = [libc::SYS_getxattr, libc::SYS_lgetxattr, libc::SYS_fgetxattr];
            let calls: Vec<u32> = calls
                .iter()
                .map(|call| *call as u32)
                .chain([GETXATTRAT])
                .collect();
            fail_calls(&mut command, &calls, libc::EIO);
            let ran = run(&mut command).exits(1);
            let names = warnings(&ran).into_iter().map(|(name, _)| name);
            let names: BTreeSet<String> = names.collect();
            assert_eq!(
                names,
                ["tree/d/f", "tree/e"].map(str::to_owned).into(),
                "{ran}"
            );
        };
        broken(&series.archive(), &[]);
        series.restore();
        broken(&series.archive(), &["--since", &catalog]);
        series.restore();
        let result = series.round("all is read again");
        told(&result, &[("files", 1)]);
        told(&series.round("nothing is read again"), &[("files", 0)]);
    });
}

/// Increments skip a mount whose server stopped after the base was written, and remove nothing.
#[test]
fn a_mount_that_stopped_answering_is_kept() {
    if !require(&[Need::Root, Need::Fuse]) {
        return;
    }
    in_namespace(|ground| {
        let tree = dir(ground.join("tree"));
        file(tree.join("near"), 10);
        let far = tree.join("far");
        let serve_again = || serve_synthetic(SyntheticTree::of(2, 3), &far);
        let (state, catalog) = (dir(ground.join("state")), ground.join("catalog"));
        let (state, catalog) = (state.to_str().unwrap(), catalog.to_str().unwrap());
        let level = |number| ["--level", number, "--state", state];
        let (since, first) = (["--since", catalog], level("1"));
        let increments = [&since[..], &first[..]];
        let mut archives = 0;
        let mut dump = |more: &[&str]| {
            archives += 1;
            let archive = ground.join(format!("{archives}.tar"));
            let always = ["--json", "--deadline", "1s"];
            dump(&tree, &archive, &[more, &always].concat())
        };
        let server = serve_again();
        settle(ground);
        dump(&["--catalog", catalog]).exits(0);
        dump(&level("0")).exits(0);
        unmount(&far);
        drop(server);
        let server = serve_hung(&far);
        for more in increments {
            let ran = dump(more).exits(1);
            told(&ran.json()["result"], &[("removed", 0), ("files", 0)]);
            let messages = warnings(&ran);
            let [(path, message)] = &messages[..] else {
                panic!("{ran}");
            };
            assert_eq!(path, "tree/far", "{ran}");
            assert!(message.contains("does not answer within"), "{ran}");
        }
        drop(server);
        unmount(&far);
        let _server = serve_again();
        for more in increments {
            let ran = dump(more).exits(0);
            told(&ran.json()["result"], &[("removed", 0), ("files", 0)]);
        }
    });
}

/// Mounts that have disappeared are named in warnings. Deleted subvolumes are not, because users
/// delete them on purpose.
#[test]
fn mounts_that_are_gone_are_named() {
    if !require(&NEEDS) {
        return;
    }
    on(Some(BTRFS[0]), |at, ground| {
        let tree = dir(at.join("tree"));
        let fill = |at: &Path| (0..3).for_each(|n| drop(file(at.join(format!("d/{n}")), 10)));
        fill(&tree);
        let [disk, twin] = ["disk", "a/twin"].map(|name| dir(tree.join(name)));
        let snapshot = subvolume(&tree.join("snapshot"), None);
        fill(&snapshot);
        tmpfs(&disk);
        fill(&disk);
        fill(&at.join("beside"));
        bind(at.join("beside"), &twin);
        let (state, catalog) = (dir(ground.join("state")), ground.join("walked"));
        let state = state.to_str().unwrap();
        settle(at);
        let level = |number: usize, level: &str| {
            let archive = ground.join(format!("{number}.tar"));
            dump(
                &tree,
                &archive,
                &["--level", level, "--state", state, "--json"],
            )
        };
        let expected = |names: &[&str]| -> Vec<(String, String)> {
            let message = "4 entries were on a mount that is no longer there".to_owned();
            names
                .iter()
                .map(|name| (format!("tree/{name}"), message.clone()))
                .collect()
        };
        level(0, "0").exits(0);
        run(fathom(args!["walk", "tree", "--catalog", catalog, "-q"]).current_dir(at)).exits(0);
        let changed = || {
            let words = args!["changed", "tree", "--since", catalog, "--json"];
            run(fathom(words).current_dir(at))
        };
        // An excluded mount does not count as missing.
        let excluded = [
            "--level",
            "1",
            "--state",
            state,
            "--exclude",
            "disk",
            "--json",
        ];
        dump(&tree, &ground.join("1.tar"), &excluded).exits(0);
        unmount(&twin);
        tool(
            Command::new("btrfs")
                .args(["subvolume", "delete"])
                .arg(&snapshot),
        );
        let ran = level(2, "1").exits(1);
        assert_eq!(warnings(&ran), expected(&["a/twin"]), "{ran}");
        unmount(&disk);
        let ran = level(3, "1").exits(1);
        assert_eq!(warnings(&ran), expected(&["a/twin", "disk"]), "{ran}");
        let ran = changed().exits(1);
        assert_eq!(warnings(&ran), expected(&["a/twin", "disk"]), "{ran}");
        // Missing mounts are named until they are mounted again, or their mount points are removed.
        let ran = level(4, "0").exits(1);
        assert_eq!(warnings(&ran), expected(&["a/twin", "disk"]), "{ran}");
        fs::remove_dir(&twin).unwrap();
        tmpfs(&disk);
        fill(&disk);
        level(5, "1").exits(0);
        unmount(&disk);
        let ran = level(6, "0").exits(1);
        assert_eq!(warnings(&ran), expected(&["disk"]), "{ran}");
        let words = ["list", "--state", state, "--json"];
        let value = run(&mut fathom(words)).exits(0).json();
        let last = value["result"]["dumps"].as_array().unwrap().last().unwrap();
        assert_eq!(last["unread_names"], serde_json::json!(["tree/disk"]));
        let ran = level(9, "1").exits(1);
        assert_eq!(warnings(&ran), expected(&["disk"]), "{ran}");
        // A different file system with the same source replaces the missing mount.
        tmpfs(&disk);
        fill(&disk);
        level(7, "1").exits(0);
        unmount(&disk);
        tmpfs(&disk);
        level(8, "2").exits(0);
    });
}

/// How SRC relates to the mount: SRC is the mount point or a directory in the mount, or listed
/// names are on the mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Dumped {
    MountPoint,
    Within,
    Listed,
    ListedFiles,
}

/// Dumps of a mount that is unmounted and mounted again.
struct ComingAndGoing<'a> {
    ground: &'a Path,
    dumped: Dumped,
}

impl ComingAndGoing<'_> {
    fn mount(&self) {
        let disk = tmpfs(self.ground.join("disk"));
        (0..3).for_each(|n| drop(file(disk.join(format!("d/{n}")), 10)));
        settle(&disk);
    }

    fn run(&self, words: &[&str]) -> Ran {
        run(fathom(words).current_dir(self.ground))
    }

    /// Makes a full dump. Returns the warnings of missing mounts, which must equal those of a dry
    /// run.
    fn dump(&self, archive: &str) -> Vec<(String, String)> {
        let sources = match self.dumped {
            Dumped::MountPoint => ["disk"].as_slice(),
            Dumped::Within => &["disk/d"],
            Dumped::Listed => &["--files-from", "mount-points"],
            Dumped::ListedFiles => &["--files-from", "files"],
        };
        let words = [
            &[
                "dump", "-o", archive, "--state", "state", "--level", "0", "--json",
            ][..],
            sources,
        ];
        let words = words.concat();
        let foreseen = self.run(&[&words[..], &["-n"]].concat());
        let ran = self.run(&words);
        assert_eq!(missed(&foreseen), missed(&ran), "{foreseen}\n{ran}");
        missed(&ran)
    }

    fn list(&self) -> Vec<String> {
        let value = self
            .run(&["list", "--state", "state", "--json"])
            .exits(0)
            .json();
        let dumps = value["result"]["dumps"].as_array().unwrap().iter();
        dumps.map(|dump| dump["unread"].to_string()).collect()
    }

    /// The number of dumps that pruning keeps.
    fn prune(&self) -> Value {
        prune(self.ground, 1, &[])["kept"].clone()
    }
}

/// The warnings of mounts that are gone. Checks that the exit status is 1 exactly if there are
/// warnings.
fn missed(ran: &Ran) -> Vec<(String, String)> {
    let all = warnings(ran);
    assert_eq!(ran.status.code(), Some(i32::from(!all.is_empty())), "{ran}");
    let of_mounts = all.into_iter();
    of_mounts
        .filter(|(_, message)| message.contains("no longer there"))
        .collect()
}

/// A missing mount is named each night until it is back, and pruning keeps the last dump that has
/// its entries.
#[test]
fn a_source_whose_mount_is_gone_is_missed() {
    if !require(&[Need::Root]) {
        return;
    }
    let message = |entries| format!("{entries} were on a mount that is no longer there");
    for (dumped, path, lost) in [
        (Dumped::MountPoint, "disk", message("3 entries")),
        (Dumped::Within, "disk/d", message("3 entries")),
        (Dumped::Listed, "disk", message("3 entries")),
        (Dumped::ListedFiles, "disk", message("3 entries")),
    ] {
        in_namespace(|ground| {
            fs::write(ground.join("mount-points"), "disk\nstays\n").unwrap();
            fs::write(
                ground.join("files"),
                "disk/d/0\ndisk/d/1\ndisk/d/2\nstays\n",
            )
            .unwrap();
            dir(ground.join("stays"));
            dir(ground.join("state"));
            dir(ground.join("disk/d"));
            let nights = ComingAndGoing { ground, dumped };
            nights.mount();
            assert_eq!(nights.dump("0.tar"), [], "{dumped:?}");
            unmount(ground.join("disk"));
            let lost = vec![(path.to_owned(), lost)];
            assert_eq!(nights.dump("1.tar"), lost, "{dumped:?}");
            assert_eq!(nights.dump("2.tar"), lost, "{dumped:?}");
            assert_eq!(nights.prune(), 2, "{dumped:?}: {:?}", nights.list());
            nights.mount();
            assert_eq!(nights.dump("3.tar"), [], "{dumped:?}");
            assert_eq!(nights.prune(), 1, "{dumped:?}: {:?}", nights.list());
            // The mount is back, without some of its entries.
            unmount(ground.join("disk"));
            assert_eq!(nights.dump("4.tar").len(), 1, "{dumped:?}");
            nights.mount();
            fs::remove_file(ground.join("disk/d/1")).unwrap();
            assert_eq!(nights.dump("5.tar"), [], "{dumped:?}");
            // The mount point has as many entries as the missing mount had, so the mount counts as
            // replaced.
            unmount(ground.join("disk"));
            (0..3).for_each(|n| drop(file(ground.join(format!("disk/d/{n}")), 10)));
            assert_eq!(nights.dump("6.tar"), [], "{dumped:?}");
        });
    }
}

/// A missing mount is named in any order of the SRCs, and if other SRCs are dumped, too.
#[test]
fn a_mount_is_missed_whatever_else_is_dumped() {
    if !require(&[Need::Root]) {
        return;
    }
    in_namespace(|ground| {
        for name in ["a", "b", "m", "state"] {
            dir(ground.join(name));
        }
        let disk = tmpfs(ground.join("m"));
        file(disk.join("only-copy"), 10);
        let night = |archive: &str, sources: &[&str]| {
            let words = [
                "dump", "--level", "0", "--state", "state", "--json", "-o", archive,
            ];
            missed(&run(fathom(words).args(sources).current_dir(ground)))
        };
        assert_eq!(night("0.tar", &["a", "m"]), []);
        unmount(&disk);
        for (nth, sources) in [&["a", "b", "m"][..], &["m", "a"], &["m", "./a"]]
            .into_iter()
            .enumerate()
        {
            assert_eq!(
                night(&format!("{}.tar", nth + 1), sources).len(),
                1,
                "{sources:?}"
            );
        }
        prune(ground, 1, &["--yes"]);
        assert!(ground.join("0.tar").exists());
        // The mount is not named if its SRC is not dumped any more.
        assert_eq!(night("4.tar", &["./a"]), []);
    });
}
