//! Tests of features that LLNL's program does not have.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::{pathwalk, untimed};
use crate::support::need::new_memory_cgroup;
use crate::support::restrict::fathom_as_nobody;
use crate::support::run::args;
use crate::support::{Need, in_namespace, require, run};

fn tree(flags: &str) -> (tempfile::TempDir, PathBuf) {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().join("x");
    pathwalk(&format!("-c {flags}"), &root).exits(0);
    (scratch, root)
}

fn counts(pass: &Value) -> [u64; 5] {
    ["files", "found", "lookups", "misses", "failed"].map(|field| pass[field].as_u64().unwrap())
}

#[test]
fn every_method_and_number_of_threads_makes_the_same_lookups() {
    let (_scratch, root) = tree("-l 5 -f 1234");
    for method in ["stat", "statx", "access", "open", "dirfd"] {
        for threads in [1, 2, 3, 16] {
            for (fail, expected) in [
                ("", [1234, 1234, 6170, 4936, 0]),
                ("-F", [1234, 0, 6170, 6170, 0]),
            ] {
                for latency in ["", "--latency"] {
                    let flags = format!(
                        "-t {fail} {latency} -l 5 -f 1234 --method {method} -j {threads} --json"
                    );
                    let value = pathwalk(&flags, &root).exits(0).json();
                    let test = &value["result"]["test"];
                    assert_eq!(counts(&test["passes"][0]), expected, "{flags}");
                    assert_eq!(
                        (test["method"].as_str(), test["threads"].as_u64()),
                        (Some(method), Some(threads))
                    );
                    let (gate, calls) = match method {
                        "statx" => ("statx", 6170),
                        "access" => ("faccessat", 6170),
                        "open" => ("openat", 6170),
                        _ => ("newfstatat", 6170),
                    };
                    assert!(
                        value["gates"][gate]["calls"].as_u64().unwrap() >= calls,
                        "{flags}: {}",
                        value["gates"]
                    );
                    assert_eq!(test["passes"][0]["latency"].is_null(), latency.is_empty());
                }
            }
        }
    }
}

#[test]
fn there_may_be_more_threads_than_files_and_no_files() {
    let (_scratch, root) = tree("-l 2 -f 3");
    for (files, threads) in [(3, 64), (1, 2), (0, 1), (0, 4)] {
        let value = pathwalk(&format!("-t -l 2 -f {files} -j {threads} --json"), &root)
            .exits(0)
            .json();
        assert_eq!(
            counts(&value["result"]["test"]["passes"][0]),
            [files, files, 2 * files, files, 0]
        );
    }
}

#[test]
fn a_histogram_counts_every_look_up_once() {
    let (_scratch, root) = tree("-l 3 -f 500");
    let value = pathwalk("-t -l 3 -f 500 --latency -j 2 -C --repeat 2 --json", &root)
        .exits(0)
        .json();
    let test = &value["result"]["test"];
    assert_eq!(counts(&test["primed"]), [1, 1, 3, 2, 0]);
    assert_eq!(test["miss_share"].as_f64(), Some(2.0 / 3.0));
    let [first, second] = [0, 1].map(|n| test["passes"][n]["seconds"].as_f64().unwrap());
    assert_eq!(test["first_to_second"].as_f64(), Some(first / second));
    for pass in test["passes"].as_array().unwrap() {
        for (of, calls) in [("all", 1500), ("hits", 500), ("misses", 1000)] {
            let latency = &pass["latency"][of];
            assert_eq!(latency["calls"].as_u64(), Some(calls));
            let buckets = latency["histogram"].as_array().unwrap();
            assert_eq!(
                buckets
                    .iter()
                    .map(|bucket| bucket["calls"].as_u64().unwrap())
                    .sum::<u64>(),
                calls
            );
            assert!(
                buckets
                    .windows(2)
                    .all(|pair| pair[0]["to"].as_u64() < pair[1]["from"].as_u64()),
                "{latency}"
            );
            let steps = ["min", "p50", "p90", "p99", "p999", "max"]
                .map(|field| latency[field].as_u64().unwrap());
            assert!(steps.is_sorted() && steps[0] > 0, "{latency}");
        }
        let rate = pass["lookups_per_second"].as_f64().unwrap() * pass["seconds"].as_f64().unwrap();
        assert!((rate - 1500.0).abs() < 0.01, "{pass}");
    }
}

