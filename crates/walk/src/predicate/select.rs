//! The sink that passes on the selected entries of a walk.
//!
//! Whether a directory is empty is known only at the end of the walk: no entry of it was received.
//! Entries may have been excluded or unreadable, so [`SelectionSink::finish`] reads the few
//! remaining directories.

use std::cell::RefCell;
use std::collections::HashSet;
use std::os::fd::AsFd;

use base::Warning;
use base::path::below;
use gate::fs::{Open, Resolve, StatxMask, fstat, getdents64};
use gate::long::{open_long, openat2_long};
use gate::sync::Mutex;
use gate::{Errno, Fd, Gate};
use mounts::listed::{is_gone, is_removed};
use ondisk::dirent::entries;

use super::Predicates;
use crate::entry::{Dir, Entry, Meta, joined, relative};
use crate::error::WarningKind;
use crate::job::Diagnostics;
use crate::key::DirKey;
use crate::kind::EngineKind;
use crate::sink::{Fields, Sink, Worker};
use crate::top::MountContext;
use crate::trail::{KeptPath, PathTree};

/// Passes the selected entries on to another sink.
pub struct SelectionSink<'a> {
    predicates: &'a Predicates,
    sink: &'a dyn Sink,
    found: Mutex<KnownDirectories>,
}

/// Directories and whether they have entries, for the predicate "empty".
#[derive(Default)]
struct KnownDirectories {
    /// Directories of which an entry was received.
    used: HashSet<DirKey>,
    /// Directories that are selected if they turn out to be empty.
    candidates: Vec<Candidate>,
    paths: PathTree,
}

struct Candidate {
    dir_path: KeptPath,
    dir: DirKey,
    key: DirKey,
    name: Vec<u8>,
    meta: Meta,
}

impl<'a> SelectionSink<'a> {
    /// A sink that filters the entries for `sink`.
    pub fn new(predicates: &'a Predicates, sink: &'a dyn Sink) -> SelectionSink<'a> {
        SelectionSink {
            predicates,
            sink,
            found: Mutex::default(),
        }
    }

    /// Passes on the empty directories. Calls `is_empty` with the path and the inode number of each
    /// candidate of which no entry was received.
    pub fn finish(self, is_empty: impl Fn(&[u8], Option<u64>) -> bool) {
        let found = self.found.into_inner();
        let (mut worker, mut dir_path) = (self.sink.worker(), Vec::new());
        let candidates = found.candidates.into_iter();
        for candidate in candidates.filter(|it| !found.used.contains(&it.key)) {
            let Candidate { name, meta, .. } = &candidate;
            found.paths.get(candidate.dir_path, &mut dir_path);
            if is_empty(&joined(&dir_path, name), Some(meta.ino)) {
                let entry = Entry { name, meta: *meta };
                worker.take(&candidate.dir.dir(&dir_path), &[entry]);
            }
        }
    }
}

/// Returns a function for [`SelectionSink::finish`] that reads a directory below one of some DIRs.
/// A directory that cannot be read, or has another inode number than expected, is not empty, and
/// causes a warning, unless the walk has already warned of the directory.
pub fn is_empty_directory<'a>(
    dirs: &'a [Vec<u8>],
    diagnostics: &'a Diagnostics,
) -> impl Fn(&[u8], Option<u64>) -> bool + use<'a> {
    let paths = |all: &[Warning]| all.iter().filter_map(|it| it.path.clone()).collect();
    let warned: HashSet<Vec<u8>> = diagnostics.with_warnings(paths);
    let tops = Tops {
        dirs,
        open: RefCell::default(),
    };
    move |path, ino| !warned.contains(path) && is_empty((path, ino), &tops, diagnostics)
}

/// The DIRs; the last one used stays open.
struct Tops<'a> {
    dirs: &'a [Vec<u8>],
    open: RefCell<Option<(&'a [u8], Fd)>>,
}

impl Tops<'_> {
    /// Opens a directory below one of the DIRs. No symlink below DIR is followed: one that has
    /// replaced a directory would lead elsewhere.
    fn open(&self, path: &[u8]) -> gate::Result<Fd> {
        let around = self.dirs.iter().map(Vec::as_slice);
        let around = around.filter(|dir| below(without_slashes(dir), path).is_some());
        let top = around.max_by_key(|dir| dir.len()).ok_or(Errno::ENOENT)?;
        let mut open = self.open.borrow_mut();
        let (_, fd) = match &mut *open {
            Some(open) if open.0 == top => open,
            other => other.insert((top, open_long(top, Open::PATH | Open::DIRECTORY)?)),
        };
        let name = relative(top, path);
        openat2_long(fd.as_fd(), name, Open::SCAN, Resolve::NO_SYMLINKS)
    }
}

/// Removes the slashes at the end of a path, unless it is the root directory.
fn without_slashes(dir: &[u8]) -> &[u8] {
    let end = dir.iter().rposition(|&byte| byte != b'/');
    end.map_or(b"/", |end| &dir[..=end])
}

