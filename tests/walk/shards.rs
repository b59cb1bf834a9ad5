//! Tests of `--shard I/N`: the shards of a tree together have every entry once, and their catalogs
//! are one data set.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::boundaries::mountains;
use super::engines::{mounted_or_still, still};
use super::predicates::odd_tree;
use super::right::{engines, summary, walk};
use crate::support::build::{bush, dir, file};
use crate::support::disks::{BTRFS, EXT4, XFS, mounted};
use crate::support::effort::effort;
use crate::support::reference::settle;
use crate::support::run::{Ran, args};
use crate::support::strace::less_start;
use crate::support::{Need, fathom, in_namespace, require, run};

/// A tree with directories and files above and below the depth at which entries are assigned to
/// shards.
fn tree(top: &Path) {
    odd_tree(&dir(top.join("odd")), 41);
    bush(top, 5, 20);
    for nth in 0..12 {
        bush(&dir(top.join(format!("a/{}/c{nth}", nth % 3))), 3, 4);
        file(top.join(format!("a/{}/file{nth}", nth % 4)), nth);
    }
}

fn digest(value: &Value) -> u128 {
    u128::from_str_radix(value["result"]["digest"].as_str().unwrap(), 16).unwrap()
}

fn paths(ran: &Ran) -> Vec<Vec<u8>> {
    let mut paths: Vec<_> = ran.stdout.split(|&b| b == 0).map(<[u8]>::to_vec).collect();
    assert_eq!(paths.pop(), Some(Vec::new()));
    paths.sort_unstable();
    paths
}

/// Checks that shards have every entry once, and that their digests add up to the digest of the
/// whole tree.
fn check_shards(top: &Path, engine: &str) {
    // Delayed allocation would change the numbers of blocks later.
    settle(top);
    let all = paths(&walk(top, "stat", &["--format", "paths0"]).exits(0));
    let whole = digest(&summary(top, "stat", &[]));
    for of in [3, 1, 2, 7].into_iter().take(effort(1, 4)) {
        let (mut together, mut sum) = (Vec::new(), 0_u128);
        for number in 0..of {
            let shard = format!("{number}/{of}");
            let of_shard = ["--shard", &shard];
            let lines = [&of_shard[..], &["--format", "paths0"]].concat();
            let own = paths(&walk(top, engine, &lines).exits(0));
            assert!(of > 3 || !own.is_empty(), "{engine} {shard}: nothing");
            together.extend(own);
            sum = sum.wrapping_add(digest(&summary(top, engine, &of_shard)));
        }
        together.sort_unstable();
        assert!(together == all, "{engine}, {of} shards: other entries");
        assert_eq!(sum, whole, "{engine}, {of} shards");
    }
}

#[test]
fn shards_have_every_entry_once() {
    if !require(&[Need::Root, Need::Loop]) {
        return;
    }
    let makes = [
        ("ext4", Some(EXT4[0])),
        ("xfs", Some(XFS[0])),
        ("btrfs", Some(BTRFS[0])),
        ("tmpfs", None),
    ];
    for (fstype, make) in makes {
        in_namespace(|base| {
            let at = base.join("disk");
            mounted_or_still(make, &at);
            let top = dir(at.join("tree"));
            tree(&top);
            for engine in engines(fstype) {
                check_shards(&top, engine);
            }
        });
    }
}

#[test]
fn shards_cross_mounts() {
    if !require(&[Need::Root, Need::Loop]) {
        return;
    }
    in_namespace(|base| {
        let top = mountains(base);
        for engine in ["auto", "threads"] {
            check_shards(&top, engine);
        }
    });
}

/// A shard opens no directories of other shards, and examines none of their files.
#[test]
fn shards_share_the_calls() {
    if !require(&[Need::Root, Need::Program("strace")]) {
        return;
    }
    in_namespace(|base| {
        let top = dir(still(&base.join("disk")).join("tree"));
        for nth in 0..64 {
            bush(&dir(top.join(format!("a/b{}/c{nth}", nth % 4))), 4, 10);
        }
        for nth in 0..400 {
            file(top.join(format!("file{nth}")), 1);
        }
        let calls = |more: &[&str]| {
            let walk = args!["walk", &top, "--engine", "threads"];
            let all = walk.into_iter().chain(more.iter().map(Into::into));
            let traced = less_start(&base.join("log"), all);
            traced.ran.exits(0);
            let count = |name| traced.counts.get(name).map_or(0, |(calls, _)| *calls);
            [count("statx"), count("getdents64")]
        };
        let whole = calls(&[]);
        let shards = ["0/4", "1/4", "2/4", "3/4"].map(|shard| calls(&["--shard", shard]));
        for (nth, whole) in whole.into_iter().enumerate() {
            let sum: u64 = shards.iter().map(|calls| calls[nth]).sum();
            assert!(sum < whole + whole / 2, "{shards:?} of {whole}");
            let most = shards.iter().map(|calls| calls[nth]).max().unwrap();
            assert!(most < whole / 2, "{shards:?} of {whole}");
        }
    });
}

