//! Tests of estimated savings against real ones: programs that do the same work in two ways.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::account::command::account;
use crate::support::build::file;
use crate::support::skip::skip;
use crate::support::synthetic::{SyntheticTree, serve_synthetic};
use crate::support::{Need, in_namespace, require};

const FILES: u32 = 100;

/// The program `ways.c`, and files for it.
struct Ways {
    _dir: tempfile::TempDir,
    program: PathBuf,
    files: PathBuf,
}

impl Ways {
    fn new() -> Ways {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let source = top.join("ways.c");
        std::fs::write(&source, include_str!("ways.c")).unwrap();
        let program = top.join("ways");
        assert!(
            Command::new("cc")
                .args(["-O2", "-o"])
                .args([&program, &source])
                .status()
                .unwrap()
                .success()
        );
        let files = top.join("files");
        (0..FILES).for_each(|n| drop(file(files.join(n.to_string()), 10)));
        Ways {
            _dir: dir,
            program,
            files,
        }
    }

    /// Whether this machine supports a way.
    fn runs(&self, way: &str) -> bool {
        const IMPOSSIBLE: i32 = 77;
        let ran = Command::new(&self.program)
            .args([way, "1"])
            .arg(&self.files)
            .output()
            .unwrap();
        ran.status.code() != Some(IMPOSSIBLE)
    }

    fn account(&self, options: &[&str], way: &str, rounds: u32) -> Value {
        let rounds = rounds.to_string();
        let words = [self.program.as_os_str(), way.as_ref(), rounds.as_ref()];
        account(options, words.into_iter().chain([self.files.as_os_str()]))
    }
}

fn seconds(value: &Value, name: &str) -> f64 {
    change(value, name)["saves_seconds"].as_f64().unwrap()
}

fn change<'a>(value: &'a Value, name: &str) -> &'a Value {
    let changes = value["what_if"].as_array().unwrap();
    changes.iter().find(|row| row["change"] == name).unwrap()
}

/// Checks that a change from one way to the other saves as many calls as predicted, give or take
/// `rest` calls. `bench/suite savings` measures their time.
fn makes_fewer_calls(name: &str, way: &str, by: &str, rest: u64) {
    let ways = Ways::new();
    if !ways.runs(by) {
        return skip(format_args!("ways.c cannot do '{by}'"));
    }
    let calls = |value: &Value| {
        let gates = value["gates"].as_object().unwrap().values();
        gates
            .map(|gate| gate["calls"].as_u64().unwrap())
            .sum::<u64>()
    };
    // The ptrace meter examines each call, however busy the machine is, so nothing is extrapolated.
    let exactly = |way| ways.account(&["--meter", "ptrace"], way, 2000);
    let (before, after) = (exactly(way), exactly(by));
    // Both totals include the calls of the program's start; LD_LIBRARY_PATH adds many of them.
    let saves = |value| change(value, name)["saves_calls"].as_u64().unwrap();
    let predicted = saves(&before) - saves(&after);
    let measured = calls(&before) - calls(&after);
    assert!(
        predicted.abs_diff(measured) <= rest,
        "{name}: {predicted} {measured}"
    );
}

#[test]
fn one_statx_for_stat_open_fstat_and_close() {
    if require(&[Need::Program("cc")]) {
        makes_fewer_calls("combine-stat", "three", "one", 0);
    }
}

#[test]
fn cached_failed_lookups() {
    if require(&[Need::Program("cc")]) {
        // Up to `FILES` calls remain: the first lookup of each name.
        makes_fewer_calls("cache-misses", "miss", "none", FILES.into());
    }
}

#[test]
fn statx_by_io_uring() {
    if require(&[Need::Program("cc")]) {
        // Some calls remain: io_uring_setup(2), and the last batch.
        makes_fewer_calls("batch-uring", "one", "uring", 5);
    }
}

#[test]
fn without_redundant_calls_there_are_no_savings() {
    let dir = tempfile::tempdir().unwrap();
    let one = file(dir.path().join("f"), 10);
    let value = account(&[], [Path::new("cat").as_os_str(), one.as_os_str()]);
    for change in [
        "combine-stat",
        "keep-stat",
        "buffer",
        "sync-once",
        "raw-tables",
        "batch-bulkstat",
    ] {
        let row = value["what_if"]
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["change"] == change)
            .unwrap();
        assert!(
            change == "raw-tables" || change == "batch-bulkstat" || row["saves_calls"] == 0,
            "{row}"
        );
        assert_eq!(row["advised"], false, "{row}");
    }
    let uring = value["what_if"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["change"] == "batch-uring")
        .unwrap();
    assert_eq!(uring["advised"], false);
}

#[test]
fn times_under_ptrace_are_calls_at_their_price() {
    let dir = tempfile::tempdir().unwrap();
    (0..400).for_each(|n| drop(file(dir.path().join(n.to_string()), 10)));
    let list = |meter: &str| {
        let words = [OsStr::new("ls"), "-l".as_ref(), dir.path().as_os_str()];
        account(&["--meter", meter], words)
    };
    let value = list("ptrace");
    assert_eq!(value["model"]["times"], "estimated");
    let gates = value["gates"].as_object().unwrap();
    assert!(gates.contains_key("statx") || gates.contains_key("newfstatat"));
    let seconds = |rows: &Value| {
        let rows = rows.as_array().unwrap().iter();
        rows.map(|row| row["seconds"].as_f64().unwrap())
            .sum::<f64>()
    };
    let all: f64 = gates
        .values()
        .map(|gate| gate["seconds"].as_f64().unwrap())
        .sum();
    assert!(
        (seconds(&value["programs"]) / all - 1.0).abs() < 1e-6,
        "{value}"
    );
    if list("auto")["meter"] != "ptrace" {
        assert_eq!(list("auto")["model"]["times"], "measured");
    }
}

#[test]
fn on_a_network_file_system_calls_cost_their_latency() {
    if require(&[Need::Root, Need::Fuse]) {
        in_namespace(|at| {
            const CALLS: usize = 120;
            let latency = Duration::from_millis(2);
            let mount = at.join("remote");
            let remote = SyntheticTree {
                latency,
                ..SyntheticTree::default()
            };
            let _server = serve_synthetic(remote, &mount);
            // This server's failed lookups are not cached.
            let mut words = vec![OsString::from("stat")];
            words.extend(std::iter::repeat_n(
                mount.join("none").into_os_string(),
                CALLS,
            ));
            // All calls except the first failed lookup of the name are saved.
            let least = latency.as_secs_f64() * (CALLS - 1) as f64;
            for meter in ["bpf", "ptrace"] {
                let value = account(&["--meter", meter], &words);
                let [real, overhead] =
                    ["real", "overhead_seconds"].map(|field| value[field].as_f64().unwrap());
                assert!(real >= least, "{meter}: {real} s of {least} s");
                // The elapsed time excludes the estimated time of the meter itself.
                let elapsed = value["model"]["elapsed_seconds"].as_f64().unwrap();
                let expected = (real - overhead).max(0.0);
                assert!((elapsed - expected).abs() < 1e-6, "{meter}: {value}");
                let saved = seconds(&value, "cache-misses");
                assert!(
                    saved >= least.min(elapsed) - 1e-6 && saved <= elapsed + 1e-6,
                    "{meter}: {saved} of {elapsed} s"
                );
            }
        });
    }
}
