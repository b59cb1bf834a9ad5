//! What a dump is told, and what it reports.

use mounts::Warning;
use walk::{Meta, Moment};

use crate::catalog::Options;
use crate::error::Error;
use crate::gather::{CollectOptions, Gather, Gathered};
use crate::increment::levels::Level;

/// What to dump, and where to.
#[derive(Clone, Debug, Default)]
pub struct DumpOptions {
    /// Directories and files, as they were given.
    pub sources: Vec<Vec<u8>>,
    /// Where the archive goes; `-` is standard output. `None` to do everything but write it.
    pub archive: Option<Vec<u8>>,
    /// The catalog that an increment goes on from.
    pub since: Option<Vec<u8>>,
    /// Where a catalog goes, if there is to be one.
    pub catalog: Option<Vec<u8>>,
    /// Says which catalogs these two are.
    pub level: Option<Level>,
    /// The way of gathering; `None` for what is best for each mount.
    pub gather: Option<Gather>,
    /// Threads; `None` for as many as are good.
    pub threads: Option<usize>,
    /// What is left out.
    pub selection: Options,
    /// Files that are left out besides: what else is being written.
    pub own: Vec<Vec<u8>>,
}

/// What came of a dump.
#[derive(Clone, Debug, Default)]
pub struct DumpSummary {
    /// The mounts that were gathered, or would have been.
    pub parts: Vec<Gathered>,
    /// The catalog that it goes on from.
    pub since: Option<Vec<u8>>,
    /// Entries that were found.
    pub entries: u64,
    /// Entries that were gathered.
    pub gathered: u64,
    /// Of them, directories.
    pub directories: u64,
    /// What came into the archive.
    pub counts: Counts,
    /// What was written, compressed if it is.
    pub archive_bytes: u64,
    /// Entries of the base that are gone.
    pub removed: u64,
    /// Directories of the base that have another name.
    pub renamed: u64,
    /// Entries that are as they were in the base.
    pub unchanged: u64,
    /// What the user should know, and is nothing wrong.
    pub notes: Vec<Note>,
    /// What was skipped or found wrong.
    pub warnings: Vec<Warning>,
}

impl DumpOptions {
    /// What to collect; with a moment, for a catalog of it.
    pub fn collect_options(&self, for_catalog: Option<Moment>) -> CollectOptions {
        CollectOptions {
            sources: self.sources.clone(),
            gather: self.gather,
            threads: self.threads,
            one_file_system: self.selection.one_file_system,
            excludes: self.selection.excludes.clone(),
            for_catalog,
            max_depth: self.selection.max_depth,
            expected: None,
        }
    }
}

/// Something that the user should know, and that is nothing wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Note {
    /// The names in the archive do not begin with this prefix of a source.
    PrefixLeftOut(Vec<u8>),
    /// The archive has a name of a compressed one, and is not compressed.
    Uncompressed(Vec<u8>),
    /// There is no dump of a lower level: everything is dumped.
    NoLowerLevel(u8),
    /// A file that the dump itself writes is left out.
    OwnFileLeftOut(Vec<u8>),
    /// The catalog has no checksums of some files, because its base has none.
    ChecksumsMissing,
}

/// What came into the archive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Members.
    pub dumped: u64,
    /// Of them, plain files,
    pub files: u64,
    /// directories,
    pub directories: u64,
    /// symlinks,
    pub symlinks: u64,
    /// further names of files,
    pub links: u64,
    /// and all else.
    pub other: u64,
    /// Sizes of the files together, holes included.
    pub bytes: u64,
}

/// A line of the map: what came into the archive, as it is there.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// What is known of it.
    pub meta: &'a Meta,
    /// Whether it is but another name.
    pub is_link: bool,
    /// Its name in the archive, without the slash at the end of a directory's.
    pub path: &'a [u8],
}

/// A list of what was dumped, written along with the archive.
pub trait Map {
    /// Adds a member.
    ///
    /// # Errors
    /// It cannot be written.
    fn add(&mut self, line: &Line<'_>) -> Result<(), Error>;

    /// Writes everything that is pending, so that an error shows before the archive has its name.
    ///
    /// # Errors
    /// It cannot be written.
    fn end(&mut self) -> Result<(), Error>;

    /// Gives the map its name, after the archive has its own and before the catalog gets one.
    ///
    /// # Errors
    /// It cannot be done.
    fn publish(&mut self) -> Result<(), Error>;
}
