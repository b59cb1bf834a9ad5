//! `mpirun fathom walk`: one walk by all ranks of an MPI job. Rank 0 reports for all of them.
//!
//! All ranks take these steps in the same order. Where one fails, all end with its error.
//!
//! With `--resume`, the ranks walk one shard of the tree after the other, and name their parts of each. Which
//! rank finds an entry differs from walk to walk, but not in which shard it is: a shard of which all parts are
//! there is kept, and any other is walked again by all ranks.

use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use catalog::query::DataSet;
use catalog::remote::as_prefix;
use catalog::{Catalog, Options, Sealed, ShardOfRun, Writer, catalogs_in, remove_part};
use team::Team;
use walk::entry::joined;
use walk::predicate::Predicates;
use walk::predicate::select::{Selected, is_empty_directory};
use walk::{
    Both, Diagnostics, EngineKind, Shard, Sink, Summary, Totals, WalkOptions, walk_together,
};

use super::output::Emitted;
use super::request::{Request, explain, needed_fields, print_note};
use super::show::{self, RankEntries, SCHEMA, Walk};
use super::sinks::Watched;
use crate::args::output::Format;
use crate::cmd::walk::args::Walk as Args;
use crate::error::{Error, Outcome};
use crate::out::{Messages, Out};
use crate::progress::watch_walk;
use crate::ranks::resume::{Earlier, EarlierPart, PIECES};
use crate::ranks::{
    WRITING_CATALOG, agree, check_outside, create_dir, create_on_all, create_output, of_first,
    own_error, part_of_run, reported_by_first, start_together, tell_first,
};

/// What is done before there are threads.
pub(super) fn prepare<'a>(args: &'a Args, out: &Out) -> Result<Request<'a>, Error> {
    check(args)?;
    let mut request = Request::new(args, out)?;
    request.ask()?;
    Ok(request)
}

pub(super) fn run(
    args: &Args,
    request: Result<Request<'_>, Error>,
    team: &dyn Team,
    out: &Out,
) -> Outcome {
    reported_by_first(team, walk(args, request, team, out))
}

fn walk(args: &Args, request: Result<Request<'_>, Error>, team: &dyn Team, out: &Out) -> Outcome {
    start_together("walks", &args.dirs, args, team)?;
    let request = agree(team, request.map_err(Some))?;
    if args.explain {
        if team.rank() > 0 {
            return Ok(0);
        }
        let explained = explain(&request.options, needed_fields(args)?, out)?;
        out.note(
            "the ranks share the directories with threads; any other engine is run by one rank",
        );
        return Ok(explained);
    }
    let parts = Parts::prepare(&request, team)?;
    let summary = Summary::default();
    let start = Instant::now();
    let selected = Selected::new(&request.predicates, &summary);
    let diagnostics = Diagnostics::default();
    let pieces = Pieces {
        request: &request,
        parts: parts.as_ref(),
        sink: match request.predicates.is_all() {
            true => &summary,
            false => &selected,
        },
        diagnostics: &diagnostics,
        is_watched: out.messages().progress && team.rank() == 0,
        team,
    };
    let wanted = Messages {
        progress: pieces.is_watched,
        ..out.messages()
    };
    let mut walked = watch_walk(wanted, &diagnostics, || pieces.walk())?;
    selected.finish(is_empty_directory(&request.options.dirs, &diagnostics));
    walked.warnings.extend(diagnostics.take_warnings());
    walked.seconds = start.elapsed().as_secs_f64();
    let kept = parts.filter(|_| args.resume).map(|parts| parts.kept());
    finish(walked, &summary.totals(), kept, team, out)
}

/// The walk of all ranks, in one piece or in several.
struct Pieces<'a> {
    request: &'a Request<'a>,
    parts: Option<&'a Parts>,
    /// What to print.
    sink: &'a dyn Sink,
    diagnostics: &'a Diagnostics,
    /// The progress line is shown, with paths.
    is_watched: bool,
    team: &'a dyn Team,
}

