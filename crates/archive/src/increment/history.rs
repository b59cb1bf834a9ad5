//! The recorded dumps of a state directory: which archives are needed to restore each dump, and
//! which archives can be removed.
//!
//! `dumps.ndjson` has one line per dump, oldest first. A dump refers to its base catalog by id; the
//! first dump that wrote this catalog must be restored before it. A dump without changes copies its
//! base catalog, and with it the id.
//!
//! In an object store, the file is only replaced if its version is still the one that was read, so
//! that of two dumps neither loses the line of the other.
//!
//! The line is written after the archive is renamed into place and before the catalog is: a dump
//! killed in between is listed, and no later dump is based on it.
//!
//! A record marked as leaving belongs to no dump: its archive is about to be removed, or renamed
//! into place. So no archive is forgotten if a dump or a removal is killed, and no dump is listed
//! without its archive.

use std::io::Write;
use std::sync::Arc;

use base::Warning;
use base::path::split;
use catalog::destination::{Destination, remove_if};
use catalog::ranges::Ranges;
use catalog::remote::{self, Object, StoreError, Version};
use catalog::{About, Reader, Root, stored, trusted};
use gate::fs::{At, Open, Want, Whence, lseek};
use gate::long::{open_long, statx_long};
use gate::scratch::{flock, open_lock};
use gate::{Errno, Fd};
use mounts::root::{absolute, absolute_file};
use ondisk::pax::ArchiveId;
use serde::{Deserialize, Serialize};
use walk::entry::{Time, joined};

use crate::error::{Action, Error, ErrorKind, Result};
use crate::increment::levels::{Level, MOST};
use crate::increment::retention::{KeepReason, Local, NextDump, Policy, Retained};
use crate::increment::unread::{Unread, last_with_data};
use crate::input::Input;
use crate::list;
use crate::plan::{in_archive, trim_slashes};
use crate::warning::WarningKind;

const FILE: &[u8] = b"dumps.ndjson";
/// Maximum size of `dumps.ndjson`: the record of a dump that could not read a thousand files with
/// long names takes 4 MiB.
const MOST_BYTES: u64 = 2 << 30;

/// The record of a dump in a state directory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
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
    modified: Time,
    /// Number of entries in the tree.
    pub entries: u64,
    /// Entries that could not be read; empty in records of older versions.
    #[serde(default, skip_serializing_if = "Unread::is_empty")]
    pub unread: Unread,
    /// The id stored in the archive; `None` in records of older versions.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "stored::archive_id"
    )]
    id: Option<ArchiveId>,
    /// The record is in an object store, but the archive is a local file, or an object without id
    /// in a different bucket. Such archives are never touched: write access to the store must not
    /// decide about them.
    #[serde(skip)]
    is_elsewhere: bool,
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
    /// [catalog](catalog_of) is kept beside it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_named: bool,
    /// The archive belongs to no dump: the next dump or removal deletes it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_leaving: bool,
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

/// The dumps that can be removed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Unneeded {
    /// Indexes of the removable dumps in the history.
    pub dumps: Vec<usize>,
    /// Number of older dumps kept because later ones could not read everything.
    pub spared: usize,
}

/// The id of a catalog, which its copies in a state directory share.
pub(crate) fn catalog_id(about: &About) -> String {
    let Time { sec, nsec } = about.started;
    format!("{sec}.{nsec:09} {}", about.digest)
}

/// Whether the archive of a dump still exists at its path.
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
}

