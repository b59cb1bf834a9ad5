//! Opens the files of rows by name in their parent directory, which stays open while it is likely
//! to be needed. Symlinks are never followed, so that a concurrent change cannot lead out of the
//! tree.
//!
//! A SRC that is no longer open from collecting is opened again by path, and must have the same
//! device and inode number: a user who can write to a directory above could have replaced the SRC.

use std::ffi::{CStr, CString};
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use base::Warning;
use base::path::or_dot;
use catalog::rows::Rows;
use gate::fs::{AtFlags, CWD, Open, Resolve, StatxMask, fstat, lstatat, openat, statx};
use gate::long::{c_string, open_long, openat2_long, parent};
use gate::{Errno, Fd, Gate};
use walk::entry::append;
use walk::predicate::base_name;
use walk::{FileType, Meta};

use crate::warning::WarningKind;

/// Flags for directories that are opened only as a base for *at() calls.
const PLACE: Open = Open::PATH.union(Open::DIRECTORY);

/// Maximum number of open directories per thread: more would save nothing.
pub(crate) const MOST: usize = 24;

/// The open directories of a thread: some of the ancestors of the last row used, outermost first.
#[derive(Debug)]
pub struct OpenAncestors<R> {
    rows: R,
    open: Vec<(usize, Fd)>,
    /// Maximum number of open directories; at least one.
    most: usize,
    /// Whether the process has root's rights: root may open any file with O_NOATIME.
    is_root: bool,
    name: Vec<u8>,
}

impl<R: Deref<Target = Rows>> OpenAncestors<R> {
    /// Creates an empty cache for at most `most` open directories.
    pub fn new(rows: R, most: usize) -> OpenAncestors<R> {
        OpenAncestors {
            rows,
            open: Vec::new(),
            most: most.max(1),
            is_root: gate::process::is_root(),
            name: Vec::new(),
        }
    }

    /// Opens the file of a row, owned by the user `uid`, with O_NOATIME where permitted.
    ///
    /// # Errors
    /// Those of [`OpenAncestors::at`] and openat(2); `ELOOP` for a symlink.
    pub fn open_file(&mut self, row: usize, uid: u32) -> Result<Fd, NotOpened> {
        let may_keep_atime = self.is_root || gate::process::is_me(uid);
        let fd = self.at(row, |dir, name| open_to_read(dir, name, may_keep_atime))?;
        if self.rows.parent(row).is_none() {
            self.check(row, &stat(&fd)?)?;
        }
        Ok(fd)
    }

    /// Passes the directory of a row, and the row's name in it, to `with`. The name of a SRC
    /// directory is `.`, in itself.
    ///
    /// # Errors
    /// A directory above the row cannot be opened, or differs from the one collected; or `with`
    /// fails.
    pub fn at<T>(
        &mut self,
        row: usize,
        with: impl FnOnce(BorrowedFd<'_>, &CStr) -> Result<T, Errno>,
    ) -> Result<T, NotOpened> {
        let Some(parent) = self.rows.parent(row) else {
            if self.rows.is_dir(row) {
                let is_root = self.is_root;
                let dir = self.directory(row)?;
                // Without search permission on a directory, its own attributes can still be read.
                let may_search = is_root
                    || !matches!(
                        statx(dir, c".", AtFlags::empty(), StatxMask::empty()),
                        Err(Errno::EACCES)
                    );
                return Ok(match may_search {
                    true => with(dir, c".")?,
                    false => with(CWD, &itself_in_proc(dir))?,
                });
            }
            let path = &self.rows.sources()[self.rows.top(row)].path;
            let dir = open_long(parent(path), PLACE)?;
            let name = c_string(base_name(path))?;
            let seen = lstatat(&dir, &name, Meta::WANT)?;
            self.check(row, &Meta::from_statx(&seen))?;
            return Ok(with(dir.as_fd(), &name)?);
        };
        let mut name = std::mem::take(&mut self.name);
        name.clear();
        name.extend_from_slice(self.rows.name(row));
        name.push(0);
        let name = CString::from_vec_with_nul(name).map_err(|_| Errno::EINVAL)?;
        let dir = self.directory(parent);
        let result = dir.and_then(|dir| Ok(with(dir, &name)?));
        self.name = name.into_bytes_with_nul();
        result
    }

    fn directory(&mut self, row: usize) -> Result<BorrowedFd<'_>, NotOpened> {
        if let Some(at) = self.open.iter().rposition(|(open, _)| *open == row) {
            self.open.truncate(at + 1);
        } else {
            let fd = self.open_directory(row)?;
            if self.open.len() >= self.most {
                self.open.remove(0);
            }
            self.open.push((row, fd));
        }
        let last = self.open.last().map(|(_, fd)| fd.as_fd());
        last.ok_or(NotOpened::Call(Errno::EBADF))
    }

