//! `fathom dump`: trees into an archive.

use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use account::dump::DumpAccount;
use archive::account::{Took, Unavailable, measure};
use archive::catalog::Options;
use archive::dump::{DumpOptions, Map, Progress, dump};
use archive::gather::Gather;
use archive::increment::levels::Level;
use gate::fs::{At, FileType, Want};
use gate::long::statx_long;
use walk::{Diagnostics, EngineKind, Explained};

use super::map::MapFile;
use super::show::{self, Choice, Method, Possible, Report};
use crate::cmd::dump::args::{Dump as Args, Gathering};
use crate::error::{Error, Outcome};
use crate::out::Out;
use crate::progress::{watch_dump, watch_walk};
use crate::show_memo::dump_account_text;

const SCHEMA: &str = "fathom.dump/1";

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let start = Instant::now();
    let (options, map) = dump_options(args);
    if options.archive.as_deref() == Some(b"-") {
        check_stdout(out)?;
    }
    if args.explain {
        return explain(args, out);
    }
    let mut map = map.map(|path| MapFile::create(&path)).transpose()?;
    let (diagnostics, progress) = (Diagnostics::default(), Progress::default());
    if args.account {
        archive::attribution::start();
    }
    let summary = watch_dump(out.progress, &diagnostics, &progress, || {
        let map = map.as_mut().map(|map| map as &mut dyn Map);
        dump(&options, &diagnostics, &progress, map)
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let account = args.account.then(|| {
        let books = archive::attribution::stop();
        let files = summary.gathered - summary.directories;
        DumpAccount::new(
            &books,
            summary.directories,
            files,
            &measure_ways(&options, out),
        )
    });
    let report = Report {
        archive: options.archive.as_deref(),
        level: options.level.as_ref().map(|level| level.number),
        method: summary.parts.first().map(|part| Method {
            gather: part.gather,
            engine: part.engine,
            why: part.why.clone(),
        }),
        summary: Some(&summary),
        seconds: Some(seconds),
        account: account.as_ref(),
        ..Report::default()
    };
    summary
        .notes
        .iter()
        .for_each(|note| out.note(show::note(note)));
    if out.json {
        out.envelope(SCHEMA, &report, &summary.warnings)?;
    } else {
        out.note(show::summary(&report, &summary));
        print_account(&report, out)?;
    }
    out.warn(&summary.warnings);
    Ok(summary.warnings.len())
}

/// What to dump, and where the map goes.
fn dump_options(args: &Args) -> (DumpOptions, Option<Vec<u8>>) {
    let bytes =
        |name: &Option<std::ffi::OsString>| name.as_ref().map(|name| name.as_bytes().to_vec());
    let map = bytes(&args.map).filter(|_| !args.no_map);
    let sources = args.sources.iter();
    let options = DumpOptions {
        sources: sources.map(|source| source.as_bytes().to_vec()).collect(),
        archive: bytes(&args.output).filter(|_| !args.no_output),
        since: bytes(&args.since),
        catalog: bytes(&args.catalog),
        level: args
            .level
            .zip(bytes(&args.state))
            .map(|(number, state)| Level { number, state }),
        gather: gathering(args.gather),
        threads: match args.account {
            true => Some(1),
            false => args.jobs.map(usize::from),
        },
        selection: Options {
            excludes: args.exclude.clone(),
            max_depth: None,
            one_file_system: args.one_file_system,
        },
        own: map.iter().cloned().collect(),
    };
    (options, map)
}

/// Refuses to write an archive to a standard output that JSON goes to, or a terminal.
fn check_stdout(out: &Out) -> Result<(), Error> {
    if out.json {
        return Err(Error::new(
            "--json and -o - both write to standard output; give -o FILE",
        ));
    }
    if out.on_terminal() {
        return Err(Error::new(
            "an archive is nothing for a terminal; give -o FILE, or pipe it to where it is to go",
        ));
    }
    Ok(())
}

fn print_account(report: &Report<'_>, out: &Out) -> Result<(), Error> {
    match report.account {
        // The archive is on standard output.
        Some(account) if report.archive == Some(b"-") => {
            out.note_table(|style| dump_account_text(account, style));
            Ok(())
        }
        Some(account) => out.data(dump_account_text(account, out.table_style()).as_bytes()),
        None => Ok(()),
    }
}

pub(crate) fn gathering(gathering: Gathering) -> Option<Gather> {
    match gathering {
        Gathering::Auto => None,
        Gathering::Percall => Some(Gather::PerCall),
        Gathering::Combined => Some(Gather::Combined),
        Gathering::Batched => Some(Gather::Batched),
        Gathering::Raw => Some(Gather::Raw),
    }
}

/// What each way of gathering takes on the same tree, or why it is unavailable.
fn measure_ways(options: &DumpOptions, out: &Out) -> Vec<(Gather, Result<Took, Unavailable>)> {
    let sources = options.sources.iter();
    let dirs: Vec<Vec<u8>> = sources.filter(|source| is_dir(source)).cloned().collect();
    let explained = walk::explain(&dirs, false).unwrap_or_default();
    let collect_options = options.collect_options(None);
    let measured = |gather: Gather| {
        for Explained { plan, .. } in &explained {
            gather.engine_of(&plan.engines)?;
        }
        let diagnostics = Diagnostics::default();
        watch_walk(out.progress, &diagnostics, || {
            measure(&collect_options, gather, &diagnostics)
        })
    };
    let ways = Gather::ALL.into_iter();
    ways.map(|gather| (gather, measured(gather))).collect()
}

/// `--explain`
fn explain(args: &Args, out: &Out) -> Outcome {
    let sources = args.sources.iter().map(|source| source.as_bytes().to_vec());
    let dirs: Vec<Vec<u8>> = sources.filter(|source| is_dir(source)).collect();
    let explained = walk::explain(&dirs, false)?;
    let wanted = gathering(args.gather);
    let possible: Vec<Possible> = explained
        .iter()
        .flat_map(|explained| possible(explained, wanted))
        .collect();
    if !out.json {
        out.data(show::explain(&possible, out.table_style()).as_bytes())?;
        return Ok(0);
    }
    let report = Report {
        method: explained.first().map(|first| Method {
            gather: wanted.unwrap_or(Gather::from_engine(first.plan.engine)),
            engine: first.plan.engine,
            why: first.plan.reason.to_string(),
        }),
        explain: Some(&possible),
        ..Report::default()
    };
    out.envelope(SCHEMA, &report, &[])?;
    Ok(0)
}

/// Whether each way of gathering can work for a source, and which is taken.
fn possible(explained: &Explained, wanted: Option<Gather>) -> Vec<Possible> {
    let Explained { path, plan, .. } = explained;
    let can = |by: EngineKind| Gather::from_engine(by).engine_of(&plan.engines).ok() == Some(by);
    // Where the mount does not offer a way, the next better one is taken.
    let fallback = |gather: Gather| gather.engines().iter().copied().find(|by| can(*by));
    let taken = wanted.map_or(Some(plan.engine), fallback);
    let possible = |gather: Gather| {
        let engine = gather.engine_of(&plan.engines);
        let choice = match &engine {
            Ok(by) if Some(*by) != taken => Choice::Possible,
            Ok(_) if wanted.is_none() => Choice::Best(plan.reason.clone()),
            Ok(_) => Choice::Requested,
            Err(refused) => Choice::Refused(refused.clone()),
        };
        Possible {
            path: path.clone(),
            gather,
            engine: engine.ok(),
            choice,
        }
    };
    Gather::ALL.into_iter().map(possible).collect()
}

fn is_dir(path: &[u8]) -> bool {
    let seen = statx_long(path, At::SYMLINK_NOFOLLOW | At::NO_AUTOMOUNT, Want::TYPE);
    // What is not there at all is to be said.
    seen.is_ok_and(|seen| seen.file_type == FileType::Directory) || seen.is_err()
}
