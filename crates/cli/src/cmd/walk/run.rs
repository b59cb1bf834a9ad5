//! `fathom walk`: lists directories, or counts what is in them.
//!
//! The ranks of an MPI job walk together, and rank 0 reports for all of them. All ranks take the
//! same steps in the same order. If a step fails on one rank, all ranks end with the error of that
//! rank.

use std::path::Path;
use std::time::Instant;

use ::show::name::printable;
use catalog::query::DataSet;
use catalog::{Catalog, SealedCatalog};
use team::{SingleProcess, Team, launched_size};
use walk::predicate::Predicates;
use walk::predicate::select::{SelectionSink, is_empty_directory};
use walk::{Diagnostics, EngineKind, Shard, Sink, SinkPair, Totals, WalkOptions, walk_together};

use super::compare;
use super::output::{EmitReport, OutputRequest, Source};
use super::parts::Parts;
use super::request::{Request, explain, needed_fields, print_note};
use super::show::SCHEMA;
use super::sinks::ProgressSink;
use crate::args::output::Format;
use crate::args::values::bytes;
use crate::cmd::walk::args::Walk as Args;
use crate::error::{Error, Outcome};
use crate::out::{Messages, Out};
use crate::progress::watch_walk;
use crate::ranks::{self, agree, reported_by_first, start_together};

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let request = prepare(args, out);
    let team: Box<dyn Team> = match args.shard {
        Some(_) => Box::new(SingleProcess::NoJob), // each process has a shard of its own
        None => ranks::join(out, "each process walks alone")?,
    };
    args.mode.apply();
    args.load.apply(team.size());
    reported_by_first(&*team, walk(args, request, &*team, out))
}

/// Prepares the walk. Must be called before the first thread starts, because the search for silent
/// mounts forks.
fn prepare<'a>(args: &'a Args, out: &Out) -> Result<Request<'a>, Error> {
    match args.shard.is_none() && ranks::is_job() {
        true if ranks::are_several() => check_for_ranks(args)?,
        true => {}
        false => args.load.apply(1),
    }
    let mut request = Request::new(args, out)?;
    request.find_silent_mounts()?;
    Ok(request)
}

fn walk(args: &Args, request: Result<Request<'_>, Error>, team: &dyn Team, out: &Out) -> Outcome {
    start_together("walks", &args.dirs, args, team)?;
    let checked = match team.is_alone() {
        true => Ok(()),
        false => check_for_ranks(args),
    };
    let request = agree(team, checked.and(request))?;
    if !team.is_job() && args.shard.is_none() {
        let given = [(args.resume, "--resume"), (args.run.is_some(), "--run")];
        if let Some((_, option)) = given.iter().find(|(is_given, _)| *is_given) {
            let message = format!("{option} requires --shard or mpirun");
            return Err(Error::new(message).with_hint("add --shard I/N"));
        }
    }
    if team.rank() == 0 {
        args.excludes.globs.note_unmatched(&bytes(&args.dirs), out);
        let extension = args
            .catalog
            .as_ref()
            .map(|catalog| Path::new(catalog).extension());
        let extension = extension.flatten().and_then(|extension| extension.to_str());
        if let Some(format @ ("csv" | "json" | "ndjson")) = extension {
            out.note(format_args!(
                "the catalog is a Parquet file, whatever its name: for {format}, use --format"
            ));
        }
    }
    if args.explain {
        if team.rank() > 0 {
            return Ok(0);
        }
        let explained = explain(&request.options, needed_fields(args)?, out)?;
        if !team.is_alone() {
            out.note(
                "the ranks share the directories with threads; any other engine is run by one rank",
            );
        }
        return Ok(explained);
    }
    if args.compare {
        // Each engine runs in a forked process, but MPI has started threads in this one.
        if team.is_job() && launched_size() != Some(1) {
            return Err(Error::new("--compare cannot be used after MPI has started")
                .with_hint("run it with env -u PMIX_RANK -u PMI_RANK"));
        }
        return compare::run(&request.options, args.trials, out);
    }
    let view = OutputRequest {
        format: args.format,
        args: &args.output,
        schema: SCHEMA,
        time: args.predicates.time_field(),
        max_depth: args.max_depth,
        is_exclusive: args.exclusive,
        is_all: request.predicates.is_all(),
        team,
    };
    view.print(&FileSystem { request, team }, out)
}

/// Directories as a source of entries; all ranks walk them together.
struct FileSystem<'a> {
    request: Request<'a>,
    team: &'a dyn Team,
}

impl Source for FileSystem<'_> {
    /// Walks into a sink, and into the catalog if requested. The catalog gets all entries, the sink
    /// only those that the predicates select.
    fn emit(&self, sink: &dyn Sink, wanted: Messages) -> Result<EmitReport, Error> {
        let start = Instant::now();
        let parts = Parts::prepare(&self.request, self.team)?;
        let diagnostics = Diagnostics::default();
        let wanted = Messages {
            progress: wanted.progress && self.team.rank() == 0,
            ..wanted
        };
        let pieces = Pieces {
            request: &self.request,
            parts: parts.as_ref(),
            sink,
            diagnostics: &diagnostics,
            is_watched: wanted.progress,
            team: self.team,
        };
        let mut emitted = watch_walk(wanted, &diagnostics, || pieces.walk())?;
        let is_resumed = self.request.args.resume && self.team.is_job();
        emitted.kept = parts.filter(|_| is_resumed).map(|parts| parts.kept());
        emitted.seconds = start.elapsed().as_secs_f64();
        Ok(emitted)
    }

    fn roots(&self) -> &[Vec<u8>] {
        &self.request.options.dirs
    }

    fn note(&self, totals: &Totals, emitted: &EmitReport, out: &Out) {
        print_note(totals, self.request.predicates.is_all(), emitted, out);
    }

    fn note_sums(&self, out: &Out) {
        let options = &self.request.options;
        if let Some(around) = options.around.as_ref().filter(|_| options.one_file_system) {
            let others = around.not_entered(&options.dirs, &options.filter);
            if let Some(named) = several(&others) {
                out.note(format_args!(
                    "-x: other file systems were not entered: {named}"
                ));
            }
        }
    }
}

