//! Excludes the files that a dump writes from those that it reads.

use catalog::remote::is_remote;
use catalog::rows::Rows;
use gate::fs::{AtFlags, FileType, Statx, StatxMask};
use gate::long::{lstat_long, statx_long};
use ondisk::Dev;

use super::chain::Chain;
use super::options::{DumpOptions, Note};
use super::output::Output;
use crate::error::{Action, Error, ErrorKind};
use crate::plan::{Plan, PlanStep};

/// Refuses to write two files to one path, or to replace the base catalog or a source.
pub(super) fn check_outputs(options: &DumpOptions, chain: &Chain) -> Result<(), Error> {
    // The parent directory of an output file, and the file's name there; `None` for a stream or a
    // device.
    let place = |path: &[u8]| {
        if path == b"-" {
            return None;
        }
        if is_remote(path) {
            return Some((Dev::default(), 0, path.to_vec()));
        }
        let (dir, name) = gate::file::Writer::place(path).ok().flatten()?;
        Some((dir.dev, dir.ino, name))
    };
    let written: Vec<_> = options.archive.iter().chain(&options.own).collect();
    // Catalogs are not compared with each other: the new one may replace its base.
    let catalogs: Vec<_> = chain.since.iter().chain(&chain.catalog).collect();
    for (nth, path) in written.iter().enumerate() {
        let mut others = written[..nth].iter().chain(&catalogs);
        let own = place(path);
        if own.is_some() && others.any(|other| place(other) == own) {
            return Err(Error::new(Action::DumpTo, path, ErrorKind::SharedFile));
        }
    }
    let is_file = |path: &&Vec<u8>| {
        lstat_long(path, StatxMask::BASIC_STATS)
            .is_ok_and(|seen| seen.file_type == FileType::Regular)
    };
    let sources = options.sources.iter().filter(is_file);
    let sources: Vec<_> = sources.filter_map(|source| place(source)).collect();
    for path in written.into_iter().chain(&chain.catalog) {
        if place(path).is_some_and(|place| sources.contains(&place)) {
            return Err(Error::new(Action::DumpTo, path, ErrorKind::ReplacesSource));
        }
    }
    Ok(())
}

/// Excludes the output files of the dump, and the existing files that they replace.
pub(super) fn leave_out_own(
    options: &DumpOptions,
    chain: &Chain,
    output: &Output,
    rows: &Rows,
    plan: &mut Plan,
) -> Vec<Note> {
    let paths = options.archive.iter().chain(&chain.catalog);
    let mut notes = leave_out_files(paths.chain(&options.own), output.statx(), rows, plan);
    if let Some(automatic) = &options.automatic {
        notes.extend(leave_out_state(&automatic.level.state, rows, plan));
    }
    notes
}

/// Excludes the state directory: otherwise each dump would contain all earlier archives.
fn leave_out_state(state: &[u8], rows: &Rows, plan: &mut Plan) -> Option<Note> {
    let seen = statx_long(state, AtFlags::NO_AUTOMOUNT, StatxMask::BASIC_STATS).ok()?;
    let is_state = |row: &usize| {
        rows.ino(*row) == seen.ino && rows.is_dir(*row) && rows.meta(*row).dev == seen.dev
    };
    let dir = (0..rows.len()).find(is_state)?;
    let inside = dir..rows.end(dir);
    inside
        .clone()
        .for_each(|row| plan.set(row, PlanStep::LeftOut));
    // A file in the state directory is not dumped, so a hard link to it must become a file.
    let is_cut =
        |row: &usize| plan.step(*row) == PlanStep::Link && inside.contains(&plan.target(*row));
    let cut: Vec<usize> = (0..rows.len()).filter(is_cut).collect();
    cut.into_iter()
        .for_each(|row| plan.set(row, PlanStep::Whole));
    Some(Note::StateLeftOut(rows.full_path(dir)))
}

/// Excludes the common parent directory of listed names, because restoring its attributes would
/// surprise. Increments include the directory, because a restore needs its list of names.
pub(super) fn leave_out_root(options: &DumpOptions, plan: &mut Plan) {
    if options.listed.is_some() {
        plan.set(0, PlanStep::LeftOut);
    }
}

/// Excludes the given files, and the archive being written.
pub(super) fn leave_out_files<'a>(
    paths: impl Iterator<Item = &'a Vec<u8>>,
    archive: Option<Statx>,
    rows: &Rows,
    plan: &mut Plan,
) -> Vec<Note> {
    let own: Vec<(Dev, u64)> = paths
        .filter_map(|path| statx_long(path, AtFlags::NO_AUTOMOUNT, StatxMask::BASIC_STATS).ok())
        .chain(archive)
        .filter(|seen| seen.file_type == FileType::Regular)
        .map(|seen| (seen.dev, seen.ino))
        .filter(|(dev, _)| rows.are_on(*dev))
        .collect();
    if own.is_empty() {
        return Vec::new();
    }
    let is_own = |row: &usize| {
        // Compare inode numbers first: cheap, and enough for most rows.
        own.iter().any(|(_, ino)| *ino == rows.ino(*row))
            && rows.kind(*row) == FileType::Regular
            && {
                let meta = rows.meta(*row);
                own.contains(&(meta.dev, meta.ino))
            }
    };
    let leave_out = |row: usize| {
        plan.set(row, PlanStep::LeftOut);
        Note::OwnFileLeftOut(rows.full_path(row))
    };
    (0..rows.len()).filter(is_own).map(leave_out).collect()
}