fn write_parts(top: &Path, out: &Path, of: u32, run_name: &str) {
    for number in 0..of {
        let shard = format!("{number}/{of}");
        let walk = args!["walk", top, "--catalog", out, "-q", "--shard", shard];
        run(fathom(walk).args(["--run", run_name])).exits(0);
    }
}

fn query(out: &Path, more: &[&str]) -> Ran {
    run(fathom(args!["query", out]).args(more))
}

/// The digest of a catalog, and the numbers of its entries by type.
fn summary_of(catalog: &Path) -> Vec<String> {
    let json = query(catalog, &["--json"]).exits(0).json();
    let fields = ["digest", "entries", "files", "directories", "bytes"];
    fields
        .map(|field| json["result"][field].to_string())
        .to_vec()
}

fn part(out: &Path, number: u32, of: u32) -> PathBuf {
    out.join(format!("part-{number}-of-{of}.parquet"))
}

#[test]
fn parts_are_one_data_set() {
    if !require(&[Need::Root]) {
        return;
    }
    in_namespace(|base| {
        let top = dir(still(&base.join("disk")).join("tree"));
        tree(&top);
        let (out, other) = (base.join("new/out"), base.join("other"));
        write_parts(&top, &out, 3, "monday");
        let whole = summary(&top, "stat", &[]);
        let queried = query(&out, &["--json"]).exits(0).json();
        for field in ["digest", "entries", "bytes", "blocks", "max_depth"] {
            assert_eq!(queried["result"][field], whole["result"][field], "{field}");
        }
        let one = base.join("one.parquet");
        let one = one.to_str().unwrap();
        let compacted = query(&out, &["--json", "--compact", one]).exits(0).json();
        assert_eq!(compacted["result"]["digest"], whole["result"]["digest"]);
        let read = query(Path::new(one), &["--json"]).exits(0).json();
        for field in ["digest", "entries", "bytes", "blocks", "max_depth"] {
            assert_eq!(read["result"][field], whole["result"][field], "{field}");
        }
        // A complete catalog and the parts list one directory twice; the parts alone do not.
        let words = format!("several catalogs list '{}'", top.display());
        let repeats = |ran: Ran| ran.exits(0).stderr.contains(&words);
        assert!(repeats(query(&out, &[one])) && !repeats(query(&out, &[])));
        for sums in [&["--group-by", "dir"][..], &["--format", "du"]] {
            assert!(repeats(query(&out, &[sums, &[one]].concat())), "{sums:?}");
        }
        let ran = query(Path::new(one), &["--compact", "/dev/null"]).refused();
        assert!(ran.stderr.contains("the parts of one run"), "{ran}");
        let missing = part(&out, 1, 3);
        fs::rename(&missing, base.join("moved")).unwrap();
        let ran = query(&out, &[]).exits(1);
        assert!(
            ran.stderr.contains("1 part of 3 missing: part-1-of-3"),
            "{ran}"
        );
        let ran = query(&out, &["--compact", one]).refused();
        assert!(ran.stderr.contains("the parts of one run"), "{ran}");
        // File names of parts do not matter, only their descriptions do.
        fs::rename(base.join("moved"), out.join("x.parquet")).unwrap();
        query(&out, &[]).exits(0);
        // A part of a different run, of a different number of parts, of a different directory, and
        // a catalog that is no part.
        write_parts(&top, &other, 3, "tuesday");
        fs::rename(part(&other, 1, 3), &missing).unwrap();
        fs::remove_file(out.join("x.parquet")).unwrap();
        let ran = query(&out, &[]).refused();
        assert!(ran.stderr.contains("not a part of the same run"), "{ran}");
        let fewer = base.join("fewer");
        write_parts(&top, &fewer, 2, "monday");
        fs::rename(part(&fewer, 1, 2), &missing).unwrap();
        query(&out, &[]).refused();
        write_parts(&top.join("a"), &other, 3, "monday");
        fs::rename(part(&other, 1, 3), &missing).unwrap();
        query(&out, &[]).refused();
        run(&mut fathom(args![
            "walk",
            &top,
            "--catalog",
            &missing,
            "-q"
        ]))
        .exits(0);
        query(&out, &[]).refused();
    });
}

