//! Runs `fathom dump`.

use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use account::dump::DumpAccount;
use archive::account::{GatherCost, Unavailable, measure};
use archive::dump::{DumpOptions, DumpSummary, Map, Progress, dump, estimate};
use archive::gather::{Gather, GatherReason, Gathered};
use archive::increment::history::History;
use base::Warning;
use gate::fs::{FileType, StatxMask};
use gate::long::lstat_long;
use team::Team;
use walk::{Diagnostics, ExplainedPlan};

use super::automatic::{self, PruningPlan};
use super::map::MapFile;
use super::options::{SCHEMA, dump_options, find_silent_mounts, skip_absent};
use super::parts::{self, Parts, add, numbers};
use super::show::costs::account_text;
use super::show::{self, DumpReport, GatherChoice, PruneResult};
use super::snapshot;
use crate::args::values::bytes;
use crate::cmd::dump::args::Dump as Args;
use crate::cmd::levels;
use crate::date::Zone;
use crate::error::{Error, Outcome};
use crate::out::Out;
use crate::progress::{watch_dump, watch_walk};
use crate::ranks::show::note_ranks;
use crate::ranks::{self, agree, reported_by_first, start_together, tell_first};

const PRUNE_SCHEMA: &str = "fathom.prune/1";

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let begun = Instant::now();
    // Check here whether options need --prune: clap's message would list all requirements and
    // conflicts of --prune.
    if let (false, Some(option)) = (args.prune, option_of_prune(args)) {
        let message = format!("{option} can only be used with --prune");
        return Err(Error::new(message).with_hint("see fathom dump -h"));
    }
    args.mode.apply();
    automatic::check(args)?;
    if let (true, Some(state)) = (args.prune, &args.state) {
        return prune(state.as_bytes(), args, out);
    }
    if let Some(repository) = &args.restic {
        args.load.apply(1);
        return snapshot::run(args, repository.as_bytes(), out);
    }
    let is_shared = !(args.explain || args.dry_run);
    let prepared = prepare(args, is_shared && ranks::is_job());
    let joined = ranks::begin(out, "each process dumps alone", is_shared, begun)?;
    let Some((team, start)) = joined else {
        return Ok(0); // rank 0 prints the result
    };
    args.load.apply(team.size());
    reported_by_first(&*team, dump_all(args, prepared, start, &*team, out))
}

/// The options of a dump, the file of `--map`, and the warnings about missing SRCs.
type Prepared = (DumpOptions, Option<Vec<u8>>, Vec<Warning>);

/// Does what must precede the first thread.
fn prepare(args: &Args, is_job: bool) -> Result<Prepared, Error> {
    match is_job {
        true if ranks::are_several() => parts::check(args)?,
        true => {}
        false => args.load.apply(1),
    }
    if args.resume && !is_job {
        return Err(Error::new("--resume requires mpirun").with_hint(
            "omit it: a dump by one process is one archive, which is complete or absent",
        ));
    }
    let (mut options, map) = dump_options(args)?;
    if !args.explain {
        find_silent_mounts(args, &mut options)?;
    }
    // The ranks of an MPI job must have the same SRCs, and may run on different machines.
    let absent = match args.explain || is_job {
        true => Vec::new(),
        false => skip_absent(&mut options, args)?,
    };
    Ok((options, map, absent))
}

/// Dumps the sources. Each rank of an MPI job writes a part, and rank 0 reports for all ranks.
fn dump_all(
    args: &Args,
    prepared: Result<Prepared, Error>,
    start: Instant,
    team: &dyn Team,
    out: &Out,
) -> Outcome {
    start_together("dumps", &args.sources, args, team)?;
    let are_parts = writes_parts(args, team);
    let checked = match (are_parts, team.is_alone()) {
        (_, false) => parts::check(args),
        (true, true) => parts::check_full(args),
        (false, true) => Ok(()),
    };
    let (mut options, map, absent) = agree(team, checked.and(prepared))?;
    if team.rank() == 0 {
        args.excludes.globs.note_unmatched(&options.sources, out);
    }
    if args.explain {
        return explain(args, out);
    }
    if args.dry_run {
        return dry_run(args, &options, absent, out);
    }
    let (mut account, mut pruning, mut kept) = (None, None, None);
    let mut summary = match are_parts {
        false => dump_alone(args, &mut options, map, out)?,
        true => {
            let mut parts = Parts::prepare(options.clone(), args.resume, team)?;
            let summary = parts.write(team, out)?;
            kept = args.resume.then(|| parts.kept());
            summary
        }
    };
    let seconds = start.elapsed().as_secs_f64();
    if team.is_alone() {
        account = args.account.then(|| account_of(&summary, &options, out));
        add_facts(&summary, out);
        pruning = automatic::prune(args, &options, &mut summary.warnings);
    }
    let warnings = [absent, std::mem::take(&mut summary.warnings)].concat();
    let own = numbers(&mut summary).map(|number| *number);
    let Some(all) = tell_first(team, own, summary.entries, warnings) else {
        return Ok(0);
    };
    let others = all.values.into_iter().skip(1);
    others.for_each(|words| add(&mut summary, words));
    let pruned = pruning.as_ref().map(PruningPlan::report);
    if let Some(pruned) = &pruned {
        out.facts.add("removed_dumps", pruned.dumps.len());
    }
    let report = DumpReport {
        archive: options.archive.as_deref(),
        pruned: pruned.as_ref(),
        level: summary.level,
        method: summary.parts.first(),
        summary: Some(&summary),
        seconds: Some(seconds),
        account: account.as_ref(),
        ranks: all.ranks.as_deref(),
        kept: kept.map(|(kept, _)| kept),
        ..DumpReport::default()
    };
    for note in &summary.notes {
        out.note(show::note(note));
    }
    out.report(SCHEMA, &report, &all.warnings, || {
        out.note(show::summary(&report, &summary));
        note_ranks(report.ranks, kept, out);
        if let Some(pruned) = report.pruned {
            out.note(show::pruned(pruned));
        }
        if out.verbose && !are_parts {
            out.note(show::method(&report));
        }
        print_account(&report, out)
    })
}

