//! The receiver of the entries of a walk.

use crate::entry::{Dir, Entry};
use crate::kind::EngineKind;
use crate::top::MountContext;

bitflags::bitflags! {
    /// What a sink needs of an entry.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Fields: u32 {
        /// The name, and the path of the directory.
        const NAME = 1;
        /// The type.
        const TYPE = 1 << 14;
        /// Type and permissions.
        const MODE = 1 << 1;
        /// The number of links.
        const NLINK = 1 << 2;
        /// The owner.
        const UID = 1 << 3;
        /// The group.
        const GID = 1 << 4;
        /// The size.
        const SIZE = 1 << 5;
        /// The allocated space.
        const BLOCKS = 1 << 6;
        /// Inode number and device.
        const INODE = 1 << 7;
        /// The same, but only of files with several names.
        const LINKED_INODE = 1 << 13;
        /// Time of the last access.
        const ATIME = 1 << 8;
        /// Time of the last change of the contents.
        const MTIME = 1 << 9;
        /// Time of the last change of the inode.
        const CTIME = 1 << 10;
        /// Time of creation.
        const BTIME = 1 << 11;
        /// Everything else.
        const REST = 1 << 12;
    }
}

impl Fields {
    /// Whether a directory's own list of names has all of these, so that no inode need be read.
    pub fn are_in_names(self) -> bool {
        Fields::NAME.union(Fields::TYPE).contains(self)
    }
}

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

    /// What is needed of each entry. Anything else may be missing: in the entries of a catalog, and
    /// where the names suffice.
    fn fields(&self) -> Fields {
        Fields::all()
    }

    /// Whether [`Worker::pass_over`] does something.
    fn wants_shape(&self) -> bool {
        false
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

    /// Prints what is buffered: the next entries may come much later.
    fn flush(&mut self) {}
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

    fn fields(&self) -> Fields {
        self.0.fields() | self.1.fields()
    }

    fn wants_shape(&self) -> bool {
        self.0.wants_shape() || self.1.wants_shape()
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

    fn flush(&mut self) {
        self.0.flush();
        self.1.flush();
    }
}
