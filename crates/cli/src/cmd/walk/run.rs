//! `fathom walk`: lists directories, or counts what is in them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use ::show::units::{count, duration, plural};
use archive::catalog::{Catalog, Options, ShardOfRun};
use mounts::Warning;
use walk::entry::joined;
use walk::predicate::Predicates;
use walk::predicate::select::{Selected, is_empty_directory};
use walk::{Both, Diagnostics, Fields, Part, Shard, Sink, Totals, WalkOptions};

use super::compare;
use super::output::{Emitted, Source, View, check, fields};
use super::show::{self, SCHEMA, Walk};
use super::sinks::Watched;
use crate::args::output::Format;
use crate::args::values::bytes;
use crate::cmd::walk::args::Walk as Args;
use crate::error::{Error, Outcome};
use crate::out::{Messages, Out, create_directories};
use crate::progress::watch_walk;

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    check(&args.output, out)?;
    if args.exclusive && args.output.format != Format::Du {
        return Err(Error::new("--exclusive requires --format du").and("add --format du"));
    }
    if args.shard.is_some() && args.dirs.len() > 1 {
        return Err(Error::new("--shard cannot be used with several DIRs")
            .and("run fathom walk once per DIR"));
    }
    if args.shard.is_some() && matches!(args.output.format, Format::Du | Format::Ncdu) {
        return Err(Error::new(
            "--shard cannot be used with --format du or ncdu, which need the whole tree",
        )
        .and("write parts with --catalog, and use fathom query on all of them"));
    }
    let options = walk_options(args)?;
    if args.explain {
        return explain(&options, needed_fields(args)?, out);
    }
    if args.compare {
        return compare::run(&options, args.trials, out);
    }
    let mut predicates = args.predicates.predicates()?;
    if !predicates.is_all() {
        // The walk goes no deeper; this is to find contradictions.
        predicates.max_depth = selection(args).max_depth;
    }
    let request = Request {
        args,
        options,
        predicates,
    };
    let view = View {
        args: &args.output,
        schema: SCHEMA,
        time: args.predicates.time_field(),
        max_depth: args.max_depth,
        is_exclusive: args.exclusive,
        is_all: request.predicates.is_all(),
    };
    view.print(&request, out)
}

/// What to walk, and what of it to print.
struct Request<'a> {
    args: &'a Args,
    options: WalkOptions,
    predicates: Predicates,
}

/// What to skip. `--format du` counts entries of any depth; `--max-depth` limits only what it prints,
/// as with du(1).
fn selection(args: &Args) -> Options {
    Options {
        excludes: args.exclude.clone(),
        max_depth: args.max_depth.filter(|_| args.output.format != Format::Du),
        one_file_system: args.one_file_system,
        shard: args.shard.map(|Shard { number, of }| ShardOfRun {
            number,
            of,
            run: run_name(args),
        }),
        ..Options::default()
    }
}

fn run_name(args: &Args) -> Option<String> {
    let from_slurm = || std::env::var("SLURM_ARRAY_JOB_ID").ok();
    args.run.clone().or_else(from_slurm)
}

fn walk_options(args: &Args) -> Result<WalkOptions, Error> {
    Ok(WalkOptions {
        dirs: bytes(&args.dirs),
        engine: args.engine,
        threads: args.jobs,
        one_file_system: args.one_file_system,
        filter: selection(args).filter(),
        sink_syncs_first: args.catalog.is_some(),
        ..WalkOptions::default()
    })
}

/// What is needed of each entry.
fn needed_fields(args: &Args) -> Result<Fields, Error> {
    match args.catalog {
        Some(_) => Ok(Fields::all()),
        None => Ok(fields(&args.output) | args.predicates.predicates()?.fields()),
    }
}

