//! Tests of the rules for the help texts of all commands.

use std::collections::BTreeSet;
use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::{Arg, ArgAction, Command, Parser};

use super::{Cli, REPLACEABLE};
use crate::out::is_given_twice;

/// All commands that are not hidden, each with its options and the global options.
fn commands() -> Vec<Command> {
    let mut all = Cli::definition();
    all.build();
    let shown = |command: &&Command| !command.is_hide_set() && command.get_name() != "help";
    all.get_subcommands().filter(shown).cloned().collect()
}

/// All arguments except those that clap adds, each with the name under which test failures report
/// it.
fn arguments(command: &Command) -> impl Iterator<Item = (String, &Arg)> {
    let own = |arg: &&Arg| !matches!(arg.get_id().as_str(), "help" | "version");
    command
        .get_arguments()
        .filter(own)
        .map(|arg| (format!("fathom {} {arg}", command.get_name()), arg))
}

fn plain(text: Option<&StyledStr>) -> String {
    text.map(StyledStr::to_string).unwrap_or_default()
}

/// The text of `--help` on a terminal of this width.
fn long_help(command: &Command, width: usize) -> String {
    command
        .clone()
        .term_width(width)
        .render_long_help()
        .to_string()
}

#[test]
fn definitions_are_valid() {
    Cli::definition().debug_assert();
}

#[test]
fn descriptions_of_commands_are_one_line_and_begin_with_a_verb() {
    const LINE: usize = 80 - "  completions  ".len();
    const VERBS: &[&str] = &[
        "Account", "Check", "Compare", "Count", "Extract", "Find", "List", "Make", "Measure",
        "Print", "Show", "Survey", "Trace", "Watch", "Write",
    ];
    for command in commands() {
        let (name, about) = (command.get_name(), plain(command.get_about()));
        assert!(
            about.len() <= LINE,
            "{name}: {} columns are more than {LINE}: {about}",
            about.len()
        );
        assert!(
            VERBS.contains(&about.split(' ').next().unwrap_or_default()),
            "{name}: {about}"
        );
        assert!(!about.ends_with(['.', ';', ' ']), "{name}: {about}");
        let long = plain(command.get_long_about());
        assert!(
            long.is_empty() || long.ends_with('.'),
            "{name}: the last sentence has no full stop: {long}"
        );
    }
}

#[test]
fn help_ends_with_examples_and_exit_statuses() {
    for command in commands() {
        let (name, short, long) = (
            command.get_name(),
            plain(command.get_after_help()),
            plain(command.get_after_long_help()),
        );
        assert!(short.starts_with("Exit status:\n"), "{name} -h: {short}");
        assert!(
            long.starts_with("Examples:\n  fathom ") || long.starts_with("Examples:\n  ssh "),
            "{name}: {long}"
        );
        assert!(long.ends_with(&short), "{name}: {long}");
    }
}

#[test]
fn help_fits_a_terminal_of_80_columns() {
    for command in commands() {
        for line in long_help(&command, 80).lines() {
            // Example command lines are not wrapped, so that users can copy them.
            let is_example = line.starts_with("  fathom ")
                || line.starts_with("  ssh ")
                || line.starts_with("  srun ");
            assert!(
                line.chars().count() <= 80 || is_example,
                "{}: {line:?}",
                command.get_name()
            );
            assert!(!line.contains('\t'), "{}: {line:?}", command.get_name());
        }
    }
}

#[test]
fn descriptions_of_options_begin_with_a_verb_and_of_arguments_with_the() {
    for command in &commands() {
        for (shown, arg) in arguments(command) {
            let help = plain(arg.get_help());
            let first = help.split([' ', ',']).next().unwrap_or_default();
            assert!(!help.ends_with(['.', ';', ' ']), "{shown}: {help}");
            assert!(
                !help.contains(". "),
                "{shown} has two sentences; say it with a semicolon: {help}"
            );
            if arg.is_positional() {
                assert_eq!(first, "The", "{shown}: {help}");
            } else {
                assert!(
                    VERBS.contains(&first),
                    "{shown} begins with no verb: {help}"
                );
            }
        }
    }
    const VERBS: &[&str] = &[
        "Add", "Also", "Append", "Apply", "Archive", "Assume", "Avoid", "Check", "Compare",
        "Compress", "Count", "Create", "Descend", "Do", "Draw", "Drop", "Dump", "Evaluate",
        "Examine", "Extract", "Fill", "Find", "Gather", "Give", "Go", "Have", "Hold", "Keep",
        "Leave", "Limit", "List", "Look", "Make", "Match", "Measure", "Meter", "Name", "Print",
        "Read", "Refuse", "Remove", "Replace", "Require", "Resolve", "Restore", "Run", "Say",
        "Search", "Set", "Share", "Show", "Skip", "Sort", "Stay", "Stop", "Succeed", "Sum",
        "Suppress", "Take", "Time", "Touch", "Trace", "Use", "Wait", "Walk", "With", "Work",
        "Write", "Warn",
    ];
}

