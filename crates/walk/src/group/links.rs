//! Counts each file with several names once, in bounded memory.
//!
//! The first pass over the entries remembers such files up to a maximum number. If there are more,
//! later passes read the same entries again, and each pass counts one share of the files, by a hash
//! of the inode:
//!
//! ```text
//! first pass:   single names, and all files with several ── too many: counts their names only
//! later passes: ─ files of share 0 ─ files of share 1 ─ ...
//! ```

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use foldhash::{HashMap, quality::FixedState};
use gate::sync::Mutex;
use ondisk::Dev;

/// A file with several names: its device and inode number.
pub type LinkedFile = (Dev, u64);

/// Selects the files that one pass over the entries counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LinkPass {
    /// All files, whether they have one name or several.
    First,
    /// Only files with several names whose hash is in one share.
    Share {
        /// Number of the share, from 0.
        nth: u64,
        of: u64,
    },
}

/// Number of hash maps, each with its lock, so that threads seldom wait for each other.
const MAPS: usize = 16;

/// Files with several names: for each, the smallest key `K` of its names, and the value of that
/// name.
pub(super) struct Links<K, V> {
    /// The maps are common to all threads: a file would otherwise be in memory once per thread.
    maps: [Mutex<HashMap<LinkedFile, (K, V)>>; MAPS],
    /// Number of names that this pass has added.
    names: AtomicU64,
    files: AtomicUsize,
    /// Maximum number of files in memory.
    most: AtomicUsize,
}

impl<K, V> Links<K, V> {
    pub(super) fn new() -> Links<K, V> {
        Links {
            maps: Default::default(),
            names: AtomicU64::new(0),
            files: AtomicUsize::new(0),
            most: AtomicUsize::new(usize::MAX),
        }
    }

    pub(super) fn set_most(&self, files: usize) {
        self.most.store(files, Relaxed);
    }

    fn are_too_many(&self) -> bool {
        self.files.load(Relaxed) > self.most.load(Relaxed)
    }

    /// Adds a name of a file; keeps it if its key is less than that of the known name.
    pub(super) fn add(
        &self,
        pass: LinkPass,
        file: LinkedFile,
        (key, value): (K, V),
        is_less: impl FnOnce(&K, &K) -> bool,
    ) {
        let hash = FixedState::default().hash_one((file.0.major, file.0.minor, file.1));
        match pass {
            LinkPass::First => {
                self.names.fetch_add(1, Relaxed);
                if self.are_too_many() {
                    return;
                }
            }
            LinkPass::Share { nth, of } if hash / MAPS as u64 % of != nth => return,
            LinkPass::Share { .. } => {}
        }
        let mut map = self.maps[hash as usize % MAPS].lock();
        match map.get_mut(&file) {
            Some(known) if is_less(&key, &known.0) => *known = (key, value),
            Some(_) => {}
            None => {
                self.files.fetch_add(1, Relaxed);
                map.insert(file, (key, value));
            }
        }
    }

    /// Empties the maps, and returns the files that a pass has counted. If the first pass found
    /// more files than may be in memory, the error is the number of further passes.
    pub(super) fn take(&self, pass: LinkPass) -> Result<impl Iterator<Item = (K, V)>, u64> {
        let are_too_many = pass == LinkPass::First && self.are_too_many();
        self.files.store(0, Relaxed);
        let maps = self
            .maps
            .each_ref()
            .map(|map| std::mem::take(&mut *map.lock()));
        if are_too_many {
            // On average, a share has at most half the maximum number of files: there are fewer
            // files than names.
            let half = (self.most.load(Relaxed) as u64 / 2).max(1);
            return Err(self.names.swap(0, Relaxed).div_ceil(half));
        }
        Ok(maps.into_iter().flat_map(HashMap::into_values))
    }
}
