//! Compares two catalogs, or two data sets of catalogs, without access to the tree.
//!
//! The rows of the new catalog go through the same comparison as the entries of a walk.

use std::collections::HashSet;

use base::{Warning, WarningReason};
use gate::sync::Mutex;
use walk::predicate::Predicates;
use walk::{Dir, Entry, Fields, KeptPath, Meta, Sink, Worker, path_id};

use super::compare::Compare;
use super::{Change, Changes};
use crate::error::{Action, Error, ErrorKind};
use crate::format::columns::PART;
use crate::format::{About, Reader, RowColumns, ShardOfRun};
use crate::part::{Parts, relative};
use crate::query::DataSet;
use crate::since::index::{Index, each_group, hash, path_hash};
use crate::since::{check_root, emit_entries};

/// Two catalogs of the same directory, or of two directories to be compared by name; or two data
/// sets with catalogs of the same directories.
#[derive(Debug)]
pub struct CatalogPair {
    /// The old data set; its paths begin like those of the new one.
    old: DataSet,
    new: DataSet,
    /// For each directory, the indexes of its old and new catalog, in the order of the roots.
    pairs: Vec<(usize, usize)>,
    /// Report how the metadata of each changed entry differs.
    metadata: bool,
    /// Whether the catalogs are of different directories, whose entries are compared by name.
    is_by_name: bool,
}

/// Why the comparison of two catalogs may report too many changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PairWarning {
    /// A walk that wrote a catalog skipped entries.
    #[error("the walk that wrote the catalog skipped entries, which are taken to be missing")]
    Incomplete,
    /// The catalogs have different [`Options`](crate::format::Options).
    #[error("the catalogs were written with different options (--exclude, --max-depth, -x)")]
    OtherOptions,
    /// The catalogs are of two directories.
    #[error(
        "the catalogs describe different directories: entries are compared by name and metadata, \
         and a renamed entry counts as removed and added; contents, extended attributes and links are \
         not compared (fathom verify --against does this for an archive and a directory)"
    )]
    OtherDirectory,
}

impl WarningReason for PairWarning {}

impl CatalogPair {
    /// Opens two catalogs, or directories of catalogs.
    ///
    /// # Errors
    /// A catalog cannot be read; or a directory has a catalog in only one of two data sets.
    pub fn open(old: &[u8], new: &[u8]) -> Result<CatalogPair, Error> {
        let [mut before, mut after] = [DataSet::open_joined(old)?, DataSet::open_joined(new)?];
        for (path, data) in [(old, &before), (new, &after)] {
            let mut parts = data.abouts().filter_map(|it| it.options.shard.as_ref());
            if let Some(refusal) = parts.find_map(ShardOfRun::refusal) {
                let missing = data.missing().first();
                let missing = missing.map(|(_, parts)| ErrorKind::MissingParts(parts.clone()));
                let refusal = missing.unwrap_or(refusal);
                return Err(Error::new(Action::UseCatalog, path, refusal));
            }
        }
        let (mut pairs, mut roots, mut is_by_name) = (Vec::new(), Vec::new(), false);
        let is_one = before.readers().len() == 1 && after.readers().len() == 1;
        for (nth_new, reader) in after.readers().iter().enumerate() {
            let is_free = |nth: &usize| !pairs.iter().any(|(used, _)| used == nth);
            let candidates = (0..before.readers().len()).filter(is_free);
            let mut checked = candidates
                .map(|nth| (nth, check(&before.readers()[nth], old, reader, new)))
                .filter(|(_, root)| is_one || matches!(root, Ok((_, true))));
            let (nth_old, root) = checked.next().ok_or_else(|| unpaired(old, reader))?;
            let (root, is_same) = root?;
            is_by_name |= !is_same;
            roots.push(root);
            pairs.push((nth_old, nth_new));
        }
        let mut all = (0..before.readers().len()).zip(before.readers());
        if let Some((_, reader)) = all.find(|(nth, _)| !pairs.iter().any(|(used, _)| used == nth)) {
            return Err(unpaired(new, reader));
        }
        let numbers = |of: fn(&(usize, usize)) -> usize| pairs.iter().map(of).collect::<Vec<_>>();
        before.set_roots(roots.clone(), &numbers(|pair| pair.0));
        after.set_roots(roots, &numbers(|pair| pair.1));
        Ok(CatalogPair {
            old: before,
            new: after,
            pairs,
            metadata: false,
            is_by_name,
        })
    }

    /// Reports how the metadata of each changed entry differs.
    #[must_use]
    pub fn with_metadata(self, metadata: bool) -> CatalogPair {
        CatalogPair { metadata, ..self }
    }

    /// The data sets of the old and the new catalog.
    pub fn data_sets(&self) -> [&DataSet; 2] {
        [&self.old, &self.new]
    }

