//! Tests of full dumps and increments of GNU tar, restored in order: the result is the last tree.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::build::{bush, chmod, dir, file, tmpfs};

use crate::support::disks::{BTRFS, mounted};
use crate::support::restrict::fathom_as_nobody;
use crate::support::run::{Ran, args};
use crate::support::snapshot::{Snapshot, alike, kept, same};
use crate::support::tool::tool;
use crate::support::{Need, fathom, in_namespace, require, run};

/// Makes an increment of `top` with GNU tar; the first one is a full dump.
fn increment(top: &Path, ground: &Path, number: usize) -> PathBuf {
    // GNU tar compares some times in whole seconds.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let to = ground.join(format!("archive {number}"));
    let mut tar = Command::new("tar");
    tar.args([
        "--format=posix",
        "--xattrs",
        "--xattrs-include=*",
        "--acls",
        "--sparse",
        "--warning=none",
        "-g",
    ]);
    tool(
        tar.arg(ground.join("snapshot"))
            .arg("-cf")
            .arg(&to)
            .arg("-C")
            .arg(top)
            .arg("."),
    );
    // GNU tar also compares with its start time: a change in the same tick of the file system's
    // clock would be missed.
    std::thread::sleep(std::time::Duration::from_millis(50));
    to
}

fn restore(archives: &[PathBuf], to: &Path, more: &[&str]) -> Ran {
    run(fathom(args!["restore", "-C", dir(to)])
        .args(archives)
        .args(more))
}

#[test]
fn each_increment_restores_its_tree() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let top = tmpfs(ground.join("top"));
            bush(&top, 4, 4);
            file(top.join("d0/deep/er/file"), 10);
            fs::hard_link(top.join("d0/f0"), top.join("d1/link")).unwrap();
            let mut archives = vec![increment(&top, ground, 0)];
            let rounds: [&dyn Fn(); 5] = [
                &|| {
                    fs::write(top.join("d0/f0"), "new").unwrap();
                    fs::remove_file(top.join("d0/f1")).unwrap();
                    fs::remove_dir_all(top.join("d2")).unwrap();
                    file(top.join("new/sub/file"), 5);
                },
                &|| {
                    fs::rename(top.join("d0"), top.join("renamed")).unwrap();
                    fs::rename(top.join("d1"), top.join("renamed/moved")).unwrap();
                    file(top.join("renamed/moved/f0"), 30);
                },
                &|| {
                    // A file replaces a directory, and the reverse.
                    fs::remove_dir_all(top.join("d3")).unwrap();
                    file(top.join("d3"), 7);
                    fs::remove_file(top.join("renamed/f2")).unwrap();
                    file(top.join("renamed/f2/inner"), 7);
                    symlink("../d3", top.join("renamed/f3x")).unwrap();
                },
                &|| {
                    chmod(top.join("renamed"), 0o700);
                    tool(
                        Command::new("setfattr")
                            .args(["-n", "user.x", "-v", "y"])
                            .arg(top.join("renamed")),
                    );
                    chown(top.join("renamed/deep"), Some(7), Some(8)).unwrap();
                },
                &|| {
                    // Two directories exchange their names. After that, GNU tar records the renames
                    // again in every increment, so this is the last one.
                    fs::rename(top.join("renamed"), top.join("t")).unwrap();
                    fs::rename(top.join("new"), top.join("renamed")).unwrap();
                    fs::rename(top.join("t"), top.join("new")).unwrap();
                },
            ];
            for (number, change) in rounds.iter().enumerate() {
                change();
                archives.push(increment(&top, ground, number + 1));
                let copy = ground.join(format!("copy {number}"));
                let ran = restore(&archives, &copy, &["--json"]).exits(0);
                same(&kept(&top), &kept(&copy), "each increment");
                assert_eq!(
                    ran.json()["result"]["renamed"].as_u64() > Some(0),
                    number >= 1,
                    "{ran}"
                );
            }
            // Existing files that the first archive does not list stay.
            let copy = dir(ground.join("over"));
            file(copy.join("d0/mine"), 1);
            restore(&archives[..1], &copy, &[]).exits(0);
            assert!(copy.join("d0/mine").exists());
            restore(&archives[1..2], &copy, &[]).exits(0);
            assert!(copy.join("d0/mine").exists() && copy.join("d2").exists());
            // Restore some entries, by their names in the last tree.
            let some = ground.join("some");
            restore(&archives, &some, &["--", "new/deep", "./renamed/sub/"]).exits(0);
            let whole = kept(&top);
            let some_of = |all: Snapshot| -> Snapshot {
                let is_asked =
                    |name: &[u8]| name.starts_with(b"new/deep") || name.starts_with(b"renamed/sub");
                all.into_iter().filter(|(name, _)| is_asked(name)).collect()
            };
            assert!(kept(&some).keys().all(|name| whole.contains_key(name)));
            same(&some_of(kept(&some)), &some_of(whole), "some of it");
            assert!(
                some.join("new/deep/er/file").exists() && some.join("renamed/sub/file").exists()
            );
            assert!(!some.join("new/f0").exists() && !some.join("d3").exists());
        });
    }
}

