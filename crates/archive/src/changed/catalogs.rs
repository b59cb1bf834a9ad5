//! What changed between two catalogs, without the tree.
//!
//! The rows of the new catalog go through the comparison that a walk's entries go through.

use std::collections::HashSet;

use gate::sync::Mutex;
use mounts::{Warning, WarningReason};
use walk::predicate::Predicates;
use walk::{Dir, Entry, Fields, Meta, Sink, Worker, digest};

use super::compare::Compare;
use super::{Change, Changes};
use crate::catalog::Reader;
use crate::catalog::columns::{
    BTIME, CTIME, DIR, GENERATION, INO, MODE, MTIME, NAME, NLINK, PART, SIZE,
};
use crate::error::{Action, Error, ErrorKind, Result};
use crate::part::Parts;
use crate::query::DataSet;
use crate::since::index::{Index, each_group, hash, path_hash};
use crate::since::{check_root, give};

/// Two catalogs of one directory.
#[derive(Debug)]
pub struct CatalogPair {
    /// Each is a data set of one catalog. Paths of both begin as those of the new one.
    old: DataSet,
    new: DataSet,
}

/// Why the comparison of two catalogs may name too many changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PairWarning {
    /// A walk skipped entries.
    #[error("the walk that wrote the catalog skipped entries, which are taken to be missing")]
    Incomplete,
    /// The catalogs have different [`Options`](crate::catalog::Options).
    #[error("the catalogs were written with different options (--exclude, --max-depth, -x)")]
    OtherOptions,
}

impl WarningReason for PairWarning {}

impl CatalogPair {
    /// Opens two catalogs.
    ///
    /// # Errors
    /// One cannot be read, or they are not of the same directory.
    pub fn open(old: &[u8], new: &[u8]) -> Result<CatalogPair> {
        let (before, after) = (Reader::open(old)?, Reader::open(new)?);
        let root = check(&before, old, &after, new)?;
        Ok(CatalogPair {
            old: DataSet::from_reader(old, before, &root),
            new: DataSet::from_reader(new, after, &root),
        })
    }

    /// The old catalog, and the new one, as data sets.
    pub fn data_sets(&self) -> [&DataSet; 2] {
        [&self.old, &self.new]
    }

    /// Whether the walk of the old catalog began after that of the new one.
    pub fn is_reversed(&self) -> bool {
        self.old.reader(0).about().started > self.new.reader(0).about().started
    }

    /// Why too many changes may be named.
    pub fn warnings(&self) -> Vec<Warning> {
        let sets = self.data_sets();
        let incomplete = sets.iter().filter(|set| !set.reader(0).about().complete);
        let incomplete = incomplete.map(|set| Warning::about(set.path(), PairWarning::Incomplete));
        let [old, new] = sets.map(|set| &set.reader(0).about().options);
        let options = (old != new).then(|| Warning::general(PairWarning::OtherOptions));
        incomplete.chain(options).collect()
    }

    /// The changes of entries that are selected: removed ones by their metadata in the old catalog,
    /// others by that in the new one.
    ///
    /// # Errors
    /// A catalog that cannot be read, or is damaged.
    pub fn changes(&self, predicates: &Predicates) -> Result<Changes> {
        let mut changes = self.all_changes()?;
        if predicates.is_all() {
            return Ok(changes);
        }
        changes.retain_removed(&self.old, predicates)?;
        let present = changes.entries.iter();
        let present = present.filter(|entry| entry.change != Change::Removed);
        let present = present.map(|entry| hash_below(&entry.path));
        let carried = changes.carried.iter().map(|(path, _)| hash_below(path));
        let selected = select(&self.new, predicates, present.chain(carried).collect())?;
        let is_selected = |path: &[u8]| selected.contains(&hash_below(path));
        let entries = &mut changes.entries;
        entries.retain(|it| it.change == Change::Removed || is_selected(&it.path));
        changes.carried.retain(|(path, _)| is_selected(path));
        Ok(changes)
    }

    fn all_changes(&self) -> Result<Changes> {
        let (old, new) = (self.old.reader(0), self.new.reader(0));
        // Racy entries may have changed without another digest, but not in the same walk.
        let is_same_walk = old.about().started == new.about().started;
        if old.about().digest == new.about().digest && (old.about().racy == 0 || is_same_walk) {
            return Ok(Changes::default());
        }
        let index = Index::load(old)?;
        let parts = Parts::from_catalog(&new.about().parts);
        let compare = Compare::with_parts(&index, &old.about().parts, parts);
        let read = |group| self.compare_group(group, &compare);
        each_group(new, read, |_, ()| {})?;
        Changes::resolve(old, &index, &compare.into_found())
    }

