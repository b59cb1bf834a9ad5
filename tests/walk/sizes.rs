//! Tests of very deep, very wide, empty, full and unreadable trees.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, unlinkat};

use super::engines::still;
use super::right::{
    census_of, engines, every_engine_agrees, every_engine_is_right, objects, same, walk,
};
use crate::support::build::{bush, chmod, deep, dir, file, unmount_whole};
use crate::support::disks::{BTRFS, EXT4, Make, XFS, image, mount_image, mounted};
use crate::support::effort::effort;
use crate::support::reference::{Census, census};
use crate::support::restrict::{fathom_as_nobody, limit_memory, limit_open_files};
use crate::support::run::{args, calls, path};
use crate::support::trees::grow;
use crate::support::{Need, fathom, in_namespace, require, run};

const DISK: [Need; 2] = [Need::Root, Need::Loop];

/// Creates one file system of each type.
fn each(makes: &[Make], look: impl Fn(&Path, &[&str], &str) + Sync) {
    for make in makes {
        in_namespace(|base| {
            let at = base.join("disk");
            assert!(mounted(*make, &at));
            look(
                &at,
                engines(make.fstype),
                &format!("{} with {}", make.fstype, make.name),
            );
        });
    }
}

fn ext4(name: &str) -> Make {
    *EXT4.iter().find(|make| make.name == name).unwrap()
}

/// The tree is so deep that no path leads to its bottom: PATH_MAX is 4,096 bytes.
#[test]
fn thousands_of_directories_deep() {
    if require(&DISK) {
        let depth = effort(2_200, 4_000);
        each(&[EXT4[0], XFS[0], BTRFS[0]], |at, engines, what| {
            let last = deep(at, "d", depth);
            rustix::fs::openat(
                &last,
                "at the bottom",
                OFlags::CREATE | OFlags::WRONLY,
                Mode::from(0o644),
            )
            .unwrap();
            every_engine_agrees(at, engines, what);
        });
        in_namespace(|base| {
            let top = still(base);
            deep(top, "d", depth);
            let mut few = fathom(args!["walk", top, "--engine", "threads", "--json"]);
            let limited = limit_open_files(&mut few, 64);
            assert_eq!(
                run(limited).exits(0).json()["result"]["max_depth"],
                depth,
                "with 64 open files at most"
            );
            every_engine_agrees(top, &["stat", "threads"], "tmpfs");
        });
    }
}

/// The benchmarks test a million entries in a directory. With 20,000, the structures that grow with
/// them exist already: hash trees of two levels, indirect blocks.
#[test]
fn many_thousand_entries_in_one_directory() {
    if require(&DISK) {
        each(
            &[EXT4[0], ext4("ext3 with 1K blocks"), XFS[0], BTRFS[0]],
            |at, engines, what| {
                let (wide, entries) = (dir(at.join("wide")), effort(20_000, 50_000));
                for n in 0..entries {
                    // The file systems have fewer inodes than the test needs names.
                    if n % 10 == 0 {
                        File::create(wide.join(format!("entry number {n}"))).unwrap();
                    } else {
                        let first = wide.join(format!("entry number {}", n - n % 10));
                        fs::hard_link(first, wide.join(format!("entry number {n}"))).unwrap();
                    }
                }
                every_engine_agrees(at, engines, what);
                // The plan reads the first entries a few times, and estimates the others by the
                // size of the directory.
                let ran = run(&mut fathom(args!["walk", &wide, "--explain", "--json"]))
                    .exits(0)
                    .json();
                let reads = calls(&ran["gates"])["getdents64"];
                assert!(
                    reads <= 100,
                    "{what}: it was read {reads} times to weigh the engines"
                );
                let why = ran["result"]["why"].as_str().unwrap();
                let about = why
                    .split("about ")
                    .nth(1)
                    .and_then(|rest| rest.split(' ').next())
                    .unwrap()
                    .replace(',', "");
                let about: u64 = about.parse().unwrap();
                let entries = entries as u64;
                let range = entries * 7 / 10..=entries * 3 / 2;
                assert!(range.contains(&about), "{what}: {why}");
            },
        );
    }
}

