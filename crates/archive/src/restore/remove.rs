//! Removes a file or a directory tree, without crossing mount points or following symlinks.

use std::ffi::{CStr, CString};
use std::sync::Arc;

use gate::create::{fchmod, unlinkat_directory};
use gate::file::unlinkat;
use gate::fs::{Open, Resolve, Statx, getdents64};
use gate::process::is_root;
use gate::resolve::openat2;
use gate::{Errno, Fd, Gate};
use ondisk::FileType;
use ondisk::dirent::entries;
use walk::entry::joined;

use super::attributes::change_mode;
use super::created::{CreatedPaths, OwnFiles};
use super::maker::{Maker, attributes};
use super::not_restored::{Failure, NotRestored};
use super::report::RestoreMessages;
use super::rights::ALL;
use super::trail::DirectoryStack;

/// A directory being emptied.
#[derive(Default)]
struct Frame {
    /// Subdirectories still to be emptied.
    directories: Vec<CString>,
    /// Entries that could not be removed.
    kept: Vec<CString>,
    is_read: bool,
}

impl Maker<'_> {
    /// Removes a name and everything below it; `path` is for warnings. Keeps at most `most_open`
    /// directories open.
    pub(super) fn remove(
        &mut self,
        here: &Arc<Fd>,
        most_open: usize,
        name: &CStr,
        path: &[u8],
        created: &CreatedPaths,
    ) {
        let failures = self.failures;
        let own = OwnFiles { created, failures };
        let removed = remove(here, most_open, name, path, own, &mut self.remarks);
        if self.failures.are_any() {
            self.remarks.supersede(path, true);
        }
        self.counts.removed += removed;
        if removed > 0 && !own.has(path) {
            self.remarks.note_removed(path);
        }
    }
}

/// Removes a name and everything below it. Returns the number of entries removed.
fn remove(
    here: &Arc<Fd>,
    most_open: usize,
    name: &CStr,
    path: &[u8],
    own: OwnFiles<'_>,
    remarks: &mut RestoreMessages,
) -> u64 {
    let mut removal = Removal {
        trail: DirectoryStack::new(Arc::clone(here), most_open),
        path,
        own,
        remarks,
        removed: 0,
    };
    let seen = restored(own, path, here, name);
    match unlinkat(here, name) {
        Ok(()) => {
            removal.remarks.count_gone(seen);
            return 1;
        }
        Err(Errno::ENOENT) => return 0,
        Err(Errno::EISDIR) => {}
        Err(e) => {
            removal.warn(b"", Gate::Unlinkat, e);
            return 0;
        }
    }
    match enter(here, name) {
        Ok(fd) => removal.push(name, fd),
        Err(e) => removal.warn(b"", Gate::Openat2, e),
    }
    let mut buffer = vec![0; 32 << 10];
    while removal.step(&mut buffer).is_some() {}
    removal.removed
}

struct Removal<'a> {
    /// The open directories, from the one to be removed down to the one being emptied.
    trail: DirectoryStack<Frame>,
    /// Path of the directory to be removed, for warnings.
    path: &'a [u8],
    own: OwnFiles<'a>,
    remarks: &'a mut RestoreMessages,
    removed: u64,
}

