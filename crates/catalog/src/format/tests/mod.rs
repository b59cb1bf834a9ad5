//! Tests of writing and reading catalogs of trees in memory.
#![allow(
    clippy::disallowed_methods,
    reason = "the tests build and check past the gate"
)]

mod damage;

use std::fs;
use std::ops::Range;
use std::os::unix::prelude::*;
use std::path::Path;
use std::sync::OnceLock;

use gate::fs::{Open, fstat};
use gate::long::open_long;
use walk::{
    Diagnostics, Dir, DirKey, EngineKind, Entry, Meta, Sink, Summary, WalkOptions, WalkReport,
};

use crate::changed::{self, changed};
use crate::format::columns::{BTIME_NSEC, DIR, INO, NAME, TOP};
use crate::format::{About, Catalog, CatalogDraft, Options, Reader, RowInclusion, RowUpdates};
use crate::rows::{Collector, Rows, Source};
use crate::{Action, Error, ErrorKind};

fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

fn tree() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    for name in [
        "top/b/x",
        "top/b/c/y",
        "top/a",
        "top/b.z",
        "other/f",
        "file",
    ] {
        let at = place.path().join(name);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::write(at, name).unwrap();
    }
    fs::hard_link(place.path().join("top/a"), place.path().join("top/link")).unwrap();
    fs::create_dir(place.path().join("top/empty")).unwrap();
    place
}

fn rows(place: &Path, sources: &[&str]) -> Rows {
    let paths: Vec<Vec<u8>> = sources.iter().map(|it| bytes(&place.join(it))).collect();
    let open = |path: &Vec<u8>| {
        let open = open_long(path, Open::PATH | Open::NOFOLLOW).unwrap();
        let seen = fstat(&open, Meta::WANT).unwrap();
        (Meta::from_statx(&seen), open)
    };
    let is_dir = |number: &u32| open(&paths[*number as usize]).0.is_dir();
    let source = |path: &Vec<u8>| Source {
        path: path.clone(),
        absolute: open(path).0.is_dir().then(|| path.clone()),
        rows: 0..0,
        open: OnceLock::new(),
    };
    let (dirs, files): (Vec<u32>, Vec<u32>) = (0..paths.len() as u32).partition(is_dir);
    let (walked, diagnostics) = (dirs.iter(), Diagnostics::default());
    let options = WalkOptions {
        dirs: walked.map(|&it| paths[it as usize].clone()).collect(),
        ..WalkOptions::default()
    };
    let all = paths.iter().map(source).collect();
    let collector = Collector::new(all, dirs, Some(walk::Moment::now()), &diagnostics);
    for number in files {
        collector.wait(None);
        let (meta, open) = open(&paths[number as usize]);
        collector.add(number, &meta, open);
    }
    let report = walk::walk(&options, &collector, &diagnostics).unwrap();
    collector.finish(report.parts.iter().map(|part| part.engine))
}

fn hash(row: usize) -> Option<[u8; 32]> {
    (!row.is_multiple_of(3)).then(|| *blake3::hash(&row.to_le_bytes()).as_bytes())
}

fn write(file: &Path, rows: &Rows, complete: bool, kept: impl Fn(usize) -> bool + Sync) -> About {
    let later = |rows: Range<usize>, ()| {
        Ok(RowUpdates {
            hashes: rows.map(hash).collect(),
            ..RowUpdates::default()
        })
    };
    let draft = CatalogDraft::create(&bytes(file)).unwrap();
    draft
        .write(
            rows,
            Options::default(),
            |row| {
                if kept(row) {
                    RowInclusion::Row
                } else {
                    RowInclusion::Nowhere
                }
            },
            || Ok(()),
            later,
            || complete,
        )
        .unwrap()
        .publish()
        .unwrap()
}

/// `top dir/name` of each row, in order.
fn names(reader: &Reader) -> Vec<String> {
    let group = |group| {
        let (dirs, names) = (
            reader.read(DIR, group).unwrap(),
            reader.read(NAME, group).unwrap(),
        );
        let tops = reader.read(TOP, group).unwrap();
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let line =
            |((dir, name), top): ((&_, &_), _)| format!("{top} {}/{}", text(dir), text(name));
        dirs.iter()
            .zip(names.iter())
            .zip(tops)
            .map(line)
            .collect::<Vec<_>>()
    };
    (0..reader.groups()).flat_map(group).collect()
}

