//! The dumps of a state directory, and which archives restore each of them.
//!
//! `dumps.ndjson` has a line for each dump, oldest first. A dump names its base catalog by id; the
//! first dump that wrote that catalog is the one to restore before it. A dump in which nothing has
//! changed copies the catalog of its base, and with it the id.
//!
//! In a store, `dumps.ndjson` is replaced only if nobody else has replaced it since it was read, so
//! that of two dumps neither loses the line of the other.
//!
//! The line is written after the archive is renamed into place, and before the catalog is: a dump
//! that is killed in between is listed, and no later dump is based on it.
//!
//! A record that is marked as leaving belongs to no dump: its archive is about to be removed, or to
//! be renamed into place. So no archive is forgotten when a dump or a removal is killed, and no
//! dump is listed whose archives are gone.

use std::collections::BTreeMap;
use std::io::Write;

use base::path::split;
use catalog::destination::Destination;
use catalog::ranges::Ranges;
use catalog::remote::{self, StoreError, Version};
use catalog::{About, trusted};
use gate::scratch::{flock, open_lock};
use gate::{Errno, Fd};
use mounts::root::{absolute, absolute_file};
use ondisk::pax::ArchiveId;
use walk::entry::{Time, joined};

use crate::error::{Action, Error, ErrorKind, Result};
use crate::increment::record::{ArchiveStatus, DumpRecord, catalog_id};

const FILE: &[u8] = b"dumps.ndjson";
/// Maximum size of `dumps.ndjson`: the record of a dump that could not read a thousand files with
/// long names takes 4 MiB.
const MOST_BYTES: u64 = 2 << 30;

/// Number of bytes read at once.
const PIECE: u64 = 16 << 20;

/// The absolute path of a state directory, or the prefix of one in a store; `None` if the directory
/// has no path.
pub(super) fn absolute_state(state: &[u8]) -> Option<Vec<u8>> {
    match remote::is_remote(state) {
        true => Some(state.to_vec()),
        false => absolute(state),
    }
}

/// A lock that excludes other dumps from a state directory until it is dropped.
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
    pub(super) state: Vec<u8>,
    pub(super) dumps: Vec<DumpRecord>,
    /// Records of archives that are to be removed.
    pub(super) leaving: Vec<DumpRecord>,
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
                // Whatever length a server claims, only bytes that have arrived take memory.
                while (text.len() as u64) < file.len() {
                    let at = text.len();
                    let left = file.len() - at as u64;
                    text.resize(at + left.min(PIECE) as usize, 0);
                    let n = file.read_at(at as u64, &mut text[at..]).map_err(error)?;
                    text.truncate(at + n);
                    if n == 0 {
                        break;
                    }
                }
                version = file.version().map(str::to_owned);
            }
            Err(kind) if kind.is_missing() => {}
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
        let mut of_second: BTreeMap<i64, usize> = BTreeMap::new();
        for dump in &dumps {
            *of_second.entry(dump.date.sec).or_default() += 1;
        }
        for dump in &mut dumps {
            dump.shares_second = of_second[&dump.date.sec] > 1;
        }
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
        // The directory, or the objects below the prefix, may have been copied or moved: take
        // archives in it from its current path, so that a copy never touches the original's
        // archives.
        if let Some(dir) = absolute_state(state) {
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
        History::change(state, |history| {
            let mut dump = dump.clone();
            dump.nth = history.next_nth(dump.base.as_ref());
            history
                .leaving
                .retain(|left| left.archive.is_none() || left.archive != dump.archive);
            history.dumps.push(dump);
            true
        })
    }

    /// Records which archives a verification found damaged or intact, by their index in this
    /// history; `None` for an archive that could not be read. The records may have changed since
    /// this history was read. Nothing is written if all of it is recorded already.
    pub(crate) fn record_damage(&self, damage: &[Option<bool>]) -> Result<()> {
        let all = self.dumps.iter().zip(damage);
        let known = all.filter_map(|(dump, damage)| damage.map(|is_damaged| (dump, is_damaged)));
        let news = known.filter(|(dump, is_damaged)| dump.is_damaged != *is_damaged);
        let news: Vec<(&DumpRecord, bool)> = news.collect();
        if news.is_empty() {
            return Ok(());
        }
        let _lock = Lock::take(&self.state)?;
        History::change(&self.state, |history| {
            let mut is_changed = false;
            for record in &mut history.dumps {
                let is_same = |dump: &DumpRecord| {
                    (dump.date, &dump.archive, dump.id, &dump.catalog)
                        == (record.date, &record.archive, record.id, &record.catalog)
                };
                let found = news.iter().find(|(dump, _)| is_same(dump));
                let found = found.map(|(_, is_damaged)| *is_damaged);
                if let Some(is_damaged) = found.filter(|found| *found != record.is_damaged) {
                    record.is_damaged = is_damaged;
                    is_changed = true;
                }
            }
            is_changed
        })
    }

    /// Reads the records, changes and writes them. In a store, this is repeated if another process
    /// has written them meanwhile. Nothing is written if `change` returns `false`.
    fn change(state: &[u8], mut change: impl FnMut(&mut History) -> bool) -> Result<()> {
        /// Maximum number of attempts to write: each fails if another dump was recorded meanwhile.
        const TRIES: u32 = 20;
        let mut tries = 0;
        loop {
            let mut history = History::read(state)?;
            if !change(&mut history) {
                return Ok(());
            }
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

    pub(super) fn write(&self) -> Result<()> {
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
            file.is_some() && dump.archive == file && dump.status().exists()
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
                // Intact members of a damaged archive can be restored, so the archive is not
                // refused.
                ArchiveStatus::Present | ArchiveStatus::Damaged => Ok(dump.clone()),
                status => Err(error(ErrorKind::ArchiveGone {
                    archive,
                    is_replaced: status != ArchiveStatus::Missing,
                })),
            }
        };
        chain.into_iter().map(archive).collect()
    }

    /// Looks for the archive of each dump, with [`DumpRecord::status`].
    pub fn statuses(&self) -> Vec<ArchiveStatus> {
        self.dumps.iter().map(DumpRecord::status).collect()
    }

    /// Whether the last verification found damage in an archive that restores a dump.
    pub fn needs_damaged(&self, dump: usize) -> bool {
        let mut chain = self.chain(dump).into_iter().flatten();
        chain.any(|at| self.dumps[at].is_damaged)
    }

    /// Whether each dump is restorable: all archives that it needs exist, and none is damaged.
    pub fn restorable(&self, statuses: &[ArchiveStatus]) -> Vec<bool> {
        let is_present = |at: usize| statuses[at] == ArchiveStatus::Present;
        let is_restorable = |at| {
            let chain = self.chain(at);
            chain.is_some_and(|chain| chain.into_iter().all(is_present))
        };
        (0..self.dumps.len()).map(is_restorable).collect()
    }
}