impl Pieces<'_> {
    fn walk(&self) -> Result<Emitted, Error> {
        let mut emitted = Emitted::default();
        let options = &self.request.options;
        let Some(parts) = self.parts else {
            self.walk_piece(options, None, &mut emitted)?;
            return Ok(emitted);
        };
        for (piece, is_kept) in (0..).zip(&parts.is_kept) {
            let selection = parts.selection(piece);
            let file = parts.file(&selection);
            if *is_kept {
                let read = DataSet::open(&[file])
                    .and_then(|part| part.emit(&Predicates::default(), self.sink));
                agree(self.team, read.map_err(|error| Some(error.into())))?;
                continue;
            }
            let of = parts.is_kept.len() as u32;
            let shard = (of > 1).then_some(Shard { number: piece, of });
            let options = WalkOptions {
                filter: selection.filter().with_shard(shard),
                ..options.clone()
            };
            let catalog = Catalog::create(&file, &parts.top, selection);
            let catalog = agree(self.team, catalog.map_err(|error| Some(error.into())))?;
            self.walk_piece(&options, Some(catalog), &mut emitted)?;
        }
        Ok(emitted)
    }

    /// Walks one piece, and gives the parts of all ranks their names.
    fn walk_piece(
        &self,
        options: &WalkOptions,
        catalog: Option<Catalog>,
        emitted: &mut Emitted,
    ) -> Result<(), Error> {
        let &Pieces {
            diagnostics, team, ..
        } = self;
        let both = catalog.as_ref().map(|catalog| Both(self.sink, catalog));
        let all: &dyn Sink = both.as_ref().map_or(self.sink, |both| both);
        let with_paths = Watched(all);
        let all = if self.is_watched { &with_paths } else { all };
        let walked = walk_together(options, all, diagnostics, team);
        let walked = walked.map_err(own_error);
        let closed = catalog.as_ref().is_some_and(Sink::is_closed);
        // The error of a catalog is that of its end.
        let report = match closed {
            false => Some(agree(team, walked)?),
            true => agree(team, walked.map(Some).or(Ok(None)))?,
        };
        let warnings = diagnostics.take_warnings();
        let report = report.unwrap_or_default();
        let sealed = catalog.map(|catalog| catalog.seal(&report, warnings.is_empty()));
        let sealed = agree(team, sealed.transpose().map_err(|error| Some(error.into())))?;
        // Only now, when all parts are written, they get their names.
        let published = sealed.map(Sealed::publish).transpose();
        agree(team, published.map_err(|error| Some(error.into())))?;
        for part in report.parts {
            if !emitted.parts.iter().any(|known| known.path == part.path) {
                emitted.parts.push(part);
            }
        }
        emitted.warnings.extend(warnings);
        Ok(())
    }
}

/// Adds up what all ranks have found, and prints it on rank 0.
fn finish(
    walked: Emitted,
    own: &Totals,
    kept: Option<(usize, usize)>,
    team: &dyn Team,
    out: &Out,
) -> Outcome {
    let Some((all, warnings)) = tell_first(team, own.to_words(), walked.warnings) else {
        return Ok(0);
    };
    let mut totals = Totals::default();
    let mut ranks = Vec::new();
    for (rank, (place, words)) in all.into_iter().enumerate() {
        let part = Totals::from_words(&words);
        totals.merge(&part);
        ranks.push(RankEntries {
            rank,
            place,
            entries: part.entries,
        });
    }
    let walked = Emitted { warnings, ..walked };
    let result = Walk {
        totals: Some((&totals, walked.seconds)),
        parts: &walked.parts,
        ranks: Some(&ranks),
        kept: kept.map(|(kept, _)| kept),
        ..Walk::default()
    };
    let figures = result.figures();
    out.report_measured(SCHEMA, result, figures, &walked.warnings, || {
        out.data(show::totals_text(&totals, walked.seconds, &walked.parts))?;
        print_note(&totals, &walked, out);
        out.note(show::ranks_text(&ranks));
        if let Some((kept, of)) = kept {
            out.note(show::kept_text(kept, of));
        }
        Ok(())
    })
}

