//! Where entries go.

use crate::engine::{By, Ground};
use crate::entry::{Dir, Entry};

/// Takes what a walk finds. Each thread of an engine gets a [`Worker`] of its own, so that nobody waits for anybody.
pub trait Sink: Sync {
    /// A place for one thread to put what it finds; what it has is handed in when it is dropped.
    fn worker(&self) -> Box<dyn Worker + '_>;

    /// A mount is about to be walked. Nothing of it that is handed over later has been read yet.
    fn begin(&self, _ground: &Ground<'_>, _by: By) {}

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
    /// Takes some of what is in a directory. What is in one directory may come in several pieces, from several threads.
    fn take(&mut self, dir: &Dir<'_>, entries: &[Entry<'_>]);
}
