//! `fathom walk`: everything under some directories, found by the engine that costs least there.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use ::show::name::printable;
use ::show::units::plural;
use archive::catalog::{Catalog, Options};
use mounts::{Warning, WarningReason};
use walk::{
    Both, Diagnostics, Filter, Largest, Part, Sink, Summary, Totals, UsageSink, WalkOptions,
};

use super::compare;
use super::lines::Form;
use super::show::{self, Walk};
use super::sinks::{Output, Watched};
use crate::cmd::walk::args::{Walk as Args, WalkFormat as Format};
use crate::error::{Error, Outcome};
use crate::out::Out;
use crate::progress::watch_walk;

pub(super) const SCHEMA: &str = "fathom.walk/1";

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let form = match args.format {
        Format::Paths => Some(Form::Paths),
        Format::Paths0 => Some(Form::Paths0),
        Format::Ndjson => Some(Form::Ndjson),
        Format::Csv => Some(Form::Csv),
        Format::Summary | Format::Du => None,
    };
    if form.is_some() && (out.json || args.top.is_some()) {
        return Err(Error::new(
            "--json and --top say nothing to --format paths, paths0, ndjson and csv".to_owned(),
        ));
    }
    let options = walk_options(args)?;
    if args.explain {
        return explain(&options, out);
    }
    if args.compare {
        return compare::run(&options, args.trials, out);
    }
    match form {
        Some(form) => lines(args, &options, form, out),
        None if args.format == Format::Du => usage(args, &options, out),
        None => summary(args, &options, out),
    }
}

fn walk_options(args: &Args) -> Result<WalkOptions, Error> {
    // As du has it: all is counted, and only what is less deep is printed.
    let max_depth = args.max_depth.filter(|_| args.format != Format::Du);
    let filter = Filter::new(&args.exclude, max_depth)?;
    Ok(WalkOptions {
        dirs: args
            .dirs
            .iter()
            .map(|dir| dir.as_bytes().to_vec())
            .collect(),
        engine: args.engine.kind(),
        threads: args.jobs,
        one_file_system: args.one_file_system,
        filter,
        is_written: args.catalog.is_some(),
        ..WalkOptions::default()
    })
}

/// What a walk found, beside what went to the sink.
struct Walked {
    /// The mounts, by their engines.
    parts: Vec<Part>,
    warnings: Vec<Warning>,
    seconds: f64,
}

fn go(
    args: &Args,
    options: &WalkOptions,
    sink: &dyn Sink,
    progress: bool,
) -> Result<Walked, Error> {
    let diagnostics = Diagnostics::default();
    let catalog = args
        .catalog
        .as_ref()
        .map(|file| catalog(file, args, options))
        .transpose()?;
    let both = catalog.as_ref().map(|catalog| Both(sink, catalog));
    let whole: &dyn Sink = both.as_ref().map_or(sink, |both| both);
    let in_sight = Watched(whole);
    let whole = if progress { &in_sight } else { whole };
    let start = Instant::now();
    let report = watch_walk(progress, &diagnostics, || {
        walk::walk(options, whole, &diagnostics)
    })?;
    let warnings = diagnostics.take_warnings();
    // Where nobody takes the output any more, the walk was not finished, and what is in the catalog
    // is not the tree.
    if let Some(catalog) = catalog.filter(|_| !sink.is_closed()) {
        catalog.finish(&report, warnings.is_empty())?;
    }
    let seconds = start.elapsed().as_secs_f64();
    Ok(Walked {
        parts: report.parts,
        warnings,
        seconds,
    })
}

/// `--catalog`
fn catalog(file: &OsStr, args: &Args, options: &WalkOptions) -> Result<Catalog, Error> {
    let [dir] = &options.dirs[..] else {
        return Err(Error::new(
            "--catalog is of one DIR; give each a catalog of its own".to_owned(),
        ));
    };
    let catalog_options = Options {
        excludes: args.exclude.clone(),
        max_depth: args.max_depth.filter(|_| args.format != Format::Du),
        one_file_system: args.one_file_system,
    };
    Ok(Catalog::create(file.as_bytes(), dir, catalog_options)?)
}