#[test]
fn changes_are_found_by_each_shard() {
    if !require(&[Need::Root, Need::Loop]) {
        return;
    }
    for make in [EXT4[0], XFS[0], BTRFS[0]] {
        in_namespace(|base| {
            assert!(mounted(make, &base.join("disk")));
            let top = dir(base.join("disk/tree"));
            tree(&top);
            run(std::process::Command::new("sync").arg("-f").arg(&top)).exits(0);
            let out = base.join("out");
            write_parts(&top, &out, 3, "x");
            let whole = base.join("whole.parquet");
            run(&mut fathom(args!["walk", &top, "--catalog", &whole, "-q"])).exits(0);
            // Without changes, the new catalog of the dump is a compacted one of all parts.
            let (archive, next) = (base.join("none.tar"), base.join("none.parquet"));
            let dump = args!["dump", &top, "-o", &archive, "--since", &out];
            run(fathom(dump).args(args!["--catalog", &next, "-q"])).exits(0);
            assert_eq!(summary_of(&next), summary_of(&whole));
            file(top.join("a/0/c0/new"), 5);
            file(top.join("a/new"), 5);
            fs::remove_file(top.join("a/1/file1")).unwrap();
            for nth in 0..9 {
                fs::write(top.join(format!("a/2/c{}/changed", 2 + nth / 3 * 3)), "x").unwrap();
            }
            let changed = |since: &Path| -> BTreeSet<Vec<u8>> {
                let changed = args!["changed", &top, "--since", since, "--format", "paths0"];
                paths(&run(&mut fathom(changed)).exits(0))
                    .into_iter()
                    .collect()
            };
            let expected = changed(&whole);
            assert!(expected.len() > 4, "{expected:?}");
            let found = (0..3).map(|number| changed(&part(&out, number, 3)));
            let mut found: Vec<Vec<u8>> = found.flatten().collect();
            found.sort_unstable();
            assert_eq!(found, Vec::from_iter(expected.iter().cloned()));
            // Changes since all parts, or since a catalog compacted from them.
            let one = base.join("one.parquet");
            query(&out, &["--compact", one.to_str().unwrap()]).exits(0);
            assert_eq!(changed(&one), expected);
            assert_eq!(changed(&out), expected);
            let archives = [&whole, &one, &out].map(|since| {
                let (archive, next) = (base.join("increment.tar"), base.join("next.parquet"));
                let dump = args!["dump", &top, "-o", &archive, "--since", since];
                run(fathom(dump).args(args!["--catalog", &next, "-q"])).exits(0);
                (fs::read(archive).unwrap(), summary_of(&next))
            });
            assert!(archives.iter().all(|it| *it == archives[0]), "{make:?}");
            let new = base.join("new.parquet");
            run(&mut fathom(args!["walk", &top, "--catalog", &new, "-q"])).exits(0);
            for since in [&one, &out] {
                let diff = args!["query", "--diff", since, &new, "--format", "paths0"];
                let found: BTreeSet<_> = paths(&run(&mut fathom(diff)).exits(0))
                    .into_iter()
                    .collect();
                assert_eq!(found, expected);
            }
            let ran = run(&mut fathom(args![
                "changed", &top, "--since", &out, "--update"
            ]));
            assert!(ran.refused().stderr.contains("a directory of parts"));
            fs::remove_file(part(&out, 1, 3)).unwrap();
            for words in [
                args!["changed", &top, "--since", &out].to_vec(),
                args!["dump", &top, "-o", base.join("x.tar"), "--since", &out].to_vec(),
            ] {
                let ran = run(&mut fathom(words)).refused();
                assert!(
                    ran.stderr.contains("1 part of 3 missing: part-1-of-3"),
                    "{ran}"
                );
            }
        });
    }
}

