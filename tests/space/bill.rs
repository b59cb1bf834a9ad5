//! Tests of every kind of item, on each file system.

use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::fs::{XattrFlags, fsetxattr};
use rustix::mount::{MountFlags, mount};

use super::{MIB, bytes, check, check_items, file, grow, item, space};
use crate::support::build::{bind, dir, name, tmpfs};
use crate::support::disks::{
    BTRFS, EXT4, Make, XFS, XFS_WITH_OWNERS, XFS_WITHOUT_OWNERS, mounted, overlay,
};
use crate::support::run::args;
use crate::support::tool::tool;
use crate::support::{Need, fathom, in_namespace, require, run};

/// A field of `tune2fs -l`.
fn tuned(at: &Path, field: &str) -> i64 {
    let text = tool(
        Command::new("tune2fs")
            .arg("-l")
            .arg(at.with_extension("image")),
    );
    let text = String::from_utf8(text).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(field))
        .unwrap();
    line.trim_start_matches(':').trim().parse().unwrap()
}

#[test]
fn ext4_is_accounted_for_to_a_few_blocks() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|base| {
            for nth in [0, 1, 3, 5, 9, 14, 17, 30] {
                let at = base.join(format!("ext4-{nth}"));
                if !mounted(EXT4[nth], &at) {
                    continue;
                }
                let holder = grow(&at);
                let result = space(&at);
                check(&result, &at, 5);
                check_items(&result, &at, &holder);
                let block = tuned(&at, "Block size");
                let reserved = result["items"].as_array().unwrap().iter();
                let root = reserved
                    .filter(|it| it["part"] == "root")
                    .map(bytes)
                    .sum::<i64>();
                assert_eq!(
                    root,
                    tuned(&at, "Reserved block count") * block,
                    "{:?}",
                    EXT4[nth]
                );
                let others = result["items"].as_array().unwrap().iter();
                let others = others.filter(|it| {
                    ["tables", "journal"]
                        .contains(&it["part"].as_str().unwrap_or(it["kind"].as_str().unwrap()))
                });
                let overhead: i64 = others.map(bytes).sum();
                let size = result["size"].as_i64().unwrap();
                assert_eq!(
                    size + overhead,
                    tuned(&at, "Block count") * block,
                    "{:?}",
                    EXT4[nth]
                );
            }
        });
    }
}

/// Each of the files counts the block with their attributes, which they share.
#[test]
fn attributes_that_files_share_count_once() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|base| {
            for nth in [0, 3, 7, 9, 14] {
                let at = base.join(format!("ext4-{nth}"));
                assert!(mounted(EXT4[nth], &at));
                for number in 0..600 {
                    let file = fs::File::create(at.join(number.to_string())).unwrap();
                    let value = [if number % 3 == 0 { b'a' } else { b'b' }; 700];
                    fsetxattr(&file, "user.shared", &value, XattrFlags::empty()).unwrap();
                }
                let result = space(&at);
                let frsize = rustix::fs::statvfs(&at).unwrap().f_frsize.cast_signed();
                let block = if nth == 14 { 16384 } else { frsize };
                assert_eq!(bytes(item(&result, "shared", None)), -598 * block);
                // An empty file system has a block that no file has.
                let rest = result["unaccounted"].as_i64().unwrap();
                assert!(rest.abs() <= block, "{rest}: {result:#}");
            }
        });
    }
}

#[test]
fn a_reserve_for_a_user_is_not_for_root() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|base| {
            let at = base.join("ext4");
            assert!(mounted(EXT4[0], &at));
            let reserves = || {
                let result = space(&at);
                let items = result["items"].as_array().unwrap().iter();
                let of_users = items.filter(|it| it["part"] == "root" || it["part"] == "user");
                let of_users =
                    of_users.map(|it| (it["part"].clone(), it["owner"].clone(), bytes(it)));
                of_users.collect::<Vec<_>>()
            };
            let before = reserves();
            let remount = ["-o", "remount,resuid=54321"];
            tool(Command::new("mount").args(remount).arg(&at));
            let bytes = before[0].2;
            assert_eq!(reserves(), [("user".into(), "54321".into(), bytes)]);
        });
    }
}

