//! Output, uniform for all commands: data on stdout; status messages, warnings and the profile on
//! stderr; the exit status.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::OnceLock;

use account::figures::Figure;
use base::Warning;
use clap::builder::PossibleValue;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, ValueEnum};
use gate::Errno;
use gate::create::mkdirat;
use gate::file::{Permissions, Writer};
use gate::fs::CWD;
use gate::long::reach;
use gate::machine::uname;
use show::json::{Delay, Delays, Envelope, GateCounts, Gates};
use show::name::{harmless, printable};
use show::table::TableStyle;
use show::units::{duration, plural};
use show::{json, profile};
use walk::Moment;

use crate::args::overview::{counterpart, foreign_option, lay_out, word_of_option};
use crate::args::{Cli, ColourMode, Global};
use crate::error::{Error, Outcome};
use crate::facts::Facts;
use crate::hint::{hint, newest_catalog};

/// Whether a stream is a terminal of the user. Open MPI gives each rank a pseudo-terminal, also if
/// its own output is redirected.
fn is_terminal(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && !team::writes_to_launcher()
}

impl ColourMode {
    fn is_wanted(self, stream: &impl IsTerminal) -> bool {
        let is_disabled =
            || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) || is_dumb();
        match self {
            ColourMode::Always => true,
            ColourMode::Never => false,
            ColourMode::Auto => is_terminal(stream) && !is_disabled(),
        }
    }

    /// Extracts the value of `--color` from a command line that clap did not parse to its end,
    /// because of `--help` or an error.
    fn from_command_line(words: impl Iterator<Item = OsString>) -> ColourMode {
        let mut words = words.take_while(|word| word != "--");
        let mut when = ColourMode::Auto;
        while let Some(word) = words.next() {
            let value = match word.to_str().and_then(|word| word.strip_prefix("--color")) {
                Some("") => words.next().unwrap_or_default(),
                Some(value) => value.trim_start_matches('=').into(),
                None => continue,
            };
            let value = value
                .to_str()
                .map(|value| ColourMode::from_str(value, false));
            when = value.and_then(Result::ok).unwrap_or(when);
        }
        when
    }
}

/// The kinds of messages to print on stderr during a walk or a dump.
#[derive(Clone, Copy)]
pub(crate) struct Messages {
    /// Whether to show the progress line.
    pub(crate) progress: bool,
    /// Whether to print a message when a file system does not answer.
    pub(crate) waits: bool,
}

/// Whether the terminal does not support escape sequences (`TERM=dumb`).
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Standard output and standard error of a command, with their formats.
pub(crate) struct Out {
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    pub(crate) verbose: bool,
    pub(crate) progress: bool,
    profile: bool,
    style: TableStyle,
    style_err: TableStyle,
    /// The exit status of a command that fathom ran, which overrides fathom's own.
    status: OnceLock<u8>,
    /// The recorded metrics, for `--report` and `--metrics`.
    pub(crate) facts: Facts,
}

impl Out {
    pub(crate) fn new(global: &Global) -> Out {
        Out {
            json: global.json,
            quiet: global.quiet,
            verbose: global.verbose,
            progress: !global.quiet
                && !global.no_progress
                && is_terminal(&std::io::stderr())
                && !is_dumb(),
            profile: global.profile,
            style: table_style(&std::io::stdout(), global.color),
            style_err: table_style(&std::io::stderr(), global.color),
            status: OnceLock::new(),
            facts: Facts::default(),
        }
    }

    /// The kinds of messages to print on stderr during a walk or a dump.
    pub(crate) fn messages(&self) -> Messages {
        Messages {
            progress: self.progress,
            waits: !self.quiet,
        }
    }

    pub(crate) fn on_terminal(&self) -> bool {
        self.style.width.is_some()
    }

    /// Sets the exit status to that of a command that fathom ran.
    pub(crate) fn exit_with(&self, status: i32) {
        let _ = self.status.set(u8::try_from(status).unwrap_or(u8::MAX)); // keeps the first status
    }

    pub(crate) fn table_style(&self) -> TableStyle {
        self.style
    }

    pub(crate) fn table_style_err(&self) -> TableStyle {
        self.style_err
    }

    pub(crate) fn data(&self, bytes: impl AsRef<[u8]>) -> Result<(), Error> {
        self.write(|stdout| stdout.write_all(bytes.as_ref()))
    }

