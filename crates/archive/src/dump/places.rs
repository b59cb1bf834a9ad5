//! Opening what rows are of: by a single name in its directory, which is kept open for as long as
//! it is likely to be wanted. No symlink is followed on the way, so that a tree that is changed
//! meanwhile cannot lead out of itself.

use std::borrow::Cow;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd};

use gate::fs::{CWD, Open, Resolve, openat};
use gate::long::{c_string, openat2_long, reach};
use gate::{Errno, Fd};
use walk::entry::append;

use crate::rows::Rows;

/// How many directories one thread keeps open.
const MOST: usize = 24;

/// One thread's open directories: some that lie on the way to the last one that was wanted, the
/// outermost first.
pub(crate) struct Places<'a> {
    rows: &'a Rows,
    open: Vec<(usize, Fd)>,
}

impl<'a> Places<'a> {
    pub(crate) fn new(rows: &'a Rows) -> Places<'a> {
        Places {
            rows,
            open: Vec::new(),
        }
    }

    /// Does something with a row's directory and its name there. What a SRC leads to is named by
    /// its whole path; a directory's is such that it is itself, and not a symlink to it.
    ///
    /// # Errors
    /// Those of openat2(2), and of `with`.
    pub(crate) fn at<T>(
        &mut self,
        row: usize,
        with: impl FnOnce(BorrowedFd<'_>, &CStr) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let Some(parent) = self.rows.parent(row) else {
            let path = self.src(row);
            let reach = reach(CWD, &path)?;
            return with(reach.dir(), reach.rest());
        };
        let name = c_string(self.rows.name(row))?;
        with(self.directory(parent)?, &name)
    }

    /// The path of a SRC.
    fn src(&self, row: usize) -> Cow<'a, [u8]> {
        let path = self
            .rows
            .sources()
            .get(self.rows.top(row))
            .map_or(&b""[..], |source| &source.path);
        if self.rows.is_dir(row) {
            Cow::Owned([path, &b"/."[..]].concat())
        } else {
            Cow::Borrowed(path)
        }
    }

    /// Opens a directory as a place.
    fn directory(&mut self, row: usize) -> Result<BorrowedFd<'_>, Errno> {
        if let Some(at) = self.open.iter().rposition(|(open, _)| *open == row) {
            self.open.truncate(at + 1);
        } else {
            let fd = self.reopen(row)?;
            if self.open.len() == MOST {
                self.open.remove(0);
            }
            self.open.push((row, fd));
        }
        self.open
            .last()
            .map(|(_, fd)| fd.as_fd())
            .ok_or(Errno::EBADF)
    }

    /// Opens a directory by way of the nearest one above it that is open, and closes those that are
    /// not above it.
    fn reopen(&mut self, row: usize) -> Result<Fd, Errno> {
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
        let mut rel = Vec::new();
        names.iter().rev().for_each(|name| append(&mut rel, name));
        match from {
            Some((_, fd)) => openat2_long(fd.as_fd(), &rel, PLACE, Resolve::NO_SYMLINKS),
            None => {
                let src = self.src(above);
                let reach = reach(CWD, &src)?;
                let top = openat(reach.dir(), reach.rest(), PLACE)?;
                if rel.is_empty() {
                    return Ok(top);
                }
                let fd = openat2_long(top.as_fd(), &rel, PLACE, Resolve::NO_SYMLINKS)?;
                self.open.push((above, top));
                Ok(fd)
            }
        }
    }
}
