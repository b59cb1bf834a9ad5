//! Writes the shell completions, generated from the definitions in [`crate::args`].

use clap::{Arg, Command, CommandFactory, ValueHint};
use clap_complete::Shell;

use super::args::Completions;
use crate::args::Cli;
use crate::error::Outcome;
use crate::out::Out;

pub(crate) fn run(args: &Completions, out: &Out) -> Outcome {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut visible_commands(), "fathom", &mut text);
    let text = String::from_utf8_lossy(&text);
    let text = match args.shell {
        Shell::Bash => text.replacen(PREVIOUS, &[PREVIOUS, AFTER_EQUALS].concat(), 1),
        Shell::Fish => text.into_owned() + &fish_positionals(),
        _ => text.into_owned(),
    };
    out.data(text.as_bytes())?;
    Ok(0)
}

/// In the bash script of clap_complete, the line that sets `prev` to the previous word.
const PREVIOUS: &str = "    prev=\"$3\"\n";
/// bash's readline splits `--engine=b` into three words, so the word before `=` is the option.
const AFTER_EQUALS: &str = r#"    if [[ "${prev}" == "=" ]]; then
        prev="${COMP_WORDS[COMP_CWORD-2]}"
    elif [[ "${cur}" == "=" ]]; then
        cur=""
    fi
"#;

/// fish completions for the values of positional arguments, which clap_complete does not generate.
fn fish_positionals() -> String {
    let mut lines = String::new();
    for command in visible_commands().get_subcommands() {
        let positionals: Vec<&Arg> = command.get_positionals().collect();
        // Suppress file names, unless the command has a second positional argument, which can be a
        // file.
        let no_files = if positionals.len() == 1 { " -f" } else { "" };
        let values = positionals.iter().flat_map(|arg| arg.get_possible_values());
        for value in values.filter(|value| !value.is_hide_set()) {
            let help = value.get_help().map_or(String::new(), ToString::to_string);
            let help = help.replace('\\', "\\\\").replace('\'', "\\'");
            let (command, value) = (command.get_name(), value.get_name());
            lines += &format!(
                "complete -c fathom -n \"__fish_fathom_using_subcommand {command}\"{no_files} -a {value} -d '{help}'\n"
            );
        }
    }
    lines
}

/// The command line without hidden commands. clap_complete would offer hidden commands, too.
fn visible_commands() -> Command {
    let all = Cli::command();
    let commands = all
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    Command::new("fathom")
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .args(all.get_arguments().cloned())
        .subcommands(commands.map(|command| command.clone().mut_args(with_value_hint)))
}

/// Sets whether the shell completes a value with files, with directories, or not at all. The
/// placeholder of the value in the help decides, so that help and completions agree.
fn with_value_hint(arg: Arg) -> Arg {
    let name = arg.get_value_names().and_then(|names| names.first());
    let hint = match name.map(|name| name.as_str()) {
        Some("DIR" | "ROOT") => ValueHint::DirPath,
        Some("FILE" | "ARCHIVE" | "CATALOG" | "OLD" | "NEW") => ValueHint::FilePath,
        Some("N" | "RATE" | "DURATION" | "SIZE" | "PERCENT" | "DIRS:FILES" | "GLOB" | "NAME") => {
            ValueHint::Other
        }
        _ => return arg,
    };
    arg.value_hint(hint)
}
