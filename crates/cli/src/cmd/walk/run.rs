//! `fathom walk`: lists directories, or counts what is in them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use ::show::units::{count, duration, plural};
use archive::catalog::{Catalog, Options};
use mounts::{Warning, WarningReason};
use walk::predicate::Predicates;
use walk::predicate::select::{Selected, is_empty_directory};
use walk::{
    Both, Diagnostics, Filter, Largest, Part, Sink, Summary, Totals, UsageOrder, UsageSink,
    WalkOptions,
};

use super::compare;
use super::lines::Form;
use super::show::{self, SCHEMA, Walk};
use super::sinks::{Output, Watched};
use crate::args::values::bytes;
use crate::cmd::walk::args::{Sort, Walk as Args, WalkFormat as Format};
use crate::error::{Error, Outcome};
use crate::out::Out;
use crate::progress::watch_walk;

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
            "--json and --top cannot be used with --format paths, paths0, ndjson or csv",
        )
        .and("use --format summary or --format du"));
    }
    if args.sort.is_some() && args.format != Format::Du {
        return Err(Error::new("--sort requires --format du").and("add --format du"));
    }
    let options = walk_options(args)?;
    if args.explain {
        return explain(&options, out);
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
    match form {
        Some(form) => request.lines(form, out),
        None if args.format == Format::Du => request.usage(out),
        None => request.summary(out),
    }
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
        max_depth: args.max_depth.filter(|_| args.format != Format::Du),
        one_file_system: args.one_file_system,
    }
}

fn walk_options(args: &Args) -> Result<WalkOptions, Error> {
    Ok(WalkOptions {
        dirs: bytes(&args.dirs),
        engine: args.engine,
        threads: args.jobs,
        one_file_system: args.one_file_system,
        filter: Filter::new(&args.exclude, selection(args).max_depth)?,
        sink_syncs_first: args.catalog.is_some(),
        ..WalkOptions::default()
    })
}

/// The result of a walk, apart from the entries.
struct Walked {
    /// The mounts, by their engines.
    parts: Vec<Part>,
    warnings: Vec<Warning>,
    seconds: f64,
}

impl Request<'_> {
    /// Walks into a sink, and into a catalog if there is to be one. The catalog gets all entries, the
    /// sink those that the predicates select.
    fn walk_into(&self, sink: &dyn Sink, progress: bool) -> Result<Walked, Error> {
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
        let all = if progress { &with_paths } else { all };
        let start = Instant::now();
        let report = watch_walk(progress, &diagnostics, || {
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
        Ok(Walked {
            parts: report.parts,
            warnings,
            seconds: start.elapsed().as_secs_f64(),
        })
    }
}

fn create_catalog(file: &OsStr, args: &Args, options: &WalkOptions) -> Result<Catalog, Error> {
    let [dir] = &options.dirs[..] else {
        return Err(Error::new("--catalog cannot be used with several DIRs")
            .and("run fathom walk once per DIR"));
    };
    Ok(Catalog::create(file.as_bytes(), dir, selection(args))?)
}

impl Request<'_> {
    /// `--format paths`, `paths0`, `ndjson`, `csv`
    fn lines(&self, form: Form, out: &Out) -> Outcome {
        let output = Output::new(form, out);
        // On one terminal, progress line and names would overwrite each other.
        let progress = out.progress && !out.on_terminal();
        let walked = self.walk_into(&output, progress)?;
        output.end()?;
        out.warn(&walked.warnings);
        Ok(walked.warnings.len())
    }

    /// `--format summary`
    fn summary(&self, out: &Out) -> Outcome {
        let totals = Summary::default();
        let largest = self.args.top.map(Largest::new);
        let walked = match &largest {
            Some(largest) => self.walk_into(&Both(&totals, largest), out.progress),
            None => self.walk_into(&totals, out.progress),
        }?;
        let (totals, seconds) = (totals.totals(), walked.seconds);
        let top = largest.map(Largest::into_files);
        let result = Walk {
            totals: Some((&totals, seconds)),
            parts: &walked.parts,
            top: top.as_deref(),
            ..Walk::default()
        };
        out.report(SCHEMA, result, &walked.warnings, || {
            let mut text = show::totals_text(&totals, seconds, &walked.parts);
            if let Some(top) = &top {
                text.push('\n');
                text.push_str(&show::top_text(top, out.table_style()));
            }
            out.data(text)?;
            print_note(&totals, &walked, out);
            Ok(())
        })
    }

    /// `--format du`
    fn usage(&self, out: &Out) -> Outcome {
        let totals = Summary::default();
        let usage = UsageSink::new(&self.options.dirs);
        let mut walked = match out.json {
            true => self.walk_into(&Both(&totals, &usage), out.progress),
            false => self.walk_into(&usage, out.progress),
        }?;
        let usage = usage.finish();
        if usage.collisions > 0 {
            let kind = WarningKind::Collisions(usage.collisions);
            walked.warnings.push(Warning::general(kind));
        }
        let order = usage_order(self.args);
        let directories = usage.directories(self.args.max_depth, order, self.args.top);
        // With predicates, most directories may have nothing that is selected.
        let is_all = self.predicates.is_all();
        let directories = directories.filter(|it| is_all || it.sums.inodes > 0);
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
            let style = out.table_style();
            let mut written = Ok(());
            show::usage_table(directories).write(style.width, style.color, &mut |piece| {
                if written.is_ok() {
                    written = out.data(piece);
                }
            });
            written?;
        }
        out.warn(&walked.warnings);
        Ok(walked.warnings.len())
    }
}

/// The order of `--format du`. The largest directories are those that allocate most, unless `--sort`
/// names another size.
fn usage_order(args: &Args) -> UsageOrder {
    match args.sort {
        None if args.top.is_some() => UsageOrder::Allocated,
        None => UsageOrder::ChildrenFirst,
        Some(Sort::Name) => UsageOrder::Path,
        Some(Sort::Bytes) => UsageOrder::Bytes,
        Some(Sort::Allocated) => UsageOrder::Allocated,
        Some(Sort::Count) => UsageOrder::Inodes,
    }
}

#[derive(Debug, thiserror::Error)]
enum WarningKind {
    #[error("{0} directories are counted as part of others (hash collision)")]
    Collisions(u64),
}

impl WarningReason for WarningKind {}

fn explain(options: &WalkOptions, out: &Out) -> Outcome {
    let explained = walk::explain(&options.dirs, options.sink_syncs_first)?;
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
fn print_note(totals: &Totals, walked: &Walked, out: &Out) {
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
