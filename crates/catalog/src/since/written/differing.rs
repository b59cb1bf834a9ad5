//! What differs from a catalog, as far as it is known.

use std::collections::{BTreeMap, HashMap, HashSet};

use gate::Errno;
use ondisk::Dev;
use walk::entry::joined;
use walk::{Dir, DirKey, Entry, Meta, Sink, Worker};

use super::known::AccessTimes;
use crate::error::Error;
use crate::format::columns::{DIR, NAME};
use crate::format::{About, Reader};
use crate::rows::Collector;
use crate::since::index::each_group;

/// The inodes that were written.
#[derive(Default)]
pub(super) struct Written {
    pub(super) inos: HashSet<u64>,
    /// The paths of directories among them, below DIR.
    pub(super) dirs: HashMap<u64, Vec<u8>>,
    pub(super) feed: Feed,
}

impl Written {
    pub(super) fn add(&mut self, dir: Vec<u8>, name: Vec<u8>, meta: Meta) {
        self.feed.entry(dir).or_default().push((name, meta));
    }
}

/// What is not as a catalog has it.
#[derive(Default)]
pub struct Differing {
    /// Places of the rows that no longer hold, in ascending order.
    pub(crate) places: Vec<u32>,
    /// The entries that are there instead.
    pub(super) feed: Feed,
    /// Access times of other inodes, where they are not the catalog's.
    pub(super) atimes: AccessTimes,
}

/// Entries by the directory that they are in, below DIR.
pub(super) type Feed = BTreeMap<Vec<u8>, Vec<(Vec<u8>, Meta)>>;

impl Differing {
    /// Sends the entries to a sink, as a walk of `root` would.
    pub fn emit(&self, root: &[u8], to: &dyn Sink) {
        let mut worker = to.worker();
        for (dir, entries) in &self.feed {
            let entries = entries.iter();
            let entries = entries.map(|(name, meta)| Entry { name, meta: *meta });
            let entries: Vec<Entry<'_>> = entries.collect();
            give(&mut *worker, root, dir, &entries);
        }
    }

    /// Emits the rows of a catalog that still hold to a collector, with the device and the mount of today.
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
            let (dirs, names) = (reader.read(DIR, group)?, reader.read(NAME, group)?);
            let meta = reader.metas(group)?;
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
                give(&mut *worker, root, dir, &entries);
            }
            Ok(())
        };
        each_group(reader, read, |_, ()| {})
    }
}

/// Gives entries of a directory below `root` to a worker, as a walk of that does.
pub(crate) fn give(worker: &mut dyn Worker, root: &[u8], dir: &[u8], entries: &[Entry<'_>]) {
    let dir = Dir {
        path: &joined(root, dir),
        key: DirKey::top(0).at(dir),
    };
    worker.take(&dir, entries);
}

/// Why it is not known what differs.
#[derive(Debug, thiserror::Error)]
pub(super) enum Doubt {
    #[error("the tree is being changed, or something is mounted")]
    Strange,
    #[error(transparent)]
    Catalog(#[from] Error),
}

impl From<Errno> for Doubt {
    fn from(_: Errno) -> Doubt {
        Doubt::Strange
    }
}

pub(super) type Certain<T> = Result<T, Doubt>;

/// `None` where there is any doubt.
pub(super) fn certain<T>(found: Certain<T>) -> Result<Option<T>, Error> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Doubt::Strange) => Ok(None),
        Err(Doubt::Catalog(error)) => Err(error),
    }
}

/// So many inodes mostly tell whether many of all have changed: then the walk can begin at once.
pub(super) const SAMPLE: usize = 4096;

/// With so many changes, a walk of everything is as fast.
pub(super) fn is_much(changes: usize, about: &About) -> bool {
    changes as u64 > about.entries / 4
}
