//! What has changed, on real directories: each kind of change by itself, and random ones against a
//! model.
#![allow(
    clippy::disallowed_methods,
    reason = "the tests build and check past the gate"
)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::prelude::*;
use std::path::Path;

use archive::Error;
use archive::catalog::columns::{BTIME, DIR, GENERATION, MODE, NAME, SIZE};
use archive::catalog::{About, Catalog, Options, Reader};
use archive::changed::{Change, ChangedOptions, ChangedReport, changed};
use archive::since::Evidence;
use proptest::prelude::*;
use walk::{Diagnostics, EngineKind};

fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

fn catalog(dir: &Path, file: &Path, options: Options) -> About {
    let catalog = Catalog::create(&bytes(file), &bytes(dir), options.clone()).unwrap();
    let question = walk::WalkOptions {
        dirs: vec![bytes(dir)],
        engine: Some(EngineKind::Threads),
        filter: options.filter(),
        ..walk::WalkOptions::default()
    };
    let answer = walk::walk(&question, &catalog, &Diagnostics::default()).unwrap();
    catalog.finish(&answer, true).unwrap()
}

fn since(dir: &Path, file: &Path, update: bool) -> Result<ChangedReport, Error> {
    let options = ChangedOptions {
        dir: bytes(dir),
        since: bytes(file),
        by: Some(EngineKind::Threads),
        update,
        ..ChangedOptions::default()
    };
    let mut answer = changed(&options, &Diagnostics::default())?;
    answer
        .update
        .take()
        .map(|sealed| sealed.publish())
        .transpose()?;
    Ok(answer)
}

/// `sign path` or `> path < from`, without the directories that have changed because of what
/// happened in them.
fn told(report: &ChangedReport) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let is_told = |entry: &&archive::changed::ChangedEntry| {
        !(entry.is_dir && entry.change == Change::Changed)
    };
    let line = |entry: &archive::changed::ChangedEntry| match entry.change {
        Change::Added => format!("+ {}", text(&entry.path)),
        Change::Changed => format!("* {}", text(&entry.path)),
        Change::Removed => format!("- {}", text(&entry.path)),
        Change::Renamed => format!(
            "> {} < {}",
            text(&entry.path),
            text(entry.from.as_deref().unwrap())
        ),
    };
    let mut lines: Vec<String> = report
        .changes
        .entries
        .iter()
        .filter(is_told)
        .map(line)
        .collect();
    lines.sort();
    lines
}

struct Fixture {
    dir: tempfile::TempDir,
}

impl Fixture {
    fn new(files: &[&str]) -> Fixture {
        let fixture = Fixture {
            dir: tempfile::tempdir().unwrap(),
        };
        fs::create_dir(fixture.dir()).unwrap();
        for file in files {
            fixture.write(file, "1");
        }
        fixture
    }
    fn dir(&self) -> std::path::PathBuf {
        self.dir.path().join("tree")
    }
    fn file(&self) -> std::path::PathBuf {
        self.dir.path().join("catalog.parquet")
    }
    fn at(&self, name: &str) -> std::path::PathBuf {
        self.dir().join(name)
    }
    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.at(name).parent().unwrap()).unwrap();
        fs::write(self.at(name), text).unwrap();
    }
    fn catalog(&self) {
        catalog(&self.dir(), &self.file(), Options::default());
    }
    fn told(&self) -> Vec<String> {
        told(&since(&self.dir(), &self.file(), false).unwrap())
    }
}

#[test]
fn nothing_has_changed() {
    let fixture = Fixture::new(&["a/b", "c"]);
    let about = catalog(&fixture.dir(), &fixture.file(), Options::default());
    assert_eq!((about.entries, about.racy), (4, 0), "{about:?}");
    let answer = since(&fixture.dir(), &fixture.file(), false).unwrap();
    assert_eq!(
        (answer.engine.name(), answer.changes.entries),
        ("threads", vec![])
    );
    assert!(
        answer.reason.evidence == Evidence::SameDigest,
        "{}",
        answer.reason
    );
}

