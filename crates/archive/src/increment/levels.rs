//! Levels as in dump(8): a dump of level N contains what changed since the last dump of a lower
//! level. A state directory, or prefix in a store, holds the catalog of the last dump of each
//! level.

use catalog::{remote, trusted};
use gate::fs::{AtFlags, StatxMask, statx};
use gate::{Errno, Fd};
use walk::entry::append;

use crate::error::{Action, Error, ErrorKind};

/// The highest level.
pub const MOST: u8 = 9;

/// A level, in a state directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Level {
    /// The number of the level, 0 for a full dump.
    pub number: u8,
    /// The state directory, or the prefix in a store.
    pub state: Vec<u8>,
}

impl Level {
    /// The catalog of the last dump, of any level: that of the highest level, because each dump
    /// removes the catalogs of levels above its own.
    pub(crate) fn last(&self) -> Result<Option<Vec<u8>>, Error> {
        let above_all = Level {
            number: MOST + 1,
            state: self.state.clone(),
        };
        above_all.base()
    }

    /// The base catalog: that of the highest lower level that has one; `None` for a full dump, and
    /// without a state directory, which the dump creates.
    pub(crate) fn base(&self) -> Result<Option<Vec<u8>>, Error> {
        if remote::is_remote(&self.state) {
            for path in (0..self.number).rev().map(|number| self.path(number)) {
                match remote::find(&path) {
                    Ok(None) => {}
                    Ok(Some(_)) => return Ok(Some(path)),
                    Err(e) => return Err(self.error(Action::FindBase, e)),
                }
            }
            return Ok(None);
        }
        let dir = match self.open() {
            Err(error) if error.errno() == Some(Errno::ENOENT) => return Ok(None),
            opened => opened?,
        };
        for number in (0..self.number).rev() {
            match statx(
                &dir,
                &name(number),
                AtFlags::SYMLINK_NOFOLLOW,
                StatxMask::TYPE,
            ) {
                Ok(_) => return Ok(Some(self.path(number))),
                Err(Errno::ENOENT) => {}
                Err(e) => return Err(self.error(Action::FindBase, e)),
            }
        }
        Ok(None)
    }

    /// Creates a hard link to the catalog of this level, in the state directory.
    pub(crate) fn link_catalog(&self, path: &[u8]) -> Result<(), Errno> {
        let dir = gate::file::open_directory(&self.state)?;
        let new = gate::long::c_string(base::path::split(path).1)?;
        gate::create::linkat(&dir, &name(self.number), &dir, &new, AtFlags::empty())?;
        gate::file::fsync(&dir)
    }

    /// The path of the catalog of this level.
    pub(crate) fn catalog(&self) -> Vec<u8> {
        self.path(self.number)
    }

    /// Removes the catalogs of higher levels, before the catalog of this level is replaced.
    /// Catalogs of higher levels are based on the dump being replaced, so no dump may be based on
    /// them.
    pub(crate) fn remove_higher(&self) -> Result<(), Error> {
        let error = |e: Errno| self.error(Action::RemoveHigherLevels, e);
        if remote::is_remote(&self.state) {
            let mut higher = (self.number + 1..=MOST).map(|number| self.path(number));
            let removed = higher.try_for_each(|path| remote::remove(&path));
            return removed.map_err(|e| self.error(Action::RemoveHigherLevels, e));
        }
        let dir = self.open()?;
        for number in self.number + 1..=MOST {
            match gate::file::unlinkat(&dir, &name(number)) {
                Ok(()) | Err(Errno::ENOENT) => {}
                Err(e) => return Err(error(e)),
            }
        }
        gate::file::fsync(&dir).map_err(error)
    }

    fn open(&self) -> Result<Fd, Error> {
        let opened = trusted::open_directory(&self.state);
        opened.map_err(|kind| self.error(Action::OpenState, kind))
    }

    fn path(&self, number: u8) -> Vec<u8> {
        let mut path = self.state.clone();
        append(&mut path, name(number).as_bytes());
        path
    }

    fn error(&self, action: Action, kind: impl Into<ErrorKind>) -> Error {
        Error::new(action, &self.state, kind)
    }
}

fn name(number: u8) -> std::ffi::CString {
    std::ffi::CString::new(format!("level-{number}.parquet")).unwrap_or_default()
}
