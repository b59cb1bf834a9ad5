//! `mpirun fathom restore`: the parts of a dump, shared out among the ranks of an MPI job. Rank 0 reports for
//! all of them.
//!
//! Each entry is in one part, but a directory is in the part of each rank that has dumped something in it. A
//! rank that leaves a directory sets its attributes, after all that it has created there: so whichever rank is
//! the last to leave it, it leaves it as the archive has it.

use std::cmp::Reverse;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use archive::restore::{Counts, RestoreOptions, RestoreProgress, restore};
use archive::run::len_of;
use gate::Errno;
use gate::fs::Open;
use gate::long::open_long;
use gate::lookup::may_create_in;
use team::Team;
use walk::check_same_directory;

use super::show::{self, RestoreReport, SCHEMA};
use crate::cmd::restore::args::Restore as Args;
use crate::cmd::walk::show::{RankEntries, ranks_text};
use crate::error::{Error, Outcome};
use crate::input::archives_and_paths;
use crate::out::Out;
use crate::progress::watch;
use crate::ranks::{agree, of_first, own_error, reported_by_first, start_together, tell_first};

pub(super) fn run(args: &Args, team: &dyn Team, out: &Out) -> Outcome {
    reported_by_first(team, restore_parts(args, team, out))
}

fn restore_parts(args: &Args, team: &dyn Team, out: &Out) -> Outcome {
    let start = Instant::now();
    start_together("restores", &args.archives, args, team)?;
    let parts = agree(team, parts(args).map_err(Some))?;
    let dir = args.directory.as_bytes();
    check_dir(dir, team)?;
    // By the sizes that rank 0 sees: they must be the same for all.
    let sizes: Vec<u64> = parts.iter().map(|part| len_of(part)).collect();
    let sizes = of_first(team, sizes);
    let ranks = deal(&sizes, team.size());
    let own = parts
        .into_iter()
        .zip(ranks)
        .filter(|(_, rank)| *rank == team.rank());
    let options = RestoreOptions {
        archives: own.map(|(part, _)| part).collect(),
        dir: dir.to_vec(),
        strip_components: args.strip_components,
        numeric_owner: args.numeric_owner,
        kept: args.kept(),
        jobs: args.jobs,
        sync: args.sync,
        are_parts: true,
        ..RestoreOptions::default()
    };
    let progress = RestoreProgress::default();
    let message = |seconds: f64| show::progress_message(progress.get(), seconds);
    let done = watch(out.progress && team.rank() == 0, message, || {
        restore(&options, &progress, &mut |_| ())
    });
    let mut summary = agree(team, done.map_err(|error| Some(error.into())))?;
    let stopped = summary.stopped.take().map_or(Ok(()), Err);
    let stopped = stopped.map_err(|error| {
        let error = Error::from(error);
        Some(error.with_hint("what was restored so far remains"))
    });
    agree(team, stopped)?;
    let warnings = std::mem::take(&mut summary.warnings);
    let Some((all, warnings)) = tell_first(team, summary.counts, warnings) else {
        return Ok(0);
    };
    let mut ranks = Vec::new();
    summary.counts = Counts::default();
    for (rank, (place, counts)) in all.into_iter().enumerate() {
        let entries = [counts.directories, counts.files, counts.symlinks];
        ranks.push(RankEntries {
            rank,
            place,
            entries: entries.iter().sum::<u64>() + counts.links + counts.other,
        });
        summary.counts.add(counts);
    }
    for note in &summary.notes {
        out.note(show::note(note));
    }
    let report = RestoreReport {
        summary: &summary,
        steps: None,
        are_parts: true,
        seconds: start.elapsed().as_secs_f64(),
        ranks: Some(&ranks),
    };
    out.report(SCHEMA, &report, &warnings, || {
        out.note(show::summary(&report));
        out.note(ranks_text(&ranks));
        Ok(())
    })
}

/// The rank that restores each part: the largest parts first, each to the rank that has least to read.
fn deal(sizes: &[u64], ranks: usize) -> Vec<usize> {
    let mut parts: Vec<usize> = (0..sizes.len()).collect();
    parts.sort_by_key(|&part| Reverse(sizes[part]));
    let mut loads = vec![0_u64; ranks];
    let mut dealt = vec![0; sizes.len()];
    for part in parts {
        let least = (0..ranks).min_by_key(|&rank| loads[rank]).unwrap_or(0);
        // One more, so that empty parts are shared out, too.
        loads[least] += sizes[part].saturating_add(1);
        dealt[part] = least;
    }
    dealt
}

/// Checks that all ranks restore to the same directory, and that it is read-only on none.
fn check_dir(dir: &[u8], team: &dyn Team) -> Result<(), Error> {
    let is_same = check_same_directory(dir, team).map_err(own_error);
    let opened = open_long(dir, Open::DIRECTORY);
    let checked = is_same.and_then(|()| match opened.and_then(|fd| may_create_in(fd.as_fd())) {
        Err(errno @ Errno::EROFS) => Err(Some(Error::write("cannot restore to", dir, errno, ""))),
        _ => Ok(()), // what cannot be restored there is a warning
    });
    agree(team, checked)
}

/// The parts of the dump.
fn parts(args: &Args) -> Result<Vec<Vec<u8>>, Error> {
    if args.state.is_some() {
        return Err(
            Error::new("--state cannot be used by the ranks of an MPI job")
                .with_hint("start one process: increments are restored one after the other"),
        );
    }
    let found = archives_and_paths(&args.archives, &args.paths)?;
    let (what, next) = match () {
        () if !found.are_parts => (
            "a single archive cannot be restored",
            "give a directory with the parts of a dump, or start one process",
        ),
        () if !found.paths.is_empty() => ("PATHs cannot be restored", "start one process"),
        () => return Ok(found.archives),
    };
    Err(Error::new(format!("{what} by the ranks of an MPI job")).with_hint(next))
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
