//! `fathom compare`: the differences between the figures of two files, and the ratios of the times
//! of programs on many machines.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use account::compare::ACCOUNT;
use account::compare::comparison::Comparison;
use account::compare::file::parse;
use account::compare::runs::{MeasuredFile, Runs, join};
use account::figures::{FigureChange, Verdict, add_absent_calls, compare};
use base::Warning;
use gate::fs::Open;
use gate::long::open_long;
use show::name::printable;

use super::figures::figures_text;
use super::page::html;
use super::show::{ComparisonReport, advice, text, warn_of_empty_cells, warn_of_short_times};
use crate::cmd::compare::args::Compare as Args;
use crate::error::{Error, Outcome};
use crate::input::whole;
use crate::out::{Out, publish};

const SCHEMA: &str = "fathom.compare/1";
const UNREADABLE: &str = "cannot compare the runs in";

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let files = args.files.iter().map(|file| read(file));
    let files = files.collect::<Result<Vec<_>, _>>()?;
    let (changes, names) = match (&files[..], &args.files[..]) {
        ([old, new], [old_name, new_name]) => (
            compare_figures(old, new),
            [old_name.as_bytes(), new_name.as_bytes()],
        ),
        _ => (None, [&b""[..]; 2]),
    };
    let are_one_run = files.iter().all(|file| file.count == 1);
    let command = |file: &MeasuredFile| Some(file.figures.as_ref()?.0.clone());
    let commands: Vec<Option<String>> = files.iter().map(command).collect();
    let mut all_runs = Vec::new();
    for (name, file) in args.files.iter().zip(files) {
        match file.runs {
            Ok(runs) => all_runs.push(runs),
            Err(_) if changes.is_some() => {}
            Err(error) => return Err(refuse(name, &error)),
        }
    }
    let mut warnings: Vec<Warning> = all_runs.iter().filter_map(warn_of_empty_cells).collect();
    let mut tables = join(all_runs);
    if changes.is_some() {
        // A table of ratios needs two programs. Runs of a single program are compared by their
        // figures only.
        tables.retain(|runs| runs.names.len() > 1);
    }
    let to_base = |runs| {
        check_commands(runs, &commands, &args.files)?;
        let base = base(runs, args.base.as_deref())?;
        Ok(Comparison { runs, base })
    };
    let comparisons = tables
        .iter()
        .map(to_base)
        .collect::<Result<Vec<_>, Error>>()?;
    let given = [(args.base.is_some(), "--base"), (args.summary, "--summary")];
    if let (true, Some((_, option))) = (
        comparisons.is_empty(),
        given.iter().find(|(is_given, _)| *is_given),
    ) {
        let message = format!("{option} requires runs of several programs");
        return Err(
            Error::new(message).with_hint("omit it: these files are compared by their figures")
        );
    }
    let pairs = comparisons.iter().flat_map(Comparison::pairs);
    warnings.extend(pairs.flat_map(warn_of_short_times));
    if let Some(file) = &args.html {
        let page = html(&comparisons, changes.as_deref().map(|it| (it, names)));
        publish(file.as_bytes(), page.as_bytes())?;
    }
    let report = ComparisonReport {
        comparisons: &comparisons,
        figures: changes.as_deref(),
    };
    out.report(SCHEMA, report, &warnings, || {
        let text = |one| text(one, out.table_style(), args.summary);
        let mut texts: Vec<String> = comparisons.iter().map(text).collect();
        if let Some(changes) = &changes {
            let style = out.table_style();
            texts.push(figures_text(changes, names, style, out.verbose));
        }
        out.data(texts.join("\n").as_bytes())?;
        if are_one_run && changes.as_deref().is_some_and(has_changed_times) {
            out.note(
                "each file has one run, and times also change from run to run: put several runs into each file (cat)",
            );
        }
        Ok(())
    })
}

