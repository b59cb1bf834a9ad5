//! Tests of the output and messages that all commands have in common. Rules for the help texts are
//! in `crates/cli/src/args/tests.rs`.

mod phrases;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::support::build::chmod;
use crate::support::restrict::fathom_as_nobody;
use crate::support::run::{Ran, args};
use crate::support::terminal::at_terminal;
use crate::support::{Need, fathom, in_namespace, require, run};
use tempfile::TempDir;

/// Every command, from the help.
fn commands() -> Vec<String> {
    let help = String::from_utf8(run(&mut fathom(["--help"])).exits(0).stdout).unwrap();
    let from = help.find("\nLook:\n").expect("there are commands");
    let lines = help[from..].lines().take_while(|line| *line != "Options:");
    let names = lines
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next());
    let names: Vec<String> = names.map(str::to_owned).collect();
    assert!(
        names.iter().any(|name| name == "mounts") && names.len() > 12,
        "{names:?}"
    );
    names
}

/// The commands that do file-system work.
fn working_commands() -> Vec<String> {
    let mut names = commands();
    names.retain(|name| !["help", "completions", "man"].contains(&name.as_str()));
    names
}

/// A small tree with archives and catalogs of it.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let place = Place { dir };
        fs::create_dir_all(place.at("tree/sub")).unwrap();
        fs::create_dir(place.at("out")).unwrap();
        fs::write(place.at("tree/a"), "hello\n").unwrap();
        fs::write(place.at("tree/sub/b"), "").unwrap();
        fs::write(place.at("plain"), "no table, no archive, no catalog\n").unwrap();
        fs::write(
            place.at("runs.csv"),
            "host,a_real,a_user,a_sys,b_real,b_user,b_sys\nx,2,1,1,1,1,1\n",
        )
        .unwrap();
        place.run("walk tree --catalog tree.parquet -q").exits(0);
        place.run("dump tree -o tree.tar -q").exits(0);
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, line: &str) -> Command {
        let mut command = fathom(line.split(' '));
        command.current_dir(self.dir.path());
        command
    }

    fn run(&self, line: &str) -> Ran {
        run(&mut self.command(line))
    }
}

/// A short successful run of each command, without messages on standard error.
fn short_run(command: &str) -> &'static str {
    match command {
        "mounts" => "mounts /proc",
        "walk" => "walk tree",
        "changed" => "changed tree --since tree.parquet",
        "query" => "query tree.parquet",
        "dump" => "dump tree -o again.tar",
        "restore" => "restore tree.tar -C out",
        "list" => "list tree.tar",
        "verify" => "verify tree.tar",
        "account" => "account -o report -- true",
        "compare" => "compare runs.csv",
        "probe" => "probe tree timer",
        "pathsearch" => "pathsearch -o report -- true",
        "pathwalk" => "pathwalk -ctr -l 2 -f 10 walked",
        "space" => "space /dev/shm",
        "survey" => "survey tree --no-page --limit 10m",
        other => panic!("{other} is new: give a short run of it"),
    }
}

/// A run that fails because of `NAME`.
fn run_about(command: &str) -> &'static [&'static str] {
    match command {
        "mounts" => &["mounts NAME", "mounts --by search --hints NAME"],
        "walk" => &["walk NAME", "walk tree NAME", "walk tree --catalog NAME/x"],
        "changed" => &[
            "changed NAME --since tree.parquet",
            "changed tree --since NAME",
        ],
        "query" => &["query NAME"],
        "dump" => &[
            "dump tree -o NAME/x",
            "dump tree -o x.tar --since NAME",
            "dump tree -o x.tar --map NAME/x",
        ],
        "restore" => &["restore NAME", "restore tree.tar -C NAME"],
        "list" => &["list NAME"],
        "verify" => &["verify NAME", "verify tree.tar --against NAME"],
        "account" => &[
            "account --model NAME",
            "account -o NAME/x -- true",
            "account --prices NAME -- true",
        ],
        "compare" => &["compare NAME", "compare runs.csv --html NAME/x"],
        "probe" => &[
            "probe NAME",
            "probe --replay NAME",
            "probe tree timer --csv NAME",
        ],
        "pathsearch" => &[
            "pathsearch -o NAME/x -- true",
            "pathsearch --network NAME -- true",
        ],
        "pathwalk" => &["pathwalk -t NAME", "pathwalk -r NAME"],
        "space" => &["space NAME"],
        "survey" => &["survey NAME"],
        other => panic!("{other} is new: say what of it can be missing"),
    }
}

/// Checks that the command was refused with a line that names the path, and a hint.
fn assert_error_has_path_and_hint(ran: Ran, path: &str) {
    let ran = ran.refused();
    let (line, hint) = ran
        .stderr
        .trim_end()
        .split_once("\nhint: ")
        .unwrap_or_else(|| panic!("{ran}"));
    // The path is printed as given, or as an absolute path.
    let is_named = line.contains(&format!("'{path}")) || line.contains(&format!("/{path}'"));
    assert!(is_named, "the path is not named: {ran}");
    assert!(line.starts_with("fathom: cannot "), "{ran}");
    for text in [line, hint] {
        assert!(
            !text.is_empty() && !text.ends_with(['.', ' ', ';']) && !text.contains("; ;"),
            "{ran}"
        );
    }
}