#[test]
fn descriptions_of_options_have_at_most_70_characters() {
    const MOST: usize = 70;
    for command in &commands() {
        for (shown, arg) in arguments(command) {
            let help = plain(arg.get_help());
            let text = help.split(" [default: ").next().unwrap_or_default();
            let length = text.chars().count();
            assert!(length <= MOST, "{shown}: {length} characters: {text}");
        }
    }
}

#[test]
fn negative_number_is_the_value_of_the_option_before_it() {
    let mut options = 0;
    for command in &commands() {
        let takes_number = |arg: &&Arg| arg.get_value_names().is_some_and(|names| names == ["N"]);
        for arg in command.get_arguments().filter(takes_number) {
            let option = format!("--{}", arg.get_long().unwrap());
            let line = ["fathom", command.get_name(), &option, "-1"];
            let error = Cli::definition().try_get_matches_from(line).unwrap_err();
            let text = error.to_string();
            assert!(
                text.starts_with(&format!(
                    "error: invalid value '-1' for '{option} <N>': use "
                )),
                "{line:?}: {text}"
            );
            options += 1;
        }
    }
    assert!(options > 12, "{options} options take a number");
}

/// Options whose values combine.
const COMBINED: [&str; 20] = [
    "assert",
    "changed-before",
    "changed-within",
    "exclude",
    "exclude-from",
    "exclude-if-present",
    "ext",
    "files-from",
    "ignore",
    "iname",
    "links",
    "name",
    "network",
    "owner",
    "perm",
    "pid",
    "regex",
    "size",
    "tag",
    "type",
];
/// Options that are refused if they are given twice: the result would not have the data that the
/// earlier value asks for, or a file would not be written.
const ONCE: [&str; 59] = [
    "against",
    "at",
    "base",
    "by",
    "cache-limit",
    "calls",
    "catalog",
    "cgroup",
    "compact",
    "csv",
    "depth",
    "diff",
    "directory",
    "full-every",
    "group-by",
    "hints",
    "host",
    "html",
    "keep-daily",
    "keep-full",
    "keep-hourly",
    "keep-last",
    "keep-monthly",
    "keep-weekly",
    "keep-within",
    "keep-yearly",
    "level",
    "map",
    "max-depth",
    "method",
    "metrics",
    "min-depth",
    "mix",
    "model",
    "names",
    "nodes",
    "output",
    "password-command",
    "password-file",
    "plot",
    "prices",
    "replay",
    "report",
    "restic",
    "rtt",
    "run",
    "server-rate",
    "shard",
    "share",
    "since",
    "sort",
    "state",
    "strip-components",
    "system-share",
    "threshold",
    "time",
    "to",
    "top",
    "trials",
];

/// What happens to the earlier values of an option that is given again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Repetition {
    Combines,
    Replaces,
    IsRefused,
}

/// The required behaviour of an option that takes values; `None` if the option is in no list.
fn repetition(command: &str, long: &str) -> Option<Repetition> {
    // The options of LLNL's program behave as with getopt(3).
    if command == "pathwalk" {
        return Some(Repetition::Replaces);
    }
    let lists = [
        (&COMBINED[..], Repetition::Combines),
        (&REPLACEABLE[..], Repetition::Replaces),
        (&ONCE[..], Repetition::IsRefused),
    ];
    let found: Vec<Repetition> = lists
        .into_iter()
        .filter(|(names, _)| names.contains(&long))
        .map(|(_, repetition)| repetition)
        .collect();
    assert!(found.len() < 2, "--{long} is in several lists");
    found.first().copied()
}

