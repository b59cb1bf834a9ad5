//! The layout of `-h` and `--help`: commands grouped by purpose; for each command two examples, its
//! frequent options, and then the other options by group. The man pages and the completions have a
//! layout of their own.

use std::sync::LazyLock;

use clap::Command;

/// The commands, grouped by purpose.
const GROUPS: &str = "\
Look: survey space mounts walk query changed
Back up: dump list restore verify
Measure: account pathsearch probe pathwalk compare
Other: help completions man";

/// Commands of other programs, and the equivalent commands of fathom.
const KNOWN: &str = "\
du dust: fathom walk DIR --format du
df lsof: fathom space DIR
ls find fd: fathom walk DIR --format paths
ncdu gdu: fathom walk DIR --format ncdu
tree stat: fathom walk DIR --format ndjson
mount findmnt lsblk: fathom mounts
backup tar archive create save: fathom dump SRC -o ARCHIVE
snapshot restic: fathom dump SRC --restic REPO
prune forget: fathom dump --state DIR --prune --keep-full N
extract untar unpack: fathom restore ARCHIVE
check test: fathom verify ARCHIVE
strace ltrace perf trace: fathom account COMMAND
diff status: fathom changed DIR --since CATALOG, or fathom query --diff OLD NEW";

/// The frequent options of each command with more than a dozen options. The help lists them before
/// the groups of other options.
const FREQUENT: &str = "\
survey: output full limit deep
mounts: check beneath compare format
walk: one_file_system exclude max_depth top format catalog
changed: since update exclude format
query: name size changed_within top group_by diff
dump: output state exclude one_file_system compress dry_run
account: pid by full output
probe: full plot max_seconds";

/// Options of other programs, such as find and tar. Each row has the commands of fathom to which it
/// applies, the options, and the replacement. A word with one dash is an option of find, or the
/// first letters of a group of tar's options.
const FOREIGN: &str = "\
walk query changed: --newer -newer --mtime -mtime --mmin -mmin --since --changed-after --newer-than: --changed-within TIME
walk query changed: --older -older --older-than: --changed-before TIME
mounts: -t --type --types --fs --fstype -T --target --of --real -i -h: fathom survey DIR for types, sizes and inodes, or --json
walk query changed: -maxdepth --depth -d: --max-depth N
walk query changed: -mindepth: --min-depth N
walk query changed: -xdev --xdev -mount: -x
walk query: -nouser --nouser -nogroup --nogroup: --group-by owner: owners without a name are numbers
walk query changed: --min-size --larger: --size +N with a unit, such as +10M
walk query changed: --max-size --smaller: --size -N with a unit, such as -1000k
walk query: --inodes: --format du --sort count
walk: --by: --engine ENGINE, or --group-by FIELD for totals
walk query: --du: --format du
walk query changed: -user --user -group --group: --owner USER:GROUP
walk query changed: -empty --empty: --type e
walk query changed: -print0 --print0 -0 -delete --delete -exec --exec: --format paths0 and pipe it into xargs -0
walk query changed: -s -sh --summarize: --format du --max-depth 0
changed: --state: --since DIR/level-N.parquet with the highest N in the state directory
walk query changed: -l -la -ls --long: --format ndjson
dump: -c -cf -czf -cvf -cJf -f -z --file: fathom dump SRC -o ARCHIVE
dump: -r --repo: --restic REPO
dump: -g --listed-incremental: --state DIR, or --level N --state DIR
restore: -x -xf -xzf -xvf -f --target --file: fathom restore ARCHIVE -C DIR";

/// The rows of a table in this file: words, and what they stand for.
fn rows(table: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> + Clone {
    table.lines().filter_map(|row| row.split_once(": "))
}

fn has_word(words: &str, word: &str) -> bool {
    words.split(' ').any(|it| it == word)
}

/// The word of the command line that has an unknown option. For `-name`, clap reports only `-n`.
pub(crate) fn word_of_option<'a>(unknown: &str, words: &'a [String]) -> Option<&'a String> {
    let mut options = words.iter().take_while(|word| *word != "--");
    if let Some(word) = options.clone().find(|word| *word == unknown) {
        return Some(word);
    }
    let letter = unknown
        .strip_prefix('-')
        .filter(|it| it.chars().count() == 1)?;
    let has_letter = |letters: &str| !letters.starts_with('-') && letters.contains(letter);
    options.find(|word| word.strip_prefix('-').is_some_and(has_letter))
}

/// The replacement for an option that `command` does not have. An option of find with one dash
/// becomes the option with two dashes; other options are looked up in [`FOREIGN`]. `words` is the
/// command line.
pub(crate) fn foreign_option(command: &Command, unknown: &str, words: &[String]) -> Option<String> {
    let word = word_of_option(unknown, words)?;
    if let Some(name) = word.strip_prefix('-').filter(|name| name.len() > 1)
        && command
            .get_arguments()
            .any(|it| it.get_long() == Some(name))
    {
        return Some(format!("--{name}"));
    }
    let of_command = rows(FOREIGN).filter(|(commands, _)| has_word(commands, command.get_name()));
    // A one-letter option can have its value in the same word, such as `-d1`.
    let value = word.strip_prefix(unknown);
    let has_value = value.is_some_and(|value| value.bytes().all(|byte| byte.is_ascii_digit()));
    let word = if has_value { unknown } else { word };
    let mut known = of_command.filter_map(|(_, row)| row.split_once(": "));
    let known = known.find(|(words, _)| has_word(words, word));
    known.map(|(_, here)| here.to_owned())
}

/// The command of fathom that is equivalent to a command of another program.
pub(crate) fn counterpart(word: &str) -> Option<&'static str> {
    let known = rows(KNOWN).find(|(words, _)| has_word(words, word));
    known.map(|(_, here)| here)
}

/// The version, and the optional features that this program was built with.
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

pub(crate) fn lay_out(program: Command) -> Command {
    let (head, reset) = {
        let style = program.get_styles().get_header();
        (style.render().to_string(), style.render_reset().to_string())
    };
    let mut list = String::new();
    for (group, names) in rows(GROUPS) {
        list += &format!("{head}{group}:{reset}\n");
        for name in names.split(' ') {
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
        .mut_subcommands(|command| with_examples(with_frequent_first(command), &head, &reset))
}

/// Lists the frequent options under `Options`, before the groups of other options.
fn with_frequent_first(mut command: Command) -> Command {
    let known = rows(FREQUENT).find(|(name, _)| *name == command.get_name());
    let options = known
        .into_iter()
        .flat_map(|(_, options)| options.split(' '));
    for (order, option) in (0..).zip(options) {
        command = command.mut_arg(option, |it| it.help_heading(None).display_order(order));
    }
    command
}

/// Puts two examples before the options in `-h`. `--help` has all examples at its end instead.
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
        let grouped = rows(GROUPS).flat_map(|(_, names)| names.split(' '));
        assert_eq!(grouped.clone().count(), all.len());
        assert_eq!(grouped.collect::<BTreeSet<&str>>(), all);
    }

    #[test]
    fn short_help_begins_with_two_examples() {
        let mut program = lay_out(Cli::definition());
        for (_, names) in rows(GROUPS) {
            for name in names
                .split(' ')
                .filter(|name| !matches!(*name, "help" | "man" | "completions"))
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