/// The first of several paths, and the number of the others.
fn several(paths: &[Vec<u8>]) -> Option<String> {
    const NAMED: usize = 3;
    let named: Vec<_> = paths
        .iter()
        .take(NAMED)
        .map(|path| printable(path))
        .collect();
    let others = paths.len() - named.len();
    let named = named.join(", ");
    match others {
        _ if named.is_empty() => None,
        0 => Some(named),
        1 => Some(format!("{named} and 1 other")),
        others => Some(format!("{named} and {others} others")),
    }
}

/// A walk in one piece, or in several for `--resume`.
struct Pieces<'a> {
    request: &'a Request<'a>,
    parts: Option<&'a Parts>,
    /// The receiver of the selected entries.
    sink: &'a dyn Sink,
    diagnostics: &'a Diagnostics,
    /// Whether a progress line is shown, for which paths are needed.
    is_watched: bool,
    team: &'a dyn Team,
}

impl Pieces<'_> {
    fn walk(&self) -> Result<EmitReport, Error> {
        let mut emitted = EmitReport::default();
        let options = &self.request.options;
        let Some(parts) = self.parts else {
            self.walk_piece(options, None, &mut emitted)?;
            return Ok(emitted);
        };
        for (piece, is_kept) in (0..).zip(&parts.is_kept) {
            let selection = parts.selection(piece);
            if *is_kept {
                let read = DataSet::open(&[parts.file(&selection)])
                    .and_then(|part| part.emit(&Predicates::default(), self.sink));
                agree(self.team, read)?;
                continue;
            }
            let of = parts.is_kept.len() as u32;
            let filter = match of {
                1 => options.filter.clone(),
                of => selection
                    .filter()
                    .with_shard(Some(Shard { number: piece, of })),
            };
            let options = WalkOptions {
                filter,
                ..options.clone()
            };
            let catalog = agree(self.team, parts.create(selection))?;
            self.walk_piece(&options, Some(catalog), &mut emitted)?;
        }
        Ok(emitted)
    }

    /// Walks one piece, and publishes the parts of all ranks.
    fn walk_piece(
        &self,
        options: &WalkOptions,
        catalog: Option<Catalog>,
        emitted: &mut EmitReport,
    ) -> Result<(), Error> {
        let &Pieces {
            sink,
            diagnostics,
            team,
            ..
        } = self;
        let predicates = &self.request.predicates;
        let selected = SelectionSink::new(predicates, sink);
        let chosen: &dyn Sink = match predicates.is_all() {
            true => sink,
            false => &selected,
        };
        let both = catalog.as_ref().map(|catalog| SinkPair(chosen, catalog));
        let all: &dyn Sink = both.as_ref().map_or(chosen, |both| both);
        let with_paths = SinkPair(all, &ProgressSink);
        let all = if self.is_watched { &with_paths } else { all };
        let walked = walk_together(options, all, diagnostics, team);
        // If the catalog failed, sealing it below reports the error.
        let walked = match catalog.as_ref().is_some_and(Sink::is_closed) {
            true => Ok(walked.unwrap_or_default()),
            false => walked,
        };
        let report = agree(team, walked)?;
        selected.finish(is_empty_directory(&options.dirs, diagnostics));
        let warnings = diagnostics.take_warnings();
        // If the output was closed, the walk stopped early, and the catalog is incomplete: drop it.
        let catalog = catalog.filter(|_| !sink.is_closed());
        let sealed = catalog.map(|catalog| catalog.seal(&report, warnings.is_empty()));
        let sealed = agree(team, sealed.transpose())?;
        // Rename the parts only after the parts of all ranks are written.
        let published = sealed.map(SealedCatalog::publish).transpose();
        agree(team, published)?;
        for part in report.parts {
            if !emitted.parts.iter().any(|known| known.path == part.path) {
                emitted.parts.push(part);
            }
        }
        emitted.warnings.extend(warnings);
        Ok(())
    }
}

/// Refuses options that several ranks of an MPI job do not support.
fn check_for_ranks(args: &Args) -> Result<(), Error> {
    args.excludes.globs.check_for_ranks()?;
    let output = &args.output;
    let is_threads = args
        .engine
        .is_none_or(|engine| engine == EngineKind::Threads);
    if args.resume && !is_threads {
        return Err(Error::new("--resume cannot be used with this --engine")
            .with_hint("omit --engine: it would read the whole file system for each slice"));
    }
    let option = match () {
        () if args.compare => "--compare",
        () if args.format != Format::Summary => "this --format",
        () if output.group_by.is_some() => "--group-by",
        () if output.top.is_some() => "--top",
        () => return Ok(()),
    };
    let message = format!("{option} cannot be used by the ranks of an MPI job");
    let hint = "write parts with --catalog, and use fathom query on all of them";
    Err(Error::new(message).with_hint(hint))
}
