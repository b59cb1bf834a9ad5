//! Tests of file systems in memory, on other file systems, or read-only.

use std::process::Command;

use serde_json::json;

use super::right::{PATIENT, probed};
use super::{finding, inferred};
use crate::support::build::{dir, tmpfs};
use crate::support::disks::{BTRFS, EXT4, Make, XFS, attach, image, mounted, overlay};
use crate::support::restrict::{fail_calls, fathom_as_nobody};
use crate::support::run::{Ran, args};
use crate::support::tool::tool;
use crate::support::{Need, fathom, in_namespace, require, run};

#[test]
fn tmpfs_has_blocks_and_no_cache() {
    if require(&[Need::Root]) {
        in_namespace(|ground| {
            let at = tmpfs(ground.join("at"));
            let value = probed(&at, &["block", "readahead", "cache"]);
            assert_eq!(*inferred(&value, "allocation-block"), json!(4096));
            for name in [
                "page-cache-granule",
                "readahead-steady",
                "cache-capacity",
                "direct-io-alignment",
            ] {
                assert!(inferred(&value, name).is_null(), "{name}: {value}");
            }
            // tmpfs has no cold prices.
            let value = probed(&at, &["gates"]);
            let prices = value["result"]["prices"].as_array().unwrap();
            assert!(
                prices.iter().any(|price| price["gate"] == "pread64"),
                "{value}"
            );
            assert!(
                prices.iter().all(|price| price["state"] == "warm"),
                "{value}"
            );
        });
    }
}

#[test]
fn huge_pages_of_tmpfs_are_not_compared_with_statfs() {
    // Kernels may be built without huge pages.
    let huge_pages = Need::File("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
    if require(&[Need::Root, huge_pages]) {
        in_namespace(|ground| {
            let at = dir(ground.join("at"));
            rustix::mount::mount(
                "huge",
                &at,
                "tmpfs",
                rustix::mount::MountFlags::empty(),
                c"huge=always",
            )
            .unwrap();
            let value = probed(&at, &["block"]);
            let block = finding(&value, "allocation-block");
            assert!(block["inferred"].is_number(), "{block}");
            assert!(block["agrees"].is_null(), "{block}");
        });
    }
}

#[test]
fn compressed_files_have_the_same_units() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|ground| {
            let at = ground.join("at");
            assert!(mounted(BTRFS[1], &at));
            let value = probed(&at, &["block", "readahead", "extent"]);
            for name in ["allocation-block", "cluster", "page-cache-granule"] {
                assert_eq!(*inferred(&value, name), json!(4096), "{name}: {value}");
            }
            assert_eq!(
                finding(&value, "readahead-steady")["agrees"],
                true,
                "{value}"
            );
        });
    }
}

#[test]
fn unprivileged_user_gets_all_but_the_cgroup_experiments() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|ground| {
            let disk = ground.join("disk");
            assert!(mounted(EXT4[1], &disk));
            let at = dir(disk.join("at"));
            std::os::unix::fs::chown(&at, Some(1000), Some(1000)).unwrap();
            let probed = || {
                let mut command = fathom_as_nobody(ground, args!["probe", &at, "--json"]);
                run(command.args(PATIENT))
            };
            // On a busy machine the observed windows may differ: then the window is unknown.
            let is_known =
                |ran: &Ran| !finding(&ran.json(), "readahead-steady")["agrees"].is_null();
            let mut ran = probed();
            for _ in 0..4 {
                if !is_known(&ran) {
                    ran = probed();
                }
            }
            let value = ran.json();
            assert_eq!(*inferred(&value, "allocation-block"), json!(1024), "{ran}");
            assert_eq!(finding(&value, "readahead-steady")["agrees"], true, "{ran}");
            assert!(
                finding(&value, "cache-capacity")["method"]
                    .as_str()
                    .unwrap()
                    .contains("run as root"),
                "{ran}"
            );
            assert!(
                value["result"]["prices"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|price| price["gate"] == "fsync"),
                "{ran}"
            );
            assert!(super::names(&at).is_empty());
        });
    }
}

