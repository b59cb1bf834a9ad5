//! The record of a dump: a line of `dumps.ndjson` in its state directory.

use std::sync::Arc;

use base::path::{or_dot, trim_slashes};
use catalog::remote::{self, Object};
use catalog::{About, Reader, Root, stored, trusted};
use gate::Fd;
use gate::fs::{Open, StatxMask, Whence, lseek};
use gate::long::{open_long, stat_long};
use mounts::root::absolute_file;
use ondisk::pax::ArchiveId;
use serde::{Deserialize, Serialize};
use walk::entry::{Time, joined};

use crate::error::{Action, Error, ErrorKind, Result};
use crate::increment::levels::Level;
use crate::increment::unread::UnreadEntries;
use crate::input::Input;
use crate::list;
use crate::plan::in_archive;

/// The record of a dump in a state directory.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DumpRecord {
    /// When the dump began.
    #[serde(with = "stored::StoredTime")]
    pub date: Time,
    /// The level of the dump.
    pub level: u8,
    /// Absolute path or URL of the archive; `None` if it was written to standard output or a pipe.
    #[serde(flatten, with = "stored::archive")]
    pub archive: Option<Vec<u8>>,
    /// Size of the archive, in bytes.
    pub bytes: u64,
    /// Modification time of the archive, to detect that the file was replaced.
    #[serde(with = "stored::StoredTime")]
    pub(super) modified: Time,
    /// Number of entries in the tree.
    pub entries: u64,
    /// Entries that could not be read; empty in records of older versions.
    #[serde(default, skip_serializing_if = "UnreadEntries::is_empty")]
    pub unread: UnreadEntries,
    /// The id stored in the archive; `None` in records of older versions.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "stored::text"
    )]
    pub(crate) id: Option<ArchiveId>,
    /// The record is in an object store, but the archive is a local file, or an object without id
    /// in a different bucket. Such archives are never touched: write access to the store must not
    /// decide about them.
    #[serde(skip)]
    pub(super) is_elsewhere: bool,
    /// A different dump of the state directory began in the same second, so that only the fraction
    /// of a second distinguishes their dates.
    #[serde(skip)]
    pub shares_second: bool,
    /// Id of the catalog that the dump wrote.
    pub(crate) catalog: String,
    /// Id of the base catalog; `None` for a full dump.
    pub(crate) base: Option<String>,
    /// The SRCs; empty in records of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) roots: Vec<Root>,
    /// Number among the dumps with the same base, from 1; 0 for a full dump, and in records of
    /// older versions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) nth: u32,
    /// The archive's name was chosen by fathom, in the state directory, and its
    /// catalog is kept beside it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_named: bool,
    /// Whether the archive belongs to no dump: the next dump or removal deletes it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_leaving: bool,
    /// The last verification of the archive found damage.
    #[serde(
        default,
        rename = "damaged",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub(super) is_damaged: bool,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The path of the catalog kept beside an archive whose name fathom has chosen.
pub(crate) fn catalog_of(archive: &[u8]) -> Vec<u8> {
    let stem = [".tar.zst", ".tar.gz", ".tar.xz", ".tar"]
        .into_iter()
        .find_map(|suffix| archive.strip_suffix(suffix.as_bytes()));
    [stem.unwrap_or(archive), b".parquet"].concat()
}

/// The id of a catalog, which its copies in a state directory share.
pub(crate) fn catalog_id(about: &About) -> String {
    let Time { sec, nsec } = about.started;
    format!("{sec}.{nsec:09} {}", about.digest)
}

/// Whether the archive of a dump still exists at its path, and is undamaged as far as known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArchiveStatus {
    /// The archive exists.
    Present,
    /// No file exists at the archive's path.
    Missing,
    /// A different file is at the archive's path.
    Replaced,
    /// The archive was written to standard output or a pipe.
    Streamed,
    /// The archive exists, but its last verification found damage.
    Damaged,
}

impl ArchiveStatus {
    /// Whether the archive is still at its path, intact or damaged.
    pub fn exists(self) -> bool {
        matches!(self, ArchiveStatus::Present | ArchiveStatus::Damaged)
    }
}

