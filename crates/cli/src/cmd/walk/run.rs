//! `fathom walk`: lists directories, or counts what is in them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use catalog::query::DataSet;
use catalog::remote::{as_prefix, is_remote};
use catalog::{Catalog, Writer, catalogs_in, finished_part};
use gate::Errno;
use walk::entry::joined;
use walk::predicate::select::{Selected, is_empty_directory};
use walk::{Both, Diagnostics, Sink, Totals};

use super::output::{Emitted, Source, View};
use super::request::{Request, explain, needed_fields, print_note};
use super::show::SCHEMA;
use super::sinks::Watched;
use super::{compare, together};
use crate::cmd::walk::args::Walk as Args;
use crate::error::{Error, Outcome};
use crate::hint::OLD_PARTS;
use crate::out::{Messages, Out, create_directories};
use crate::progress::watch_walk;
use crate::ranks;

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let first = || together::prepare(args, out);
    let team = match args.shard {
        Some(_) => None, // each process has a shard of its own
        None => ranks::join_after(out, "each process walks alone", first)?,
    };
    args.mode.apply();
    args.load
        .apply(team.as_ref().map_or(1, |(team, _)| team.size()));
    if let Some((team, request)) = team {
        return together::run(args, request, &*team, out);
    }
    let mut request = Request::new(args, out)?;
    request.ask()?;
    if args.explain {
        return explain(&request.options, needed_fields(args)?, out);
    }
    if args.compare {
        return compare::run(&request.options, args.trials, out);
    }
    if args.resume && args.shard.is_none() {
        return Err(Error::new("--resume requires --shard or mpirun").with_hint("add --shard I/N"));
    }
    if args.run.is_some() && args.shard.is_none() {
        return Err(Error::new("--run requires --shard or mpirun").with_hint("add --shard I/N"));
    }
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

impl Source for Request<'_> {
    /// Walks into a sink, and into a catalog if there is to be one. The catalog gets all entries, the
    /// sink those that the predicates select.
    fn emit(&self, sink: &dyn Sink, wanted: Messages) -> Result<Emitted, Error> {
        let start = Instant::now();
        if let Some(part) = kept_part(self)? {
            DataSet::open(&[part])?.emit(&self.predicates, sink)?;
            return Ok(Emitted {
                seconds: start.elapsed().as_secs_f64(),
                ..Emitted::default()
            });
        }
        let diagnostics = Diagnostics::default();
        let catalog = self.args.catalog.as_ref();
        let catalog = catalog.map(|file| create_catalog(file, self));
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
        let report = watch_walk(wanted, &diagnostics, || {
            walk::walk(&self.options, all, &diagnostics)
        })?;
        selected.finish(is_empty_directory(&self.options.dirs, &diagnostics));
        let warnings = diagnostics.take_warnings();
        // If the output is closed the walk has stopped early, and the catalog is not of the whole tree.
        if let Some(catalog) = catalog.filter(|_| !sink.is_closed()) {
            catalog.finish(&report, warnings.is_empty())?;
        }
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

/// With `--resume`, the part of the shard, if an earlier attempt has finished it and has skipped nothing.
fn kept_part(request: &Request<'_>) -> Result<Option<Vec<u8>>, Error> {
    let (args, selection) = (request.args, &request.selection);
    let (true, Some(dir), tops @ [_], Some(shard)) = (
        args.resume,
        &args.catalog,
        &request.options.dirs[..],
        &selection.shard,
    ) else {
        return Ok(None);
    };
    let file = joined(dir.as_bytes(), shard.file_name().as_bytes());
    let finished = finished_part(&file, tops, selection, Writer::Walk)?;
    if finished.as_ref().is_some_and(|it| it.run != shard.run) {
        const WHY: &str = "it is of another run";
        return Err(Error::write("cannot write catalog", &file, WHY, OLD_PARTS));
    }
    Ok(finished.filter(|it| it.complete).map(|_| file))
}

/// How to write a catalog to a directory.
const PARTS: &str = "to write parts to a directory, use --shard I/N or mpirun";

fn create_catalog(file: &OsStr, request: &Request<'_>) -> Result<Catalog, Error> {
    let [dir] = &request.options.dirs[..] else {
        return Err(Error::new("--catalog cannot be used with several DIRs")
            .with_hint("run fathom walk once per DIR"));
    };
    let selection = request.selection.clone();
    let mut file = file.as_bytes().to_vec();
    if let Some(shard) = &selection.shard {
        file = as_prefix(&file);
        if !is_remote(&file) {
            create_directories(&file).map_err(|errno| {
                let next = "give a directory that you can write to";
                Error::write(ranks::WRITING_CATALOG, &file, errno, next)
            })?;
        }
        // Other shards of this run may be there, but none of a run with another number of shards.
        let suffix = format!("-of-{}.parquet", shard.of);
        let mut names = catalogs_in(&file)?.unwrap_or_default().into_iter();
        if let Some(old) = names.find(|name| !name.ends_with(suffix.as_bytes())) {
            return Err(ranks::has_old_part(ranks::WRITING_CATALOG, &file, &old));
        }
        file = joined(&file, shard.file_name().as_bytes());
    }
    let is_shard = selection.shard.is_some();
    Catalog::create(&file, dir, selection).map_err(|error| match error.errno() {
        Some(Errno::EISDIR) if !is_shard => Error::from(error).with_hint(PARTS),
        _ => error.into(),
    })
}
