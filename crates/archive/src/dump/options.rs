//! The options of a dump, and its summary.

use std::sync::Arc;

use base::Warning;
use catalog::Options;
use walk::{FileType, Meta, Moment, ReachableMounts};

use crate::compression::Compress;
use crate::error::Error;
use crate::gather::{CollectOptions, Gather, Gathered, SortedNames};
use crate::increment::automatic::Automatic;
use crate::increment::levels::Level;

/// The options of a dump.
#[derive(Clone, Debug, Default)]
pub struct DumpOptions {
    /// Directories and files to dump, as given on the command line.
    pub sources: Vec<Vec<u8>>,
    /// If set, only these names below the one source are dumped.
    pub listed: Option<Arc<SortedNames>>,
    /// The archive; `-` is standard output, `None` writes nothing (`--no-output`).
    pub archive: Option<Vec<u8>>,
    /// How the archive is compressed.
    pub compress: Compress,
    /// The base catalog of an increment.
    pub since: Option<Vec<u8>>,
    /// The catalog to write.
    pub catalog: Option<Vec<u8>>,
    /// The level, and the state directory, which then determine both catalogs.
    pub level: Option<Level>,
    /// How the level and the archive were chosen, if the user has not chosen them.
    pub automatic: Option<Arc<Automatic>>,
    /// The gathering method; `None` for the best one of each mount.
    pub gather: Option<Gather>,
    /// Number of threads; `None` for one per processor.
    pub threads: Option<usize>,
    /// The entries to exclude.
    pub selection: Options,
    /// Further files that are written during the dump, and so are excluded from it.
    pub own: Vec<Vec<u8>>,
    /// The mounts around the sources, if they were read.
    pub around: Option<Arc<ReachableMounts>>,
}

/// The summary of a dump.
#[derive(Clone, Debug, Default)]
pub struct DumpSummary {
    /// The level of the dump: 0 if there was no dump of a lower level.
    pub level: Option<u8>,
    /// The mounts of the tree.
    pub parts: Vec<Gathered>,
    /// The base catalog.
    pub since: Option<Vec<u8>>,
    /// Number of entries in the tree.
    pub entries: u64,
    /// Entries whose metadata was read.
    pub gathered: u64,
    /// Directories among the entries.
    pub directories: u64,
    /// The members of the archive.
    pub counts: Counts,
    /// The size of the archive.
    pub archive_bytes: u64,
    /// Entries of the base that no longer exist.
    pub removed: u64,
    /// Directories of the base that were renamed.
    pub renamed: u64,
    /// Entries that are unchanged since the base.
    pub unchanged: u64,
    /// Notes for the user that are no warnings.
    pub notes: Vec<Note>,
    /// Warnings: entries skipped or found wrong.
    pub warnings: Vec<Warning>,
}

impl DumpOptions {
    /// The options for collecting metadata. `for_catalog`: the moment at which the dump began, if a
    /// catalog is written.
    pub fn collect_options(&self, for_catalog: Option<Moment>) -> CollectOptions {
        CollectOptions {
            sources: self.sources.clone(),
            listed: self.listed.clone(),
            gather: self.gather,
            threads: self.threads,
            selection: self.selection.clone(),
            for_catalog,
            expected: None,
            around: self.around.clone(),
        }
    }
}

/// A note for the user that is no warning.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Note {
    /// This prefix of a source was stripped from member names.
    PrefixLeftOut(Vec<u8>),
    /// There is no dump of a level below this one, so the dump is full and counts as level 0.
    NoLowerLevel(u8),
    /// A SRC is on a different file system than in the base, so the dump is full.
    OtherFileSystem {
        /// SRC as given.
        source_path: Vec<u8>,
    },
    /// The state directory is below a SRC, and was skipped.
    StateLeftOut(Vec<u8>),
    /// Sockets were skipped, since tar cannot store them.
    SocketsLeftOut {
        /// The first socket.
        path: Vec<u8>,
        /// Number of further sockets.
        more: u64,
    },
    /// A file that the dump itself writes was skipped.
    OwnFileLeftOut(Vec<u8>),
    /// The catalog lacks checksums of some files, because its base has none.
    ChecksumsMissing,
}

/// The members of an archive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Number of all members.
    pub dumped: u64,
    /// Number of regular files.
    pub files: u64,
    /// Number of directories.
    pub directories: u64,
    /// Number of symlinks.
    pub symlinks: u64,
    /// Number of hard links to other members.
    pub links: u64,
    /// Number of members of other types: FIFOs and devices.
    pub other: u64,
    /// Total size of all files, holes included.
    pub bytes: u64,
}

impl Counts {
    /// Counts a member of a type, with the size of a file.
    pub(super) fn add(&mut self, kind: FileType, is_link: bool, size: u64) {
        self.dumped += 1;
        let count = match kind {
            _ if is_link => &mut self.links,
            FileType::Regular => &mut self.files,
            FileType::Directory => &mut self.directories,
            FileType::Symlink => &mut self.symlinks,
            _ => &mut self.other,
        };
        *count += 1;
        if kind == FileType::Regular && !is_link {
            self.bytes = self.bytes.saturating_add(size);
        }
    }
}

/// A line of the map: a member of the archive.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// The metadata of the member.
    pub meta: &'a Meta,
    /// Whether the member is a hard link.
    pub is_link: bool,
    /// The name in the archive, without a slash at the end.
    pub path: &'a [u8],
}

/// Writes the map: the list of dumped members.
pub trait Map {
    /// Adds a member to the map.
    fn add(&mut self, line: &Line<'_>) -> Result<(), Error>;

    /// Flushes all lines of the map, so that an error is reported before the archive is renamed
    /// into place.
    fn end(&mut self) -> Result<(), Error>;

    /// Renames the map into place, after the archive and before the catalog.
    fn publish(&mut self) -> Result<(), Error>;
}
