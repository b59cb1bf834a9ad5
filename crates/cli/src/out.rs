//! Output, the same for all commands: data on stdout; status messages, warnings and the profile on
//! stderr; the exit status.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::OnceLock;

use clap::{CommandFactory, ValueEnum};
use gate::file::Writer;
use show::json::{Envelope, GateCounts, Gates};
use show::name::printable;
use show::table::{TableStyle, wrap};
use show::{json, profile};

use crate::args::{Cli, Global, When};
use crate::error::{Error, Outcome};
use crate::hint::hint;

/// Columns of a terminal; `None` for a file or a pipe.
fn columns<T: IsTerminal + AsFd>(stream: &T) -> Option<usize> {
    stream
        .is_terminal()
        .then(|| gate::machine::terminal_width(stream).unwrap_or(80))
}

impl When {
    /// Whether to use colour on a stream.
    fn is_wanted(self, stream: &impl IsTerminal) -> bool {
        match self {
            When::Always => true,
            When::Never => false,
            When::Auto => {
                stream.is_terminal()
                    && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            }
        }
    }

    /// The value of `--color` in a command line that clap has not parsed to its end, because it
    /// met `--help` or an error.
    fn from_command_line(words: impl Iterator<Item = OsString>) -> When {
        let mut words = words.take_while(|word| word != "--");
        let mut said = When::Auto;
        while let Some(word) = words.next() {
            let value = match word.to_str().and_then(|word| word.strip_prefix("--color")) {
                Some("") => words.next().unwrap_or_default(),
                Some(value) => value.trim_start_matches('=').into(),
                None => continue,
            };
            said = value
                .to_str()
                .and_then(|value| When::from_str(value, false).ok())
                .unwrap_or(said);
        }
        said
    }
}

/// Where and how a command prints.
pub(crate) struct Out {
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    pub(crate) verbose: bool,
    pub(crate) progress: bool,
    pub(crate) color: bool,
    /// Columns of the terminal on stdout, if it is one.
    pub(crate) width: Option<usize>,
    /// The exit status of a command that was run, which overrides our own.
    status: OnceLock<u8>,
    profile: bool,
    color_err: bool,
    /// Columns of the terminal on stderr, if it is one.
    width_err: Option<usize>,
}

impl Out {
    pub(crate) fn new(global: &Global) -> Out {
        Out {
            json: global.json,
            quiet: global.quiet,
            verbose: global.verbose,
            progress: !global.quiet && !global.no_progress && std::io::stderr().is_terminal(),
            color: global.color.is_wanted(&std::io::stdout()),
            width: columns(&std::io::stdout()),
            status: OnceLock::new(),
            profile: global.profile,
            color_err: global.color.is_wanted(&std::io::stderr()),
            width_err: columns(&std::io::stderr()),
        }
    }

    /// Whether stdout is a terminal.
    pub(crate) fn on_terminal(&self) -> bool {
        self.width.is_some()
    }

    /// Exits with this status: that of a command that was run.
    pub(crate) fn exit_with(&self, status: i32) {
        let _ = self.status.set(u8::try_from(status).unwrap_or(u8::MAX)); // the first call wins
    }

    /// The style of tables on stdout.
    pub(crate) fn table_style(&self) -> TableStyle {
        TableStyle {
            width: self.width,
            tree: false,
            color: self.color,
        }
    }

    /// The style of tables on stderr.
    pub(crate) fn table_style_err(&self) -> TableStyle {
        TableStyle {
            width: self.width_err,
            tree: false,
            color: self.color_err,
        }
    }

    /// Writes a result on stderr, because stdout belongs to the command that was run.
    pub(crate) fn data_err(&self, text: &str) -> Result<(), Error> {
        let cannot = |e| {
            Error::new(format!(
                "cannot write the report on standard error: {e}; give it a file with -o"
            ))
        };
        std::io::stderr().write_all(text.as_bytes()).map_err(cannot)
    }

    /// Writes data on stdout.
    pub(crate) fn data(&self, bytes: &[u8]) -> Result<(), Error> {
        if gate::command::was_closed(1) {
            return Err(Error::new(
                "cannot write the output: standard output is closed".to_owned(),
            ));
        }
        let mut stdout = std::io::stdout().lock();
        stdout
            .write_all(bytes)
            .and_then(|()| stdout.flush())
            .map_err(|e| Error::new(format!("cannot write the output: {e}; is the disk full?")))
    }