/// Whether the ranks of an MPI job write parts to a directory. The only rank of a job writes a
/// single archive to a name such as `srv.tar.zst`, and with options that parts do not support.
fn writes_parts(args: &Args, team: &dyn Team) -> bool {
    let output = args.output.as_ref().map(|output| output.as_bytes());
    let is_file = || parts::check_full(args).is_err() || output.is_some_and(ranks::names_file);
    team.is_job() && !(team.is_alone() && !args.resume && is_file())
}

/// Dumps the sources into one archive. With a state directory, fathom can choose its name and
/// level.
fn dump_alone(
    args: &Args,
    options: &mut DumpOptions,
    map: Option<Vec<u8>>,
    out: &Out,
) -> Result<DumpSummary, Error> {
    automatic::choose(args, options, out)?;
    if options.archive.as_deref() == Some(b"-") {
        check_stdout(out)?;
    }
    let mut map = map.map(|path| MapFile::create(&path)).transpose()?;
    let (diagnostics, progress) = (Diagnostics::default(), Progress::default());
    if args.account {
        gate::attribution::start();
    }
    let mut make = |options: &DumpOptions| {
        watch_dump(out.messages(), &diagnostics, &progress, || {
            let map = map.as_mut().map(|map| map as &mut dyn Map);
            dump(options, &diagnostics, &progress, map)
        })
    };
    match make(options) {
        Err(error) if automatic::retry_in_full(&error, args, options, out)? => {
            // The full dump reads the tree again, and finds the same problems again.
            diagnostics.take_warnings();
            Ok(make(options)?)
        }
        made => Ok(made?),
    }
}

/// The account of a dump: its calls by purpose, and the cost of each method of reading metadata.
fn account_of(summary: &DumpSummary, options: &DumpOptions, out: &Out) -> DumpAccount {
    let charges = gate::attribution::stop();
    let ways = measure_ways(options, out);
    let directories = summary.directories;
    DumpAccount::new(&charges, directories, summary.gathered - directories, &ways)
}

/// Records the metrics of a dump for `--report` and `--metrics`.
fn add_facts(summary: &DumpSummary, out: &Out) {
    let facts = &out.facts;
    facts.add("entries", summary.entries);
    facts.add("dumped_entries", summary.counts.dumped);
    facts.add("dumped_bytes", summary.counts.bytes);
    facts.add("archive_bytes", summary.archive_bytes);
    if let Some(level) = summary.level {
        facts.add("level", level);
    }
}

fn option_of_prune(args: &Args) -> Option<&'static str> {
    let yes = args.yes.then_some("--yes");
    yes.or(args.keep_full.map(|_| "--keep-full"))
}

/// Prints what would be dumped, and which dumps would be removed afterwards. With a state directory
/// and without `--level`, estimates a dump of every level.
fn dry_run(args: &Args, options: &DumpOptions, absent: Vec<Warning>, out: &Out) -> Outcome {
    let diagnostics = Diagnostics::default();
    let foreseen = automatic::forecast(args, options, out)?;
    let state = args.state.as_deref().filter(|_| args.level.is_none());
    let state = state.map(OsStrExt::as_bytes);
    let state = state.filter(|_| foreseen.has_levels);
    let mut estimates = watch_walk(out.messages(), &diagnostics, || {
        estimate(options, state, &diagnostics)
    })?;
    if foreseen.is_nightly {
        let is_made = |level: Option<u8>| level.is_none_or(|level| level <= 1);
        estimates.dumps.retain(|dump| is_made(dump.level));
    }
    let pruned = foreseen.pruning.as_ref().map(PruningPlan::report);
    let report = DumpReport {
        method: estimates.parts.first(),
        estimates: Some(&estimates),
        pruned: pruned.as_ref(),
        ..DumpReport::default()
    };
    let print_text = || {
        out.data(show::estimates::table(&estimates, out.table_style()))?;
        match &pruned {
            Some(pruned) => print_pruned(pruned, out),
            None => Ok(()),
        }
    };
    let warnings = [absent, diagnostics.take_warnings()].concat();
    out.report(SCHEMA, &report, &warnings, print_text)
}

