//! Tests that `fathom query` prints from a catalog what `fathom walk` prints of the tree.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::engines::still;
use super::groups::check_groups;
use super::predicates::odd_tree;
use super::right::{objects, summary, walk};
use crate::support::build::{bush, dir, file};
use crate::support::restrict::limit_memory;
use crate::support::run::{Ran, args};
use crate::support::{Need, fathom, in_namespace, require, run};

/// A tree in memory, and its catalog.
pub(super) fn with_catalog(base: &Path, seed: u64) -> (PathBuf, PathBuf) {
    let top = dir(still(&base.join("disk")).join("odd"));
    odd_tree(&top, seed);
    let catalog = base.join("odd.parquet");
    run(&mut fathom(args![
        "walk",
        &top,
        "--catalog",
        &catalog,
        "-q"
    ]))
    .exits(0);
    (top, catalog)
}

fn query(catalog: &Path, more: &[&str]) -> Ran {
    run(fathom(args!["query", catalog]).args(more))
}

/// The entries in NDJSON, without fields that a catalog does not have.
fn entries(ran: &Ran) -> BTreeSet<String> {
    let without = |mut entry: Value| {
        let object = entry.as_object_mut().unwrap();
        object.remove("mount");
        entry.to_string()
    };
    objects(ran).into_iter().map(without).collect()
}

#[test]
fn every_format_equals_that_of_walk() {
    if !require(&[Need::Root]) {
        return;
    }
    in_namespace(|base| {
        let (top, catalog) = with_catalog(base, 31);
        let sets: [&[&str]; 4] = [
            &[],
            &["--type", "f", "--size", "+1"],
            &["--type", "e"],
            &["--name", "*[0-9]*", "--min-depth", "1", "--perm", "/111"],
        ];
        for set in sets {
            let [walked, queried] = ["walk", "query"].map(|command| {
                let mut value = match command {
                    "walk" => summary(&top, "threads", set),
                    _ => query(&catalog, &[set, &["--json"]].concat())
                        .exits(0)
                        .json(),
                };
                let result = value["result"].as_object_mut().unwrap();
                for field in ["engine", "why", "seconds", "parts"] {
                    result.remove(field);
                }
                value["result"].clone()
            });
            assert_eq!(walked, queried, "{set:?}");
            let lines = [set, &["--format", "ndjson"]].concat();
            let walked = entries(&walk(&top, "threads", &lines).exits(0));
            let queried = entries(&query(&catalog, &lines).exits(0));
            let differ: Vec<_> = walked.symmetric_difference(&queried).take(4).collect();
            assert!(
                differ.is_empty() && !queried.is_empty(),
                "{set:?}: {differ:#?}"
            );
            for format in [
                &["--format", "du"][..],
                &["--format", "du", "--max-depth", "1"],
                &["--top", "5"],
            ] {
                let same = [set, format].concat();
                let walked = walk(&top, "threads", &same).exits(0);
                let queried = query(&catalog, &same).exits(0);
                let table = |ran: &Ran| {
                    let lines = ran.lines().into_iter();
                    let lines = lines
                        .filter(|line| !line.starts_with("engine") && !line.starts_with("time"));
                    lines.map(str::to_owned).collect::<Vec<_>>()
                };
                assert_eq!(table(&walked), table(&queried), "{same:?}");
            }
        }
    });
}

#[test]
fn all_row_groups_are_read() {
    if !require(&[Need::Root]) {
        return;
    }
    in_namespace(|base| {
        let top = dir(still(&base.join("disk")).join("many"));
        // A row group has 64 Ki rows.
        bush(&top, 100, 700);
        let catalog = base.join("many.parquet");
        let made = args!["walk", &top, "--catalog", &catalog, "--json"];
        let result = run(&mut fathom(made)).exits(0).json()["result"].clone();
        assert_eq!(result["entries"], 70_101);
        let found = query(&catalog, &["--json"]).exits(0).json()["result"].clone();
        assert_eq!(
            (&found["entries"], &found["digest"]),
            (&result["entries"], &result["digest"])
        );
        for format in ["paths", "csv"] {
            let printed = query(&catalog, &["--format", format]).exits(0);
            let header = usize::from(format == "csv");
            assert_eq!(printed.lines().len(), 70_101 + header, "{format}");
        }
        let groups = query(&catalog, &["--group-by", "type", "--json"]).exits(0);
        let files = groups.json()["result"]["groups"].to_string();
        assert!(files.contains("70000"), "{files}");
    });
}

#[test]
fn groups_of_a_catalog_equal_sums_over_what_find_prints() {
    if !require(&[Need::Root]) {
        return;
    }
    in_namespace(|base| {
        let (top, catalog) = with_catalog(base, 32);
        check_groups(&top, |args| query(&catalog, args).exits(0).json());
    });
}