#[test]
fn xfs_is_accounted_for_with_and_without_owners() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|base| {
            let none = Make {
                name: "none",
                mkfs: "-m reflink=0,rmapbt=0",
                ..XFS[0]
            };
            for (make, most) in [(XFS_WITH_OWNERS, 0), (XFS_WITHOUT_OWNERS, 10), (none, 10)] {
                let at = base.join(make.name);
                assert!(mounted(make, &at));
                let holder = grow(&at);
                let is_shared = make.name != "none";
                if is_shared {
                    dir(at.join("copies"));
                    for copy in ["copies/one", "copies/two"] {
                        let mut cp = Command::new("cp");
                        tool(
                            cp.arg("--reflink=always")
                                .arg(at.join("a/b/big"))
                                .arg(at.join(copy)),
                        );
                    }
                    tool(Command::new("sync").arg("-f").arg(&at));
                }
                let result = space(&at);
                check(&result, &at, most);
                check_items(&result, &at, &holder);
                if is_shared {
                    let copies = bytes(item(&result, "files", Some(&at.join("copies"))));
                    let shared = bytes(item(&result, "shared", None));
                    let near = (copies + shared).unsigned_abs();
                    assert!(near < MIB && shared < 0, "{make:?}: {copies} {shared}");
                    // The owners and ages count shared blocks like the directories do.
                    let ran = run(&mut fathom(args!["space", &at, "-q"]));
                    let text = String::from_utf8_lossy(&ran.stdout);
                    let lines = text.lines().filter(|line| line.starts_with("by "));
                    let lines: Vec<_> = lines.collect();
                    assert!(
                        lines.len() == 2
                            && lines
                                .iter()
                                .all(|it| it.contains(", counted more than once -")),
                        "{text}"
                    );
                }
            }
        });
    }
}

#[test]
fn btrfs_is_accounted_for_to_a_few_blocks() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|base| {
            for (nth, make) in BTRFS.into_iter().enumerate() {
                let at = base.join(format!("btrfs-{nth}"));
                assert!(mounted(make, &at));
                let holder = grow(&at);
                let result = space(&at);
                check(&result, &at, 20);
                check_items(&result, &at, &holder);
            }
        });
    }
}

#[test]
fn tmpfs_is_accounted_for_exactly() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let at = tmpfs(base.join("tmpfs"));
            let holder = grow(&at);
            let result = space(&at);
            check(&result, &at, 0);
            check_items(&result, &at, &holder);
        });
    }
}

#[test]
fn any_directory_leads_to_the_whole_file_system() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|base| {
            let at = base.join("ext4");
            assert!(mounted(EXT4[0], &at));
            dir(at.join("a/b"));
            file(&at.join("c"), MIB);
            let part = bind(at.join("a"), base.join("part"));
            for inside in [at.join("a/b"), part.join("b")] {
                let result = space(&inside);
                assert_eq!(result["mount_point"], at.to_str().unwrap());
                check(&result, &at, 5);
            }
        });
    }
}

#[test]
fn the_next_command_is_named() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let at = tmpfs(base.join("tmpfs"));
            let large = dir(at.join("large one/deep"));
            file(&large.join("f"), 2 * MIB);
            file(&dir(at.join("small")).join("f"), MIB);
            file(&at.join("in root"), 3 * MIB);
            let whole = "the sizes are those of the whole file system";
            let next = format!(
                "next: fathom walk -x --format du '{}/large one'\n",
                at.display()
            );
            for (inside, is_whole) in [(&at, false), (&large, true)] {
                let ran = run(&mut fathom(args!["space", inside.as_os_str()])).exits(0);
                assert_eq!(ran.stderr.contains(whole), is_whole, "{ran}");
                assert!(ran.stderr.contains(&next), "{ran}");
            }
        });
    }
}