#[test]
fn empty_directory() {
    if require(&DISK) {
        each(&EXT4[..4], |at, engines, what| {
            every_engine_is_right(at, engines, what);
            fs::remove_dir(at.join("lost+found")).unwrap();
            every_engine_is_right(at, engines, &format!("{what}, one inode"));
            every_engine_is_right(
                &dir(at.join("empty")),
                engines,
                &format!("{what}, an empty directory"),
            );
        });
        each(&[XFS[0], BTRFS[0]], |at, engines, what| {
            every_engine_is_right(at, engines, what);
            every_engine_is_right(
                &dir(at.join("empty")),
                engines,
                &format!("{what}, an empty directory"),
            );
        });
        in_namespace(|base| every_engine_is_right(still(base), engines("tmpfs"), "an empty tmpfs"));
    }
}

#[test]
fn full_disks() {
    if require(&DISK) {
        let few = Make {
            mkfs: "-N 200",
            ..EXT4[0]
        };
        each(
            &[EXT4[0], few, ext4("ext3 with 1K blocks"), XFS[0], BTRFS[0]],
            |at, engines, what| {
                let mut n = 0;
                // Fill the disk with large files, then with small ones, then with empty ones.
                for size in [64 << 20, 64 << 10, 0] {
                    while n < 3000
                        && fs::write(at.join(format!("file {n}")), vec![b'x'; size]).is_ok()
                    {
                        n += 1;
                    }
                }
                every_engine_is_right(at, engines, what);
            },
        );
    }
}

/// Open files without a name: they are in the inode tables, but no walk emits them.
#[test]
fn orphaned_inodes_are_not_emitted() {
    if require(&DISK) {
        each(
            &[EXT4[0], ext4("orphan_file"), ext4("ext2"), XFS[0], BTRFS[0]],
            |at, engines, what| {
                grow(&dir(at.join("tree")), 1, 50);
                let orphans: Vec<File> = (0..50)
                    .map(|n| {
                        let path = file(at.join(format!("tree/orphan {n}")), 5000);
                        let open = File::open(&path).unwrap();
                        fs::remove_file(path).unwrap();
                        open
                    })
                    .collect();
                let nameless =
                    rustix::fs::open(at, OFlags::TMPFILE | OFlags::WRONLY, Mode::from(0o600)).ok();
                let gone = File::open(dir(at.join("tree/gone"))).unwrap();
                fs::remove_dir(at.join("tree/gone")).unwrap();
                every_engine_is_right(at, engines, what);
                drop((orphans, nameless, gone));
            },
        );
    }
}

/// Read-only mounts. Even such a mount replays the journal of an unclean unmount, so raw engines
/// need not.
#[test]
fn read_only_mounts() {
    if require(&DISK) {
        for make in [
            EXT4[0],
            ext4("^has_journal"),
            ext4("ext2"),
            XFS[0],
            BTRFS[0],
        ] {
            in_namespace(|base| {
                let (at, disk) = (base.join("disk"), base.join("image"));
                image(
                    make,
                    if make.fstype.starts_with("ext") {
                        64
                    } else {
                        400
                    },
                    &disk,
                );
                for flags in [
                    rustix::mount::MountFlags::NOATIME,
                    rustix::mount::MountFlags::RDONLY,
                ] {
                    assert!(mount_image(make, &disk, &dir(&at), flags));
                    if flags == rustix::mount::MountFlags::NOATIME {
                        grow(&dir(at.join("tree")), 1, 200);
                        unmount_whole(&at);
                    } else {
                        every_engine_is_right(
                            &at,
                            engines(make.fstype),
                            &format!("{}, read-only", make.fstype),
                        );
                    }
                }
            });
        }
    }
}