/// Prints the dumps of a state directory that are no longer needed; with `--yes`, removes them.
fn prune(state: &[u8], args: &Args, out: &Out) -> Outcome {
    let (history, _lock) = History::open(state)?;
    let mut warnings = Vec::new();
    let pruning = match (args.keep_full, args.keep.policy()) {
        (Some(keep_full), _) => PruningPlan::keep_full(history, keep_full),
        (None, policy) => PruningPlan::keep(history, &policy.unwrap_or_default(), None),
    };
    let pruning = match args.yes {
        true => pruning.remove(&mut warnings)?,
        false => pruning,
    };
    let report = pruning.report();
    out.report(PRUNE_SCHEMA, &report, &warnings, || {
        print_pruned(&report, out)
    })
}

/// Prints which dumps are removed, and why others are kept.
fn print_pruned(report: &PruneResult<'_>, out: &Out) -> Result<(), Error> {
    let (zone, style) = (Zone::local(), out.table_style());
    match &report.kept_dumps {
        Some(_) => out.data(show::retention::table(report, &zone, style))?,
        None if report.dumps.is_empty() => {}
        None => out.data(levels::table(&report.dumps, &zone, style))?,
    }
    out.note(show::pruned(report));
    Ok(())
}

/// Refuses to write an archive to standard output if standard output is a terminal or gets the
/// JSON.
fn check_stdout(out: &Out) -> Result<(), Error> {
    if out.json {
        return Err(
            Error::new("--json and -o - both write to standard output").with_hint("give -o FILE")
        );
    }
    if out.on_terminal() {
        return Err(Error::new("cannot write an archive to a terminal")
            .with_hint("give -o FILE, or redirect standard output"));
    }
    Ok(())
}

fn print_account(report: &DumpReport<'_>, out: &Out) -> Result<(), Error> {
    match report.account {
        // The archive goes to standard output, so print the account on stderr.
        Some(account) if report.archive == Some(b"-") => {
            out.note_table(|style| account_text(account, style));
            Ok(())
        }
        Some(account) => out.data(account_text(account, out.table_style())),
        None => Ok(()),
    }
}

/// Measures each method of reading metadata on the same tree. A method that cannot be used has the
/// reason instead of its cost.
fn measure_ways(
    options: &DumpOptions,
    out: &Out,
) -> Vec<(Gather, Result<GatherCost, Unavailable>)> {
    let explained =
        walk::explain(&dirs(&options.sources), false, walk::Fields::all()).unwrap_or_default();
    let collect_options = options.collect_options(None);
    let measured = |gather: Gather| {
        for ExplainedPlan { plan, .. } in &explained {
            gather.engine_of(&plan.engines)?;
        }
        let diagnostics = Diagnostics::default();
        watch_walk(out.messages(), &diagnostics, || {
            measure(&collect_options, gather, &diagnostics)
        })
    };
    let ways = Gather::ALL.into_iter();
    ways.map(|gather| (gather, measured(gather))).collect()
}

fn explain(args: &Args, out: &Out) -> Outcome {
    let explained = walk::explain(&dirs(&bytes(&args.sources)), false, walk::Fields::all())?;
    let wanted = args.gather;
    let possible = explained.iter().flat_map(|one| show::possible(one, wanted));
    let possible: Vec<GatherChoice<'_>> = possible.collect();
    let method = explained.first().map(|first| Gathered {
        path: first.path.clone(),
        engine: first.plan.engine,
        why: GatherReason::Plan(first.plan.reason.clone()),
    });
    let report = DumpReport {
        wanted,
        method: method.as_ref(),
        explain: Some(&possible),
        ..DumpReport::default()
    };
    let print_text = || out.data(show::explain(&possible, out.table_style()));
    out.report(SCHEMA, &report, &[], print_text)
}

/// The sources that are directories, and those that statx(2) cannot examine, so that a later step
/// reports the error.
fn dirs(sources: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let is_dir = |source: &&Vec<u8>| {
        let seen = lstat_long(source, StatxMask::TYPE);
        seen.is_ok_and(|seen| seen.file_type == FileType::Directory) || seen.is_err()
    };
    sources.iter().filter(is_dir).cloned().collect()
}
