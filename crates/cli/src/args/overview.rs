//! How `-h` and `--help` are laid out: the commands by what they are for, and two examples before the options of each. The man
//! pages and the completions have a layout of their own.

use std::sync::LazyLock;

use clap::Command;

/// The commands, by what they are for.
const GROUPS: [(&str, &[&str]); 4] = [
    (
        "Look",
        &["survey", "space", "mounts", "walk", "query", "changed"],
    ),
    ("Back up", &["dump", "list", "restore", "verify"]),
    (
        "Measure",
        &["account", "pathsearch", "probe", "pathwalk", "compare"],
    ),
    ("Other", &["help", "completions", "man"]),
];

/// Commands of other programs, and what does the same here.
const KNOWN: [(&[&str], &str); 13] = [
    (&["du", "dust"], "fathom walk DIR --format du"),
    (&["df", "lsof"], "fathom space DIR"),
    (&["ls", "find", "fd"], "fathom walk DIR --format paths"),
    (&["ncdu", "gdu"], "fathom walk DIR --format ncdu"),
    (&["tree", "stat"], "fathom walk DIR --format ndjson"),
    (&["mount", "findmnt", "lsblk"], "fathom mounts"),
    (
        &["backup", "tar", "archive", "create", "save"],
        "fathom dump SRC -o ARCHIVE",
    ),
    (&["snapshot", "restic"], "fathom dump SRC --restic REPO"),
    (
        &["prune", "forget"],
        "fathom dump --state DIR --prune --keep-full N",
    ),
    (&["extract", "untar", "unpack"], "fathom restore ARCHIVE"),
    (&["check", "test"], "fathom verify ARCHIVE"),
    (
        &["strace", "ltrace", "perf", "trace"],
        "fathom account COMMAND",
    ),
    (
        &["diff", "status"],
        "fathom changed DIR --since CATALOG, or fathom query --diff OLD NEW",
    ),
];

/// What does here what a command of another program does.
pub(crate) fn counterpart(word: &str) -> Option<&'static str> {
    let known = KNOWN.iter().find(|(words, _)| words.contains(&word));
    known.map(|(_, here)| *here)
}

/// The version, and the optional parts that this program was built with.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let optional = [
        ("cloud", cfg!(feature = "cloud")),
        ("mpi", cfg!(feature = "mpi")),
        ("restic", cfg!(feature = "restic")),
    ];
    let names = |is_built: bool| {
        let of_kind = optional.iter().filter(|(_, built)| *built == is_built);
        let names: Vec<&str> = of_kind.map(|(name, _)| *name).collect();
        match &names[..] {
            [] => "none".to_owned(),
            names => names.join(", "),
        }
    };
    format!(
        "{}\nbuild features: {}; not built: {}",
        env!("CARGO_PKG_VERSION"),
        names(true),
        names(false)
    )
});

/// Lays out the help of a program and of its commands.
pub(crate) fn lay_out(program: Command) -> Command {
    let (head, reset) = {
        let style = program.get_styles().get_header();
        (style.render().to_string(), style.render_reset().to_string())
    };
    let mut list = String::new();
    for (group, names) in GROUPS {
        list += &format!("{head}{group}:{reset}\n");
        for name in names {
            let about = program.find_subcommand(name).and_then(Command::get_about);
            let about = about.map_or_else(
                || "Print the manual of a command".to_owned(),
                ToString::to_string,
            );
            list += &format!("  {name:<12} {}\n", about.trim_end_matches('.'));
        }
        list.push('\n');
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}{head}Options:{reset}\n{{options}}\n\n{{after-help}}"
    );
    program
        .long_version(VERSION.as_str())
        .help_template(template)
        .mut_subcommands(|command| with_examples(command, &head, &reset))
}

/// The first examples, before the options of `-h`; `--help` has all of them at its end.
fn with_examples(command: Command, head: &str, reset: &str) -> Command {
    const TEMPLATE: &str =
        "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}{all-args}{after-help}";
    let Some(examples) = command.get_before_help().map(ToString::to_string) else {
        return command;
    };
    command
        .before_help(format!("{head}Examples:{reset}\n{examples}"))
        .before_long_help("")
        .help_template(TEMPLATE)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn each_command_is_in_a_group() {
        let program = Cli::definition();
        let visible = program.get_subcommands().filter(|it| !it.is_hide_set());
        let all: BTreeSet<&str> = visible.map(Command::get_name).chain(["help"]).collect();
        let grouped = GROUPS.iter().flat_map(|(_, names)| names.iter().copied());
        assert_eq!(grouped.clone().count(), all.len());
        assert_eq!(grouped.collect::<BTreeSet<&str>>(), all);
    }

    #[test]
    fn short_help_begins_with_two_examples() {
        let mut program = lay_out(Cli::definition());
        for (_, names) in GROUPS {
            for name in names
                .iter()
                .filter(|name| !matches!(**name, "help" | "man" | "completions"))
            {
                let command = program.find_subcommand_mut(name).unwrap();
                let short = command.render_help().to_string();
                let (_, examples) = short.split_once("Examples:\n").unwrap();
                let examples = examples.lines().take_while(|line| !line.is_empty());
                let commands = examples.filter(|line| line.starts_with("  fathom"));
                assert_eq!(commands.count(), 2, "{short}");
            }
        }
    }
}
