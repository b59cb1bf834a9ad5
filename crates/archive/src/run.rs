//! The parts of a run in a directory, each written by one process of several.

use std::collections::BTreeSet;

use gate::Errno;
use gate::fs::{Open, getdents64};
use gate::long::open_long;
use ondisk::dirent::entries;
use ondisk::pax::PartOfRun;
use walk::entry::joined;

use crate::error::{Action, Error, ErrorKind, MissingParts};
use crate::input::Input;
use crate::ranges::Ranges;
use crate::{remote, split};

/// The names in a directory that are wanted, in order; `None` if it is none.
pub(crate) fn names_in(
    path: &[u8],
    is_wanted: impl Fn(&[u8]) -> bool,
) -> Result<Option<Vec<Vec<u8>>>, Errno> {
    let Ok(fd) = open_long(path, Open::DIRECTORY | Open::NONBLOCK) else {
        return Ok(None);
    };
    let (mut names, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        let read = getdents64(&fd, &mut buffer)?;
        if read == 0 {
            break;
        }
        let found = entries(&buffer[..read]).map(|entry| entry.name.to_bytes());
        names.extend(found.filter(|name| is_wanted(name)).map(<[u8]>::to_vec));
    }
    names.sort_unstable();
    Ok(Some(names))
}

/// The names of the archives in a directory that are named as parts of a dump; `None` if it is no
/// directory.
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

/// The length of an archive; 0 if that is not known.
pub fn len_of(archive: &[u8]) -> u64 {
    Ranges::open(archive).map_or(0, |opened| opened.len())
}

/// Which part of a dump an archive is; `None` if it is by itself.
///
/// # Errors
/// It cannot be read.
pub fn part_in(archive: &[u8]) -> Result<Option<PartOfRun>, Error> {
    Ok(Input::open(archive)?.origin()?.part)
}

/// The archives of one dump in a directory, in the order of their numbers; `None` if it is no directory.
///
/// # Errors
/// They are of several runs, or a part is missing; the directory or an archive cannot be read.
pub fn archives_in(path: &[u8]) -> Result<Option<Vec<Vec<u8>>>, Error> {
    let refused = |kind| Error::new(Action::ReadArchive, path, kind);
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
            refused(ErrorKind::SeveralRuns { first, other })
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
        return Err(refused(ErrorKind::MissingParts(missing)));
    }
    archives.sort_unstable();
    let archives = archives.into_iter().map(|(.., archive)| archive);
    Ok(Some(archives.collect()))
}

/// The parts that are missing. Numbers begin with 0, unless there is a part with the number of all.
pub(crate) fn missing_parts(parts: &BTreeSet<(u32, u32)>) -> Option<MissingParts> {
    let (_, of) = *parts.first()?;
    let has = |number| parts.contains(&(number, of));
    let first = u32::from(has(of));
    let numbers: Vec<u32> = (first..of.checked_add(first)?)
        .filter(|it| !has(*it))
        .collect();
    (!numbers.is_empty()).then_some(MissingParts { numbers, of })
}
