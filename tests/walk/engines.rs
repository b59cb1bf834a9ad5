//! Tests that every engine equals the reference, on unusual trees and many types of file system.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use rustix::mount::{MountFlags, mount};

use super::right::{engines, every_engine_agrees, every_engine_is_right};
use crate::support::build::dir;
use crate::support::disks::{BTRFS, EXT4, Make, XFS, encrypt, lock, mounted, overlay, subvolume};
use crate::support::effort::effort;
use crate::support::reference::{census, settle};
use crate::support::tool::tool;
use crate::support::trees::grow;
use crate::support::{Need, in_namespace, require};

/// Mounts a tmpfs with `noatime`.
pub(crate) fn still(at: &Path) -> &Path {
    mount("still", dir(at), "tmpfs", MountFlags::NOATIME, c"mode=755").unwrap();
    at
}

/// Mounts a new file system; `None` stands for a tmpfs.
pub(crate) fn mounted_or_still(make: Option<Make>, at: &Path) {
    match make {
        Some(make) => assert!(mounted(make, at)),
        None => drop(still(at)),
    }
}

/// Builds a tree on each type of file system, and compares every engine with the reference, from
/// the top and from a directory.
fn on_each(makes: &[Make], seed: u64) {
    for (make, seed) in makes.iter().zip(seed..) {
        in_namespace(|base| {
            let at = base.join("disk");
            if mounted(*make, &at) {
                let what = format!("{} with {}, seed {seed}", make.fstype, make.name);
                grow(&dir(at.join("tree")), seed, 300);
                every_engine_is_right(&at, engines(make.fstype), &what);
                every_engine_agrees(&at.join("tree/scattered"), engines(make.fstype), &what);
            }
        });
    }
}

const DISK: [Need; 2] = [Need::Root, Need::Loop];

#[test]
fn stat_engine_equals_find() {
    if require(&DISK) {
        in_namespace(|base| {
            let top = still(base);
            grow(top, 1, 1000);
            let format = r"%p\0%y %i %m %n %U %G %s %b %T@\0";
            let printed = tool(Command::new("find").arg(top).args(["-printf", format]));
            let mut fields = printed.split(|&b| b == 0);
            let mut found = BTreeSet::new();
            while let (Some(path), Some(rest)) = (fields.next(), fields.next()) {
                found.insert((path.to_vec(), String::from_utf8(rest.to_vec()).unwrap()));
            }
            let letter = |kind: &str| match kind {
                "symlink" => "l".to_owned(),
                "fifo" => "p".to_owned(),
                other => other[..1].to_owned(),
            };
            let expected = census(top).into_iter().map(|(path, e)| {
                let mode = u32::from_str_radix(&e.mode, 8).unwrap();
                let time = format!("{}0", e.mtime);
                let line = format!(
                    "{} {} {mode:o} {} {} {} {} {} {time}",
                    letter(&e.kind),
                    e.ino,
                    e.nlink,
                    e.uid,
                    e.gid,
                    e.size,
                    e.blocks
                );
                (path, line)
            });
            let expected: BTreeSet<_> = expected.collect();
            let differ: Vec<_> = expected.symmetric_difference(&found).take(6).collect();
            assert!(
                differ.is_empty() && expected.len() > 1500,
                "{} {differ:#?}",
                expected.len()
            );
        });
    }
}

// Several tests instead of one, so that they run in parallel.

#[test]
fn ext4_with_many_mkfs_options_first_part() {
    if require(&DISK) {
        on_each(&EXT4[..effort(8, 16)], 100);
    }
}

#[test]
fn ext4_with_many_mkfs_options_second_part() {
    if require(&DISK) {
        on_each(&EXT4[16..], 200);
    }
}

#[test]
fn xfs_with_many_mkfs_options() {
    if require(&DISK) {
        on_each(&XFS[..effort(3, 6)], 300);
    }
}

#[test]
fn btrfs_with_many_mkfs_options() {
    if require(&DISK) {
        on_each(&BTRFS, 400);
    }
}

#[test]
fn btrfs_with_subvolumes_and_snapshots() {
    if require(&[Need::Root, Need::Loop, Need::Program("btrfs")]) {
        in_namespace(|base| {
            let at = base.join("disk");
            assert!(mounted(BTRFS[0], &at));
            grow(&dir(at.join("tree")), 1, 300);
            let outer = subvolume(&at.join("tree/outer"), None);
            grow(&outer, 2, 100);
            let inner = subvolume(&dir(outer.join("between")).join("inner"), None);
            grow(&inner, 3, 100);
            subvolume(&at.join("snapshot"), Some(&outer));
            subvolume(
                &at.join("tree/snapshot of a snapshot"),
                Some(&at.join("snapshot")),
            );
            for top in [
                &at,
                &at.join("tree"),
                &outer,
                &outer.join("between"),
                &inner,
                &at.join("snapshot"),
            ] {
                every_engine_is_right(
                    top,
                    engines("btrfs"),
                    &format!("btrfs with subvolumes, {}", top.display()),
                );
            }
        });
    }
}

#[test]
fn tmpfs_and_overlay() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let top = still(&base.join("tmpfs")).to_owned();
            grow(&top, 500, 1000);
            every_engine_is_right(&top, engines("tmpfs"), "tmpfs");
            let parts = still(&base.join("parts")).to_owned();
            let lower = dir(parts.join("lower"));
            grow(&lower, 501, 300);
            // The overlay lists a whiteout in a directory of one layer, but cannot look it up.
            for (path, entry) in census(&lower) {
                if entry.rdev.as_deref() == Some("0:0") {
                    fs::remove_file(Path::new(OsStr::from_bytes(&path))).unwrap();
                }
            }
            let over = overlay(&parts, &base.join("overlay"));
            grow(&dir(over.join("more")), 502, 300);
            every_engine_is_right(&over, engines("overlay"), "overlay");
            every_engine_is_right(&parts, engines("tmpfs"), "the layers of an overlay");
        });
    }
}

/// Encrypted names, with the key and without it.
#[test]
fn ext4_with_encrypted_directories() {
    if require(&DISK) {
        let make = Make {
            name: "encrypt",
            mkfs: "-O encrypt",
            ..EXT4[0]
        };
        in_namespace(|base| {
            let at = base.join("disk");
            assert!(mounted(make, &at));
            grow(&dir(at.join("open")), 1, 50);
            let secret = dir(at.join("secret"));
            let key = encrypt(&at, &secret);
            grow(&secret, 2, 100);
            every_engine_is_right(&at, engines("ext4"), "ext4 with encrypted directories");
            every_engine_is_right(&secret, engines("ext4"), "an encrypted directory");
            settle(&at);
            let names: Vec<_> = census(&secret).into_keys().collect();
            lock(&at, &key);
            assert!(
                names.len() > 500 && census(&secret).into_keys().ne(names),
                "the names are still to be seen"
            );
            every_engine_is_right(
                &at,
                engines("ext4"),
                "ext4 with encrypted directories, locked",
            );
            every_engine_is_right(&secret, engines("ext4"), "an encrypted directory, locked");
        });
    }
}
