//! All four methods give the same rows, in archive order, and keep access times.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use archive::gather::{CollectOptions, Gather, GatherReason, Gathered, gather};
use archive::rows::Rows;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use walk::{Diagnostics, EngineKind, Meta};

use crate::support::build::{bind, deep, dir, disk, file, tmpfs};
use crate::support::disks::{BTRFS, EXT4, XFS, mounted, overlay, subvolume};
use crate::support::reference::census;
use crate::support::trees::grow;
use crate::support::{Need, in_namespace, require};

const DISK: [Need; 2] = [Need::Root, Need::Loop];

pub(crate) fn ask(options: &CollectOptions) -> (Rows, Vec<Gathered>) {
    let diagnostics = Diagnostics::default();
    let (rows, parts) = gather(options, &diagnostics).unwrap();
    let warnings = diagnostics.take_warnings();
    assert!(warnings.is_empty(), "{warnings:?}");
    (rows, parts)
}

fn by(way: Option<Gather>, top: &Path) -> (Rows, Vec<Gathered>) {
    ask(&CollectOptions {
        sources: vec![top.as_os_str().as_bytes().to_vec()],
        gather: way,
        ..CollectOptions::default()
    })
}

/// Every row with its path.
pub(crate) fn list(rows: &Rows) -> Vec<(Vec<u8>, Meta)> {
    let mut path = Vec::new();
    let each = |row| {
        rows.path(row, &mut path);
        (path.clone(), rows.meta(row))
    };
    (0..rows.len()).map(each).collect()
}

/// The fields that all methods must report alike.
fn alike(meta: Meta) -> Meta {
    Meta {
        generation: None,
        xattrs: None,
        ..meta
    }
}

/// Rows, their order, and what is said of their places in it.
fn hold_together(rows: &Rows, what: &str) {
    let parts = |path: &[u8]| {
        path.split(|&b| b == b'/')
            .map(<[u8]>::to_vec)
            .collect::<Vec<_>>()
    };
    let paths: Vec<Vec<Vec<u8>>> = list(rows).iter().map(|(path, _)| parts(path)).collect();
    assert!(
        paths.is_sorted_by(|a, b| a < b),
        "{what}: they are in another order, or come twice"
    );
    let mut children = vec![Vec::new(); rows.len()];
    for row in 0..rows.len() {
        let above = rows.parent(row).map(|parent| &paths[parent][..]);
        assert_eq!(
            above,
            paths[row]
                .split_last()
                .map(|(_, above)| above)
                .filter(|_| row > 0),
            "{what}: row {row}"
        );
        rows.parent(row)
            .into_iter()
            .for_each(|parent| children[parent].push(row));
        assert_eq!(
            rows.name(row),
            if row == 0 {
                b""
            } else {
                &paths[row].last().unwrap()[..]
            }
        );
    }
    let mut size = vec![1; rows.len()];
    for row in (0..rows.len()).rev() {
        assert_eq!(
            rows.end(row),
            row + size[row],
            "{what}: what is below row {row}"
        );
        rows.parent(row)
            .into_iter()
            .for_each(|parent| size[parent] += size[row]);
    }
    for (row, children) in children.iter().enumerate() {
        assert_eq!(
            &rows.children(row).collect::<Vec<_>>(),
            children,
            "{what}: what is in row {row}"
        );
    }
}

/// Compares the four methods with each other and with the reference. `used` are the engines that they
/// use for the top.
fn every_way_is_the_same(top: &Path, used: [Gather; 4], what: &str) {
    // Before all else: it moves access times.
    let reference = census(top);
    let (mut first, mut has_xattrs) = (None, Vec::new());
    for (way, used) in Gather::ALL.into_iter().zip(used) {
        let what = format!("{what} by {}", way.name());
        let (rows, parts) = by(Some(way), top);
        let part = &parts[0];
        assert_eq!(part.gather, used, "{what}: {}", part.why);
        assert_eq!(
            part.why == GatherReason::Requested,
            way == used,
            "{what}: {}",
            part.why
        );
        let all = list(&rows);
        match &first {
            None => {
                hold_together(&rows, &what);
                let mut names: Vec<_> = all.iter().map(|(path, _)| path).collect();
                names.sort();
                assert!(
                    names.into_iter().eq(reference.keys()),
                    "{what}: other names than the reference has"
                );
                has_xattrs = all
                    .iter()
                    .map(|(_, meta)| meta.xattrs == Some(true))
                    .collect();
                first = Some(all);
            }
            Some(first) => {
                assert_eq!(all.len(), first.len(), "{what}");
                for (((path, meta), (expected, was)), has_xattrs) in
                    all.iter().zip(first).zip(&has_xattrs)
                {
                    let name = path.escape_ascii();
                    assert_eq!(path, expected, "{what}");
                    assert_eq!(alike(*meta), alike(*was), "{what}: {name}");
                    assert!(
                        meta.xattrs != Some(false) || !has_xattrs,
                        "{what}: {name} has extended attributes"
                    );
                }
            }
        }
    }
    let of = |all: Vec<(Vec<u8>, Meta)>| {
        all.into_iter()
            .map(|(path, meta)| (path, alike(meta)))
            .collect::<Vec<_>>()
    };
    assert!(
        of(list(&by(None, top).0)) == of(first.unwrap()),
        "{what} by whatever is best"
    );
}

