//! The catalogs of a dump: its base, and the new one.

use std::sync::Arc;

use base::Warning;
use catalog::destination::copy_file;
use catalog::rows::Rows;
use catalog::since::{GoneMount, missed_mounts};
use catalog::{About, Reader, remote};
use gate::Errno;
use gate::file::Writer;
use ondisk::pax::ArchiveId;
use walk::Moment;

use super::options::{DumpOptions, Note};
use crate::error::{Action, Error, ErrorKind};
use crate::increment::Base;
use crate::increment::history::{History, Lock};
use crate::increment::levels::Level;
use crate::increment::record::{DumpRecord, catalog_of};
use crate::increment::unread::UnreadEntries;
use crate::warning::WarningKind;

pub(super) struct Chain {
    pub(super) since: Option<Vec<u8>>,
    pub(super) base: Option<Base>,
    pub(super) catalog: Option<Vec<u8>>,
    level: Option<Level>,
    /// Lock that excludes other dumps from the state directory.
    _lock: Option<Arc<Lock>>,
    /// Whether fathom chose the archive's name, in the state directory.
    is_named: bool,
    pub(super) note: Option<Note>,
}

impl Chain {
    /// Finds the catalogs of a dump, and opens the base catalog.
    pub(super) fn open(options: &DumpOptions) -> Result<Chain, Error> {
        if let (Some(level), Some(archive)) = (&options.level, &options.archive)
            && remote::is_remote(&level.state)
            && archive != b"-"
            && !remote::is_remote(archive)
            // An archive written to a pipe or device has no name, so it is not recorded in the
            // state directory.
            && !matches!(Writer::place(archive), Ok(None))
        {
            let archive = archive.clone();
            let kind = ErrorKind::LocalArchive { archive };
            return Err(Error::new(Action::WriteArchive, &level.state, kind));
        }
        let lock = match (&options.automatic, &options.level) {
            (Some(automatic), _) => automatic.lock.clone(),
            (None, Some(level)) => Some(Arc::new(Lock::take(&level.state)?)),
            (None, None) => None,
        };
        let since = Chain::find_base(options)?;
        let (mut level, mut note) = (options.level.clone(), None);
        if let (Some(level), None) = (&mut level, &since) {
            // A full dump counts as level 0, so that later dumps of this level can be based on it.
            let wanted = std::mem::take(&mut level.number);
            note = (wanted > 0).then_some(Note::NoLowerLevel(wanted));
            Base::check_full(level, &options.sources)?;
        }
        let catalog = match &level {
            Some(level) => Some(level.catalog()),
            None => options.catalog.clone(),
        };
        let base = since.as_deref();
        let base = base
            .map(|since| Base::open(since, &options.sources))
            .transpose()?;
        if let (Some(level), Some(base), Some(archive)) =
            (&level, &base, options.archive.as_deref())
            && History::read(&level.state)?.needs(base.about(), archive)
        {
            let kind = ErrorKind::ReplacesBase;
            return Err(Error::new(Action::WriteArchive, archive, kind));
        }
        Ok(Chain {
            since,
            base,
            catalog,
            level,
            _lock: lock,
            is_named: options.automatic.is_some(),
            note,
        })
    }

    pub(super) fn find_base(options: &DumpOptions) -> Result<Option<Vec<u8>>, Error> {
        match &options.level {
            Some(level) => level.base(),
            None => Ok(options.since.clone()),
        }
    }

    pub(super) fn level(&self) -> Option<u8> {
        self.level.as_ref().map(|level| level.number)
    }

    /// Turns an increment into a full dump of level 0, because its base is of a different file
    /// system, like all other catalogs of the state directory.
    pub(super) fn become_full(&mut self, why: &Error) {
        (self.base, self.since) = (None, None);
        let source_path = why.kind.other_file_system().cloned().unwrap_or_default();
        self.note = Some(Note::OtherFileSystem { source_path });
        if let Some(level) = &mut self.level {
            level.number = 0;
            self.catalog = Some(level.catalog());
        }
    }

