//! `--max-rate` and `--nice`: how a command spares a file system that others use as well.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::support::build::{bush, dir};
use crate::support::run::{Ran, args};
use crate::support::synthetic::{SyntheticTree, serve_synthetic};
use crate::support::{Need, fathom, in_namespace, require, run};

/// The number of system calls that a command has counted.
fn calls(json: &Value) -> u64 {
    let gates = json["gates"].as_object().unwrap().values();
    gates.map(|gate| gate["calls"].as_u64().unwrap()).sum()
}

/// So many calls at this rate take at least this long. The first ones may come before the limit.
fn check_rate(ran: &Ran, json: &Value, rate: u64) {
    const FIRST: u64 = 8;
    let calls = calls(json);
    let least = Duration::from_secs_f64(calls.saturating_sub(FIRST) as f64 / rate as f64);
    assert!(
        ran.elapsed >= least,
        "{calls} calls in {:?}: {ran}",
        ran.elapsed
    );
    assert!(json["delays"]["max_rate"].is_object() && json["delays"]["nice"].is_null());
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
    // A process may make one call in a while, and says how long it waited.
    let small = dir(at("small"));
    let ran = run(&mut fathom(args!["walk", &small, "--max-rate", "20"])).exits(0);
    assert!(ran.stderr.contains("--max-rate: waited "), "{ran}");
}

fn nice(at: &Path, more: &[&str]) -> Value {
    let words = args!["walk", at, "--json", "-j", "32", "--engine", "threads"].into_iter();
    run(&mut fathom(words.chain(more.iter().map(OsString::from))))
        .exits(0)
        .json()
}

#[test]
fn threads_pause_while_the_latency_is_doubled() {
    if !require(&[Need::Root, Need::Fuse]) {
        return;
    }
    in_namespace(|base| {
        const SLOW: Duration = Duration::from_millis(60);
        let tree = SyntheticTree {
            directories: 10,
            files: 45,
            latency: Duration::from_millis(2),
            ..SyntheticTree::default()
        };
        let slower = SyntheticTree {
            slower_after: Some((330, SLOW)),
            ..tree.clone()
        };
        let at = base.join("nice");
        let server = serve_synthetic(slower.clone(), &at);
        let found = nice(&at, &["--nice"]);
        drop(server);
        assert_eq!(found["result"]["entries"], 1 + 10 + 10 * 45);
        // At half the load, a thread pauses for as long as a request takes.
        let (pauses, seconds) = (
            found["delays"]["nice"]["number"].as_u64().unwrap(),
            found["delays"]["nice"]["seconds"].as_f64().unwrap(),
        );
        assert!(pauses >= 32, "{found}");
        assert!(seconds >= 32.0 * SLOW.as_secs_f64() * 0.9, "{found}");
        // Without the option there are none.
        let at = base.join("not");
        let _server = serve_synthetic(slower, &at);
        assert!(nice(&at, &[]).get("delays").is_none());
    });
}
