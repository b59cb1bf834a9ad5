//! A sink that compares the entries of a walk with a catalog, and keeps those that differ.

use std::cmp::Ordering;

use gate::sync::Mutex;
use walk::entry::joined;
use walk::predicate::Predicates;
use walk::{Dir, EngineKind, Entry, KeptPath, MountContext, PathTree, Sink, Worker};

use super::metadata::ComparedMeta;
use crate::part::{CachedPart, Part, Parts, relative};
use crate::since::index::{
    Identity, Index, NO_PART, RowMatch, fingerprint, fingerprint_by_name, path_hash,
};

/// The entries that differ from the catalog.
#[derive(Default)]
pub(super) struct DifferingEntries {
    /// Concatenated names of the entries.
    bytes: Vec<u8>,
    paths: PathTree,
    /// Paths of the entries' directories, relative to DIR.
    dirs: Vec<KeptPath>,
    /// The metadata of selected entries; empty unless it was requested.
    metadata: Vec<ComparedMeta>,
    /// Whether metadata was requested.
    pub(super) keeps_metadata: bool,
    pub(super) entries: Vec<DifferingEntry>,
}

/// An entry that differs from the catalog.
#[derive(Clone, Copy, Debug)]
pub(super) struct DifferingEntry {
    pub(super) identity: Identity,
    pub(super) fingerprint: u64,
    /// Hash of the entry's path.
    pub(super) path: u64,
    pub(super) parent: u64,
    pub(super) depth: u32,
    pub(super) is_dir: bool,
    /// Whether the predicates select the entry.
    pub(super) is_selected: bool,
    /// The catalog's row with this path, plus one; 0 for none.
    row: u32,
    /// The index in [`DifferingEntries::metadata`], plus one; 0 for none.
    metadata: u32,
    dir: u32,
    name: (usize, u16),
}

impl DifferingEntry {
    /// The catalog's row with this path.
    pub(super) fn row(&self) -> Option<u32> {
        self.row.checked_sub(1)
    }
}

impl DifferingEntries {
    /// The path of an entry below DIR; `.` for DIR itself.
    pub(super) fn path(&self, entry: &DifferingEntry) -> Vec<u8> {
        let dir = self.paths.path(self.dirs[entry.dir as usize]);
        path_below(&dir, self.name(entry))
    }

    /// Compares two entries by directory path, then by name.
    pub(super) fn compare(&self, a: &DifferingEntry, b: &DifferingEntry) -> Ordering {
        let [x, y] = [a, b].map(|entry| self.dirs[entry.dir as usize]);
        let by_dir = self.paths.compare(x, y);
        by_dir.then_with(|| self.name(a).cmp(self.name(b)))
    }

    /// The metadata of an entry, if it was kept.
    pub(super) fn metadata(&self, entry: &DifferingEntry) -> Option<&ComparedMeta> {
        self.metadata.get(entry.metadata.checked_sub(1)? as usize)
    }

    pub(super) fn name(&self, entry: &DifferingEntry) -> &[u8] {
        &self.bytes[entry.name.0..][..usize::from(entry.name.1)]
    }
}

/// The path of a name in a directory below DIR; `.` for DIR itself.
pub(super) fn path_below(dir: &[u8], name: &[u8]) -> Vec<u8> {
    match joined(dir, name) {
        dir if dir.is_empty() => b".".to_vec(),
        path => path,
    }
}

/// The sink that compares entries with a catalog.
pub(super) struct Compare<'a> {
    index: &'a Index,
    root: &'a [u8],
    old_parts: &'a [Part],
    parts: Parts,
    /// Predicates for the entries to report; `None` for all.
    predicates: Option<&'a Predicates>,
    /// Keep the metadata of selected entries.
    keeps_metadata: bool,
    found: Mutex<DifferingEntries>,
}

impl<'a> Compare<'a> {
    pub(super) fn new(index: &'a Index, root: &'a [u8], old_parts: &'a [Part]) -> Compare<'a> {
        Compare {
            index,
            root,
            old_parts,
            parts: Parts::new(vec![root.to_vec()]),
            predicates: None,
            keeps_metadata: false,
            found: Mutex::default(),
        }
    }

    /// Restricts the report to entries that the predicates select.
    pub(super) fn with_predicates(self, predicates: &'a Predicates) -> Compare<'a> {
        Compare {
            predicates: Some(predicates),
            ..self
        }
    }

    /// Keeps the metadata of selected entries, to tell their sizes, and which fields of changed
    /// entries differ.
    pub(super) fn with_metadata(self, keeps_metadata: bool) -> Compare<'a> {
        Compare {
            keeps_metadata,
            ..self
        }
    }

    /// Creates a sink for entries from a catalog, whose metadata has the part number instead of a
    /// mount id.
    pub(super) fn with_parts(index: &'a Index, old_parts: &'a [Part], parts: Parts) -> Compare<'a> {
        Compare {
            parts,
            ..Compare::new(index, b"", old_parts)
        }
    }

