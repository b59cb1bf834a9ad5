//! Writes the man pages, generated from the definitions in [`crate::args`].

use std::io;
use std::os::unix::ffi::OsStrExt;

use clap::{Command, CommandFactory};
use clap_mangen::roff::{Roff, bold, roman};

use super::args::Man;
use crate::args::Cli;
use crate::error::{Error, Outcome};
use crate::out::{create_directories, publish};

pub(crate) fn run(args: &Man) -> Outcome {
    const NEXT: &str = "give a directory that you can write to";
    let dir = args.dir.as_bytes();
    create_directories(dir)
        .map_err(|e| Error::write("cannot write the man pages to", dir, e, NEXT))?;
    let mut all = Cli::command().disable_help_subcommand(true);
    all.build();
    let commands = all
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    for command in std::iter::once(&all).chain(commands) {
        let name = command.get_display_name().unwrap_or(command.get_name());
        let path = [dir, b"/", name.as_bytes(), b".1"].concat();
        let text = page(command).map_err(|e| Error::read("cannot make man page", &path, e, ""))?;
        publish(&path, &text)?;
    }
    Ok(0)
}

/// The man page of one command. clap_mangen renders the part up to the options. The rest is
/// rendered here, because clap_mangen would join the lines of the examples and exit statuses into
/// one paragraph.
fn page(command: &Command) -> io::Result<Vec<u8>> {
    // Replace clap_mangen's synopsis by the usage line of the help, which is more specific.
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim_start().to_owned();
    let command = command.clone().override_usage(usage);
    // An empty date makes builds reproducible. The quotes keep roff from dropping the empty
    // argument.
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
        sections(&rest.to_string()).to_writer(&mut text)?;
    }
    if !command.has_subcommands() {
        Roff::new()
            .control("SH", ["SEE ALSO"])
            .text([bold("fathom"), roman("(1)")])
            .to_writer(&mut text)?;
    }
    Ok(text)
}

/// Renders the text after the options, which has blocks separated by empty lines. A block that
/// begins with "Examples:" or "Exit status:" becomes a section.
fn sections(help: &str) -> Roff {
    let mut roff = Roff::new();
    for block in help.split("\n\n") {
        let (first, rest) = block.split_once('\n').unwrap_or((block, ""));
        match first.split_once(':') {
            Some(("Examples", "")) => {
                roff.control("SH", ["EXAMPLES"]);
                examples(rest, &mut roff);
            }
            Some(("Exit status", text)) => {
                roff.control("SH", ["EXIT STATUS"]);
                statuses(text.lines().chain(rest.lines()), &mut roff);
            }
            Some((title, "")) if rest.starts_with(' ') => {
                roff.control("SS", [title]);
                paragraph(rest, &mut roff);
            }
            _ => {
                roff.control("PP", []);
                paragraph(block, &mut roff);
            }
        }
    }
    roff
}

/// Renders a block as a filled paragraph. If a line of the block has no blank in it, the lines are
/// data, and keep their line breaks.
fn paragraph(lines: &str, roff: &mut Roff) {
    let is_data = lines.lines().any(|line| !line.trim().contains(' '));
    if is_data {
        roff.control("nf", []);
    }
    for line in lines.lines() {
        roff.text([roman(line.trim())]);
    }
    if is_data {
        roff.control("fi", []);
    }
}

/// Renders examples. Each line has a command, and after two blanks its purpose; the purpose can
/// also be in indented lines below.
fn examples(lines: &str, roff: &mut Roff) {
    const INDENTED: usize = 4;
    let mut in_purpose = false;
    for line in lines.lines() {
        let text = line.trim_start();
        let (command, purpose) = match text.split_once("  ") {
            _ if line.len() - text.len() >= INDENTED => ("", text),
            Some((command, purpose)) => (command, purpose.trim_start()),
            None => (text, ""),
        };
        if !command.is_empty() {
            if std::mem::take(&mut in_purpose) {
                roff.control("RE", []);
            }
            roff.control("PP", [])
                .control("nf", [])
                .text([bold(command)])
                .control("fi", []);
        }
        if !purpose.is_empty() {
            if !std::mem::replace(&mut in_purpose, true) {
                roff.control("RS", ["4"]);
            }
            roff.text([roman(purpose)]);
        }
    }
    if in_purpose {
        roff.control("RE", []);
    }
}

/// Renders exit statuses. A line has a status and its meaning; a line without a status is a
/// paragraph.
fn statuses<'a>(lines: impl Iterator<Item = &'a str>, roff: &mut Roff) {
    for line in lines.map(str::trim) {
        match line.split_once(' ') {
            Some((status, meaning)) if status.bytes().all(|b| b.is_ascii_digit()) => {
                roff.control("TP", [])
                    .text([bold(status)])
                    .text([roman(meaning.trim_start())]);
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
    fn the_text_after_the_options_becomes_sections() {
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
        let text = sections(help).to_roff();
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
    fn odd_help_texts_make_a_page() {
        for help in [
            "",
            "\n",
            "Examples:",
            "Exit status:",
            "Exit status:\n  x",
            "a:\n\n  b",
            "Examples:\n\n\n  x  ",
        ] {
            sections(help).to_roff();
        }
    }
}
