//! The catalogs that are queried together.

use std::collections::BTreeSet;

use gate::fs::{Open, getdents64};
use gate::long::open_long;
use mounts::WarningReason;
use ondisk::dirent::entries;
use walk::entry::joined;

use crate::catalog::{About, Reader, compact};
use crate::error::{Action, Error, ErrorKind};

/// Catalogs whose entries are one data set.
#[derive(Debug)]
pub struct DataSet {
    path: Vec<u8>,
    readers: Vec<Reader>,
    /// The DIRs of all, each once, as they were given.
    roots: Vec<Vec<u8>>,
    /// For each catalog, the numbers of its roots among all.
    tops: Vec<Vec<usize>>,
    /// Every row group: the number of its catalog, and its own.
    pieces: Vec<(usize, usize)>,
    missing: Vec<(Vec<u8>, MissingParts)>,
}

/// Some parts of a catalog are not in its directory.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{} of {of} missing: {}", plural(numbers.len()), list(numbers))]
pub struct MissingParts {
    /// Their numbers.
    pub numbers: Vec<u32>,
    /// The number of all parts.
    pub of: u32,
}

impl WarningReason for MissingParts {}

fn plural(parts: usize) -> String {
    match parts {
        1 => "1 part".to_owned(),
        n => format!("{n} parts"),
    }
}

fn list(numbers: &[u32]) -> String {
    const MOST: usize = 8;
    let shown = numbers.iter().take(MOST).map(u32::to_string);
    let more = if numbers.len() > MOST { ", ..." } else { "" };
    shown.collect::<Vec<_>>().join(", ") + more
}

impl DataSet {
    /// Opens catalogs. A directory stands for all `.parquet` files in it.
    ///
    /// # Errors
    /// The first catalog that cannot be used, or a directory without catalogs.
    pub fn open(paths: &[Vec<u8>]) -> Result<DataSet, Error> {
        let mut data = DataSet::new(paths.first().cloned().unwrap_or_default());
        for path in paths {
            let Some(names) = catalogs_in(path)? else {
                data.add(Reader::open(path)?);
                continue;
            };
            if names.is_empty() {
                return Err(Error::new(Action::ReadCatalog, path, ErrorKind::NoCatalogs));
            }
            let readers = names.iter().map(|name| Reader::open(&joined(path, name)));
            let readers = readers.collect::<Result<Vec<_>, _>>()?;
            let parts = match recorded_parts(&names, &readers) {
                Ok(parts) if parts.is_empty() => named_parts(&names),
                Ok(parts) => parts,
                Err(kind) => return Err(Error::new(Action::ReadCatalog, path, kind)),
            };
            let missing = missing_parts(&parts).map(|missing| (path.clone(), missing));
            data.missing.extend(missing);
            readers.into_iter().for_each(|reader| data.add(reader));
        }
        Ok(data)
    }

    /// A single catalog of one DIR, whose paths begin with `root`.
    pub(crate) fn from_reader(path: &[u8], reader: Reader, root: &[u8]) -> DataSet {
        let mut data = DataSet::new(path.to_vec());
        data.add(reader);
        data.set_roots(vec![root.to_vec()], &[0]);
        data
    }

    /// Sets the DIRs, and for each the number of its only catalog.
    pub(crate) fn set_roots(&mut self, roots: Vec<Vec<u8>>, catalogs: &[usize]) {
        for (root, &nth) in catalogs.iter().enumerate() {
            self.tops[nth] = vec![root];
        }
        self.roots = roots;
    }

    fn new(path: Vec<u8>) -> DataSet {
        DataSet {
            path,
            readers: Vec::new(),
            roots: Vec::new(),
            tops: Vec::new(),
            pieces: Vec::new(),
            missing: Vec::new(),
        }
    }

    fn add(&mut self, reader: Reader) {
        let number = |root: &Vec<u8>, roots: &mut Vec<Vec<u8>>| {
            let known = roots.iter().position(|known| known == root);
            known.unwrap_or_else(|| {
                roots.push(root.clone());
                roots.len() - 1
            })
        };
        let own = reader.about().roots.iter();
        let own = own
            .map(|root| number(&root.path, &mut self.roots))
            .collect();
        self.tops.push(own);
        let nth = self.readers.len();
        self.pieces
            .extend((0..reader.groups()).map(|group| (nth, group)));
        self.readers.push(reader);
    }

