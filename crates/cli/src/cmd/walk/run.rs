//! `fathom walk`: everything under some directories, found by the engine that costs least there.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use archive::catalog::{Catalog, Options};
use mounts::Warning;
use report::entries::Form;
use report::walk::{Part, Possible, Totals, Walk};
use show::name::printable;
use show::units::plural;
use walk::{Both, Diagnostics, EngineKind, Explained, Filter, Sink, Summary, WalkOptions};

use super::compare;
use super::sinks::{Largest, Output, Usage, Watched};
use crate::cmd::walk::args::{Engine, Walk as Args, WalkFormat as Format};
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
    let question = question(args)?;
    if args.explain {
        return explain(&question, out);
    }
    if args.compare {
        return compare::run(&question, usize::from(args.trials), out);
    }
    match form {
        Some(form) => lines(args, &question, form, out),
        None if args.format == Format::Du => usage(args, &question, out),
        None => summary(args, &question, out),
    }
}

fn question(args: &Args) -> Result<WalkOptions, Error> {
    // As du has it: all is counted, and only what is less deep is printed.
    let max_depth = args.max_depth.filter(|_| args.format != Format::Du);
    let filter = Filter::new(&args.exclude, max_depth)?;
    Ok(WalkOptions {
        dirs: args
            .dirs
            .iter()
            .map(|dir| dir.as_bytes().to_vec())
            .collect(),
        engine: by(args.engine),
        threads: args.jobs.map(usize::from),
        one_file_system: args.one_file_system,
        filter,
        is_written: args.catalog.is_some(),
        ..WalkOptions::default()
    })
}