impl DumpRecord {
    /// Creates the record of a dump whose archive was just renamed into place.
    pub(crate) fn new(
        (date, level, entries): (Time, u8, u64),
        unread: Unread,
        archive: Option<&[u8]>,
        written: &About,
        base: Option<&About>,
    ) -> Result<DumpRecord> {
        let mut record = DumpRecord {
            date,
            level,
            archive: None,
            bytes: 0,
            modified: Time::default(),
            entries,
            unread,
            id: written.archive,
            is_elsewhere: false,
            catalog: catalog_id(written),
            base: base.map(catalog_id),
            roots: written.roots.clone(),
            nth: 0,
            is_named: false,
            is_leaving: false,
        };
        if let Some(path) = archive.filter(|path| *path != b"-") {
            let object =
                remote::open(path).map_err(|e| Error::new(Action::WriteArchive, path, e))?;
            if let Some(object) = object {
                record.archive = Some(path.to_vec());
                (record.bytes, record.modified) = state_of(&*object);
                return Ok(record);
            }
            let seen = statx_long(path, At::empty(), Want::BASIC_STATS)
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
            date: Time::default(),
            level: 0,
            archive: Some(archive),
            bytes: 0,
            modified: Time::default(),
            entries: 0,
            unread: Unread::default(),
            id: Some(id),
            is_elsewhere: false,
            catalog: String::new(),
            base: None,
            roots: Vec::new(),
            nth: 0,
            is_named: true,
            is_leaving: true,
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
            let name = joined(in_archive(&root.path), &list::plain(rest));
            if name.is_empty() { b".".to_vec() } else { name }
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
        let file = || statx_long(path, At::empty(), Want::BASIC_STATS).ok();
        let now = match remote::open(path) {
            Ok(Some(object)) => Some(state_of(&*object)),
            Ok(None) => file().map(|seen| (seen.size, seen.mtime)),
            Err(_) => None,
        };
        match now {
            None => ArchiveStatus::Missing,
            Some(now) if now == (self.bytes, self.modified) => ArchiveStatus::Present,
            // A copied or touched archive has a new mtime, so compare the id.
            Some((bytes, _)) if bytes == self.bytes && self.has_its_id(path) => {
                ArchiveStatus::Present
            }
            Some(_) => ArchiveStatus::Replaced,
        }
    }

    /// Whether a file contains the id of the dump's archive; `false` for records of older versions,
    /// which have none.
    fn has_its_id(&self, path: &[u8]) -> bool {
        self.id.is_some() && matches!(self.is_archive(path, None), Ok(true))
    }

    /// Whether a file, optionally already open, contains the id of the dump's archive. Records of
    /// older versions have no id: any file counts, and size and time must tell.
    fn is_archive(
        &self,
        path: &[u8],
        open: Option<&Arc<Fd>>,
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
            Err(_) => Ok(false),
        }
    }

    /// Whether the archive's name was chosen by fathom, in the state directory.
    pub fn is_named(&self) -> bool {
        self.is_named
    }

    /// The id stored in the archive.
    pub(crate) fn id(&self) -> Option<ArchiveId> {
        self.id
    }

    /// Opens the archive for a restore, and checks that it contains the recorded id. If the record
    /// has no id, the file's owner must be trusted. `None` for an object in a store.
    ///
    /// # Errors
    /// The archive cannot be opened, or the file is a different one.
    pub(crate) fn open(&self, archive: &[u8]) -> Result<Option<Arc<Fd>>> {
        let error = |kind: ErrorKind| Error::new(Action::OpenArchive, archive, kind);
        let other = || {
            error(ErrorKind::ArchiveGone {
                archive: archive.to_vec(),
                is_replaced: true,
            })
        };
        let file = match remote::is_remote(archive) {
            true => None,
            false => {
                let file = open_long(archive, Open::NONBLOCK).map_err(|e| error(e.into()))?;
                if self.id.is_none() {
                    trusted::check(&file).map_err(|kind| error(kind.into()))?;
                }
                Some(Arc::new(file))
            }
        };
        if !self.is_archive(archive, file.as_ref()).map_err(error)? {
            return Err(other());
        }
        // Rewind, since reading the id moved the file offset.
        let rewound = file.as_ref().map(|file| lseek(&**file, 0, Whence::Set));
        rewound.transpose().map_err(|e| error(e.into()))?;
        Ok(file)
    }

    /// Removes the catalog kept beside the archive, if it belongs to this dump.
    fn remove_catalog(&self, archive: &[u8]) -> std::result::Result<(), ErrorKind> {
        let path = catalog_of(archive);
        let is_own = |file: &Arc<Fd>| -> std::result::Result<bool, catalog::ErrorKind> {
            trusted::check(&**file)?;
            let reader = Reader::open(&path);
            Ok(reader.is_ok_and(|reader| catalog_id(reader.about()) == self.catalog))
        };
        match remove_if(&path, is_own) {
            Err(kind) if kind.errno() == Some(Errno::ENOENT) => Ok(()),
            removed => Ok(removed.map(drop)?),
        }
    }

