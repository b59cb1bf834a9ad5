//! Tests that all methods of gathering give all rows in archive order, and keep access times.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use archive::gather::{CollectOptions, Gather, Gathered, gather};
use catalog::rows::Rows;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use walk::{Diagnostics, EngineKind, Meta};

use crate::support::build::{bind, deep, dir, disk, file, tmpfs};
use crate::support::disks::{BTRFS, EXT4, XFS, mounted};
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

/// The path and metadata of every row.
pub(crate) fn list(rows: &Rows) -> Vec<(Vec<u8>, Meta)> {
    let mut path = Vec::new();
    let each = |row| {
        rows.path(row, &mut path);
        (path.clone(), rows.meta(row))
    };
    (0..rows.len()).map(each).collect()
}

/// Checks the order of rows, and the parent, the children and the end of the subtree of each row.
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

/// Creates every kind of entry, with mounts below: on directories and on a file.
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

/// The methods report the same metadata: the tests of archives check that.
#[test]
fn rows_are_all_entries_in_archive_order() {
    if require(&DISK) {
        in_namespace(|base| {
            for (seed, make) in (1..).zip([EXT4[0], XFS[0], BTRFS[0]]) {
                let top = base.join(make.fstype);
                assert!(mounted(make, &top));
                wood(&top, seed);
                // Take the reference first: it updates access times.
                let reference = census(&top);
                for way in Gather::ALL.into_iter().map(Some).chain([None]) {
                    let what = format!("{} by {way:?}", make.fstype);
                    let (rows, _) = by(way, &top);
                    hold_together(&rows, &what);
                    let mut names: Vec<_> = list(&rows).into_iter().map(|(path, _)| path).collect();
                    names.sort();
                    assert!(names.iter().eq(reference.keys()), "{what}: other names");
                }
            }
        });
    }
}

/// The files have changed since they were last read, so a read without O_NOATIME would update their
/// access times.
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