impl DumpRecord {
    /// Creates the record of a dump whose archive was just renamed into place.
    pub(crate) fn new(
        (date, level, entries): (Time, u8, u64),
        unread: UnreadEntries,
        archive: Option<&[u8]>,
        written: &About,
        base: Option<&About>,
    ) -> Result<DumpRecord> {
        let mut record = DumpRecord {
            date,
            level,
            entries,
            unread,
            id: written.archive,
            catalog: catalog_id(written),
            base: base.map(catalog_id),
            roots: written.roots.clone(),
            ..DumpRecord::default()
        };
        if let Some(path) = archive.filter(|path| *path != b"-") {
            let object =
                remote::open(path).map_err(|e| Error::new(Action::WriteArchive, path, e))?;
            if let Some(object) = object {
                record.archive = Some(path.to_vec());
                (record.bytes, record.modified) = state_of(&*object);
                return Ok(record);
            }
            let seen = stat_long(path, StatxMask::BASIC_STATS)
                .map_err(|e| Error::new(Action::WriteArchive, path, e))?;
            if seen.file_type == gate::fs::FileType::Regular {
                record.archive = absolute_file(path);
                (record.bytes, record.modified) = (seen.size, seen.mtime);
            }
        }
        Ok(record)
    }

    /// Creates the record of an archive that is about to be renamed into place, recognizable by its
    /// id.
    pub(crate) fn announced(archive: Vec<u8>, id: ArchiveId) -> DumpRecord {
        DumpRecord {
            archive: Some(archive),
            id: Some(id),
            is_named: true,
            is_leaving: true,
            ..DumpRecord::default()
        }
    }

    /// The member names of a path on the dumped machine: an absolute path, or one relative to the
    /// only SRC. Paths that are member names already, or begin with a wildcard, stay as they are.
    ///
    /// # Errors
    /// An absolute path is neither in a SRC nor above one.
    pub fn member_names(&self, path: &[u8]) -> Result<Vec<Vec<u8>>> {
        let is_below = |path: &[u8], dir: &[u8]| {
            let rest = path.strip_prefix(trim_slashes(dir));
            rest.is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
        };
        // Records of older versions do not have the SRCs.
        if self.roots.is_empty() {
            return Ok(vec![path.to_vec()]);
        }
        let path = match path {
            [b'/', ..] => [b"/", &list::plain(path)[..]].concat(),
            path => list::plain(path).into_owned(),
        };
        let joined = |root: &Root, rest: &[u8]| {
            or_dot(&joined(in_archive(&root.path), &list::plain(rest))).to_vec()
        };
        if !path.starts_with(b"/") {
            let is_named = |root: &Root| is_below(&path, in_archive(&root.path));
            let begins_wild = matches!(path.first(), None | Some(b'*' | b'?' | b'['));
            return Ok(match &self.roots[..] {
                [only] if !begins_wild && !is_named(only) => vec![joined(only, &path)],
                _ => vec![path],
            });
        }
        let mut names = Vec::new();
        for root in &self.roots {
            let given = Some(&root.path).filter(|path| path.starts_with(b"/"));
            for place in root.absolute.iter().chain(given) {
                let name = match () {
                    () if is_below(&path, place) => {
                        joined(root, &path[trim_slashes(place).len()..])
                    }
                    () if is_below(place, &path) => joined(root, b""),
                    () => continue,
                };
                names.extend((!names.contains(&name)).then_some(name));
            }
        }
        if names.is_empty() {
            let roots = self.roots.iter();
            let roots = roots.map(|root| root.absolute.as_ref().unwrap_or(&root.path).clone());
            let roots = roots.collect();
            return Err(Error::new(
                Action::Restore,
                &path,
                ErrorKind::OutsideSources { roots },
            ));
        }
        Ok(names)
    }

    /// Opens the catalog of a dump, if one is kept: beside the archive, or as the newest one of its
    /// level. Also returns the catalog's path.
    pub fn open_catalog(&self, state: &[u8]) -> Option<(Vec<u8>, Reader)> {
        let beside = self.archive.as_deref().filter(|_| self.is_named);
        let state = state.to_vec();
        let number = self.level;
        let last = Level { number, state }.catalog();
        let own = |path: Vec<u8>| {
            let reader = Reader::open(&path).ok()?;
            (catalog_id(reader.about()) == self.catalog).then_some((path, reader))
        };
        let mut paths = beside.map(catalog_of).into_iter().chain([last]);
        paths.find_map(own)
    }

