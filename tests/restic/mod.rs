//! `fathom dump --restic`, with the feature `restic`, against restic itself.

#[cfg_attr(not(feature = "cloud"), allow(dead_code, unused_imports))]
mod caching;
mod changing;
mod histories;
mod interruptions;
mod locking;
mod options;
mod overlaps;
#[cfg_attr(not(feature = "cloud"), allow(dead_code, unused_imports))]
mod places;
mod refusals;
mod retention;
#[cfg_attr(not(feature = "cloud"), allow(dead_code, unused_imports))]
mod servers;
mod sharing;
mod variables;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use rustix::mount::mount_bind;
use serde_json::Value;

use crate::support::build::{chmod, dir, file, name};

use crate::support::disks::{EXT4, mounted};
use crate::support::reference::settle;
use crate::support::run::{Ran, args};
use crate::support::snapshot::{alike, kept};
use crate::support::tool::tool;
use crate::support::trees::grow;
use crate::support::{Need, fathom, in_namespace, require, run};

const NEEDS: [Need; 2] = [Need::Root, Need::Program("restic")];
const PASSWORD: &str = "a password";

/// restic in a directory.
fn restic(at: &Path, words: impl IntoIterator<Item = OsString>) -> Ran {
    run(&mut restic_command(at, words))
}

/// The output of restic.
fn said(at: &Path, words: impl IntoIterator<Item = OsString>) -> String {
    String::from_utf8(restic(at, words).exits(0).stdout).unwrap()
}

fn restic_command(at: &Path, words: impl IntoIterator<Item = OsString>) -> Command {
    let mut command = Command::new("restic");
    command
        .arg("--no-cache")
        .arg("--repo")
        .arg(at.join("repo"))
        .args(words);
    prepare(&mut command, at);
    command
}

fn dump_command(at: &Path, words: impl IntoIterator<Item = OsString>) -> Command {
    let head = args!["dump", "--restic", at.join("repo")];
    let mut command = fathom(head.into_iter().chain(words));
    prepare(&mut command, at);
    command
}

/// Sets environment variables for restic and fathom. TZ is not UTC, because restic and fathom write
/// times in UTC differently.
fn prepare(command: &mut Command, at: &Path) {
    command
        .current_dir(at)
        .env("RESTIC_PASSWORD", PASSWORD)
        .env("RESTIC_CACHE_DIR", at.join("cache"))
        .env("TZ", "Asia/Tokyo");
}

/// Makes a snapshot. Returns the JSON result.
fn dump(at: &Path, words: impl IntoIterator<Item = OsString>) -> Value {
    let words = words.into_iter().chain(args!["--json"]);
    run(&mut dump_command(at, words)).exits(0).json()["result"].clone()
}

fn init(at: &Path) {
    copy_fixture("version2", &at.join("repo"));
}

/// Copies a repository with the password of the tests; it has no empty directories. restic made
/// `version2` with `--insecure-kdf`: with a normal key, each program would compute for half a
/// second.
fn copy_fixture(name: &str, to: &Path) {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/restic");
    dir(to.parent().unwrap());
    tool(
        Command::new("cp")
            .arg("-r")
            .arg(fixtures.join(name))
            .arg(to),
    );
}

fn trees(at: &Path) -> Vec<String> {
    let snapshots: Value = serde_json::from_str(&said(at, args!["snapshots", "--json"])).unwrap();
    let snapshots = snapshots.as_array().unwrap();
    snapshots
        .iter()
        .map(|it| it["tree"].as_str().unwrap().to_owned())
        .collect()
}

fn check(at: &Path) {
    let said = self::said(at, args!["check", "--read-data"]);
    assert!(said.contains("no errors were found"), "{said}");
}

/// The tree that restic restores from the last snapshot.
fn restored(at: &Path, name: &str) -> PathBuf {
    let to = at.join(name);
    restic(at, args!["restore", "latest", "--target", &to]).exits(0);
    to
}

#[test]
fn restic_checks_and_restores_odd_trees() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        let tree = dir(ground.join("tree"));
        grow(&tree, 1, 300);
        // Old versions of restic restore sparse files with all their zeros.
        let large = || {
            let mut find = Command::new("find");
            find.arg(&tree)
                .args(["-type", "f", "-size", "+4M", "-exec"]);
            find
        };
        tool(large().args(["chattr", "-ia", "{}", ";"]));
        tool(large().args(["truncate", "-s", "3M", "{}", "+"]));
        dump(ground, args!["tree", "--tag", "odd", "--tag", "trees"]);
        check(ground);
        // restic restores the same tree from fathom's snapshot as from its own. (Old versions
        // restore neither attributes of symlinks nor targets that are not UTF-8.)
        let ours = restored(ground, "ours");
        restic(ground, args!["backup", "tree"]).exits(0);
        let theirs = restored(ground, "theirs");
        let less = |_: &[u8], seen: &mut crate::support::snapshot::Seen| {
            seen.data = Vec::new();
            seen.atime = (0, 0);
        };
        let (ours, theirs) = (kept(&ours.join("tree")), kept(&theirs.join("tree")));
        alike(&ours, &theirs, "restic restore", less);
        assert!(ours.len() > 700);
        let listed = said(ground, args!["snapshots", "--json"]);
        let listed: Value = serde_json::from_str(&listed).unwrap();
        assert_eq!(listed[0]["tags"], serde_json::json!(["odd", "trees"]));
        assert_eq!(listed[0]["paths"][0], tree.to_str().unwrap());
    });
}

