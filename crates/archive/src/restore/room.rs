//! Limits on open descriptors for the parts of a restore.

use gate::process::spare_open_files;

use super::trail;

/// Each part's share of the descriptor limit (RLIMIT_NOFILE).
#[derive(Clone, Copy)]
pub(super) struct DescriptorShares {
    /// Maximum number of open directories from DIR down to the current one; as many again while a
    /// tree is removed.
    pub(super) directories: usize,
    /// Maximum number of batches queued or in work, each of which may keep a directory open.
    pub(super) batches: usize,
    /// Maximum number of worker threads, each of which may open two files.
    pub(super) threads: usize,
}

impl DescriptorShares {
    pub(super) fn new() -> DescriptorShares {
        let share = (spare_open_files() / 4).max(2);
        DescriptorShares {
            directories: share.min(trail::MOST_OPEN),
            batches: share,
            threads: share / 2,
        }
    }
}
