//! Tests that `--boundaries` finds changes of file system without a mount, and triggers no
//! automount.

use std::collections::BTreeSet;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::mount::{MountFlags, mount};
use serde_json::Value;

use super::methods::{BY_DEVICE, every_method_is_right, tables_and_search_are_right, whole};
use super::stuck::{Stuck, left};
use crate::support::build::{bind, dir, disk, file, name, tmpfs};
use crate::support::clock::{CC, Clock};
use crate::support::fuse::{
    Manner::{Held, Hung},
    serve,
};
use crate::support::reference::{device_changes, table};
use crate::support::run::{args, mount_at, path, targets};
use crate::support::tool::tool;
use crate::support::{Need, fathom, in_namespace, require, run};

fn btrfs(action: &[&str], paths: &[&Path]) {
    tool(Command::new("btrfs").args(action).args(paths));
}

fn boundaries(value: &Value) -> BTreeSet<(PathBuf, String)> {
    let all = value["result"]["boundaries"].as_array().unwrap().iter();
    all.map(|b| (path(b, "path"), b["kind"].as_str().unwrap().to_owned()))
        .collect()
}

#[test]
fn btrfs_subvolumes_and_snapshots() {
    if require(&[
        Need::Root,
        Need::Loop,
        Need::Program("mkfs.btrfs"),
        Need::Program("btrfs"),
    ]) {
        in_namespace(|base| {
            let top = disk("btrfs", &base.join("pool"));
            let at = |name: &str| top.join(name);
            btrfs(&["subvolume", "create"], &[&at("home")]);
            btrfs(
                &["subvolume", "create"],
                &[&dir(at("plain/deep")).join("nested")],
            );
            btrfs(&["subvolume", "create"], &[&at("home/inner")]);
            file(at("home/file"), 3);
            btrfs(&["subvolume", "snapshot"], &[&at("home"), &at("yesterday")]);
            tmpfs(at("mounted"));

            let value = run(&mut fathom(args!["mounts", base, "--boundaries", "--json"]))
                .exits(0)
                .json();
            let expected = [
                (at("home"), "subvolume"),
                (at("home/inner"), "subvolume"),
                (at("plain/deep/nested"), "subvolume"),
                (at("yesterday"), "snapshot"),
            ];
            assert_eq!(
                boundaries(&value),
                expected.map(|(path, kind)| (path, kind.to_owned())).into()
            );
            mount_at(&value, &top);
            mount_at(&value, &at("mounted"));

            // The methods of the papers, which know only devices, take a subvolume for a mount.
            tables_and_search_are_right(base);
            by_device_are_right(base);
        });
    }
}

/// Compares the methods that only know devices with the reference.
fn by_device_are_right(root: &Path) {
    let expected = device_changes(root);
    for by in BY_DEVICE {
        let found: BTreeSet<_> = targets(&run(&mut fathom(whole(root, by))).exits(0).json())
            .into_iter()
            .collect();
        assert_eq!(found, expected, "{by} {}", root.display());
    }
}

#[test]
fn every_change_of_device_on_btrfs_is_found() {
    if require(&[
        Need::Root,
        Need::Loop,
        Need::Program("mkfs.btrfs"),
        Need::Program("btrfs"),
    ]) {
        in_namespace(|base| {
            let top = disk("btrfs", &base.join("pool"));
            let at = |name: &str| top.join(name);
            for name in ["home", "home/inner", "work"] {
                btrfs(&["subvolume", "create"], &[&at(name)]);
            }
            btrfs(
                &["subvolume", "create"],
                &[&dir(at("home/a/b")).join("deep")],
            );
            let right = |roots: &[&Path]| {
                for root in roots {
                    tables_and_search_are_right(root);
                    by_device_are_right(root);
                }
            };
            let (home, again) = (at("home"), dir(at("again")));
            right(&[&top, &home]);
            let source = table(&top)[0].source.clone();
            mount(
                name(&source),
                &again,
                "btrfs",
                MountFlags::empty(),
                c"subvol=home",
            )
            .unwrap();
            right(&[&top, &home, &again]);
            bind(at("work"), at("home/bound"));
            right(&[&top, &home]);

            // Repeat that below file systems of other types, and with other mounts below the
            // subvolumes.
            let ext4 = disk("ext4", &base.join("ext4"));
            bind(&top, ext4.join("pool"));
            bind(&home, ext4.join("a/b/c/home"));
            right(&[&ext4, &ext4.join("a"), base]);
            tmpfs(at("again/a/b/tmpfs"));
            tmpfs(at("z/tmpfs"));
            tmpfs(ext4.join("z"));
            right(&[
                &top,
                &home,
                &again,
                &at("home/a"),
                &ext4,
                &ext4.join("a"),
                base,
            ]);
        });
    }
}

