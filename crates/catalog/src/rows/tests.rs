use std::sync::OnceLock;

use ondisk::Dev;
use proptest::prelude::*;
use walk::entry::Time;
use walk::{Diagnostics, Dir, DirKey, Entry, Meta, Sink};

use super::packed::{EARLIEST, Packed, PackedNames, RowClass, SharedValues, WIDE_TIME};
use super::*;
use crate::format::{CatalogDraft, Options, RowInclusion, RowUpdates};

fn collector(diagnostics: &Diagnostics) -> Collector<'_> {
    collector_with_sum(diagnostics, false)
}

fn collector_with_sum(diagnostics: &Diagnostics, with_sum: bool) -> Collector<'_> {
    let source = Source {
        path: b"top".to_vec(),
        absolute: None,
        rows: 0..0,
        open: OnceLock::new(),
    };
    let collector = Collector::new(vec![source], vec![0], None, diagnostics);
    if with_sum {
        collector.with_sum(None)
    } else {
        collector
    }
}

fn meta(ino: u64, is_dir: bool) -> Meta {
    Meta {
        ino,
        mode: if is_dir { 0o040_755 } else { 0o100_644 },
        nlink: 1,
        ..Meta::default()
    }
}

/// Emits entries of a directory to a collector. `dir` is `top`, or a path such as `top/a/b`.
fn give(to: &Collector<'_>, dir: &str, entries: &[(&str, Meta)]) {
    let names: Vec<&str> = dir.split('/').skip(1).collect();
    let dir = Dir {
        path: dir.as_bytes(),
        key: names
            .iter()
            .fold(DirKey::top(0), |key, name| key.below(name.as_bytes())),
    };
    let entries: Vec<_> = entries
        .iter()
        .map(|&(name, meta)| Entry {
            name: name.as_bytes(),
            meta,
        })
        .collect();
    to.worker().take(&dir, &entries);
}

fn list(rows: &Rows) -> Vec<(String, u64)> {
    let mut path = Vec::new();
    let each = |row| {
        rows.path(row, &mut path);
        (String::from_utf8(path.clone()).unwrap(), rows.meta(row).ino)
    };
    (0..rows.len()).map(each).collect()
}

fn paths(list: &[(&str, u64)]) -> Vec<(String, u64)> {
    list.iter()
        .map(|&(path, ino)| (path.to_owned(), ino))
        .collect()
}

#[test]
fn pieces_come_in_any_order() {
    let diagnostics = Diagnostics::default();
    let to = collector(&diagnostics);
    give(&to, "top/b", &[("z", meta(5, false)), ("c", meta(6, true))]);
    give(&to, "top/b/c", &[("deep", meta(9, false))]);
    give(&to, "top", &[("b.", meta(3, false)), ("b", meta(2, true))]);
    give(&to, "top/b", &[("a", meta(4, false))]);
    give(
        &to,
        "top",
        &[
            ("", meta(1, true)),
            ("b-", meta(7, true)),
            ("a name of more than eight bytes", meta(8, false)),
        ],
    );
    give(
        &to,
        "top",
        &[("a name of more than eight", meta(10, false))],
    );
    let rows = to.finish(std::iter::empty());
    let all = [
        ("top", 1),
        ("top/a name of more than eight", 10),
        ("top/a name of more than eight bytes", 8),
        ("top/b", 2),
        ("top/b/a", 4),
        ("top/b/c", 6),
        ("top/b/c/deep", 9),
        ("top/b/z", 5),
        ("top/b-", 7),
        ("top/b.", 3),
    ];
    assert_eq!(list(&rows), paths(&all));
    assert_eq!(rows.children(0).collect::<Vec<_>>(), [1, 2, 3, 8, 9]);
    assert_eq!(
        (rows.end(3), rows.end(8), rows.end(9), rows.parent(6)),
        (8, 9, 10, Some(5))
    );
    assert_eq!(rows.sources()[0].rows, 0..10);
    assert!(rows.directories().eq([0, 3, 5, 8]));
    assert!(diagnostics.take_warnings().is_empty());
}

