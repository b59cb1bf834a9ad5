//! A set of catalogs that are queried together.

use std::collections::{BTreeMap, BTreeSet};

use walk::entry::joined;

use crate::error::{Action, Error, ErrorKind, MissingParts};
use crate::format::{
    About, Reader, ShardOfRun, catalogs_in, compact, missing_parts, named_parts, recorded_parts,
};

/// Catalogs whose entries form one data set.
#[derive(Debug, Default)]
pub struct DataSet {
    path: Vec<u8>,
    readers: Vec<Reader>,
    /// DIRs of all catalogs, as given, without duplicates.
    roots: Vec<Vec<u8>>,
    /// For each catalog, the indexes of its DIRs in `roots`.
    tops: Vec<Vec<usize>>,
    /// All row groups: for each, the index of its catalog, and its index within the catalog.
    pieces: Vec<(usize, usize)>,
    missing: Vec<(Vec<u8>, MissingParts)>,
}

impl DataSet {
    /// Opens catalogs. A directory stands for all `.parquet` files in it.
    ///
    /// # Errors
    /// A catalog cannot be used (the error is about the first such catalog), or a directory has no
    /// catalogs.
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
            let abouts: Vec<&About> = readers.iter().map(Reader::about).collect();
            let parts = match recorded_parts(&names, &abouts) {
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

    /// Opens a catalog, or a directory of catalogs. A complete run is read as one catalog.
    ///
    /// # Errors
    /// The errors of [`DataSet::open`].
    pub(crate) fn open_joined(path: &[u8]) -> Result<DataSet, Error> {
        let mut data = DataSet::open(&[path.to_vec()])?;
        let readers = &data.readers;
        let is_part = |reader: &Reader| {
            let part = reader.about().options.shard.as_ref();
            part.is_some_and(|part| part.of as usize == readers.len())
        };
        if data.missing.is_empty() && readers.iter().all(is_part) {
            let joined = Reader::join(path, readers)?;
            data = DataSet::new(path.to_vec());
            data.add(joined);
        }
        Ok(data)
    }

    /// A data set of a single catalog of one DIR. Paths begin with `root`.
    pub(crate) fn from_reader(path: &[u8], reader: Reader, root: &[u8]) -> DataSet {
        let mut data = DataSet::new(path.to_vec());
        data.add(reader);
        data.set_roots(vec![root.to_vec()], &[0]);
        data
    }

    /// Sets the DIRs, and for each the index of its only catalog.
    pub(crate) fn set_roots(&mut self, roots: Vec<Vec<u8>>, catalogs: &[usize]) {
        for (root, &nth) in catalogs.iter().enumerate() {
            self.tops[nth] = vec![root];
        }
        self.roots = roots;
    }

    fn new(path: Vec<u8>) -> DataSet {
        DataSet {
            path,
            ..DataSet::default()
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

    /// Merges the catalogs, which must be all parts of a run, into one, written atomically.
    ///
    /// # Errors
    /// The catalogs are not exactly the parts of one run; one cannot be read, or the new one cannot
    /// be written.
    pub fn compact(&self, file: &[u8]) -> Result<About, Error> {
        compact(&Reader::join(&self.path, &self.readers)?, file)?.publish()
    }

    /// The descriptions of all catalogs.
    pub fn abouts(&self) -> impl Iterator<Item = &About> {
        self.readers.iter().map(Reader::about)
    }

    /// The DIRs with which paths begin.
    pub fn roots(&self) -> &[Vec<u8>] {
        &self.roots
    }

    /// Directories with an incomplete run, and the parts that are missing.
    pub fn missing(&self) -> &[(Vec<u8>, MissingParts)] {
        &self.missing
    }

    /// DIRs in several catalogs that are not parts of one run: their entries are counted several
    /// times.
    pub fn repeated_roots(&self) -> BTreeSet<&[u8]> {
        let mut by_root: BTreeMap<&[u8], Vec<Option<&ShardOfRun>>> = BTreeMap::new();
        let mut repeated = BTreeSet::new();
        for about in self.abouts() {
            let part = about.options.shard.as_ref();
            for root in &about.roots {
                let root = root.absolute.as_ref().unwrap_or(&root.path);
                let others = by_root.entry(root).or_default();
                if !others.iter().all(|other| are_parts_of_one(part, *other)) {
                    repeated.insert(&root[..]);
                }
                others.push(part);
            }
        }
        repeated
    }

    /// The path of the data set, for messages.
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

    /// Index and path of a catalog's DIR among those of all catalogs; the first DIR if `top` is
    /// invalid.
    pub(super) fn root(&self, nth: usize, top: u32) -> (usize, &[u8]) {
        let number = self.tops[nth].get(top as usize).copied().unwrap_or(0);
        (number, self.roots.get(number).map_or(b"", |root| root))
    }

    pub(crate) fn error(&self, kind: ErrorKind) -> Error {
        Error::new(Action::ReadCatalog, &self.path, kind)
    }
}

/// Whether two catalogs are different parts of the same run.
fn are_parts_of_one(one: Option<&ShardOfRun>, other: Option<&ShardOfRun>) -> bool {
    one.zip(other).is_some_and(|(one, other)| {
        (one.of, &one.run) == (other.of, &other.run) && one.number != other.number
    })
}
