//! Files with several names, each counted once, in bounded memory.
//!
//! One pass over the entries remembers up to a number of such files. If there are more, the passes
//! after it read the same entries again, and each counts the files of one share, by a hash of the
//! inode:
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

/// The files that a pass counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LinkPass {
    /// Single names, and all files with several.
    First,
    /// Only files with several names, of one share.
    Share {
        /// The number of the share, from 0.
        nth: u64,
        /// How many shares there are.
        of: u64,
    },
}

/// Maps, so that threads seldom wait for each other.
const MAPS: usize = 16;

/// Files with several names, each with the least key `K`, and what belongs to that.
pub(super) struct Links<K, V> {
    /// Shared by threads, so that no file is in memory once per thread.
    maps: [Mutex<HashMap<LinkedFile, (K, V)>>; MAPS],
    /// How many names were added in this pass.
    names: AtomicU64,
    files: AtomicUsize,
    /// How many files are remembered, at most.
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

    /// Adds a name, whose key `is_less` compares with that of another name.
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

    /// The files of a pass; or after the first one, if there were too many, the number of shares
    /// that are to be read again.
    pub(super) fn take(&self, pass: LinkPass) -> Result<impl Iterator<Item = (K, V)>, u64> {
        let are_too_many = pass == LinkPass::First && self.are_too_many();
        self.files.store(0, Relaxed);
        let maps = self
            .maps
            .each_ref()
            .map(|map| std::mem::take(&mut *map.lock()));
        if are_too_many {
            // Each share has half of the most files, on average: names are at least as many as files.
            let half = (self.most.load(Relaxed) as u64 / 2).max(1);
            return Err(self.names.swap(0, Relaxed).div_ceil(half));
        }
        Ok(maps.into_iter().flat_map(HashMap::into_values))
    }
}