    /// Removes the archive; `false` if the file is a different one.
    fn remove_archive(&self, path: &[u8]) -> std::result::Result<bool, ErrorKind> {
        if !remote::is_remote(path) {
            return remove_if(path, |file| self.is_archive(path, Some(file)));
        }
        let is_archive = self.is_archive(path, None)?;
        if is_archive {
            remote::remove(path)?;
        }
        Ok(is_archive)
    }
}

/// Size and modification time of an object in a store.
fn state_of(object: &dyn Object) -> (u64, Time) {
    let (sec, nsec) = object.modified();
    (object.len(), Time { sec, nsec })
}

/// Excludes other dumps from a state directory until it is dropped.
#[derive(Debug)]
pub struct Lock {
    _file: Option<Fd>,
}

impl Lock {
    /// Locks the file `lock` in the state directory, not the directory itself, which anyone with
    /// read access could lock. Without support for flock(2), and in an object store, there is no
    /// lock; a store instead refuses to replace a version that has not been read.
    ///
    /// # Errors
    /// Another process holds the lock.
    pub(crate) fn take(state: &[u8]) -> Result<Lock> {
        if remote::is_remote(state) {
            return Ok(Lock { _file: None });
        }
        let error = |kind: ErrorKind| Error::new(Action::OpenState, state, kind);
        let dir = trusted::open_directory(state).map_err(|kind| error(kind.into()))?;
        let file = match open_lock(&dir, c"lock") {
            // A read-only directory needs no lock.
            Err(Errno::EROFS | Errno::EACCES) => return Ok(Lock { _file: None }),
            opened => opened.map_err(|errno| error(errno.into()))?,
        };
        match flock(&file) {
            Err(Errno::EAGAIN) => Err(error(ErrorKind::StateInUse)),
            _ => Ok(Lock { _file: Some(file) }),
        }
    }
}

/// The recorded dumps of a state directory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct History {
    state: Vec<u8>,
    dumps: Vec<DumpRecord>,
    /// Records of archives still to be removed.
    leaving: Vec<DumpRecord>,
    /// In an object store, the version of `dumps.ndjson` that was read.
    version: Option<String>,
}

impl History {
    /// Reads the records of a state directory; empty if no dump was recorded.
    pub fn read(state: &[u8]) -> Result<History> {
        let path = joined(state, FILE);
        let error = |kind: catalog::ErrorKind| Error::new(Action::ReadRecords, &path, kind);
        let records = match remote::is_remote(state) {
            true => Ranges::open(&path),
            false => {
                let dir = trusted::open_directory(state);
                let dir = dir.map_err(|kind| Error::new(Action::OpenState, state, kind))?;
                Ranges::open_in(&dir, FILE)
            }
        };
        let (mut text, mut version) = (Vec::new(), None);
        match records {
            Ok(file) => {
                file.check_trusted().map_err(error)?;
                if file.len() > MOST_BYTES {
                    let (bytes, most) = (file.len(), MOST_BYTES);
                    return Err(error(catalog::ErrorKind::TooLong { bytes, most }));
                }
                text.resize(file.len() as usize, 0);
                let n = file.read_at(0, &mut text).map_err(error)?;
                text.truncate(n);
                version = file.version().map(str::to_owned);
            }
            Err(kind) if kind.errno() == Some(Errno::ENOENT) => {}
            Err(catalog::ErrorKind::Store(StoreError::NotFound)) => {}
            Err(kind) => return Err(error(kind)),
        }
        let lines = text.split(|&byte| byte == b'\n').enumerate();
        let dumps = lines
            .filter(|(_, line)| !line.is_empty())
            .map(|(at, line)| {
                let line_number = at + 1;
                let damaged = ErrorKind::DamagedRecord { line: line_number };
                serde_json::from_slice(line)
                    .map_err(|_| Error::new(Action::ReadRecords, &path, damaged))
            });
        let mut dumps = dumps.collect::<Result<Vec<DumpRecord>>>()?;
        if let Some(bucket) = remote::bucket(state) {
            for dump in &mut dumps {
                let place = dump.archive.as_deref().map(remote::bucket);
                dump.is_elsewhere = match place {
                    None => false,
                    Some(None) => true,
                    Some(Some(other)) => dump.id.is_none() && other != bucket,
                };
            }
        }
        // The directory may have been copied or moved: take archives in it from its current path,
        // so that a copy never touches the original's archives.
        if let Some(dir) = absolute(state).filter(|_| !remote::is_remote(state)) {
            for dump in dumps.iter_mut().filter(|dump| dump.is_named) {
                let name = dump.archive.as_deref().map(|archive| split(archive).1);
                dump.archive = name.map(|name| joined(&dir, name));
            }
        }
        let (leaving, dumps) = dumps.into_iter().partition(|dump| dump.is_leaving);
        Ok(History {
            state: state.to_vec(),
            dumps,
            leaving,
            version,
        })
    }

