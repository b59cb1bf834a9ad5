//! `fathom changed`: compares a directory with a catalog.

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Instant;

use catalog::Reader;
use catalog::changed::{ChangedOptions, changed};
use walk::entry::joined;
use walk::predicate::Predicates;
use walk::predicate::select::is_empty_directory;
use walk::{KeptPath, ReachableMounts};

use super::args::Changed as Args;
use super::show;
use crate::args::output::Format;
use crate::error::{Error, Outcome};
use crate::out::Out;
use crate::progress::watch_walk;

const SCHEMA: &str = "fathom.changed/1";

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    if out.json && args.format != Format::Table {
        return Err(Error::new("--json cannot be used with --format")
            .with_hint("use --format ndjson for one JSON object per line"));
    }
    args.predicates.check_time(None)?;
    args.mode.apply();
    args.load.apply(1);
    let start = Instant::now();
    let since = args.since.as_bytes();
    let reader = Reader::open(since)?;
    let selection = &reader.about().options;
    if args.one_file_system && !selection.one_file_system {
        const WHY: &str = "it was written without -x";
        const NEXT: &str = "omit -x, or write a new catalog with fathom walk -x --catalog";
        return Err(Error::read("cannot use catalog", since, WHY, NEXT));
    }
    let predicates = Predicates {
        max_depth: args.max_depth,
        ..args.predicates.predicates()?
    };
    let dir = args.dir.as_bytes().to_vec();
    let excludes = args.globs.read(std::slice::from_ref(&dir))?;
    args.globs.note_unmatched(std::slice::from_ref(&dir), out);
    let mut options = ChangedOptions {
        dir,
        around: None,
        since: since.to_vec(),
        by: args.engine,
        threads: args.jobs,
        update: args.update,
        predicates,
        excludes,
        metadata: out.json || out.verbose || args.format == Format::Ndjson,
    };
    // Find the mounts before the first thread starts, because this forks child processes, which
    // access the mounts.
    let around = ReachableMounts::find(
        std::slice::from_ref(&options.dir),
        selection.one_file_system,
        &options.filter(selection),
        args.deadline.get(),
    )?;
    options.around = Some(Arc::new(around));
    let diagnostics = walk::Diagnostics::default();
    let mut report = watch_walk(out.messages(), &diagnostics, || {
        changed(&options, reader, &diagnostics)
    })?;
    let directories = show::restic_directories(args.format, &report.changes);
    let dirs = [options.dir.clone()];
    let (has_none, changes) = (is_empty_directory(&dirs, &diagnostics), &report.changes);
    let is_empty = |path: &KeptPath| has_none(&joined(&options.dir, &changes.path(*path)), None);
    let empty: HashSet<KeptPath> = directories.into_iter().filter(is_empty).collect();
    report.warnings.extend(diagnostics.take_warnings());
    let update = report.update.take();
    let output = show::Output {
        report: &report,
        seconds: start.elapsed().as_secs_f64(),
    };
    if out.json {
        out.envelope(SCHEMA, &output, &report.warnings)?;
    } else {
        out.names(|to| show::write(args.format, &report.changes, &empty, out.verbose, to))?;
        out.note(output.summary() + &out.reason(&report.reason));
        show::notes(args.format, &report.changes)
            .iter()
            .for_each(|note| out.note(note));
    }
    // Replace the catalog only after the output is written, so that a failed run can be repeated.
    update.map(|sealed| sealed.publish()).transpose()?;
    Ok(out.warn(&report.warnings))
}