/// Checks that PATHs with wildcards restore the entries that find(1) finds in the last tree, and
/// everything below them.
fn matches_are_those_of_find(ground: &Path, archives: &[PathBuf], whole: &Snapshot) {
    for pattern in [
        "*",
        "tree/?",
        "tree/[a-c]",
        "tree/*/f",
        "*/[f-h]",
        "tree/n/*",
        "*/gone/*",
        "*/m",
        "tree/z*",
        "*/l/*",
        "tree/*/new",
        "tree/c/in/?",
        "*j",
        "tree/n/*/c",
        "*k",
        "*/s",
    ] {
        let mut find = Command::new("find");
        find.args(["tree", "-path", pattern, "-print0"])
            .current_dir(ground);
        let found = find.output().unwrap().stdout;
        let found: Vec<_> = found
            .split(|&b| b == 0)
            .filter(|name| !name.is_empty())
            .collect();
        assert!(!found.is_empty(), "{pattern}");
        let is_below = |name: &[u8], dir: &[u8]| {
            name.strip_prefix(dir)
                .is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
        };
        let whole_name = |name: &[u8]| match name {
            b"" => b"tree".to_vec(),
            name => [b"tree/", name].concat(),
        };
        let is_asked = |name: &[u8]| found.iter().any(|dir| is_below(&whole_name(name), dir));
        let is_above = |name: &[u8]| found.iter().any(|it| is_below(it, &whole_name(name)));
        let some = dir(ground.join("some"));
        let restored = |more: &[&str]| {
            let mut restore = fathom(args!["restore", "-C", &some]);
            run(restore.args(archives).args(more).args(["--", pattern])).exits(0)
        };
        let steps = String::from_utf8(restored(&["--dry-run"]).stdout).unwrap();
        restored(&[]);
        let is = kept(&some.join("tree"));
        let of = |all: &Snapshot| -> Snapshot {
            let asked = all.iter().filter(|(name, _)| is_asked(name));
            asked
                .map(|(name, seen)| (name.clone(), seen.clone()))
                .collect()
        };
        same(&of(whole), &of(&is), pattern);
        for name in is.keys().filter(|name| !is_asked(name)) {
            // A parent directory of an entry that was removed later stays.
            let is_left = some
                .join("tree")
                .join(crate::support::build::name(name))
                .is_dir();
            assert!(is_above(name) || is_left, "{pattern}: {is:?}");
        }
        assert!(steps.lines().count() >= of(&is).len(), "{pattern}: {steps}");
        fs::remove_dir_all(some).unwrap();
    }
}

