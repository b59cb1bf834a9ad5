//! How far a dump is.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::plan::Plan;
use crate::rows::Rows;

/// How far a dump is, for whoever watches.
#[derive(Debug, Default)]
pub struct Progress {
    entries: AtomicU64,
    bytes: AtomicU64,
    all_entries: AtomicU64,
    all_bytes: AtomicU64,
}

/// See [`Progress::far`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Far {
    /// Entries that are done, and all that there are to do.
    pub entries: (u64, u64),
    /// Bytes that are written, before they are compressed, and about how many it will be.
    pub bytes: (u64, u64),
}

impl Progress {
    /// How far it is; `None` while it is being found out what there is.
    pub fn far(&self) -> Option<Far> {
        let of = |done: &AtomicU64, all: &AtomicU64| (done.load(Relaxed), all.load(Relaxed));
        let far = Far {
            entries: of(&self.entries, &self.all_entries),
            bytes: of(&self.bytes, &self.all_bytes),
        };
        (far.entries.1 > 0).then_some(far)
    }

    /// Says what there is to do.
    pub(super) fn begin(&self, rows: &Rows, plan: &Plan) {
        /// What headers come to, about.
        const HEADERS: u64 = 3 * 512;
        let weights = plan.busy().map(|row| plan.weight(rows, row));
        let (entries, bytes) = weights.fold((0, 0u64), |(n, sum), bytes| {
            (n + 1, sum.saturating_add(bytes + HEADERS))
        });
        self.all_bytes.store(bytes, Relaxed);
        self.all_entries.store(entries, Relaxed);
    }

    pub(super) fn add_entry(&self) {
        self.entries.fetch_add(1, Relaxed);
    }

    pub(super) fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }
}