#[test]
fn duplicates_and_lost_directories() {
    let diagnostics = Diagnostics::default();
    let to = collector(&diagnostics);
    let later = |meta: Meta| Meta {
        ctime: Time::new(5, 0),
        ..meta
    };
    give(
        &to,
        "top",
        &[
            ("", meta(1, true)),
            ("a", later(meta(2, false))),
            ("a", meta(3, false)),
            ("d", meta(4, true)),
        ],
    );
    give(
        &to,
        "top",
        &[("d", later(meta(5, false))), ("a", meta(6, false))],
    );
    give(&to, "top/d", &[("x", meta(7, false))]);
    give(
        &to,
        "top/gone",
        &[("x", meta(8, true)), ("y", meta(9, false))],
    );
    give(&to, "top/gone/x", &[("z", meta(10, false))]);
    let rows = to.finish(std::iter::empty());
    assert_eq!(
        list(&rows),
        paths(&[("top", 1), ("top/a", 2), ("top/d", 4), ("top/d/x", 7)])
    );
    let [warning] = &diagnostics.take_warnings()[..] else {
        panic!("one warning")
    };
    assert!(
        warning.message().starts_with("3 entries skipped"),
        "{}",
        warning.message()
    );
}

/// If a thread panics, no other thread may wait for its row groups, and nothing is written.
#[test]
fn panic_of_a_thread_fails_the_catalog() {
    use std::os::unix::ffi::OsStrExt;
    let diagnostics = Diagnostics::default();
    let to = collector(&diagnostics);
    let names: Vec<String> = (0..300_000).map(|n| format!("{n:06}")).collect();
    let files: Vec<_> = names
        .iter()
        .map(|name| (&name[..], meta(7, false)))
        .collect();
    give(&to, "top", &[("", meta(1, true))]);
    give(&to, "top", &files);
    let rows = to.finish(std::iter::empty());
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("catalog");
    let panics = |row| match row {
        70_000 => panic!("as planned"),
        _ => RowInclusion::Row,
    };
    let draft = CatalogDraft::create(file.as_os_str().as_bytes()).unwrap();
    let write = || {
        draft.write(
            &rows,
            Options::default(),
            panics,
            || Ok(()),
            |_, ()| Ok(RowUpdates::default()),
            || true,
        )
    };
    let written = std::panic::catch_unwind(std::panic::AssertUnwindSafe(write));
    assert!(!matches!(written, Ok(Ok(_))));
}

/// The digest must be of the amended rows, whether it was computed before amending or not.
#[test]
fn amended_rows_are_in_the_digest() {
    use std::os::unix::ffi::OsStrExt;
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("catalog");
    let written = |with_sum: bool, size: u64, amended: &[(usize, Meta)], left_out: usize| {
        let diagnostics = Diagnostics::default();
        let to = collector_with_sum(&diagnostics, with_sum);
        give(
            &to,
            "top",
            &[
                ("", meta(1, true)),
                (
                    "a",
                    Meta {
                        size,
                        ..meta(2, false)
                    },
                ),
                ("b", meta(3, false)),
            ],
        );
        let rows = to.finish(std::iter::empty());
        assert_eq!(rows.totals().is_some(), with_sum);
        let draft = CatalogDraft::create(file.as_os_str().as_bytes()).unwrap();
        let later = |_, ()| {
            Ok(RowUpdates {
                hashes: Vec::new(),
                amended: amended.iter().copied().collect(),
            })
        };
        let sealed = draft.write(
            &rows,
            Options::default(),
            |row| match row == left_out {
                true => RowInclusion::Nowhere,
                false => RowInclusion::Row,
            },
            || Ok(()),
            later,
            || true,
        );
        let about = sealed.unwrap().publish().unwrap();
        (about.digest, about.entries, about.complete)
    };
    let amended = [(
        1,
        Meta {
            size: 7,
            ..meta(2, false)
        },
    )];
    let [all, less] = [3, 2].map(|left_out| written(false, 7, &[], left_out));
    assert_eq!((all.1, all.2, less.1, less.2), (3, true, 2, false));
    for with_sum in [false, true] {
        assert_eq!(
            (
                written(with_sum, 5, &amended, 3),
                written(with_sum, 5, &amended, 2)
            ),
            (all.clone(), less.clone())
        );
    }
}

