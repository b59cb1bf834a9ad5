//! `mpirun fathom walk`: one walk by all ranks of an MPI job. Rank 0 reports for all of them.
//!
//! All ranks take these steps in the same order. Where one fails, all end with its error.

use std::time::Instant;

use archive::catalog::{Catalog, Options, Sealed, catalogs_in};

use mounts::Warning;
use team::Team;
use walk::entry::joined;
use walk::predicate::select::{Selected, is_empty_directory};
use walk::{Both, Diagnostics, Error as WalkError, Sink, Summary, Totals, walk_together};

use super::output::Emitted;
use super::request::{Request, explain, needed_fields, print_note, selection};
use super::show::{self, RankEntries, SCHEMA, Walk};
use super::sinks::Watched;
use crate::args::output::Format;
use crate::args::values::bytes;
use crate::cmd::walk::args::Walk as Args;
use crate::error::{Error, Outcome};
use crate::out::{Messages, Out};
use crate::progress::watch_walk;
use crate::ranks::{
    agree, check_same, create_dir, create_output, part_of_run, reported_by_first, tell_first,
};

pub(super) fn run(args: &Args, team: &dyn Team, out: &Out) -> Outcome {
    reported_by_first(team, walk(args, team, out))
}

fn walk(args: &Args, team: &dyn Team, out: &Out) -> Outcome {
    check_same("walks", &args.dirs, args, team)?;
    let request = check(args).and_then(|()| Request::new(args, out));
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
    let catalog = create_part(args, &request, team)?;
    let (summary, diagnostics) = (Summary::default(), Diagnostics::default());
    let start = Instant::now();
    let selected = Selected::new(&request.predicates, &summary);
    let chosen: &dyn Sink = match request.predicates.is_all() {
        true => &summary,
        false => &selected,
    };
    let both = catalog.as_ref().map(|catalog| Both(chosen, catalog));
    let all: &dyn Sink = both.as_ref().map_or(chosen, |both| both);
    let wanted = Messages {
        progress: out.messages().progress && team.rank() == 0,
        ..out.messages()
    };
    let with_paths = Watched(all);
    let all = if wanted.progress { &with_paths } else { all };
    let walked = watch_walk(wanted, &diagnostics, || {
        walk_together(&request.options, all, &diagnostics, team)
    });
    let walked = walked.map_err(|error| match error {
        WalkError::OtherRank => None,
        error => Some(error.into()),
    });
    let closed = catalog.as_ref().is_some_and(Sink::is_closed);
    // The error of a catalog is that of its end.
    let report = match closed {
        false => Some(agree(team, walked)?),
        true => agree(team, walked.map(Some).or(Ok(None)))?,
    };
    selected.finish(|path| is_empty_directory(path, &diagnostics));
    let mut warnings = diagnostics.take_warnings();
    let report = report.unwrap_or_default();
    let sealed = catalog.map(|catalog| catalog.seal(&report, warnings.is_empty()));
    let sealed = agree(team, sealed.transpose().map_err(|error| Some(error.into())))?;
    // Only now, when all parts are written, they get their names.
    let published = sealed.map(Sealed::publish).transpose();
    agree(team, published.map_err(|error| Some(error.into())))?;
    let contradiction = request.predicates.contradiction();
    if team.rank() == 0 {
        warnings.extend(contradiction.map(Warning::general));
    }
    let walked = Emitted {
        parts: report.parts,
        warnings,
        seconds: start.elapsed().as_secs_f64(),
    };
    finish(walked, &summary.totals(), team, out)
}

/// Adds up what all ranks have found, and prints it on rank 0.
fn finish(walked: Emitted, own: &Totals, team: &dyn Team, out: &Out) -> Outcome {
    let Some((all, warnings)) = tell_first(team, own.to_words(), walked.warnings) else {
        return Ok(0);
    };
    let mut totals = Totals::default();
    let mut ranks = Vec::new();
    for (rank, (host, words)) in all.into_iter().enumerate() {
        let part = Totals::from_words(&words);
        totals.merge(&part);
        ranks.push(RankEntries {
            rank,
            host,
            entries: part.entries,
        });
    }
    let walked = Emitted { warnings, ..walked };
    let result = Walk {
        totals: Some((&totals, walked.seconds)),
        parts: &walked.parts,
        ranks: Some(&ranks),
        ..Walk::default()
    };
    out.report(SCHEMA, result, &walked.warnings, || {
        out.data(show::totals_text(&totals, walked.seconds, &walked.parts))?;
        print_note(&totals, &walked, out);
        out.note(show::ranks_text(&ranks));
        Ok(())
    })
}

/// Checks that several ranks can do it.
fn check(args: &Args) -> Result<(), Error> {
    let output = &args.output;
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
    .and("write parts with --catalog, and use fathom query on all of them"))
}

const WRITING: &str = "cannot write the catalog to";

/// Creates the directory of the parts and, in it, the part of this rank, which has no name yet.
fn create_part(
    args: &Args,
    request: &Request<'_>,
    team: &dyn Team,
) -> Result<Option<Catalog>, Error> {
    let Some(dir) = args.catalog.as_ref() else {
        return Ok(None);
    };
    let dir = &bytes(std::slice::from_ref(dir))[0];
    let part = part_of_run(args.run.clone(), team);
    create_output(dir, WRITING, team, |dir| Ok(catalogs_in(dir)?))?;
    let create = || {
        create_dir(dir, WRITING)?;
        let file = joined(dir, part.file_name().as_bytes());
        let [top] = &request.options.dirs[..] else {
            return Err(Error::new("--catalog cannot be used with several DIRs")
                .and("run fathom walk once per DIR"));
        };
        let options = Options {
            shard: Some(part),
            ..selection(args)
        };
        Ok(Catalog::create(&file, top, options)?)
    };
    agree(team, create().map_err(Some)).map(Some)
}