#[test]
fn error_for_a_missing_path_has_the_path_and_a_hint() {
    let place = Place::new();
    for command in working_commands() {
        for line in run_about(&command) {
            let ran = place.run(&line.replace("NAME", "missing"));
            assert!(
                ran.stderr
                    .contains("No such file or directory (os error 2)"),
                "{ran}"
            );
            assert_error_has_path_and_hint(ran, "missing");
        }
    }
}

#[test]
fn error_for_a_wrong_file_type_has_the_path_and_a_hint() {
    let place = Place::new();
    for command in working_commands() {
        // dump accepts files, too. A file of --hints may have any contents.
        for line in run_about(&command)
            .iter()
            .filter(|line| !line.contains("--hints"))
        {
            assert_error_has_path_and_hint(place.run(&line.replace("NAME", "plain")), "plain");
        }
    }
}

#[test]
fn usage_errors_are_one_line_with_a_hint_that_names_the_help() {
    for command in commands() {
        let wrong = [
            vec![command.as_str(), "--frobnicate"],
            vec![command.as_str(), "--color", "mauve"],
        ];
        for line in wrong.iter().filter(|_| command != "help") {
            let ran = run(&mut fathom(line)).refused();
            assert!(
                ran.stderr.ends_with(&format!("see fathom {command} -h\n")),
                "{ran}"
            );
            assert!(
                !ran.stderr.contains("tip:") && !ran.stderr.contains("'-- "),
                "{ran}"
            );
        }
    }
}

#[test]
fn quiet_prints_nothing_on_stderr() {
    let place = Place::new();
    for line in working_commands().iter().map(|command| short_run(command)) {
        let (command, rest) = line.split_once(' ').unwrap();
        let ran = place.run(&format!("{command} -q {rest}")).exits(0);
        assert_eq!(ran.stderr, "", "{ran}");
    }
}

#[test]
fn quiet_verification_prints_only_warnings() {
    let place = Place::new();
    fs::create_dir(place.at("state")).unwrap();
    place
        .run("dump tree -o level0.tar --level 0 --state state -q")
        .exits(0);
    for rest in [
        "tree.tar",
        "tree.tar --against .",
        "--state state",
        "--state state --against .",
    ] {
        let ran = place.run(&format!("verify -q {rest}")).exits(0);
        assert_eq!((&ran.stdout[..], &ran.stderr[..]), (&b""[..], ""), "{ran}");
    }
    let ran = place.run("verify -q tree.tar --against tree").refused();
    assert!(ran.stdout.is_empty() && !ran.stderr.is_empty(), "{ran}");
}

#[test]
fn json_is_one_line_that_matches_its_schema() {
    let place = Place::new();
    for line in working_commands().iter().map(|command| short_run(command)) {
        let (command, rest) = line.split_once(' ').unwrap();
        let ran = place
            .run(&format!(
                "{command} --json -q {}",
                rest.trim_start_matches("-o report ")
            ))
            .exits(0);
        assert_eq!(ran.json()["schema"], format!("fathom.{command}/1"), "{ran}");
        assert_eq!(
            ran.stdout.iter().filter(|byte| **byte == b'\n').count(),
            1,
            "{ran}"
        );
        assert!(
            ran.stdout.ends_with(b"}\n") && ran.stderr.is_empty(),
            "{ran}"
        );
    }
}

/// Whether a text contains an escape sequence for colour.
fn is_colored(text: &str) -> bool {
    text.split("\x1b[").skip(1).any(|rest| {
        rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';')
            .starts_with('m')
    })
}

/// Runs with a table that has colours.
const COLORED: [&str; 7] = [
    "mounts /proc",
    "walk tree --explain",
    "dump tree --explain",
    "compare runs.csv",
    "account --model",
    "pathsearch -o - -- true",
    "account -o - -- true",
];