#[test]
fn directories_without_read_permission() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let top = still(&base.join("top")).to_owned();
            for closed in ["closed", "within/closed", "listable"] {
                grow(&dir(top.join(closed)), 1, 20);
            }
            file(top.join("open/file"), 3);
            let mode = |at: &str, mode| chmod(top.join(at), mode);
            mode("closed", 0o700);
            mode("within/closed", 0o711);
            mode("listable", 0o744);
            let seen = |path: &[u8]| {
                let root = top.as_os_str().as_bytes();
                let inside = |at: &str| path.starts_with(&[root, at.as_bytes()].concat());
                !inside("/closed/") && !inside("/within/closed/") && !inside("/listable/")
            };
            let expected: Census = census(&top)
                .into_iter()
                .filter(|(path, _)| seen(path))
                .collect();
            for engine in ["stat", "threads", "auto"] {
                let mut command = fathom_as_nobody(
                    base,
                    args!["walk", &top, "--engine", engine, "--format", "ndjson"],
                );
                let ran = run(&mut command).exits(1);
                assert_eq!(census_of(&objects(&ran)), expected, "{engine}");
                let mut command =
                    fathom_as_nobody(base, args!["walk", &top, "--engine", engine, "--json"]);
                let value = run(&mut command).exits(1).json();
                let warnings = value["warnings"].as_array().unwrap();
                for closed in ["closed", "within/closed", "listable"] {
                    assert!(
                        warnings
                            .iter()
                            .any(|w| path(w, "path").starts_with(top.join(closed))),
                        "{closed}: {warnings:?}"
                    );
                }
                assert!(
                    warnings.iter().all(|w| w["errno"] == "EACCES"),
                    "{warnings:?}"
                );
            }
        });
    }
}

/// An unprivileged user walks a disk with the engines that need no privilege.
#[test]
fn unprivileged_user_on_a_disk() {
    if require(&DISK) {
        each(&[EXT4[0], XFS[0], BTRFS[0]], |at, engines, what| {
            let tree = dir(at.join("tree"));
            for n in 0..20 {
                file(tree.join(format!("d{n}/file")), n);
            }
            in_namespace(|other| {
                for engine in ["auto", "stat", "threads"] {
                    let mut command = fathom_as_nobody(
                        other,
                        args!["walk", &tree, "--engine", engine, "--format", "ndjson"],
                    );
                    same(
                        &census_of(&objects(&run(&mut command).exits(0))),
                        &census(&tree),
                        what,
                    );
                }
                let mut command = fathom_as_nobody(
                    other,
                    args!["walk", &tree, "--engine", engines.last().unwrap()],
                );
                let ran = run(&mut command).refused();
                assert!(
                    ran.stderr.contains("root") && ran.stderr.contains("--explain"),
                    "what would help: {ran}"
                );
            });
        });
    }
}

/// 60,000 entries in 48 MiB: memory use must not grow with the tree.
#[test]
fn memory_use_is_bounded() {
    if require(&DISK) {
        each(
            &[
                Make {
                    mkfs: "-N 70000",
                    ..EXT4[0]
                },
                XFS[0],
                BTRFS[0],
            ],
            |at, engines, what| {
                bush(at, 600, 100);
                let mut digests = BTreeSet::new();
                for engine in engines {
                    let mut command =
                        fathom(args!["walk", at, "--engine", engine, "-j", "4", "--json"]);
                    limit_memory(&mut command, 48);
                    digests
                        .insert(run(&mut command).exits(0).json()["result"]["digest"].to_string());
                }
                assert_eq!(digests.len(), 1, "{what}");
            },
        );
    }
}

/// More threads than the limit of open files, each of which would keep a directory open.
#[test]
fn many_threads_with_a_low_limit_of_descriptors() {
    if require(&DISK) {
        each(&[EXT4[0], XFS[0], BTRFS[0]], |at, engines, what| {
            bush(at, 400, 10);
            let mut digests = BTreeSet::new();
            for engine in engines {
                let mut command = fathom(args![
                    "walk", at, "--engine", engine, "-j", "65535", "--json"
                ]);
                let value = run(limit_open_files(&mut command, 24)).exits(0).json();
                digests.insert(value["result"]["digest"].to_string());
            }
            assert_eq!(digests.len(), 1, "{what}");
        });
    }
}

#[test]
fn directory_removed_meanwhile_is_no_failure() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let top = still(base);
            let gone = dir(top.join("gone"));
            rustix::process::chdir(&gone).unwrap();
            unlinkat(CWD, &gone, AtFlags::REMOVEDIR).unwrap();
            let lines = objects(&walk(Path::new("."), "stat", &["--format", "ndjson"]).exits(0));
            rustix::process::chdir("/").unwrap();
            assert_eq!(lines.len(), 1);
            assert_eq!(lines[0]["nlink"], 0);
        });
    }
}
