//! The progress of a dump.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use catalog::rows::Rows;

use crate::plan::Plan;

/// The progress of a dump, readable from other threads.
#[derive(Debug, Default)]
pub struct Progress {
    entries: AtomicU64,
    bytes: AtomicU64,
    all_entries: AtomicU64,
    all_bytes: AtomicU64,
}

impl Progress {
    /// The numbers of entries done and in total, then the numbers of bytes written and
    /// (approximately) in total, before compression; `None` while the tree is being collected.
    pub fn done(&self) -> Option<((u64, u64), (u64, u64))> {
        let load = |done: &AtomicU64, all: &AtomicU64| (done.load(Relaxed), all.load(Relaxed));
        let entries = load(&self.entries, &self.all_entries);
        (entries.1 > 0).then(|| (entries, load(&self.bytes, &self.all_bytes)))
    }

    /// Sets the totals from the rows of the plan for which `is_selected` is true.
    pub(super) fn begin(&self, rows: &Rows, plan: &Plan, is_selected: impl Fn(usize) -> bool) {
        /// Approximate size of the headers of a member.
        const HEADERS: u64 = 3 * 512;
        let (mut entries, mut bytes, mut next) = (0, 0u64, 0);
        while let Some(row) = plan.next_written(next) {
            if is_selected(row) {
                entries += 1;
                bytes = bytes.saturating_add(plan.bytes(rows, row) + HEADERS);
            }
            next = row + 1;
        }
        self.begin_with(entries, bytes);
    }

    /// Sets the totals of entries and bytes.
    pub fn begin_with(&self, entries: u64, bytes: u64) {
        self.all_bytes.store(bytes, Relaxed);
        self.all_entries.store(entries, Relaxed);
    }

    /// Counts an entry as done.
    pub fn add_entry(&self) {
        self.entries.fetch_add(1, Relaxed);
    }

    /// Counts bytes of the archive as done.
    pub fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }
}
