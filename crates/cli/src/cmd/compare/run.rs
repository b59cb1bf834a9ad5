//! `fathom compare`: how many times as much one program takes as another, on many machines.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use account::compare::comparison::Comparison;
use account::compare::file::parse;
use account::compare::growth::growth as find_growth;
use account::compare::runs::{Runs, join};
use base::Warning;
use show::name::printable;

use super::growth::growth_text;
use super::page::html;
use super::show::{Report, advice, text, warn_of_empty_cells, warn_of_short_times};
use crate::cmd::compare::args::Compare as Args;
use crate::error::{Error, Outcome};
use crate::input::whole;
use crate::out::{Out, publish};

const SCHEMA: &str = "fathom.compare/1";
const UNREADABLE: &str = "cannot compare the runs in";

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let mut growth = None;
    let files = match &args.files[..] {
        [old, new] => {
            let [old, new] = [(old, load(old)?), (new, load(new)?)];
            growth = find_growth(&old.1, &new.1);
            vec![read(old.0, &old.1)?, read(new.0, &new.1)?]
        }
        files => {
            let files = files.iter().map(|file| read(file, &load(file)?));
            files.collect::<Result<Vec<_>, _>>()?
        }
    };
    let mut warnings: Vec<Warning> = files.iter().filter_map(warn_of_empty_cells).collect();
    let mut tables = join(files);
    if growth.is_some() {
        // Accounts of one NAME have no ratios, but they can be compared call by call.
        tables.retain(|runs| runs.names.len() > 1);
    }
    let compare = |runs| {
        let base = base(runs, args.base.as_deref())?;
        Ok(Comparison { runs, base })
    };
    let comparisons = tables
        .iter()
        .map(compare)
        .collect::<Result<Vec<_>, Error>>()?;
    if growth.is_none() {
        // Of two accounts, short times say little, but calls are compared all the same.
        let pairs = comparisons.iter().flat_map(Comparison::pairs);
        warnings.extend(pairs.flat_map(warn_of_short_times));
    }
    if let Some(file) = &args.html {
        publish(file.as_bytes(), html(&comparisons).as_bytes())?;
    }
    if out.json {
        let report = Report {
            comparisons: &comparisons,
            growth: growth.as_ref(),
        };
        out.envelope(SCHEMA, report, &warnings)?;
    } else {
        let text = |one| text(one, out.table_style(), args.summary);
        let mut texts: Vec<String> = comparisons.iter().map(text).collect();
        if let (Some(growth), [old, new]) = (&growth, &args.files[..]) {
            let names = [old.as_bytes(), new.as_bytes()];
            texts.push(growth_text(growth, names, out.table_style()));
        }
        out.data(texts.join("\n").as_bytes())?;
    }
    out.warn(&warnings);
    Ok(warnings.len())
}

const HINT: &str = "fathom compare --help describes the format";

fn load(file: &OsStr) -> Result<Vec<u8>, Error> {
    const MOST: usize = 256 << 20;
    whole(file.as_bytes(), MOST, UNREADABLE, HINT)
}

fn read(file: &OsStr, bytes: &[u8]) -> Result<Runs, Error> {
    let path = file.as_bytes();
    parse(path, bytes).map_err(|error| {
        let cause = format!("{error}{}", advice(&error.kind));
        Error::read(UNREADABLE, path, cause, HINT)
    })
}

/// The program that the others are compared with.
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
