//! The seconds are those of another witness: `perf trace -s`.
//!
//! Both take the time between the tracepoints at which a call begins and ends, but perf's interval
//! has all in it that perf itself does there: on a virtual machine it wakes its reader at each
//! event, for some 15 µs a call. So the calls here are long ones, which wait for a server: their
//! time depends neither on memory nor on caches, and hardly on other work of the machine. Of
//! several runs the shortest counts.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::account::counts::is_metered;
use crate::support::run::{args, program};
use crate::support::synthetic::{SyntheticTree, serve_synthetic};
use crate::support::{Need, fathom, in_namespace, require, run};

const METERS: [&str; 3] = ["bpf", "perf", "ptrace"];
const CALLS: usize = 30;
const LATENCY: Duration = Duration::from_millis(10);
const LEAST: usize = 2;
const MOST: usize = 20;
const WITHIN: f64 = 0.1;

/// A row of the summary of `perf trace -s`.
pub(crate) struct PerfTraceRow<'a> {
    pub(crate) name: &'a str,
    pub(crate) calls: u64,
    pub(crate) errors: u64,
    milliseconds: f64,
}

/// The rows of file-system calls, of all threads.
pub(crate) fn perf_trace_rows(summary: &str) -> impl Iterator<Item = PerfTraceRow<'_>> {
    summary.lines().filter_map(|line| {
        // Behind these: shortest, mean, longest, deviation.
        let [name, calls, errors, total, _, _, _, _] =
            line.split_whitespace().collect::<Vec<_>>()[..]
        else {
            return None;
        };
        Some(PerfTraceRow {
            name: Some(name).filter(|name| is_metered(name))?,
            calls: calls.parse().ok()?,
            errors: errors.parse().ok()?,
            milliseconds: total.parse().ok()?,
        })
    })
}

/// Seconds in file-system calls, by perf.
fn witnessed(at: &Path, command: &[OsString]) -> f64 {
    let log = at.join("log");
    let mut words = args!["trace", "-s", "-o", &log, "--"].to_vec();
    words.extend(command.iter().cloned());
    run(&mut program(Path::new("perf"), words)).exits(0);
    let log = std::fs::read_to_string(&log).unwrap();
    let sum: f64 = perf_trace_rows(&log).map(|row| row.milliseconds).sum();
    assert!(sum > 0.0, "perf has no summary: {log}");
    sum / 1000.0
}

fn metered(at: &Path, meter: &str, command: &[OsString]) -> f64 {
    let report = at.join("report");
    let mut words = args!["account", "--meter", meter, "--json", "-o", &report, "--"].to_vec();
    words.extend(command.iter().cloned());
    run(&mut fathom(words)).exits(0);
    let value: Value = serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap();
    value["result"]["gates"]
        .as_object()
        .unwrap()
        .values()
        .map(|gate| gate["seconds"].as_f64().unwrap())
        .sum()
}

#[test]
fn seconds_in_long_calls_agree_with_perf_trace() {
    if require(&[Need::Root, Need::Fuse, Need::Program("perf")]) {
        // Where there is no tracefs, perf mounts one.
        in_namespace(hold);
    }
}

fn hold(at: &Path) {
    let mount = at.join("remote");
    let remote = SyntheticTree {
        latency: LATENCY,
        ..SyntheticTree::default()
    };
    let _server = serve_synthetic(remote, &mount);
    // The kernel caches no answer to statfs(2).
    let mut command = args!["stat", "-f", "-c", "%T"].to_vec();
    command.extend(std::iter::repeat_n(mount.into_os_string(), CALLS));
    let (mut ours, mut theirs) = ([f64::INFINITY; METERS.len()], f64::INFINITY);
    for round in 1..=MOST {
        theirs = theirs.min(witnessed(at, &command));
        for (meter, ours) in METERS.iter().zip(&mut ours) {
            *ours = ours.min(metered(at, meter, &command));
        }
        let agree = |ours: &f64| (ours / theirs - 1.0).abs() <= WITHIN;
        if round >= LEAST && ours.iter().all(agree) {
            assert!(theirs >= LATENCY.as_secs_f64() * CALLS as f64);
            return println!(
                "{METERS:?}: {ours:.6?} s, perf trace -s: {theirs:.6} s, of {round} runs"
            );
        }
    }
    panic!("{METERS:?}: {ours:?} s, perf trace -s: {theirs} s");
}