#[test]
fn colours_are_used_on_a_terminal_unless_disabled() {
    let place = Place::new();
    for line in COLORED {
        let (command, rest) = line.split_once(' ').unwrap();
        let with = |color: &str| place.command(&format!("{command} --color {color} {rest}"));
        let shown = |command: &mut Command| at_terminal(command, 80).0;
        let text = |command: &mut Command| String::from_utf8(run(command).exits(0).stdout).unwrap();
        assert!(
            is_colored(&shown(&mut place.command(line))),
            "{line} at a terminal"
        );
        assert!(
            is_colored(&text(&mut with("always"))),
            "{line} --color always, into a pipe"
        );
        assert!(
            is_colored(&shown(with("always").env("NO_COLOR", "1"))),
            "{line} --color always goes before NO_COLOR"
        );
        assert!(
            !is_colored(&shown(place.command(line).env("NO_COLOR", "1"))),
            "{line} with NO_COLOR"
        );
        assert!(
            !is_colored(&shown(&mut with("never"))),
            "{line} --color never"
        );
        assert!(
            !is_colored(&text(&mut place.command(line))),
            "{line} into a pipe"
        );
    }
    let shown = |command: &mut Command| at_terminal(command, 80).0;
    assert!(
        is_colored(&shown(&mut place.command("walk --help"))),
        "help has colours"
    );
    assert!(
        !is_colored(&shown(place.command("walk --help").env("NO_COLOR", "1"))),
        "help heeds NO_COLOR"
    );
    assert!(
        !is_colored(&shown(&mut place.command("walk --help --color never"))),
        "help heeds --color never"
    );
    assert!(
        is_colored(&shown(
            place.command("walk --color always -h").env("NO_COLOR", "1")
        )),
        "help heeds --color always"
    );
    let piped = run(&mut place.command("--color=always --help")).exits(0);
    assert!(
        is_colored(&String::from_utf8_lossy(&piped.stdout)),
        "also into a pipe"
    );
    assert!(!is_colored(&String::from_utf8_lossy(
        &run(&mut place.command("--help")).exits(0).stdout
    )));
}

#[test]
fn output_fits_the_width_of_the_terminal() {
    let place = Place::new();
    let runs = working_commands();
    let runs = runs.iter().map(|command| short_run(command));
    for line in runs.chain(COLORED).chain([
        "walk tree --compare --trials 1",
        "mounts",
        "verify tree.tar --against .",
    ]) {
        for columns in [80, 200] {
            let (text, _) = at_terminal(place.command(line).env("NO_COLOR", "1"), columns);
            for line_of in text.lines() {
                // Errors and single words are not wrapped.
                let is_long_word = line_of.split_whitespace().count() == 1
                    || line_of.starts_with("fathom: ")
                    || line_of.starts_with("hint: ");
                let width = line_of.chars().count();
                assert!(
                    width <= usize::from(columns) || is_long_word,
                    "{line} at {columns} columns, {width}: {line_of}\n{text}"
                );
            }
        }
    }
}

#[test]
fn help_is_on_stdout_without_trailing_blanks() {
    for command in commands() {
        let lines = [
            vec![command.as_str(), "--help"],
            vec![command.as_str(), "-h"],
            vec!["help", command.as_str()],
        ];
        for line in lines
            .iter()
            .filter(|line| line[0] != "help" || line[1] != "--help" && line[1] != "-h")
        {
            let ran = run(&mut fathom(line)).exits(0);
            let text = String::from_utf8(ran.stdout.clone()).unwrap();
            assert!(ran.stderr.is_empty() && !text.contains('\x1b'), "{ran}");
            let trailing = text.lines().find(|line| line.ends_with([' ', '\t']));
            assert!(
                trailing.is_none() && text.ends_with('\n') && !text.ends_with("\n\n"),
                "{trailing:?}: {ran}"
            );
        }
    }
}

#[test]
fn error_for_a_forbidden_path_has_the_path_and_a_hint() {
    if !require(&[Need::Root]) {
        return;
    }
    let place = Place::new();
    let allow = |name: &str, mode| chmod(place.at(name), mode);
    allow("", 0o755);
    fs::create_dir(place.at("closed")).unwrap();
    fs::copy(place.at("tree.tar"), place.at("closed.tar")).unwrap();
    fs::copy(place.at("tree.parquet"), place.at("closed.parquet")).unwrap();
    ["closed", "closed.tar", "closed.parquet"]
        .into_iter()
        .for_each(|name| allow(name, 0));
    in_namespace(|ground| {
        for (line, path) in [
            ("walk closed", "closed"),
            ("mounts closed", "closed"),
            ("list closed.tar", "closed.tar"),
            ("verify closed.tar", "closed.tar"),
            ("restore closed.tar", "closed.tar"),
            ("changed tree --since closed.parquet", "closed.parquet"),
            ("dump tree -o closed/x.tar", "closed/x.tar"),
            ("probe closed timer", "closed"),
        ] {
            let mut command = fathom_as_nobody(ground, line.split(' '));
            command.current_dir(place.dir.path());
            assert_error_has_path_and_hint(run(&mut command), path);
        }
    });
}

#[test]
fn man_pages_and_completions_have_every_command() {
    let place = tempfile::tempdir().unwrap();
    run(&mut fathom(args!["man", place.path()])).exits(0);
    let is_there = |command: &str| place.path().join(format!("fathom-{command}.1")).is_file();
    for command in commands().iter().filter(|command| *command != "help") {
        assert!(is_there(command), "no man page of {command}");
        for shell in ["bash", "zsh", "fish"] {
            let text = run(&mut fathom(["completions", shell])).exits(0).stdout;
            assert!(
                String::from_utf8(text).unwrap().contains(command.as_str()),
                "{shell} does not know {command}"
            );
        }
    }
    assert!(place.path().join("fathom.1").is_file());
}
