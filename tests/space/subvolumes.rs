//! Tests of subvolumes and snapshots of btrfs.

use std::fs;
use std::process::Command;

use rustix::mount::{MountFlags, mount};

use super::{MIB, bytes, check, file, item, space};
use crate::support::build::{dir, unmount};
use crate::support::disks::{BTRFS, attach, mounted, subvolume};
use crate::support::tool::tool;
use crate::support::{Need, in_namespace, require};

/// A field of `btrfs filesystem usage -b` whose last word is a number.
fn usage(at: &std::path::Path, field: &str) -> i64 {
    let text = tool(
        Command::new("btrfs")
            .args(["filesystem", "usage", "-b"])
            .arg(at),
    );
    let text = String::from_utf8(text).unwrap();
    let line = text
        .lines()
        .find(|line| line.trim_start().starts_with(field))
        .unwrap();
    let words = line
        .split([' ', ':', '\t', ','])
        .filter_map(|word| word.parse().ok());
    words.take(1).next().unwrap()
}

#[test]
fn extents_count_once_with_the_subvolumes_that_hold_them() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|base| {
            let at = base.join("btrfs");
            assert!(mounted(BTRFS[0], &at));
            file(&dir(at.join("a")).join("kept"), 8 * MIB);
            file(&at.join("a/removed"), 16 * MIB);
            file(&at.join("a/removed later"), 4 * MIB);
            tool(Command::new("sync").arg("-f").arg(&at));
            let sub = subvolume(&at.join("sub"), None);
            file(&sub.join("own"), 2 * MIB);
            let first = subvolume(&at.join("a/first"), Some(&at));
            fs::remove_file(at.join("a/removed")).unwrap();
            let second = subvolume(&at.join("second"), Some(&at));
            fs::remove_file(at.join("a/removed later")).unwrap();
            let mut cp = Command::new("cp");
            tool(
                cp.arg("--reflink=always")
                    .arg(at.join("a/kept"))
                    .arg(at.join("copy")),
            );
            tool(Command::new("sync").arg("-f").arg(&at));
            let result = space(&at);
            check(&result, &at, 20);
            let mebibytes = |kind: &str, path| bytes(item(&result, kind, path)) / MIB.cast_signed();
            assert_eq!(mebibytes("snapshot", Some(&first)), 16, "{result:#}");
            assert_eq!(mebibytes("snapshot", Some(&second)), 0);
            assert_eq!(mebibytes("subvolume", Some(&sub)), 2);
            let shared = result["items"].as_array().unwrap().iter();
            let shared = shared.filter(|it| it["kind"] == "shared");
            let shared: Vec<_> = shared
                .map(|it| (it["part"].as_str().unwrap(), bytes(it) / MIB.cast_signed()))
                .collect();
            assert_eq!(shared, [("within", 8), ("between", 4)], "{result:#}");
            let command = item(&result, "snapshot", Some(&first))["command"]
                .as_str()
                .unwrap();
            assert_eq!(
                command,
                format!("btrfs subvolume delete {}", first.display())
            );
            let reserve = result["items"].as_array().unwrap().iter();
            let mut reserve =
                reserve.filter(|it| it["kind"] == "reserved" && it["part"] == "file_system");
            assert_eq!(bytes(reserve.next().unwrap()), usage(&at, "Global reserve"));
        });
    }
}

#[test]
fn a_snapshot_that_no_mount_shows_is_named_by_its_number() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|base| {
            let at = base.join("btrfs");
            assert!(mounted(BTRFS[0], &at));
            let root = subvolume(&at.join("@"), None);
            file(&root.join("file"), 4 * MIB);
            tool(Command::new("sync").arg("-f").arg(&at));
            subvolume(&dir(at.join("snapshots")).join("one"), Some(&root));
            fs::remove_file(root.join("file")).unwrap();
            tool(Command::new("sync").arg("-f").arg(&at));
            unmount(&at);
            let device = attach(&at.with_extension("image"));
            let seen = dir(base.join("seen"));
            mount(&device.0, &seen, "btrfs", MountFlags::empty(), c"subvol=@").unwrap();
            let result = space(&seen);
            check(&result, &seen, 20);
            let snapshot = item(&result, "snapshot", None);
            assert_eq!(snapshot["path"], "snapshots/one");
            assert_eq!(bytes(snapshot) / MIB.cast_signed(), 4);
            let command = snapshot["command"].as_str().unwrap();
            assert!(
                command.starts_with("btrfs subvolume delete -i 257 "),
                "{command}"
            );
        });
    }
}

#[test]
fn a_copy_that_shares_extents_counts_for_one_owner() {
    if require(&[Need::Root, Need::Loop]) {
        in_namespace(|base| {
            let at = base.join("btrfs");
            assert!(mounted(BTRFS[0], &at));
            let first = file(&dir(at.join("a")).join("file"), 30 * MIB);
            let copy = dir(at.join("b")).join("copy");
            let mut cp = Command::new("cp");
            tool(cp.arg("--reflink=always").arg(&first).arg(&copy));
            std::os::unix::fs::chown(&copy, Some(1001), None).unwrap();
            tool(Command::new("sync").arg("-f").arg(&at));
            let result = space(&at);
            check(&result, &at, 20);
            let of = |owner: &str| {
                let mut owners = result["owners"].as_array().unwrap().iter();
                let sums = owners.find(|it| it["owner"] == owner).unwrap();
                (sums["files"].clone(), bytes(sums))
            };
            let size = 30 * MIB.cast_signed();
            assert_eq!(of("1001"), (1.into(), 0), "{result:#}");
            assert_eq!(of("root").1, size, "{result:#}");
            assert_eq!(bytes(item(&result, "shared", None)), size);
        });
    }
}
