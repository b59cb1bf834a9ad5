//! Tests of `fathom pathwalk` by the ranks of an MPI job.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{NEEDS, mpirun};
use crate::support::run::{Ran, args};
use crate::support::{fathom, require, run, schema};

fn ranks(many: usize, flags: &str, root: &Path) -> Ran {
    let words = ["pathwalk"].into_iter().chain(flags.split_whitespace());
    let words = words.map(OsString::from).chain([root.into()]);
    mpirun(many, words)
}

fn alone(flags: &str, root: &Path) -> Ran {
    let flags = flags.split_whitespace().map(OsString::from);
    run(&mut fathom(
        args!["pathwalk", root].into_iter().chain(flags),
    ))
}

fn entries(root: &Path) -> usize {
    fs::read_dir(root)
        .unwrap()
        .map(|d| 1 + fs::read_dir(d.unwrap().path()).unwrap().count())
        .sum()
}

#[test]
fn all_ranks_search_and_share_creating_and_removing() {
    if require(&NEEDS) {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().join("x");
        // There may be more ranks than directories.
        for (many, length, files) in [(2, 16, 50), (4, 1, 10), (4, 3, 0)] {
            let shape = format!("-l {length} -f {files}");
            let made = ranks(many, &format!("-c {shape}"), &root).exits(0);
            assert!(made.lines()[0].starts_with(&format!(
                "pathwalk: Created {} objects in ",
                length * files + 1
            )));
            assert_eq!(entries(&root), length * (files + 1));
            let value = ranks(many, &format!("-t -C {shape} -j 2 --latency --json"), &root)
                .exits(0)
                .json();
            let test = &value["result"]["test"];
            assert_eq!(test["ranks"], many);
            let pass = &test["passes"][0];
            let total = |field: &str| pass[field].as_u64().unwrap() as usize;
            assert_eq!(
                (total("files"), total("found")),
                (many * files, many * files)
            );
            assert_eq!(
                (total("lookups"), total("misses")),
                (many * files * length, many * files * (length - 1))
            );
            assert_eq!(
                pass["latency"]["all"]["calls"].as_u64().unwrap() as usize,
                many * files * length
            );
            check_ranks(pass, many, files, length);
            let searched = ranks(many, &format!("-t {shape}"), &root).exits(0);
            let line = format!(
                "pathwalk: Found {0}/{0} files in {length} directories in ",
                many * files
            );
            assert!(searched.lines()[0].starts_with(&line), "{searched}");
            assert_eq!(
                searched
                    .lines()
                    .iter()
                    .filter(|line| line.starts_with("pathwalk:"))
                    .count(),
                1,
                "{searched}"
            );
            assert!(
                searched.lines().iter().any(|line| line.contains("RANKS")),
                "{searched}"
            );
            // A single process and several ranks create the same tree.
            alone(&format!("-t {shape}"), &root).exits(0);
            alone(&format!("-r {shape}"), &root).exits(0);
            alone(&format!("-c {shape}"), &root).exits(0);
            let removed = ranks(many, &format!("-r {shape}"), &root).exits(0);
            assert!(removed.lines()[0].starts_with(&format!(
                "pathwalk: Removed {} objects in ",
                length * files + 1
            )));
            assert!(!root.exists());
        }
    }
}

fn check_ranks(pass: &Value, many: usize, files: usize, length: usize) {
    let ranks = &pass["ranks"];
    let each = ranks["each"].as_array().unwrap();
    assert_eq!(each.len(), many);
    for (n, rank) in each.iter().enumerate() {
        assert_eq!(rank["rank"], n);
        assert_eq!(
            (rank["found"].as_u64(), rank["lookups"].as_u64()),
            (Some(files as u64), Some((files * length) as u64))
        );
    }
    let seconds: Vec<f64> = each
        .iter()
        .map(|rank| rank["seconds"].as_f64().unwrap())
        .collect();
    let stats = |field: &str| ranks["seconds"][field].as_f64().unwrap();
    let sum: f64 = seconds.iter().sum();
    assert!((stats("mean") - sum / many as f64).abs() < 1e-9);
    assert_eq!(stats("max"), seconds.iter().copied().fold(0.0, f64::max));
    assert_eq!(
        stats("min"),
        seconds.iter().copied().fold(f64::MAX, f64::min)
    );
    assert_eq!(pass["seconds"].as_f64(), Some(stats("max")));
}

#[test]
fn an_error_of_one_rank_is_one_line_and_ends_all() {
    if require(&NEEDS) {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().join("x");
        let once = |ran: &Ran, words: &str| {
            assert_ne!(ran.code(), 0, "{ran}");
            let errors = ran
                .stderr
                .lines()
                .filter(|line| line.starts_with("fathom: "));
            assert_eq!(errors.collect::<Vec<_>>().len(), 1, "{ran}");
            assert!(
                ran.stderr.contains(words) && ran.stdout.is_empty(),
                "no {words}: {ran}"
            );
        };
        once(&ranks(4, "-t", &root), "create the tree with -c");
        once(&ranks(4, "-r", &root), "check the path of the tree");
        alone("-c -l 6 -f 5", &root).exits(0);
        once(&ranks(4, "-c", &root), "File exists");
        once(&ranks(4, "-t -l 6 -f 6", &root), "5.5");
        once(
            &ranks(4, "-t --plot /no/such/directory", &root),
            "/no/such/directory",
        );
        // Rank 0 warns of foreign files, whichever rank has found them.
        fs::write(root.join("1/mine"), "").unwrap();
        fs::write(root.join("2/2.2"), "x").unwrap();
        let ran = ranks(4, "-r -l 6 -f 5 --json", &root);
        let value: Value = serde_json::from_slice(&ran.stdout).unwrap();
        schema::check(&value);
        assert_eq!(value["warnings"].as_array().unwrap().len(), 2, "{ran}");
        let removed = &value["result"]["removed"];
        assert_eq!(
            (removed["objects"].as_u64(), removed["left"].as_u64()),
            (Some(29), Some(2)),
            "{ran}"
        );
        assert!(root.join("1/mine").exists() && root.join("2/2.2").exists());
    }
}
