//! Tests that patterns of redundant calls are found in common programs.

use std::path::Path;

use serde_json::Value;

use crate::account::command::account;
use crate::support::build::file;
use crate::support::{Need, require};

struct Found {
    count: u64,
    calls: u64,
    example: Option<String>,
}

fn pattern(value: &Value, name: &str) -> Found {
    let patterns = value["patterns"].as_array().unwrap();
    let found = patterns
        .iter()
        .find(|pattern| pattern["name"] == name)
        .unwrap_or_else(|| panic!("no {name}: {value}"));
    let number = |field: &str| found[field].as_u64().unwrap();
    assert!(
        number("count") == 0 || found["example"].is_string(),
        "{found}"
    );
    assert!(
        found["seconds"].as_f64().unwrap() > 0.0 || number("calls") == 0,
        "{found}"
    );
    Found {
        count: number("count"),
        calls: number("calls"),
        example: found["example"].as_str().map(str::to_owned),
    }
}

/// Creates directories with `files` files each.
fn tree(top: &Path, directories: usize, files: usize) {
    for d in 0..directories {
        (0..files).for_each(|f| drop(file(top.join(format!("d{d}/f{f}")), 100)));
    }
}

#[test]
fn patterns_of_ls_find_and_du() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    tree(&top.join("t"), 10, 5);
    let here = top.to_str().unwrap();
    let t = &format!("{here}/t")[..];
    // The pattern occurs for each of the ten directories, and for their parent.
    let find = account(&[], ["find", t]);
    assert_eq!(pattern(&find, "tiny-directory").count, 11);
    assert!(
        pattern(&find, "tiny-directory")
            .example
            .unwrap()
            .starts_with(t)
    );
    let grep = account(&[], ["grep", "-r", "no-such-thing", t]);
    assert_eq!(pattern(&grep, "tiny-directory").count, 11);
    // For each file, cp calls stat by name, open, and fstat.
    let cp = account(&[], ["cp", "-a", t, &format!("{here}/copy")]);
    let chains = pattern(&cp, "stat-open-fstat");
    assert!(
        chains.count >= 50 && chains.calls >= chains.count,
        "{} {}",
        chains.count,
        chains.calls
    );
    let tar = account(
        &[],
        ["tar", "-cf", &format!("{here}/a.tar"), "-C", here, "t"],
    );
    assert!(pattern(&tar, "stat-open-fstat").count >= 50);
    let ls = account(&[], ["ls", "-l", &format!("{t}/d0")]);
    assert!(pattern(&ls, "no-xattr").count >= 5, "{ls}");
}

#[test]
fn python_has_failed_lookups_and_repeated_stats() {
    if require(&[Need::Program("python3")]) {
        let value = account(&[], ["python3", "-c", "import json, decimal"]);
        assert!(
            pattern(&value, "miss").count > 10 && pattern(&value, "repeated-stat").count > 10,
            "{value}"
        );
        let misses = pattern(&value, "miss");
        assert_eq!(misses.count, misses.calls);
    }
}

#[test]
fn small_reads_and_writes() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| {
        dir.path()
            .canonicalize()
            .unwrap()
            .join(name)
            .to_str()
            .unwrap()
            .to_owned()
    };
    let dd = account(
        &[],
        [
            "dd",
            "if=/dev/zero",
            &format!("of={}", at("f")),
            "bs=100",
            "count=50",
            "status=none",
        ],
    );
    let writes = pattern(&dd, "small-writes");
    // 5000 bytes are two pages.
    assert_eq!(
        (writes.count, writes.calls, writes.example),
        (50, 48, Some(at("f")))
    );
    assert_eq!(
        pattern(&dd, "small-reads").count,
        0,
        "/dev/zero gives what it is asked for"
    );
    let dd = account(
        &[],
        [
            "dd",
            &format!("if={}", at("f")),
            "of=/dev/null",
            "bs=500",
            "status=none",
        ],
    );
    let reads = pattern(&dd, "small-reads");
    assert_eq!((reads.count, reads.calls), (10, 8));
    if require(&[Need::Program("python3")]) {
        let logs = "import os, sys\nf = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)\nfor i in range(5):\n os.write(f, b'x')\n os.fsync(f)";
        let value = account(&[], ["python3", "-c", logs, &at("log")]);
        let syncs = pattern(&value, "small-syncs");
        assert_eq!(
            (syncs.count, syncs.calls, syncs.example),
            (5, 4, Some(at("log")))
        );
    }
}

#[test]
fn a_file_that_is_opened_again_and_again() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().canonicalize().unwrap().join("log");
    let log = log.to_str().unwrap();
    let text = format!("for i in 1 2 3 4 5 6 7 8 9 10; do echo $i >>{log}; done");
    let opens = pattern(&account(&[], ["sh", "-c", &text]), "repeated-open");
    assert_eq!(
        (opens.count, opens.calls, opens.example.as_deref()),
        (9, 9, Some(log))
    );
}

#[test]
fn long_names_in_one_directory() {
    let dir = tempfile::tempdir().unwrap();
    let deep = dir.path().canonicalize().unwrap().join("a/b/c/d");
    file(deep.join("1"), 1);
    let text = format!(
        "for i in 1 2 3 4 5 6 7 8 9 10; do test -e {}/$i; done",
        deep.display()
    );
    let value = account(&[], ["sh", "-c", &text]);
    assert_eq!(pattern(&value, "long-names").count, 10);
    assert_eq!(pattern(&value, "long-names").calls, 0);
    let misses = pattern(&value, "miss");
    assert!(misses.count >= 9);
}
