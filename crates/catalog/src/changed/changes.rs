//! The changed entries, stored as a tree of names: each name once per directory, instead of whole
//! paths.

use std::collections::HashSet;

use walk::entry::joined;
use walk::{KeptPath, PathTree};

use super::{Change, ChangedEntry, MetadataChange};

/// The changed entries of a tree.
#[derive(Debug, Default)]
pub struct Changes {
    paths: PathTree,
    /// Changed entries, sorted by path.
    entries: Vec<KeptEntry>,
    /// Unchanged entries below renamed directories, for tools without a notion of renames: the new
    /// path, and whether it is a directory.
    carried: Vec<(KeptPath, bool)>,
    /// How the metadata of changed entries differs; see [`KeptEntry::metadata`].
    metadata: Vec<MetadataChange>,
}

/// A [`ChangedEntry`] whose paths are stored in the tree of names.
#[derive(Clone, Copy, Debug)]
struct KeptEntry {
    path: KeptPath,
    change: Change,
    from: Option<KeptPath>,
    is_dir: bool,
    size: Option<u64>,
    /// The index in [`Changes::metadata`].
    metadata: Option<u32>,
}

impl Changes {
    /// Adds a changed entry.
    pub fn add(&mut self, entry: &ChangedEntry) {
        let path = self.paths.add(&entry.path);
        let from = entry.from.as_ref().map(|from| self.paths.add(from));
        self.add_kept(path, entry.change, from, entry.is_dir);
        self.set_last_size(entry.size);
        if let Some(metadata) = entry.metadata {
            self.describe_last(metadata);
        }
    }

    pub(super) fn keep(&mut self, path: &[u8]) -> KeptPath {
        self.paths.add(path)
    }

    pub(super) fn add_kept(
        &mut self,
        path: KeptPath,
        change: Change,
        from: Option<KeptPath>,
        is_dir: bool,
    ) {
        self.entries.push(KeptEntry {
            path,
            change,
            from,
            is_dir,
            size: None,
            metadata: None,
        });
    }

    /// Records the size of the entry added last.
    pub(super) fn set_last_size(&mut self, size: Option<u64>) {
        if let Some(last) = self.entries.last_mut() {
            last.size = size;
        }
    }

    /// Records how the metadata of the entry added last has changed.
    pub(super) fn describe_last(&mut self, metadata: MetadataChange) {
        if let Some(last) = self.entries.last_mut() {
            last.metadata = Some(self.metadata.len() as u32);
            self.metadata.push(metadata);
        }
    }

    /// Adds an unchanged entry below a renamed directory.
    pub fn add_carried(&mut self, path: &[u8], is_dir: bool) {
        self.carried.push((self.paths.add(path), is_dir));
    }

    /// Appends other changes; if `dir` is given, prefixes their paths with it.
    pub(super) fn append(&mut self, others: Changes, dir: Option<&[u8]>) {
        let begin = |path: Vec<u8>| match dir {
            Some(dir) if path == b"." => dir.to_vec(),
            Some(dir) => joined(dir, &path),
            None => path,
        };
        for entry in others.entries() {
            self.add(&ChangedEntry {
                path: begin(entry.path),
                from: entry.from.map(begin),
                ..entry
            });
        }
        for (path, is_dir) in others.carried() {
            self.add_carried(&begin(path), is_dir);
        }
    }

    pub(super) fn sort(&mut self) {
        let paths = &self.paths;
        self.entries.sort_unstable_by(|a, b| {
            let by_path = paths.compare(a.path, b.path);
            let rest = |entry: &KeptEntry| (entry.change, entry.from.is_some());
            by_path.then_with(|| rest(a).cmp(&rest(b)))
        });
        self.carried
            .sort_unstable_by(|(a, _), (b, _)| paths.compare(*a, *b));
    }

    /// Keeps the changed entries for which `keep` is true.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&ChangedEntry) -> bool) {
        let (paths, metadata) = (&self.paths, &self.metadata);
        self.entries
            .retain(|entry| keep(&entry.get(paths, metadata)));
    }

    /// Keeps the unchanged entries below renamed directories for which `keep` is true.
    pub(super) fn retain_carried(&mut self, mut keep: impl FnMut(&[u8], bool) -> bool) {
        let paths = &self.paths;
        self.carried
            .retain(|(path, is_dir)| keep(&paths.path(*path), *is_dir));
    }

    /// Whether no entry has changed.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Number of entries with this kind of change.
    pub fn count(&self, change: Change) -> usize {
        let entries = self.entries.iter();
        entries.filter(|entry| entry.change == change).count()
    }

    /// The changed entries, sorted by path.
    pub fn entries(&self) -> impl Iterator<Item = ChangedEntry> {
        let entries = self.entries.iter();
        entries.map(|entry| entry.get(&self.paths, &self.metadata))
    }

    /// Unchanged entries below renamed directories, for tools without a notion of renames: the new
    /// path, and whether it is a directory.
    pub fn carried(&self) -> impl Iterator<Item = (Vec<u8>, bool)> {
        let carried = self.carried.iter();
        carried.map(|(path, is_dir)| (self.path(*path), *is_dir))
    }

    /// All changed entries that exist now, including everything below renamed directories, and
    /// whether each is a directory.
    pub fn present(&self) -> impl Iterator<Item = (KeptPath, bool)> {
        let entries = self.entries.iter();
        let present = entries.filter(|entry| entry.change != Change::Removed);
        let present = present.map(|entry| (entry.path, entry.is_dir));
        present.chain(self.carried.iter().copied())
    }

    /// Converts a stored path to bytes.
    pub fn path(&self, path: KeptPath) -> Vec<u8> {
        self.paths.path(path)
    }

    /// The parent directories of all changed entries that exist now.
    pub fn above(&self) -> HashSet<KeptPath> {
        let mut above = HashSet::new();
        for (path, _) in self.present() {
            let parents =
                std::iter::successors(self.paths.parent(path), |path| self.paths.parent(*path));
            for parent in parents {
                if !above.insert(parent) {
                    break;
                }
            }
        }
        above
    }

    /// All changed entries that exist now, and their parent directories, sorted by path.
    pub fn present_with_parents(&self) -> Vec<KeptPath> {
        let mut all = self.above();
        all.extend(self.present().map(|(path, _)| path));
        let mut all: Vec<KeptPath> = all.into_iter().collect();
        all.sort_unstable_by(|a, b| self.paths.compare(*a, *b));
        all
    }
}

impl KeptEntry {
    fn get(&self, paths: &PathTree, metadata: &[MetadataChange]) -> ChangedEntry {
        ChangedEntry {
            path: paths.path(self.path),
            change: self.change,
            from: self.from.map(|from| paths.path(from)),
            is_dir: self.is_dir,
            size: self.size,
            metadata: self
                .metadata
                .and_then(|nth| metadata.get(nth as usize).copied()),
        }
    }
}