    /// Locks a state directory, and reads its records to change them.
    pub fn open(state: &[u8]) -> Result<(History, Lock)> {
        let lock = Lock::take(state)?;
        Ok((History::read(state)?, lock))
    }

    /// Removes archives left by a killed dump or removal. The directory must be locked.
    ///
    /// # Errors
    /// An archive cannot be removed.
    pub fn finish_removal(&mut self) -> Result<()> {
        match self.leaving.is_empty() {
            true => Ok(()),
            false => self.remove_leaving().map(drop),
        }
    }

    /// The state directory.
    pub fn state(&self) -> &[u8] {
        &self.state
    }

    /// The dumps, oldest first.
    pub fn dumps(&self) -> &[DumpRecord] {
        &self.dumps
    }

    /// Appends the record of a dump to those in a state directory or store.
    pub(crate) fn add(state: &[u8], dump: &DumpRecord) -> Result<()> {
        /// Attempts to write: each fails if another dump was recorded meanwhile.
        const TRIES: u32 = 20;
        let mut tries = 0;
        loop {
            let mut history = History::read(state)?;
            let mut dump = dump.clone();
            dump.nth = history.next_nth(dump.base.as_ref());
            history
                .leaving
                .retain(|left| left.archive.is_none() || left.archive != dump.archive);
            history.dumps.push(dump);
            let written = history.write();
            tries += 1;
            match &written {
                Err(error) if tries < TRIES && error.kind.store() == Some(&StoreError::Changed) => {
                }
                _ => return written,
            }
        }
    }

    /// Records that an archive is about to be renamed into place. The directory must be locked.
    pub(crate) fn announce(state: &[u8], archive: &[u8], id: ArchiveId) -> Result<()> {
        let mut history = History::read(state)?;
        history
            .leaving
            .push(DumpRecord::announced(archive.to_vec(), id));
        history.write()
    }

    /// The number of the next dump with this base: [`DumpRecord::nth`].
    pub(crate) fn next_nth(&self, base: Option<&String>) -> u32 {
        let Some(base) = base else {
            return 0;
        };
        let same = self.dumps.iter();
        let same = same.filter(|dump| dump.base.as_ref() == Some(base));
        same.fold(0, |last, dump| dump.nth.max(last + 1)) + 1
    }

    fn write(&self) -> Result<()> {
        let path = joined(&self.state, FILE);
        let error = |kind: catalog::ErrorKind| Error::new(Action::WriteRecords, &path, kind);
        let mut text = Vec::new();
        for dump in self.dumps.iter().chain(&self.leaving) {
            text.extend(serde_json::to_vec(dump).unwrap_or_default());
            text.push(b'\n');
        }
        let version = self.version.clone();
        let version = version.map_or(Version::Absent, Version::Known);
        let mut file = Destination::replace(&path, &version).map_err(error)?;
        file.write_all(&text).map_err(|e| error(e.into()))?;
        file.publish().map_err(|e| error(e.into()))
    }

    /// The dumps to restore for a given dump, in order, ending with itself; `None` if one of them
    /// is not recorded.
    pub fn chain(&self, dump: usize) -> Option<Vec<usize>> {
        let mut chain = vec![dump];
        let mut at = dump;
        while let Some(base) = &self.dumps[at].base {
            let mut earlier = self.dumps[..at].iter();
            at = earlier.position(|earlier| earlier.catalog == *base)?;
            chain.push(at);
        }
        chain.reverse();
        Some(chain)
    }

