//! Tests of `fathom walk` by the ranks of an MPI job: a tree has the same digest for any number of
//! ranks.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::killing::kill_one;
use super::{IS_OPEN_MPI, NEEDS, launcher, mpirun, ranks, run_job};
use crate::support::build::{bush, deep, dir, file, tmpfs};
use crate::support::concurrent::{Done, with_threads};
use crate::support::effort::effort;
use crate::support::fuse::{Manner, serve};
use crate::support::hold::{Hold, Stop};
use crate::support::reference::census;
use crate::support::run::{Ran, args};
use crate::support::synthetic::{SyntheticTree, serve_synthetic};
use crate::support::trees::{Dice, grow, mutate};
use crate::support::{Need, fathom, in_namespace, require, run, schema};

pub(super) fn walk(many: usize, top: &Path, more: &[&str]) -> Ran {
    let words = args!["walk", top, "--json"].into_iter();
    mpirun(many, words.chain(more.iter().map(OsString::from)))
}

/// The JSON object that all ranks together print.
pub(super) fn result(ran: &Ran) -> Value {
    let value: Value = serde_json::from_slice(&ran.stdout).unwrap_or_else(|_| panic!("{ran}"));
    schema::check(&value);
    value["result"].clone()
}

fn alone(words: impl IntoIterator<Item = OsString>) -> Value {
    run(&mut fathom(words)).exits(0).json()["result"].clone()
}

fn same(one: &Value, other: &Value, what: &str) {
    for field in [
        "digest",
        "entries",
        "files",
        "directories",
        "bytes",
        "blocks",
        "max_depth",
    ] {
        assert_eq!(one[field], other[field], "{what}: {field}");
    }
}

pub(super) fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let name = |entry: Result<fs::DirEntry, _>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<_> = entries.map(name).collect();
    names.sort_unstable();
    names
}

/// Creates a tree with odd names, hard links, large directories, a long path, and nested mounts.
fn tree(top: &Path) {
    grow(&dir(top.join("odd")), 25, 300);
    // More directories than a thread keeps in its queue.
    let many = dir(top.join("many"));
    (0..15_000).for_each(|nth| fs::create_dir(many.join(format!("directory{nth}"))).unwrap());
    bush(&dir(top.join("wide")), 1, 3000);
    drop(deep(top, "deep", 300));
    for at in ["odd/mount", "mount", "mount/a/mount"] {
        bush(&tmpfs(top.join(at)), 4, 9);
    }
}