    fn write(&self, put: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Error> {
        if gate::command::was_closed(1) {
            return Err(Error::new(
                "cannot write the output: standard output is closed",
            ));
        }
        let mut stdout = std::io::stdout().lock();
        let written = put(&mut stdout).and_then(|()| stdout.flush());
        written.map_err(|e| {
            Error::new(format!("cannot write the output: {e}"))
                .with_hint("check whether the disk is full")
        })
    }

    pub(crate) fn envelope(
        &self,
        schema: &'static str,
        result: impl serde::Serialize,
        warnings: &[Warning],
    ) -> Result<(), Error> {
        self.measured(schema, result, None, warnings)
    }

    /// Prints a result and its figures as JSON, in an envelope.
    pub(crate) fn measured(
        &self,
        schema: &'static str,
        result: impl serde::Serialize,
        figures: Option<Vec<Figure>>,
        warnings: &[Warning],
    ) -> Result<(), Error> {
        let envelope = envelope(schema, result, figures, warnings);
        self.names(|to| envelope.write(to))
    }

    /// Writes the output of `put` through a small buffer, so that memory never holds all of it.
    pub(crate) fn pieces(
        &self,
        put: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Error> {
        const PIECE: usize = 64 << 10;
        self.write(|stdout| {
            let mut pieces = BufWriter::with_capacity(PIECE, stdout);
            put(&mut pieces)?;
            pieces.flush()
        })
    }

    /// Writes file names as they are; on a terminal, control characters are escaped.
    pub(crate) fn names(
        &self,
        put: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Error> {
        match self.on_terminal() {
            true => self.pieces(|to| put(&mut EscapingWriter(to))),
            false => self.pieces(put),
        }
    }

    /// Writes the text that `make` passes to its callback, through a small buffer.
    pub(crate) fn text_pieces(&self, make: impl FnOnce(&mut dyn FnMut(&str))) -> Result<(), Error> {
        self.pieces(|to| {
            let mut written = Ok(());
            make(&mut |piece| {
                if written.is_ok() {
                    written = to.write_all(piece.as_bytes());
                }
            });
            written
        })
    }

    /// Prints the warnings and a result: as JSON with `--json`, otherwise by `print_text`.
    pub(crate) fn report(
        &self,
        schema: &'static str,
        result: impl serde::Serialize,
        warnings: &[Warning],
        print_text: impl FnOnce() -> Result<(), Error>,
    ) -> Outcome {
        self.report_measured(schema, result, None, warnings, print_text)
    }

    /// Prints the warnings and a result: with `--json` as JSON with figures, otherwise by
    /// `print_text`.
    pub(crate) fn report_measured(
        &self,
        schema: &'static str,
        result: impl serde::Serialize,
        figures: Option<Vec<Figure>>,
        warnings: &[Warning],
        print_text: impl FnOnce() -> Result<(), Error>,
    ) -> Outcome {
        match self.json {
            true => self.measured(schema, result, figures, warnings)?,
            false => print_text()?,
        }
        Ok(self.warn(warnings))
    }

    /// Prints a status message on stderr, unless `--quiet`.
    pub(crate) fn note(&self, text: impl std::fmt::Display) {
        self.note_table(|style| style.wrapped(&text.to_string()));
    }

    /// With `--verbose`, returns `: REASON`, which explains a choice at the end of a status
    /// message; otherwise an empty string.
    pub(crate) fn reason(&self, reason: &dyn std::fmt::Display) -> String {
        match self.verbose {
            true => format!(": {}", printable(reason.to_string().as_bytes())),
            false => String::new(),
        }
    }

    pub(crate) fn note_table(&self, table: impl FnOnce(TableStyle) -> String) {
        if !self.quiet {
            write_stderr(&table(self.style_err));
        }
    }

    /// Prints warnings on stderr, also with `--json`, where the JSON has the same warnings. A full
    /// disk fails for every further file, so without `-v` only the first of these warnings is
    /// printed, with the number of the others. Returns the number of warnings.
    pub(crate) fn warn(&self, warnings: &[Warning]) -> usize {
        const MOST: usize = 20;
        let most = if self.verbose { usize::MAX } else { MOST };
        let mut hints = BTreeSet::new();
        let mut full = Vec::new();
        let printed = warnings.iter();
        let printed = printed.filter(|it| self.verbose || !is_repeated(it, &mut full));
        let printed: Vec<&Warning> = printed.collect();
        for &warning in printed.iter().take(most) {
            // Print a hint that several warnings share only once.
            let hint = hint(warning).filter(|hint| hints.insert(hint.to_string()));
            write_message(&warning_text(warning), &hint.unwrap_or_default());
        }
        let all = "use -v to print all of them";
        for (errno, more) in full.into_iter().filter(|(_, more)| *more > 0) {
            let more = plural(more, "more warning", "more warnings");
            write_message(&format!("{more}: {errno}"), all);
        }
        if printed.len() > most {
            let rest = printed.len() - most;
            write_message(&format!("{rest} more warnings"), all);
        }
        warnings.len()
    }

    pub(crate) fn failed(&self, error: &Error) {
        write_message(&error.to_string(), error.hint());
    }

    /// Ends the command: prints the profile and the error, and returns the exit status.
    pub(crate) fn end(&self, done: Outcome) -> ExitCode {
        self.note_delays();
        if self.profile {
            self.print_profile();
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

    /// Prints how often and how long `--max-rate` delayed fathom's system calls.
    fn note_delays(&self) {
        if let Some(Delays { max_rate }) = delays()
            && max_rate.number > 0
        {
            let times = plural(max_rate.number, "time", "times");
            let sum = duration(max_rate.seconds);
            self.note(format_args!("--max-rate: waited {times}, {sum} in all"));
        }
    }

    fn print_profile(&self) {
        let tally = gate::meter::tally();
        write_stderr(&profile::to_text(
            &profile_lines(&tally),
            self.style_err.color,
        ));
        for (gate, counts) in tally.used().filter(|_| self.verbose) {
            let [median, p99] = [0.5, 0.99].map(|share| {
                let percentile = counts.percentile(share);
                percentile.map_or("-".to_owned(), |ns| format!("{ns} ns"))
            });
            let gate = gate.name();
            write_stderr(&format!("{gate}: half under {median}, 99 % under {p99}\n"));
        }
    }
}

/// A writer that escapes control characters, for a terminal.
struct EscapingWriter<'a>(&'a mut dyn Write);

impl Write for EscapingWriter<'_> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.0.write_all(&harmless(piece)).map(|()| piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn table_style(stream: &(impl IsTerminal + AsFd), color: ColourMode) -> TableStyle {
    let width = || gate::machine::terminal_width(stream).unwrap_or(80);
    let has_width = is_terminal(stream) || color == ColourMode::Always && stream.is_terminal();
    TableStyle {
        width: has_width.then(width),
        tree: false,
        color: color.is_wanted(stream),
    }
}

/// Whether an earlier warning was about the same full disk or exceeded quota. Counts the warnings
/// after the first of each errno.
fn is_repeated(warning: &Warning, full: &mut Vec<(Errno, u64)>) -> bool {
    let errno = warning.errno;
    let Some(errno) = errno.filter(|it| matches!(*it, Errno::ENOSPC | Errno::EDQUOT)) else {
        return false;
    };
    match full.iter_mut().find(|(known, _)| *known == errno) {
        Some((_, more)) => {
            *more += 1;
            true
        }
        None => {
            full.push((errno, 0));
            false
        }
    }
}

/// A warning as a line on stderr: the path, the failed action, the error text, and the consequence.
fn warning_text(warning: &Warning) -> String {
    let path = warning.path.as_deref().map(printable);
    let path = path.map_or(String::new(), |path| format!("'{path}': "));
    let reason = &warning.reason;
    let mut text = match warning.errno {
        Some(_) if reason.includes_errno() => format!("{path}{reason}"),
        Some(errno) if reason.explains_errno() => format!("{path}{errno}: {reason}"),
        Some(errno) => format!("{path}{reason}: {errno}"),
        None => format!("{path}{reason}"),
    };
    text.extend(reason.consequence().iter().flat_map(|part| ["; ", part]));
    text
}

/// A result in its JSON envelope, with counts of fathom's system calls. A measurement has figures for
/// `fathom compare`, and its time and host.
pub(crate) fn envelope<R>(
    schema: &'static str,
    result: R,
    figures: Option<Vec<Figure>>,
    warnings: &[Warning],
) -> Envelope<R, Vec<Figure>> {
    // Measurements differ from host to host and from day to day.
    let is_measured = figures.is_some();
    Envelope {
        schema,
        result,
        figures,
        when: is_measured.then(|| Moment::now().time().sec),
        host: is_measured.then(host),
        gates: gates(&gate::meter::tally()),
        delays: delays(),
        warnings: json_warnings(warnings),
    }
}

/// The total delay of fathom's system calls by `--max-rate`; `None` without this option.
fn delays() -> Option<Delays> {
    gate::throttle::delays().map(|delays| Delays {
        max_rate: Delay {
            number: delays.number,
            seconds: delays.nanos as f64 / 1e9,
        },
    })
}

/// Creates a directory and its missing parents, as `install -d` does.
pub(crate) fn create_directories(dir: &[u8]) -> Result<(), Errno> {
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

/// Writes a public file atomically: the file gets its name only after it is complete.
pub(crate) fn publish(path: &[u8], bytes: &[u8]) -> Result<(), Error> {
    write_file(path, bytes, Permissions::Public)
        .map_err(|e| Error::write("cannot write", path, e, ""))
}

/// Writes a file atomically that only this user can read.
pub(crate) fn publish_privately(path: &[u8], bytes: &[u8]) -> Result<(), Error> {
    write_file(path, bytes, Permissions::Private)
        .map_err(|e| Error::write("cannot write", path, e, ""))
}

/// Writes a file atomically, with the given permissions.
pub(crate) fn write_file(path: &[u8], bytes: &[u8], permissions: Permissions) -> Result<(), Errno> {
    let mut file = Writer::create(path, permissions)?;
    let written = file.write_all(bytes);
    written.map_err(|e| e.raw_os_error().map_or(Errno::EIO, Errno))?;
    file.publish()
}

/// Prints each problem of a remote store as it happens, so that the user knows why fathom waits.
#[cfg(feature = "cloud")]
pub(crate) fn tell_of_store(notice: remote::Notice<'_>) {
    use remote::Notice::{Failed, NoConditions, Silent};
    let message = match notice {
        Failed(error, most) => {
            let (error, minutes) = (error.to_string(), most.as_secs() / 60);
            let error = printable(error.as_bytes());
            format!("{error}; the request is tried again for up to {minutes} minutes")
        }
        Silent(host, since) => silence(host, since),
        NoConditions => {
            "the store has no conditional requests: of two programs that write the same object at \
                         the same time, the last one wins"
                .to_owned()
        }
    };
    write_message(&message, "");
}

/// The message that a server does not answer.
#[cfg(any(feature = "cloud", feature = "restic"))]
pub(crate) fn silence(host: &str, since: std::time::Duration) -> String {
    let (host, since) = (printable(host.as_bytes()), duration(since.as_secs() as f64));
    format!("'{host}' has not answered for {since}")
}

/// Prints a message, and its hint on a second line.
fn write_message(message: &str, hint: &str) {
    match hint {
        "" => write_stderr(&format!("fathom: {message}\n")),
        hint => write_stderr(&format!("fathom: {message}\nhint: {hint}\n")),
    }
}

/// Writes to stderr in one write(2), because stderr is unbuffered. Errors are ignored: there is
/// nowhere to report them.
pub(crate) fn write_stderr(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Prints clap's help, or clap's error on one line and a hint.
pub(crate) fn usage(e: &clap::Error) -> ExitCode {
    match e.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => print_help(e),
        ErrorKind::MissingSubcommand if std::env::args_os().len() < 2 => {
            let help = lay_out(Cli::definition()).render_help().to_string();
            write_stderr(&without_gaps(&help));
            ExitCode::from(2)
        }
        _ => {
            let all = Cli::command();
            let words = std::env::args_os().skip(1);
            let words: Vec<String> = words.map(|it| it.to_string_lossy().into_owned()).collect();
            let command = words.iter().find_map(|word| all.find_subcommand(word));
            let known = match e.get(ContextKind::InvalidSubcommand) {
                Some(ContextValue::String(word)) => counterpart(word).map(str::to_owned),
                _ => None,
            };
            let foreign = command.and_then(|command| foreign(e, command, &words));
            let similar = suggestion(e).map(|name| printable(name.as_bytes()));
            let equals_missing = command.and_then(|command| equals_missing(command, &words));
            let suggestion = equals_missing
                .or_else(|| is_given_twice(e).then(|| "give it once; ".to_owned()))
                .or_else(|| foreign.or(known).map(|here| format!("use {here}; ")))
                .or_else(|| similar.map(|name| format!("did you mean '{name}'? ")))
                .unwrap_or_default();
            let command = command.map_or(String::new(), |it| format!("{} ", it.get_name()));
            let message = match (e.kind(), e.get(ContextKind::InvalidArg)) {
                (ErrorKind::MissingSubcommand, _) => "no command is given".to_owned(),
                (ErrorKind::MissingRequiredArgument, Some(ContextValue::Strings(missing))) => {
                    format!("missing: {}", list_missing(missing))
                }
                (ErrorKind::UnknownArgument, Some(ContextValue::String(unknown))) => {
                    let message = one_line(&e.render().to_string());
                    match word_of_option(unknown, &words).filter(|word| *word != unknown) {
                        Some(word) => format!("unexpected argument '{unknown}' in '{word}'"),
                        None => message,
                    }
                }
                _ => one_line(&e.render().to_string()),
            };
            write_message(
                &printable(message.as_bytes()),
                &format!("{suggestion}see fathom {command}-h"),
            );
            ExitCode::from(2)
        }
    }
}

/// Whether an option is refused because it was given before.
pub(crate) fn is_given_twice(e: &clap::Error) -> bool {
    let (given, before) = (e.get(ContextKind::InvalidArg), e.get(ContextKind::PriorArg));
    e.kind() == ErrorKind::ArgumentConflict && given.is_some() && given == before
}

/// The missing required arguments of clap's error. clap also lists `A|B` if the user gave one of
/// the two options; this function omits such an item.
fn list_missing(missing: &[String]) -> String {
    let given = |option: &str| std::env::args_os().any(|word| word == option);
    let is_missing = |item: &&String| {
        let mut options = item.split(['|', '<', '>', ' ']);
        !(item.contains('|') && options.any(given))
    };
    let missing: Vec<String> = missing
        .iter()
        .filter(is_missing)
        .map(|item| match &item[..] {
            // `--state` names the archive, too, but clap does not list it as an alternative.
            "--output <ARCHIVE>" => "--output ARCHIVE, or --state DIR".to_owned(),
            item => item.replace('|', " or ").replace(['<', '>'], ""),
        })
        .collect();
    missing.join(", ")
}

/// Advice for an option whose value must follow `=`, if the value is given as a separate word.
fn equals_missing(command: &clap::Command, words: &[String]) -> Option<String> {
    let mut options = command
        .get_arguments()
        .filter(|arg| arg.is_require_equals_set());
    options.find_map(|arg| {
        let option = format!("--{}", arg.get_long()?);
        let at = words.iter().position(|word| *word == option)?;
        let value = words.get(at + 1)?;
        let is_value = |known: &PossibleValue| known.get_name() == value;
        let values = arg.get_possible_values();
        let is_meant = values.iter().any(is_value);
        is_meant.then(|| format!("write {option}={value}; "))
    })
}

/// The option of fathom that replaces an unknown option of a different program, such as find.
fn foreign(e: &clap::Error, command: &clap::Command, words: &[String]) -> Option<String> {
    match (e.kind(), e.get(ContextKind::InvalidArg)?) {
        (ErrorKind::UnknownArgument, ContextValue::String(unknown)) => {
            let own = || state_catalog(command, unknown, words);
            own().or_else(|| foreign_option(command, unknown, words))
        }
        _ => None,
    }
}

/// The option that replaces `changed --state DIR`: the newest catalog of DIR.
fn state_catalog(command: &clap::Command, unknown: &str, words: &[String]) -> Option<String> {
    if (command.get_name(), unknown) != ("changed", "--state") {
        return None;
    }
    let at = words.iter().position(|word| word.starts_with("--state"))?;
    let dir: &str = match words[at].split_once('=') {
        Some((_, dir)) => dir,
        None => words.get(at + 1)?,
    };
    let catalog = newest_catalog(dir.as_bytes())?;
    Some(format!("--since '{}'", printable(&catalog)))
}

/// The option, value or command that clap suggests for a misspelt argument.
fn suggestion(e: &clap::Error) -> Option<&str> {
    use ContextKind::{SuggestedArg, SuggestedSubcommand, SuggestedValue};
    let kinds = [SuggestedArg, SuggestedValue, SuggestedSubcommand];
    let name = kinds.iter().find_map(|kind| match e.get(*kind)? {
        ContextValue::String(name) => Some(name.as_str()),
        ContextValue::Strings(names) => names.first().map(String::as_str),
        _ => None,
    })?;
    // Drop suggestions with a different first letter: `tcsh` is not a misspelt `zsh`.
    let is_meant = match e.get(ContextKind::InvalidValue) {
        Some(ContextValue::String(given)) => given.chars().next() == name.chars().next(),
        _ => true,
    };
    is_meant.then_some(name)
}

/// Prints clap's help without trailing blanks.
fn print_help(e: &clap::Error) -> ExitCode {
    let when = ColourMode::from_command_line(std::env::args_os().skip(1));
    let is_colored = match e.use_stderr() {
        true => when.is_wanted(&std::io::stderr()),
        false => when.is_wanted(&std::io::stdout()),
    };
    let text = match is_colored {
        true => e.render().ansi().to_string(),
        false => e.render().to_string(),
    };
    let text = without_gaps(&text);
    let (printed, status) = match e.use_stderr() {
        true => (std::io::stderr().write_all(text.as_bytes()), 2),
        false => (std::io::stdout().write_all(text.as_bytes()), 0),
    };
    ExitCode::from(if printed.is_ok() { status } else { 2 })
}

/// Removes trailing blanks, and repeated empty lines.
fn without_gaps(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.dedup_by(|line, before| line.is_empty() && before.is_empty());
    lines.join("\n") + "\n"
}

/// clap's error message on one line, without its tips and the usage.
fn one_line(message: &str) -> String {
    let lines = message.trim_start_matches("error: ").lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty());
    let is_message = |line: &&str| {
        let others = ["tip:", "Usage:", "For more"];
        !others.iter().any(|other| line.starts_with(other))
    };
    lines.take_while(is_message).collect::<Vec<_>>().join(" ")
}

/// Number of fathom's own system calls so far.
pub(crate) fn own_calls() -> u64 {
    gate::meter::tally().calls()
}

/// Converts counts of system calls to the member `gates` of the JSON.
pub(crate) fn gates(tally: &gate::Tally) -> Gates {
    let is_timed = gate::meter::profiling();
    let counts = |counts: &gate::tally::GateCounts| GateCounts {
        calls: counts.calls,
        errors: counts.errors,
        seconds: is_timed.then(|| seconds(counts.nanos)),
    };
    let used = tally.used();
    used.map(|(gate, used)| (gate.name(), counts(used)))
        .collect()
}

pub(crate) fn profile_lines(tally: &gate::Tally) -> Vec<profile::Line> {
    let used = tally.used();
    profile::lines(used.map(|(gate, counts)| (gate.name(), counts.calls, seconds(counts.nanos))))
}

pub(crate) fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

pub(crate) fn json_warnings(warnings: &[Warning]) -> Vec<json::Warning> {
    let warning = |warning: &Warning| json::Warning {
        path: warning.path.clone(),
        gate: warning.gate.map(gate::Gate::name),
        errno: warning.errno.map(gate::Errno::name),
        message: match hint(warning) {
            Some(hint) => format!("{}; {hint}", warning.message()),
            None => warning.message(),
        },
    };
    warnings.iter().map(warning).collect()
}

/// The name of this machine, as uname(2) has it.
pub(crate) fn host() -> String {
    String::from_utf8_lossy(&uname().host).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_have_a_time_and_a_host() {
        let json = |figures| ::show::serde_json::to_value(envelope("s", (), figures, &[])).unwrap();
        let measured = json(Some(Vec::new()));
        assert!(
            measured["when"].as_i64() > Some(1_600_000_000),
            "{measured}"
        );
        assert_eq!(measured["host"], host());
        let other = json(None);
        assert!(
            other.get("when").is_none() && other.get("host").is_none(),
            "{other}"
        );
    }

    #[test]
    fn color_is_found_in_a_command_line_with_errors() {
        for (line, when) in [
            ("walk --help", ColourMode::Auto),
            ("walk --color never --help", ColourMode::Never),
            ("--color=always -h", ColourMode::Always),
            (
                "--color always walk --help --color never",
                ColourMode::Never,
            ),
            ("account --help -- ls --color never", ColourMode::Auto),
            ("walk --help --color", ColourMode::Auto),
            ("walk --help --color mauve", ColourMode::Auto),
            ("walk --help --colored never", ColourMode::Auto),
        ] {
            assert_eq!(
                ColourMode::from_command_line(line.split(' ').map(OsString::from)),
                when,
                "{line}"
            );
        }
    }
}
