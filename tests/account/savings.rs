//! What changes are said to save, against what they do save: programs that do the same both ways.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::command::account;
use crate::support::build::file;
use crate::support::{Need, require};

const FILES: u32 = 100;

/// The program, and files for it.
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
        assert!(Command::new("cc").args(["-O2", "-o"]).args([&program, &source]).status().unwrap().success());
        let files = top.join("files");
        (0..FILES).for_each(|n| drop(file(files.join(n.to_string()), 10)));
        Ways { _dir: dir, program, files }
    }

    /// Nanoseconds of CPU time for a file; `None` where it cannot be done so.
    fn costs(&self, way: &str, rounds: u32) -> Option<f64> {
        let ran = Command::new(&self.program).args([way, &rounds.to_string()]).arg(&self.files).output().unwrap();
        let said = String::from_utf8(ran.stdout).unwrap();
        if ran.status.code() == Some(77) { None } else { Some(said.trim().parse().unwrap()) }
    }

    /// How much cheaper one way is, in nanoseconds a file: the middle one of several rounds in turn.
    fn saves(&self, way: &str, by: &str) -> Option<f64> {
        const ROUNDS: u32 = 20_000;
        const TIMES: usize = 9;
        let mut saves = Vec::new();
        for _ in 0..TIMES {
            saves.push(self.costs(way, ROUNDS)? - self.costs(by, ROUNDS)?);
        }
        saves.sort_by(f64::total_cmp);
        Some(saves[TIMES / 2])
    }

    /// What the account says, in nanoseconds a file.
    fn predicted(&self, way: &str, change: &str) -> f64 {
        const ROUNDS: u32 = 2000;
        let rounds = ROUNDS.to_string();
        let value = account(&[], [self.program.as_os_str(), way.as_ref(), rounds.as_ref(), self.files.as_os_str()]);
        seconds(&value, change) * 1e9 / f64::from(ROUNDS)
    }
}

fn seconds(value: &Value, change: &str) -> f64 {
    let changes = value["what_if"].as_array().unwrap();
    changes.iter().find(|row| row["change"] == change).unwrap()["saves_seconds"].as_f64().unwrap()
}

/// The middle one of three predictions is within 25 % of what is measured.
fn holds(predicted: impl Fn() -> f64, measured: f64, what: &str) {
    let mut predicted = [predicted(), predicted(), predicted()];
    predicted.sort_by(f64::total_cmp);
    let off = predicted[1] / measured - 1.0;
    println!("{what}: predicted {predicted:.0?} ns, measured {measured:.0} ns, {:+.1} %", 100.0 * off);
    assert!(off.abs() <= 0.25, "{what}: predicted {predicted:?} ns a file, measured {measured} ns");
}

#[test]
fn one_statx_for_stat_open_fstat_and_close() {
    if require(&[Need::Program("cc")]) {
        let ways = Ways::new();
        let measured = ways.saves("three", "one").unwrap();
        holds(|| ways.predicted("three", "combine-stat"), measured, "combine-stat");
    }
}

#[test]
fn misses_that_are_remembered() {
    if require(&[Need::Program("cc")]) {
        let ways = Ways::new();
        let measured = ways.saves("miss", "none").unwrap();
        holds(|| ways.predicted("miss", "cache-misses"), measured, "cache-misses");
    }
}

#[test]
fn io_uring_costs_more() {
    if require(&[Need::Program("cc")]) {
        let ways = Ways::new();
        let Some(measured) = ways.saves("one", "uring") else { return println!("there is no io_uring here") };
        holds(|| ways.predicted("one", "batch-uring"), measured, "batch-uring");
    }
}

#[test]
fn where_there_is_nothing_to_save_nothing_is_promised() {
    let dir = tempfile::tempdir().unwrap();
    let one = file(dir.path().join("f"), 10);
    let value = account(&[], [Path::new("cat").as_os_str(), one.as_os_str()]);
    for change in ["combine-stat", "keep-stat", "buffer", "sync-once", "raw-tables", "batch-bulkstat"] {
        let row = value["what_if"].as_array().unwrap().iter().find(|row| row["change"] == change).unwrap();
        assert!(change == "raw-tables" || change == "batch-bulkstat" || row["saves_calls"] == 0, "{row}");
        assert!(row["advised"] == false || row["saves_seconds"].as_f64().unwrap() > 0.0, "{row}");
    }
    let uring = value["what_if"].as_array().unwrap().iter().find(|row| row["change"] == "batch-uring").unwrap();
    assert_eq!(uring["advised"], false);
}
