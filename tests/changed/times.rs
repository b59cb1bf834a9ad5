//! Tests of coarse clocks, clocks that are set back, and devices whose numbers change.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::mount::MountFlags;

use super::since::{catalog, changed, expect, on_each_kind, since};
use crate::support::build::{dir, file, unmount, unmount_whole};
use crate::support::concurrent::while_rewriting;
use crate::support::disks::{
    BTRFS, EXT4, XFS, image, mount_elsewhere, mount_image, set_back, set_inode_field,
};
use crate::support::effort::effort;
use crate::support::repeat::{repeat_until, second_of};
use crate::support::run::args;
use crate::support::trees::grow;
use crate::support::{Need, fathom, in_namespace, require, run};

#[test]
fn changes_in_the_clock_tick_of_the_catalog() {
    if require(&[Need::Root, Need::Loop]) {
        on_each_kind(|top, to, kind| {
            let hot = file(top.join("hot"), 10);
            file(top.join("cold"), 10);
            for round in 0..effort(4, 10) {
                while_rewriting(&hot, || catalog(top, to));
                let found = since(top, to);
                assert!(
                    found.contains(&("changed".to_owned(), "hot".into(), None)),
                    "{kind}, round {round}: {found:?}"
                );
                assert!(
                    found
                        .iter()
                        .all(|(_, path, _)| path.to_str() != Some("cold")),
                    "{kind}: {found:?}"
                );
            }
        });
    }
}

/// Each check follows a change at once, so many changes fall into one tick of the clock.
#[test]
fn changes_in_quick_succession() {
    if require(&[Need::Root, Need::Loop]) {
        on_each_kind(|top, to, kind| {
            for n in 0..effort(5, 15) as u8 {
                let path = file(top.join(format!("file {n}")), 10);
                catalog(top, to);
                fs::write(&path, [n; 10]).unwrap();
                let expected = expect([("changed", &*format!("file {n}"))]);
                assert!(since(top, to).is_superset(&expected), "{kind}, round {n}");
            }
        });
    }
}

/// Runs `work` with an image of ext4, the directory where it is mounted, a catalog's path, and a function
/// that mounts the image again.
fn on_image(work: impl FnOnce(&Path, &Path, &Path, &dyn Fn()) + Send) {
    in_namespace(|ground| {
        let (disk, at) = (ground.join("image"), dir(ground.join("disk")));
        image(EXT4[0], 64, &disk);
        let mount = || assert!(mount_image(EXT4[0], &disk, &at, MountFlags::NOATIME));
        mount();
        work(&disk, &at, &ground.join("catalog"), &mount);
    });
}

/// The clock was set back, then the file was written: its ctime is years before that of the
/// catalog.
#[test]
fn clock_set_back() {
    if require(&[Need::Root, Need::Loop, Need::Program("debugfs")]) {
        on_image(|disk, at, to, mount| {
            for name in ["first", "second", "third"] {
                file(at.join("tree").join(name), 100);
            }
            catalog(&at.join("tree"), to);
            fs::write(at.join("tree/second"), [7; 100]).unwrap();
            unmount_whole(at);
            set_back(disk, "/tree/second");
            mount();
            assert_eq!(since(&at.join("tree"), to), expect([("changed", "second")]));
        });
    }
}

/// On ext4 with large inodes, a ctime without a fraction of a second is exact: an entry that
/// changed in the second in which the walk of the catalog began is not racy.
#[test]
fn ctime_that_happens_to_be_a_whole_second() {
    if require(&[Need::Root, Need::Loop, Need::Program("debugfs")]) {
        on_image(|disk, at, to, mount| {
            let tree = at.join("tree");
            let path = file(tree.join("whole"), 100);
            file(tree.join("other"), 100);
            for engine in ["threads", "ext4"] {
                repeat_until("a catalog of the second of the ctime", || {
                    unmount_whole(at);
                    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
                    let second = now.as_secs().cast_signed();
                    set_inode_field(disk, "/tree/whole", "ctime", &format!("@{second}"));
                    set_inode_field(disk, "/tree/whole", "ctime_extra", "0");
                    mount();
                    let seen = fs::metadata(&path).unwrap();
                    assert_eq!((seen.ctime(), seen.ctime_nsec()), (second, 0));
                    let walk = args!["walk", &tree, "--engine", engine, "--catalog", to];
                    run(&mut fathom(walk)).exits(0);
                    (second_of(to) == second).then_some(())
                });
                // Use a walk, because the token of the file system also proves racy entries
                // unchanged.
                let found = changed(&tree, to, &["--engine", "threads", "--format", "paths"]);
                assert!(found.exits(0).stdout.is_empty(), "{engine}");
            }
        });
    }
}

/// The same image on a different loop device, mounted again: a different device number and mount
/// id, the same files.
#[test]
fn device_number_that_changes() {
    if require(&[Need::Root, Need::Loop]) {
        for make in [EXT4[0], XFS[0], BTRFS[0]] {
            in_namespace(|ground| {
                let (disk, at, to) = (
                    ground.join("image"),
                    dir(ground.join("disk")),
                    ground.join("catalog"),
                );
                image(make, 400, &disk);
                assert!(mount_image(make, &disk, &at, MountFlags::NOATIME));
                grow(&dir(at.join("tree")), 1, 100);
                catalog(&at.join("tree"), &to);
                unmount_whole(&at);
                mount_elsewhere(make, &disk, &at);
                assert_eq!(
                    since(&at.join("tree"), &to),
                    BTreeSet::new(),
                    "{}",
                    make.fstype
                );
                fs::rename(at.join("tree/wide"), at.join("tree/narrow")).unwrap();
                let found = since(&at.join("tree"), &to);
                let renamed = expect([("renamed", "narrow <- wide")]);
                assert!(
                    found.is_superset(&renamed) && found.len() <= 3,
                    "{}: {found:?}",
                    make.fstype
                );
            });
        }
    }
}

/// A tree with a mount in it. The catalog has the entries of that mount, too.
#[test]
fn mounts_within_the_tree() {
    if require(&[Need::Root, Need::Loop]) {
        on_each_kind(|top, to, kind| {
            let inner = dir(top.join("inner"));
            rustix::mount::mount("inner", &inner, "tmpfs", MountFlags::NOATIME, c"mode=755")
                .unwrap();
            grow(&dir(inner.join("tree")), 1, 50);
            file(top.join("plain"), 10);
            catalog(top, to);
            assert_eq!(since(top, to), BTreeSet::new(), "{kind}");
            fs::write(inner.join("tree/wide/new"), "").unwrap();
            let found = since(top, to);
            assert!(
                found.is_superset(&expect([("added", "inner/tree/wide/new")])),
                "{kind}: {found:?}"
            );
            assert_eq!(found.len(), 2, "{kind}: {found:?}");
            unmount(&inner);
            let value = changed(top, to, &["--json"]).json();
            assert_eq!(
                value["result"]["unchanged"], false,
                "{kind}: what was mounted is not there"
            );
        });
    }
}