#[test]
fn catalog_of_rows_is_that_of_a_walk() {
    let place = tree();
    let (top, file) = (place.path().join("top"), place.path().join("catalog"));
    let rows = rows(place.path(), &["top"]);
    let about = write(&file, &rows, true, |_| true);
    let sum = Summary::default();
    let walk = walk::WalkOptions {
        dirs: vec![bytes(&top)],
        engine: Some(EngineKind::Threads),
        ..walk::WalkOptions::default()
    };
    walk::walk(&walk, &sum, &Diagnostics::default()).unwrap();
    assert_eq!(
        (about.digest.clone(), about.entries),
        (sum.totals().digest.to_string(), 9)
    );
    assert!(
        about.complete && about.racy == 0 && about.parts[0].path.is_empty(),
        "{about:?}"
    );

    let reader = Reader::open(&bytes(&file)).unwrap();
    assert_eq!(reader.about(), &about);
    let expected = [
        "0 /", "0 /a", "0 /b", "0 b/c", "0 b/c/y", "0 b/x", "0 /b.z", "0 /empty", "0 /link",
    ]
    .map(str::to_owned);
    assert_eq!(names(&reader), expected);
    assert_eq!(
        *reader.hashes(0).unwrap(),
        (0..9).map(hash).collect::<Vec<_>>()
    );
    let metas: Vec<_> = (0..9).map(|row| rows.meta(row)).collect();
    assert_eq!(
        reader.read(INO, 0).unwrap(),
        metas.iter().map(|meta| meta.ino).collect::<Vec<_>>()
    );
    assert_eq!(
        reader.read(BTIME_NSEC, 0).unwrap(),
        metas
            .iter()
            .map(|meta| meta.btime.map(|t| t.nsec))
            .collect::<Vec<_>>()
    );

    let since = |by| {
        let options = changed::ChangedOptions {
            dir: bytes(&top),
            since: bytes(&file),
            by,
            ..Default::default()
        };
        let reader = Reader::open(&options.since).unwrap();
        changed(&options, reader, &Diagnostics::default())
            .unwrap()
            .changes
            .entries()
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (since(None), since(Some(EngineKind::Threads))),
        (vec![], vec![])
    );
    fs::write(top.join("b/x"), "new").unwrap();
    let changes = since(None);
    assert_eq!(
        changes
            .iter()
            .map(|entry| &entry.path[..])
            .collect::<Vec<_>>(),
        [b"b/x"]
    );
}

#[test]
fn catalog_of_several_sources() {
    let place = tree();
    let file = place.path().join("catalog");
    let about = write(
        &file,
        &rows(place.path(), &["other", "file", "top/b"]),
        true,
        |_| true,
    );
    let roots: Vec<_> = about
        .roots
        .iter()
        .map(|root| (root.path.clone(), root.absolute.is_some()))
        .collect();
    let path = |name: &str| bytes(&place.path().join(name));
    assert_eq!(
        roots,
        [
            (path("other"), true),
            (path("file"), false),
            (path("top/b"), true)
        ]
    );
    let reader = Reader::open(&bytes(&file)).unwrap();
    assert_eq!(
        names(&reader),
        ["0 /", "0 /f", "1 /", "2 /", "2 /c", "2 c/y", "2 /x"]
    );
    let begun: Vec<u32> = about
        .parts
        .iter()
        .filter(|part| part.engine.is_some())
        .map(|part| part.top)
        .collect();
    assert_eq!(begun, [0, 2]);
    let options = changed::ChangedOptions {
        dir: path("other"),
        since: bytes(&file),
        ..Default::default()
    };
    assert!(changed(&options, reader, &Diagnostics::default()).is_err());
}

#[test]
fn partial_catalog_has_no_tokens() {
    let place = tree();
    let file = place.path().join("catalog");
    let rows = rows(place.path(), &["top"]);
    for (complete, left_out) in [(false, usize::MAX), (true, 4)] {
        let about = write(&file, &rows, complete, |row| row != left_out);
        assert!(
            !about.complete && about.parts.iter().all(|part| part.token.is_none()),
            "{about:?}"
        );
        let reader = Reader::open(&bytes(&file)).unwrap();
        assert_eq!(names(&reader).len(), if complete { 8 } else { 9 });
    }
}

