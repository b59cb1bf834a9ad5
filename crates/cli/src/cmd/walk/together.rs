//! `mpirun fathom walk`: one walk by all ranks of an MPI job. Rank 0 reports for all of them.
//!
//! All ranks take these steps in the same order. Where one fails, all end with its error.

use std::sync::atomic::AtomicU64;
use std::time::Instant;

use ::show::name::printable;
use archive::catalog::{Catalog, Options, Sealed, ShardOfRun, catalogs_in};

use gate::Tally;
use mounts::Warning;
use serde::{Deserialize, Serialize};
use team::{Team, decode, encode, share};
use walk::entry::joined;
use walk::predicate::select::{Selected, is_empty_directory};
use walk::{
    Both, Diagnostics, Error as WalkError, Moment, Sink, Summary, Totals, WarningKind,
    walk_together,
};

use super::output::Emitted;
use super::request::{Request, explain, needed_fields, print_note, selection};
use super::show::{self, RankEntries, SCHEMA, Walk};
use super::sinks::Watched;
use crate::args::output::Format;
use crate::args::values::bytes;
use crate::cmd::walk::args::Walk as Args;
use crate::error::{Error, Outcome};
use crate::hint::hint;
use crate::out::{Messages, Out, create_directories};
use crate::progress::watch_walk;
use crate::rank_warning::RankWarning;
use crate::ranks::{agree, host, of_first};

pub(super) fn run(args: &Args, team: &dyn Team, out: &Out) -> Outcome {
    let done = walk(args, team, out);
    match team.rank() {
        0 => done,
        _ => Ok(0), // rank 0 reports the errors of all
    }
}

fn walk(args: &Args, team: &dyn Team, out: &Out) -> Outcome {
    check_same(args, team)?;
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
    let all = share(team, Found::new(&walked.warnings, own, team));
    if team.rank() > 0 {
        return Ok(0);
    }
    let mut totals = Totals::default();
    let (mut ranks, mut warnings) = (Vec::new(), walked.warnings);
    for (rank, found) in all.into_iter().enumerate() {
        let part = Totals::from_words(&found.totals);
        totals.merge(&part);
        ranks.push(RankEntries {
            rank,
            host: found.host,
            entries: part.entries,
        });
        if rank > 0 {
            let words: Vec<_> = found.calls.into_iter().map(AtomicU64::new).collect();
            if words.len() >= Tally::WORDS {
                gate::meter::add(&Tally::collect(&words));
            }
            warnings.extend(found.warnings.into_iter().map(Warning::from));
        }
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

/// What a rank tells the others at the end.
#[derive(Serialize, Deserialize)]
struct Found {
    host: String,
    totals: [u64; Totals::WORDS],
    /// Those of [`Tally::publish`].
    calls: Vec<u64>,
    warnings: Vec<RankWarning>,
}

impl Found {
    fn new(warnings: &[Warning], totals: &Totals, team: &dyn Team) -> Found {
        /// Warnings of all ranks together.
        const MOST: usize = 10_000;
        let is_first = team.rank() == 0; // which keeps its own
        let most = if is_first {
            0
        } else {
            (MOST / team.size()).max(20)
        };
        let mut sent: Vec<_> = warnings.iter().take(most).cloned().collect();
        if !is_first && warnings.len() > most {
            let more = (warnings.len() - most) as u64;
            sent.push(Warning::general(WarningKind::More(more)));
        }
        let words: Vec<AtomicU64> = (0..Tally::WORDS).map(|_| AtomicU64::new(0)).collect();
        gate::meter::tally().publish(&words);
        let calls = words.into_iter().map(AtomicU64::into_inner).collect();
        Found {
            host: host(),
            totals: totals.to_words(),
            calls,
            warnings: sent
                .iter()
                .map(|warning| RankWarning::new(warning, hint(warning)))
                .collect(),
        }
    }
}

/// What must be the same on all ranks. The version is the first field in every version.
type Command = (String, String, Vec<Vec<u8>>, String);

/// Checks that all ranks run the same command.
fn check_same(args: &Args, team: &dyn Team) -> Result<(), Error> {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let mine: Command = (version, host(), bytes(&args.dirs), format!("{args:?}"));
    let all = team.all_gather(&encode(&mine));
    let version = |bytes: &[u8]| decode::<String>(bytes).unwrap_or_default();
    let first = all.first().map_or(&[][..], |first| first);
    for (rank, other) in all.iter().enumerate() {
        if version(other) != version(first) {
            let (theirs, ours) = (version(other), version(first));
            return Err(Error::new(format!(
                "rank {rank} runs fathom {theirs}, rank 0 runs fathom {ours}"
            )));
        }
        let (Some(other), Some(first)) = (decode::<Command>(other), decode::<Command>(first))
        else {
            return Err(Error::new(format!(
                "rank {rank} runs another fathom than rank 0"
            )));
        };
        let dir = |command: &Command| {
            let dirs: Vec<_> = command
                .2
                .iter()
                .map(|dir| printable(dir).to_string())
                .collect();
            dirs.join("', '")
        };
        let host = printable(other.1.as_bytes());
        if other.2 != first.2 {
            return Err(Error::new(format!(
                "rank {rank} on {host} walks '{}', rank 0 walks '{}'",
                dir(&other),
                dir(&first)
            ))
            .and("start all ranks with the same DIR"));
        }
        if other.3 != first.3 {
            return Err(Error::new(format!(
                "rank {rank} on {host} has other options than rank 0"
            ))
            .and("start all ranks with the same options"));
        }
    }
    Ok(())
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
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let named = format!("{}-{}", Moment::now().time().sec, std::process::id());
    let part = ShardOfRun {
        number: number(team.rank()),
        of: number(team.size()),
        run: Some(of_first(team, args.run.clone().unwrap_or(named))),
        by_ranks: true,
    };
    let is_first = team.rank() == 0;
    // One rank first, so that the others do not find its new directory while they look for old parts.
    agree(
        team,
        if is_first { prepare(dir) } else { Ok(()) }.map_err(Some),
    )?;
    let create = || {
        create_dir(dir)?;
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

fn create_dir(dir: &[u8]) -> Result<(), Error> {
    create_directories(dir).map_err(|errno| {
        let next = "give a directory that all ranks can write to";
        Error::write("cannot write the catalog to", dir, errno, next)
    })
}

/// Creates the directory of the parts. It must have no catalogs of another run.
fn prepare(dir: &[u8]) -> Result<(), Error> {
    create_dir(dir)?;
    match catalogs_in(dir)?.as_deref() {
        Some([old, ..]) => Err(Error::write(
            "cannot write the catalog to",
            dir,
            format!("it has {} of another run", printable(old)),
            "give a new directory, or remove the old parts",
        )),
        _ => Ok(()),
    }
}
