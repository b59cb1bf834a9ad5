//! Threads of the engine `ext4` that share the work of a stage of the walk.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use base::pool::in_threads;

use super::device::Device;
use crate::job::Job;

pub(super) struct Crew<'a> {
    pub(super) job: &'a Job<'a>,
    pub(super) device: &'a Device,
    pub(super) threads: usize,
}

impl Crew<'_> {
    /// Shares items among threads, `most` at a time. Each thread has its own state. For at most
    /// `most` items no thread is started.
    pub(super) fn share<S: Send>(
        &self,
        items: usize,
        most: usize,
        states: &mut [S],
        work: impl Fn(&mut S, ItemClaims<'_>) + Sync,
    ) {
        let claims = ItemClaims {
            next: &AtomicUsize::new(0),
            items,
            most,
            job: self.job,
        };
        let threads = items.div_ceil(most).min(states.len());
        in_threads(&mut states[..threads], |state| work(state, claims));
    }
}

/// Items that no thread has claimed, as an iterator over ranges.
#[derive(Clone, Copy)]
pub(super) struct ItemClaims<'a> {
    next: &'a AtomicUsize,
    items: usize,
    most: usize,
    job: &'a Job<'a>,
}

impl Iterator for ItemClaims<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let from = self.next.fetch_add(self.most, Relaxed);
        (from < self.items && !self.job.is_over()).then(|| from..self.items.min(from + self.most))
    }
}
