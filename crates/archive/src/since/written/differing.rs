//! What differs from a catalog, as far as it is known.

use crate::error::Error;
use std::collections::{BTreeMap, HashMap, HashSet};

use gate::Errno;
use walk::entry::{Time, joined};
use walk::{Dir, Entry, Meta, Sink, Worker};

use crate::catalog::About;
use crate::since::index::hash;

/// What a file system says was written.
#[derive(Default)]
pub(super) struct Written {
    pub(super) inos: HashSet<u64>,
    /// The paths of directories among it, below DIR.
    pub(super) dirs: HashMap<u64, Vec<u8>>,
    /// Its entries.
    pub(super) feed: Feed,
}

/// What is not as a catalog has it.
#[derive(Default)]
pub(crate) struct Differing {
    /// Places of the rows that no longer hold, in ascending order.
    pub(crate) places: Vec<u32>,
    /// What is there instead of these.
    pub(super) feed: Feed,
    /// Access times of other inodes, where they are not the catalog's.
    pub(crate) atimes: HashMap<u64, Time>,
}

/// Entries by the directory that they are in, below DIR.
pub(super) type Feed = BTreeMap<Vec<u8>, Vec<(Vec<u8>, Meta)>>;

impl Differing {
    /// Sends the entries to a sink, as a walk of `root` would.
    pub(crate) fn emit(&self, root: &[u8], to: &dyn Sink) {
        let mut worker = to.worker();
        for (dir, entries) in &self.feed {
            let entries: Vec<Entry<'_>> = entries
                .iter()
                .map(|(name, meta)| Entry { name, meta: *meta })
                .collect();
            give(&mut *worker, root, dir, &entries);
        }
    }
}

/// Gives entries of a directory below `root` to a worker, as a walk of that does.
pub(crate) fn give(worker: &mut dyn Worker, root: &[u8], dir: &[u8], entries: &[Entry<'_>]) {
    let depth = dir
        .split(|&b| b == b'/')
        .filter(|part| !part.is_empty())
        .count() as u32;
    worker.take(
        &Dir {
            path: &joined(root, dir),
            hash: hash(0, dir),
            depth,
        },
        entries,
    );
}

/// Why it is not known what differs.
pub(super) enum Doubt {
    /// The tree does not fit what is known of it: it is being changed, or something is mounted.
    Strange,
    /// The catalog cannot be read.
    Catalog(Error),
}

impl From<Error> for Doubt {
    fn from(error: Error) -> Doubt {
        Doubt::Catalog(error)
    }
}

impl From<Errno> for Doubt {
    fn from(_: Errno) -> Doubt {
        Doubt::Strange
    }
}

/// `None` where there is any doubt.
pub(super) fn certain<T>(found: Result<T, Doubt>) -> Result<Option<T>, Error> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Doubt::Strange) => Ok(None),
        Err(Doubt::Catalog(error)) => Err(error),
    }
}

/// With so many changes, a walk of everything is as fast.
pub(super) fn is_much(changes: usize, about: &About) -> bool {
    changes as u64 > about.entries / 4
}