/// All kinds of entries, with mounts below, on directories and on a file.
fn wood(top: &Path, seed: u64) {
    grow(top, seed, 400);
    drop(deep(
        &dir(top.join("abyss")),
        "a name of some length, so that the path is long",
        200,
    ));
    drop(deep(&dir(top.join("abyss of one-letter names")), "d", 1000));
    let below = tmpfs(top.join("mounts/one"));
    grow(&below, seed + 1, 50);
    tmpfs(below.join("two"));
    file(below.join("two/file"), 3);
    bind(below.join("two/file"), top.join("mounts/file"));
    bind(top.join("wide"), top.join("mounts/wide again"));
}

#[test]
fn all_methods_gather_the_same_on_ext4() {
    if require(&DISK) {
        in_namespace(|base| {
            let top = base.join("disk");
            assert!(mounted(EXT4[0], &top));
            wood(&top, 1);
            use Gather::{Combined, PerCall, Raw};
            every_way_is_the_same(&top, [PerCall, Combined, Combined, Raw], "ext4");
            every_way_is_the_same(
                &top.join("abyss"),
                [PerCall, Combined, Combined, Raw],
                "a directory of ext4",
            );
        });
    }
}

#[test]
fn all_methods_gather_the_same_on_xfs() {
    if require(&DISK) {
        in_namespace(|base| {
            let top = base.join("disk");
            assert!(mounted(XFS[0], &top));
            wood(&top, 2);
            use Gather::{Batched, Combined, PerCall};
            every_way_is_the_same(&top, [PerCall, Combined, Batched, Batched], "XFS");
        });
    }
}

#[test]
fn all_methods_gather_the_same_on_btrfs() {
    if require(&[Need::Root, Need::Loop, Need::Program("btrfs")]) {
        in_namespace(|base| {
            let top = base.join("disk");
            assert!(mounted(BTRFS[0], &top));
            wood(&top, 3);
            let outer = subvolume(&top.join("outer"), None);
            grow(&outer, 4, 100);
            grow(
                &subvolume(&dir(outer.join("between")).join("inner"), None),
                5,
                100,
            );
            subvolume(&top.join("snapshot"), Some(&outer));
            use Gather::{Batched, Combined, PerCall};
            every_way_is_the_same(&top, [PerCall, Combined, Batched, Batched], "btrfs");
        });
    }
}

#[test]
fn all_methods_gather_the_same_on_tmpfs_and_overlay() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            use Gather::{Combined, PerCall};
            let top = tmpfs(base.join("tmpfs"));
            wood(&top, 6);
            every_way_is_the_same(&top, [PerCall, Combined, Combined, Combined], "tmpfs");
            let parts = tmpfs(base.join("parts"));
            grow(&dir(parts.join("lower")), 7, 300);
            let over = overlay(&parts, &base.join("overlay"));
            grow(&dir(over.join("more")), 8, 300);
            every_way_is_the_same(&over, [PerCall, Combined, Combined, Combined], "overlay");
        });
    }
}

/// Access times that the kernel would move, since what was read has changed after it was last read.
#[test]
fn access_times_do_not_change() {
    if require(&DISK) {
        in_namespace(|base| {
            for kind in ["ext4", "xfs", "btrfs"] {
                let top = disk(kind, &base.join(kind));
                let mut all: Vec<PathBuf> =
                    (0..30).map(|n| dir(top.join(format!("{n}/{n}")))).collect();
                all.extend((0..30).map(|n| top.join(n.to_string())));
                all.push(top.clone());
                let time = |tv_sec| Timespec { tv_sec, tv_nsec: 7 };
                for path in &all {
                    let times = Timestamps {
                        last_access: time(1_000_000_000),
                        last_modification: time(1_100_000_000),
                    };
                    utimensat(CWD, path, &times, AtFlags::empty()).unwrap();
                }
                let seen = || {
                    all.iter()
                        .map(|path| (path, path.metadata().unwrap().atime()))
                        .collect::<BTreeMap<_, _>>()
                };
                let before = seen();
                for way in Gather::ALL.into_iter().map(Some).chain([None]) {
                    let (rows, _) = by(way, &top);
                    assert_eq!(rows.len(), if kind == "ext4" { 62 } else { 61 }, "{kind}");
                    assert_eq!(seen(), before, "{kind} by {way:?}");
                }
                fs::read_dir(&top).unwrap().for_each(drop);
                assert_ne!(
                    seen(),
                    before,
                    "{kind}: the kernel moves no access times here; the test says nothing"
                );
            }
        });
    }
}

#[test]
fn each_engine_has_a_gather_method() {
    let all = EngineKind::SELECTABLE
        .into_iter()
        .chain([EngineKind::PerCall]);
    assert!(all.into_iter().all(|by| by == EngineKind::Stat
        || Gather::from_engine(by).engines()[0] == by
        || by == EngineKind::Btrfs));
}
