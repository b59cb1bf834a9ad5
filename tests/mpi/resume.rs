//! Tests of `--resume` by the ranks of an MPI job: the finished parts of `fathom walk` and `fathom
//! dump` stay, and the others are made again.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::killing::kill_one;
use super::walk::{names, refused, result, walk};
use super::{NEEDS, mpirun};
use crate::support::build::{bush, dir, tmpfs, unmount};
use crate::support::hold::{Hold, Stop};
use crate::support::run::{Ran, args};
use crate::support::snapshot::{kept, same};
use crate::support::trees::{Dice, grow, mutate};
use crate::support::{Need, fathom, in_namespace, require, run};

/// The number of pieces into which `--resume` divides a walk.
const PIECES: usize = 16;

fn resume(many: usize, top: &Path, out: &Path) -> Value {
    let more = ["--resume", "--catalog", out.to_str().unwrap()];
    result(&walk(many, top, &more).exits(0))
}

fn alone(words: &[OsString]) -> Value {
    run(&mut fathom(words.to_vec())).exits(0).json()["result"].clone()
}

#[test]
fn finished_pieces_are_kept() {
    if !require(&NEEDS) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let (top, out) = (dir(scratch.path().join("tree")), scratch.path().join("out"));
    bush(&top, 12, 9);
    for nth in 0..30 {
        bush(&dir(top.join(format!("a/b{}/c{nth}", nth % 4))), 2, 5);
    }
    let whole = alone(&args!["walk", &top, "--json"]);
    let check = |kept: usize| {
        let found = resume(2, &top, &out);
        assert_eq!(found["kept"], kept, "{found}");
        assert_eq!(found["digest"], whole["digest"]);
        assert_eq!(names(&out).len(), 2 * PIECES);
        let queried = alone(&args!["query", &out, "--json"]);
        assert_eq!(queried["digest"], whole["digest"]);
    };
    check(0);
    check(2 * PIECES);
    // A piece of which only one rank has finished its part is not kept.
    fs::remove_file(out.join("part-5-of-32.parquet")).unwrap();
    fs::remove_file(out.join("part-30-of-32.parquet")).unwrap();
    check(2 * (PIECES - 2));
    let before = names(&out);
    for (many, more) in [
        (3, &[][..]),
        (2, &["--exclude", "x"]),
        (2, &["--run", "other"]),
    ] {
        let into = ["--resume", "--catalog", out.to_str().unwrap()];
        let ran = walk(many, &top, &[&into, more].concat());
        refused(&ran, "cannot write");
        assert_eq!(names(&out), before, "{ran}");
    }
    let ran = walk(2, &top, &["--catalog", out.to_str().unwrap()]);
    refused(&ran, "of another run");
}

/// Runs four ranks, and kills one of them when `parts` parts exist and a further one is about to be
/// written.
fn killed_at(parts: usize, victim: usize, words: &[OsString], out: &Path, base: &Path) -> Ran {
    let words = [words, &args!["--resume"]].concat();
    let listed = dir(out);
    let is_due = move |_: &Path| {
        let names = names(&listed);
        names
            .iter()
            .filter(|name| name.starts_with("part-"))
            .count()
            >= parts
    };
    kill_one(
        victim,
        base,
        &words,
        Hold::when(Stop::OpenFileIn(out), is_due),
    )
}

