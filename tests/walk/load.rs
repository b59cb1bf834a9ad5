//! Tests of `--max-rate`, which limits the load on shared file systems.

use std::ffi::OsString;
use std::time::Duration;

use serde_json::Value;

use crate::support::build::{bush, dir};
use crate::support::run::{Ran, args};
use crate::support::{fathom, run};

/// The number of system calls that a command has counted.
fn calls(json: &Value) -> u64 {
    let gates = json["gates"].as_object().unwrap().values();
    gates.map(|gate| gate["calls"].as_u64().unwrap()).sum()
}

/// Checks that a command took at least the time that its calls need at this rate. The first calls
/// may come before the limit.
fn check_rate(ran: &Ran, json: &Value, rate: u64) {
    const FIRST: u64 = 8;
    let calls = calls(json);
    let least = Duration::from_secs_f64(calls.saturating_sub(FIRST) as f64 / rate as f64);
    assert!(
        ran.elapsed >= least,
        "{calls} calls in {:?}: {ran}",
        ran.elapsed
    );
    assert!(json["delays"]["max_rate"].is_object(), "{json}");
}

#[test]
fn calls_are_no_faster_than_the_rate() {
    let scratch = tempfile::tempdir().unwrap();
    let top = dir(scratch.path().join("tree"));
    bush(&top, 5, 40);
    let at = |name: &str| scratch.path().join(name);
    let (catalog, archive) = (at("c.parquet"), at("a.tar"));
    let limited = |words: &[OsString], rate: u64| {
        let rate_words = [
            "--max-rate".into(),
            rate.to_string().into(),
            "--json".into(),
        ];
        let ran = run(&mut fathom(words.iter().cloned().chain(rate_words))).exits(0);
        let json = ran.json();
        check_rate(&ran, &json, rate);
        json
    };
    let free = run(&mut fathom(args!["walk", &top, "--json"]))
        .exits(0)
        .json();
    assert!(free.get("delays").is_none(), "{free}");
    for engine in ["threads", "stat"] {
        let words = args!["walk", &top, "--engine", engine, "--catalog", &catalog];
        let walked = limited(&words, 1000);
        assert_eq!(walked["result"]["digest"], free["result"]["digest"]);
        assert!(calls(&walked) > 200, "{walked}");
    }
    limited(&args!["changed", &top, "--since", &catalog], 1000);
    let dumped = limited(&args!["dump", &top, "-o", &archive], 4000);
    assert!(calls(&dumped) > 600, "{dumped}");
    limited(&args!["restore", &archive, "-C", dir(at("to"))], 4000);
    // A slow rate also works, and a message reports for how long the command waited.
    let small = dir(at("small"));
    let ran = run(&mut fathom(args!["walk", &small, "--max-rate", "20"])).exits(0);
    assert!(ran.stderr.contains("--max-rate: waited "), "{ran}");
}