#[test]
fn each_kind_of_change() {
    let fixture = Fixture::new(&[
        "stays", "grows", "goes", "moves", "d/x", "d/e/y", "d/e/z", "swap1", "swap2", "replaced",
    ]);
    fs::hard_link(fixture.at("stays"), fixture.at("link")).unwrap();
    fixture.catalog();
    fixture.write("grows", "123");
    fs::remove_file(fixture.at("goes")).unwrap();
    fs::rename(fixture.at("moves"), fixture.at("moved")).unwrap();
    fixture.write("comes", "1");
    fs::rename(fixture.at("d"), fixture.at("D")).unwrap();
    fixture.write("D/e/z", "22");
    fixture.write("D/e/new", "1");
    fs::rename(fixture.at("swap1"), fixture.at("swap")).unwrap();
    fs::rename(fixture.at("swap2"), fixture.at("swap1")).unwrap();
    fs::rename(fixture.at("swap"), fixture.at("swap2")).unwrap();
    fixture.write("temporary", "1");
    fs::rename(fixture.at("temporary"), fixture.at("replaced")).unwrap();
    let want = [
        "* D/e/z",
        "* grows",
        "* replaced",
        "+ D/e/new",
        "+ comes",
        "- goes",
        "> D < d",
        "> moved < moves",
        "> swap1 < swap2",
        "> swap2 < swap1",
    ];
    assert_eq!(fixture.told(), want);
    let answer = since(&fixture.dir(), &fixture.file(), true).unwrap();
    assert_eq!(told(&answer), want);
    let mut carried: Vec<_> = answer
        .changes
        .carried
        .iter()
        .map(|(path, _)| String::from_utf8(path.clone()).unwrap())
        .collect();
    carried.sort();
    assert_eq!(carried, ["D/e/y", "D/x"]);
}

#[test]
fn hard_links_are_names_of_one_file() {
    let fixture = Fixture::new(&["a"]);
    fs::hard_link(fixture.at("a"), fixture.at("b")).unwrap();
    fixture.catalog();
    fs::hard_link(fixture.at("a"), fixture.at("c")).unwrap();
    assert_eq!(fixture.told(), ["* a", "* b", "+ c"]);
    fs::remove_file(fixture.at("b")).unwrap();
    assert_eq!(fixture.told(), ["* a", "> c < b"]);
}

#[test]
fn a_change_in_the_tick_of_the_catalog_is_not_missed() {
    let fixture = Fixture::new(&["a"]);
    for round in 0..20 {
        fixture.write("a", &format!("{}", round % 10));
        fixture.catalog();
        fixture.write("a", &format!("{}", (round + 1) % 10));
        assert!(fixture.told().contains(&"* a".to_owned()), "round {round}");
    }
}

#[test]
fn options_are_those_of_the_catalog() {
    let fixture = Fixture::new(&["a/b/c", "x.o", "y"]);
    let options = Options {
        excludes: vec!["*.o".to_owned()],
        max_depth: Some(1),
        ..Options::default()
    };
    catalog(&fixture.dir(), &fixture.file(), options);
    fixture.write("a/b/c", "22");
    fixture.write("x.o", "22");
    fixture.write("y", "22");
    assert_eq!(fixture.told(), ["* y"]);
}

#[test]
fn an_update_leaves_a_catalog_of_what_is_there() {
    let fixture = Fixture::new(&["a", "b"]);
    fixture.catalog();
    fixture.write("a", "22");
    let before = fs::metadata(fixture.file()).unwrap().ino();
    assert_eq!(
        told(&since(&fixture.dir(), &fixture.file(), true).unwrap()),
        ["* a"]
    );
    assert_ne!(fs::metadata(fixture.file()).unwrap().ino(), before);
    assert!(
        since(&fixture.dir(), &fixture.file(), false)
            .unwrap()
            .changes
            .entries
            .is_empty()
    );
    assert_eq!(fs::read_dir(fixture.dir.path()).unwrap().count(), 2);
}