#[test]
fn several_catalogs_and_a_directory_of_parts_are_one_data_set() {
    if !require(&[Need::Root]) {
        return;
    }
    in_namespace(|base| {
        let top = still(&base.join("tree")).to_owned();
        let parts = dir(base.join("parts"));
        for (n, name) in ["a", "b", "c"].into_iter().enumerate() {
            file(top.join(name).join("file"), 1000 * (n + 1));
            let part = parts.join(format!("part-{n}-of-3.parquet"));
            run(&mut fathom(args![
                "walk",
                top.join(name),
                "--catalog",
                &part,
                "-q"
            ]))
            .exits(0);
        }
        fs::write(parts.join("README"), "not a catalog").unwrap();
        let whole = query(&parts, &["--json"]).exits(0).json();
        let result = &whole["result"];
        assert_eq!(
            (&result["entries"], &result["files"]),
            (&6.into(), &3.into()),
            "{whole}"
        );
        let files: Vec<_> = fs::read_dir(&parts)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        let files = files.iter().filter(|path| path.extension().is_some());
        let ran = run(fathom(args!["query", "--json"]).args(files)).exits(0);
        assert_eq!(ran.json()["result"]["entries"], 6);
        let paths = query(&parts, &["--type", "f", "--format", "paths"]).exits(0);
        let mut paths = paths.lines();
        paths.sort_unstable();
        let expected = ["a", "b", "c"].map(|name| top.join(name).join("file"));
        let expected = expected.each_ref().map(|path| path.to_str().unwrap());
        assert_eq!(paths, expected);
        fs::remove_file(parts.join("part-1-of-3.parquet")).unwrap();
        let ran = query(&parts, &["--json"]).exits(1);
        assert!(
            ran.stderr.contains("1 part of 3 missing: part-1-of-3"),
            "{ran}"
        );
        assert_eq!(ran.json()["result"]["entries"], 4);
    });
}

#[test]
fn unusable_catalogs_are_refused_in_one_line() {
    if !require(&[Need::Root]) {
        return;
    }
    in_namespace(|base| {
        let (_, catalog) = with_catalog(base, 33);
        let bytes = fs::read(&catalog).unwrap();
        let bad = base.join("bad");
        let refused = |bytes: &[u8], says: &str| {
            fs::write(&bad, bytes).unwrap();
            for question in [&["--json"][..], &["--name", "*"], &["--group-by", "owner"]] {
                let ran = query(&bad, question).exits(2);
                let messages = ran
                    .stderr
                    .lines()
                    .filter(|line| line.starts_with("fathom: "));
                assert!(ran.stderr.contains(says) && messages.count() == 1, "{ran}");
            }
        };
        refused(&bytes[..bytes.len() / 2], "truncated");
        refused(b"PAR1 and no more", "truncated");
        refused(b"", "not a Parquet file");
        refused(b"name,size\na,1\n", "not a Parquet file");
        let mut damaged = bytes.clone();
        let footer = damaged.len() - 200;
        damaged[footer] ^= 1;
        refused(&damaged, "damaged");
        // Only the columns that a query needs are read, and each is checked.
        let mut damaged = bytes.clone();
        damaged[4..bytes.len() / 2]
            .iter_mut()
            .for_each(|byte| *byte ^= 0x55);
        fs::write(&bad, &damaged).unwrap();
        let ran = query(&bad, &["--format", "ndjson"]).exits(2);
        assert!(ran.stderr.contains("damaged"), "{ran}");
        query(base.join("nowhere").as_path(), &[]).refused();
        query(&dir(base.join("empty")), &[]).refused();
    });
}

/// Reads 1.2 million entries, in row groups of full size, within 128 MiB.
#[test]
fn memory_does_not_grow_with_the_catalogs() {
    if !require(&[Need::Root]) {
        return;
    }
    in_namespace(|base| {
        let top = still(&base.join("tree")).to_owned();
        bush(&top, 100, 2000);
        let parts = dir(base.join("parts"));
        let first = parts.join("0.parquet");
        run(&mut fathom(args!["walk", &top, "--catalog", &first, "-q"])).exits(0);
        for n in 1..6 {
            fs::copy(&first, parts.join(format!("{n}.parquet"))).unwrap();
        }
        let questions: [&[&str]; 6] = [
            &["--format", "ndjson"],
            &["--format", "paths0", "--name", "*7"],
            &["--group-by", "owner"],
            &["--group-by", "ext"],
            &["--group-by", "dir:2"],
            &["--format", "du"],
        ];
        for question in questions {
            let mut command = fathom(args!["query", &parts, "-q"]);
            limit_memory(&mut command, 128);
            let ran = run(command.args(question)).exits(0);
            assert!(!ran.stdout.is_empty(), "{question:?}");
        }
    });
}

/// A query reads the footer, and of each row group the columns that it needs.
#[test]
fn only_needed_columns_are_read() {
    if !require(&[Need::Root]) {
        return;
    }
    in_namespace(|base| {
        let (_, catalog) = with_catalog(base, 34);
        let reads = |more: &[&str]| {
            let value = query(&catalog, &[more, &["--json"]].concat())
                .exits(0)
                .json();
            value["gates"]["pread64"]["calls"].as_u64().unwrap()
        };
        let (all, by_owner) = (reads(&[]), reads(&["--group-by", "owner"]));
        let by_size = reads(&["--group-by", "size", "--size", "+9G", "--type", "s"]);
        assert!(by_owner + 10 < all, "{by_owner} of {all} reads");
        assert!(by_size < by_owner, "{by_size} of {by_owner} reads");
        // By the minima and maxima in the footer, no row group can match.
        let (footer, none) = (reads(&["--links", "+99999"]), reads(&["--size", "+9T"]));
        assert!(
            footer == none && none < by_size,
            "{footer} and {none} of {by_size} reads"
        );
    });
}
