//! Where entries go.

use crate::engine::MountContext;
use crate::entry::{Dir, Entry};
use crate::kind::EngineKind;

/// Takes what a walk finds. Each thread of an engine gets a [`Worker`] of its own, so that nobody
/// waits for anybody.
pub trait Sink: Sync {
    /// A place for one thread to put what it finds; what it has is handed in when it is dropped.
    fn worker(&self) -> Box<dyn Worker + '_>;

    /// A mount is about to be walked. Nothing of it that is handed over later has been read yet.
    fn begin(&self, _ground: &MountContext<'_>, _by: EngineKind) {}

    /// Whether [`Dir::path`] is looked at.
    fn wants_paths(&self) -> bool {
        true
    }

    /// Whether there is no use in going on: nobody reads what is written, or the disk is full.
    fn is_closed(&self) -> bool {
        false
    }
}

/// One thread's place to put entries.
pub trait Worker {
    /// Takes some of what is in a directory. What is in one directory may come in several pieces,
    /// from several threads.
    fn take(&mut self, dir: &Dir<'_>, entries: &[Entry<'_>]);
}

/// Hands everything to two sinks.
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
}
