//! Finds the archives of a run in a directory, each written by one of several processes.

use base::path::split;
use catalog::ranges::Ranges;
use catalog::{missing_parts, names_in, remote};
use ondisk::pax::PartOfRun;
use walk::entry::joined;

use crate::error::{Action, Error, ErrorKind};
use crate::input::Input;

/// Names of the files in a directory that are named like archives of a run; `None` if the path is
/// no directory.
///
/// # Errors
/// The directory cannot be read.
pub fn archive_names_in(path: &[u8]) -> Result<Option<Vec<Vec<u8>>>, Error> {
    let is_archive = |name: &[u8]| {
        let mut suffixes = name.windows(4);
        name.starts_with(b"part-") && suffixes.any(|it| it == b".tar")
    };
    let error = |kind: ErrorKind| Error::new(Action::ReadArchive, path, kind);
    let has_suffix = |path: &[u8]| split(path).1.windows(4).any(|it| it == b".tar");
    let objects = remote::names(path, has_suffix).map_err(|e| error(e.into()))?;
    if let Some(mut names) = objects {
        names.retain(|name| is_archive(name));
        names.sort_unstable();
        return Ok(Some(names));
    }
    names_in(path, is_archive).map_err(|errno| error(errno.into()))
}

/// Length of an archive in bytes; 0 if unknown.
pub fn len_of(archive: &[u8]) -> u64 {
    Ranges::open(archive).map_or(0, |opened| opened.len())
}

/// The part of a run that an archive contains; `None` for a single archive.
///
/// # Errors
/// The archive cannot be read.
pub fn part_in(archive: &[u8]) -> Result<Option<PartOfRun>, Error> {
    Ok(Input::open(archive)?.origin()?.part)
}

/// The archives of a run in a directory, by part number; `None` if the path is no directory.
///
/// # Errors
/// There are several runs, or a part is missing; the directory or an archive cannot be read.
pub fn archives_in(path: &[u8]) -> Result<Option<Vec<Vec<u8>>>, Error> {
    let refused = |kind: ErrorKind| Error::new(Action::ReadArchive, path, kind);
    let Some(names) = archive_names_in(path)? else {
        return Ok(None);
    };
    let mut archives = Vec::new();
    let mut first = None;
    for name in &names {
        let archive = joined(path, name);
        let part = part_in(&archive)?;
        let run = part.as_ref().map(|part| (part.of, part.run.clone()));
        let other = || {
            let (first, other) = (names[0].clone(), name.clone());
            refused(catalog::ErrorKind::SeveralRuns { first, other }.into())
        };
        match part {
            Some(part) if *first.get_or_insert_with(|| run.clone()) == run => {
                archives.push((part.number, part.of, archive));
            }
            _ => return Err(other()),
        }
        let (number, ..) = archives[archives.len() - 1];
        if archives.iter().filter(|it| it.0 == number).count() > 1 {
            return Err(other());
        }
    }
    if archives.is_empty() {
        return Err(refused(ErrorKind::NoArchives));
    }
    let parts = archives.iter().map(|&(number, of, _)| (number, of));
    if let Some(missing) = missing_parts(&parts.collect()) {
        return Err(refused(catalog::ErrorKind::MissingParts(missing).into()));
    }
    archives.sort_unstable();
    let archives = archives.into_iter().map(|(.., archive)| archive);
    Ok(Some(archives.collect()))
}