/// Checks that several ranks can do it.
fn check(args: &Args) -> Result<(), Error> {
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
        () if output.format != Format::Summary => "this --format",
        () if output.group_by.is_some() => "--group-by",
        () if output.top.is_some() => "--top",
        () => return Ok(()),
    };
    Err(Error::new(format!(
        "{option} cannot be used by the ranks of an MPI job"
    ))
    .with_hint("write parts with --catalog, and use fathom query on all of them"))
}

/// The parts of the catalog.
struct Parts {
    /// The directory that they are in.
    dir: Vec<u8>,
    /// DIR.
    top: Vec<u8>,
    /// What to skip, with the part of this rank in the first piece.
    options: Options,
    ranks: u32,
    /// For each piece, whether an earlier attempt has finished it.
    is_kept: Vec<bool>,
}

impl Parts {
    /// Creates the directory of the parts, and finds out which there are already. `None` without `--catalog`.
    fn prepare(request: &Request<'_>, team: &dyn Team) -> Result<Option<Parts>, Error> {
        let args = request.args;
        let Some(dir) = args.catalog.as_ref() else {
            return Ok(None);
        };
        let [top] = &request.options.dirs[..] else {
            return Err(Error::new("--catalog cannot be used with several DIRs")
                .with_hint("run fathom walk once per DIR"));
        };
        let mut part = part_of_run(args.run.clone(), team);
        let mut parts = Parts {
            dir: as_prefix(dir.as_bytes()),
            top: top.clone(),
            options: request.selection.clone(),
            ranks: part.of,
            is_kept: vec![false],
        };
        let dir = &parts.dir;
        if args.resume {
            part.of *= PIECES;
            parts.is_kept = vec![false; PIECES as usize];
            parts.options.shard = Some(part.clone());
            let found = match team.rank() {
                0 => check_outside(dir, &request.options.dirs, WRITING_CATALOG)
                    .and_then(|()| create_dir(dir, WRITING_CATALOG))
                    .and_then(|()| parts.find(args.run.as_ref())),
                _ => Ok((None, Vec::new())),
            };
            let found = agree(team, found.map_err(Some))?;
            let (run, is_kept) = of_first(team, found);
            part.run = run.or(part.run);
            parts.is_kept = is_kept;
        } else {
            create_output(dir, WRITING_CATALOG, team, |dir| Ok(catalogs_in(dir)?))?;
        }
        parts.options.shard = Some(part);
        create_on_all(&parts.dir, WRITING_CATALOG, team)?;
        Ok(Some(parts))
    }

    /// Finds the pieces that an earlier attempt has finished, and the name of its run. Parts of other pieces
    /// are removed: of an attempt that was killed while it named them, only some ranks have one, and the next
    /// attempt deals the entries out in another way.
    fn find(&self, wanted: Option<&String>) -> Result<(Option<String>, Vec<bool>), Error> {
        let dirs = std::slice::from_ref(&self.top);
        let of_walk = (dirs, &self.options, Writer::Walk);
        let Earlier { run, parts } = Earlier::find(&self.dir, of_walk, wanted)?;
        let piece = |part: &EarlierPart| (part.number / self.ranks) as usize;
        let mut finished = vec![0; PIECES as usize];
        for part in &parts {
            finished[piece(part)] += u32::from(part.finished.complete);
        }
        let is_kept = |piece: usize| finished[piece] == self.ranks;
        for part in parts.iter().filter(|part| !is_kept(piece(part))) {
            remove_part(&part.file)?;
        }
        Ok((run, (0..finished.len()).map(is_kept).collect()))
    }

    /// What to skip in a piece, with the part of this rank.
    fn selection(&self, piece: u32) -> Options {
        let mut options = self.options.clone();
        if let Some(part) = &mut options.shard {
            part.number += piece * self.ranks;
        }
        options
    }

    fn file(&self, selection: &Options) -> Vec<u8> {
        let name = selection.shard.as_ref().map(ShardOfRun::file_name);
        joined(&self.dir, name.unwrap_or_default().as_bytes())
    }

    /// The number of parts that are kept, and of all.
    fn kept(&self) -> (usize, usize) {
        let ranks = self.ranks as usize;
        let kept = self.is_kept.iter().filter(|is_kept| **is_kept).count();
        (kept * ranks, self.is_kept.len() * ranks)
    }
}