#[test]
fn json_has_all_parts_and_no_lines() {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().join("x");
    let value = pathwalk("-ctr -l 4 -f 7 --json", &root).exits(0).json();
    let result = &value["result"];
    assert_eq!(
        (
            result["created"]["objects"].as_u64(),
            result["removed"]["objects"].as_u64()
        ),
        (Some(29), Some(29))
    );
    assert_eq!(
        (result["directories"].as_u64(), result["files"].as_u64()),
        (Some(4), Some(7))
    );
    assert_eq!(result["test"]["passes"][0]["ranks"], Value::Null);
    let value = pathwalk("-c -l 1 -f 1 --json", &root).exits(0).json();
    assert!(value["result"]["test"].is_null() && value["result"]["removed"].is_null());
}

#[test]
fn a_table_follows_the_lines() {
    let (scratch, root) = tree("-l 3 -f 20");
    for flags in ["--repeat 2", "-j 2", "--method open", "--latency", "-v"] {
        let ran = pathwalk(&format!("-t -l 3 -f 20 {flags}"), &root).exits(0);
        let lines = ran.lines();
        let repeats = if flags.contains('2') && flags.contains("repeat") {
            2
        } else {
            1
        };
        for line in &lines[..repeats] {
            assert_eq!(
                untimed(line),
                ["pathwalk: Found 20/20 files in 3 directories"]
            );
        }
        assert!(
            lines[repeats].is_empty() && lines[repeats + 1].trim_start().starts_with("SEARCH"),
            "{ran}"
        );
        assert!(lines.iter().any(|line| line.contains("66.7 %")), "{ran}");
        assert_eq!(
            lines.iter().any(|line| line.contains("P99.9")),
            flags == "--latency",
            "{ran}"
        );
        assert_eq!(
            lines
                .iter()
                .any(|line| line.contains("times as long as the second")),
            repeats == 2,
            "{ran}"
        );
    }
    let plots = crate::support::build::dir(scratch.path().join("plots"));
    let flags = format!("-t -l 3 -f 20 --repeat 3 --plot {}", plots.display());
    assert!(
        pathwalk(&flags, &root)
            .exits(0)
            .lines()
            .iter()
            .any(|line| line.contains("P99.9"))
    );
    for name in [
        "pathwalk-latency-1",
        "pathwalk-latency-3",
        "pathwalk-searches",
    ] {
        assert!(
            fs::read_to_string(plots.join(format!("{name}.svg")))
                .unwrap()
                .contains("</svg>")
        );
    }
}

#[test]
fn without_privilege_a_warning_says_that_no_caches_are_dropped() {
    if require(&[Need::Root]) {
        in_namespace(|scratch| {
            let root = scratch.join("x");
            pathwalk("-c -l 3 -f 4", &root).exits(0);
            for cold in ["--cold", "--cold=host"] {
                let mut command = fathom_as_nobody(
                    scratch,
                    args![
                        "pathwalk", "-t", "-l", "3", "-f", "4", cold, "--json", &root
                    ],
                );
                let ran = run(&mut command).exits(1);
                assert!(ran.stderr.contains("cannot drop"), "{ran}");
                let value = ran.json();
                assert!(
                    value["result"]["test"]["forgot"]["what"].is_null(),
                    "{value}"
                );
                assert_eq!(counts(&value["result"]["test"]["passes"][0])[1], 4);
            }
        });
    }
}

/// A memory cgroup, which is removed when it is dropped.
struct Group(PathBuf);

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

#[test]
fn the_caches_of_its_own_cgroup_are_dropped() {
    if require(&[Need::Root, Need::MemoryCgroup]) {
        let group = Group(new_memory_cgroup().unwrap());
        let scratch = tempfile::tempdir().unwrap();
        let mut shell = Command::new("sh");
        let script = "echo $$ > \"$1/cgroup.procs\" && exec \"$0\" pathwalk -ctr -l 3 -f 500 --repeat 2 --cold --json \"$2\"";
        shell
            .args(["-c", script, env!("CARGO_BIN_EXE_fathom")])
            .args(args![&group.0, scratch.path().join("x")]);
        let value = run(&mut shell).exits(0).json();
        assert!(
            value["result"]["test"]["forgot"]["what"].is_string(),
            "{value}"
        );
        assert_eq!(value["gates"]["syncfs"]["calls"], 1);
    }
}
