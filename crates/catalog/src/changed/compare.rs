//! A sink that compares entries with a catalog and keeps those that differ.

use std::cmp::Ordering;

use gate::sync::Mutex;
use walk::entry::joined;
use walk::predicate::Predicates;
use walk::{Dir, EngineKind, Entry, KeptPath, MountContext, PathTree, Sink, Worker};

use crate::part::{Last, Part, Parts, relative};
use crate::since::index::{Identity, Index, NO_PART, RowMatch, fingerprint, path_hash};

/// The entries that differ from the catalog.
#[derive(Default)]
pub(super) struct DifferingEntries {
    /// The names of entries.
    bytes: Vec<u8>,
    paths: PathTree,
    /// The paths of the directories of entries, below DIR.
    dirs: Vec<KeptPath>,
    pub(super) entries: Vec<Differs>,
}

/// An entry that differs from the catalog.
#[derive(Clone, Copy, Debug)]
pub(super) struct Differs {
    pub(super) identity: Identity,
    pub(super) fingerprint: u64,
    /// The hashes of its path and of its directory's.
    pub(super) path: u64,
    pub(super) parent: u64,
    pub(super) depth: u32,
    pub(super) is_dir: bool,
    /// The predicates select it.
    pub(super) is_selected: bool,
    /// The row of the catalog with this path, plus one; 0 for none.
    row: u32,
    dir: u32,
    name: (usize, u16),
}

impl Differs {
    /// The row of the catalog with this path.
    pub(super) fn row(&self) -> Option<u32> {
        self.row.checked_sub(1)
    }
}

impl DifferingEntries {
    /// The path of an entry below DIR; `.` for DIR itself.
    pub(super) fn path(&self, entry: &Differs) -> Vec<u8> {
        let dir = self.paths.path(self.dirs[entry.dir as usize]);
        path_below(&dir, self.name(entry))
    }

    /// Compares the paths of the directories of entries below DIR, and their names there.
    pub(super) fn compare(&self, a: &Differs, b: &Differs) -> Ordering {
        let [x, y] = [a, b].map(|entry| self.dirs[entry.dir as usize]);
        let by_dir = self.paths.compare(x, y);
        by_dir.then_with(|| self.name(a).cmp(self.name(b)))
    }

    pub(super) fn name(&self, entry: &Differs) -> &[u8] {
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

/// The sink.
pub(super) struct Compare<'a> {
    index: &'a Index,
    root: &'a [u8],
    old_parts: &'a [Part],
    parts: Parts,
    /// Which entries are reported; `None` for all.
    predicates: Option<&'a Predicates>,
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
            found: Mutex::default(),
        }
    }

    /// Reports only entries that predicates select.
    pub(super) fn with_predicates(self, predicates: &'a Predicates) -> Compare<'a> {
        Compare {
            predicates: Some(predicates),
            ..self
        }
    }

    /// For the entries of a catalog, whose metadata has the number of the part in place of the
    /// mount id.
    pub(super) fn with_parts(index: &'a Index, old_parts: &'a [Part], parts: Parts) -> Compare<'a> {
        Compare {
            parts,
            ..Compare::new(index, b"", old_parts)
        }
    }

    /// The file systems of the entries so far.
    pub(super) fn parts(&self) -> Vec<Part> {
        self.parts.all([])
    }

    pub(super) fn into_found(self) -> DifferingEntries {
        self.found.into_inner()
    }

    /// The number that a part has in the catalog.
    fn old_part(&self, number: u32) -> u32 {
        let part = self.parts.get(number);
        part.and_then(|part| part.among(self.old_parts))
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
    last: Option<Last>,
    /// The number of a part now, and in the catalog.
    part: (u32, u32),
    differing: Vec<(usize, Differs)>,
    /// Room for a path.
    path: Vec<u8>,
}

impl Worker for Comparer<'_> {
    fn take(&mut self, dir: &Dir<'_>, entries: &[Entry<'_>]) {
        let index = self.to.index;
        // One name of a file with several may have replaced another, together with its directory:
        // `resolve` must see it, though the file is the same.
        let is_other = |row: u32| index.row(row).fate() != RowMatch::Found;
        let may_be_other = index.find(dir.key.id).is_some_and(is_other);
        for (nth, entry) in entries.iter().enumerate() {
            let meta = entry.meta.lasting();
            let parts = &self.to.parts;
            let part = parts.find(&mut self.last, &meta, dir.path, entry.name);
            if self.part.0 != part.number {
                self.part = (part.number, self.to.old_part(part.number));
            }
            let identity = Identity::from_meta(self.part.1, &meta);
            let path = path_hash(dir.key.id, entry.name);
            let fingerprint = fingerprint(identity.who, &meta);
            let row = index.find(path);
            if let Some(row) = row {
                let old = index.row(row);
                let has_come = may_be_other && meta.nlink > 1 && !meta.is_dir();
                if old.is_unchanged(&identity, fingerprint) && !has_come {
                    old.settle(RowMatch::Found);
                    continue;
                }
                old.settle(RowMatch::Doubtful);
            }
            let predicates = self.to.predicates;
            let differs = Differs {
                is_selected: predicates.is_none_or(|it| it.accepts(dir, entry, &mut self.path)),
                identity,
                fingerprint,
                path,
                parent: dir.key.id,
                depth: entry.depth(dir),
                is_dir: meta.is_dir(),
                row: row.map_or(0, |row| row + 1),
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
            found.entries.push(Differs {
                dir: number,
                name: (from, name.len() as u16),
                ..differs
            });
        }
    }
}