/// Compares the figures of two files if both are from the same command. A system call that one of
/// two accounts lacks occurred 0 times.
fn compare_figures(old: &MeasuredFile, new: &MeasuredFile) -> Option<Vec<FigureChange>> {
    let (old_command, old_figures) = old.figures.as_ref()?;
    let (new_command, new_figures) = new.figures.as_ref()?;
    if old_command != new_command {
        return None;
    }
    let (mut before, mut after) = (old_figures.clone(), new_figures.clone());
    if old_command == ACCOUNT {
        add_absent_calls(&mut before, new_figures, old.count);
        add_absent_calls(&mut after, old_figures, new.count);
    }
    let mut changes = compare(&before, &after);
    // Programs that were given different names are no figures that one file lacks.
    changes.retain(|it| !it.name.starts_with("program ") || it.verdict() != Verdict::Missing);
    Some(changes)
}

/// Whether a time has changed. In a file with one run, the spread is the one within this run, so
/// the change may only be a difference between runs.
fn has_changed_times(changes: &[FigureChange]) -> bool {
    let mut changes = changes.iter();
    changes.any(|change| change.unit == "s" && change.verdict() == Verdict::Changed)
}

const HINT: &str = "fathom compare --help describes the format";

fn read(file: &OsStr) -> Result<MeasuredFile, Error> {
    const MOST: usize = 256 << 20;
    let path = file.as_bytes();
    if open_long(path, Open::PATH | Open::DIRECTORY).is_ok() {
        let cause = "it is a directory, not a file of figures or runs";
        let hint = "two trees are compared by metadata with fathom walk --catalog and fathom query --diff OLD NEW, \
                    and by content with (cd A && fathom dump . -o -) | \
                    fathom verify - --against B --ignore mtime,owner,mode,xattrs,links";
        return Err(Error::read(UNREADABLE, path, cause, hint));
    }
    let bytes = whole(path, MOST, UNREADABLE, HINT)?;
    if bytes.starts_with(b"PAR1") {
        let cause = "it is a catalog, not a file of figures or runs";
        let hint = "fathom query --diff OLD NEW compares catalogs";
        return Err(Error::read(UNREADABLE, path, cause, hint));
    }
    parse(path, &bytes).map_err(|error| refuse(file, &error))
}

fn refuse(file: &OsStr, error: &account::Error) -> Error {
    let cause = format!("{error}{}", advice(&error.kind));
    Error::read(UNREADABLE, file.as_bytes(), cause, HINT)
}

/// Fails if the only two files are of different commands of fathom, so that neither has runs of two
/// programs.
fn check_commands(
    runs: &Runs,
    commands: &[Option<String>],
    files: &[OsString],
) -> Result<(), Error> {
    let ([Some(old), Some(new)], 1, [old_name, new_name]) = (commands, runs.names.len(), files)
    else {
        return Ok(());
    };
    if old == new {
        return Ok(());
    }
    let [a, b] = [old_name, new_name].map(|name| printable(name.as_bytes()));
    let message = format!("cannot compare '{a}', of fathom {old}, with '{b}', of fathom {new}");
    Err(Error::new(message).with_hint("give files of one command"))
}

/// The index of the program with which the other programs are compared.
fn base(runs: &Runs, asked: Option<&str>) -> Result<usize, Error> {
    let names = || printable(runs.names.join(", ").as_bytes()).into_owned();
    let first = runs.systems.first();
    let file = first.map_or(&b"-"[..], |system| &system.file);
    if runs.names.len() < 2 {
        let why = format!("all runs are of {}", names());
        let hint = "add the runs of another program";
        return Err(Error::read(UNREADABLE, file, why, hint));
    }
    let Some(asked) = asked else {
        return Ok(runs.base());
    };
    let at = runs.names.iter().position(|name| name == asked);
    at.ok_or_else(|| {
        let asked = printable(asked.as_bytes());
        let file = printable(file);
        Error::new(format!(
            "--base '{asked}': the programs in '{file}' are {}",
            names()
        ))
        .with_hint("give one of these")
    })
}
