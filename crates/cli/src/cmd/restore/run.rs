//! `fathom restore`: restores a tree from archives.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::io::BufWriter;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Instant;

use ::show::units::plural;
use archive::find::find;
use archive::increment::history::History;
use archive::increment::record::DumpRecord;
use archive::restore::{
    Counts, NotRestored, RestoreOptions, RestoreProgress, RestoreStep, RestoreSummary, restore,
    write_file,
};
use archive::run::len_of;
use base::Warning;
use gate::Errno;
use gate::fs::Open;
use gate::long::open_long;
use gate::lookup::may_create_in;
use team::Team;
use walk::entry::relative;
use walk::{Filter, ReachableMounts, check_same_directory};

use super::show::{self, SCHEMA};
use crate::args::values::bytes;
use crate::cmd::levels::local_date;
use crate::cmd::list::show::FoundVersions;
use crate::cmd::restore::args::Restore as Args;
use crate::date::{DumpTime, Zone};
use crate::error::{Error, Outcome, not_an_archive};
use crate::hint::hint;
use crate::input::{Archives, archives_and_paths};
use crate::out::Out;
use crate::progress::watch;
use crate::rank_warning::Reason;
use crate::ranks::show::note_ranks;
use crate::ranks::{agree, begin, of_first, reported_by_first, start_together, tell_first};

pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let alone = "each process restores alone";
    let Some((team, start)) = begin(out, alone, !args.dry_run, Instant::now())? else {
        return Ok(0); // rank 0 prints the dry run
    };
    if let (Some(_), Some(state)) = (&args.to, &args.state) {
        return write_one(args, state.as_bytes(), out);
    }
    args.load.apply(team.size());
    reported_by_first(&*team, restore_all(args, start, &*team, out))
}

/// Restores the archives. The ranks of an MPI job divide the parts of a dump among themselves.
///
/// An entry is in one part, but a directory is in the part of each rank that dumped entries below
/// it. Each rank sets a directory's attributes after creating all of its own entries there, so the
/// last rank leaves the directory as in the archive.
fn restore_all(args: &Args, start: Instant, team: &dyn Team, out: &Out) -> Outcome {
    start_together("restores", &args.archives, args, team)?;
    // Check the mounts before the first thread starts, because this forks child processes.
    let dirs = [args.directory.as_bytes().to_vec()];
    let around = ReachableMounts::find(&dirs, false, &Filter::default(), args.deadline.get());
    let around = agree(team, around)?;
    let mut options = agree(team, restore_options(args, team, out))?;
    let silent = around.silent_paths().iter();
    let silent = silent.map(|path| relative(&dirs[0], path).to_vec());
    options.silent = silent.collect();
    check_dir(&options.dir, team)?;
    options.archives = own_parts(options.archives, team);
    let progress = RestoreProgress::default();
    let message = |seconds: f64| show::progress_message(progress.get(), seconds);
    let mut steps = show::DryRunSteps::default();
    let mut printed = Ok(());
    let mut emit = |step: RestoreStep| {
        if out.json {
            steps.add(&step);
        } else if printed.is_ok() {
            printed = out.data(show::step_line(&step));
        }
    };
    let done = watch(out.progress && team.rank() == 0, message, || {
        restore(&options, &progress, &mut emit)
    });
    printed?;
    let done = done.map_err(|error| match options.are_parts {
        true => Error::from(error),
        false => not_an_archive(error, &options.archives),
    });
    let mut summary = agree(team, done)?;
    let mut stopped = Ok(());
    if let Some(error) = summary.stopped.take() {
        if team.is_alone() {
            notes(&summary, out);
            out.warn(&summary.warnings);
        }
        let is_begun = !args.dry_run && (progress.get().0 > 0 || !team.is_alone());
        let error = Error::from(error);
        stopped = Err(match is_begun {
            true => error.with_hint("what was restored so far remains"),
            false => error,
        });
    }
    agree(team, stopped)?;
    let counts = summary.counts;
    let entries = [counts.directories, counts.files, counts.symlinks];
    let entries = entries.iter().sum::<u64>() + counts.links + counts.other;
    let mut warnings = std::mem::take(&mut summary.warnings);
    if let (Some(state), Some(last)) = (&args.state, options.recorded.last()) {
        explain(&mut warnings, state.as_bytes(), last, &options.paths);
        name_as_given(&mut warnings, last, &given(args));
    }
    let Some(all) = tell_first(team, counts, entries, warnings) else {
        return Ok(0);
    };
    summary.counts = Counts::default();
    all.values.into_iter().for_each(|it| summary.counts.add(it));
    notes(&summary, out);
    let report = show::RestoreReport {
        summary: &summary,
        steps: args.dry_run.then_some(&steps),
        are_parts: options.are_parts,
        ranks: all.ranks.as_deref(),
        seconds: start.elapsed().as_secs_f64(),
    };
    out.report(SCHEMA, &report, &all.warnings, || {
        out.note(show::summary(&report));
        note_ranks(report.ranks, None, out);
        Ok(())
    })
}