    /// Whether a file is one of the archives needed to restore a dump with this base.
    pub(crate) fn needs(&self, base: &About, file: &[u8]) -> bool {
        let id = catalog_id(base);
        let base = self.dumps.iter().position(|dump| dump.catalog == id);
        let chain = base.and_then(|base| self.chain(base)).unwrap_or_default();
        let file = match remote::is_remote(file) {
            true => Some(file.to_vec()),
            false => absolute_file(file),
        };
        chain.into_iter().any(|at| {
            let dump = &self.dumps[at];
            file.is_some() && dump.archive == file && dump.status() == ArchiveStatus::Present
        })
    }

    /// The archives to restore the tree as of a given time: those of the last dump begun by then.
    ///
    /// # Errors
    /// There is no such dump, or one of its archives is missing.
    pub fn archives_at(&self, time: Time) -> Result<Vec<DumpRecord>> {
        let error = |kind| Error::new(Action::FindDump, &self.state, kind);
        let dump = self.dumps.iter().rposition(|dump| dump.date <= time);
        let dump = dump.ok_or_else(|| match self.dumps.is_empty() {
            true => error(ErrorKind::NoDump),
            false => error(ErrorKind::NoDumpBefore),
        })?;
        let chain = self
            .chain(dump)
            .ok_or_else(|| error(ErrorKind::BaseNotRecorded))?;
        let archive = |at: usize| {
            let dump = &self.dumps[at];
            let Some(archive) = &dump.archive else {
                return Err(error(ErrorKind::ArchiveStreamed { level: dump.level }));
            };
            let archive = archive.clone();
            if dump.is_elsewhere {
                return Err(error(ErrorKind::LocalArchive { archive }));
            }
            match dump.status() {
                ArchiveStatus::Present => Ok(dump.clone()),
                status => Err(error(ErrorKind::ArchiveGone {
                    archive,
                    is_replaced: status != ArchiveStatus::Missing,
                })),
            }
        };
        chain.into_iter().map(archive).collect()
    }

    /// The dumps that can be removed when keeping the last `keep_full` full dumps, and all dumps
    /// that are newer or based on them. A full dump without its archive does not count.
    ///
    /// The last complete dump is always kept, and so is the last one with the data of an entry that
    /// later dumps could not read. `statuses` are from [`History::statuses`].
    pub fn unneeded(&self, keep_full: usize, statuses: &[ArchiveStatus]) -> Unneeded {
        let full =
            |at: &usize| self.dumps[*at].base.is_none() && statuses[*at] == ArchiveStatus::Present;
        let newest_first = || (0..self.dumps.len()).rev();
        let Some(oldest) = newest_first().filter(full).nth(keep_full.max(1) - 1) else {
            return Unneeded::default();
        };
        let mut is_needed = vec![false; self.dumps.len()];
        for at in oldest..self.dumps.len() {
            is_needed[at] = true;
            self.need(at, &mut is_needed);
        }
        let count = |is_needed: &[bool]| is_needed.iter().filter(|is_needed| **is_needed).count();
        let wanted = count(&is_needed);
        let is_restorable = self.restorable(statuses);
        let restorable = newest_first().filter(|&at| is_restorable[at]);
        for at in last_with_data(restorable.map(|at| (at, &self.dumps[at].unread))) {
            self.need(at, &mut is_needed);
        }
        Unneeded {
            spared: count(&is_needed) - wanted,
            dumps: (0..oldest).filter(|&at| !is_needed[at]).collect(),
        }
    }

