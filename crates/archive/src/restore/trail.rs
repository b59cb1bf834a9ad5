//! A stack of open directories, from DIR down to the current one. Only the innermost ones are kept
//! open; a closed one is reopened from DIR, without following symlinks.

use std::os::fd::AsFd;
use std::sync::Arc;

use gate::Fd;
use gate::fs::Open;
use gate::long::open_beneath;

use crate::list::relative;

/// Maximum number of open directories: more would save nothing.
pub(super) const MOST_OPEN: usize = 64;

pub(super) struct DirectoryStack<T> {
    top: Arc<Fd>,
    most_open: usize,
    /// Names of all levels, joined by slashes.
    path: Vec<u8>,
    levels: Vec<Level<T>>,
    /// Index of the outermost open level: all further levels are open, too.
    first_open: usize,
}

struct Level<T> {
    /// End of the level's name in `path`.
    end: usize,
    fd: Option<Arc<Fd>>,
    data: T,
}

impl<T> DirectoryStack<T> {
    /// An empty stack on DIR. `most_open` is raised to at least 2.
    pub(super) fn new(top: Arc<Fd>, most_open: usize) -> DirectoryStack<T> {
        DirectoryStack {
            top,
            most_open: most_open.max(2),
            path: Vec::new(),
            levels: Vec::new(),
            first_open: 0,
        }
    }

    pub(super) fn most_open(&self) -> usize {
        self.most_open
    }

    /// Path of the current directory below DIR; empty for DIR itself.
    pub(super) fn path(&self) -> &[u8] {
        &self.path
    }

    /// The caller's data of the current directory.
    pub(super) fn last(&mut self) -> Option<&mut T> {
        self.levels.last_mut().map(|level| &mut level.data)
    }

    /// The path of a directory relative to the current one, if it equals that or is below it.
    pub(super) fn rest<'a>(&self, dir: &'a [u8]) -> Option<&'a [u8]> {
        relative(dir, &self.path)
    }

    pub(super) fn push(&mut self, name: &[u8], fd: Arc<Fd>, data: T) {
        if !self.path.is_empty() {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(name);
        self.levels.push(Level {
            end: self.path.len(),
            fd: Some(fd),
            data,
        });
        if self.levels.len() - self.first_open > self.most_open {
            if let Some(level) = self.levels.get_mut(self.first_open) {
                level.fd = None;
            }
            self.first_open += 1;
        }
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        let level = self.levels.pop()?;
        self.first_open = self.first_open.min(self.levels.len());
        self.path
            .truncate(self.levels.last().map_or(0, |above| above.end));
        Some(level.data)
    }

    /// The current directory, open.
    ///
    /// # Errors
    /// Those of openat2(2), if the directory had to be reopened.
    pub(super) fn here(&mut self) -> gate::Result<Arc<Fd>> {
        match self.levels.last() {
            None => return Ok(Arc::clone(&self.top)),
            Some(Level { fd: Some(fd), .. }) => return Ok(Arc::clone(fd)),
            Some(_) => {}
        }
        // Reopen several levels at once, since all of them may be left one after the other.
        let first = self.levels.len().saturating_sub(self.most_open / 2);
        let mut above: Option<(Arc<Fd>, usize)> = None;
        for level in &mut self.levels[first..] {
            let (from, start) = above
                .as_ref()
                .map_or((&self.top, 0), |(fd, end)| (fd, end + 1));
            let name = self.path.get(start..level.end).unwrap_or_default();
            let fd = Arc::new(open_beneath(from.as_fd(), name, Open::SCAN)?);
            above = Some((Arc::clone(&fd), level.end));
            level.fd = Some(fd);
        }
        self.first_open = first;
        above.map(|(fd, _)| fd).ok_or(gate::Errno::ENOENT)
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the tests build past the gate")]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use gate::fs::{StatxMask, fstat};
    use gate::long::open_long;

    use super::*;

    #[test]
    fn the_way_back_is_found_however_deep_it_was() {
        for (most_open, depth) in [(MOST_OPEN, 5000), (2, 300), (3, 300)] {
            return_from(most_open, depth);
        }
    }

    fn return_from(most_open: usize, depth: usize) {
        let top = tempfile::tempdir().unwrap();
        let fd = open_long(top.path().as_os_str().as_bytes(), Open::SCAN).unwrap();
        let mut trail = DirectoryStack::new(Arc::new(fd), most_open);
        let inode = |fd: &Fd| fstat(fd, StatxMask::BASIC_STATS).unwrap().ino;
        let mut inodes = vec![inode(&trail.here().unwrap())];
        for n in 0..depth {
            let name = format!("d{n}");
            let here = trail.here().unwrap();
            gate::create::mkdirat(
                &here,
                &gate::long::c_string(name.as_bytes()).unwrap(),
                0o700,
            )
            .unwrap();
            let fd = Arc::new(open_beneath(here.as_fd(), name.as_bytes(), Open::SCAN).unwrap());
            inodes.push(inode(&fd));
            trail.push(name.as_bytes(), fd, n);
        }
        assert!(
            trail
                .levels
                .iter()
                .filter(|level| level.fd.is_some())
                .count()
                <= most_open
        );
        for n in (0..depth).rev() {
            assert_eq!(inode(&trail.here().unwrap()), inodes.pop().unwrap());
            assert_eq!(trail.pop(), Some(n));
        }
        assert_eq!(
            (trail.path(), trail.rest(b"x/y")),
            (&b""[..], Some(&b"x/y"[..]))
        );
    }
}