impl Removal<'_> {
    /// Performs one step in the current directory; `None` when done.
    fn step(&mut self, buffer: &mut [u8]) -> Option<()> {
        let opened = self.trail.here();
        let frame = self.trail.last()?;
        let (next, is_read) = (frame.directories.pop(), frame.is_read);
        let dir = opened.map_err(|e| self.warn(b"", Gate::Openat2, e)).ok()?;
        match next {
            Some(next) => match enter(&dir, &next) {
                Ok(fd) => self.push(&next, fd),
                Err(e) => self.keep(next, Gate::Openat2, e),
            },
            None if !is_read => self.read(&dir, buffer),
            None => return self.leave(),
        }
        Some(())
    }

    fn push(&mut self, name: &CStr, fd: Fd) {
        self.trail
            .push(name.to_bytes(), Arc::new(fd), Frame::default());
    }

    /// Reads some entries of a directory, and removes those that are no directories.
    fn read(&mut self, dir: &Fd, buffer: &mut [u8]) {
        let read = getdents64(dir, &mut *buffer).unwrap_or_else(|e| {
            self.warn(b"", Gate::Getdents64, e);
            0
        });
        let (top, own) = (self.path, self.own);
        let place = self.trail.path().to_vec();
        for entry in entries(&buffer[..read.min(buffer.len())]) {
            let Some(frame) = self.trail.last() else {
                return;
            };
            // A reopened directory is read from its beginning, so entries that could not be removed
            // reappear.
            if frame.kept.iter().any(|kept| kept.as_c_str() == entry.name) {
                continue;
            }
            if entry.file_type == FileType::Directory {
                frame.directories.push(entry.name.to_owned());
                continue;
            }
            let whole = below(top, &place, entry.name.to_bytes());
            let seen = restored(own, &whole, dir, entry.name);
            match unlinkat(dir, entry.name) {
                Ok(()) => {
                    self.removed += 1;
                    self.remarks.count_gone(seen);
                }
                Err(Errno::ENOENT) => {}
                Err(Errno::EISDIR) => frame.directories.push(entry.name.to_owned()),
                Err(e) => self.keep(entry.name.to_owned(), Gate::Unlinkat, e),
            }
        }
        if let Some(frame) = self.trail.last() {
            frame.is_read = read == 0;
        }
    }

    /// Removes the current directory, if nothing is left in it, and returns to its parent.
    fn leave(&mut self) -> Option<()> {
        let path = self.trail.path().to_vec();
        let frame = self.trail.pop()?;
        let own = path.rsplit(|&b| b == b'/').next().unwrap_or_default();
        let own = gate::long::c_string(own).ok()?;
        let above = self.trail.here().ok()?;
        match unlinkat_directory(&above, &own) {
            Ok(()) => {
                self.removed += 1;
                let is_restored = self.own.created.is_below_new(&below(self.path, &path, b""));
                self.remarks.gone.directories += u64::from(is_restored);
            }
            Err(Errno::ENOENT) => {}
            Err(e) => {
                if frame.kept.is_empty() {
                    self.warn_at(&path, b"", Gate::Unlinkat, e);
                }
                self.trail.last()?.kept.push(own);
            }
        }
        Some(())
    }

    /// Warns of an entry of the current directory that cannot be removed, and skips it from then
    /// on.
    fn keep(&mut self, name: CString, gate: Gate, errno: Errno) {
        self.warn(name.to_bytes(), gate, errno);
        if let Some(frame) = self.trail.last() {
            frame.kept.push(name);
        }
    }

    /// Warns of an entry of the current directory, or (empty name) of the directory itself.
    fn warn(&mut self, name: &[u8], gate: Gate, errno: Errno) {
        let dir = self.trail.path().to_vec();
        self.warn_at(&dir, name, gate, errno);
    }

    /// Warns of an entry of `dir`, whose path begins with the name of the directory being removed.
    fn warn_at(&mut self, dir: &[u8], name: &[u8], gate: Gate, errno: Errno) {
        let reason = match errno {
            Errno::EXDEV | Errno::EBUSY => NotRestored::MountPoint,
            Errno::EACCES | Errno::EPERM => NotRestored::RemovalTakesRoot,
            _ => NotRestored::NotRemoved,
        };
        let path = below(self.path, dir, name);
        let failure = Failure::call(gate, errno, reason);
        self.remarks.warn(&path, failure);
    }
}

/// The path of an entry of `dir`, or (empty name) of `dir` itself. `dir` begins with the name of the
/// directory being removed, whose path is `top`.
fn below(top: &[u8], dir: &[u8], name: &[u8]) -> Vec<u8> {
    let first = dir
        .iter()
        .position(|&b| b == b'/')
        .map_or(dir.len(), |at| at + 1);
    joined(&joined(top, &dir[first..]), name)
}

/// The attributes of an entry that this restore has created; `None` for any other entry.
pub(super) fn restored(own: OwnFiles<'_>, path: &[u8], here: &Fd, name: &CStr) -> Option<Statx> {
    let is_ours = own.has(path);
    is_ours.then(|| attributes(here, name).ok()).flatten()
}

/// Opens a directory to be emptied, on the same mount only. If the directory's mode denies access
/// to the owner, the mode is changed.
fn enter(here: &Fd, name: &CStr) -> gate::Result<Fd> {
    let resolve =
        Resolve::BENEATH | Resolve::NO_SYMLINKS | Resolve::NO_MAGICLINKS | Resolve::NO_XDEV;
    let open = || openat2(here, name, Open::SCAN, resolve);
    let fd = match open() {
        Err(Errno::EACCES) => {
            change_mode(here, name, ALL)?;
            open()?
        }
        other => other?,
    };
    if !is_root() {
        let _ = fchmod(&fd, ALL); // if this fails, removing an entry fails as well
    }
    Ok(fd)
}