    /// Looks for the archive at its path.
    pub fn status(&self) -> ArchiveStatus {
        let Some(path) = self.archive.as_ref().filter(|_| !self.is_elsewhere) else {
            return ArchiveStatus::Streamed;
        };
        let file = || stat_long(path, StatxMask::BASIC_STATS).ok();
        let now = match remote::open(path) {
            Ok(Some(object)) => Some(state_of(&*object)),
            Ok(None) => file().map(|seen| (seen.size, seen.mtime)),
            Err(_) => None,
        };
        let present = match self.is_damaged {
            true => ArchiveStatus::Damaged,
            false => ArchiveStatus::Present,
        };
        match now {
            None => ArchiveStatus::Missing,
            Some(now) if now == (self.bytes, self.modified) => present,
            // A copied or touched archive has a new mtime, so compare the id.
            Some((bytes, _)) if bytes == self.bytes && self.has_its_id(path) => present,
            Some(_) => ArchiveStatus::Replaced,
        }
    }

    /// Whether a file contains the id of the dump's archive; `false` for records of older versions,
    /// which have none.
    fn has_its_id(&self, path: &[u8]) -> bool {
        self.id.is_some() && matches!(self.compare_id(path, None, false), Ok(true))
    }

    /// Whether a file, which may be open already, contains the id of the dump's archive. Records of
    /// older versions have no id: their archives are recognized by size and time only. So is an
    /// archive that is known to be damaged, if its id cannot be read.
    pub(super) fn is_archive(
        &self,
        path: &[u8],
        open: Option<&Arc<Fd>>,
    ) -> std::result::Result<bool, ErrorKind> {
        self.compare_id(path, open, self.is_damaged)
    }

    /// Whether a file contains the id of the dump's archive; `if_unreadable` if it has no readable
    /// header.
    fn compare_id(
        &self,
        path: &[u8],
        open: Option<&Arc<Fd>>,
        if_unreadable: bool,
    ) -> std::result::Result<bool, ErrorKind> {
        let Some(id) = self.id else {
            return Ok(true);
        };
        let input = Input::from_file(path, open.cloned());
        match input.and_then(|mut input| input.origin()) {
            Ok(origin) => Ok(origin.lineage.is_some_and(|lineage| lineage.id == id)),
            Err(error) if error.errno().is_some() || error.kind.store().is_some() => {
                Err(error.kind)
            }
            Err(_) => Ok(if_unreadable),
        }
    }

    /// Opens the archive for a restore, and checks that it contains the recorded id. If the record
    /// has no id, the file's owner must be trusted. `None` for an object in a store.
    ///
    /// # Errors
    /// The archive cannot be opened, or the file is a different one.
    pub(crate) fn open(&self, archive: &[u8]) -> Result<Option<Arc<Fd>>> {
        let error = |kind: ErrorKind| Error::new(Action::OpenArchive, archive, kind);
        let mut file = None;
        if !remote::is_remote(archive) {
            let opened = open_long(archive, Open::NONBLOCK).map_err(|e| error(e.into()))?;
            if self.id.is_none() {
                trusted::check(&opened).map_err(|kind| error(kind.into()))?;
            }
            file = Some(Arc::new(opened));
        }
        if !self.is_archive(archive, file.as_ref()).map_err(error)? {
            let (archive, is_replaced) = (archive.to_vec(), true);
            return Err(error(ErrorKind::ArchiveGone {
                archive,
                is_replaced,
            }));
        }
        // Rewind, since reading the id moved the file offset.
        let rewound = file.as_ref().map(|file| lseek(&**file, 0, Whence::Set));
        rewound.transpose().map_err(|e| error(e.into()))?;
        Ok(file)
    }
}

/// Size and modification time of an object in a store.
fn state_of(object: &dyn Object) -> (u64, Time) {
    let (sec, nsec) = object.modified();
    (object.len(), Time { sec, nsec })
}
