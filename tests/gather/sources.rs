//! Tests of the types of SRC, and of exclusions.

use std::fs::{self};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{chown, symlink};
use std::sync::atomic::{AtomicUsize, Ordering};

use archive::gather::{CollectOptions, Gather, gather};
use catalog::Options;
use gate::Errno;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Uid;
use rustix::thread::set_thread_uid;
use walk::Diagnostics;

use super::same::{ask, list};
use crate::support::build::{chmod, dir, file, tmpfs};
use crate::support::concurrent::{Done, with_threads};
use crate::support::effort::effort;
use crate::support::repeat::repeat_until;
use crate::support::{Need, in_namespace, require};

#[test]
fn several_sources_of_every_type() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let given = |name: &str| at(name).as_os_str().as_bytes().to_vec();
    for name in ["b/z", "b/a/x", "b/a.", "b/a-", "a/one", "file"] {
        file(at(name), 3);
    }
    symlink("b", at("link")).unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    mknodat(CWD, at("fifo"), FileType::Fifo, Mode::from(0o600), 0).unwrap();
    let sources = [
        "fifo", "b", "file", "link", "link/", "a", "dangling", "b/a", "file",
    ]
    .map(given);
    for way in [None, Some(Gather::PerCall), Some(Gather::Raw)] {
        let (rows, parts) = ask(&CollectOptions {
            sources: sources.to_vec(),
            gather: way,
            ..CollectOptions::default()
        });
        let relative = |path: &[u8]| {
            String::from_utf8_lossy(&path[place.path().as_os_str().len() + 1..]).into_owned()
        };
        let found: Vec<String> = list(&rows).iter().map(|(path, _)| relative(path)).collect();
        let expected = [
            "fifo", "b", "b/a", "b/a/x", "b/a-", "b/a.", "b/z", "file", "link", "link/", "link/a",
            "link/a/x", "link/a-", "link/a.", "link/z", "a", "a/one", "dangling", "b/a", "b/a/x",
            "file",
        ];
        assert_eq!(found, expected);
        let firsts: Vec<usize> = rows
            .sources()
            .iter()
            .map(|source| source.rows.start)
            .collect();
        assert_eq!(firsts, [0, 1, 7, 8, 9, 15, 17, 18, 20]);
        assert!((0..rows.len()).all(|row| rows.sources()[rows.top(row)].rows.contains(&row)));
        assert_eq!(rows.kind(8), ondisk::FileType::Symlink);
        assert!(rows.is_dir(9) && rows.sources()[4].absolute.as_deref() == Some(&given("b")[..]));
        assert_eq!(parts.len(), 4);
    }
    let missing = CollectOptions {
        sources: vec![given("b"), given("gone")],
        ..CollectOptions::default()
    };
    assert!(
        matches!(gather(&missing, &Diagnostics::default()), Err(walk::Error::Directory(e)) if e.path == Some(given("gone")))
    );
}

#[test]
fn excluded_entries_are_not_gathered() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            for name in ["keep/a", "keep/b.o", "leave/a"] {
                file(base.join(name), 1);
            }
            file(tmpfs(base.join("mount")).join("inside"), 1);
            let options = CollectOptions {
                sources: vec![base.as_os_str().as_bytes().to_vec()],
                selection: Options {
                    excludes: ["*.o".to_owned(), format!("{}/leave", base.display())]
                        .map(String::into_bytes)
                        .to_vec(),
                    one_file_system: true,
                    ..Options::default()
                },
                ..CollectOptions::default()
            };
            for way in Gather::ALL {
                let (rows, _) = ask(&CollectOptions {
                    gather: Some(way),
                    ..options.clone()
                });
                let names: Vec<_> = (0..rows.len())
                    .map(|row| rows.name(row).escape_ascii().to_string())
                    .collect();
                assert_eq!(names, ["", "keep", "a", "mount"], "{}", way.name());
            }
        });
    }
}

/// An unprivileged user cannot restore the access times of directories of other users, but can read
/// them.
#[test]
fn directories_without_permission() {
    if require(&[Need::Root]) {
        in_namespace(|base| {
            let top = dir(base.join("top"));
            for name in ["a/x", "b/y"] {
                file(top.join(name), 1);
            }
            chown(top.join("b"), Some(1000), Some(1000)).unwrap();
            dir(top.join("closed"));
            chmod(top.join("closed"), 0o700);
            let sources = vec![top.as_os_str().as_bytes().to_vec()];
            let gathered = || {
                // Only this thread, and threads that it starts, change their user.
                set_thread_uid(Uid::from_raw(1000)).unwrap();
                [None, Some(Gather::PerCall), Some(Gather::Raw)].map(|way| {
                    let diagnostics = Diagnostics::default();
                    let options = CollectOptions {
                        sources: sources.clone(),
                        gather: way,
                        ..CollectOptions::default()
                    };
                    let (rows, _) = gather(&options, &diagnostics).unwrap();
                    let names: Vec<_> =
                        (0..rows.len()).map(|row| rows.name(row).to_vec()).collect();
                    (names, diagnostics.take_warnings())
                })
            };
            let all = std::thread::scope(|scope| scope.spawn(gathered).join().unwrap());
            for (names, warnings) in all {
                assert_eq!(names, [&b""[..], b"a", b"x", b"b", b"y", b"closed"]);
                let [warning] = &warnings[..] else {
                    panic!("{warnings:?}")
                };
                assert_eq!(warning.errno, Some(Errno::EACCES));
            }
        });
    }
}

#[test]
fn concurrent_changes_leave_the_rows_sound() {
    let place = tempfile::tempdir().unwrap();
    let top = dir(place.path().join("top"));
    let changes = AtomicUsize::new(0);
    let write = |_, done: &Done| {
        let mut round = 0;
        while !done.is_set() {
            let to = top.join(format!("{}/x", (round + 1) % 7));
            let from = top.join(format!("{}/{round}", round % 7));
            file(from.join("f"), 1);
            let _ = fs::rename(from, &to);
            let _ = fs::remove_dir_all(top.join(format!("{}", (round + 3) % 7)));
            changes.fetch_add(1, Ordering::Relaxed);
            round += 1;
        }
    };
    let gather_once = || {
        let options = CollectOptions {
            sources: vec![top.as_os_str().as_bytes().to_vec()],
            ..CollectOptions::default()
        };
        let (rows, _) = gather(&options, &Diagnostics::default()).unwrap();
        for row in 1..rows.len() {
            let parent = rows.parent(row).unwrap();
            assert!(parent < row && row < rows.end(parent) && rows.is_dir(parent));
        }
    };
    with_threads(1, write, || {
        for _ in 0..effort(100, 300) {
            repeat_until("a change while the rows are gathered", || {
                let before = changes.load(Ordering::Relaxed);
                gather_once();
                (changes.load(Ordering::Relaxed) > before).then_some(())
            });
        }
    });
}
