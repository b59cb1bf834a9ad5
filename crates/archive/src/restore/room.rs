//! How many descriptors the parts of a restore may hold open.

use gate::process::spare_open_files;

use super::trail;

/// A share of the descriptors that may be open (RLIMIT_NOFILE) for each part.
#[derive(Clone, Copy)]
pub(super) struct Room {
    /// Directories from DIR down to the current one; as many while a tree is removed.
    pub(super) directories: usize,
    /// Batches of entries that wait or are in work: each may hold another directory.
    pub(super) batches: usize,
    /// Threads: each may open two files.
    pub(super) threads: usize,
}

impl Room {
    pub(super) fn new() -> Room {
        let share = (spare_open_files() / 4).max(2);
        Room {
            directories: share.min(trail::MOST_OPEN),
            batches: share,
            threads: share / 2,
        }
    }
}