    /// Whether an old catalog was begun after the new one, as if the arguments were swapped.
    pub fn is_reversed(&self) -> bool {
        let mut abouts = self.abouts();
        abouts.any(|[old, new]| old.started > new.started)
    }

    /// The descriptions of the old and the new catalog of each directory.
    fn abouts(&self) -> impl Iterator<Item = [&About; 2]> {
        let about = |nth: &(usize, usize)| {
            let (old, new) = (self.old.reader(nth.0), self.new.reader(nth.1));
            [old.about(), new.about()]
        };
        self.pairs.iter().map(about)
    }

    /// Warnings that too many changes may be reported.
    pub fn warnings(&self) -> Vec<Warning> {
        let sets = self.data_sets();
        let incomplete = sets
            .iter()
            .filter(|set| set.abouts().any(|it| !it.complete));
        let incomplete = incomplete.map(|set| Warning::about(set.path(), PairWarning::Incomplete));
        let missing = sets.iter().flat_map(|set| set.missing());
        let missing = missing.map(|(path, parts)| Warning::about(path, parts.clone()));
        let options = |about: &About| about.options.without_run();
        let has_others = self.abouts().any(|[old, new]| options(old) != options(new));
        let options = has_others.then(|| Warning::general(PairWarning::OtherOptions));
        let is_other = self.is_by_name;
        let directory = is_other.then(|| Warning::general(PairWarning::OtherDirectory));
        let warnings = incomplete.chain(missing).chain(options);
        warnings.chain(directory).collect()
    }

    /// The changes that the predicates select. Removed entries are tested by their metadata in the
    /// old catalog, other entries by their metadata in the new catalog. Paths are relative to DIR;
    /// with several DIRs, they begin with DIR.
    ///
    /// # Errors
    /// A catalog cannot be read, or is damaged.
    pub fn changes(&self, predicates: &Predicates) -> Result<Changes, Error> {
        let mut all = Changes::default();
        for root in 0..self.pairs.len() {
            let changes = self.changes_of(root, predicates)?;
            if self.pairs.len() == 1 {
                return Ok(changes);
            }
            let dir = &self.new.roots()[root][..];
            all.append(changes, self.has_several_dirs().then_some(dir));
        }
        all.sort();
        Ok(all)
    }

    /// Whether there are several DIRs, rather than several shards of one.
    fn has_several_dirs(&self) -> bool {
        let roots = self.new.roots();
        roots.iter().any(|root| *root != roots[0])
    }

    /// The selected changes below one root directory.
    fn changes_of(&self, root: usize, predicates: &Predicates) -> Result<Changes, Error> {
        let mut changes = self.all_changes(root)?;
        if predicates.is_all() {
            return Ok(changes);
        }
        changes.retain_removed(&self.old, root, predicates)?;
        let present = changes.present().map(|(path, _)| changes.path(path));
        let wanted = present.map(|path| hash_below(root, &path)).collect();
        let selected = select(&self.new, predicates, wanted)?;
        let is_selected = |path: &[u8]| selected.contains(&hash_below(root, path));
        changes.retain(|it| it.change == Change::Removed || is_selected(&it.path));
        changes.retain_carried(|path, _| is_selected(path));
        Ok(changes)
    }

    /// The directories, among some of [`CatalogPair::changes`], that are empty in the new catalog.
    ///
    /// # Errors
    /// The new catalog cannot be read, or is damaged.
    pub fn empty_directories(
        &self,
        changes: &Changes,
        directories: &[KeptPath],
    ) -> Result<HashSet<KeptPath>, Error> {
        let is_empty = Predicates {
            empty: true,
            ..Predicates::default()
        };
        let mut empty = HashSet::new();
        for (root, dir) in self.new.roots().iter().enumerate() {
            let below = |path: &[u8]| match self.has_several_dirs() {
                true => path.starts_with(dir).then(|| match relative(dir, path) {
                    b"" => path_id::top(root),
                    below => hash_below(root, below),
                }),
                false => Some(hash_below(root, path)),
            };
            let wanted: Vec<_> = directories
                .iter()
                .filter_map(|path| Some((below(&changes.path(*path))?, *path)))
                .collect();
            let hashes = wanted.iter().map(|(hash, _)| *hash).collect();
            let selected = select(&self.new, &is_empty, hashes)?;
            let found = wanted.iter().filter(|(hash, _)| selected.contains(hash));
            empty.extend(found.map(|(_, path)| *path));
        }
        Ok(empty)
    }

