//! `fathom completions` and `fathom man`: what is made from the definitions in [`crate::args`].

use std::io;
use std::os::unix::ffi::OsStrExt;

use clap::{Arg, Command, CommandFactory, ValueHint};
use clap_complete::Shell;
use clap_mangen::roff::{Roff, bold, roman};
use gate::Errno;
use gate::create::mkdirat;
use gate::fs::CWD;
use gate::long::reach;

use crate::args::Cli;
use crate::cmd::paper::args::{Completions, Man};
use crate::error::{Error, Outcome};
use crate::out::{Out, publish};

pub(crate) fn completions(args: &Completions, out: &Out) -> Outcome {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut shown(), "fathom", &mut text);
    let text = String::from_utf8_lossy(&text);
    out.data(
        match args.shell {
            Shell::Bash => text.replacen(PREVIOUS, &[PREVIOUS, BEHIND_EQUALS].concat(), 1),
            Shell::Fish => text.into_owned() + &words_of_fish(),
            _ => text.into_owned(),
        }
        .as_bytes(),
    )?;
    Ok(0)
}

/// Where clap_complete's script for bash has taken over the word before the one that is begun.
const PREVIOUS: &str = "    prev=\"$3\"\n";
/// For readline `--engine=b` is three words.
const BEHIND_EQUALS: &str = r#"    if [[ "${prev}" == "=" ]]; then
        prev="${COMP_WORDS[COMP_CWORD-2]}"
    elif [[ "${cur}" == "=" ]]; then
        cur=""
    fi
"#;

/// The words that stand for no option: clap_complete has none of them for fish.
fn words_of_fish() -> String {
    let mut lines = String::new();
    for command in shown().get_subcommands() {
        let arguments: Vec<&Arg> = command.get_positionals().collect();
        // Where nothing else may stand, no file does either.
        let alone = if arguments.len() == 1 { " -f" } else { "" };
        for value in arguments
            .iter()
            .flat_map(|arg| arg.get_possible_values())
            .filter(|value| !value.is_hide_set())
        {
            let help = value.get_help().map_or(String::new(), ToString::to_string);
            let help = help.replace('\\', "\\\\").replace('\'', "\\'");
            let (command, value) = (command.get_name(), value.get_name());
            lines += &format!(
                "complete -c fathom -n \"__fish_fathom_using_subcommand {command}\"{alone} -a {value} -d '{help}'\n"
            );
        }
    }
    lines
}

/// The commands that are meant for people: clap_complete would offer the hidden one, too.
fn shown() -> Command {
    let all = Cli::command();
    let commands = all
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .cloned();
    Command::new("fathom")
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .args(all.get_arguments().cloned())
        .subcommands(commands.map(|command| command.mut_args(hinted)))
}

/// An option with what a shell can offer for its value: files, directories, or nothing. Its value's
/// name says which, so that help and completions agree.
fn hinted(arg: Arg) -> Arg {
    let hint = match arg
        .get_value_names()
        .and_then(|names| names.first())
        .map(|name| name.as_str())
    {
        Some("DIR" | "ROOT") => ValueHint::DirPath,
        Some("FILE" | "ARCHIVE" | "CATALOG" | "OLD" | "NEW") => ValueHint::FilePath,
        Some("N" | "RATE" | "DURATION" | "SIZE" | "PERCENT" | "DIRS:FILES" | "GLOB" | "NAME") => {
            ValueHint::Other
        }
        _ => return arg,
    };
    arg.value_hint(hint)
}

pub(crate) fn man(args: &Man) -> Outcome {
    const NEXT: &str = "give a directory that can be written";
    let dir = args.dir.as_bytes();
    make(dir).map_err(|e| Error::write("cannot write the man pages into", dir, e, NEXT))?;
    let mut all = Cli::command().disable_help_subcommand(true);
    all.build();
    let commands = all
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    for command in std::iter::once(&all).chain(commands) {
        let name = format!(
            "{}.1",
            command.get_display_name().unwrap_or(command.get_name())
        );
        let path = [dir, b"/", name.as_bytes()].concat();
        let text = page(command).map_err(|e| Error::read("cannot make man page", &path, e, ""))?;
        publish(&path, &text)?;
    }
    Ok(0)
}

