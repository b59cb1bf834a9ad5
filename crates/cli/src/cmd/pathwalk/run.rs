//! `fathom pathwalk`: LLNL's benchmark of path searches.

use std::os::unix::ffi::OsStrExt;

use ::show::units::count;
use mounts::TableSource;
use mounts::table::Table;
use pathwalk::{DropCaches, Event, Method, PathwalkOptions, Progress, SearchOptions, Shape};

use super::args::{CacheScope, Pathwalk as Args};
use super::show;
use crate::cmd::probe::run::{check_output_dir, write_plot};
use crate::error::{Error, Outcome};
use crate::out::Out;
use crate::progress::watch;
use crate::ranks;

const SCHEMA: &str = "fathom.pathwalk/1";

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    // Check everything that fails on all ranks before joining the MPI job: after that, a rank that
    // fails alone must tell the others, which would otherwise wait for it forever.
    let options = options(args)?;
    let team = ranks::join(out, "each process searches alone")?;
    let is_first = team.rank() == 0;
    let checked = match &args.plot {
        Some(dir) if is_first => check_output_dir(dir),
        _ => Ok(()),
    };
    if !ranks::of_first(&*team, checked.is_ok()) {
        return checked.map(|()| 0); // rank 0 reports the error
    }
    let progress = Progress::default();
    let mut printed = Ok(());
    let mut on_event = |event: Event<'_>| {
        if is_first && !out.json && printed.is_ok() {
            printed = out.data(show::event_line(event, options.shape).as_bytes());
        }
    };
    // With -c or -r, defer signals until the tree is removed. A search alone may be interrupted.
    let held = (options.create || options.remove).then(gate::interrupt::defer_signals);
    // Progress counts an object when it is created, and again when it is removed.
    let steps = u64::from(options.create) + u64::from(options.remove);
    let objects = options.shape.objects().unwrap_or(u64::MAX);
    let all = count(objects.saturating_mul(steps));
    let status = |_| format!("{} of {all} objects", count(progress.objects()));
    let shows_progress = out.progress && is_first && held.is_some();
    let report = watch(shows_progress, status, || {
        pathwalk::run(&options, &*team, &progress, &mut on_event)
    });
    let report = report.map_err(|e| show::error(&e, options.shape));
    if let Err(e) = &report
        && gate::interrupt::pending_signal().is_some()
        && is_first
    {
        out.failed(e); // once the signal is released, it ends this process before main can print the error
    }
    drop(held);
    if !is_first {
        return Ok(0); // rank 0 reports the errors of all ranks
    }
    let report = report?;
    printed?;
    let document = show::Report {
        options: &options,
        report: &report,
    };
    if let (Some(dir), Some(searches)) = (args.plot.as_deref(), document.searches()) {
        for (name, plot) in show::plots(&searches) {
            write_plot(dir, &name, &plot)?;
        }
    }
    let figures = Some(show::figures(&document));
    out.report_measured(
        SCHEMA,
        &document,
        figures,
        &report.warnings,
        || match document.searches() {
            Some(searches) if out.verbose || has_extensions(args) || team.size() > 1 => {
                out.data(show::tables(&searches, out.table_style()).as_bytes())
            }
            _ => Ok(()),
        },
    )
}

fn options(args: &Args) -> Result<PathwalkOptions, Error> {
    let root = args.root.as_bytes().to_vec();
    let (length, files) = (args.length, args.files);
    let shape = Shape { length, files };
    if shape.objects().is_none() {
        let cause = format!("{length} directories of {files} files are too many");
        let hint = "use a smaller -l or -f";
        return Err(Error::read("cannot work on", &root, cause, hint));
    }
    let search = args.test.then(|| SearchOptions {
        absent: args.failsearch,
        prime: args.primecache,
        method: args.method,
        threads: args.threads.into(),
        passes: args.repeat,
        latency: args.latency || args.plot.is_some(),
        drop_caches: args.cold.map(drop_caches),
    });
    Ok(PathwalkOptions {
        root,
        shape,
        create: args.create,
        search,
        remove: args.remove,
    })
}

fn drop_caches(scope: CacheScope) -> DropCaches {
    if scope == CacheScope::Host {
        return DropCaches::Host;
    }
    let table = Table::read(TableSource::Mountinfo);
    let mounts = table.map(|table| table.mounts).unwrap_or_default();
    match probe::cgroup::Cgroup::current(&mounts) {
        Some(group) => {
            let (file, value) = group.reclaim_file();
            DropCaches::Cgroup { file, value }
        }
        None => DropCaches::NoCgroup,
    }
}

/// Whether the command line has a flag that is not in LLNL's program.
fn has_extensions(args: &Args) -> bool {
    args.threads > 1
        || args.method != Method::Stat
        || args.repeat > 1
        || args.cold.is_some()
        || args.latency
        || args.plot.is_some()
}
