//! `mpirun fathom dump`: one dump by all ranks of an MPI job. Rank 0 reports for all of them.
//!
//! All ranks take these steps in the same order. Where one fails, all end with its error.

use std::time::Instant;

use archive::catalog::{Options, catalogs_in};
use archive::compression::{Compress, Compression};
use archive::dump::{DumpOptions, DumpPart, DumpSummary, Progress};
use archive::run::archive_names_in;
use team::Team;
use walk::entry::joined;
use walk::{Diagnostics, Error as WalkError};

use super::options::{SCHEMA, dump_options};
use super::show::{self, Report};
use crate::cmd::dump::args::Dump as Args;
use crate::cmd::walk::show::{RankEntries, ranks_text};
use crate::error::{Error, Outcome};
use crate::out::{Messages, Out};
use crate::progress::watch_dump;
use crate::ranks::{
    agree, create_dir, create_output, part_of_run, reported_by_first, start_together, tell_first,
};

const WRITING: &str = "cannot write the archive to";

pub(super) fn run(args: &Args, team: &dyn Team, out: &Out) -> Outcome {
    reported_by_first(team, dump(args, team, out))
}

fn dump(args: &Args, team: &dyn Team, out: &Out) -> Outcome {
    let start = Instant::now();
    start_together("dumps", &args.sources, args, team)?;
    let options = check(args).and_then(|()| Ok(dump_options(args)?.0));
    let options = agree(team, options.map_err(Some))?;
    let dir = options.archive.clone();
    let options = in_parts(options, team)?;
    let part = DumpPart::create(&options).map_err(|error| Some(error.into()));
    let mut part = agree(team, part)?;
    let (diagnostics, progress) = (Diagnostics::default(), Progress::default());
    let wanted = Messages {
        progress: out.messages().progress && team.rank() == 0,
        ..out.messages()
    };
    let written = watch_dump(wanted, &diagnostics, &progress, || {
        let collected = part.collect(team, &diagnostics);
        let collected = collected.map_err(|error| match error {
            WalkError::OtherRank => None,
            error => Some(error.into()),
        });
        agree(team, collected)?;
        let written = part.write(&diagnostics, &progress);
        // Only now, when all parts are written, they get their names: first all archives.
        let mut written = agree(team, written.map_err(|error| Some(error.into())))?;
        let named = written.publish_archive();
        agree(team, named.map_err(|error| Some(error.into())))?;
        let named = written.publish_catalog();
        agree(team, named.map_err(|error| Some(error.into())))
    });
    finish(written?, dir.as_deref(), start, team, out)
}

/// Adds up what all ranks have dumped, and prints it on rank 0.
fn finish(
    mut summary: DumpSummary,
    dir: Option<&[u8]>,
    start: Instant,
    team: &dyn Team,
    out: &Out,
) -> Outcome {
    let warnings = std::mem::take(&mut summary.warnings);
    let own = numbers(&mut summary).map(|number| *number);
    let Some((all, warnings)) = tell_first(team, own, warnings) else {
        return Ok(0);
    };
    let mut ranks = Vec::new();
    for (rank, (place, words)) in all.into_iter().enumerate() {
        ranks.push(RankEntries {
            rank,
            place,
            entries: words[0],
        });
        if rank > 0 {
            for (number, word) in numbers(&mut summary).into_iter().zip(words) {
                *number += word;
            }
        }
    }
    let report = Report {
        archive: dir,
        method: summary.parts.first(),
        summary: Some(&summary),
        seconds: Some(start.elapsed().as_secs_f64()),
        ranks: Some(&ranks),
        ..Report::default()
    };
    for note in &summary.notes {
        out.note(show::note(note));
    }
    out.report(SCHEMA, &report, &warnings, || {
        out.note(show::summary(&report, &summary));
        out.note(ranks_text(&ranks));
        Ok(())
    })
}

/// The numbers of a summary, which are sums over the ranks: first that of the entries.
fn numbers(summary: &mut DumpSummary) -> [&mut u64; 11] {
    let counts = &mut summary.counts;
    [
        &mut summary.entries,
        &mut summary.gathered,
        &mut summary.directories,
        &mut summary.archive_bytes,
        &mut counts.dumped,
        &mut counts.files,
        &mut counts.directories,
        &mut counts.symlinks,
        &mut counts.links,
        &mut counts.other,
        &mut counts.bytes,
    ]
}

/// Checks that several ranks can do it.
fn check(args: &Args) -> Result<(), Error> {
    let full = "omit it: the ranks write a full dump";
    let (option, next) = match () {
        () if args.since.is_some() => ("--since", full),
        () if args.level.is_some() => ("--level", full),
        () if !args.files_from.is_empty() => ("--files-from", "give directories as SRC"),
        () if args.account => ("--account", "measure with one process"),
        () if args.map.is_some() => ("--map", "use fathom list on all parts"),
        () if args.output.as_deref() == Some("-".as_ref()) => ("-o -", "give a directory"),
        () => return Ok(()),
    };
    Err(Error::new(format!(
        "{option} cannot be used by the ranks of an MPI job"
    ))
    .and(next))
}

/// Creates the directories of the parts; gives the options for the part of this rank.
fn in_parts(options: DumpOptions, team: &dyn Team) -> Result<DumpOptions, Error> {
    const CATALOG: &str = "cannot write the catalog to";
    let part = part_of_run(None, team);
    let suffix = match options.compress {
        Compress::No => ".tar",
        Compress::With(Compression::Gzip, _) => ".tar.gz",
        Compress::With(Compression::Xz, _) => ".tar.xz",
        Compress::BySuffix | Compress::With(..) => ".tar.zst",
    };
    let (mut archive, mut catalog) = (None, None);
    if let Some(dir) = &options.archive {
        create_output(dir, WRITING, team, |dir| Ok(archive_names_in(dir)?))?;
        agree(team, create_dir(dir, WRITING).map_err(Some))?;
        archive = Some(joined(dir, part.archive_name(suffix).as_bytes()));
    }
    if let Some(dir) = &options.catalog {
        create_output(dir, CATALOG, team, |dir| Ok(catalogs_in(dir)?))?;
        agree(team, create_dir(dir, CATALOG).map_err(Some))?;
        catalog = Some(joined(dir, part.file_name().as_bytes()));
    }
    Ok(DumpOptions {
        archive,
        catalog,
        selection: Options {
            shard: Some(part),
            ..options.selection.clone()
        },
        ..options
    })
}
