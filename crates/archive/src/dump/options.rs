//! The options of a dump, and its summary.

use std::sync::Arc;

use base::Warning;
use catalog::Options;
use walk::{Around, FileType, Meta, Moment};

use crate::compression::Compress;
use crate::error::Error;
use crate::gather::{CollectOptions, Gather, Gathered, Listed};
use crate::increment::automatic::Automatic;
use crate::increment::levels::Level;

/// The options of a dump.
#[derive(Clone, Debug, Default)]
pub struct DumpOptions {
    /// Directories and files, as they were given.
    pub sources: Vec<Vec<u8>>,
    /// If set, only these names below the one source are dumped.
    pub listed: Option<Arc<Listed>>,
    /// The archive; `-` is standard output, `None` discards it.
    pub archive: Option<Vec<u8>>,
    /// How the archive is compressed.
    pub compress: Compress,
    /// The base catalog of an increment.
    pub since: Option<Vec<u8>>,
    /// The catalog to write.
    pub catalog: Option<Vec<u8>>,
    /// Chooses both catalogs.
    pub level: Option<Level>,
    /// What has chosen the level and the archive, if the user has not.
    pub automatic: Option<Arc<Automatic>>,
    /// The way of gathering; `None` for the best one of each mount.
    pub gather: Option<Gather>,
    /// Threads; `None` for one per processor.
    pub threads: Option<usize>,
    /// What is excluded.
    pub selection: Options,
    /// Other files that are being written: they are not dumped.
    pub own: Vec<Vec<u8>>,
    /// The mounts around the sources, if they were asked.
    pub around: Option<Arc<Around>>,
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
    /// Entries that were found.
    pub entries: u64,
    /// Entries whose metadata was read.
    pub gathered: u64,
    /// Directories among them.
    pub directories: u64,
    /// The members of the archive.
    pub counts: Counts,
    /// The size of the archive.
    pub archive_bytes: u64,
    /// Entries of the base that are gone.
    pub removed: u64,
    /// Directories of the base that were renamed.
    pub renamed: u64,
    /// Entries that are unchanged since the base.
    pub unchanged: u64,
    /// What the user should know, though nothing is wrong.
    pub notes: Vec<Note>,
    /// What was skipped or found wrong.
    pub warnings: Vec<Warning>,
}

impl DumpOptions {
    /// What to collect; for a catalog, with the moment at which the dump began.
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

/// What the user should know, though nothing is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Note {
    /// The names in the archive do not begin with this prefix of a source.
    PrefixLeftOut(Vec<u8>),
    /// There is no dump of a level below this one: everything is dumped, as level 0.
    NoLowerLevel(u8),
    /// A SRC is on a different file system than in the base: everything is dumped.
    OtherFileSystem {
        /// As it was given.
        source_path: Vec<u8>,
    },
    /// A SRC is another file or directory than in the base: everything is dumped.
    OtherSource {
        /// As it was given.
        source_path: Vec<u8>,
    },
    /// The state directory is in a SRC. It is not dumped.
    StateLeftOut(Vec<u8>),
    /// Sockets are in no archive.
    SocketsLeftOut {
        /// The first one.
        path: Vec<u8>,
        /// How many there are besides.
        more: u64,
    },
    /// A file that the dump itself writes is not dumped.
    OwnFileLeftOut(Vec<u8>),
    /// The catalog has no checksums of some files, because its base has none.
    ChecksumsMissing,
}

/// The members of an archive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// All members.
    pub dumped: u64,
    /// Plain files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symlinks.
    pub symlinks: u64,
    /// Hard links to other members.
    pub links: u64,
    /// Other types.
    pub other: u64,
    /// The sizes of all files, holes included.
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
    /// The metadata.
    pub meta: &'a Meta,
    /// It is a hard link.
    pub is_link: bool,
    /// The name in the archive, without a slash at the end.
    pub path: &'a [u8],
}

/// A list of what was dumped, written along with the archive.
pub trait Map {
    /// Adds a member.
    fn add(&mut self, line: &Line<'_>) -> Result<(), Error>;

    /// Writes all lines, so that an error shows before the archive has its name.
    fn end(&mut self) -> Result<(), Error>;

    /// Gives the map its name, after the archive and before the catalog.
    fn publish(&mut self) -> Result<(), Error>;
}