#[test]
fn error_of_later_results_is_the_error_of_the_catalog() {
    let place = tree();
    let file = place.path().join("catalog");
    let error = Error::new(Action::ReadCatalog, b"elsewhere", ErrorKind::CutShort);
    let draft = CatalogDraft::create(&bytes(&file)).unwrap();
    let rows = rows(place.path(), &["top"]);
    let written = draft.write(
        &rows,
        Options::default(),
        |_| RowInclusion::Row,
        || Ok(()),
        |_, ()| Err(error.clone()),
        || true,
    );
    let written = written.err().map(|error| error.to_string());
    assert_eq!((written, file.exists()), (Some(error.to_string()), false));
}

/// The last row group is only partly filled.
#[test]
fn many_row_groups() {
    let place = tempfile::tempdir().unwrap();
    let top = place.path().join("top");
    for n in 0..70 {
        let dir = top.join(n.to_string());
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("0"), "").unwrap();
        (1..1000).for_each(|n| fs::hard_link(dir.join("0"), dir.join(n.to_string())).unwrap());
    }
    let rows = rows(place.path(), &["top"]);
    let file = place.path().join("catalog");
    let about = write(&file, &rows, true, |_| true);
    assert_eq!((about.entries, rows.len()), (70_071, 70_071));
    let reader = Reader::open(&bytes(&file)).unwrap();
    assert_eq!(
        (reader.groups(), reader.rows(0), reader.rows(8)),
        (9, 8_758, 7)
    );
    let hashes: Vec<_> = (0..9)
        .flat_map(|group| reader.hashes(group).unwrap().to_vec())
        .collect();
    assert!(hashes.into_iter().eq((0..70_071).map(hash)));
    let first = reader.read(NAME, 1).unwrap()[0].to_vec();
    assert_eq!(first, rows.name(8_758));
}

/// An engine may emit all entries of a directory at once, but readers reject large row groups.
#[test]
fn row_groups_of_a_large_directory_are_small() {
    let place = tempfile::tempdir().unwrap();
    let (top, file) = (bytes(place.path()), place.path().join("catalog"));
    let catalog = Catalog::create(&bytes(&file), &top, Options::default()).unwrap();
    let dir = Dir {
        path: &top,
        key: DirKey::default(),
    };
    let entry = Entry {
        name: b"name",
        meta: Meta::default(),
    };
    let mut worker = catalog.worker();
    worker.take(&dir, &vec![entry; 140_000]);
    drop(worker);
    catalog.finish(&WalkReport::default(), true).unwrap();
    let reader = Reader::open(&bytes(&file)).unwrap();
    let rows: Vec<usize> = (0..reader.groups())
        .map(|group| reader.rows(group))
        .collect();
    assert!(
        rows.iter().sum::<usize>() == 140_000 && rows.iter().all(|rows| *rows < 80_000),
        "{rows:?}"
    );
}

/// No row group may take more memory than others, however deep the tree.
#[test]
fn long_paths_make_more_row_groups() {
    let place = tempfile::tempdir().unwrap();
    let mut dir = place.path().join("top");
    let mut expected = vec![String::from("0 /")];
    for depth in 0..19 {
        let below = vec!["d".repeat(200); depth].join("/");
        expected.push(format!("0 {below}/{}", "d".repeat(200)));
        dir.push("d".repeat(200));
    }
    fs::create_dir_all(&dir).unwrap();
    let (rows, file) = (rows(place.path(), &["top"]), place.path().join("catalog"));
    let repeated = |number: usize| {
        let about = write(&file, &rows, true, |_| true);
        let reader = Reader::open(&bytes(&file)).unwrap();
        assert_eq!((about.entries, names(&reader)), (20, expected.clone()));
        assert!(reader.groups() >= number, "{}", reader.groups());
    };
    // These rows have 34 KiB of paths.
    repeated(3);
    let top = bytes(&place.path().join("top"));
    let catalog = Catalog::create(&bytes(&file), &top, Options::default()).unwrap();
    let options = WalkOptions {
        dirs: vec![top],
        ..WalkOptions::default()
    };
    let report = walk::walk(&options, &catalog, &Diagnostics::default()).unwrap();
    catalog.finish(&report, true).unwrap();
    let reader = Reader::open(&bytes(&file)).unwrap();
    let mut found = names(&reader);
    found.sort_unstable_by_key(String::len);
    assert_eq!(found, expected);
    assert!(reader.groups() >= 3, "{}", reader.groups());
}