#[test]
fn no_value_of_a_repeated_option_is_lost() {
    // The values are not parsed, so that any word is a valid one.
    let raw = |arg: Arg| match arg.get_action().takes_values() {
        true => arg.value_parser(clap::value_parser!(OsString)),
        false => arg,
    };
    let mut all = Cli::definition()
        .mut_args(raw)
        .mut_subcommands(|command| command.mut_args(raw));
    all.build();
    let mut seen = BTreeSet::new();
    let shown = |it: &&Command| !it.is_hide_set() && it.get_name() != "help";
    for command in all.get_subcommands().filter(shown) {
        let name = command.get_name();
        for (shown, arg) in arguments(command) {
            let Some(long) = arg.get_long() else { continue };
            let least = arg.get_num_args().map_or(1, |range| range.min_values());
            let given = match arg.get_action().takes_values() {
                false => vec![format!("--{long}")],
                true if arg.is_require_equals_set() => vec![format!("--{long}=1")],
                true => [
                    vec![format!("--{long}")],
                    vec!["1".to_owned(); least.max(1)],
                ]
                .concat(),
            };
            let line = [vec![name.to_owned()], given.clone(), given].concat();
            let parsed = command.clone().try_get_matches_from(line);
            let actual = match (parsed, arg.get_action()) {
                (Err(error), _) if is_given_twice(&error) => Repetition::IsRefused,
                (_, ArgAction::Append) => Repetition::Combines,
                _ => Repetition::Replaces,
            };
            let expected = match arg.get_action().takes_values() {
                true => repetition(name, long)
                    .unwrap_or_else(|| panic!("{shown}: add it to COMBINED, ONCE or REPLACEABLE")),
                false => Repetition::Replaces,
            };
            assert_eq!(actual, expected, "{shown}");
            seen.insert(long.to_owned());
        }
    }
    let listed = COMBINED.iter().chain(&REPLACEABLE).chain(&ONCE);
    let unknown: Vec<_> = listed.filter(|name| !seen.contains(**name)).collect();
    assert!(unknown.is_empty(), "no command has {unknown:?}");
}

#[test]
fn value_names_are_from_one_list() {
    const NAMES: &[&str] = &[
        "-",
        "ARCHIVE",
        "CATALOG",
        "COMMAND",
        "DIR",
        "DIRS:FILES",
        "DURATION",
        "EXT",
        "ENGINE",
        "EXPERIMENT",
        "FIELD",
        "FIELD[:N]",
        "FILE",
        "FORMAT",
        "FROM",
        "GLOB",
        "HOW",
        "LIST",
        "I/N",
        "METER",
        "METHOD",
        "N",
        "MODE",
        "NAME",
        "NAME[:LEVEL]",
        "NEW",
        "OLD",
        "PATH",
        "PERCENT",
        "PID",
        "RATE",
        "RE",
        "ROOT",
        "REPO",
        "SECONDS",
        "SHELL",
        "SIZE",
        "SRC",
        "TIME",
        "TYPE",
        "TAG",
        "URL",
        "USER[:GROUP]",
        "WHAT",
        "WHEN",
        "WHICH",
        "[+-]N",
        "[+-]N[UNIT]",
        "[-/]MODE",
    ];
    for command in &commands() {
        for (shown, arg) in arguments(command).filter(|(_, arg)| arg.get_action().takes_values()) {
            for name in arg.get_value_names().unwrap_or_default() {
                assert!(
                    NAMES.contains(&name.as_str()),
                    "{shown}: {name} is not in the list"
                );
            }
        }
    }
}

#[test]
fn every_possible_value_has_a_description() {
    for command in &commands() {
        for (shown, arg) in arguments(command) {
            for value in arg.get_possible_values() {
                let help = plain(value.get_help());
                let is_known = arg.get_id() == "shell" || !arg.get_action().takes_values();
                assert!(
                    is_known || !help.is_empty(),
                    "{shown}: {} has no help",
                    value.get_name()
                );
                assert!(
                    !help.ends_with('.'),
                    "{shown}: {}: {help}",
                    value.get_name()
                );
            }
        }
    }
}

/// Splits a command line into words like a shell, up to the next command of a pipe or list.
/// Supports only the syntax that the examples use.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in line.chars() {
        let word = words.last_mut().expect("it is never empty");
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '|' | '>' | '<' | ';' | '&') => break,
            (None, ' ') if word.is_empty() => {}
            (None, ' ') => words.push(String::new()),
            _ => word.push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn examples_are_valid_command_lines() {
    let mut tried = 0;
    for command in commands() {
        let help = plain(command.get_after_long_help());
        let lines = help
            .lines()
            .filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        for part in lines.flat_map(|line| line.split_inclusive('|')) {
            let Some(at) = part.find("fathom ") else {
                continue;
            };
            // Two blanks separate an example from its purpose.
            let line = part[at..].split("  ").next().unwrap_or_default();
            let parsed = Cli::try_parse_from(words(line));
            assert!(
                parsed.is_ok(),
                "{}: {line}: {}",
                command.get_name(),
                parsed.err().unwrap()
            );
            tried += 1;
        }
    }
    assert!(tried > 60, "{tried} examples were tried");
}