#[test]
fn names_of_any_length() {
    let mut names = PackedNames::default();
    let all: Vec<Vec<u8>> = [0, 1, 254, 255, 256, 1024, 4000]
        .map(|len| vec![b'n'; len])
        .to_vec();
    let places: Vec<u64> = all.iter().map(|name| names.add(name)).collect();
    assert!(
        places
            .iter()
            .map(|&place| names.get(place))
            .eq(all.iter().map(|name| &name[..]))
    );
}

/// Rows must take 76 bytes per entry, 8 more per directory, and for each name its length plus one
/// byte.
#[test]
fn rows_are_small() {
    assert_eq!(size_of::<Packed>(), 72);
    let diagnostics = Diagnostics::default();
    let to = collector(&diagnostics);
    give(&to, "top", &[("", meta(1, true))]);
    for dir in 0..100 {
        let name = format!("{dir:03}");
        give(&to, "top", &[(&name, meta(dir, true))]);
        let files: Vec<String> = (0..100).map(|file| format!("{file:05}")).collect();
        let files: Vec<_> = files
            .iter()
            .map(|name| (&name[..], meta(7, false)))
            .collect();
        give(&to, &format!("top/{name}"), &files);
    }
    let rows = to.finish(std::iter::empty());
    assert_eq!(rows.len(), 10_101);
    assert_eq!(rows.order.capacity(), 10_101);
    assert_eq!(
        (rows.rows.capacity(), rows.names.0.capacity()),
        (10_101, 1 + 100 * 4 + 10_000 * 6)
    );
    assert_eq!(
        (
            rows.ends.len(),
            rows.common.classes.len(),
            rows.common.times.len()
        ),
        (101, 2, 0)
    );
}

fn any_time() -> impl Strategy<Value = Time> {
    let sec = prop_oneof![
        any::<i64>(),
        -5_000_000_000..20_000_000_000i64,
        Just(EARLIEST),
        Just((1 << 34) + EARLIEST)
    ];
    (
        sec,
        prop_oneof![any::<u32>(), 0..1_000_000_000u32, Just(WIDE_TIME as u32)],
    )
        .prop_map(|(sec, nsec)| Time { sec, nsec })
}

proptest! {
    #[test]
    fn packed_metadata_is_unpacked(
        (ino, size, blocks, mode) in (any::<u64>(), any::<u64>(), prop_oneof![any::<u64>(), 0..5_000_000_000u64], any::<u32>()),
        (nlink, uid, gid, major) in any::<(u32, u32, u32, u32)>(),
        (atime, mtime, ctime, btime) in (any_time(), any_time(), any_time(), proptest::option::of(any_time())),
        (generation, xattrs, mount, attributes) in any::<(Option<u32>, Option<bool>, u64, u64)>(),
    ) {
        let dev = Dev::new(major, nlink);
        let meta = Meta {
            ino, mode, nlink, uid, gid, size, blocks, atime, mtime, ctime, btime, rdev: dev, dev, mount, attributes,
            generation, xattrs,
        };
        let mut common = SharedValues::default();
        let class = common.class(RowClass::new(&meta, 3));
        let first = Packed::new(&meta, class, |wide| common.keep(wide));
        let again = Packed::new(&meta, class, |wide| common.keep(wide));
        prop_assert_eq!((common.meta(&first), common.meta(&again)), (meta, meta));
    }
}
