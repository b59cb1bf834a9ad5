//! The receiver of the entries of a walk.

use crate::entry::{Dir, Entry};
use crate::kind::EngineKind;
use crate::top::MountContext;

/// Receives the entries of a walk. Each thread of an engine gets its own [`Worker`], so that no thread
/// waits for another.
pub trait Sink: Sync {
    /// A worker for one thread. It may pass its entries on only when it is dropped.
    fn worker(&self) -> Box<dyn Worker + '_>;

    /// Called before a mount is walked, and before any metadata of its entries is read.
    fn begin(&self, _context: &MountContext<'_>, _by: EngineKind) {}

    /// Whether [`Dir::path`] is needed.
    fn wants_paths(&self) -> bool {
        true
    }

    /// Whether the walk can stop: the reader of the output has gone, or the disk is full.
    fn is_closed(&self) -> bool {
        false
    }
}

/// Receives the entries that one thread finds.
pub trait Worker {
    /// Takes some of the entries of a directory. Those of one directory may come in several pieces,
    /// from several threads.
    fn take(&mut self, dir: &Dir<'_>, entries: &[Entry<'_>]);

    /// Takes entries that [predicates](crate::predicate) did not select, for a worker that needs the
    /// shape of the tree.
    fn pass_over(&mut self, _dir: &Dir<'_>, _entries: &[Entry<'_>]) {}
}

/// Passes every entry to two sinks.
pub struct Both<'a>(pub &'a dyn Sink, pub &'a dyn Sink);

impl Sink for Both<'_> {
    fn begin(&self, context: &MountContext<'_>, by: EngineKind) {
        self.0.begin(context, by);
        self.1.begin(context, by);
    }

    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new((self.0.worker(), self.1.worker()))
    }

    fn wants_paths(&self) -> bool {
        self.0.wants_paths() || self.1.wants_paths()
    }

    fn is_closed(&self) -> bool {
        self.0.is_closed() || self.1.is_closed()
    }
}

impl Worker for (Box<dyn Worker + '_>, Box<dyn Worker + '_>) {
    fn take(&mut self, dir: &Dir<'_>, entries: &[Entry<'_>]) {
        self.0.take(dir, entries);
        self.1.take(dir, entries);
    }

    fn pass_over(&mut self, dir: &Dir<'_>, entries: &[Entry<'_>]) {
        self.0.pass_over(dir, entries);
        self.1.pass_over(dir, entries);
    }
}