#[test]
fn restic_and_fathom_continue_each_others_snapshots() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        let (first, second) = (
            dir(ground.join("above/first")),
            dir(ground.join("above/second")),
        );
        for nth in 0..20 {
            file(first.join(format!("d{}/f{nth}", nth % 3)), 1000 + nth);
        }
        file(second.join(name(b"\xff \"quoted\" \n \\")), 10);
        fs::hard_link(first.join("d0/f0"), second.join("hard")).unwrap();
        let attribute = ["-n", "user.a", "-v", "1"];
        tool(
            Command::new("setfattr")
                .args(attribute)
                .arg(second.join("hard")),
        );
        tool(Command::new("mkfifo").arg(second.join("fifo")));
        let both = || args!["above/first", "above/second"];
        let backup = |words: [OsString; 2]| {
            let head = args!["backup", "--json"].into_iter();
            let said = self::said(ground, head.chain(words));
            let last = said.lines().last().unwrap().to_owned();
            serde_json::from_str::<Value>(&last).unwrap()
        };
        // The second program reads no file, and finds every directory unchanged.
        let made = dump(ground, both());
        assert_eq!(
            (&made["files_new"], &made["parent"]),
            (&23.into(), &Value::Null)
        );
        let of_restic = backup(both());
        assert_eq!(
            (&of_restic["files_new"], &of_restic["files_changed"]),
            (&0.into(), &0.into())
        );
        let again = dump(ground, both());
        assert_eq!(
            (&again["files_unmodified"], &again["files_new"]),
            (&23.into(), &0.into())
        );
        let found = trees(ground);
        assert!(
            found.len() == 3 && found.iter().all(|tree| *tree == found[0]),
            "{found:?}"
        );

        // After a change of one file, only that file is read, and only its parent directories are
        // written.
        file(first.join("d1/f1"), 5000);
        let changed = dump(ground, both());
        assert_eq!(
            (&changed["files_changed"], &changed["files_unmodified"]),
            (&1.into(), &22.into())
        );
        assert_eq!(changed["directories_unmodified"], 3, "{changed}");
        assert_eq!(backup(both())["files_changed"], 0);

        // An absolute path, and the current directory. Other tests change the directories above
        // this one, whose times are in the tree, so the absolute path is directly below the root.
        let absolute = Path::new("/mnt");
        mount_bind(&first, absolute).unwrap();
        for words in [args![absolute].to_vec(), args!["."].to_vec()] {
            let at = if words[0] == "." { &second } else { ground };
            let mut ours = dump_command(ground, words.clone());
            let mut theirs = restic_command(ground, args!["backup"].into_iter().chain(words));
            ours.current_dir(at);
            theirs.current_dir(at);
            run(&mut ours).exits(0);
            run(&mut theirs).exits(0);
            let found = trees(ground);
            assert_eq!(found[found.len() - 1], found[found.len() - 2], "{at:?}");
        }
        check(ground);
    });
}

#[test]
fn unchanged_files_are_not_opened() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        let tree = dir(ground.join("tree"));
        (0..200).for_each(|nth| drop(file(tree.join(format!("{nth}")), 100)));
        // Files that changed just before a snapshot are also read by the next one.
        sleep(Duration::from_millis(1100));
        let opened = || {
            let words = args!["tree", "--json"];
            let said = run(&mut dump_command(ground, words)).exits(0).json();
            let calls = crate::support::run::calls(&said["gates"]);
            calls["openat"] + calls["openat2"]
        };
        let (first, second) = (opened(), opened());
        assert!(first >= second + 200, "{first} {second}");
        assert!(second < 60, "{second}");
    });
}

/// Makes a snapshot with a state directory. Returns its result, and the number of calls that opened
/// or listed something.
fn tracked(at: &Path, words: impl IntoIterator<Item = OsString>) -> (Value, u64) {
    let words = words.into_iter().chain(args!["--state", "state", "--json"]);
    let said = run(&mut dump_command(at, words)).exits(0).json();
    let calls = crate::support::run::calls(&said["gates"]);
    let count = |name: &str| calls.get(name).copied().unwrap_or(0);
    let all = count("openat") + count("openat2") + count("getdents64") + count("statx");
    (said["result"].clone(), all)
}

