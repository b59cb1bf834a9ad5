//! Tests of flags, exit statuses, and the destination of the output.

use serde_json::Value;

use crate::support::run::args;
use crate::support::{fathom, run, schema};

#[test]
fn the_exit_status_is_that_of_the_command() {
    for (script, status) in [
        ("exit 0", 0),
        ("exit 42", 42),
        ("kill -9 $$", 137),
        ("kill -TERM $$", 143),
    ] {
        run(&mut fathom(args![
            "pathsearch",
            "-q",
            "--",
            "sh",
            "-c",
            script
        ]))
        .exits(status);
    }
}

#[test]
fn a_command_that_cannot_be_executed_is_an_error_with_a_hint() {
    let missing = run(&mut fathom([
        "pathsearch",
        "--",
        "no-such-command-anywhere",
    ]))
    .exits(127);
    let lines: Vec<&str> = missing.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{missing}");
    assert!(lines[1].starts_with("hint: "), "{missing}");
    run(&mut fathom(["pathsearch", "--", "/no/such/command"])).exits(127);
    run(&mut fathom(["pathsearch", "--", "/etc/passwd"])).exits(126);
}

#[test]
fn options_before_the_command_are_those_of_fathom() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("report");
    for (words, printed) in [
        (&["echo", "--rtt", "5", "-o", "x"][..], "--rtt 5 -o x\n"),
        (&["--", "echo", "--json"], "--json\n"),
        (&["echo", "a", "--", "b"], "a -- b\n"),
    ] {
        let all = args!["pathsearch", "-o", &file].into_iter();
        let ran = run(&mut fathom(all.chain(words.iter().map(Into::into)))).exits(0);
        assert_eq!(String::from_utf8_lossy(&ran.stdout), printed, "{ran}");
        assert!(
            std::fs::read_to_string(&file)
                .unwrap()
                .contains("lookups by name")
        );
    }
}

#[test]
fn the_report_and_the_output_of_the_command_are_separate() {
    let place = tempfile::tempdir().unwrap();
    let ran = run(&mut fathom(args![
        "pathsearch",
        "--",
        "sh",
        "-c",
        "echo out; echo err >&2"
    ]))
    .exits(0);
    assert_eq!(ran.stdout, b"out\n");
    for word in [
        "err\n",
        "lookups by name",
        "Directories",
        "Prediction for a network file system",
        "Proposed changes",
    ] {
        assert!(ran.stderr.contains(word), "no {word}: {ran}");
    }
    let quiet = run(&mut fathom(args![
        "pathsearch",
        "--apply-path",
        "--",
        "sh",
        "-c",
        "echo out; echo err >&2"
    ]))
    .exits(0);
    assert!(
        quiet.stdout.starts_with(b"out\nPATH='") && quiet.stderr == "err\n",
        "{quiet}"
    );

    let file = place.path().join("report");
    let ran = run(&mut fathom(args![
        "pathsearch",
        "-o",
        &file,
        "--",
        "sh",
        "-c",
        "echo out"
    ]))
    .exits(0);
    assert_eq!((&ran.stdout[..], &ran.stderr[..]), (&b"out\n"[..], ""));
    assert!(
        std::fs::read_to_string(&file)
            .unwrap()
            .contains("lookups by name")
    );

    let ran = run(&mut fathom(args![
        "pathsearch",
        "--json",
        "--",
        "sh",
        "-c",
        "echo out"
    ]))
    .exits(0);
    let (first, object) = ran.stdout.split_at(4);
    assert_eq!(first, b"out\n");
    let value: Value = serde_json::from_slice(object).unwrap();
    schema::check(&value);
    assert_eq!(value["result"]["lost"], 0);
}

#[test]
fn many_nodes_are_slowed_by_the_server() {
    let seconds = |flags: &[&str]| {
        let place = tempfile::tempdir().unwrap();
        let (value, ran) =
            super::searched_with(place.path(), flags, &super::sh("sh", "true"), |_| {});
        let predicted = &value["result"]["predicted"];
        let requests: u64 = predicted["requests"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["cold"].as_u64().unwrap())
            .sum();
        (
            predicted["seconds"].as_f64().unwrap(),
            predicted["seconds_warm"].as_f64().unwrap(),
            requests as f64,
            ran.elapsed.as_secs_f64(),
        )
    };
    let (one, warm, requests, _) = seconds(&["--rtt", "1ms"]);
    assert!(
        one > 0.001 * requests * 0.5 && warm < one,
        "{one} {warm} {requests}"
    );
    let (many, _, requests, own) =
        seconds(&["--rtt", "1ms", "--nodes", "10000", "--server-rate", "10000"]);
    // The server takes 1 s to answer one request of each node: 10,000 nodes, 10,000 requests a
    // second. The estimate adds the CPU time of one node, at most that of the command here.
    assert!(
        (0.99 * requests..1.01 * requests + own).contains(&many),
        "10000 nodes, 10000 requests a second: {many} s for {requests} each"
    );
}