    /// The file systems of the entries compared so far.
    pub(super) fn parts(&self) -> Vec<Part> {
        self.parts.all([])
    }

    pub(super) fn into_found(self) -> DifferingEntries {
        DifferingEntries {
            keeps_metadata: self.keeps_metadata,
            ..self.found.into_inner()
        }
    }

    /// The number of a part in the catalog, from its number in this walk.
    fn old_part(&self, number: u32) -> u32 {
        let part = self.parts.get(number);
        part.and_then(|part| part.find_match(self.old_parts))
            .unwrap_or(NO_PART)
    }
}

impl Sink for Compare<'_> {
    fn begin(&self, context: &MountContext<'_>, by: EngineKind) {
        self.parts.begin(context, by, false);
    }

    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(Comparer {
            to: self,
            last: None,
            part: (u32::MAX, NO_PART),
            differing: Vec::new(),
            path: Vec::new(),
        })
    }
}

struct Comparer<'a> {
    to: &'a Compare<'a>,
    last: Option<CachedPart>,
    /// The part number of the last entry, in this walk and in the catalog.
    part: (u32, u32),
    differing: Vec<(usize, DifferingEntry)>,
    /// A buffer for the path of an entry.
    path: Vec<u8>,
}

impl Worker for Comparer<'_> {
    fn take(&mut self, dir: &Dir<'_>, entries: &[Entry<'_>]) {
        let index = self.to.index;
        // If the directory was replaced, a hard link in it may have replaced another name of the
        // same file. The file is unchanged, but `resolve` must see the entry.
        let is_other = |row: u32| index.row(row).row_match() != RowMatch::Found;
        let may_be_other = index.find(dir.key.id).is_some_and(is_other);
        for (nth, entry) in entries.iter().enumerate() {
            let meta = entry.meta.lasting();
            let parts = &self.to.parts;
            let part = parts.find(&mut self.last, &meta, dir.path, entry.name);
            if self.part.0 != part.number {
                self.part = (part.number, self.to.old_part(part.number));
            }
            let path = path_hash(dir.key.id, entry.name);
            let (identity, fingerprint) = match index.is_by_name() {
                true => (Identity::from_path(path), fingerprint_by_name(path, &meta)),
                false => {
                    let identity = Identity::from_meta(self.part.1, &meta);
                    (identity, fingerprint(identity.who, &meta))
                }
            };
            let row = index.find(path);
            if let Some(row) = row {
                let old = index.row(row);
                let has_come = may_be_other && meta.nlink > 1 && !meta.is_dir();
                if old.is_unchanged(&identity, fingerprint) && !has_come {
                    old.record_match(RowMatch::Found);
                    continue;
                }
                old.record_match(RowMatch::Doubtful);
            }
            let predicates = self.to.predicates;
            let differs = DifferingEntry {
                is_selected: predicates.is_none_or(|it| it.accepts(dir, entry, &mut self.path)),
                identity,
                fingerprint,
                path,
                parent: dir.key.id,
                depth: entry.depth(dir),
                is_dir: meta.is_dir(),
                row: row.map_or(0, |row| row + 1),
                metadata: 0,
                dir: 0,
                name: (0, 0),
            };
            self.differing.push((nth, differs));
        }
        if self.differing.is_empty() {
            return;
        }
        let mut found = self.to.found.lock();
        let kept = found.paths.add(relative(self.to.root, dir.path));
        let number = found.dirs.len() as u32;
        found.dirs.push(kept);
        for (nth, differs) in self.differing.drain(..) {
            let name = entries[nth].name;
            let from = found.bytes.len();
            found.bytes.extend_from_slice(name);
            let mut metadata = 0;
            if self.to.keeps_metadata && differs.is_selected {
                let meta = entries[nth].meta.lasting();
                let meta = ComparedMeta::new(&meta, self.to.index.is_by_name());
                found.metadata.push(meta);
                metadata = found.metadata.len() as u32;
            }
            found.entries.push(DifferingEntry {
                metadata,
                dir: number,
                name: (from, name.len() as u16),
                ..differs
            });
        }
    }
}
