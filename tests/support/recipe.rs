//! Runs the systemd services of docs/ with the paths of a test.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::build::chmod;
use super::tool::tool;

/// The text of the first block after the line with `words` on a page of docs/.
pub(crate) fn block(page: &str, words: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(page);
    block_of(&std::fs::read_to_string(path).unwrap(), words)
}

/// The text of the first block after the line with `words`.
pub(crate) fn block_of(text: &str, words: &str) -> String {
    let (_, rest) = text
        .split_once(words)
        .unwrap_or_else(|| panic!("there is no '{words}'"));
    let (_, rest) = rest.split_once("\n```").unwrap();
    let (_, rest) = rest.split_once('\n').unwrap();
    rest.split_once("\n```").unwrap().0.to_owned()
}

/// The commands of a service on a page of docs/, in order, with the first path of each pair in
/// `paths` replaced by the second. Programs are found by `search_path`. If the service has
/// capabilities, an ordinary user runs the commands with only these.
pub(crate) fn service(
    page: &str,
    unit: &str,
    paths: &[(&str, &str)],
    search_path: &OsStr,
) -> Vec<Command> {
    let text = block(page, unit);
    let values = |key: &str| {
        let prefix = format!("{key}=");
        let lines = text
            .lines()
            .filter_map(move |line| line.strip_prefix(&prefix).map(str::to_owned));
        lines.collect::<Vec<String>>()
    };
    let in_test = |words: &str| {
        let words = words.replace("%%", "%").replace("/usr/bin/", "");
        with_paths(&words, paths)
    };
    let environment = values("Environment");
    let names = |key: &str| {
        let names = values(key).join(" ").to_lowercase().replace("cap_", "");
        let names = names.split_whitespace().map(|name| format!(",+{name}"));
        format!("-all{}", names.collect::<String>())
    };
    let shell = || {
        if values("AmbientCapabilities").is_empty() {
            return Command::new("sh");
        }
        let mut user = Command::new("setpriv");
        user.args([
            "--reuid=1000",
            "--regid=1000",
            "--clear-groups",
            "--no-new-privs",
        ])
        .arg(format!("--inh-caps={}", names("AmbientCapabilities")))
        .arg(format!("--ambient-caps={}", names("AmbientCapabilities")))
        .arg(format!("--bounding-set={}", names("CapabilityBoundingSet")))
        .arg("sh");
        user
    };
    let commands: Vec<Command> = values("ExecStart")
        .iter()
        .map(|line| {
            let mut shell = shell();
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

/// The first block after the line with `words` on a page, as a command, with the first path of each
/// pair in `paths` replaced by the second.
pub(crate) fn recipe_command(page: &str, words: &str, paths: &[(&str, &str)]) -> Command {
    let mut shell = Command::new("sh");
    shell.arg("-ec").arg(with_paths(&block(page, words), paths));
    shell
}

fn with_paths(words: &str, paths: &[(&str, &str)]) -> String {
    let paths = paths.iter();
    paths.fold(words.to_owned(), |words, (book, test)| {
        words.replace(book, test)
    })
}

/// The environment variable for the fake `date` program of [`Days::new`]: the day that it prints.
const DAY: &str = "TEST_DAY";

/// Simulates successive days for commands that run date(1).
pub(crate) struct Days {
    program: PathBuf,
}

impl Days {
    /// Writes a program `date` into a directory, which must be the first of the search path.
    pub(crate) fn new(dir: &Path) -> Days {
        let program = dir.join("date");
        let script = format!("#!/bin/sh\nexec /usr/bin/date --utc --date \"${DAY}\" \"$@\"\n");
        std::fs::write(&program, script).unwrap();
        chmod(&program, 0o755);
        Days { program }
    }

    /// The program, for [`search_path`].
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// Sets the date for a command to some days after a Monday; returns the date.
    pub(crate) fn tell(&self, day: usize, command: &mut Command) -> String {
        let day = format!("2026-11-02 +{day} days");
        command.env(DAY, &day);
        let mut date = Command::new(&self.program);
        let date = tool(date.arg("+%F").env(DAY, &day));
        String::from_utf8(date).unwrap().trim_end().to_owned()
    }
}

/// The search path with the directories of these programs first.
pub(crate) fn search_path(first: &[&Path]) -> std::ffi::OsString {
    let usual = std::env::var_os("PATH").unwrap_or_default();
    let first = first
        .iter()
        .map(|program| program.parent().unwrap().to_owned());
    std::env::join_paths(first.chain(std::env::split_paths(&usual))).unwrap()
}