    /// Prints the result in its envelope.
    pub(crate) fn envelope(
        &self,
        schema: &'static str,
        result: impl serde::Serialize,
        warnings: &[mounts::Warning],
    ) -> Result<(), Error> {
        self.data(envelope_line(schema, result, warnings).as_bytes())
    }

    /// The JSON before and after a result that is written piece by piece.
    pub(crate) fn envelope_parts(
        &self,
        schema: &'static str,
        warnings: &[mounts::Warning],
    ) -> (String, String) {
        let warnings = json_warnings(warnings);
        Envelope {
            schema,
            result: (),
            gates: &gates(&gate::meter::tally()),
            warnings: &warnings,
        }
        .envelope_parts()
    }

    /// Prints a status message on stderr, unless `--quiet`.
    pub(crate) fn note(&self, text: impl std::fmt::Display) {
        if !self.quiet {
            match self.width_err {
                Some(width) => write_stderr(format_args!("{}\n", wrap(&text.to_string(), width))),
                None => write_stderr(format_args!("{text}\n")),
            }
        }
    }

    /// Prints a table on stderr, unless `--quiet`.
    pub(crate) fn note_table(&self, table: impl FnOnce(TableStyle) -> String) {
        if !self.quiet {
            write_stderr(format_args!("{}", table(self.table_style_err())));
        }
    }

    /// Prints warnings on stderr, also with `--json`, whose object has them too.
    pub(crate) fn warn(&self, warnings: &[mounts::Warning]) {
        const SHOWN: usize = 20;
        let shown = if self.verbose {
            warnings.len()
        } else {
            warnings.len().min(SHOWN)
        };
        for warning in &warnings[..shown] {
            write_stderr(format_args!("fathom: {}\n", warning_text(warning)));
        }
        if shown < warnings.len() {
            write_stderr(format_args!(
                "fathom: and {} more warnings; -v or --json gives them all\n",
                warnings.len() - shown
            ));
        }
    }

    /// Prints why a command was not done.
    pub(crate) fn failed(&self, message: &Error) {
        write_stderr(format_args!("fathom: {message}\n"));
    }

    /// Ends the command: prints the profile and the error, gives the exit status.
    pub(crate) fn end(&self, done: Outcome) -> ExitCode {
        if self.profile {
            let tally = gate::meter::tally();
            let lines = profile_lines(&tally);
            write_stderr(format_args!("{}", profile::to_text(&lines, self.color_err)));
            if self.verbose {
                for (gate, row) in tally.used() {
                    let at = |share| {
                        row.percentile(share)
                            .map_or("-".to_owned(), |ns| format!("{ns} ns"))
                    };
                    write_stderr(format_args!(
                        "{}: half under {}, 99 % under {}\n",
                        gate.name(),
                        at(0.5),
                        at(0.99)
                    ));
                }
            }
        }
        let status = match done {
            Ok(0) => 0,
            Ok(_) => 1,
            Err(failed) => {
                self.failed(&failed);
                2
            }
        };
        ExitCode::from(self.status.get().copied().unwrap_or(status))
    }
}

/// A warning as a line on stderr: the path, what could not be done, the errno in words, what
/// follows from it, and a hint.
fn warning_text(warning: &mounts::Warning) -> String {
    let path = warning
        .path
        .as_deref()
        .map_or(String::new(), |path| format!("'{}': ", printable(path)));
    let reason = &warning.reason;
    let mut text = match warning.errno {
        Some(errno) if reason.explains_errno() => format!("{path}{errno}: {reason}"),
        Some(errno) => format!("{path}{reason}: {errno}"),
        None => format!("{path}{reason}"),
    };
    for part in [reason.consequence(), hint(warning)] {
        text.extend(part.iter().flat_map(|part| ["; ", part]));
    }
    text
}

/// A result in its envelope, as a line.
pub(crate) fn envelope_line(
    schema: &'static str,
    result: impl serde::Serialize,
    warnings: &[mounts::Warning],
) -> String {
    let warnings = json_warnings(warnings);
    let gates = gates(&gate::meter::tally());
    Envelope {
        schema,
        result,
        gates: &gates,
        warnings: &warnings,
    }
    .to_line()
}