#[test]
fn hung_mount_does_not_block() {
    if require(&[Need::Root, Need::Fuse, CC]) {
        in_namespace(|base| {
            let clock = Clock::new(base);
            let (tree, hung) = (base.join("tree"), base.join("tree/hung"));
            let _server = serve(Hung, &hung);
            let mut stuck = Stuck::start(&mut finding(&tree), &clock, &tree);
            stuck.wait_for([hung.clone()], None);
            clock.advance(Duration::from_secs(3));
            let value = stuck.end().exits(1).json();
            assert_eq!(path(&value["warnings"][0], "path"), hung);
            mount_at(&value, &hung);
            assert_eq!(left(&tree), [0; 0]);
        });
    }
}

/// A walk of this mount could not be interrupted.
#[test]
fn mount_that_answers_late_and_then_no_more_does_not_block() {
    if require(&[Need::Root, Need::Fuse, CC]) {
        in_namespace(|base| {
            let clock = Clock::new(base);
            let (tree, late) = (base.join("tree"), base.join("tree/late"));
            let server = serve(Held, &late);
            let mut stuck = Stuck::start(&mut finding(&tree), &clock, &tree);
            stuck.wait_for([late.clone()], Some(&server));
            clock.advance(Duration::from_millis(1500));
            server.release(1);
            stuck.wait_for_requests(&server, 2);
            clock.advance(Duration::from_secs(1));
            let value = stuck.end_after_kill().exits(1).json();
            assert_eq!(path(&value["warnings"][0], "path"), late);
            assert_eq!(server.requests(), 2);
        });
    }
}

fn finding(root: &Path) -> Command {
    fathom(args!["mounts", root, "--boundaries", "--json"])
}

#[test]
fn mounted_subvolume_is_no_boundary() {
    if require(&[
        Need::Root,
        Need::Loop,
        Need::Program("mkfs.btrfs"),
        Need::Program("btrfs"),
    ]) {
        in_namespace(|base| {
            let top = disk("btrfs", &base.join("pool"));
            btrfs(&["subvolume", "create"], &[&top.join("home")]);
            rustix::mount::mount_bind(top.join("home"), top.join("home")).unwrap();
            let value = run(&mut fathom(args!["mounts", base, "--boundaries", "--json"]))
                .exits(0)
                .json();
            assert_eq!(boundaries(&value), BTreeSet::new());
            mount_at(&value, &top.join("home"));
        });
    }
}

#[test]
fn ext4_and_xfs_have_no_boundaries() {
    if require(&[
        Need::Root,
        Need::Loop,
        Need::Program("mkfs.ext4"),
        Need::Program("mkfs.xfs"),
    ]) {
        in_namespace(|base| {
            for kind in ["ext4", "xfs"] {
                tmpfs(disk(kind, &base.join(kind)).join("d/m"));
            }
            let value = run(&mut fathom(args!["mounts", base, "--boundaries", "--json"]))
                .exits(0)
                .json();
            assert_eq!(boundaries(&value), BTreeSet::new());
            every_method_is_right(base);
        });
    }
}

/// A direct automount without a daemon: a process that triggers it waits forever, and the kernel
/// writes a request to the pipe.
#[test]
fn automounts_are_not_triggered() {
    if require(&[Need::Root, Need::FileSystem("autofs")]) {
        in_namespace(|base| {
            let (mut requests, daemon) = std::io::pipe().unwrap();
            let options = format!("fd={},minproto=5,maxproto=5,direct", daemon.as_raw_fd());
            let options = std::ffi::CString::new(options).unwrap();
            let export = dir(base.join("export"));
            mount(
                "automounter",
                &export,
                "autofs",
                MountFlags::empty(),
                options.as_c_str(),
            )
            .unwrap();
            drop(daemon);
            for more in [
                &["--by", "kernel"][..],
                &["--by", "search"],
                &["--by", "search", "--hints", "none"],
                &["--boundaries"],
            ] {
                // Processes in the automounter's process group trigger no automounts, so leave that
                // group.
                let mut command = fathom(args!["mounts", base, "--json"]);
                let ran = run(command.args(more).process_group(0));
                assert!(targets(&ran.json()).contains(&export), "{ran}");
            }
            rustix::mount::unmount(&export, rustix::mount::UnmountFlags::DETACH).unwrap();
            let mut asked = Vec::new();
            requests.read_to_end(&mut asked).unwrap();
            assert!(asked.is_empty(), "something was to be mounted");
        });
    }
}
