//! Finds the parts of a run in a directory, and what they have in common.

use std::collections::BTreeSet;

use base::directory::each_entry;
use gate::Errno;
use gate::fs::Open;
use gate::long::open_long;
use ondisk::pax::ArchiveId;
use walk::Digest;

use super::about::{About, Options};
use crate::error::{Action, Error, ErrorKind, MissingParts};
use crate::part::Part;
use crate::remote;

/// Names of the catalogs in a directory, or below a prefix in a store, sorted; `None` if the path
/// is neither.
///
/// # Errors
/// The directory cannot be read.
pub fn catalogs_in(path: &[u8]) -> Result<Option<Vec<Vec<u8>>>, Error> {
    let is_catalog = |name: &[u8]| name.ends_with(b".parquet");
    let objects =
        remote::names(path, is_catalog).map_err(|e| Error::new(Action::ReadCatalog, path, e))?;
    if let Some(mut names) = objects {
        names.retain(|name| is_catalog(name));
        names.sort_unstable();
        return Ok(Some(names));
    }
    let names = names_in(path, is_catalog);
    names.map_err(|errno| Error::new(Action::ReadCatalog, path, errno))
}

/// Numbers of the parts, each with the total, from the catalogs' descriptions.
///
/// # Errors
/// The catalogs are of several runs, or some are no parts.
pub(crate) fn recorded_parts(
    names: &[Vec<u8>],
    abouts: &[&About],
) -> Result<BTreeSet<(u32, u32)>, ErrorKind> {
    let first_run = abouts.first().and_then(|first| first.run());
    let mut parts = BTreeSet::new();
    for (name, about) in names.iter().zip(abouts) {
        let part = about.options.shard.as_ref();
        let is_new = part.is_none_or(|part| parts.insert((part.number, part.of)));
        if !is_new || about.run() != first_run {
            return Err(ErrorKind::SeveralRuns {
                first: names[0].clone(),
                other: name.clone(),
            });
        }
    }
    Ok(parts)
}

/// Numbers of the parts, each with the total, from names such as `part-0-of-4.parquet`.
pub(crate) fn named_parts(names: &[Vec<u8>]) -> BTreeSet<(u32, u32)> {
    names.iter().filter_map(|name| part_number(name)).collect()
}

/// Checks that the catalogs in a directory are exactly the parts of one run.
pub(super) fn check_complete(names: &[Vec<u8>], abouts: &[&About]) -> Result<(), ErrorKind> {
    if names.is_empty() {
        return Err(ErrorKind::NoCatalogs);
    }
    match missing_parts(&recorded_parts(names, abouts)?) {
        Some(missing) => Err(ErrorKind::MissingParts(missing)),
        None => Ok(()),
    }
}

/// The number of a part, and the total, from its file name.
fn part_number(name: &[u8]) -> Option<(u32, u32)> {
    let name = std::str::from_utf8(name).ok()?;
    let name = name.strip_prefix("part-")?.strip_suffix(".parquet")?;
    let (number, of) = name.split_once("-of-")?;
    let (number, of): (u32, u32) = (number.parse().ok()?, of.parse().ok()?);
    (number <= of && of <= 1 << 20).then_some((number, of))
}

/// A common description of all parts, without their file systems.
///
/// # Errors
/// The catalogs are not exactly the parts of one run.
pub(super) fn describe(parts: &[&About]) -> Result<About, ErrorKind> {
    let abouts = || parts.iter().copied();
    let first = abouts().min_by_key(|about| about.started);
    let first = first.ok_or(ErrorKind::NotAllParts)?;
    let of_run = abouts().filter(|about| about.run() == first.run());
    let numbers: BTreeSet<u32> = of_run
        .filter_map(|about| about.options.shard.as_ref())
        .filter(|part| part.of as usize == parts.len())
        .map(|part| part.number)
        .collect();
    if numbers.len() != parts.len() {
        return Err(ErrorKind::NotAllParts);
    }
    let mut digest = Digest::default();
    for about in abouts() {
        digest.merge(about.digest().ok_or(ErrorKind::DamagedCatalog)?);
    }
    Ok(About {
        complete: abouts().all(|about| about.complete),
        digest: digest.to_string(),
        entries: abouts().map(|about| about.entries).sum(),
        finished: abouts().map(|it| it.finished).max().unwrap_or_default(),
        options: Options {
            shard: None,
            ..first.options.clone()
        },
        above: None,
        archive: abouts().try_fold(ArchiveId::default(), |sum, about| {
            Some(sum.plus(about.archive?))
        }),
        parts: Vec::new(),
        racy: abouts().map(|about| about.racy).sum(),
        checksums: Vec::new(),
        ..first.clone()
    })
}

/// Maps the file systems of one part to indexes in `all`, adding new file systems. A token is kept
/// only if all parts have the same token: otherwise a file system changed between the walks of the
/// parts.
pub(super) fn number(own: &[Part], all: &mut Vec<Part>) -> Vec<u32> {
    let number = |part: &Part| {
        let is_same = |known: &Part| {
            (known.top, &known.path, known.ino) == (part.top, &part.path, part.ino)
                && known.is_same_file_system(part)
        };
        let nth = all.iter().position(is_same).unwrap_or_else(|| {
            all.push(part.clone());
            all.len() - 1
        });
        if all[nth].token != part.token {
            all[nth].token = None;
        }
        u32::try_from(nth).unwrap_or(u32::MAX)
    };
    own.iter().map(number).collect()
}

/// Selected names in a directory, sorted; `None` if the path is no directory.
pub fn names_in(
    path: &[u8],
    is_wanted: impl Fn(&[u8]) -> bool,
) -> Result<Option<Vec<Vec<u8>>>, Errno> {
    let Ok(fd) = open_long(path, Open::DIRECTORY | Open::NONBLOCK) else {
        return Ok(None);
    };
    let mut names = Vec::new();
    each_entry(&fd, |entry| {
        let name = entry.name.to_bytes();
        names.extend(is_wanted(name).then(|| name.to_vec()));
    })?;
    names.sort_unstable();
    Ok(Some(names))
}

/// The missing parts of a run. Numbers start at 0, or at 1 if there is a part whose number equals
/// the total.
pub fn missing_parts(parts: &BTreeSet<(u32, u32)>) -> Option<MissingParts> {
    let (_, of) = *parts.first()?;
    let has = |number| parts.contains(&(number, of));
    let first = u32::from(has(of));
    let numbers: Vec<u32> = (first..of.checked_add(first)?)
        .filter(|it| !has(*it))
        .collect();
    (!numbers.is_empty()).then_some(MissingParts { numbers, of })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_parts_are_named() {
        let missing = |names: &[&str]| {
            let names: Vec<Vec<u8>> = names.iter().map(|name| name.as_bytes().to_vec()).collect();
            missing_parts(&named_parts(&names)).map(|missing| missing.to_string())
        };
        let part = |n| format!("part-{n}-of-3.parquet");
        let (zero, one, two, three) = (part(0), part(1), part(2), part(3));
        assert_eq!(missing(&[&zero, &one, &two]), None);
        assert_eq!(missing(&[&one, &two, &three]), None);
        assert_eq!(missing(&["c.parquet", "part-x-of-3.parquet"]), None);
        let text = missing(&[&zero, &two]).unwrap();
        assert_eq!(text, "1 part of 3 missing: part-1-of-3");
        let text = missing(&["part-0-of-40.parquet"]).unwrap();
        let first = "part-1-of-40, part-2-of-40, part-3-of-40, part-4-of-40";
        assert_eq!(text, format!("39 parts of 40 missing: {first}, ..."));
    }
}