    /// The dumps that a policy keeps: of the restorable ones, those of [`Policy::apply`] and others
    /// that they need. A dump with a missing archive, which may reappear, is kept until it is older
    /// than all of these, or as long as the policy would keep it. `next` is a dump about to be
    /// made: it counts as the newest, and as complete. `statuses` are from [`History::statuses`].
    pub fn retain(
        &self,
        policy: &Policy,
        next: Option<NextDump>,
        local: &dyn Fn(Time) -> Local,
        statuses: &[ArchiveStatus],
    ) -> Retained {
        let is_restorable = self.restorable(statuses);
        let candidates: Vec<usize> = (0..self.dumps.len())
            .rev()
            .filter(|&at| is_restorable[at])
            .collect();
        let dates = next.map(|next| next.date);
        let dates = dates
            .into_iter()
            .chain(candidates.iter().map(|&at| self.dumps[at].date));
        let dates: Vec<Local> = dates.map(local).collect();
        let mut kept = policy.apply(&dates).into_iter();
        let new = next.and_then(|_| kept.next()).unwrap_or_default();
        let mut reasons = vec![Vec::new(); self.dumps.len()];
        for (&at, why) in candidates.iter().zip(kept) {
            reasons[at] = why;
        }
        // The next dump, which counts as complete, replaces the last complete one.
        let candidates = candidates.iter().filter(|_| next.is_none());
        let unread = candidates.map(|&at| (at, &self.dumps[at].unread));
        for at in last_with_data(unread) {
            reasons[at].push(match self.dumps[at].unread.is_empty() {
                true => KeepReason::LastComplete,
                false => KeepReason::LastData,
            });
        }
        for at in self.bases_of_next(next) {
            reasons[at].push(KeepReason::NextBase);
        }
        for (at, why) in self.absent(policy, next, local, &is_restorable) {
            reasons[at].push(why);
        }
        for at in 0..self.dumps.len() {
            if reasons[at]
                .iter()
                .any(|reason| !matches!(reason, KeepReason::BaseOf(_)))
            {
                let chain = self
                    .chain(at)
                    .into_iter()
                    .flatten()
                    .filter(|&base| base != at);
                chain.for_each(|base| reasons[base].push(KeepReason::BaseOf(at)));
            }
        }
        let oldest = reasons.iter().position(|reasons| !reasons.is_empty());
        for at in oldest.unwrap_or(0)..self.dumps.len() {
            if !is_restorable[at] && reasons[at].is_empty() {
                reasons[at].push(KeepReason::Unrestorable);
            }
        }
        Retained { new, reasons }
    }

    /// Dumps with missing archives that a policy would keep if they were restorable.
    fn absent(
        &self,
        policy: &Policy,
        next: Option<NextDump>,
        local: &dyn Fn(Time) -> Local,
        is_restorable: &[bool],
    ) -> Vec<(usize, KeepReason)> {
        let newest_first = (0..self.dumps.len()).rev();
        let all = newest_first.clone().map(|at| self.dumps[at].date);
        let dates = next.into_iter().map(|next| next.date).chain(all);
        let dates: Vec<Local> = dates.map(local).collect();
        let kept = policy.apply(&dates).into_iter();
        let kept = newest_first.zip(kept.skip(usize::from(next.is_some())));
        let absent = kept.filter(|(at, why)| !is_restorable[*at] && !why.is_empty());
        absent
            .map(|(at, _)| (at, KeepReason::Unrestorable))
            .collect()
    }

    /// Looks for the archive of each dump, with [`DumpRecord::status`].
    pub fn statuses(&self) -> Vec<ArchiveStatus> {
        self.dumps.iter().map(DumpRecord::status).collect()
    }

    /// Whether each dump is restorable: all archives that it needs exist.
    pub fn restorable(&self, statuses: &[ArchiveStatus]) -> Vec<bool> {
        let is_present = |at: usize| statuses[at] == ArchiveStatus::Present;
        let is_restorable = |at| {
            let chain = self.chain(at);
            chain.is_some_and(|chain| chain.into_iter().all(is_present))
        };
        (0..self.dumps.len()).map(is_restorable).collect()
    }

    /// The dumps whose catalogs can be the base of the next dump, or of the one after `next`.
    fn bases_of_next(&self, next: Option<NextDump>) -> Vec<usize> {
        let most = match next {
            None => MOST,
            Some(next) if next.is_full => return Vec::new(),
            Some(_) => 0,
        };
        let level = |number| Level {
            number,
            state: self.state.clone(),
        };
        let catalogs = (0..=most).filter_map(|number| Reader::open(&level(number).catalog()).ok());
        let ids: Vec<String> = catalogs.map(|reader| catalog_id(reader.about())).collect();
        let find = |id: &String| self.dumps.iter().position(|dump| dump.catalog == *id);
        ids.iter().filter_map(find).collect()
    }