/// `--format paths`, `paths0`, `ndjson`, `csv`
fn lines(args: &Args, options: &WalkOptions, form: Form, out: &Out) -> Outcome {
    let output = Output::new(form, out);
    // On one terminal, the line that says how far we are and the names would overwrite each other.
    let walked = go(args, options, &output, out.progress && !out.on_terminal())?;
    output.end()?;
    out.warn(&walked.warnings);
    Ok(walked.warnings.len())
}

/// `--format summary`
fn summary(args: &Args, options: &WalkOptions, out: &Out) -> Outcome {
    let totals = Summary::default();
    let largest = args.top.map(Largest::new);
    let walked = match &largest {
        Some(largest) => go(args, options, &Both(&totals, largest), out.progress),
        None => go(args, options, &totals, out.progress),
    }?;
    let (totals, seconds) = (totals.totals(), walked.seconds);
    let top = largest.map(Largest::into_files);
    if out.json {
        let result = Walk {
            totals: Some((&totals, seconds)),
            parts: &walked.parts,
            top: top.as_deref(),
            ..Walk::default()
        };
        out.envelope(SCHEMA, result, &walked.warnings)?;
    } else {
        let mut text = show::totals_text(&totals, seconds, &walked.parts);
        if let Some(top) = &top {
            text.push('\n');
            text.push_str(&show::top_text(top, out.table_style()));
        }
        out.data(text.as_bytes())?;
        print_note(&totals, &walked, out);
    }
    out.warn(&walked.warnings);
    Ok(walked.warnings.len())
}

/// `--format du`
fn usage(args: &Args, options: &WalkOptions, out: &Out) -> Outcome {
    let totals = Summary::default();
    let usage = UsageSink::new(&options.dirs);
    let mut walked = match out.json {
        true => go(args, options, &Both(&totals, &usage), out.progress),
        false => go(args, options, &usage, out.progress),
    }?;
    let usage = usage.finish();
    if usage.collisions > 0 {
        let kind = WarningKind::Collisions(usage.collisions);
        walked.warnings.push(Warning::general(kind));
    }
    let directories = usage.directories(args.max_depth, args.top);
    if out.json {
        let totals = totals.totals();
        let directories: Vec<_> = directories.collect();
        let result = Walk {
            totals: Some((&totals, walked.seconds)),
            parts: &walked.parts,
            usage: Some(&directories),
            ..Walk::default()
        };
        out.envelope(SCHEMA, result, &walked.warnings)?;
    } else {
        const PIECE: usize = 64 << 10;
        let mut text = String::new();
        for directory in directories {
            text.push_str(&show::usage_line(&directory));
            if text.len() >= PIECE {
                out.data(text.as_bytes())?;
                text.clear();
            }
        }
        out.data(text.as_bytes())?;
    }
    out.warn(&walked.warnings);
    Ok(walked.warnings.len())
}

/// What `--format du` warns of.
#[derive(Debug, thiserror::Error)]
enum WarningKind {
    #[error("{0} directories are added to others, whose names have one hash")]
    Collisions(u64),
}

impl WarningReason for WarningKind {}

/// `--explain`
fn explain(options: &WalkOptions, out: &Out) -> Outcome {
    let explained = walk::explain(&options.dirs, options.is_written)?;
    if out.json {
        let parts: Vec<Part> = explained.iter().map(walk::Explained::part).collect();
        let result = Walk {
            parts: &parts,
            explain: Some(&explained),
            ..Walk::default()
        };
        out.envelope(SCHEMA, result, &[])?;
    } else {
        out.data(show::explain_text(&explained, out.table_style()).as_bytes())?;
    }
    Ok(0)
}

/// Notes what was done: by which engines, how fast, and why by them.
fn print_note(totals: &Totals, walked: &Walked, out: &Out) {
    let seconds = walked.seconds;
    let rate = totals.entries as f64 / seconds;
    let calls = gate::meter::tally().calls();
    let entries = plural(totals.entries, "entry", "entries");
    let took = format!("in {seconds:.3} s and {calls} calls ({rate:.0}/s)");
    match &walked.parts[..] {
        [one] => out.note(format_args!(
            "{entries} by {} {took}: {}",
            one.engine.name(),
            printable(one.reason.to_string().as_bytes())
        )),
        parts => {
            out.note(format_args!("{entries} in {} mounts {took}:", parts.len()));
            out.note_table(|style| show::parts_text(parts, style));
        }
    }
}