impl Source for Request<'_> {
    /// Walks into a sink, and into a catalog if there is to be one. The catalog gets all entries, the
    /// sink those that the predicates select.
    fn emit(&self, sink: &dyn Sink, wanted: Messages) -> Result<Emitted, Error> {
        let diagnostics = Diagnostics::default();
        let catalog = self.args.catalog.as_ref();
        let catalog = catalog.map(|file| create_catalog(file, self.args, &self.options));
        let catalog = catalog.transpose()?;
        let selected = Selected::new(&self.predicates, sink);
        let chosen: &dyn Sink = match self.predicates.is_all() {
            true => sink,
            false => &selected,
        };
        let both = catalog.as_ref().map(|catalog| Both(chosen, catalog));
        let all: &dyn Sink = both.as_ref().map_or(chosen, |both| both);
        let with_paths = Watched(all);
        let all = if wanted.progress { &with_paths } else { all };
        let start = Instant::now();
        let report = watch_walk(wanted, &diagnostics, || {
            walk::walk(&self.options, all, &diagnostics)
        })?;
        selected.finish(|path| is_empty_directory(path, &diagnostics));
        let mut warnings = diagnostics.take_warnings();
        // If the output is closed the walk has stopped early, and the catalog is not of the whole tree.
        if let Some(catalog) = catalog.filter(|_| !sink.is_closed()) {
            catalog.finish(&report, warnings.is_empty())?;
        }
        let contradiction = self.predicates.contradiction();
        warnings.extend(contradiction.map(Warning::general));
        Ok(Emitted {
            parts: report.parts,
            warnings,
            seconds: start.elapsed().as_secs_f64(),
        })
    }

    fn roots(&self) -> &[Vec<u8>] {
        &self.options.dirs
    }

    fn note(&self, totals: &Totals, emitted: &Emitted, out: &Out) {
        print_note(totals, emitted, out);
    }
}

fn create_catalog(file: &OsStr, args: &Args, options: &WalkOptions) -> Result<Catalog, Error> {
    let [dir] = &options.dirs[..] else {
        return Err(Error::new("--catalog cannot be used with several DIRs")
            .and("run fathom walk once per DIR"));
    };
    let selection = selection(args);
    let mut file = file.as_bytes().to_vec();
    if let Some(shard) = &selection.shard {
        create_directories(&file).map_err(|errno| {
            let next = "give a directory that you can write to";
            Error::write("cannot write the catalog to", &file, errno, next)
        })?;
        file = joined(&file, shard.file_name().as_bytes());
    }
    Ok(Catalog::create(&file, dir, selection)?)
}

fn explain(options: &WalkOptions, needed: Fields, out: &Out) -> Outcome {
    let explained = walk::explain(&options.dirs, options.sink_syncs_first, needed)?;
    let parts: Vec<Part> = explained.iter().map(walk::Explained::part).collect();
    let result = Walk {
        parts: &parts,
        explain: Some(&explained),
        ..Walk::default()
    };
    let print_text = || out.data(show::explain_text(&explained, out.table_style()));
    out.report(SCHEMA, result, &[], print_text)
}

/// Prints which engines walked, how fast, and why these.
fn print_note(totals: &Totals, walked: &Emitted, out: &Out) {
    let seconds = walked.seconds;
    let rate = totals.entries as f64 / seconds;
    let calls = gate::meter::tally().calls();
    let entries = plural(totals.entries, "entry", "entries");
    let (calls, rate) = (plural(calls, "call", "calls"), count(rate as u64));
    let took = format!("{} and {calls} ({rate} entries/s)", duration(seconds));
    match &walked.parts[..] {
        [one] => {
            let (engine, reason) = (one.engine.name(), out.reason(&one.reason));
            out.note(format_args!("{entries} with {engine} in {took}{reason}"));
        }
        parts => {
            out.note(format_args!(
                "{entries} on {} mounts in {took}",
                parts.len()
            ));
            out.note_table(|style| show::parts_text(parts, out.verbose, style));
        }
    }
}