#[test]
fn catalogs_that_cannot_be_used() {
    let fixture = Fixture::new(&["a"]);
    fixture.catalog();
    let other = tempfile::tempdir().unwrap();
    let reason = |dir: &Path, file: &Path| match since(dir, file, true) {
        Err(error) => error.kind.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(reason(other.path(), &fixture.file()).contains("another directory"));
    assert!(reason(Path::new("/proc"), &fixture.file()).contains("another file system"));
    let whole = fs::read(fixture.file()).unwrap();
    let bad = fixture.dir.path().join("bad");
    for (content, why) in [
        (&b""[..], "not a Parquet file"),
        (b"hello, world, this is no catalog", "not a Parquet file"),
        (&whole[..whole.len() / 2], "truncated"),
        (&whole[..whole.len() - 1], "truncated"),
    ] {
        fs::write(&bad, content).unwrap();
        assert!(reason(&fixture.dir(), &bad).contains(why), "{why}");
        assert_eq!(fs::read(&bad).unwrap(), content);
    }
    assert!(reason(&fixture.dir(), &fixture.dir.path().join("none")).contains("No such file"));
    let directory = reason(&fixture.dir(), &fixture.dir());
    assert_eq!(directory, "no file in it is named *.parquet");
}

#[test]
fn names_of_every_kind_come_back() {
    let fixture = Fixture::new(&[]);
    let names: Vec<Vec<u8>> = (1..=255u8)
        .filter(|&b| b != b'/' && b != b'.')
        .map(|b| vec![b; 1 + usize::from(b) % 40])
        .collect();
    for name in &names {
        fs::write(fixture.dir().join(std::ffi::OsStr::from_bytes(name)), b"").unwrap();
    }
    fixture.catalog();
    let reader = Reader::open(&bytes(&fixture.file())).unwrap();
    let of = |group| {
        reader
            .read(NAME, group)
            .unwrap()
            .iter()
            .map(<[u8]>::to_vec)
            .collect::<Vec<_>>()
    };
    let read: Vec<Vec<u8>> = (0..reader.groups()).flat_map(of).collect();
    let mut want = names;
    want.push(Vec::new());
    want.sort();
    assert_eq!(read, want);
}

#[derive(Clone, Debug)]
enum Step {
    Write(u8, u8),
    Make(u8),
    Remove(u8),
    Rename(u8, u8),
    Link(u8, u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (any::<u8>(), any::<u8>()).prop_map(|(a, b)| Step::Write(a, b)),
        any::<u8>().prop_map(Step::Make),
        any::<u8>().prop_map(Step::Remove),
        (any::<u8>(), any::<u8>()).prop_map(|(a, b)| Step::Rename(a, b)),
        (any::<u8>(), any::<u8>()).prop_map(|(a, b)| Step::Link(a, b)),
    ];
    proptest::collection::vec(step, 0..30)
}

/// A name in a small tree of names, so that steps meet.
fn name(n: u8) -> String {
    let part = |n: u8| (b'a' + n % 3) as char;
    match n % 4 {
        0 => format!("{}", part(n / 4)),
        1 | 2 => format!("{}/{}", part(n / 4), part(n / 12)),
        _ => format!("{}/{}/{}", part(n / 4), part(n / 12), part(n / 36)),
    }
}

fn take(dir: &Path, steps: &[Step]) {
    for step in steps {
        let at = |n: &u8| dir.join(name(*n));
        let _ = match step {
            Step::Write(n, len) => fs::write(at(n), vec![b'x'; usize::from(*len)]),
            Step::Make(n) => fs::create_dir(at(n)),
            Step::Remove(n) => fs::remove_file(at(n)).or_else(|_| fs::remove_dir_all(at(n))),
            Step::Rename(a, b) => fs::rename(at(a), at(b)),
            Step::Link(a, b) => fs::hard_link(at(a), at(b)),
        };
    }
}

/// What is at each path: inode number, and all that must be the same for an entry to be unchanged.
fn look(dir: &Path, below: &str, into: &mut BTreeMap<String, (u64, bool, [i64; 6])>) {
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let meta = entry.path().symlink_metadata().unwrap();
        let name = format!("{below}{}", entry.file_name().to_str().unwrap());
        if meta.is_dir() {
            look(&entry.path(), &format!("{name}/"), into);
        }
        let print = [
            meta.mode() as i64,
            meta.size() as i64,
            meta.mtime(),
            meta.mtime_nsec(),
            meta.ctime(),
            meta.ctime_nsec(),
        ];
        into.insert(name, (meta.ino(), meta.is_dir(), print));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// From what was there and what is told, what is there now can be made.
    #[test]
    fn what_is_told_leads_from_then_to_now(before in steps(), after in steps()) {
        let fixture = Fixture::new(&[]);
        take(&fixture.dir(), &before);
        let (mut then, mut now) = (BTreeMap::new(), BTreeMap::new());
        look(&fixture.dir(), "", &mut then);
        fixture.catalog();
        take(&fixture.dir(), &after);
        look(&fixture.dir(), "", &mut now);
        let answer = since(&fixture.dir(), &fixture.file(), false).unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let mut told: BTreeMap<String, (Change, Option<String>)> = BTreeMap::new();
        for entry in &answer.changes.entries {
            let of = (entry.change, entry.from.as_deref().map(text));
            prop_assert!(told.insert(text(&entry.path), of).is_none(), "{:?} twice", entry);
        }
        let carried: Vec<String> = answer.changes.carried.iter().map(|(path, _)| text(path)).collect();
        // Whatever is there is as it was at its path, or is told of, or was carried along.
        for (path, is) in &now {
            let is_same = then.get(path) == Some(is);
            match told.get(path) {
                None => prop_assert!(is_same || carried.contains(path), "{path} is not told of: {answer:?}"),
                Some((Change::Removed, _)) => prop_assert!(false, "{path} is there: {answer:?}"),
                Some((Change::Added, _)) => {
                    let has_moved = told.values().any(|(_, from)| from.as_ref().is_some_and(|from| {
                        path == from || path.starts_with(&format!("{from}/"))
                    }));
                    prop_assert!(!then.contains_key(path) || has_moved, "{path} was there: {answer:?}");
                }
                Some((Change::Renamed, from)) => {
                    let from = from.as_ref().unwrap();
                    prop_assert_eq!(then.get(from).map(|was| was.0), Some(is.0));
                    prop_assert!(now.get(from).is_none_or(|at| at.0 != is.0), "{from} still has it: {answer:?}");
                }
                Some((Change::Changed, _)) => prop_assert!(!is_same, "{path} is as it was: {answer:?}"),
            }
        }
        // Whatever was there is there, or told of as gone or renamed, or was below what was
        // renamed.
        let renamed: Vec<&String> = told.values().filter_map(|(_, from)| from.as_ref()).collect();
        for path in then.keys().filter(|path| !now.contains_key(*path)) {
            let is_gone = told.get(path).is_some_and(|(change, _)| *change == Change::Removed);
            let went_along = renamed.iter().any(|from| path == *from || path.starts_with(&format!("{from}/")));
            prop_assert!(is_gone || went_along, "nothing is told of {path}: {answer:?}");
        }
        for (path, (change, _)) in &told {
            if *change == Change::Removed {
                prop_assert!(then.contains_key(path) && !now.contains_key(path), "{path}: {answer:?}");
            }
        }
    }

    /// Whatever becomes of its bytes, a catalog is read or refused.
    #[test]
    fn a_damaged_catalog_is_read_or_refused(at in any::<prop::sample::Index>(), byte in any::<u8>(), tail in any::<bool>()) {
        let fixture = Fixture::new(&["a/b", "c/d", "e"]);
        fixture.catalog();
        let mut content = fs::read(fixture.file()).unwrap();
        // Half of the time within the last part, where the library keeps what it believes.
        let len = content.len();
        let at = if tail { len - 1 - at.index(len.min(600)) } else { at.index(len) };
        content[at] ^= byte;
        fs::write(fixture.file(), content).unwrap();
        let _ = since(&fixture.dir(), &fixture.file(), false);
        let told = |error: Error| {
            let text = error.kind.to_string();
            let is_plain = !text.contains("Parquet error") && !text.contains("EOF");
            assert!(is_plain && error.kind.is_unusable_catalog(), "{error:?}");
        };
        if let Ok(reader) = Reader::open(&bytes(&fixture.file())) {
            for group in 0..reader.groups() {
                let _ = (reader.read(DIR, group).map_err(told), reader.read(NAME, group).map_err(told));
                let _ = (reader.read(MODE, group).map_err(told), reader.read(SIZE, group).map_err(told));
                let _ = (reader.read(GENERATION, group).map_err(told), reader.read(BTIME, group).map_err(told));
            }
        }
    }
}