/// A PATH is a name in the last tree, whatever was renamed, replaced and removed before; no other
/// entries are restored.
#[test]
fn selected_paths_equal_those_of_a_full_restore() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let tree = tmpfs(ground.join("tree"));
            let archive = |number: usize| ground.join(format!("{number}.tar"));
            let dump = |number: usize| {
                std::thread::sleep(std::time::Duration::from_millis(30));
                let (catalog, to) = (ground.join("catalog"), archive(number));
                let since = if number > 0 {
                    args!["--since", &catalog].to_vec()
                } else {
                    Vec::new()
                };
                let mut command =
                    fathom(args!["dump", "tree", "-q", "-o", to, "--catalog", catalog]);
                run(command.args(since).current_dir(ground)).exits(0);
            };
            let rename = |from: &str, to: &str| fs::rename(tree.join(from), tree.join(to)).unwrap();
            let first = [
                "a/f", "a/out/g", "a/kept/h", "b/i", "b/gone/j", "c", "d/k", "e/l/m", "m/c",
                "n/e/f", "o/k",
            ];
            for name in first {
                file(tree.join(name), name.len());
            }
            dump(0);
            // Rename a directory, move a file from one directory to a different one, reuse an old
            // name, and replace a directory by a file and the reverse.
            rename("a", "z");
            rename("z/out", "b/in");
            file(tree.join("a/new"), 3);
            fs::remove_dir_all(tree.join("b/gone")).unwrap();
            fs::remove_file(tree.join("c")).unwrap();
            file(tree.join("c/n"), 4);
            fs::remove_dir_all(tree.join("d")).unwrap();
            file(tree.join("d"), 5);
            fs::remove_dir_all(tree.join("n/e")).unwrap();
            file(tree.join("n/s"), 7);
            dump(1);
            // Two directories exchange their names, a directory takes the name of a removed one,
            // and a directory moves into its former subdirectory.
            rename("a", "aside");
            rename("z", "a");
            rename("aside", "z");
            fs::remove_dir_all(tree.join("c")).unwrap();
            rename("b", "c");
            rename("e/l", "l");
            rename("e", "l/e");
            file(tree.join("b/gone/j"), 6);
            fs::remove_file(tree.join("n/s")).unwrap();
            for name in ["n/e/new", "n/s/new"] {
                file(tree.join(name), 8);
            }
            dump(2);
            // Entries move into directories that did not exist, or were files, when the entries
            // were dumped.
            rename("m", "n/e/m");
            rename("o", "n/s/o");
            dump(3);
            let archives = [0, 1, 2, 3].map(archive);
            let whole = kept(&tree);
            for path in whole.keys() {
                let some = dir(ground.join("some"));
                let name = [b"tree/", &path[..]].concat();
                run(fathom(args!["restore", "-C", &some])
                    .args(&archives)
                    .arg("--")
                    .arg(crate::support::build::name(&name)))
                .exits(0);
                let is_asked = |name: &[u8]| {
                    name.strip_prefix(&path[..])
                        .is_some_and(|rest| path.is_empty() || matches!(rest, [] | [b'/', ..]))
                };
                let of = |all: &Snapshot| -> Snapshot {
                    all.iter()
                        .filter(|(name, _)| is_asked(name))
                        .map(|(name, seen)| (name.clone(), seen.clone()))
                        .collect()
                };
                let (is, what) = (kept(&some.join("tree")), path.escape_ascii().to_string());
                same(&of(&whole), &of(&is), &what);
                let is_above = |name: &[u8]| {
                    name.is_empty()
                        || path
                            .strip_prefix(name)
                            .is_some_and(|rest| rest.starts_with(b"/"))
                };
                assert!(
                    is.keys().all(|name| is_asked(name) || is_above(name)),
                    "{what}: {is:?}"
                );
                fs::remove_dir_all(some).unwrap();
            }
            matches_are_those_of_find(ground, &archives, &whole);
            for gone in ["tree/e", "tree/z/out", "tree/aside", "tree/aside*"] {
                let some = dir(ground.join("some"));
                let ran = run(fathom(args!["restore", "-C", &some])
                    .args(&archives)
                    .args(["--", gone]))
                .exits(1);
                assert!(
                    ran.stderr
                        .contains("the tree of the last archive has no file of this name"),
                    "{ran}"
                );
                assert_eq!(fs::read_dir(some).unwrap().count(), 0);
            }
        });
    }
}