    /// Writes the catalogs, which must be all parts of a run, as one catalog, atomically.
    ///
    /// # Errors
    /// They are not; one cannot be read, or the new one cannot be written.
    pub fn compact(&self, file: &[u8]) -> Result<About, Error> {
        compact(&self.path, &self.readers, file)?.publish()
    }

    /// The descriptions of all catalogs.
    pub fn abouts(&self) -> impl Iterator<Item = &About> {
        self.readers.iter().map(Reader::about)
    }

    /// The DIRs that paths begin with.
    pub fn roots(&self) -> &[Vec<u8>] {
        &self.roots
    }

    /// The directories in which parts are missing.
    pub fn missing(&self) -> &[(Vec<u8>, MissingParts)] {
        &self.missing
    }

    /// The path for messages.
    pub(crate) fn path(&self) -> &[u8] {
        &self.path
    }

    pub(super) fn pieces(&self) -> &[(usize, usize)] {
        &self.pieces
    }

    pub(crate) fn readers(&self) -> &[Reader] {
        &self.readers
    }

    pub(crate) fn reader(&self, nth: usize) -> &Reader {
        &self.readers[nth]
    }

    /// The number of a root of a catalog among all, and its path; those of the first root if there is
    /// no such root.
    pub(super) fn root(&self, nth: usize, top: u32) -> (usize, &[u8]) {
        let number = self.tops[nth].get(top as usize).copied().unwrap_or(0);
        (number, self.roots.get(number).map_or(b"", |root| root))
    }

    pub(crate) fn error(&self, kind: ErrorKind) -> Error {
        Error::new(Action::ReadCatalog, &self.path, kind)
    }
}

/// The names of the catalogs in a directory, in order; `None` if it is none.
///
/// # Errors
/// The directory cannot be read.
pub fn catalogs_in(path: &[u8]) -> Result<Option<Vec<Vec<u8>>>, Error> {
    let Ok(fd) = open_long(path, Open::DIRECTORY | Open::NONBLOCK) else {
        return Ok(None);
    };
    let (mut names, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        let read = getdents64(&fd, &mut buffer);
        let read = read.map_err(|errno| Error::new(Action::ReadCatalog, path, errno))?;
        if read == 0 {
            break;
        }
        let found = entries(&buffer[..read]).map(|entry| entry.name.to_bytes());
        let found = found.filter(|name| name.ends_with(b".parquet"));
        names.extend(found.map(<[u8]>::to_vec));
    }
    names.sort_unstable();
    Ok(Some(names))
}

/// The numbers of parts, each with that of all, by the catalogs' own descriptions.
///
/// # Errors
/// They are of several runs, or not all are parts.
fn recorded_parts(
    names: &[Vec<u8>],
    readers: &[Reader],
) -> Result<BTreeSet<(u32, u32)>, ErrorKind> {
    let first_run = readers.first().and_then(|first| first.about().run());
    let mut parts = BTreeSet::new();
    for (name, reader) in names.iter().zip(readers) {
        let about = reader.about();
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

/// The same by names such as `part-0-of-4.parquet`.
fn named_parts(names: &[Vec<u8>]) -> BTreeSet<(u32, u32)> {
    names.iter().filter_map(|name| part_number(name)).collect()
}

/// The parts that are missing. Numbers begin with 0, unless there is a part with the number of all.
fn missing_parts(parts: &BTreeSet<(u32, u32)>) -> Option<MissingParts> {
    let (_, of) = *parts.first()?;
    let has = |number| parts.contains(&(number, of));
    let first = u32::from(has(of));
    let numbers: Vec<u32> = (first..of.checked_add(first)?)
        .filter(|it| !has(*it))
        .collect();
    (!numbers.is_empty()).then_some(MissingParts { numbers, of })
}

/// The number of a part, and of all parts.
fn part_number(name: &[u8]) -> Option<(u32, u32)> {
    let name = std::str::from_utf8(name).ok()?;
    let name = name.strip_prefix("part-")?.strip_suffix(".parquet")?;
    let (number, of) = name.split_once("-of-")?;
    let (number, of): (u32, u32) = (number.parse().ok()?, of.parse().ok()?);
    (number <= of && of <= 1 << 20).then_some((number, of))
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
        assert_eq!(text, "1 part of 3 missing: 1");
        let text = missing(&["part-0-of-40.parquet"]).unwrap();
        assert_eq!(text, "39 parts of 40 missing: 1, 2, 3, 4, 5, 6, 7, 8, ...");
    }
}
