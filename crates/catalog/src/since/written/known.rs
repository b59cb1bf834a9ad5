//! The inodes of a catalog by number, each with a fingerprint. Fingerprints distinguish changed
//! inodes from inodes that were only read: reading changes only the access time.

use base::pool::each;
use gate::sync::Mutex;
use walk::entry::Time;
use walk::{Fields, Meta};

use crate::error::Error;
use crate::format::{Reader, RowColumns, state_words};
use crate::since::index::hashed;

/// Inodes of a catalog, sorted by number.
pub(super) struct CatalogInodes(Vec<(u64, Fingerprint)>);

impl CatalogInodes {
    /// Reads the inodes that `is_wanted` accepts, in the first `groups` row groups.
    pub(super) fn load(
        reader: &Reader,
        groups: usize,
        is_wanted: impl Fn(u64) -> bool + Sync,
    ) -> Result<CatalogInodes, Error> {
        let read = |group: usize| {
            let columns = RowColumns::new(reader, group);
            let inos = columns.inos()?;
            let rows = (0..inos.len()).filter(|&row| is_wanted(inos[row]));
            let rows: Vec<usize> = rows.collect();
            if rows.is_empty() {
                return Ok(Vec::new());
            }
            let unread = Fields::UID | Fields::GID | Fields::BTIME | Fields::REST;
            let metas = columns.metas(Fields::all() - unread)?;
            let one = |row: usize| (inos[row], Fingerprint::from_meta(&metas(row)));
            Ok::<_, Error>(rows.into_iter().map(one).collect::<Vec<_>>())
        };
        let mut known = Vec::new();
        each(groups, read, |_, some| known.extend(some))?;
        known.sort(); // a stable sort is fast on sorted runs
        known.dedup_by(|later, first| {
            // Rows of one inode with different metadata must match nothing.
            let is_one = later.0 == first.0;
            if is_one && later.1 != first.1 {
                first.1.stands = !first.1.stands;
            }
            is_one
        });
        Ok(CatalogInodes(known))
    }

    /// All inodes, sorted by number.
    pub(super) fn inodes(&self) -> &[(u64, Fingerprint)] {
        &self.0
    }

    pub(super) fn get(&self, ino: u64) -> Option<&Fingerprint> {
        let found = self.0.binary_search_by_key(&ino, |(ino, _)| *ino);
        found.ok().map(|at| &self.0[at].1)
    }
}

/// A fingerprint of an inode's metadata.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fingerprint {
    /// Hash of [`state_words`].
    stands: u64,
    /// Number of blocks, compared separately: XFS may free preallocated blocks without any other
    /// change.
    blocks: u64,
    /// Hash of the access time.
    atime: u64,
}

impl Fingerprint {
    fn from_meta(meta: &Meta) -> Fingerprint {
        let stands = hashed(state_words(meta));
        let atime = hashed([meta.atime.sec.cast_unsigned(), meta.atime.nsec.into()]);
        Fingerprint {
            stands,
            blocks: meta.blocks,
            atime,
        }
    }

    /// Whether an inode is unchanged; 0 blocks match any number. If the inode was only read, its
    /// new access time is added to `atimes`.
    pub(super) fn is_same(&self, meta: &Meta, atimes: &Mutex<AccessTimes>) -> bool {
        let now = Fingerprint::from_meta(meta);
        let is_same = self.stands == now.stands && (self.blocks == now.blocks || now.blocks == 0);
        if is_same && self.atime != now.atime {
            atimes.lock().0.push((meta.ino, meta.atime));
        }
        is_same
    }
}

/// New access times of inodes that were only read since a catalog.
#[derive(Default)]
pub(crate) struct AccessTimes(Vec<(u64, Time)>);

impl AccessTimes {
    /// Creates the list from the access times of all inodes, sorted by inode number.
    pub(super) fn new(all: Vec<(u64, Time)>) -> AccessTimes {
        AccessTimes(all)
    }

    /// Sorts by inode number, before any lookup.
    pub(super) fn sort(&mut self) {
        self.0.sort_unstable_by_key(|(ino, _)| *ino);
    }

    /// The new access time of an inode, if it differs from the catalog.
    pub(crate) fn get(&self, ino: u64) -> Option<Time> {
        let found = self.0.binary_search_by_key(&ino, |(ino, _)| *ino);
        found.ok().map(|at| self.0[at].1)
    }
}