fn notes(summary: &RestoreSummary, out: &Out) {
    for note in &summary.notes {
        out.note(show::note(note));
    }
}

/// The options of the restore: all archives, in order.
fn restore_options(args: &Args, team: &dyn Team, out: &Out) -> Result<RestoreOptions, Error> {
    let mut recorded = Vec::new();
    let found = match &args.state {
        Some(_) if !team.is_alone() => {
            return Err(
                Error::new("--state cannot be used by the ranks of an MPI job")
                    .with_hint("start one process: increments are restored one after the other"),
            );
        }
        Some(state) => {
            recorded = archives_at(state.as_bytes(), args.at)?;
            let archives = recorded.iter().filter_map(|dump| dump.archive.clone());
            let archives: Vec<Vec<u8>> = archives.collect();
            out.note(show::chosen(&archives));
            Archives {
                archives,
                paths: paths_in(&recorded, args)?,
                are_parts: false,
            }
        }
        None => archives_and_paths(&args.archives, &args.paths)?,
    };
    if !team.is_alone() {
        check_for_ranks(&found)?;
    }
    let Archives {
        archives,
        paths,
        are_parts,
    } = found;
    Ok(RestoreOptions {
        archives,
        recorded,
        dir: args.directory.as_bytes().to_vec(),
        silent: Vec::new(),
        must_have_paths: args.state.is_none() && args.paths.is_empty() && !paths.is_empty(),
        paths,
        strip_components: args.strip_components,
        numeric_owner: args.numeric_owner,
        kept: args.kept(),
        overwrite: args.overwrite,
        dry_run: args.dry_run,
        jobs: args.jobs,
        sync: args.sync,
        are_parts,
        as_it_was: args.state.is_some(),
    })
}

/// Refuses archives and PATHs that the ranks of an MPI job cannot restore.
fn check_for_ranks(found: &Archives) -> Result<(), Error> {
    let (what, next) = match () {
        () if !found.are_parts => (
            "a single archive cannot be restored",
            "give a directory with the parts of a dump, or start one process",
        ),
        () if !found.paths.is_empty() => ("PATHs cannot be restored", "start one process"),
        () => return Ok(()),
    };
    Err(Error::new(format!("{what} by the ranks of an MPI job")).with_hint(next))
}

/// Checks that all ranks restore to the same directory, and that it is writable on each.
fn check_dir(dir: &[u8], team: &dyn Team) -> Result<(), Error> {
    if team.is_alone() {
        return Ok(());
    }
    let is_same = check_same_directory(dir, team).map_err(Error::from);
    let opened = open_long(dir, Open::DIRECTORY);
    let checked = is_same.and_then(|()| match opened.and_then(|fd| may_create_in(fd.as_fd())) {
        Err(errno @ Errno::EROFS) => Err(Error::write("cannot restore to", dir, errno, "")),
        _ => Ok(()), // failures to restore become warnings
    });
    agree(team, checked)
}

/// The parts that this rank restores.
fn own_parts(mut parts: Vec<Vec<u8>>, team: &dyn Team) -> Vec<Vec<u8>> {
    if !team.is_alone() {
        // Use the sizes that rank 0 sees: all ranks must compute the same assignment.
        let sizes = of_first(
            team,
            parts.iter().map(|part| len_of(part)).collect::<Vec<_>>(),
        );
        let mut ranks = deal(&sizes, team.size()).into_iter();
        parts.retain(|_| ranks.next() == Some(team.rank()));
    }
    parts
}

/// Assigns each part to a rank: the largest parts first, each to the rank with the fewest bytes so
/// far.
fn deal(sizes: &[u64], ranks: usize) -> Vec<usize> {
    let mut parts: Vec<usize> = (0..sizes.len()).collect();
    parts.sort_by_key(|&part| Reverse(sizes[part]));
    let mut loads = vec![0_u64; ranks];
    let mut dealt = vec![0; sizes.len()];
    for part in parts {
        let least = (0..ranks).min_by_key(|&rank| loads[rank]).unwrap_or(0);
        // Add 1, so that empty parts are distributed, too.
        loads[least] += sizes[part].saturating_add(1);
        dealt[part] = least;
    }
    dealt
}

/// The PATHs of the command line, with --state.
fn given(args: &Args) -> Vec<Vec<u8>> {
    [bytes(&args.archives), bytes(&args.paths)].concat()
}