pub(crate) fn by(engine: Engine) -> Option<EngineKind> {
    match engine {
        Engine::Auto => None,
        Engine::Threads => Some(EngineKind::Threads),
        Engine::Bulkstat => Some(EngineKind::Bulkstat),
        Engine::Btrfs => Some(EngineKind::Btrfs),
        Engine::Ext4 => Some(EngineKind::Ext4),
        Engine::Stat => Some(EngineKind::Stat),
    }
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
    question: &WalkOptions,
    sink: &dyn Sink,
    progress: bool,
) -> Result<Walked, Error> {
    let desk = Diagnostics::default();
    let catalog = args
        .catalog
        .as_ref()
        .map(|file| catalog(file, args, question))
        .transpose()?;
    let both = catalog.as_ref().map(|catalog| Both(sink, catalog));
    let whole: &dyn Sink = both.as_ref().map_or(sink, |both| both);
    let in_sight = Watched(whole);
    let whole = if progress { &in_sight } else { whole };
    let start = Instant::now();
    let answer = watch_walk(progress, &desk, || walk::walk(question, whole, &desk))?;
    let warnings = desk.take_warnings();
    // Where nobody takes the output any more, the walk was not finished, and what is in the catalog
    // is not the tree.
    if let Some(catalog) = catalog.filter(|_| !sink.is_closed()) {
        catalog.finish(&answer, warnings.is_empty())?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let part = |part: walk::Part| Part {
        path: part.path,
        fstype: part.fstype,
        engine: part.engine.name(),
        why: part.reason.to_string(),
    };
    Ok(Walked {
        parts: answer.parts.into_iter().map(part).collect(),
        warnings,
        seconds,
    })
}

/// `--catalog`
fn catalog(file: &OsStr, args: &Args, question: &WalkOptions) -> Result<Catalog, Error> {
    let [dir] = &question.dirs[..] else {
        return Err(Error::new(
            "--catalog is of one DIR; give each a catalog of its own".to_owned(),
        ));
    };
    let options = Options {
        excludes: args.exclude.clone(),
        max_depth: args.max_depth.filter(|_| args.format != Format::Du),
        one_file_system: args.one_file_system,
    };
    Ok(Catalog::create(file.as_bytes(), dir, options)?)
}

/// `--format paths`, `paths0`, `ndjson`, `csv`
fn lines(args: &Args, question: &WalkOptions, form: Form, out: &Out) -> Outcome {
    let output = Output::new(form, out);
    // On one terminal, the line that says how far we are and the names would overwrite each other.
    let walked = go(args, question, &output, out.progress && !out.on_terminal())?;
    output.end()?;
    out.warn(&walked.warnings);
    Ok(walked.warnings.len())
}

/// `--format summary`
fn summary(args: &Args, question: &WalkOptions, out: &Out) -> Outcome {
    let totals = Summary::default();
    let largest = args.top.map(|n| Largest::new(n as usize));
    let walked = match &largest {
        Some(largest) => go(args, question, &Both(&totals, largest), out.progress),
        None => go(args, question, &totals, out.progress),
    }?;
    let totals = shown(&totals.totals(), walked.seconds);
    let top = largest.map(Largest::files);
    if out.json {
        let result = Walk {
            totals: Some(totals),
            parts: &walked.parts,
            top: top.as_deref(),
            ..Walk::default()
        };
        out.envelope(SCHEMA, result, &walked.warnings)?;
    } else {
        let mut text = report::walk::totals_text(&totals, &walked.parts);
        if let Some(top) = &top {
            text.push('\n');
            text.push_str(&report::walk::top_text(top, out.table_style()));
        }
        out.data(text.as_bytes())?;
        tell(&totals, &walked.parts, out);
    }
    out.warn(&walked.warnings);
    Ok(walked.warnings.len())
}

/// `--format du`
fn usage(args: &Args, question: &WalkOptions, out: &Out) -> Outcome {
    let totals = Summary::default();
    let usage = Usage::new(&question.dirs);
    let mut walked = match out.json {
        true => go(args, question, &Both(&totals, &usage), out.progress),
        false => go(args, question, &usage, out.progress),
    }?;
    let usage = usage.finish();
    if usage.confused > 0 {
        let n = usage.confused;
        walked.warnings.push(Warning::general(format!(
            "{n} directories are added to others, whose names have one hash"
        )));
    }
    let lines = usage.lines(args.max_depth, args.top.map(|n| n as usize));
    if out.json {
        let totals = shown(&totals.totals(), walked.seconds);
        let lines: Vec<_> = lines.collect();
        let result = Walk {
            totals: Some(totals),
            parts: &walked.parts,
            du: Some(&lines),
            ..Walk::default()
        };
        out.envelope(SCHEMA, result, &walked.warnings)?;
    } else {
        const PIECE: usize = 64 << 10;
        let mut text = String::new();
        for line in lines {
            text.push_str(&line.to_text());
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

/// The mount of each directory with its engine, and what is possible there.
pub(super) fn plans(explained: Vec<Explained>) -> (Vec<Part>, Vec<Possible>) {
    let (mut parts, mut engines) = (Vec::new(), Vec::new());
    for Explained { path, fstype, plan } in explained {
        for (by, possible) in plan.engines {
            let why = match &possible {
                Err(refusal) => refusal.to_string(),
                Ok(()) if by == plan.engine => plan.reason.to_string(),
                Ok(()) => "it can work here".to_owned(),
            };
            engines.push(Possible {
                path: path.clone(),
                engine: by.name(),
                possible: possible.is_ok(),
                why,
            });
        }
        parts.push(Part {
            path,
            fstype,
            engine: plan.engine.name(),
            why: plan.reason.to_string(),
        });
    }
    (parts, engines)
}

/// `--explain`
fn explain(question: &WalkOptions, out: &Out) -> Outcome {
    let (parts, engines) = plans(walk::explain(&question.dirs, question.is_written)?);
    if out.json {
        out.envelope(
            SCHEMA,
            Walk {
                parts: &parts,
                explain: Some(&engines),
                ..Walk::default()
            },
            &[],
        )?;
    } else {
        out.data(report::walk::explain_text(&engines, &parts, out.table_style()).as_bytes())?;
    }
    Ok(0)
}

pub(super) fn shown(totals: &walk::Totals, seconds: f64) -> Totals {
    let walk::Totals {
        entries,
        files,
        directories,
        symlinks,
        other,
        bytes,
        blocks,
        max_depth,
        digest,
    } = *totals;
    let digest = digest.to_string();
    Totals {
        entries,
        files,
        directories,
        symlinks,
        other,
        bytes,
        blocks,
        max_depth,
        digest,
        seconds,
    }
}

/// Says what was done: by which engines, how fast, and why by them.
fn tell(totals: &Totals, parts: &[Part], out: &Out) {
    let Totals {
        entries, seconds, ..
    } = totals;
    let rate = *entries as f64 / seconds;
    let calls = gate::meter::tally().calls();
    let entries = plural(*entries, "entry", "entries");
    let took = format!("in {seconds:.3} s and {calls} calls ({rate:.0}/s)");
    match parts {
        [one] => out.note(format_args!(
            "{entries} by {} {took}: {}",
            one.engine,
            printable(one.why.as_bytes())
        )),
        _ => {
            out.note(format_args!("{entries} in {} mounts {took}:", parts.len()));
            out.note_table(|look| report::walk::parts_text(parts, look));
        }
    }
}
