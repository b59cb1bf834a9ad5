//! Keeps apart what is written and what is dumped.

use gate::fs::{At, FileType, Want};
use gate::long::statx_long;
use ondisk::Dev;
use walk::{Meta, Type};

use super::chain::Chain;
use super::options::{DumpOptions, Note};
use super::output::Output;
use crate::error::{Action, Error, ErrorKind};
use crate::plan::{Plan, Step};
use crate::rows::Rows;

/// Sees that nothing that is written would take the place of something else that is, or of the
/// catalog that is gone on from, or of what is to be dumped.
pub(super) fn set_apart(options: &DumpOptions, chain: &Chain) -> Result<(), Error> {
    // Where a file is, or is to be: its directory, and its name there. What is no file is written
    // straight.
    let place = |path: &[u8]| {
        let (dir, name) = (path != b"-")
            .then(|| gate::file::Writer::place(path).ok().flatten())
            .flatten()?;
        Some((dir.dev, dir.ino, name))
    };
    let written: Vec<_> = options.archive.iter().chain(&options.own).collect();
    // (A catalog may take the place of the one before it.)
    let catalogs: Vec<_> = chain.since.iter().chain(&chain.catalog).collect();
    for (nth, path) in written.iter().enumerate() {
        let mut others = written[..nth]
            .iter()
            .chain(&catalogs)
            .filter_map(|other| place(other));
        if place(path).is_some_and(|place| others.any(|other| other == place)) {
            return Err(Error::new(Action::DumpTo, path, ErrorKind::SharedFile));
        }
    }
    const ITSELF: At = At::SYMLINK_NOFOLLOW.union(At::NO_AUTOMOUNT);
    let is_file = |path: &&Vec<u8>| {
        statx_long(path, ITSELF, Want::BASIC_STATS)
            .is_ok_and(|seen| seen.file_type == FileType::Regular)
    };
    let sources: Vec<_> = options
        .sources
        .iter()
        .filter(is_file)
        .filter_map(|source| place(source))
        .collect();
    for path in written.into_iter().chain(&chain.catalog) {
        if place(path).is_some_and(|place| sources.contains(&place)) {
            return Err(Error::new(Action::DumpTo, path, ErrorKind::ReplacesSource));
        }
    }
    Ok(())
}

/// Leaves out what is being written: the archive does not hold itself, nor what it takes the place
/// of.
pub(super) fn leave_out_own(
    options: &DumpOptions,
    chain: &Chain,
    output: &Output,
    rows: &Rows,
    plan: &mut Plan,
) -> Vec<Note> {
    let paths = options
        .archive
        .iter()
        .chain(&chain.catalog)
        .chain(&options.own);
    let named = paths.filter_map(|path| statx_long(path, At::NO_AUTOMOUNT, Want::BASIC_STATS).ok());
    let own: Vec<(Dev, u64)> = named
        .chain(output.statx())
        .filter(|seen| seen.file_type == FileType::Regular)
        .map(|seen| (seen.dev.into(), seen.ino))
        .filter(|(dev, _)| rows.are_on(*dev))
        .collect();
    let mut notes = Vec::new();
    // Mostly it is all somewhere else.
    let all = if own.is_empty() { 0 } else { rows.len() };
    for row in 0..all {
        let is_own = |meta: Meta| own.contains(&(meta.dev, meta.ino));
        // Most are not: that is to be known at once.
        let may_be = own.iter().any(|(_, ino)| *ino == rows.ino(row));
        if may_be && rows.kind(row) == Type::File && is_own(rows.meta(row)) {
            plan.set(row, Step::LeftOut);
            let mut path = Vec::new();
            rows.path(row, &mut path);
            notes.push(Note::OwnFileLeftOut(path));
        }
    }
    notes
}