    /// Whether a mismatched base turns the increment into a full dump, instead of an error. With
    /// `--level`, only for a different file system: a different directory may be a mistake. An
    /// archive whose name fathom chose needs a new name for its new level: see
    /// [`FullReason::from_error`](crate::increment::automatic::FullReason::from_error).
    pub(super) fn may_become_full(&self, why: &Error) -> bool {
        !self.is_named && self.level.is_some() && why.kind.other_file_system().is_some()
    }

    /// Records the archive's name before the archive is renamed into place, so that the next dump
    /// removes an archive left by a killed process. In a store the name is not recorded: a store
    /// has no lock, so a concurrent dump would remove the new archive. There, a killed process can
    /// leave an archive without a record.
    pub(super) fn announce(&self, archive: Option<&[u8]>, id: ArchiveId) -> Result<(), Error> {
        match (&self.level, archive) {
            (Some(level), Some(archive)) if self.is_named && !remote::is_remote(archive) => {
                History::announce(&level.state, archive, id)
            }
            _ => Ok(()),
        }
    }

    /// Keeps a copy of the new catalog beside the archive: the next dump of the same level
    /// overwrites the original.
    pub(super) fn keep_catalog(&self, archive: Option<&[u8]>) -> Option<Warning> {
        let (level, archive) = (self.level.as_ref()?, archive.filter(|_| self.is_named)?);
        let (catalog, kept) = (level.catalog(), catalog_of(archive));
        let linked = match remote::is_remote(&kept) {
            true => Err(Errno::EOPNOTSUPP),
            false => level.link_catalog(&kept),
        };
        let copied = match linked.err()? {
            Errno::EPERM | Errno::EMLINK | Errno::EOPNOTSUPP => copy_file(&catalog, &kept),
            errno => Err(errno.into()),
        };
        copied
            .err()
            .map(|kind| Warning::about(&kept, WarningKind::CatalogNotKept(kind.into())))
    }

    /// The mounts missing since the last dump. `rows` is `None` if nothing has changed since the
    /// base.
    ///
    /// # Errors
    /// The state directory or the base cannot be read.
    pub(super) fn gone_mounts(&self, rows: Option<&Rows>) -> Result<Vec<GoneMount>, Error> {
        gone_since_last(self.level.as_ref(), self.base.as_ref(), rows)
    }

    /// Records a dump of a level, after the archive is renamed into place and before the catalog
    /// is.
    pub(super) fn record(
        &self,
        begun: Moment,
        archive: Option<&[u8]>,
        written: &About,
        warnings: &[Warning],
    ) -> Result<(), Error> {
        let Some(level) = &self.level else {
            return Ok(());
        };
        let base = self.base.as_ref().map(Base::about);
        let dump = (begun.time(), level.number, written.entries);
        let unread = UnreadEntries::from_warnings(warnings);
        let mut record = DumpRecord::new(dump, unread, archive, written, base)?;
        record.is_named = self.is_named;
        History::add(&level.state, &record)
    }

    /// Removes the catalogs of higher levels, which this dump supersedes.
    pub(super) fn remove_higher(&self) -> Result<(), Error> {
        self.level.as_ref().map_or(Ok(()), Level::remove_higher)
    }
}

/// The mounts missing since the last dump of the state directory, or since the base. A damaged
/// catalog of the state directory is ignored, since this dump replaces it. `rows` is `None` if
/// nothing has changed since the base.
///
/// # Errors
/// The state directory or the base cannot be read.
pub(super) fn gone_since_last(
    level: Option<&Level>,
    base: Option<&Base>,
    rows: Option<&Rows>,
) -> Result<Vec<GoneMount>, Error> {
    let Some(level) = level else {
        return base.map_or(Ok(Vec::new()), |base| base.missed_mounts(rows));
    };
    let last = level.last()?.and_then(|path| Reader::open(&path).ok());
    let gone = last.and_then(|last| {
        let same = base.map_or(last.about(), Base::about);
        missed_mounts(&last, same, rows).ok()
    });
    Ok(gone.unwrap_or_default())
}