    /// Opens a directory by path from its nearest open ancestor, and closes directories that are no
    /// ancestors of it.
    fn open_directory(&mut self, row: usize) -> Result<Fd, NotOpened> {
        let (mut above, mut names) = (row, Vec::new());
        let from = loop {
            if let Some(at) = self.open.iter().rposition(|(open, _)| *open == above) {
                self.open.truncate(at + 1);
                break self.open.last();
            }
            match self.rows.parent(above) {
                Some(parent) => {
                    names.push(self.rows.name(above));
                    above = parent;
                }
                None => {
                    self.open.clear();
                    break None;
                }
            }
        };
        let mut path = Vec::new();
        names.iter().rev().for_each(|name| append(&mut path, name));
        let below = |fd: &Fd| openat2_long(fd.as_fd(), &path, PLACE, Resolve::NO_SYMLINKS);
        if let Some((_, fd)) = from {
            return Ok(below(fd)?);
        }
        let source = &self.rows.sources()[self.rows.top(above)];
        let top = match (source.open.get(), &source.path[..]) {
            (Some(open), _) => open.try_clone()?,
            (None, path) => {
                let top = open_long(or_dot(path), PLACE)?;
                self.check(above, &stat(&top)?)?;
                top
            }
        };
        if path.is_empty() {
            return Ok(top);
        }
        let fd = below(&top)?;
        self.open.push((above, top));
        Ok(fd)
    }

    /// Checks that the file found now is still that of a row.
    fn check(&self, row: usize, now: &Meta) -> Result<(), NotOpened> {
        let identity = |meta: &Meta| (meta.dev, meta.ino, meta.kind());
        match identity(now) == identity(&self.rows.meta(row)) {
            true => Ok(()),
            false => Err(NotOpened::OtherSource),
        }
    }
}

/// Opens a file for reading, but no symlink; with `may_keep_atime`, with O_NOATIME where permitted.
///
/// # Errors
/// Those of openat(2); `ELOOP` for a symlink.
pub(crate) fn open_to_read(
    dir: BorrowedFd<'_>,
    name: &CStr,
    may_keep_atime: bool,
) -> Result<Fd, Errno> {
    const HOW: Open = Open::NOFOLLOW.union(Open::NONBLOCK);
    if may_keep_atime {
        match openat(dir, name, HOW | Open::NOATIME) {
            Err(Errno::EPERM) => {}
            opened => return opened,
        }
    }
    openat(dir, name, HOW)
}

/// The metadata of an open file.
pub fn stat(fd: &Fd) -> Result<Meta, Errno> {
    fstat(fd, Meta::WANT).map(|seen| Meta::from_statx(&seen).lasting())
}

/// The /proc/self/fd path of an open directory, with a slash at the end, so that calls that do not
/// follow symlinks reach the directory, too.
fn itself_in_proc(dir: BorrowedFd<'_>) -> CString {
    CString::new(format!("/proc/self/fd/{}/", dir.as_raw_fd())).unwrap_or_default()
}

/// Why the file of a row was not opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotOpened {
    /// A system call failed.
    Call(Errno),
    /// The file has a different type now.
    Replaced,
    /// A different file has the path of a SRC.
    OtherSource,
}

impl NotOpened {
    /// The warning about a file of the given type that was not opened.
    pub fn warning(self, path: &[u8], kind: FileType, gate: Gate) -> Warning {
        match self {
            NotOpened::Replaced => Warning::about(path, WarningKind::ReplacedAndSkipped),
            NotOpened::OtherSource => Warning::about(path, WarningKind::OtherSource),
            NotOpened::Call(errno) => {
                let kind = WarningKind::not_opened(errno, path, kind);
                Warning::failed(path, gate, errno, kind)
            }
        }
    }
}

impl From<Errno> for NotOpened {
    fn from(errno: Errno) -> NotOpened {
        NotOpened::Call(errno)
    }
}