#[test]
fn a_state_directory_spares_all_work_on_an_unchanged_tree() {
    if !require(&NEEDS) || !require(&[Need::Loop, Need::Program("mkfs.ext4")]) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        let above = dir(ground.join("above"));
        let disk = dir(above.join("disk"));
        assert!(mounted(EXT4[0], &disk));
        let tree = dir(disk.join("tree"));
        for nth in 0..300 {
            file(tree.join(format!("d{}/f{nth}", nth % 30)), 100);
        }
        fs::create_dir(ground.join("state")).unwrap();
        let other = dir(disk.join("other"));
        settle(&tree);
        let words = || args!["above/disk/tree"];
        let is_kept = |(made, calls): &(Value, u64), last: &Value| {
            assert_eq!(
                (&made["parent"], &made["tree"]),
                (&last["snapshot"], &last["tree"])
            );
            assert_eq!(
                (&made["files_unmodified"], &made["bytes_added"]),
                (&300.into(), &0.into())
            );
            *calls
        };
        let (first, _) = tracked(ground, words());
        assert_eq!(first["files_new"], 300);
        let second = tracked(ground, words());
        let few = is_kept(&second, &first);
        // A different file on the file system has changed: the tree is walked, but no file is read.
        file(other.join("beside"), 10);
        let third = tracked(ground, words());
        let walk = is_kept(&third, &second.0);
        let without = tracked(ground, args!["above/disk/tree", "--exclude", "none"]);
        let all = is_kept(&without, &third.0);
        assert!(
            few < 100 && few < walk && walk + 30 < all,
            "{few} {walk} {all}"
        );
        check(ground);

        // The tree of a snapshot also depends on the directories above SRC, and on the exclusions.
        chmod(&above, 0o700);
        let (other, _) = tracked(ground, words());
        assert_ne!(other["tree"], first["tree"]);
        assert_eq!(other["tree"], dump(ground, words())["tree"]);
        let (other, _) = tracked(ground, args!["above/disk/tree", "--exclude", "f7"]);
        assert_eq!(other["files_unmodified"], 299);
        let (other, _) = tracked(ground, words());
        assert_eq!(
            (&other["files_new"], &other["files_unmodified"]),
            (&1.into(), &299.into())
        );
        let absolute = tracked(ground, args![&tree]).0;
        assert_ne!(absolute["tree"], other["tree"]);
        assert_eq!(tracked(ground, words()).0["tree"], other["tree"]);

        // A file has changed, and the catalog is damaged.
        file(tree.join("d1/f1"), 5000);
        let (changed, _) = tracked(ground, words());
        assert_eq!(changed["files_changed"], 1, "{changed}");
        for entry in fs::read_dir(ground.join("state")).unwrap() {
            fs::write(entry.unwrap().path(), "no catalog").unwrap();
        }
        let (again, _) = tracked(ground, words());
        assert_eq!(again["tree"], changed["tree"]);
        is_kept(&tracked(ground, words()), &again);
    });
}

#[test]
fn a_state_directory_hides_no_repair_of_the_repository() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        let tree = dir(ground.join("tree"));
        (0..50).for_each(|nth| drop(file(tree.join(format!("d{}/{nth}", nth % 5)), 100 + nth)));
        fs::create_dir(ground.join("state")).unwrap();
        settle(&tree);
        let words = || args!["tree"];
        let first = tracked(ground, words()).0;
        assert_eq!(tracked(ground, words()).0["files_unmodified"], 50);
        // All data is lost, and the index is built again: the next snapshot reads all files.
        let mut find = Command::new("find");
        find.arg(ground.join("repo/data"))
            .args(["-type", "f", "-delete"]);
        tool(&mut find);
        restic(ground, args!["rebuild-index"]).exits(0);
        let healed = tracked(ground, words()).0;
        assert_eq!(
            (&healed["files_new"], &healed["tree"]),
            (&50.into(), &first["tree"])
        );
        check(ground);
        // The same after all snapshots were forgotten.
        let ids = said(ground, args!["list", "snapshots"]);
        let ids = ids.lines().map(OsString::from);
        restic(ground, args!["forget", "--prune"].into_iter().chain(ids)).exits(0);
        assert_eq!(tracked(ground, words()).0["files_new"], 50);
        check(ground);
    });
}

/// An attribute that a repository cannot store is named in a warning.
#[test]
fn attributes_with_names_of_any_bytes_are_named() {
    if !require(&NEEDS) {
        return;
    }
    in_namespace(|ground| {
        init(ground);
        let tree = dir(ground.join("tree"));
        file(tree.join("f"), 10);
        for attribute in [&b"user.\xff"[..], b"user.\xfe", b"user.good"] {
            let flags = rustix::fs::XattrFlags::empty();
            rustix::fs::setxattr(tree.join("f"), attribute, b"1", flags).unwrap();
        }
        let ran = run(&mut dump_command(ground, args!["tree", "--json"])).exits(1);
        let warnings = ran.json()["warnings"].clone();
        let warnings = warnings.as_array().unwrap();
        assert_eq!(warnings.len(), 2, "{ran}");
        for warning in warnings {
            assert!(
                warning["message"]
                    .as_str()
                    .unwrap()
                    .contains("is not UTF-8"),
                "{ran}"
            );
        }
    });
}