#[test]
fn parts_are_compared_as_one() {
    if !require(&[Need::Root]) {
        return;
    }
    in_namespace(|base| {
        let top = dir(still(&base.join("disk")).join("tree"));
        tree(&top);
        let [old, new] = [base.join("old"), base.join("new")];
        let whole = |file: &Path| {
            run(&mut fathom(args!["walk", &top, "--catalog", file, "-q"])).exits(0);
        };
        let [old_whole, new_whole] = [base.join("old.parquet"), base.join("new.parquet")];
        write_parts(&top, &old, 3, "monday");
        whole(&old_whole);
        file(top.join("a/0/c0/new"), 5);
        file(top.join("a/new"), 5);
        fs::remove_file(top.join("a/1/file1")).unwrap();
        // Move files to a different shard.
        for nth in [3, 7, 11] {
            let to = top.join(format!("a/renamed{nth}"));
            fs::rename(top.join(format!("a/3/file{nth}")), to).unwrap();
        }
        write_parts(&top, &new, 3, "tuesday");
        whole(&new_whole);
        let diff = |old: &Path, new: &Path| {
            run(&mut fathom(args![
                "query", "--diff", old, new, "--format", "paths0"
            ]))
        };
        let expected = paths(&diff(&old_whole, &new_whole).exits(0));
        assert!(expected.len() > 4, "{expected:?}");
        assert_eq!(paths(&diff(&old, &new).exits(0)), expected);
        for (one, other) in [
            (&part(&old, 0, 3), &part(&new, 1, 3)),
            (&part(&old, 0, 3), &new_whole),
            (&old_whole, &part(&new, 2, 3)),
        ] {
            let ran = diff(one, other).refused();
            assert!(ran.stderr.contains("it describes only shard"), "{ran}");
        }
        let archive = base.join("increment.tar");
        let since = part(&new, 0, 3);
        let ran = run(&mut fathom(args![
            "dump", &top, "-o", &archive, "--since", since
        ]))
        .refused();
        assert!(ran.stderr.contains("it describes only shard 0/3"), "{ran}");
        assert!(!archive.exists());
    });
}

#[test]
fn finished_shards_are_kept() {
    let scratch = tempfile::tempdir().unwrap();
    let (top, out) = (dir(scratch.path().join("tree")), scratch.path().join("out"));
    bush(&top, 9, 9);
    let shard = |number: u32, more: &[&str]| {
        let shard = format!("{number}/2");
        let words = args![
            "walk",
            &top,
            "--catalog",
            &out,
            "--resume",
            "--shard",
            shard
        ];
        let more = more.iter().map(std::ffi::OsString::from);
        run(&mut fathom(words.into_iter().chain(more)))
    };
    let result = |ran: Ran| ran.exits(0).json()["result"].clone();
    let first = result(shard(0, &["--json"]));
    result(shard(1, &["--json"]));
    assert!(!first["parts"].as_array().unwrap().is_empty(), "{first}");
    // The tree is not walked again, and the output is taken from the part.
    let kept = result(shard(0, &["--json"]));
    assert_eq!(kept["parts"], serde_json::json!([]), "{kept}");
    for field in ["digest", "entries", "bytes", "directories"] {
        assert_eq!(kept[field], first[field], "{field}");
    }
    let listed = paths(&shard(0, &["--format", "paths0"]).exits(0));
    assert_eq!(listed.len() as u64, first["entries"]);
    // A part that another user may have written is not trusted.
    if require(&[Need::Root]) {
        let planted = part(&out, 1, 2);
        std::os::unix::fs::chown(&planted, Some(65534), None).unwrap();
        let ran = shard(1, &[]).refused();
        assert!(ran.stderr.contains("65534"), "{ran}");
        std::os::unix::fs::chown(&planted, Some(0), None).unwrap();
    }
    let another = args!["walk", &top, "--catalog", &out, "--shard", "0/3"];
    let ran = run(&mut fathom(another)).refused();
    assert!(ran.stderr.contains("-of-2.parquet of another run"), "{ran}");
    // A missing part, or a part with warnings, is written again.
    fs::remove_file(part(&out, 0, 2)).unwrap();
    assert_eq!(result(shard(0, &["--json"]))["parts"], first["parts"]);
    for (more, why) in [
        (&["--exclude", "x"][..], "with other options"),
        (&["--run", "other"], "of another run"),
        (&["--name", "x"], "cannot be used with"),
    ] {
        let ran = shard(1, more).refused();
        assert!(ran.stderr.contains(why), "{ran}");
    }
    let alone = args!["walk", &top, "--catalog", &out, "--resume"];
    let ran = run(&mut fathom(alone)).refused();
    assert!(ran.stderr.contains("--shard or mpirun"), "{ran}");
}

/// Parts belong in a directory, but a single process writes a file.
#[test]
fn a_directory_for_the_catalog_of_one_process_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let (top, out) = (
        dir(scratch.path().join("tree")),
        dir(scratch.path().join("out")),
    );
    bush(&top, 2, 2);
    let ran = run(&mut fathom(args!["walk", &top, "--catalog", &out])).exits(2);
    assert!(ran.stderr.contains("out': Is a directory"), "{ran}");
    assert!(ran.stderr.contains("give a file name"), "{ran}");
    assert!(ran.stderr.contains("use --shard I/N or mpirun"), "{ran}");
    assert_eq!(fs::read_dir(&out).unwrap().count(), 0);
}
