//! The seconds are those of another witness: `perf trace -s`.
//!
//! Both take the time between the tracepoints at which a call begins and ends, but perf's interval
//! has all in it that perf itself does there: on a virtual machine it wakes its reader at each
//! event, for some 15 µs a call. So the calls here are long ones; they come before other work of
//! the machine, and of several runs of each the shortest counts.

use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::counts::is_metered;
use crate::support::run::{args, program};
use crate::support::{Need, fathom, in_namespace, require, run};

/// The tracer's estimate is too rough for a few milliseconds.
const METERS: [&str; 2] = ["bpf", "perf"];
const LEAST: usize = 3;
const MOST: usize = 40;
const WITHIN: f64 = 0.15;
/// Where others use the memory all the time, which makes long calls longer, now for one, now for
/// the other.
const WITHIN_AT_LAST: f64 = 0.25;

/// Seconds in file-system calls, by perf.
fn witnessed(at: &Path, command: &[OsString]) -> f64 {
    let log = at.join("log");
    let mut words = args!["trace", "-s", "-o", &log, "--"].to_vec();
    words.extend(command.iter().cloned());
    run(&mut program(Path::new("perf"), words)).exits(0);
    let log = std::fs::read_to_string(&log).unwrap();
    // The name, how many calls, how many errors, milliseconds together; then shortest, mean,
    // longest, deviation.
    let milliseconds =
        log.lines().filter_map(
            |line| match &line.split_whitespace().collect::<Vec<_>>()[..] {
                [name, calls, errors, total, _, _, _, _] if is_metered(name) => {
                    let (_, _) = (calls.parse::<u64>().ok()?, errors.parse::<u64>().ok()?);
                    total.parse::<f64>().ok()
                }
                _ => None,
            },
        );
    let sum: f64 = milliseconds.sum();
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
    if require(&[Need::Root, Need::Program("perf")]) {
        // Where there is no tracefs, perf mounts one.
        in_namespace(hold);
    }
}

fn hold(at: &Path) {
    // Not to be interrupted, where that may be had.
    let ahead = ["chrt -f 10", "nice -n -19"].into_iter().find(|ahead| {
        let words: Vec<&str> = ahead.split(' ').chain(["true"]).collect();
        std::process::Command::new(words[0])
            .args(&words[1..])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|it| it.success())
    });
    let words = format!(
        "{} dd if=/dev/zero of=/dev/null bs=64M count=24 status=none",
        ahead.unwrap_or("env")
    );
    let command: Vec<OsString> = words.split(' ').map(OsString::from).collect();
    let (mut ours, mut theirs) = ([f64::INFINITY; METERS.len()], f64::INFINITY);
    for round in 1.. {
        theirs = theirs.min(witnessed(at, &command));
        for (meter, ours) in METERS.iter().zip(&mut ours) {
            *ours = ours.min(metered(at, meter, &command));
        }
        let within = if round < MOST { WITHIN } else { WITHIN_AT_LAST };
        if round >= LEAST
            && ours
                .iter()
                .all(|ours| (ours / theirs - 1.0).abs() <= within)
        {
            return println!(
                "{METERS:?}: {ours:.6?} s, perf trace -s: {theirs:.6} s, of {round} runs"
            );
        }
        assert!(
            round < MOST,
            "{METERS:?}: {ours:?} s, perf trace -s: {theirs} s"
        );
    }
}