    fn all_changes(&self, root: usize) -> Result<Changes, Error> {
        let (old, new) = self.pairs[root];
        let (old, new) = (self.old.reader(old), self.new.reader(new));
        // Racy entries may have changed without changing the digest, unless both catalogs are of
        // the same walk.
        let is_same_walk = old.about().started == new.about().started;
        if old.about().digest == new.about().digest && (old.about().racy == 0 || is_same_walk) {
            return Ok(Changes::default());
        }
        let index = match self.is_by_name {
            true => Index::load_by_name(old)?,
            false => Index::load(old)?,
        };
        let parts = Parts::from_catalog(&new.about().parts);
        let compare = Compare::with_parts(&index, &old.about().parts, parts);
        let compare = compare.with_metadata(self.metadata);
        let read = |group| self.compare_group(new, group, &compare);
        each_group(new, read, |_, ()| {})?;
        Changes::resolve(old, &index, &compare.into_found())
    }

    /// Compares the rows of a row group of the new catalog, directory by directory.
    fn compare_group(
        &self,
        reader: &Reader,
        group: usize,
        compare: &Compare<'_>,
    ) -> Result<(), Error> {
        let columns = RowColumns::new(reader, group);
        let (dirs, names) = (columns.dirs()?, columns.names()?);
        let (parts, generations) = (reader.read(PART, group)?, columns.generations()?);
        let owner = match self.metadata || self.is_by_name {
            true => Fields::empty(),
            false => Fields::UID | Fields::GID,
        };
        let unread = Fields::ATIME | Fields::BLOCKS | Fields::REST | owner;
        let metas = columns.metas(Fields::all() - unread)?;
        let known = &reader.about().parts;
        let meta = |row: usize| -> Result<Meta, Error> {
            let part = known.get(parts[row] as usize);
            let part = part.ok_or_else(|| self.new.error(ErrorKind::DamagedCatalog))?;
            Ok(Meta {
                generation: generations[row],
                mount: parts[row].into(),
                dev: part.dev,
                ..metas(row)
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
            emit_entries(&mut *worker, b"", path, &entries);
        }
        Ok(())
    }
}

impl Changes {
    /// Drops removed entries that the predicates do not select in the old catalog.
    pub(super) fn retain_removed(
        &mut self,
        old: &DataSet,
        root: usize,
        predicates: &Predicates,
    ) -> Result<(), Error> {
        let removed = self.entries();
        let removed = removed.filter(|entry| entry.change == Change::Removed);
        let removed = removed.map(|entry| hash_below(root, &entry.path)).collect();
        let selected = select(old, predicates, removed)?;
        self.retain(|entry| {
            entry.change != Change::Removed || selected.contains(&hash_below(root, &entry.path))
        });
        Ok(())
    }
}

/// The error for a catalog without a counterpart in the other data set.
fn unpaired(data: &[u8], reader: &Reader) -> Error {
    let root = reader.about().roots.first();
    let root = root.map(|root| root.absolute.as_ref().unwrap_or(&root.path));
    let root = root.cloned().unwrap_or_default();
    Error::new(Action::UseCatalog, data, ErrorKind::Unpaired { root })
}

/// Checks that two catalogs can be compared; returns the path of the directory in the new catalog,
/// and whether the old catalog is of the same directory.
fn check(
    before: &Reader,
    old: &[u8],
    after: &Reader,
    new: &[u8],
) -> Result<(Vec<u8>, bool), Error> {
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
    let [shard, other_shard] = [before, after].map(|reader| {
        let part = reader.about().options.shard.as_ref();
        part.and_then(ShardOfRun::shard)
    });
    let only = shard.map(|shard| (old, shard));
    let only = only.or(other_shard.map(|shard| (new, shard)));
    if let Some((path, only)) = only.filter(|_| shard != other_shard) {
        return Err(Error::new(
            Action::UseCatalog,
            path,
            ErrorKind::OnlyShard(only),
        ));
    }
    let is_same = check_root(&root, &part, &other_part, || other.absolute.clone());
    Ok((other.path, is_same.is_ok()))
}

/// The hash of a path below a DIR; `.` is DIR itself.
fn hash_below(root: usize, path: &[u8]) -> u64 {
    match path {
        b"." => path_id::top(root),
        path => hash(root as u32, path),
    }
}

/// Selects, among path hashes, those of entries that the predicates select.
fn select(
    data: &DataSet,
    predicates: &Predicates,
    wanted: HashSet<u64>,
) -> Result<HashSet<u64>, Error> {
    let selection = Selection {
        wanted,
        selected: Mutex::default(),
    };
    if !selection.wanted.is_empty() {
        data.emit(predicates, &selection)?;
    }
    Ok(selection.selected.into_inner())
}

/// A sink that records which of the wanted entries it receives.
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
        let paths = entries
            .iter()
            .map(|entry| path_hash(dir.key.id, entry.name));
        let mut paths = paths.filter(|path| self.wanted.contains(path)).peekable();
        if paths.peek().is_some() {
            self.selected.lock().extend(paths);
        }
    }
}
