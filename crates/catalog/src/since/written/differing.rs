//! The differences between a tree and a catalog that the file system's report of inodes shows.

use std::collections::{BTreeMap, HashMap, HashSet};

use gate::Errno;
use ondisk::Dev;
use walk::entry::joined;
use walk::{Dir, DirKey, Entry, Fields, Meta, Sink, Worker};

use super::known::AccessTimes;
use crate::error::Error;
use crate::format::{About, Reader, RowColumns};
use crate::rows::Collector;
use crate::since::index::each_group;

/// The inodes written since a catalog.
#[derive(Default)]
pub(super) struct WrittenInodes {
    pub(super) inos: HashSet<u64>,
    /// Paths of the written directories, relative to DIR.
    pub(super) dirs: HashMap<u64, Vec<u8>>,
    pub(super) feed: EntriesByPath,
}

impl WrittenInodes {
    pub(super) fn add(&mut self, dir: Vec<u8>, name: Vec<u8>, meta: Meta) {
        self.feed.entry(dir).or_default().push((name, meta));
    }
}

/// The differences between a tree and a catalog.
#[derive(Default)]
pub struct Differing {
    /// Positions of rows that are no longer valid, ascending.
    pub(crate) places: Vec<u32>,
    /// The current entries in place of the invalid rows.
    pub(super) feed: EntriesByPath,
    /// New access times of unchanged inodes.
    pub(super) atimes: AccessTimes,
}

/// Entries by directory path, relative to DIR.
pub(super) type EntriesByPath = BTreeMap<Vec<u8>, Vec<(Vec<u8>, Meta)>>;

impl Differing {
    /// Emits the new entries to a sink, like a walk of `root`.
    pub fn emit(&self, root: &[u8], to: &dyn Sink) {
        let mut worker = to.worker();
        for (dir, entries) in &self.feed {
            let entries = entries.iter();
            let entries = entries.map(|(name, meta)| Entry { name, meta: *meta });
            let entries: Vec<Entry<'_>> = entries.collect();
            emit_entries(&mut *worker, root, dir, &entries);
        }
    }

    /// Emits the rows of a catalog that are still valid, with the current device and mount.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub fn emit_unchanged(
        &self,
        reader: &Reader,
        root: &[u8],
        (dev, mount): (Dev, u64),
        to: &Collector<'_>,
    ) -> Result<(), Error> {
        let read = |group: usize| {
            let columns = RowColumns::new(reader, group);
            let (dirs, names) = (columns.dirs()?, columns.names()?);
            let meta = columns.metas(Fields::all())?;
            let first = reader.first(group);
            let Differing { places, atimes, .. } = self;
            let from = places.partition_point(|&place| place < first);
            let mut stale = places[from..].iter().peekable();
            let mut worker = to.worker();
            let (mut at, mut entries) = (0, Vec::new());
            while at < names.len() {
                let dir = &dirs[at];
                entries.clear();
                while at < names.len() && &dirs[at] == dir {
                    if stale.next_if_eq(&&(first + at as u32)).is_none() {
                        let meta = meta(at);
                        let atime = atimes.get(meta.ino).unwrap_or(meta.atime);
                        entries.push(Entry {
                            name: &names[at],
                            meta: Meta {
                                dev,
                                mount,
                                atime,
                                ..meta
                            },
                        });
                    }
                    at += 1;
                }
                emit_entries(&mut *worker, root, dir, &entries);
            }
            Ok(())
        };
        each_group(reader, read, |_, ()| {})
    }
}

/// Passes entries of a directory to a worker, like a walk of `root`.
pub(crate) fn emit_entries(
    worker: &mut dyn Worker,
    root: &[u8],
    dir: &[u8],
    entries: &[Entry<'_>],
) {
    let dir = Dir {
        path: &joined(root, dir),
        key: DirKey::top(0).at(dir),
    };
    worker.take(&dir, entries);
}

/// Why differences could not be determined.
#[derive(Debug, thiserror::Error)]
pub(super) enum DifferenceError {
    #[error("the tree is being changed, or something is mounted")]
    Strange,
    #[error(transparent)]
    Catalog(#[from] Error),
}

impl From<Errno> for DifferenceError {
    fn from(_: Errno) -> DifferenceError {
        DifferenceError::Strange
    }
}

pub(super) type DifferenceResult<T> = Result<T, DifferenceError>;

/// Turns [`DifferenceError::Strange`] into `None`, so that the whole tree is walked. Other errors
/// remain.
pub(super) fn none_if_uncertain<T>(found: DifferenceResult<T>) -> Result<Option<T>, Error> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(DifferenceError::Strange) => Ok(None),
        Err(DifferenceError::Catalog(error)) => Err(error),
    }
}

/// Sample size: from this many inodes on, the share of changed inodes is extrapolated to all
/// inodes. If the share is large, a walk begins at once.
pub(super) const SAMPLE: usize = 4096;

/// Whether there are so many changes that a walk is as fast.
pub(super) fn is_much(changes: usize, about: &About) -> bool {
    changes as u64 > about.entries / 4
}
