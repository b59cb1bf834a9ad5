//! End-to-end tests of `fathom pathsearch`.

mod advice;
mod kinds;
mod odd;
mod order;
mod prediction;
mod savings;
mod usage;
mod witness;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::run::{Ran, exact, fathom, run};
use crate::support::schema;
use serde_json::Value;

/// Runs `fathom pathsearch --json -o FILE` on a command, and returns the object and the output of
/// the command.
fn searched(dir: &Path, command: &[OsString], prepare: impl FnOnce(&mut Command)) -> (Value, Ran) {
    searched_with(dir, &[], command, prepare)
}

/// The same with more flags. The meter is ptrace(2): it stops a process until each call is
/// recorded, so no call is lost on a loaded machine.
fn searched_with(
    dir: &Path,
    flags: &[&str],
    command: &[OsString],
    prepare: impl FnOnce(&mut Command),
) -> (Value, Ran) {
    let file = dir.join("found.json");
    let mut args: Vec<OsString> = vec![
        "pathsearch".into(),
        "--json".into(),
        "--meter".into(),
        "ptrace".into(),
        "-o".into(),
        file.clone().into(),
    ];
    args.extend(flags.iter().map(OsString::from));
    args.push("--".into());
    args.extend(command.iter().cloned());
    let mut program = fathom(args);
    program.env_remove("LD_LIBRARY_PATH"); // set by cargo
    prepare(&mut program);
    let ran = run(&mut program);
    let text = std::fs::read(&file).unwrap_or_else(|error| panic!("no object: {error}: {ran}"));
    let value: Value = serde_json::from_slice(&text).unwrap();
    schema::check(&value);
    let warnings = value["warnings"].as_array().unwrap();
    assert!(
        value["result"]["lost"] == 0 && warnings.is_empty(),
        "{} lost: {warnings:?}",
        value["result"]["lost"]
    );
    (value, ran)
}

/// Misses of each directory that has any.
fn misses(value: &Value) -> BTreeMap<Vec<u8>, u64> {
    let rows = value["result"]["directories"].as_array().unwrap();
    let all: BTreeMap<Vec<u8>, u64> = rows
        .iter()
        .map(|row| (exact(row, "dir"), row["misses"].as_u64().unwrap()))
        .collect();
    assert_eq!(all.len(), rows.len(), "a directory is listed twice");
    all.into_iter().filter(|(_, misses)| *misses > 0).collect()
}

/// The searches of a kind.
fn of_kind<'a>(value: &'a Value, kind: &str) -> Vec<&'a Value> {
    let searches = value["result"]["searches"].as_array().unwrap();
    searches
        .iter()
        .filter(|search| search["kind"] == kind)
        .collect()
}

/// The command line of a shell that runs a script.
fn sh(shell: &str, script: &str) -> Vec<OsString> {
    ["", "-c", script]
        .iter()
        .enumerate()
        .map(|(at, word)| if at == 0 { shell.into() } else { word.into() })
        .collect()
}

/// Compiles a C program.
fn compile(source: &str, into: &Path, flags: &[String]) -> PathBuf {
    let file = into.with_extension("c");
    std::fs::write(&file, source).unwrap();
    let ran = run(Command::new("gcc")
        .arg("-o")
        .arg(into)
        .arg(&file)
        .args(flags))
    .exits(0);
    drop(ran);
    into.to_path_buf()
}
