//! Tests of the number of system calls of a dump, and of its own counts.

use std::path::Path;

use super::everything::everything;
use super::full::NEEDS;
use crate::support::build::{dir, file, tmpfs};
use crate::support::disks::{BTRFS, EXT4, XFS, mounted};
use crate::support::effort::effort;
use crate::support::run::{args, calls};
use crate::support::strace::{agree, less_start};
use crate::support::{Need, fathom, in_namespace, require, run};

fn all_agree(ground: &Path, tree: &Path) {
    for way in ["percall", "combined", "batched", "raw"] {
        for jobs in ["1", "3"] {
            let out = ground.join("archive.tar");
            let arguments = args![
                "dump", tree, "-o", out, "--gather", way, "-j", jobs, "--json"
            ];
            let traced = less_start(&ground.join("log"), arguments);
            agree(
                &traced.ran.exits(0).json()["gates"],
                &traced.counts,
                &format!("{way} -j {jobs}"),
            );
        }
    }
}

#[test]
fn gates_count_the_calls_that_strace_counts() {
    if require(&NEEDS) && require(&[Need::Program("strace")]) {
        in_namespace(|ground| {
            let makes = [Some(EXT4[0]), Some(XFS[0]), Some(BTRFS[0]), None];
            for make in makes.into_iter().take(effort(2, 4)) {
                let at = ground.join(make.map_or("tmpfs", |make| make.fstype));
                match make {
                    Some(make) => assert!(mounted(make, &at)),
                    None => drop(tmpfs(&at)),
                }
                let tree = dir(at.join("tree"));
                everything(&tree, false);
                all_agree(ground, &tree);
            }
        });
    }
}

/// A file costs four calls beyond gathering, if it is known to have no extended attributes.
#[test]
fn small_file_costs_four_calls() {
    if require(&NEEDS) {
        in_namespace(|ground| {
            for make in [EXT4[0], XFS[0]] {
                let at = ground.join(make.fstype);
                assert!(mounted(make, &at));
                let (directories, files) = (20, 100);
                for d in 0..directories {
                    (0..files).for_each(|f| drop(file(at.join(format!("tree/d{d}/f{f}")), 100)));
                }
                // `raw` calls statx(2) for recently changed files.
                std::thread::sleep(std::time::Duration::from_millis(1500));
                let arguments = args![
                    "dump",
                    at.join("tree"),
                    "-o",
                    ground.join("archive.tar"),
                    "--gather",
                    "raw",
                    "--json"
                ];
                let gates = calls(&run(&mut fathom(arguments)).exits(0).json()["gates"]);
                let total: u64 = gates.values().sum();
                let files = directories * files;
                for (gate, most) in [
                    ("read", files + 20),
                    ("openat", files + 50),
                    ("statx", files + 50),
                ] {
                    assert!(
                        (files..=most).contains(&gates[gate]),
                        "{}: {gate}: {gates:?}",
                        make.fstype
                    );
                }
                // XFS reports possible attributes for files whose inode has room for some, so they
                // need flistxattr(2).
                let asked = gates.get("flistxattr").copied().unwrap_or(0);
                assert!(
                    asked == if make.fstype == "ext4" { 0 } else { files },
                    "{gates:?}"
                );
                let beyond = total - 4 * files - asked;
                assert!(
                    beyond < 10 * directories + 150,
                    "{}: {beyond} calls more: {gates:?}",
                    make.fstype
                );
            }
        });
    }
}

/// Writeback of each MiB is started while the archive is being written.
#[test]
fn archive_is_synced_while_it_is_written() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            tmpfs(ground.join("a"));
            let (tree, out) = (ground.join("a/tree"), ground.join("archive.tar"));
            file(tree.join("large"), 5 << 20);
            (0..40).for_each(|f| drop(file(tree.join(format!("f{f}")), 50_000)));
            let value = run(&mut fathom(args!["dump", tree, "-o", out, "--json"]))
                .exits(0)
                .json();
            let (gates, bytes) = (
                calls(&value["gates"]),
                value["result"]["archive_bytes"].as_u64().unwrap(),
            );
            // At most one call per MiB, and at least one per piece that the reader passes on.
            assert!(
                (2..=bytes >> 20).contains(&gates["sync_file_range"]),
                "{bytes} bytes: {gates:?}"
            );
            // Writeback is not started for a device.
            let value = run(&mut fathom(args![
                "dump",
                tree,
                "-o",
                "/dev/null",
                "--json"
            ]))
            .exits(0)
            .json();
            assert!(
                !calls(&value["gates"]).contains_key("sync_file_range"),
                "{value}"
            );
        });
    }
}

/// `raw` makes at most a fifth of the calls that `percall` makes.
#[test]
fn ways_of_gathering_differ_in_calls() {
    if require(&NEEDS) {
        in_namespace(|ground| {
            let at = ground.join("ext4");
            assert!(mounted(EXT4[0], &at));
            for d in 0..20 {
                (0..100).for_each(|f| drop(file(at.join(format!("tree/d{d}/f{f}")), 100)));
            }
            let calls = |way: &str| {
                let arguments = args![
                    "dump",
                    at.join("tree"),
                    "--no-output",
                    "--gather",
                    way,
                    "--json"
                ];
                calls(&run(&mut fathom(arguments)).exits(0).json()["gates"])
                    .values()
                    .sum::<u64>()
            };
            let [percall, combined, raw] = ["percall", "combined", "raw"].map(calls);
            assert!(
                raw < combined && combined < percall,
                "{percall} {combined} {raw}"
            );
            // All methods need four calls to read a file.
            let reading = 4 * 2000;
            assert!(5 * (raw - reading) < percall - reading, "{percall} {raw}");
        });
    }
}