#[test]
fn dry_run_prints_the_steps_of_the_restore() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let top = tmpfs(ground.join("top"));
            bush(&top, 2, 2);
            let mut archives = vec![increment(&top, ground, 0)];
            fs::rename(top.join("d0"), top.join("e")).unwrap();
            fs::remove_dir_all(top.join("d1")).unwrap();
            fs::remove_file(top.join("e/f1")).unwrap();
            symlink("e", top.join("s")).unwrap();
            archives.push(increment(&top, ground, 1));
            let copy = dir(ground.join("copy"));
            let before = kept(&copy);
            let ran = restore(&archives, &copy, &["--dry-run"]).exits(0);
            same(&kept(&copy), &before, "a dry run");
            let lines = ran.lines();
            for line in [
                "directory .",
                "file d0/f1",
                "rename d0 -> e",
                "remove d1",
                "remove e/f1",
                "symlink s -> e",
            ] {
                assert!(lines.contains(&line), "{line}: {ran}");
            }
            let dry = restore(&archives, &copy, &["-n", "--json"]).exits(0).json();
            let done = restore(&archives, &copy, &["--json"]).exits(0).json();
            for count in [
                "files",
                "directories",
                "symlinks",
                "links",
                "other",
                "bytes",
                "removed",
                "renamed",
                "skipped",
            ] {
                assert_eq!(dry["result"][count], done["result"][count], "{count}");
            }
            assert_eq!(
                dry["result"]["steps"].as_array().unwrap().len(),
                lines.len()
            );
            same(&kept(&top), &kept(&copy), "what was then done");
        });
    }
}

/// Existing entries are removed only once, with everything below them, even if several archives do
/// not list them.
#[test]
fn dry_run_counts_everything_that_is_removed() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let top = tmpfs(ground.join("top"));
            file(top.join("a/x"), 1);
            file(top.join("b/y"), 1);
            let mut archives = vec![increment(&top, ground, 0)];
            fs::remove_dir_all(top.join("a")).unwrap();
            archives.push(increment(&top, ground, 1));
            file(top.join("c/z"), 1);
            archives.push(increment(&top, ground, 2));
            let copy = dir(ground.join("copy"));
            for name in ["a/more", "old/deep/1", "old/deep/2"] {
                file(copy.join(name), 1);
            }
            let removed = |more: &str| {
                let ran = restore(&archives, &copy, &["--overwrite", "--json", more]).exits(0);
                ran.json()["result"]["removed"].clone()
            };
            assert_eq!(removed("--dry-run"), 7);
            let ran = restore(&archives, &copy, &["--overwrite", "-j1"]).exits(0);
            assert!(ran.stderr.contains("; 7 removed"), "{ran}");
            let named = "removed 2 existing entries that the increments do not list: 'a', 'old'";
            assert!(ran.stderr.contains(named), "{ran}");
            same(&kept(&top), &kept(&copy), "restored");
        });
    }
}

#[test]
fn missing_archive_of_a_chain_is_reported() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let top = tmpfs(ground.join("top"));
            bush(&top, 1, 2);
            let mut archives = vec![increment(&top, ground, 0)];
            file(top.join("d0/second"), 2);
            archives.push(increment(&top, ground, 1));
            file(top.join("d0/third"), 3);
            archives.push(increment(&top, ground, 2));
            archives.remove(1);
            let ran = restore(&archives, &ground.join("copy"), &[]).exits(1);
            assert!(
                ran.stderr.contains("'second'") && ran.stderr.contains("earlier archive"),
                "{ran}"
            );
            archives.insert(1, ground.join("nowhere"));
            let empty = dir(ground.join("empty"));
            run(fathom(args!["restore", "-C", &empty])
                .args(&archives)
                .args(["--", "x"]))
            .refused();
            assert_eq!(kept(&empty).len(), 1);
        });
    }
}

#[test]
fn mount_points_are_not_removed() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let top = tmpfs(ground.join("top"));
            bush(&top.join("a"), 2, 2);
            let mut archives = vec![increment(&top, ground, 0)];
            fs::remove_dir_all(top.join("a")).unwrap();
            archives.push(increment(&top, ground, 1));
            let copy = dir(ground.join("copy"));
            tmpfs(copy.join("a/d0"));
            file(copy.join("a/d0/deep/mine"), 1);
            let ran = restore(&archives, &copy, &["--overwrite"]).exits(1);
            assert!(ran.stderr.contains("mount point"), "{ran}");
            assert!(copy.join("a/d0/deep/mine").exists() && !copy.join("a/d1").exists());
        });
    }
}