    /// Passes the rows of a row group of the new catalog to the comparison, by directory.
    fn compare_group(&self, group: usize, compare: &Compare<'_>) -> Result<()> {
        let reader = self.new.reader(0);
        let (dirs, names) = (reader.read(DIR, group)?, reader.read(NAME, group)?);
        let (parts, inos) = (reader.read(PART, group)?, reader.read(INO, group)?);
        let (modes, nlinks) = (reader.read(MODE, group)?, reader.read(NLINK, group)?);
        let (mtimes, ctimes) = (reader.read(MTIME, group)?, reader.read(CTIME, group)?);
        let (btimes, sizes) = (reader.read(BTIME, group)?, reader.read(SIZE, group)?);
        let generations = reader.read(GENERATION, group)?;
        let known = &reader.about().parts;
        let meta = |row: usize| -> Result<Meta> {
            let part = known.get(parts[row] as usize);
            let part = part.ok_or_else(|| self.new.error(ErrorKind::DamagedCatalog))?;
            Ok(Meta {
                ino: inos[row],
                mode: modes[row],
                nlink: nlinks[row],
                size: sizes[row],
                mtime: mtimes.at(row),
                ctime: ctimes.at(row),
                btime: btimes.at(row),
                generation: generations[row],
                mount: parts[row].into(),
                dev: part.dev,
                ..Meta::default()
            })
        };
        let (mut worker, mut entries) = (compare.worker(), Vec::new());
        let mut row = 0;
        while row < reader.rows(group) {
            let path = &dirs[row];
            entries.clear();
            while row < reader.rows(group) && dirs[row] == *path {
                entries.push(Entry {
                    name: &names[row],
                    meta: meta(row)?,
                });
                row += 1;
            }
            give(&mut *worker, b"", path, &entries);
        }
        Ok(())
    }
}

impl Changes {
    /// Keeps of the removed entries those that predicates select in the old catalog.
    pub(super) fn retain_removed(&mut self, old: &DataSet, predicates: &Predicates) -> Result<()> {
        let removed = self.entries.iter();
        let removed = removed.filter(|entry| entry.change == Change::Removed);
        let removed = removed.map(|entry| hash_below(&entry.path)).collect();
        let selected = select(old, predicates, removed)?;
        self.entries.retain(|entry| {
            entry.change != Change::Removed || selected.contains(&hash_below(&entry.path))
        });
        Ok(())
    }
}

/// Checks that two catalogs are of the same directory; gives its path in the new one.
fn check(before: &Reader, old: &[u8], after: &Reader, new: &[u8]) -> Result<Vec<u8>> {
    let single = |reader: &Reader, path: &[u8]| {
        let about = reader.about();
        let refused = |kind| Error::new(Action::UseCatalog, path, kind);
        match (&about.roots[..], about.parts.first()) {
            _ if about.options.files_from => Err(refused(ErrorKind::OnlyListed)),
            ([root], Some(part)) => Ok((root.clone(), part.clone())),
            (_, None) => Err(refused(ErrorKind::DamagedCatalog)),
            (roots, _) => Err(refused(ErrorKind::SeveralRoots { roots: roots.len() })),
        }
    };
    let ((root, part), (other, other_part)) = (single(before, old)?, single(after, new)?);
    let is_same = check_root(&root, &part, &other_part, || other.absolute.clone());
    if is_same.is_ok() {
        return Ok(other.path);
    }
    let kind = ErrorKind::OtherCatalog {
        root: root.absolute.unwrap_or(root.path),
        other: new.to_vec(),
        other_root: other.absolute.unwrap_or(other.path),
    };
    Err(Error::new(Action::UseCatalog, old, kind))
}

/// The hash of a path below DIR; `.` is DIR itself.
fn hash_below(path: &[u8]) -> u64 {
    match path {
        b"." => digest::top(0),
        path => hash(0, path),
    }
}

/// Those of some paths, by their hashes, whose entries are selected.
fn select(data: &DataSet, predicates: &Predicates, wanted: HashSet<u64>) -> Result<HashSet<u64>> {
    let selection = Selection {
        wanted,
        selected: Mutex::default(),
    };
    if !selection.wanted.is_empty() {
        data.emit(predicates, &selection)?;
    }
    Ok(selection.selected.into_inner())
}

/// A sink that notes which entries it gets, of those that are wanted.
struct Selection {
    wanted: HashSet<u64>,
    selected: Mutex<HashSet<u64>>,
}

impl Sink for Selection {
    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(self)
    }

    fn fields(&self) -> Fields {
        Fields::NAME
    }
}

impl Worker for &Selection {
    fn take(&mut self, dir: &Dir<'_>, entries: &[Entry<'_>]) {
        let paths = entries.iter().map(|entry| path_hash(dir.hash, entry.name));
        let mut paths = paths.filter(|path| self.wanted.contains(path)).peekable();
        if paths.peek().is_some() {
            self.selected.lock().extend(paths);
        }
    }
}