    /// Marks a dump and its bases as needed.
    fn need(&self, dump: usize, is_needed: &mut [bool]) {
        let chain = self.chain(dump).into_iter().flatten();
        chain.for_each(|at| is_needed[at] = true);
    }

    /// Removes dumps, with their archives, catalogs and records. A file that was replaced, or is
    /// also the archive of another dump, is kept. A file of the same size and time with a different
    /// id is kept with its record, with a warning. Returns the removed dumps, and the warnings.
    ///
    /// In a directory, the records are marked first, so that even after a kill no dump is listed
    /// without its archive.
    pub fn remove(&mut self, dumps: &[usize]) -> Result<(Vec<usize>, Vec<Warning>)> {
        let mut at = 0;
        let (leaving, stay): (Vec<DumpRecord>, Vec<DumpRecord>) =
            std::mem::take(&mut self.dumps).into_iter().partition(|_| {
                at += 1;
                dumps.contains(&(at - 1))
            });
        self.dumps = stay;
        self.leaving.extend(leaving.into_iter().map(|mut dump| {
            dump.is_leaving = true;
            dump
        }));
        let first = self.leaving.len() - dumps.len();
        let is_local = !remote::is_remote(&self.state);
        if is_local && !dumps.is_empty() {
            self.write()?;
        }
        let (stayed, warnings) = self.remove_leaving()?;
        let removed = dumps.iter().enumerate();
        let removed = removed.filter(|(nth, _)| !stayed.contains(&(first + nth)));
        Ok((removed.map(|(_, &at)| at).collect(), warnings))
    }

    /// Removes the archives marked as leaving, newest first, so that no increment remains without
    /// its base. Returns the indexes of archives kept after all, which count as dumps again.
    ///
    /// # Errors
    /// That of the first archive that cannot be removed: it stays marked. All others are removed.
    fn remove_leaving(&mut self) -> Result<(Vec<usize>, Vec<Warning>)> {
        let (mut warnings, mut stayed) = (Vec::new(), Vec::new());
        let (mut left, mut again, mut failed) = (Vec::new(), Vec::new(), None);
        let leaving = std::mem::take(&mut self.leaving);
        for (at, mut dump) in leaving.into_iter().enumerate().rev() {
            let removed = self.remove_file_of(&dump);
            let archive = dump.archive.clone().unwrap_or_default();
            match removed {
                Ok(true) if dump.is_elsewhere => {
                    warnings.push(Warning::about(&archive, WarningKind::ArchiveElsewhere));
                }
                Ok(true) => {}
                Ok(false) => {
                    warnings.push(Warning::about(&archive, WarningKind::OtherArchive));
                    stayed.push(at);
                    dump.is_leaving = false;
                    again.extend((!dump.catalog.is_empty()).then_some(dump));
                }
                Err(kind) => {
                    failed = Some(Error::new(Action::RemoveArchive, &archive, kind));
                    left.insert(0, dump);
                }
            }
        }
        warnings.reverse();
        self.leaving = left;
        for dump in again {
            let later = self.dumps.iter().position(|other| other.date > dump.date);
            self.dumps.insert(later.unwrap_or(self.dumps.len()), dump);
        }
        self.write()?;
        failed.map_or(Ok((stayed, warnings)), Err)
    }

    /// Removes the archive and the catalog of a dump, unless the file was replaced or another dump
    /// has the same path; `false` if size and time match but the id does not.
    fn remove_file_of(&self, dump: &DumpRecord) -> std::result::Result<bool, ErrorKind> {
        let is_used = self.dumps.iter().any(|other| other.archive == dump.archive);
        let Some(archive) = dump
            .archive
            .as_deref()
            .filter(|_| !is_used && !dump.is_elsewhere)
        else {
            return Ok(true);
        };
        // The record of an archive that was only announced has an id, but no size and time.
        let is_announced = dump.modified == Time::default();
        if is_announced || dump.status() == ArchiveStatus::Present {
            match dump.remove_archive(archive) {
                Err(kind) if kind.errno() == Some(Errno::ENOENT) => {}
                Ok(true) => {}
                other => return other,
            }
        }
        if dump.is_named {
            dump.remove_catalog(archive)?;
        }
        Ok(true)
    }
}
