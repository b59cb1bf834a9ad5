//! Opens the files of rows: by name in their directory, which stays open while it is likely to be
//! needed. No symlink is followed, so that a tree that changes meanwhile cannot lead out of itself.

use std::borrow::Cow;
use std::ffi::{CStr, CString};
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd};

use gate::fs::{CWD, Open, Resolve, openat};
use gate::long::{openat2_long, reach};
use gate::{Errno, Fd};
use walk::entry::append;

use crate::rows::Rows;

/// The most directories that are useful to keep open.
pub(crate) const MOST: usize = 24;

/// The open directories of a thread: some of those above the last one that was needed, outermost
/// first.
#[derive(Debug)]
pub struct Places<R> {
    rows: R,
    open: Vec<(usize, Fd)>,
    /// How many are kept open; at least one.
    most: usize,
    /// May open any file without changing its access time.
    is_root: bool,
    /// Room for a name.
    name: Vec<u8>,
}

impl<R: Deref<Target = Rows>> Places<R> {
    /// Opens nothing yet. At most `most` directories are kept open.
    pub fn new(rows: R, most: usize) -> Places<R> {
        Places {
            rows,
            open: Vec::new(),
            most: most.max(1),
            is_root: gate::process::is_root(),
            name: Vec::new(),
        }
    }

    /// Opens the file of a row, which belongs to the user `uid`, without changing its access time where
    /// that is permitted.
    ///
    /// # Errors
    /// Those of [`Places::at`] and openat(2); `ELOOP` for a symlink.
    pub fn open_file(&mut self, row: usize, uid: u32) -> Result<Fd, Errno> {
        const HOW: Open = Open::NOFOLLOW.union(Open::NONBLOCK);
        let may_keep_atime = self.is_root || gate::process::is_me(uid);
        self.at(row, |dir, name| {
            if may_keep_atime {
                match openat(dir, name, HOW | Open::NOATIME) {
                    Err(Errno::EPERM) => {}
                    opened => return opened,
                }
            }
            openat(dir, name, HOW)
        })
    }

    /// Passes the directory of a row, and its name there, to `with`. A SRC is named by its whole
    /// path.
    ///
    /// # Errors
    /// A directory above the row cannot be opened, or is not the one that was collected; or `with` fails.
    pub fn at<T>(
        &mut self,
        row: usize,
        with: impl FnOnce(BorrowedFd<'_>, &CStr) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let Some(parent) = self.rows.parent(row) else {
            let path = source(&self.rows, row);
            let reach = reach(CWD, &path)?;
            return with(reach.dir(), reach.rest());
        };
        let mut name = std::mem::take(&mut self.name);
        name.clear();
        name.extend_from_slice(self.rows.name(row));
        name.push(0);
        let name = CString::from_vec_with_nul(name).map_err(|_| Errno::EINVAL)?;
        let result = self.directory(parent).and_then(|dir| with(dir, &name));
        self.name = name.into_bytes_with_nul();
        result
    }

    fn directory(&mut self, row: usize) -> Result<BorrowedFd<'_>, Errno> {
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
        last.ok_or(Errno::EBADF)
    }

    /// Opens a directory by its path below the nearest one that is open, and closes those that are
    /// not above it.
    fn open_directory(&mut self, row: usize) -> Result<Fd, Errno> {
        const PLACE: Open = Open::PATH.union(Open::DIRECTORY);
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
        match from {
            Some((_, fd)) => openat2_long(fd.as_fd(), &path, PLACE, Resolve::NO_SYMLINKS),
            None => {
                let source = source(&self.rows, above);
                let reach = reach(CWD, &source)?;
                let top = openat(reach.dir(), reach.rest(), PLACE)?;
                if path.is_empty() {
                    return Ok(top);
                }
                let fd = openat2_long(top.as_fd(), &path, PLACE, Resolve::NO_SYMLINKS)?;
                self.open.push((above, top));
                Ok(fd)
            }
        }
    }
}

/// The path of a SRC. That of a directory ends in a slash, so that it is never a symlink.
fn source(rows: &Rows, row: usize) -> Cow<'_, [u8]> {
    let path = &rows.sources()[rows.top(row)].path[..];
    match rows.is_dir(row) {
        // The current directory.
        true if path.is_empty() => Cow::Borrowed(b"."),
        true => Cow::Owned([path, b"/"].concat()),
        false => Cow::Borrowed(path),
    }
}