/// Writes a file atomically: it appears under its name only when it is complete.
pub(crate) fn publish(path: &[u8], bytes: &[u8]) -> Result<(), Error> {
    let mut file = Writer::create(path).map_err(|e| Error::write("cannot write", path, e, ""))?;
    file.write_all(bytes)
        .map_err(|e| Error::write("cannot write", path, e, ""))?;
    file.publish()
        .map_err(|e| Error::write("cannot write", path, e, ""))
}

/// Writes to stderr in one write(2), since stderr is unbuffered. A failure has nowhere to be
/// reported.
fn write_stderr(text: std::fmt::Arguments<'_>) {
    let _ = std::io::stderr().write_all(text.to_string().as_bytes());
}

/// Prints clap's help without trailing blanks, or its error on one line.
pub(crate) fn usage(e: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind;
    let styled = e.render();
    if matches!(
        e.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    ) {
        let when = When::from_command_line(std::env::args_os().skip(1));
        let (is_colored, status) = match e.use_stderr() {
            true => (when.is_wanted(&std::io::stderr()), 2),
            false => (when.is_wanted(&std::io::stdout()), 0),
        };
        let text = if is_colored {
            styled.ansi().to_string()
        } else {
            styled.to_string()
        };
        let text: String = text
            .lines()
            .flat_map(|line| [line.trim_end(), "\n"])
            .collect();
        let printed = match e.use_stderr() {
            true => std::io::stderr().write_all(text.as_bytes()),
            false => std::io::stdout().write_all(text.as_bytes()),
        };
        return ExitCode::from(if printed.is_ok() { status } else { 2 });
    }
    let text = styled.to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut said = lines
        .next()
        .unwrap_or_default()
        .trim_start_matches("error: ")
        .to_owned();
    for line in
        lines.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"))
    {
        said.push_str(if line.starts_with("tip: ") { "; " } else { " " });
        said.push_str(line.trim_start_matches("tip: "));
    }
    let all = Cli::command();
    let command = std::env::args_os()
        .skip(1)
        .find_map(|word| all.find_subcommand(word));
    let command = command.map_or(String::new(), |command| format!("{} ", command.get_name()));
    write_stderr(format_args!(
        "fathom: {}; see fathom {command}--help\n",
        printable(said.as_bytes())
    ));
    ExitCode::from(2)
}

/// A tally as `gates` in the JSON.
pub(crate) fn gates(tally: &gate::Tally) -> Gates {
    let timed = gate::meter::profiling();
    let row = |row: &gate::tally::GateCounts| GateCounts {
        calls: row.calls,
        errors: row.errors,
        seconds: timed.then(|| seconds(row.nanos)),
    };
    tally
        .used()
        .map(|(gate, counts)| (gate.name(), row(counts)))
        .collect()
}

/// A tally as the lines of a profile.
pub(crate) fn profile_lines(tally: &gate::Tally) -> Vec<profile::Line> {
    profile::lines(
        tally
            .used()
            .map(|(gate, row)| (gate.name(), row.calls, seconds(row.nanos))),
    )
}

/// Nanoseconds as they are shown.
pub(crate) fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

/// Warnings as they are shown.
pub(crate) fn json_warnings(warnings: &[mounts::Warning]) -> Vec<json::Warning> {
    let shown = |warning: &mounts::Warning| json::Warning {
        path: warning.path.clone(),
        gate: warning.gate.map(gate::Gate::name),
        errno: warning.errno.map(gate::Errno::name),
        message: match hint(warning) {
            Some(hint) => format!("{}; {hint}", warning.message()),
            None => warning.message(),
        },
    };
    warnings.iter().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_found_in_any_command_line() {
        for (line, when) in [
            ("walk --help", When::Auto),
            ("walk --color never --help", When::Never),
            ("--color=always -h", When::Always),
            ("--color always walk --help --color never", When::Never),
            ("account --help -- ls --color never", When::Auto),
            ("walk --help --color", When::Auto),
            ("walk --help --color mauve", When::Auto),
            ("walk --help --colored never", When::Auto),
        ] {
            assert_eq!(
                When::from_command_line(line.split(' ').map(OsString::from)),
                when,
                "{line}"
            );
        }
    }
}
