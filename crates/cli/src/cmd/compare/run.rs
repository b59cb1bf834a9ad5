//! `fathom compare`: how many times as much one program takes as another, on many machines.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use account::compare::file::parse;
use account::compare::runs::{self, Measure, NoRatio, Runs, join};
use mounts::Warning;
use report::compare_runs::{Comparison, Pair, System, html};
use serde::Serialize;
use show::name::printable;
use show::units::plural;

use super::show::advice;
use crate::cmd::compare::args::Compare as Args;
use crate::error::{Error, Outcome};
use crate::input::whole;
use crate::out::{Out, publish};

const SCHEMA: &str = "fathom.compare/1";
const UNREADABLE: &str = "cannot compare the runs in";

#[derive(Serialize)]
struct Compared<'a> {
    comparisons: &'a [Comparison<'a>],
}

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let files = args
        .files
        .iter()
        .map(|file| read(file))
        .collect::<Result<Vec<_>, _>>()?;
    let mut warnings: Vec<Warning> = files.iter().filter_map(empty).collect();
    let tables = join(files);
    let mut comparisons = Vec::new();
    for runs in &tables {
        let base = base(runs, args.base.as_deref())?;
        let pairs = runs.pairs(base);
        warnings.extend(pairs.iter().flat_map(|pair| too_short(runs, pair)));
        comparisons.push(shown(runs, base, &pairs));
    }
    if let Some(file) = &args.html {
        publish(file.as_bytes(), html(&comparisons).as_bytes())?;
    }
    if out.json {
        out.envelope(
            SCHEMA,
            Compared {
                comparisons: &comparisons,
            },
            &warnings,
        )?;
    } else {
        let texts: Vec<String> = comparisons
            .iter()
            .map(|one| one.to_text(out.table_style(), args.summary))
            .collect();
        out.data(texts.join("\n").as_bytes())?;
    }
    out.warn(&warnings);
    Ok(warnings.len())
}

fn read(file: &OsStr) -> Result<Runs, Error> {
    const MOST: usize = 256 << 20;
    const HINT: &str = "fathom compare --help says what they are to look like";
    let path = file.as_bytes();
    let bytes = whole(path, MOST, UNREADABLE, HINT)?;
    parse(path, &bytes).map_err(|error| {
        let cause = format!("{error}{}", advice(&error.kind));
        Error::read(UNREADABLE, path, cause, HINT)
    })
}

/// The program that the others are held against.
fn base(runs: &Runs, asked: Option<&str>) -> Result<usize, Error> {
    let names = || printable(runs.names.join(", ").as_bytes()).into_owned();
    let file = runs
        .systems
        .first()
        .map_or(&b"-"[..], |system| &system.file);
    if runs.names.len() < 2 {
        let why = format!("they are of {} alone", names());
        return Err(Error::read(
            UNREADABLE,
            file,
            why,
            "give those of another program as well",
        ));
    }
    let Some(asked) = asked else {
        return Ok(runs.base());
    };
    runs.names
        .iter()
        .position(|name| name == asked)
        .ok_or_else(|| {
            let doing = format!(
                "cannot hold against {} the runs in",
                printable(asked.as_bytes())
            );
            Error::read(
                &doing,
                file,
                format!("they are of {}", names()),
                "give one of these to --base",
            )
        })
}

/// Cells with nothing in them.
fn empty(runs: &Runs) -> Option<Warning> {
    let (line, column) = runs.empty.first()?;
    let file = runs
        .systems
        .first()
        .map_or(&b"-"[..], |system| &system.file);
    let more = more(runs.empty.len(), "cell", "cells");
    let column = printable(column.as_bytes());
    Some(Warning::about(
        file,
        format!("line {line}: there is no {column}{more}; left out of the ratios"),
    ))
}

/// Times that have no ratio, because one of them is 0: a warning for each measure.
fn too_short(runs: &Runs, pair: &runs::Pair) -> Vec<Warning> {
    let name = |at: usize| {
        runs.names
            .get(at)
            .map_or("".into(), |name| printable(name.as_bytes()))
    };
    let of = |(at, measure): (usize, &Measure)| {
        let lacking =
            |ratios: &[Result<f64, NoRatio>; 4]| ratios.get(at) == Some(&Err(NoRatio::TooShort));
        let mut systems = runs
            .systems
            .iter()
            .zip(&pair.ratios)
            .filter(|(_, ratios)| lacking(ratios));
        let (first, _) = systems.next()?;
        let (system, line) = (printable(&first.name), first.line);
        let more = more(1 + systems.count(), "system", "systems");
        let (of, to, measure) = (name(pair.of), name(pair.to), measure.name());
        let message = format!(
            "line {line}: on {system}{more} {of} or {to} has 0 for {measure}; left out of {of}/{to}"
        );
        Some(Warning::about(&first.file, message))
    };
    Measure::ALL.iter().enumerate().filter_map(of).collect()
}

fn more(all: usize, one: &str, many: &str) -> String {
    if all > 1 {
        format!(" (and {} more)", plural(all as u64 - 1, one, many))
    } else {
        String::new()
    }
}

fn shown<'a>(runs: &'a Runs, base: usize, pairs: &[runs::Pair]) -> Comparison<'a> {
    let system = |system: &'a runs::System| System {
        name: &system.name,
        file: &system.file,
        line: system.line,
        labels: &system.labels,
        took: &system.took,
        printed: system.printed,
    };
    let pair = |pair: &runs::Pair| Pair {
        of: pair.of,
        to: pair.to,
        ratios: pair
            .ratios
            .iter()
            .map(|ratios| ratios.map(Result::ok))
            .collect(),
    };
    let systems = runs.systems.iter().map(system).collect();
    Comparison {
        kind: runs.kind.name(),
        names: &runs.names,
        base,
        systems,
        pairs: pairs.iter().map(pair).collect(),
    }
}