#[test]
fn killed_walks_are_resumed() {
    if !require(&[NEEDS[0], Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let top = dir(scratch.path().join("tree"));
    bush(&top, 20, 30);
    let whole = alone(&args!["walk", &top, "--json"]);
    let out = scratch.path().join("out");
    let mut least = 0;
    for (parts, victim) in [(1, 3), (18, 0), (39, 2)] {
        let words = args!["walk", &top, "--catalog", &out];
        let ran = killed_at(parts, victim, &words, &out, scratch.path());
        // A command that reads the incomplete run reports the missing parts.
        let left = names(&out).len();
        assert!(left >= least && left < 4 * PIECES, "{left} parts: {ran}");
        let ran = run(&mut fathom(args!["changed", &top, "--since", &out])).refused();
        assert!(ran.stderr.contains("missing"), "{ran}");
        for name in names(&out) {
            run(&mut fathom(args!["query", out.join(name), "--json"])).exits(0);
        }
        // At most the parts of one piece are removed.
        least = left - 3;
    }
    let found = resume(4, &top, &out);
    assert_eq!(found["digest"], whole["digest"], "{found}");
    assert!(found["kept"].as_u64().unwrap() >= 36, "{found}");
    let queried = alone(&args!["query", &out, "--json"]);
    for field in ["digest", "entries"] {
        assert_eq!(queried[field], whole[field], "{field}");
    }
}

/// The arguments of a dump into two directories.
fn dump_words(top: &Path, out: &Path) -> Vec<OsString> {
    let (archives, catalog) = (out.join("archives"), out.join("catalog"));
    args!["dump", top, "-o", archives, "--catalog", catalog].to_vec()
}

fn dump(many: usize, top: &Path, out: &Path, more: &[&str]) -> Ran {
    let more = more.iter().map(OsString::from);
    mpirun(many, dump_words(top, out).into_iter().chain(more))
}

/// Checks that all parts together restore the current tree, and that the catalog describes it.
fn check_dump(top: &Path, out: &Path) {
    let to = tmpfs(out.join("to"));
    let below = to.join(top.strip_prefix("/").unwrap().parent().unwrap());
    let archives = out.join("archives");
    let restore = args!["restore", &archives, "-C", &to, "-q"];
    run(&mut fathom(restore)).exits(0);
    same(&kept(top), &kept(&below.join("tree")), "restored");
    unmount(&to);
    let whole = alone(&args!["walk", top, "--json"]);
    let catalog = out.join("catalog");
    let queried = alone(&args!["query", catalog, "--json"]);
    for field in ["entries", "bytes", "files", "directories", "symlinks"] {
        assert_eq!(queried[field], whole[field], "{field}");
    }
}

fn count(out: &Path) -> usize {
    names(&out.join("archives")).len()
}

#[test]
fn pieces_of_a_dump_are_kept_unless_they_have_changed() {
    if !require(&[NEEDS[0], Need::Root]) {
        return;
    }
    in_namespace(|base| {
        let base = tmpfs(base.join("disk"));
        let (top, out) = (dir(base.join("tree")), dir(base.join("out")));
        for nth in 0..40 {
            let below = dir(top.join(format!("a/b{}/c{nth}", nth % 4)));
            bush(&below, 2, 5);
            fs::hard_link(below.join("d0/f0"), top.join(format!("link{nth}"))).unwrap();
        }
        std::thread::sleep(Duration::from_millis(100));
        let (archives, catalog) = (out.join("archives"), out.join("catalog"));
        let resume = |many: usize, kept: std::ops::RangeInclusive<usize>| {
            let found = result(&dump(many, &top, &out, &["--resume", "--json"]).exits(0));
            let number = found["kept"].as_u64().unwrap() as usize;
            assert!(
                kept.contains(&number) && number.is_multiple_of(many),
                "{found}"
            );
            assert_eq!((count(&out), names(&catalog).len()), (16 * many, 16 * many));
            let whole = alone(&args!["walk", &top, "--json"]);
            assert_eq!(found["entries"], whole["entries"], "{found}");
            check_dump(&top, &out);
        };
        resume(3, 0..=0);
        resume(3, 48..=48);
        // The number of entries is that of the tree, not the sum over all parts.
        let entries = alone(&args!["walk", &top, "--json"])["entries"].as_u64();
        let ran = dump(3, &top, &out, &["--resume"]).exits(0);
        let words = format!("nothing to dump: {} entries are", entries.unwrap());
        assert!(ran.stderr.replace(',', "").contains(&words), "{ran}");
        let lose = |number: usize| {
            fs::remove_file(archives.join(format!("part-{number}-of-48.tar.zst"))).unwrap();
        };
        // A complete dump is never removed.
        let file = top.join("a/b1/c1/d0/f3");
        fs::write(&file, "other").unwrap();
        let before = (names(&archives), names(&catalog));
        let ran = dump(3, &top, &out, &["--resume"]);
        refused(&ran, "entries have changed since");
        assert_eq!((names(&archives), names(&catalog)), before);
        // One part is missing: its piece is dumped again, and so is the piece of the changed file.
        lose(40);
        resume(3, 42..=45);
        // One part of the catalog is missing.
        fs::remove_file(catalog.join("part-4-of-48.parquet")).unwrap();
        resume(3, 45..=45);
        // A directory moves from one piece to a different one, or its mode changes, which all
        // archives with entries below it contain.
        lose(0);
        fs::rename(top.join("a/b2/c2"), top.join("a/b3/moved")).unwrap();
        resume(3, 0..=39);
        lose(0);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o711);
        fs::set_permissions(top.join("a/b1"), mode).unwrap();
        resume(3, 0..=39);
        // A hard link is added to a file, and a hard link of a different file is removed.
        lose(0);
        fs::hard_link(top.join("a/b0/c0/d1/f1"), top.join("a/b3/c3/other")).unwrap();
        fs::remove_file(top.join("link7")).unwrap();
        resume(3, 0..=44);
        // Random changes.
        grow(&dir(top.join("a/odd")), 5, 60);
        let mut dice = Dice::new(7);
        for nth in [17, 33] {
            lose(nth);
            drop(mutate(&top.join("a"), &mut dice, 6));
            std::thread::sleep(Duration::from_millis(50));
            let ran = dump(3, &top, &out, &["--resume", "--json"]);
            assert!(ran.code() < 2, "{ran}");
            check_dump(&top, &out);
        }
        // Inside the tree, the parts of one attempt would be entries in the next.
        let before = names(&top);
        refused(
            &dump(3, &top, &top.join("a/new"), &["--resume"]),
            "it is in '",
        );
        refused(
            &walk(3, &top, &["--resume", "--catalog", top.to_str().unwrap()]),
            "it is in '",
        );
        assert_eq!((names(&top), top.join("a/new").exists()), (before, false));
        // Parts of a different run or command are not removed.
        lose(5);
        for (many, more) in [
            (2, &["--resume"][..]),
            (3, &["--resume", "--exclude", "x"]),
            (3, &["--resume", "--compress", "none"]),
            (3, &[]),
        ] {
            let before = (names(&archives), names(&catalog));
            refused(&dump(many, &top, &out, more), "cannot write");
            assert_eq!((names(&archives), names(&catalog)), before);
        }
        let ran = walk(
            3,
            &top,
            &["--resume", "--catalog", catalog.to_str().unwrap()],
        );
        refused(&ran, "cannot write");
    });
}

#[test]
fn killed_dumps_are_resumed() {
    if !require(&[NEEDS[0], Need::Root]) {
        return;
    }
    in_namespace(|base| {
        let base = tmpfs(base.join("disk"));
        let (top, out) = (dir(base.join("tree")), dir(base.join("out")));
        bush(&top, 20, 20);
        fs::hard_link(top.join("d1/f1"), top.join("d2/link")).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        // Without --catalog, the catalog is written beside the archives.
        let beside = base.join("beside");
        for kept in [0, 2 * PIECES] {
            let words = args!["dump", &top, "-o", &beside, "--resume", "--json"];
            let found = result(&mpirun(2, words).exits(0));
            assert_eq!(found["kept"], kept, "{found}");
            assert_eq!(names(&beside.join(".catalog")).len(), 2 * PIECES);
        }
        run(&mut fathom(args!["list", &beside])).exits(0);
        let archives = out.join("archives");
        let mut least = 0;
        for (parts, victim) in [(1, 3), (18, 0), (39, 2)] {
            let words = dump_words(&top, &out);
            let ran = killed_at(parts, victim, &words, &archives, &base);
            let left = count(&out);
            assert!(left >= least && left < 4 * PIECES, "{left} parts: {ran}");
            let ran = run(&mut fathom(args!["list", &archives])).refused();
            assert!(ran.stderr.contains("missing"), "{ran}");
            for name in names(&archives) {
                run(&mut fathom(args!["list", archives.join(name)])).exits(0);
            }
            // At most the parts of one piece are removed.
            least = left.saturating_sub(3);
        }
        let found = result(&dump(4, &top, &out, &["--resume", "--json"]).exits(0));
        assert!(found["kept"].as_u64().unwrap() >= 36, "{found}");
        check_dump(&top, &out);
    });
}