#[test]
fn blocks_larger_than_a_page_are_cached_as_a_whole() {
    // XFS with blocks larger than a page.
    if require(&[Need::Root, Need::Loop, Need::Linux(6, 12)]) {
        in_namespace(|ground| {
            let (at, file) = (dir(ground.join("at")), ground.join("image"));
            let make = Make {
                mkfs: "-b size=16384",
                ..XFS[0]
            };
            image(make, 600, &file);
            let device = attach(&file);
            rustix::mount::mount(
                &device.0,
                &at,
                "xfs",
                rustix::mount::MountFlags::empty(),
                None,
            )
            .unwrap();
            let value = probed(&at, &["block"]);
            for name in ["allocation-block", "cluster", "page-cache-granule"] {
                assert_eq!(*inferred(&value, name), json!(16384), "{name}: {value}");
            }
        });
    }
}

#[test]
fn an_overlay_has_the_readahead_of_its_upper_layer() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|ground| {
            let disk = ground.join("disk");
            assert!(mounted(
                crate::support::disks::Make {
                    mkfs: "-b 1024",
                    ..EXT4[0]
                },
                &disk
            ));
            let at = overlay(&disk, &ground.join("at"));
            let value = probed(&at, &["block", "readahead"]);
            assert_eq!(*inferred(&value, "allocation-block"), json!(1024));
            assert_eq!(*inferred(&value, "page-cache-granule"), json!(4096));
            let steady = finding(&value, "readahead-steady");
            assert!(
                steady["agrees"] != false && steady["truth"].is_number(),
                "{steady}"
            );
        });
    }
}

#[test]
fn without_fiemap_the_reads_of_the_device_are_counted() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|ground| {
            let at = ground.join("at");
            assert!(mounted(EXT4[0], &at));
            let mut command = fathom(args!["probe", &at, "extent", "--json"]);
            command.args(PATIENT);
            fail_calls(
                &mut command,
                &[u32::try_from(libc::SYS_ioctl).unwrap()],
                libc::EOPNOTSUPP,
            );
            let value = run(&mut command).exits(0).json();
            let reads = inferred(&value, "device-reads-per-mebibyte").as_u64();
            assert!(
                reads.is_some_and(|reads| (1..=256).contains(&reads)),
                "{value}"
            );
        });
    }
}

#[test]
fn fuse_has_a_granule_and_a_readahead() {
    if require(&[Need::Root, Need::Fuse, Need::Program("bindfs")]) {
        in_namespace(|ground| {
            let (from, at) = (tmpfs(ground.join("from")), dir(ground.join("at")));
            tool(Command::new("bindfs").arg(&from).arg(&at));
            let value = probed(&at, &["block", "readahead"]);
            assert_eq!(*inferred(&value, "page-cache-granule"), json!(4096));
            assert_eq!(
                finding(&value, "readahead-steady")["agrees"],
                true,
                "{value}"
            );
            crate::support::build::unmount(&at);
        });
    }
}

#[test]
fn a_read_only_file_system_warns_of_what_cannot_be_done() {
    if require(&[Need::Root, Need::Loop, Need::Program("mksquashfs")]) {
        in_namespace(|ground| {
            let (from, image, at) = (
                dir(ground.join("from")),
                ground.join("image"),
                dir(ground.join("at")),
            );
            std::fs::write(from.join("file"), "content").unwrap();
            tool(
                Command::new("mksquashfs")
                    .arg(&from)
                    .arg(&image)
                    .arg("-quiet"),
            );
            let device = attach(&image);
            let read_only = rustix::mount::MountFlags::RDONLY;
            rustix::mount::mount(&device.0, &at, "squashfs", read_only, None).unwrap();
            let ran = run(fathom(args!["probe", &at, "--json"]).args(PATIENT)).exits(1);
            let value = ran.json();
            assert_eq!(value["result"]["fstype"], "squashfs");
            for warning in value["warnings"].as_array().unwrap() {
                assert_eq!(warning["errno"], "EROFS", "{ran}");
            }
            assert!(inferred(&value, "timer").is_string());
            // Calls that need no temporary file have prices.
            let prices = value["result"]["prices"].as_array().unwrap();
            let of = |gate: &str| {
                prices
                    .iter()
                    .any(|price| price["gate"] == gate && price["ns"].as_f64().unwrap() > 0.0)
            };
            assert!(
                ["getppid", "statx", "openat+close", "getdents64"]
                    .into_iter()
                    .all(of),
                "{ran}"
            );
            assert!(!of("unlinkat"));
        });
    }
}