/// Names missing PATHs in warnings as given, not as member names.
fn name_as_given(warnings: &mut [Warning], dump: &DumpRecord, given: &[Vec<u8>]) {
    for warning in warnings {
        let Some(path) = &warning.path else { continue };
        let is_of = |given: &&Vec<u8>| {
            let names = dump.member_names(given);
            names.is_ok_and(|names| names.contains(path))
        };
        if let Some(given) = given.iter().find(is_of) {
            warning.path = Some(given.clone());
        }
    }
}

/// Converts the PATHs of the command line, which are paths of the dumped machine, to member names.
fn paths_in(recorded: &[DumpRecord], args: &Args) -> Result<Vec<Vec<u8>>, Error> {
    let given = given(args);
    let Some(last) = recorded.last() else {
        return Ok(given);
    };
    let names = given.iter().map(|path| last.member_names(path));
    let names: Vec<Vec<Vec<u8>>> = names.collect::<archive::Result<_>>()?;
    Ok(names.concat())
}

/// Adds to the warnings what the records and catalogs of a state directory tell: that the restored
/// dump is incomplete, and the last dump that has a missing file.
fn explain(warnings: &mut Vec<Warning>, state: &[u8], dump: &DumpRecord, paths: &[Vec<u8>]) {
    if warnings.is_empty() && dump.unread.is_empty() {
        return;
    }
    let history = History::read(state).unwrap_or_default();
    warnings.extend(of_incomplete(&history, dump, paths));
    for warning in warnings {
        let reason = warning.reason::<NotRestored>();
        let is_kept = reason == Some(&NotRestored::KeptExisting);
        let (
            Some(
                NotRestored::NoSuchMember | NotRestored::NotInLastTree | NotRestored::KeptExisting,
            ),
            Some(path),
        ) = (reason, &warning.path)
        else {
            continue;
        };
        let found = find(&history, std::slice::from_ref(path)).unwrap_or_default();
        let found = FoundVersions {
            state,
            history: &history,
            versions: &found.versions,
        };
        let hint = match found.versions {
            [] => hint(warning).map(Cow::into_owned),
            _ => Some(format!(
                "other dumps have it: {}",
                found.command(&Zone::local())
            )),
        };
        let kept = if is_kept { "left as it is: " } else { "" };
        let text = format!("{kept}the dump has no file of this name");
        warning.reason = Arc::new(Reason::new(text, hint));
    }
}

/// The warning that a dump lacks entries of the PATHs, because they could not be read.
fn of_incomplete(history: &History, dump: &DumpRecord, paths: &[Vec<u8>]) -> Option<Warning> {
    if !dump.unread.concerns(paths) {
        return None;
    }
    let zone = Zone::local();
    let before = history.dumps().iter().rev();
    let mut complete =
        before.filter(|it| it.date < dump.date && it.unread.is_empty() && it.status().exists());
    let hint = complete.next().map(|it| {
        let date = local_date(it, &zone);
        format!("the last complete dump before it is that of {date}: --at '{date}'")
    });
    let entries = plural(dump.unread.count, "entry", "entries");
    let text = format!("the dump is incomplete: {entries} could not be read when it was made");
    let archive = dump.archive.as_deref().unwrap_or(b"-");
    Some(Warning::about(archive, Reason::new(text, hint)))
}

/// Writes the contents of one file to standard output.
fn write_one(args: &Args, state: &[u8], out: &Out) -> Outcome {
    let recorded = archives_at(state, args.at)?;
    let paths = paths_in(&recorded, args)?;
    let [path] = &paths[..] else {
        return Err(Error::new("--to - needs the PATH of one file"));
    };
    if out.json {
        return Err(Error::new(
            "--json and --to - both write to standard output",
        ));
    }
    let mut stdout = BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    let warning = write_file(&recorded, path, &mut stdout)?;
    let warnings: Vec<_> = warning.into_iter().collect();
    Ok(out.warn(&warnings))
}

/// The archives that restore the last dump started at or before a time; without a time, the last
/// dump.
fn archives_at(state: &[u8], at: Option<DumpTime>) -> Result<Vec<DumpRecord>, Error> {
    let now = walk::Moment::now().time().sec;
    let time = at.unwrap_or(DumpTime::Latest).last(&Zone::local(), now);
    Ok(History::read(state)?.archives_at(time)?)
}

#[cfg(test)]
mod tests {
    use super::deal;

    #[test]
    fn ranks_have_equally_much_to_read() {
        assert_eq!(deal(&[1, 8, 3, 3, 2, 1], 2), [0, 0, 1, 1, 1, 0]);
        assert_eq!(deal(&[0, 0, 0], 2), [0, 1, 0]);
        assert_eq!(deal(&[5, 4], 3), [0, 1]);
        assert_eq!(deal(&[7], 1), [0]);
    }
}
