//! The receiver of the entries of a walk.

use crate::entry::{Dir, Entry};
use crate::kind::EngineKind;
use crate::top::MountContext;

bitflags::bitflags! {
    /// The fields of an entry that a sink needs.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Fields: u32 {
        /// File name, and path of the directory.
        const NAME = 1;
        /// File type.
        const TYPE = 1 << 14;
        /// File type and permission bits.
        const MODE = 1 << 1;
        /// Number of hard links.
        const NLINK = 1 << 2;
        /// User id of the owner.
        const UID = 1 << 3;
        /// Group id.
        const GID = 1 << 4;
        /// Size in bytes.
        const SIZE = 1 << 5;
        /// Allocated space.
        const BLOCKS = 1 << 6;
        /// Inode number and device.
        const INODE = 1 << 7;
        /// Inode number and device, but only of files with several names.
        const LINKED_INODE = 1 << 13;
        /// Time of the last access.
        const ATIME = 1 << 8;
        /// Time of the last change of the contents.
        const MTIME = 1 << 9;
        /// Time of the last change of the inode.
        const CTIME = 1 << 10;
        /// Time of creation.
        const BTIME = 1 << 11;
        /// All other fields.
        const REST = 1 << 12;
    }
}

impl Fields {
    /// Whether getdents64(2) returns all of these fields, so that no inode needs to be read.
    pub fn are_in_names(self) -> bool {
        Fields::NAME.union(Fields::TYPE).contains(self)
    }
}

/// Receives the entries of a walk. Each thread of an engine gets its own [`Worker`], so that no
/// thread waits for another.
pub trait Sink: Sync {
    /// Creates the worker for one thread. It may pass its entries on only when it is dropped.
    fn worker(&self) -> Box<dyn Worker + '_>;

    /// Called before a mount is walked, and before the metadata of any of its entries is read.
    fn begin(&self, _context: &MountContext<'_>, _by: EngineKind) {}

    /// Whether the sink needs [`Dir::path`].
    fn wants_paths(&self) -> bool {
        true
    }

    /// The fields that the sink needs of each entry. Other fields may be missing: in the entries of
    /// a catalog, and in walks where names suffice.
    fn fields(&self) -> Fields {
        Fields::all()
    }

    /// Whether the sink implements [`Worker::pass_over`].
    fn wants_shape(&self) -> bool {
        false
    }

    /// Whether the walk can stop: the reader of the output has closed it, or the disk is full.
    fn is_closed(&self) -> bool {
        false
    }
}

/// Receives the entries that one thread of an engine finds.
pub trait Worker {
    /// Takes some of the entries of a directory. The entries of one directory may come in several
    /// calls, from several threads.
    fn take(&mut self, dir: &Dir<'_>, entries: &[Entry<'_>]);

    /// Takes entries that [predicates](crate::predicate) did not select, for a worker that needs
    /// the whole tree, such as disk usage.
    fn pass_over(&mut self, _dir: &Dir<'_>, _entries: &[Entry<'_>]) {}

    /// Prints the buffered entries: the next ones may come much later.
    fn flush(&mut self) {}
}

/// Passes every entry to two sinks.
pub struct SinkPair<'a>(pub &'a dyn Sink, pub &'a dyn Sink);

impl Sink for SinkPair<'_> {
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
