//! Records what a restore has created, because a hard link must not refer to a file that existed
//! before.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use gate::Fd;
use gate::fs::getdents64;
use gate::sync::Mutex;
use ondisk::dirent::entries;

use super::name_tree::NameTree;

/// The paths created. Everything below a new directory counts as created, so memory is needed only
/// for entries in directories that existed before, and for those directories that were moved into new
/// ones.
#[derive(Debug, Default)]
pub(super) struct CreatedPaths(NameTree<CreatedKind>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CreatedKind {
    NewDirectory,
    /// A directory or file that existed before, and that a rename has moved below a new directory.
    Old,
    Entry,
}

/// Whether a directory has no entries; an unreadable one counts as empty.
pub(super) fn is_empty(dir: &Fd) -> bool {
    let mut buffer = [0; 1 << 10];
    let n = getdents64(dir, &mut buffer).unwrap_or(0);
    entries(&buffer[..n.min(buffer.len())]).next().is_none()
}

impl CreatedPaths {
    /// An empty record, in which DIR counts as new if it is empty.
    pub(super) fn new(dir: &Fd) -> CreatedPaths {
        let mut created = CreatedPaths::default();
        if is_empty(dir) {
            created.add_directory(b"");
        }
        created
    }

    pub(super) fn add_directory(&mut self, path: &[u8]) {
        self.add(path, CreatedKind::NewDirectory);
    }

    /// Records an entry that has been restored, or will be before any hard link to it.
    pub(super) fn add_entry(&mut self, path: &[u8]) {
        self.add(path, CreatedKind::Entry);
    }

    fn add(&mut self, path: &[u8], is: CreatedKind) {
        if !self.is_below_new(path) {
            self.0.insert(path, is, None);
        }
    }

    /// Whether this restore has created the directory at this path, or one above it.
    pub(super) fn is_below_new(&self, path: &[u8]) -> bool {
        let along = self.0.get_along(path);
        let directories = along.filter(|kind| **kind != CreatedKind::Entry);
        directories.last() == Some(&CreatedKind::NewDirectory)
    }

    /// Whether the file at this path was certainly created by this restore.
    pub(super) fn has(&self, path: &[u8]) -> bool {
        self.is_below_new(path) || self.0.get(path) == Some(&CreatedKind::Entry)
    }

    /// Applies a rename to the record.
    pub(super) fn rename(&mut self, from: &[u8], to: &[u8]) {
        let is_new = self.is_below_new(from);
        self.0.rename(from, to);
        if is_new {
            self.add_directory(to);
        } else if self.0.get(to).is_none() && self.is_below_new(to) {
            self.0.insert(to, CreatedKind::Old, None);
        }
    }
}

/// Paths that could not be restored, shared by all threads.
#[derive(Debug, Default)]
pub(super) struct Failures {
    any: AtomicBool,
    /// Whether the existing file of each path is from this restore.
    paths: Mutex<HashMap<Vec<u8>, bool>>,
}

impl Failures {
    /// Maximum number of paths kept. Beyond it every path counts as failed, so no hard link is
    /// created.
    const MOST: usize = 100_000;

    /// Whether any path could not be restored, by this or an earlier archive.
    pub(super) fn are_any(&self) -> bool {
        self.any.load(Relaxed)
    }

    /// Adds a path that could not be restored. `is_replacement`: an earlier member of this restore
    /// had the same path.
    pub(super) fn add(&self, path: &[u8], is_replacement: bool) {
        self.any.store(true, Relaxed);
        let mut paths = self.paths.lock();
        if paths.len() < Failures::MOST {
            paths.entry(path.to_vec()).or_insert(is_replacement);
        }
    }

    /// Whether a path could not be restored, so that a file which existed before may still have it.
    pub(super) fn may_keep_old(&self, path: &[u8]) -> bool {
        self.any.load(Relaxed) && self.paths.lock().get(path) == Some(&false)
    }

    /// Removes a path that was restored after all, by a later archive.
    pub(super) fn remove(&self, path: &[u8]) {
        if self.any.load(Relaxed) {
            self.paths.lock().remove(path);
        }
    }

    pub(super) fn has(&self, path: &[u8]) -> bool {
        self.any.load(Relaxed) && {
            let paths = self.paths.lock();
            paths.len() >= Failures::MOST || paths.contains_key(path)
        }
    }
}

/// Tells the files of this restore from those that existed before.
#[derive(Clone, Copy)]
pub(super) struct OwnFiles<'a> {
    pub(super) created: &'a CreatedPaths,
    pub(super) failures: &'a Failures,
}

impl OwnFiles<'_> {
    /// Whether an existing file at this path is from this restore.
    pub(super) fn has(&self, path: &[u8]) -> bool {
        self.created.has(path) && !self.failures.may_keep_old(path)
    }
}

#[cfg(test)]
mod tests {
    use super::CreatedPaths;

    #[test]
    fn what_is_below_a_new_directory_was_created() {
        let mut created = CreatedPaths::default();
        created.add_entry(b"old/file");
        created.add_directory(b"old/new");
        created.add_entry(b"old/new/file");
        assert_eq!(created.0.children(b"old").count(), 2);
        assert_eq!(created.0.children(b"old/new").count(), 0);
        for (path, is_created) in [
            ("old/file", true),
            ("old/files", false),
            ("old/other", false),
            ("old", false),
            ("old/new", true),
            ("old/new/deep/file", true),
            ("old/newer", false),
        ] {
            assert_eq!(created.has(path.as_bytes()), is_created, "{path}");
        }
        created.rename(b"old/new/deep", b"there");
        created.rename(b"old", b"older");
        for (path, is_created) in [
            ("there/file", true),
            ("older/file", true),
            ("older/new/file", true),
            ("old/file", false),
            ("older/other", false),
        ] {
            assert_eq!(created.has(path.as_bytes()), is_created, "{path}");
        }
        // What existed before does not become new in a new directory.
        created.rename(b"older", b"there/moved");
        for (path, is_created) in [
            ("there/moved/file", true),
            ("there/moved/other", false),
            ("there/moved/new/file", true),
            ("there/else", true),
        ] {
            assert_eq!(created.has(path.as_bytes()), is_created, "{path}");
        }
        created.add_directory(b"");
        assert!(created.has(b"anything"));
    }
}