#[test]
fn owner_can_restore_into_read_only_directories() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let top = tmpfs(ground.join("top"));
            file(top.join("a/closed/file"), 1);
            file(top.join("a/gone/deep/file"), 1);
            file(top.join("b/file"), 1);
            let close = |path: &str, mode| chmod(top.join(path), mode);
            for path in ["a/closed", "a/gone/deep", "a/gone", "a", "b"] {
                close(path, 0o555);
            }
            let mut archives = vec![increment(&top, ground, 0)];
            fs::remove_dir_all(top.join("a/gone")).unwrap();
            file(top.join("a/closed/new"), 2);
            fs::rename(top.join("b"), top.join("a/b")).unwrap();
            close("a/closed", 0o100);
            archives.push(increment(&top, ground, 1));
            file(top.join("a/closed/newer"), 2);
            archives.push(increment(&top, ground, 2));
            let own = dir(ground.join("own"));
            chown(&own, Some(1000), Some(1000)).unwrap();
            let mut restore = fathom_as_nobody(ground, args!["restore", "-C", &own]);
            restore.args(&archives);
            run(&mut restore).exits(0);
            alike(&kept(&top), &kept(&own), "as a user", |_, seen| {
                (seen.atime, seen.owner) = ((0, 0), (0, 0))
            });
        });
    }
}

#[test]
fn deep_tree_is_restored_and_removed() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let top = tmpfs(ground.join("top"));
            crate::support::build::deep(&dir(top.join("deep")), "a directory with a name", 150);
            dir(top.join("stays"));
            let mut archives = vec![increment(&top, ground, 0)];
            tool(Command::new("rm").arg("-r").arg(top.join("deep")));
            archives.push(increment(&top, ground, 1));
            let copy = ground.join("copy");
            restore(&archives[..1], &copy, &[]).exits(0);
            let depth = tool(Command::new("find").arg(&copy).args([
                "-name",
                "a directory with a name",
                "-printf",
                "x",
            ]));
            assert_eq!(depth.len(), 150);
            let ran = restore(&archives, &copy, &["--json", "--overwrite"]).exits(0);
            assert_eq!(ran.json()["result"]["removed"], 151);
            same(&kept(&top), &kept(&copy), "the deep tree");
        });
    }
}

/// Without properties in the archive, new entries do not keep the properties that they inherit from
/// their btrfs directory.
#[test]
fn properties_of_btrfs_are_not_inherited() {
    if !require(&[Need::Root, Need::Loop, Need::Program("setfattr")]) {
        return;
    }
    in_namespace(|ground| {
        assert!(mounted(BTRFS[0], &ground.join("btrfs")));
        let top = dir(ground.join("btrfs/top"));
        let property = |path: &Path| {
            let mut set = Command::new("setfattr");
            tool(
                set.args(["-n", "btrfs.compression", "-v", "zstd"])
                    .arg(path),
            );
        };
        // A file moved into a directory does not get the directory's property.
        let moved_into = |name: &str| {
            let from = dir(top.join("elsewhere")).join("moving");
            file(from.join("f"), 5000);
            fs::rename(from, top.join(name)).unwrap();
        };
        dir(top.join("d"));
        property(&top.join("d"));
        file(top.join("d/inherits"), 5000);
        moved_into("d/without");
        file(top.join("plain/f"), 10);
        let mut archives = vec![increment(&top, ground, 0)];
        moved_into("d/new");
        fs::rename(top.join("d/new/f"), top.join("d/new file")).unwrap();
        file(top.join("d/new, inherits"), 10);
        dir(top.join("d/new directory"));
        moved_into("d/new directory/without");
        archives.push(increment(&top, ground, 1));
        property(&top.join("d/without"));
        file(top.join("d/without/inherits"), 1);
        moved_into("d/without/third");
        archives.push(increment(&top, ground, 2));
        for count in [1, 3] {
            for jobs in ["-j1", "-j4"] {
                let to = dir(ground.join(format!("btrfs/to {count}{jobs}")));
                restore(&archives[..count], &to, &[jobs]).exits(0);
                if count == 3 {
                    same(&kept(&top), &kept(&to), jobs);
                }
            }
        }
        // Restore over directories that have the property.
        let to = dir(ground.join("btrfs/over"));
        for name in ["d", "plain"] {
            property(&dir(to.join(name)));
        }
        restore(&archives[..1], &to, &[]).exits(0);
        let over = kept(&to);
        let has = |name: &str| {
            over[name.as_bytes()]
                .attributes
                .contains_key(&b"btrfs.compression"[..])
        };
        // Restoring the first archive does not remove properties of existing directories.
        assert!(has("plain") && !has("plain/f"));
        assert!(has("d") && has("d/inherits") && !has("d/without") && !has("d/without/f"));
    });
}
