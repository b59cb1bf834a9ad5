//! The options of `fathom walk`, for one process or for the ranks of an MPI job.

use std::sync::Arc;

use ::show::units::{count, duration, plural};
use catalog::{Options, ShardOfRun};
use walk::predicate::Predicates;
use walk::{EngineKind, Fields, ReachableMounts, Shard, Totals, WalkOptions, WalkedMount};

use super::output::{EmitReport, check, fields};
use super::show::{self, SCHEMA, Walk};
use crate::args::output::Format;
use crate::args::values::bytes;
use crate::cmd::walk::args::Walk as Args;
use crate::error::{Error, Outcome};
use crate::out::Out;

/// The options of a walk and its output.
pub(super) struct Request<'a> {
    pub(super) args: &'a Args,
    pub(super) options: WalkOptions,
    /// The exclusions, as recorded in a catalog.
    pub(super) selection: Options,
    pub(super) predicates: Predicates,
}

impl<'a> Request<'a> {
    pub(super) fn new(args: &'a Args, out: &Out) -> Result<Request<'a>, Error> {
        check_args(args, out)?;
        let selection = selection(args)?;
        Ok(Request {
            args,
            options: walk_options(args, &selection),
            selection,
            predicates: args.predicates.predicates()?,
        })
    }
}

impl Request<'_> {
    /// Finds mounts that do not answer. Must be called before the first thread starts, because this
    /// function forks.
    pub(super) fn find_silent_mounts(&mut self) -> Result<(), Error> {
        let deadline = self.args.deadline.get();
        let options = &mut self.options;
        let one_file_system = options.one_file_system;
        let around =
            ReachableMounts::find(&options.dirs, one_file_system, &options.filter, deadline)?;
        // In a comparison, each run reads the mount table itself, because that is a part of its
        // cost.
        let is_needed = !self.args.compare || !around.all_answer();
        options.around = is_needed.then(|| Arc::new(around));
        Ok(())
    }
}

/// Checks that the flags can be combined.
fn check_args(args: &Args, out: &Out) -> Result<(), Error> {
    check(args.format, &args.output, out)?;
    args.predicates.check_time(args.output.group_by)?;
    if args.exclusive && args.format != Format::Du {
        return Err(Error::new("--exclusive requires --format du").with_hint("add --format du"));
    }
    if args.shard.is_some() && args.dirs.len() > 1 {
        return Err(Error::new("--shard cannot be used with several DIRs")
            .with_hint("run fathom walk once per DIR"));
    }
    if args.shard.is_some() && matches!(args.format, Format::Du | Format::Ncdu) {
        return Err(Error::new(
            "--shard cannot be used with --format du or ncdu, which need the whole tree",
        )
        .with_hint("write parts with --catalog, and use fathom query on all of them"));
    }
    Ok(())
}

/// The exclusions. Like du(1), `--format du` counts entries at any depth, and `--max-depth` limits
/// only the printed directories.
fn selection(args: &Args) -> Result<Options, Error> {
    Ok(Options {
        max_depth: args.max_depth.filter(|_| args.format != Format::Du),
        one_file_system: args.one_file_system,
        shard: args.shard.map(|Shard { number, of }| ShardOfRun {
            number,
            of,
            run: run_name(args),
            by_ranks: false,
        }),
        ..args.excludes.read(&bytes(&args.dirs))?
    })
}

fn run_name(args: &Args) -> Option<String> {
    let from_slurm = || std::env::var("SLURM_ARRAY_JOB_ID").ok();
    args.run.clone().or_else(from_slurm)
}

fn walk_options(args: &Args, selection: &Options) -> WalkOptions {
    WalkOptions {
        dirs: bytes(&args.dirs),
        // With `--resume`, use `threads`: any other engine reads the whole file system for each
        // piece.
        engine: match args.resume && args.shard.is_none() {
            true => Some(EngineKind::Threads),
            false => args.engine,
        },
        threads: args.jobs,
        one_file_system: args.one_file_system,
        filter: selection.filter(),
        sink_syncs_first: args.catalog.is_some(),
        ..WalkOptions::default()
    }
}

/// The fields of an entry that output and predicates need.
pub(super) fn needed_fields(args: &Args) -> Result<Fields, Error> {
    match args.catalog {
        Some(_) => Ok(Fields::all()),
        None => Ok(fields(args.format, &args.output) | args.predicates.predicates()?.fields()),
    }
}

/// Prints the chosen engines, and the reasons.
pub(super) fn explain(options: &WalkOptions, needed: Fields, out: &Out) -> Outcome {
    let explained = walk::explain(&options.dirs, options.sink_syncs_first, needed)?;
    let parts: Vec<WalkedMount> = explained.iter().map(walk::ExplainedPlan::part).collect();
    let result = Walk {
        parts: &parts,
        explain: Some(&explained),
        ..Walk::default()
    };
    let print_text = || out.data(show::explain_text(&explained, out.table_style()));
    out.report(SCHEMA, result, &[], print_text)
}

/// Prints a note with the engines, their rate, and the reasons for their choice. `is_all` is whether
/// the predicates select every entry: otherwise, the totals lack examined entries, and give no rate.
pub(super) fn print_note(totals: &Totals, is_all: bool, walked: &EmitReport, out: &Out) {
    let seconds = walked.seconds;
    let calls = gate::meter::tally().calls();
    let entries = plural(totals.entries, "entry", "entries");
    let calls = plural(calls, "call", "calls");
    let mut took = format!("{} and {calls}", duration(seconds));
    if is_all {
        let rate = totals.entries as f64 / seconds;
        took += &format!(" ({} entries/s)", count(rate as u64));
    }
    match &walked.parts[..] {
        [one] => {
            let (engine, reason) = (one.engine.name(), out.reason(&one.reason));
            out.note(format_args!("{entries} with {engine} in {took}{reason}"));
        }
        [] => out.note(format_args!("{entries} in parts that are finished: {took}")),
        parts => {
            out.note(format_args!(
                "{entries} on {} mounts in {took}",
                parts.len()
            ));
            out.note_table(|style| show::parts_text(parts, out.verbose, style));
        }
    }
}
