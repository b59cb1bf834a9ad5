//! Tests of `fathom account` and `fathom pathsearch` under the profiles: the same counts, by every
//! meter that works there.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::profiles::filters;
use crate::support::build::{bush, dir};
use crate::support::profile::Profile;
use crate::support::run::{Ran, args};
use crate::support::{fathom, run};

/// The report of a metered command, or the failed run.
fn report(place: &Profile, words: &[&str], script: &str, dir: &Path) -> Result<Value, Ran> {
    let to = dir.join("report");
    let _ = fs::remove_file(&to);
    let mut arguments = args![words[0], "--json", "-o", &to].to_vec();
    arguments.extend(words[1..].iter().map(std::ffi::OsString::from));
    arguments.extend(args!["--", "sh", "-c", script]);
    let mut command: Command = fathom(arguments);
    command
        .current_dir(dir)
        .env("PATH", "/nowhere:/usr/bin:/bin");
    place.apply(&mut command);
    let ran = run(&mut command);
    assert!(!ran.stderr.contains("stopped answering"), "{ran}");
    match fs::read(&to) {
        Ok(text) => Ok(serde_json::from_slice(&text).unwrap()),
        Err(_) => Err(ran),
    }
}

/// Calls and errors of the command by name.
fn counts(report: &Value) -> BTreeMap<String, (u64, u64)> {
    let gates = report["result"]["gates"].as_object().unwrap();
    let count = |gate: &Value, field: &str| gate[field].as_u64().unwrap();
    let counts = gates.iter().map(|(name, gate)| {
        let counts = (count(gate, "calls"), count(gate, "errors"));
        (name.clone(), counts)
    });
    counts.collect()
}

/// Without statx(2), programs make other calls.
const SCRIPT: &str = "find bush >/dev/null; (cat bush/d1/f1 & wait); cd bush; for n in 1 2 3; do \
                      test -e /no/such; done; exec cat d2/f2 /nowhere/either 2>/dev/null";

/// The reason that a meter gives where it is unavailable.
fn why_not(place: &str, meter: &str) -> Option<&'static str> {
    match (place, meter) {
        ("4.18" | "5.4", "bpf") => Some("requires Linux 5.8"),
        ("gvisor" | "docker" | "docker-18.03", "bpf") => Some("BPF is not permitted"),
        _ => None,
    }
}

#[test]
fn account_counts_the_same_calls_by_every_meter() {
    let base = tempfile::tempdir().unwrap();
    bush(&dir(base.path().join("bush")), 30, 5);
    let is_root = rustix::process::geteuid().is_root();
    for meter in ["auto", "ptrace", "bpf"] {
        if !is_root && meter == "bpf" {
            continue;
        }
        let words = ["account", "--meter", meter];
        let metered = |place: &Profile| report(place, &words, SCRIPT, base.path());
        let usual = counts(&metered(&Profile::none()).unwrap());
        for place in filters() {
            let within = format!("{meter}, {}", place.name);
            match (metered(&place), why_not(place.name, meter)) {
                (Err(ran), Some(says)) => {
                    assert!(
                        ran.code() == 2 && ran.stderr.contains(says),
                        "{within}: {ran}"
                    );
                }
                (Ok(report), None) => assert_eq!(counts(&report), usual, "{within}"),
                (Ok(report), Some(_)) => panic!("{within} is unavailable: {report}"),
                (Err(ran), None) => panic!("{within}: {ran}"),
            }
        }
    }
}

#[test]
fn pathsearch_finds_the_same_lookups() {
    let base = tempfile::tempdir().unwrap();
    for meter in ["auto", "ptrace"] {
        let words = ["pathsearch", "--meter", meter];
        let searched = |place: &Profile| {
            let script = "id >/dev/null; no-such-command 2>/dev/null; true";
            let report = report(place, &words, script, base.path());
            let report = report.unwrap_or_else(|ran| panic!("{meter}, {}: {ran}", place.name));
            let totals = &report["result"]["totals"];
            ["lookups", "misses"].map(|field| totals[field].as_u64().unwrap())
        };
        let usual = searched(&Profile::none());
        for place in filters() {
            assert_eq!(searched(&place), usual, "{meter}, {}", place.name);
        }
    }
}
