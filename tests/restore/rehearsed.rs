//! Tests that a dry run predicts a restore: the entries that it creates, renames and removes, and
//! its failures.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use ondisk::pax::{Member, MemberKind};
use serde_json::Value;

use crate::support::build::{chmod, dir, file, tmpfs};
use crate::support::effort::effort;
use crate::support::pack::{pack, plain};
use crate::support::reference::settle;
use crate::support::run::{Ran, args};
use crate::support::tool::tool;
use crate::support::trees::Dice;
use crate::support::{Need, fathom, in_namespace, require, run};

/// A path of up to three names.
fn any_path(dice: &mut Dice) -> PathBuf {
    let depth = 1 + dice.below(3);
    (0..depth).map(|_| ["a", "b", "c"][dice.below(3)]).collect()
}

/// Makes a random change to a tree. Many changes fail, because the entry does not exist or has a
/// different type.
fn change(top: &Path, dice: &mut Dice) {
    let (path, other) = (top.join(any_path(dice)), top.join(any_path(dice)));
    let done = match dice.below(7) {
        0 => fs::create_dir_all(&path),
        1 => fs::write(&path, "new"),
        2 => fs::rename(&path, &other),
        3 if path.is_dir() => fs::remove_dir_all(&path),
        3 => fs::remove_file(&path),
        4 => fs::hard_link(&path, &other),
        5 => symlink("a", &path),
        _ => fs::write(path.join("d"), "more"),
    };
    let _ = done;
}

/// The counts of a restore, its exit status, and the paths that it warns of.
fn outcome(ran: &Ran) -> (Vec<(&'static str, Value)>, Option<i32>, BTreeSet<String>) {
    let value = ran.json();
    let counts = [
        "files",
        "directories",
        "symlinks",
        "links",
        "bytes",
        "removed",
        "renamed",
        "skipped",
    ];
    let counts = counts.map(|name| (name, value["result"][name].clone()));
    let warnings = value["warnings"].as_array().unwrap().iter();
    let paths = warnings.map(|it| it["path"].as_str().unwrap_or_default().to_owned());
    (counts.to_vec(), ran.status.code(), paths.collect())
}

/// Restores a chain in a dry run and then really, and checks that both report the same.
fn foreseen(archives: &[PathBuf], to: &Path, what: &str) -> Value {
    let restore = |more: &str| {
        let mut command = fathom(args!["restore", "-C", to, "--overwrite", "--json", more]);
        run(command.args(archives))
    };
    let before = tool(Command::new("find").arg(to));
    let (dry, after) = (restore("--dry-run"), tool(Command::new("find").arg(to)));
    assert_eq!(before, after, "{what}");
    let done = restore("-j1");
    assert_eq!(outcome(&dry), outcome(&done), "{what}: {dry}\n{done}");
    done.json()
}

#[test]
fn random_chains_over_random_trees_are_foreseen() {
    if !require(&[Need::Root]) {
        return;
    }
    for seed in 0..effort(25, 2000) {
        in_namespace(|ground| {
            let mut dice = Dice::new(seed as u64);
            let at = tmpfs(ground.join("at"));
            let tree = dir(at.join("s"));
            let mut archives = Vec::new();
            for number in 0..=dice.below(3) {
                (0..10).for_each(|_| change(&tree, &mut dice));
                settle(&at);
                let archive = ground.join(format!("{number}.tar"));
                let catalog = ground.join("catalog");
                let mut dump = fathom(args![
                    "dump",
                    "s",
                    "-q",
                    "-o",
                    archive,
                    "--catalog",
                    catalog
                ]);
                if number > 0 {
                    dump.args(args!["--since", catalog]);
                }
                run(dump.current_dir(&at)).exits(0);
                archives.push(archive);
            }
            let to = dir(ground.join("to"));
            dir(to.join("s"));
            (0..dice.below(10)).for_each(|_| change(&to.join("s"), &mut dice));
            foreseen(&archives, &to, &format!("seed {seed}"));
        });
    }
}

/// Members that cannot replace existing entries.
#[test]
fn what_cannot_be_restored_is_foreseen() {
    if !require(&[Need::Root]) {
        return;
    }
    in_namespace(|at| {
        let tree = dir(at.join("s"));
        for name in ["file", "first", "within/file"] {
            file(tree.join(name), 1);
        }
        fs::hard_link(tree.join("first"), tree.join("link")).unwrap();
        symlink("nowhere", tree.join("symlink")).unwrap();
        tool(Command::new("mkfifo").arg(tree.join("fifo")));
        let archive = at.join("s.tar");
        // The archive has no members for the directories, as some programs write archives.
        let names = [
            "s/file",
            "s/first",
            "s/link",
            "s/symlink",
            "s/fifo",
            "s/within/file",
        ];
        tool(
            Command::new("tar")
                .arg("-cf")
                .arg(&archive)
                .args(names)
                .current_dir(at),
        );
        let to = dir(at.join("to/s"));
        for name in ["file", "first", "link", "symlink", "fifo"] {
            file(to.join(name).join("kept"), 1);
        }
        symlink("../elsewhere", to.join("within")).unwrap();
        dir(at.join("to/elsewhere"));
        let done = foreseen(&[archive], &at.join("to"), "in the way");
        assert_eq!(done["result"]["skipped"], 6, "{done}");
        chmod(&to, 0o755);
    });
}

/// A chain whose first archive has a member that cannot be restored over an existing file, and whose
/// second has a given list of the directory.
#[test]
fn invalid_members_are_foreseen() {
    let directory = |list: Option<&[u8]>| Member {
        kind: MemberKind::Directory,
        mode: 0o755,
        dumpdir: list.map(<[u8]>::to_vec),
        ..plain("s/", b"")
    };
    let rest = Member {
        kind: MemberKind::Continuation,
        ..plain("s/old", b"rest")
    };
    let full = [
        (directory(None), &b""[..]),
        (plain("s/new", b"data"), b"data"),
        (rest, b"rest"),
    ];
    for (list, removed) in [(&b"Q\0\0"[..], 0), (b"Nnew\0\0", 2)] {
        let place = tempfile::tempdir().unwrap();
        let next = [(directory(Some(list)), &b""[..])];
        let archives = [("0.tar", &full[..]), ("1.tar", &next)];
        let archives = archives.map(|(name, members)| {
            let archive = place.path().join(name);
            fs::write(&archive, pack(members)).unwrap();
            archive
        });
        let to = dir(place.path().join("to/s"));
        for name in ["old", "other"] {
            file(to.join(name), 1);
        }
        let done = foreseen(&archives, &place.path().join("to"), "invalid");
        let result = &done["result"];
        assert_eq!(
            [&result["files"], &result["removed"]],
            [1, removed],
            "{done}"
        );
        assert_eq!(to.join("other").exists(), removed == 0, "{done}");
        if removed > 0 {
            assert!(done.to_string().contains("s/old"), "{done}");
        }
    }
}