#[test]
fn ranks_divide_the_processors_of_their_machine() {
    if !require(&NEEDS) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let top = dir(scratch.path().join("tree"));
    bush(&top, 5, 5);
    let nproc = run(&mut Command::new("nproc")).exits(0);
    let all: f64 = std::str::from_utf8(&nproc.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    for many in [1, 2, 3] {
        let mut command = launcher();
        if *IS_OPEN_MPI {
            command.args(["--bind-to", "none"]);
        }
        let ran = run_job(command.args(ranks(many, args!["walk", &top, "--json"]))).exits(0);
        let own = (all / many as f64).round().max(1.0) as u64;
        let found = result(&ran);
        let each = found["ranks"].as_array().unwrap().iter();
        let each: Vec<_> = each
            .map(|rank| rank["processors"].as_u64().unwrap())
            .collect();
        assert_eq!(each, vec![own; many], "{ran}");
    }
}

#[test]
fn any_number_of_ranks_finds_the_same() {
    if !require(&[NEEDS[0], Need::Root]) {
        return;
    }
    in_namespace(|base| {
        let top = dir(base.join("tree"));
        tree(&top);
        let whole = alone(args!["walk", &top, "--json"]);
        for many in [2, 3, 7, 1, 16].into_iter().take(effort(2, 5)) {
            let out = base.join(format!("out/{many}"));
            let what = format!("{many} ranks");
            let ran = walk(many, &top, &["--catalog", out.to_str().unwrap()]).exits(0);
            let found = result(&ran);
            same(&found, &whole, &what);
            assert_eq!(found["parts"].as_array().unwrap().len(), 4, "{ran}");
            let part = |rank| format!("part-{rank}-of-{many}.parquet");
            let mut parts: Vec<_> = (0..many).map(part).collect();
            parts.sort_unstable();
            assert_eq!(names(&out), parts);
            same(&alone(args!["query", &out, "--json"]), &whole, &what);
        }
        // With `-x`, and with predicates and exclusions.
        for more in [&["-x"][..], &["--name", "*[0-4]*", "--exclude", "d*"]] {
            let words = args!["walk", &top, "--json"].into_iter();
            let whole = alone(words.chain(more.iter().map(OsString::from)));
            same(
                &result(&walk(3, &top, more).exits(0)),
                &whole,
                &more.join(" "),
            );
        }
        let [two, three] = ["2", "3"].map(|many| base.join("out").join(many));
        // A catalog compacted from all parts equals the catalog of one process.
        let one = base.join("one.parquet");
        let compact = args!["query", &three, "--json", "--compact", &one];
        same(&alone(compact), &whole, "--compact");
        same(&alone(args!["query", &one, "--json"]), &whole, "compacted");
        let changed = |since| {
            let changed = args!["changed", &top, "--since", since, "--format", "paths0"];
            run(&mut fathom(changed)).exits(0).stdout
        };
        assert!(changed(&one).is_empty() && changed(&three).is_empty());
        let diff = args!["query", "--diff", &two, &three, "--format", "paths0"];
        let ran = run(&mut fathom(diff)).exits(0);
        assert!(ran.stdout.is_empty(), "{ran}");
        // A single part, or a part of a different run, is refused.
        let alone = two.join("part-0-of-2.parquet");
        let ran = run(&mut fathom(args!["changed", &top, "--since", alone])).refused();
        assert!(ran.stderr.contains("only the entries that rank 0"), "{ran}");
        for more in [&[][..], &["--resume"]] {
            for many in [1, 2] {
                let into = ["--catalog", three.to_str().unwrap()];
                let ran = walk(many, &top, &[&into, more].concat());
                refused(&ran, "part-0-of-3.parquet of another run");
            }
        }
        assert_eq!(names(&three).len(), 3);
        // Changes since a catalog in three parts equal those since the single catalog.
        for nth in 0..20 {
            fs::write(top.join(format!("wide/d0/changed{nth}")), "").unwrap();
        }
        assert_eq!(changed(&three), changed(&one));
        assert_eq!(changed(&three).split(|byte| *byte == 0).count(), 22);
        fs::remove_file(three.join("part-1-of-3.parquet")).unwrap();
        for words in [
            args!["changed", &top, "--since", &three].to_vec(),
            args!["query", "--diff", &two, &three].to_vec(),
        ] {
            let ran = run(&mut fathom(words)).refused();
            assert!(
                ran.stderr.contains("1 part of 3 missing: part-1-of-3"),
                "{ran}"
            );
        }
    });
}

/// --max-rate limits the calls of all ranks together: each rank makes its share.
#[test]
fn a_rate_is_that_of_all_ranks_together() {
    if !require(&NEEDS) {
        return;
    }
    /// Calls before the limit is set, or within its initial credit.
    const FIRST: u64 = 16;
    const RATE: u64 = 800;
    let scratch = tempfile::tempdir().unwrap();
    bush(scratch.path(), 8, 40);
    let ran = walk(2, scratch.path(), &["--max-rate", "800"]).exits(0);
    let value: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let gates = value["gates"].as_object().unwrap().values();
    let calls: u64 = gates.map(|gate| gate["calls"].as_u64().unwrap()).sum();
    let least = Duration::from_secs_f64((calls - FIRST) as f64 / RATE as f64);
    assert!(calls > 328 && ran.elapsed >= least, "{calls} calls: {ran}");
    assert!(value["delays"]["max_rate"].is_object(), "{ran}");
}

/// Checks that a job is refused with one line that has these words, and exit status 2.
pub(super) fn refused(ran: &Ran, words: &str) {
    let errors = ran.stderr.lines();
    let errors: Vec<_> = errors.filter(|line| line.starts_with("fathom: ")).collect();
    assert!(errors.len() == 1 && errors[0].contains(words), "{ran}");
    assert!(ran.code() == 2 && ran.stdout.is_empty(), "{ran}");
}

/// Entries that exist all the time are found exactly once, while a writer changes others beside
/// them.
#[test]
fn entries_beside_a_writer_are_found_once() {
    if !require(&NEEDS) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let top = dir(scratch.path().join("top"));
    grow(&dir(top.join("calm")), 3, 300);
    for (d, f) in (0..10).flat_map(|d| (0..40).map(move |f| (d, f))) {
        file(top.join(format!("busy/keep{d}/keep{f}/keep")), f);
    }
    let is_kept = |path: &[u8]| {
        let below = path.strip_prefix(top.as_os_str().as_bytes()).unwrap();
        below.starts_with(b"/calm/") || path.rsplit(|&b| b == b'/').next() == Some(b"keep")
    };
    let exist: BTreeSet<_> = census(&top)
        .into_keys()
        .filter(|path| is_kept(path))
        .collect();
    assert!(exist.len() > 600);
    let busy = top.join("busy");
    let write = |seed, done: &Done| {
        let mut dice = Dice::new(seed);
        while !done.is_set() {
            let _orphans = mutate(&busy, &mut dice, 300);
        }
    };
    with_threads(1, write, || {
        for many in [2, 3, 3, 7] {
            let out = scratch.path().join("out");
            let ran = walk(many, &top, &["--catalog", out.to_str().unwrap()]);
            ran.exits(0);
            let paths = run(&mut fathom(args!["query", &out, "--print0"])).exits(0);
            let mut found: Vec<_> = paths.stdout.split(|&b| b == 0).collect();
            found.retain(|path| !path.is_empty() && is_kept(path));
            found.sort_unstable();
            assert!(exist.iter().eq(found), "{many} ranks");
            fs::remove_dir_all(&out).unwrap();
        }
    });
}

/// On a server, latency and not the processors limit a rank, so all ranks find some of the tree: of
/// many directories, and of a single large one.
#[test]
fn ranks_take_work_from_each_other() {
    if !require(&[NEEDS[0], Need::Root, Need::Fuse]) {
        return;
    }
    in_namespace(|base| {
        for (directories, files) in [(160, 20), (1, 3000)] {
            let at = base.join(format!("{directories}"));
            let entries = 1 + directories + directories * files;
            let server = SyntheticTree {
                directories,
                files,
                latency: Duration::from_millis(1),
                shared_by: Some((4, entries / 40 + 1)),
                ..SyntheticTree::default()
            };
            let _server = serve_synthetic(server, &at);
            let found = result(&walk(4, &at, &["-j", "2"]).exits(0));
            assert_eq!(found["entries"], entries);
            let each = found["ranks"].as_array().unwrap().iter();
            let each: Vec<_> = each.map(|it| it["entries"].as_u64().unwrap()).collect();
            assert_eq!(each.len(), 4);
            assert!(each.iter().all(|&it| it > entries / 40), "{each:?}");
        }
    });
}

/// A single thread reads a large directory, and all ranks look up its names.
#[test]
fn names_of_one_directory_are_dealt_out() {
    const NAMES: u64 = 6000;
    if !require(&[NEEDS[0], Need::Root, Need::Fuse]) {
        return;
    }
    in_namespace(|base| {
        let at = base.join("remote");
        let server = SyntheticTree {
            directories: 1,
            files: NAMES,
            latency: Duration::from_millis(1),
            shared_by: Some((4, NAMES / 20)),
            ..SyntheticTree::default()
        };
        let server = serve_synthetic(server, &at);
        let ran = walk(4, &at, &["-j", "2"]).exits(0);
        assert_eq!(result(&ran)["entries"], NAMES + 2);
        let by_process = server.load.by_process.lock().unwrap();
        let lookups: Vec<_> = by_process.values().map(|it| it.lookups).collect();
        assert!(lookups.iter().sum::<u64>() >= NAMES, "{lookups:?}");
        let sharing = lookups.iter().filter(|&&it| it >= NAMES / 20);
        assert_eq!(sharing.count(), 4, "{lookups:?}");
        let readers = by_process.values().filter(|it| it.listings > 0);
        assert_eq!(readers.count(), 1, "{by_process:?}");
    });
}

#[test]
fn errors_of_any_rank_are_one_line() {
    if !require(&[NEEDS[0], Need::Root]) {
        return;
    }
    in_namespace(|base| {
        let top = dir(base.join("tree"));
        bush(&top, 5, 5);
        let out = base.join("out");
        let into = ["--catalog", out.to_str().unwrap()];
        refused(&walk(3, &base.join("missing"), &into), "/missing'");
        assert_eq!(names(&out), Vec::<String>::new());
        refused(
            &walk(3, &top, &["--catalog", "/proc/self/x"]),
            "/proc/self/x",
        );
        refused(&walk(3, &top, &["--top", "3"]), "--top cannot");
        refused(&walk(3, &top, &["--format", "paths"]), "--format cannot");
        // The ranks have different directories.
        let other = dir(base.join("other"));
        let mut command = launcher();
        command.args(ranks(1, args!["walk", &top]));
        command.arg(":").args(ranks(2, args!["walk", &other]));
        refused(&run_job(&mut command), "rank 1 on ");
        // The ranks have different options.
        let mut command = launcher();
        command.args(ranks(1, args!["walk", &top, "-j", "1"]));
        command.arg(":").args(ranks(
            1,
            args!["walk", &top, "-j", "2", "--one-file-system"],
        ));
        let words = "has other options than rank 0: '-j 2 --one-file-system' instead of '-j 1'";
        refused(&run_job(&mut command), words);
        // Warnings of all ranks are printed.
        let bad = SyntheticTree {
            directories: 4,
            files: 200,
            unreadable: vec![("d1", libc::EIO), ("d3", libc::EIO)],
            ..SyntheticTree::default()
        };
        let at = base.join("bad");
        let _server = serve_synthetic(bad, &at);
        let ran = walk(3, &at, &into);
        let value: Value = serde_json::from_slice(&ran.stdout).unwrap();
        assert_eq!(ran.code(), 1, "{ran}");
        assert_eq!(value["warnings"].as_array().unwrap().len(), 2, "{ran}");
        assert_eq!(ran.stderr.matches("cannot read the directory").count(), 2);
    });
}

#[test]
fn ranks_skip_what_does_not_answer() {
    if !require(&[NEEDS[0], Need::Root, Need::Fuse]) {
        return;
    }
    in_namespace(|base| {
        let top = dir(base.join("tree"));
        bush(&top, 5, 5);
        let expected = alone(args!["walk", &top, "--json"]);
        let hung = dir(top.join("hung"));
        let _server = serve(Manner::Hung, &hung);
        let walked = walk(3, &top, &["--deadline", "1s"]);
        assert_eq!(walked.code(), 1, "{walked}");
        assert_eq!(
            walked.stderr.matches("does not answer").count(),
            1,
            "{walked}"
        );
        assert_eq!(result(&walked)["files"], expected["files"], "{walked}");
        let out = base.join("out");
        let dumped = mpirun(3, args!["dump", &top, "-o", &out, "--deadline", "1s"]);
        assert_eq!(dumped.code(), 1, "{dumped}");
        assert_eq!(
            dumped.stderr.matches("does not answer").count(),
            1,
            "{dumped}"
        );
        refused(&walk(3, &hung, &["--deadline", "1s"]), "does not answer");
    });
}

/// If a rank is killed, or cannot write, no part gets its final name.
#[test]
fn a_rank_that_fails_leaves_no_part() {
    if !require(&[NEEDS[0], Need::Root]) {
        return;
    }
    in_namespace(|base| {
        let (top, out) = (dir(base.join("tree")), dir(base.join("out")));
        bush(&top, 40, 400);
        let words = args!["walk", &top, "-j", "1", "--catalog", &out];
        kill_one(2, base, &words, Hold::new(Stop::Open(&top.join("d20"))));
        assert_eq!(names(&out), Vec::<String>::new());
        // The file system of the parts is full.
        let full = base.join("full");
        fs::create_dir(&full).unwrap();
        rustix::mount::mount(
            "full",
            &full,
            "tmpfs",
            rustix::mount::MountFlags::empty(),
            c"size=4k",
        )
        .unwrap();
        let ran = walk(3, &top, &["--catalog", full.to_str().unwrap()]);
        refused(&ran, "No space left on device");
        assert!(ran.stderr.contains("fathom: rank "), "{ran}");
        assert_eq!(names(&full), Vec::<String>::new());
    });
}