fn is_empty((path, ino): (&[u8], Option<u64>), tops: &Tops<'_>, diagnostics: &Diagnostics) -> bool {
    let mut buffer = [0; 4096];
    let failed = |gate, kind: WarningKind| {
        move |errno: Errno| {
            if !is_gone(errno) || !is_removed(path, true) {
                diagnostics.warn(Warning::failed(path, gate, errno, kind));
            }
        }
    };
    let opened = tops.open(path);
    let Ok(fd) = opened.map_err(failed(Gate::Openat2, WarningKind::OpenDirectory)) else {
        return false;
    };
    // Since the walk, DIR may have been exchanged for another directory.
    let seen = || fstat(&fd, StatxMask::INO).map(|seen| seen.ino);
    if ino.is_some_and(|ino| seen() != Ok(ino)) {
        failed(Gate::Statx, WarningKind::OpenDirectory)(Errno::ESTALE);
        return false;
    }
    loop {
        match getdents64(&fd, &mut buffer) {
            Ok(0) => return true,
            Ok(n) if entries(&buffer[..n]).next().is_some() => return false,
            Ok(_) => {}
            Err(errno) => {
                failed(Gate::Getdents64, WarningKind::ReadDirectory)(errno);
                return false;
            }
        }
    }
}

impl Sink for SelectionSink<'_> {
    fn begin(&self, context: &MountContext<'_>, by: EngineKind) {
        self.sink.begin(context, by);
    }

    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(Selector {
            to: self,
            worker: self.sink.worker(),
            found: KnownDirectories::default(),
            path: Vec::new(),
            is_selected: Vec::new(),
        })
    }

    fn wants_paths(&self) -> bool {
        let predicates = self.predicates;
        self.sink.wants_paths() || predicates.empty || !predicates.paths.is_empty()
    }

    fn fields(&self) -> Fields {
        self.sink.fields() | self.predicates.fields()
    }

    fn is_closed(&self) -> bool {
        self.sink.is_closed()
    }
}

struct Selector<'a> {
    to: &'a SelectionSink<'a>,
    worker: Box<dyn Worker + 'a>,
    found: KnownDirectories,
    path: Vec<u8>,
    is_selected: Vec<bool>,
}

impl Worker for Selector<'_> {
    fn take(&mut self, dir: &Dir<'_>, entries: &[Entry<'_>]) {
        let predicates = self.to.predicates;
        self.is_selected.clear();
        if predicates.empty && entries.iter().any(|entry| !entry.name.is_empty()) {
            self.found.used.insert(dir.key);
        }
        for entry in entries {
            let mut is_selected = predicates.accepts(dir, entry, &mut self.path);
            if predicates.empty {
                is_selected = self.found.settle(dir, entry, is_selected);
            }
            self.is_selected.push(is_selected);
        }
        let mut from = 0;
        for run in self.is_selected.chunk_by(|a, b| a == b) {
            let some = &entries[from..from + run.len()];
            from += run.len();
            match run.first() {
                Some(true) => self.worker.take(dir, some),
                _ => self.worker.pass_over(dir, some),
            }
        }
    }

    fn flush(&mut self) {
        self.worker.flush();
    }
}

impl KnownDirectories {
    /// Records a directory that is selected if it is empty. Returns whether the entry is selected
    /// now.
    fn settle(&mut self, dir: &Dir<'_>, entry: &Entry<'_>, is_selected: bool) -> bool {
        if is_selected && entry.meta.is_dir() {
            self.candidates.push(Candidate {
                dir_path: self.paths.add(dir.path),
                dir: dir.key,
                key: dir.key.at(entry.name),
                name: entry.name.to_vec(),
                meta: entry.meta,
            });
        }
        is_selected && !entry.meta.is_dir()
    }
}

impl Drop for Selector<'_> {
    fn drop(&mut self) {
        let KnownDirectories {
            used,
            candidates,
            paths,
        } = std::mem::take(&mut self.found);
        let mut all = self.to.found.lock();
        all.used.extend(used);
        let moved = all.paths.append(paths);
        all.candidates
            .extend(candidates.into_iter().map(|it| Candidate {
                dir_path: moved(it.dir_path),
                ..it
            }));
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the tests build past the gate")]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_directory_in_the_place_of_an_empty_one_is_not_empty() {
        let scratch = tempfile::tempdir().unwrap();
        let [empty, other] = ["empty", "other"].map(|name| scratch.path().join(name));
        for dir in [&empty, &other] {
            fs::create_dir(dir).unwrap();
        }
        let ino = |dir| fs::metadata(dir).unwrap().ino();
        let diagnostics = Diagnostics::default();
        let dirs = [scratch.path().as_os_str().as_bytes().to_vec()];
        let is_empty = is_empty_directory(&dirs, &diagnostics);
        let path = empty.as_os_str().as_bytes();
        assert!(is_empty(path, Some(ino(&empty))) && is_empty(path, None));
        assert!(diagnostics.take_warnings().is_empty());
        assert!(!is_empty(path, Some(ino(&other))));
        assert_eq!(diagnostics.take_warnings().len(), 1);
    }
}
