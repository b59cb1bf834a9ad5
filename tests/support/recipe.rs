//! The services of systemd in the book: their commands, with the paths of a test.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// The text of the first block after a line of a page of the book that has `words`.
pub(crate) fn block(page: &str, words: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(page);
    block_of(&std::fs::read_to_string(path).unwrap(), words)
}

/// The text of the first block after a line that has `words`.
pub(crate) fn block_of(text: &str, words: &str) -> String {
    let (_, rest) = text
        .split_once(words)
        .unwrap_or_else(|| panic!("there is no '{words}'"));
    let (_, rest) = rest.split_once("\n```").unwrap();
    let (_, rest) = rest.split_once('\n').unwrap();
    rest.split_once("\n```").unwrap().0.to_owned()
}

/// The commands that a service starts, in their order, with `paths` in place of those that the book names. The
/// programs are found by `search_path`.
pub(crate) fn service(unit: &str, paths: &[(&str, &str)], search_path: &OsStr) -> Vec<Command> {
    let text = block("backup.md", unit);
    let values = |key: &str| {
        let prefix = format!("{key}=");
        let lines = text
            .lines()
            .filter_map(move |line| line.strip_prefix(&prefix).map(str::to_owned));
        lines.collect::<Vec<String>>()
    };
    let in_test = |words: &str| {
        let words = words.replace("%%", "%").replace("/usr/bin/", "");
        paths
            .iter()
            .fold(words, |words, (book, test)| words.replace(book, test))
    };
    let environment = values("Environment");
    let commands: Vec<Command> = values("ExecStart")
        .iter()
        .map(|line| {
            let mut shell = Command::new("sh");
            shell.arg("-ec").arg(in_test(line)).env("PATH", search_path);
            for pair in environment.iter().flat_map(|line| line.split(' ')) {
                let (name, value) = pair.split_once('=').unwrap();
                shell.env(name, in_test(value));
            }
            shell
        })
        .collect();
    assert!(!commands.is_empty(), "{unit}");
    commands
}

/// The search path with the directories of these programs first.
pub(crate) fn search_path(first: &[&Path]) -> std::ffi::OsString {
    let usual = std::env::var_os("PATH").unwrap_or_default();
    let first = first
        .iter()
        .map(|program| program.parent().unwrap().to_owned());
    std::env::join_paths(first.chain(std::env::split_paths(&usual))).unwrap()
}