/// Makes a directory as `install -d` does, which packagers name before it is there: with all above
/// it.
fn make(dir: &[u8]) -> Result<(), Errno> {
    let above = (1..dir.len()).filter(|&end| dir[end] == b'/');
    for end in above.chain([dir.len()]) {
        let reach = reach(CWD, &dir[..end])?;
        match mkdirat(reach.dir(), reach.rest(), 0o777) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// The page of one command. clap_mangen makes most of it, but would run what stands behind the
/// options, the examples and the exit statuses, into one paragraph.
fn page(command: &Command) -> io::Result<Vec<u8>> {
    // The synopsis is the usage of the help.
    let usage = command.clone().render_usage().to_string();
    let command = command
        .clone()
        .override_usage(usage.trim_start_matches("Usage:").trim_start().to_owned());
    // Of no date, which would be the build's: the page is the same whenever it is made. Without
    // quotes it would be no argument.
    let page = clap_mangen::Man::new(command.clone())
        .date("\"\"")
        .source(concat!("fathom ", env!("CARGO_PKG_VERSION")))
        .manual("Manual of fathom");
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if command.has_subcommands() {
        page.render_subcommands_section(&mut text)?;
    }
    if let Some(rest) = command.get_after_long_help().or(command.get_after_help()) {
        behind(&rest.to_string()).to_writer(&mut text)?;
    }
    if !command.has_subcommands() {
        Roff::new()
            .control("SH", ["SEE ALSO"])
            .text([bold("fathom"), roman("(1)")])
            .to_writer(&mut text)?;
    }
    Ok(text)
}

/// What stands behind the options in the help. Its blocks have an empty line between them; one that
/// begins with "Examples:" or "Exit status:" is a section.
fn behind(help: &str) -> Roff {
    let mut roff = Roff::new();
    for block in help.split("\n\n") {
        let (first, rest) = block.split_once('\n').unwrap_or((block, ""));
        match first.split_once(':') {
            Some(("Example" | "Examples", "")) => {
                roff.control("SH", ["EXAMPLES"]);
                examples(rest, &mut roff);
            }
            Some(("Exit status", said)) => {
                roff.control("SH", ["EXIT STATUS"]);
                statuses(said.lines().chain(rest.lines()), &mut roff);
            }
            Some((title, "")) if rest.starts_with(' ') => {
                roff.control("SS", [title]);
                text(rest, &mut roff);
            }
            _ => {
                roff.control("PP", []);
                text(block, &mut roff);
            }
        }
    }
    roff
}

/// Text, which is filled; or lines of data, which have no blanks in them and stay as they are.
fn text(lines: &str, roff: &mut Roff) {
    let data = lines.lines().any(|line| !line.trim().contains(' '));
    if data {
        roff.control("nf", []);
    }
    for line in lines.lines() {
        roff.text([roman(line.trim())]);
    }
    if data {
        roff.control("fi", []);
    }
}

/// Examples: a command in each line, and what it is good for two blanks behind it, or in the next
/// lines, far to the right.
fn examples(lines: &str, roff: &mut Roff) {
    const FAR: usize = 4;
    let mut explaining = false;
    for line in lines.lines() {
        let said = line.trim_start();
        let (command, what) = match said.split_once("  ") {
            _ if line.len() - said.len() >= FAR => ("", said),
            Some((command, what)) => (command, what.trim_start()),
            None => (said, ""),
        };
        if !command.is_empty() {
            if std::mem::take(&mut explaining) {
                roff.control("RE", []);
            }
            roff.control("PP", [])
                .control("nf", [])
                .text([bold(command)])
                .control("fi", []);
        }
        if !what.is_empty() {
            if !std::mem::replace(&mut explaining, true) {
                roff.control("RS", ["4"]);
            }
            roff.text([roman(what)]);
        }
    }
    if explaining {
        roff.control("RE", []);
    }
}

/// Exit statuses: a number and what it says; other lines are text.
fn statuses<'a>(lines: impl Iterator<Item = &'a str>, roff: &mut Roff) {
    for line in lines.map(str::trim) {
        match line.split_once(' ') {
            Some((status, what)) if status.bytes().all(|b| b.is_ascii_digit()) => {
                roff.control("TP", [])
                    .text([bold(status)])
                    .text([roman(what.trim_start())]);
            }
            _ => {
                roff.text([roman(line)]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_behind_the_options_becomes_sections() {
        let help = "\
Examples:
  a -b  does it
  c | d -
          and that,
          too

More of it:
  All of it, and
  not less.

  And more.

A table:
  x,y
  1,2

Exit status: that of it. Else:
  2    it was wrong
  127  it is not there";
        let text = behind(help).to_roff();
        let expected = "\
.SH EXAMPLES
.PP
.nf
\\fBa \\-b\\fR
.fi
.RS 4
does it
.RE
.PP
.nf
\\fBc | d \\-\\fR
.fi
.RS 4
and that,
too
.RE
.SS \"More of it\"
All of it, and
not less.
.PP
And more.
.SS \"A table\"
.nf
x,y
1,2
.fi
.SH \"EXIT STATUS\"
that of it. Else:
.TP
\\fB2\\fR
it was wrong
.TP
\\fB127\\fR
it is not there
";
        assert_eq!(text, expected);
    }

    #[test]
    fn any_help_makes_a_page() {
        for help in [
            "",
            "\n",
            "Examples:",
            "Exit status:",
            "Exit status:\n  x",
            "a:\n\n  b",
            "Examples:\n\n\n  x  ",
        ] {
            behind(help).to_roff();
        }
    }
}