#[test]
fn the_next_command_counts_files_if_inodes_are_scarce() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let at = dir(base.join("tmpfs"));
            let (flags, options) = (MountFlags::empty(), c"nr_inodes=20");
            mount("some tmpfs", &at, "tmpfs", flags, options).unwrap();
            for n in 0..18 {
                file(&at.join(format!("f{n}")), 1);
            }
            let ran = run(&mut fathom(args!["space", &at])).exits(0);
            let options = "-x --format du --sort count --top 10";
            let next = format!("next: fathom walk {options} {}\n", at.display());
            assert!(ran.stderr.contains(&next), "{ran}");
            let words = args![
                "walk", "-x", "--format", "du", "--sort", "count", "--top", "10"
            ];
            run(fathom(words).arg(&at)).exits(0);
        });
    }
}

#[test]
fn a_directory_that_is_mounted_on_itself_hides_nothing() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let at = tmpfs(base.join("tmpfs"));
            file(&dir(at.join("a")).join("f"), MIB);
            bind(at.join("a"), at.join("a"));
            let result = space(&at);
            check(&result, &at, 0);
            assert_eq!(
                bytes(item(&result, "files", Some(&at.join("a")))),
                MIB.cast_signed()
            );
        });
    }
}

/// The command that lists hidden files changes no mount outside its own namespace.
#[test]
fn hidden_files_are_listed_without_covering_mounts() {
    if require(&[Need::Root, Need::Program("bash"), Need::Program("unshare")]) {
        in_namespace(|base| {
            let at = tmpfs(base.join(name(b"it's \xff\n")));
            let place = dir(at.join("back up/disk"));
            file(&place.join("covered"), MIB);
            tmpfs(&place);
            file(&place.join("live"), MIB);
            let args = args!["space", at.as_os_str(), "--json"];
            let result = run(&mut fathom(args)).exits(0).json()["result"].clone();
            let command = item(&result, "hidden", None)["command"].as_str().unwrap();
            let mounts = || fs::read("/proc/thread-self/mountinfo").unwrap();
            let before = mounts();
            let listed = tool(Command::new("bash").args(["-c", command]));
            let listed = String::from_utf8_lossy(&listed);
            assert!(
                listed.contains(" covered\n") && !listed.contains("live"),
                "{command}: {listed}"
            );
            assert!(mounts() == before && place.join("live").exists());
        });
    }
}

#[test]
fn files_beneath_a_mount_on_a_file_are_found() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let at = tmpfs(base.join("tmpfs"));
            let covered = file(&at.join("hosts"), MIB);
            let other = file(&base.join("other"), 4096);
            bind(&other, &covered);
            let result = space(&at);
            check(&result, &at, 0);
            let hidden = item(&result, "hidden", Some(&covered));
            assert_eq!(bytes(hidden), MIB.cast_signed());
            let command = hidden["command"].as_str().unwrap();
            let listed = format!("ls -la {}'", covered.display());
            assert!(command.ends_with(&listed), "{command}");
        });
    }
}

#[test]
fn an_overlay_has_the_space_of_its_layer() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let parts = tmpfs(base.join("parts"));
            let at = overlay(&parts, &base.join("overlay"));
            file(&dir(at.join("d")).join("f"), MIB);
            let result = space(&at);
            assert_eq!(
                bytes(item(&result, "files", Some(&at.join("d")))),
                MIB.cast_signed()
            );
            assert_eq!(result["fstype"], "overlay");
        });
    }
}

#[test]
fn caches_are_parts_of_the_files() {
    if require(&[Need::Root]) {
        in_namespace(|_| {
            let at = tmpfs("/var/log");
            let journal = dir(at.join("journal/id")).join("system.journal");
            file(&journal, 102 * MIB);
            fs::write(at.join("syslog"), "x").unwrap();
            let result = space(&at);
            check(&result, &at, 0);
            let caches = result["caches"].as_array().unwrap();
            assert_eq!(caches.len(), 1);
            assert_eq!(caches[0]["path"], "/var/log/journal");
            assert_eq!(caches[0]["bytes"], 102 * MIB);
            assert_eq!(caches[0]["frees"], 2 * MIB);
            assert_eq!(caches[0]["command"], "journalctl --vacuum-size=100M");
        });
    }
}
