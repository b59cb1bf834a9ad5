//! The rows of a catalog in memory, indexed by path: 30 bytes per row, since names stay in the
//! file.
//!
//! An entry is unchanged if its fingerprint is the same: a hash of its identity and of the metadata
//! that changes with every change. Identities are kept for directories only, to find them after a
//! rename. The few other identities needed are read from the file again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use base::path::names;
use base::pool::each;
use gate::heap::large_room;
use gate::sync::Mutex;
use walk::entry::Time;
use walk::moment::{Granularity, may_be_since};
use walk::{Fields, Meta, path_id};

use crate::error::Error;
use crate::format::columns::{
    BTIME, CTIME, DIR, GENERATION, INO, MODE, MTIME, NAME, PART, SIZE, TOP,
};
use crate::format::{Reader, RowColumns};
use crate::part::magic_of;

/// The identity of a file, independent of its names: an inode number denotes the same file as long
/// as its generation, or its birth time, is the same.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// A hash of the part, the inode number and the birth time. Every engine reads these; only
    /// engines below the file API read generations.
    pub who: u64,
    /// The inode's generation; 0 if unknown.
    generation: u32,
}

/// Part number for an entry on a file system that the catalog does not have.
pub const NO_PART: u32 = u32::MAX;

impl Identity {
    /// The identity of an inode; `part` is numbered as in the catalog.
    pub fn from_meta(part: u32, meta: &Meta) -> Identity {
        Identity::new(part, meta.ino, meta.btime, meta.generation)
    }

    fn new(part: u32, ino: u64, btime: Option<Time>, generation: Option<u32>) -> Identity {
        // An invalid number of nanoseconds, which denotes a missing time.
        const NEVER: u32 = u32::MAX;
        let (sec, nsec) = btime.map_or((0, NEVER), |time| (time.sec, time.nsec));
        let part = u64::from(part) << 32;
        Identity {
            who: hashed([ino, part | u64::from(nsec), sec.cast_unsigned()]),
            generation: generation.unwrap_or(0),
        }
    }

    /// The identity of an entry of a different directory: only the path tells which file it is.
    pub(crate) fn from_path(path: u64) -> Identity {
        Identity {
            who: path,
            generation: 0,
        }
    }

    /// Whether two identities are of the same file. Generations are compared only if both are
    /// known.
    pub fn is_same_file(&self, other: &Identity) -> bool {
        self.who == other.who && is_generation(self.generation, other.generation)
    }
}

fn is_generation(one: u32, other: u32) -> bool {
    one == other || one == 0 || other == 0
}

/// The fingerprint of an entry. The generation is compared separately. Times are only compared for
/// equality, so a clock set back does no harm.
pub fn fingerprint(who: u64, meta: &Meta) -> u64 {
    let mode = u64::from(meta.mode) << 32;
    let (mtime, ctime) = (meta.mtime, meta.ctime);
    hashed([
        who,
        mode | u64::from(mtime.nsec),
        ctime.nsec.into(),
        mtime.sec.cast_unsigned(),
        ctime.sec.cast_unsigned(),
        meta.size,
    ])
}

/// The fingerprint of an entry that is compared with an entry of the same name in a different
/// directory: without the inode's numbers and ctime, but with the owner, whose changes the ctime
/// tells otherwise. The size of a directory depends on the file system.
pub(crate) fn fingerprint_by_name(path: u64, meta: &Meta) -> u64 {
    let (mode, uid) = (u64::from(meta.mode) << 32, u64::from(meta.uid) << 32);
    hashed([
        path,
        mode | u64::from(meta.mtime.nsec),
        uid | u64::from(meta.gid),
        meta.mtime.sec.cast_unsigned(),
        if meta.is_dir() { 0 } else { meta.size },
    ])
}

pub(super) fn hashed<const N: usize>(words: [u64; N]) -> u64 {
    path_id::hashed(words.map(u64::to_le_bytes).as_flattened())
}

/// A row of the catalog, as kept in the index.
#[derive(Debug, Default)]
pub struct IndexedRow {
    /// Hash of the path.
    pub path: u64,
    fingerprint: u64,
    generation: u32,
    /// A [`RowMatch`], and the flags DIRECTORY and RACY.
    state: AtomicU8,
}

const DIRECTORY: u8 = 1 << 7;
const RACY: u8 = 1 << 6;

impl IndexedRow {
    fn set(&mut self, fingerprint: u64, is_dir: bool, may_be_since: bool) {
        self.fingerprint = fingerprint;
        *self.state.get_mut() =
            if is_dir { DIRECTORY } else { 0 } | if may_be_since { RACY } else { 0 };
    }

    /// Whether the row is a directory.
    pub fn is_dir(&self) -> bool {
        self.state.load(Relaxed) & DIRECTORY != 0
    }

    /// Whether the row has this fingerprint; even so, the entry may have changed within a tick of
    /// the clock.
    pub fn has(&self, fingerprint: u64) -> bool {
        self.fingerprint == fingerprint
    }

    /// Whether an entry with this fingerprint is unchanged, as far as every engine can tell.
    pub fn may_be_unchanged(&self, fingerprint: u64) -> bool {
        self.fingerprint == fingerprint && self.state.load(Relaxed) & RACY == 0
    }

    /// Whether an entry with this identity and fingerprint is certainly unchanged.
    pub fn is_unchanged(&self, identity: &Identity, fingerprint: u64) -> bool {
        self.may_be_unchanged(fingerprint) && is_generation(self.generation, identity.generation)
    }

    /// How far the row has been matched with an entry of the tree.
    pub fn row_match(&self) -> RowMatch {
        RowMatch::from_state(self.state.load(Relaxed))
    }

    /// Records a match, unless a better match is recorded. Returns whether the match was recorded.
    pub fn record_match(&self, fate: RowMatch) -> bool {
        let bits = self.state.load(Relaxed) & (DIRECTORY | RACY);
        RowMatch::from_state(self.state.fetch_max(bits | fate as u8, Relaxed)) < fate
    }
}

/// How far a row of the catalog has been matched with an entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum RowMatch {
    /// No entry has the row's path.
    Missing = 0,
    /// The row's path has a different file, or the same file, changed.
    Doubtful = 1,
    /// The row's file is unchanged at its path, or was renamed.
    Found = 2,
}

impl RowMatch {
    fn from_state(state: u8) -> RowMatch {
        match state & !(DIRECTORY | RACY) {
            0 => RowMatch::Missing,
            1 => RowMatch::Doubtful,
            _ => RowMatch::Found,
        }
    }
}

/// A hash table from path hashes to row numbers.
struct PathHashTable {
    /// Slots with linear probing. A slot has a row number plus one in its lower bits, and bits of
    /// the path hash above; 0 is free.
    slots: Vec<u32>,
    /// Number of bits of a row number.
    bits: u32,
}

impl PathHashTable {
    fn new(rows: usize) -> PathHashTable {
        let many = rows + rows / 2 + 1;
        let mut slots = large_room(many).unwrap_or_default();
        slots.resize(many, 0);
        PathHashTable {
            slots,
            bits: usize::BITS - rows.leading_zeros(),
        }
    }

    /// The slot where probing for a path begins.
    fn best(&self, path: u64) -> usize {
        ((u128::from(path) * self.slots.len() as u128) >> u64::BITS) as usize
    }

    /// The bits of a path hash that a slot stores above the row number: the lower bits, because the
    /// upper bits select the slot.
    fn above(&self, path: u64) -> u32 {
        (path << self.bits) as u32
    }

    /// Adds a row; the table must not be full.
    fn add(&mut self, path: u64, row: u32) {
        let mut at = self.best(path);
        while self.slots[at] != 0 {
            at += 1;
            if at == self.slots.len() {
                at = 0;
            }
        }
        self.slots[at] = self.above(path) | (row + 1);
    }

    /// Adds rows, numbered from `first`.
    fn add_all(&mut self, first: u32, rows: &[IndexedRow]) {
        for (row, old) in (first..).zip(rows) {
            self.add(old.path, row);
        }
    }

    /// Candidate rows for a path hash, by the bits stored in the table.
    fn rows(&self, path: u64) -> impl Iterator<Item = u32> {
        let (above, rows) = (self.above(path), !(u64::MAX << self.bits) as u32);
        let (later, first) = self.slots.split_at(self.best(path));
        let there = first.iter().chain(later).take_while(|there| **there != 0);
        there
            .filter(move |there| *there & !rows == above)
            .map(move |there| (there & rows) - 1)
    }
}

/// The directories of a catalog.
#[derive(Default)]
struct Dirs {
    /// Number of rows in each directory, by the hash of its path.
    children: HashMap<u64, u32>,
    /// Rows of directories, ascending, with their [`Identity::who`].
    who: Vec<(u32, u64)>,
}

impl Dirs {
    fn add(&mut self, other: Dirs) {
        for (dir, n) in other.children {
            *self.children.entry(dir).or_default() += n;
        }
        self.who.extend(other.who);
    }
}

/// The rows of a catalog, indexed by path and, for directories, by identity.
pub struct Index {
    rows: Vec<IndexedRow>,
    slots: PathHashTable,
    /// Positions of the rows in the catalog; empty if the whole catalog is loaded.
    places: Vec<u32>,
    /// The directories among the loaded rows.
    dirs: Dirs,
    /// Whether entries are identified by their paths only.
    is_by_name: bool,
}

impl Index {
    /// Loads all rows of a catalog.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub fn load(reader: &Reader) -> Result<Index, Error> {
        let (mut rows, mut slots) = empty(reader.about().entries as usize);
        let mut rest = &mut rows[..];
        let mut groups: Vec<Mutex<(u32, &mut [IndexedRow])>> = Vec::new();
        for group in 0..reader.groups() {
            let (rows, later) = rest.split_at_mut(reader.rows(group));
            rest = later;
            groups.push(Mutex::new((reader.first(group), rows)));
        }
        let mut dirs = Dirs::default();
        let read = |group: usize| {
            let (first, rows) = &mut *groups[group].lock();
            load(reader, group, 0..rows.len(), (*first, rows))
        };
        each_group(reader, read, |group, inside| {
            let (first, rows) = &*groups[group].lock();
            slots.add_all(*first, rows);
            dirs.add(inside);
        })?;
        dirs.who.sort_unstable();
        Ok(Index {
            rows,
            slots,
            places: Vec::new(),
            dirs,
            is_by_name: false,
        })
    }

    /// Loads all rows of a catalog, to compare them by name with a catalog of a different directory.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub(crate) fn load_by_name(reader: &Reader) -> Result<Index, Error> {
        let mut index = Index::load(reader)?;
        index.is_by_name = true;
        let mut rows = index.rows.iter_mut();
        let fields = Fields::MODE | Fields::SIZE | Fields::UID | Fields::GID | Fields::MTIME;
        for group in 0..reader.groups() {
            let columns = RowColumns::new(reader, group);
            let metas = columns.metas(fields)?;
            for (at, row) in (0..reader.rows(group)).zip(&mut rows) {
                let meta = metas(at);
                row.generation = 0;
                row.set(fingerprint_by_name(row.path, &meta), meta.is_dir(), false);
            }
        }
        Ok(index)
    }

    /// Whether entries are identified by their paths only.
    pub(crate) fn is_by_name(&self) -> bool {
        self.is_by_name
    }

    /// Loads the rows at some positions of a catalog, ascending. Other row groups are not read.
    pub(crate) fn load_some(reader: &Reader, places: Vec<u32>) -> Result<Index, Error> {
        let ((mut rows, mut slots), mut dirs) = (empty(places.len()), Dirs::default());
        let mut from = 0;
        for (group, first, here) in by_group(reader, &places) {
            let into = (from as u32, &mut rows[from..from + here.len()]);
            from += here.len();
            dirs.add(load(reader, group, within(here, first), into)?);
        }
        slots.add_all(0, &rows);
        Ok(Index {
            rows,
            slots,
            places,
            dirs,
            is_by_name: false,
        })
    }

    /// Builds an index from path hashes and metadata, and from the number of rows in each
    /// directory.
    #[cfg(test)]
    pub(crate) fn new(
        of: impl ExactSizeIterator<Item = (u64, Meta)>,
        children: HashMap<u64, u32>,
    ) -> Index {
        let ((mut rows, mut slots), mut dirs) = (
            empty(of.len()),
            Dirs {
                children,
                who: Vec::new(),
            },
        );
        for (row, (path, meta)) in (0..).zip(of) {
            let Identity { who, generation } = Identity::from_meta(0, &meta);
            let old = &mut rows[row as usize];
            (old.path, old.generation) = (path, generation);
            old.set(fingerprint(who, &meta), meta.is_dir(), false);
            slots.add(path, row);
            dirs.who.extend(meta.is_dir().then_some((row, who)));
        }
        Index {
            rows,
            slots,
            places: Vec::new(),
            dirs,
            is_by_name: false,
        }
    }

    /// The position of a row in the catalog.
    pub(crate) fn place(&self, row: u32) -> u32 {
        self.places.get(row as usize).copied().unwrap_or(row)
    }

    /// All rows, by number.
    pub fn rows(&self) -> &[IndexedRow] {
        &self.rows
    }

    /// A row by its number.
    pub fn row(&self, row: u32) -> &IndexedRow {
        &self.rows[row as usize]
    }

    /// Number of rows in the directory with this path hash.
    pub fn children(&self, path: u64) -> u32 {
        self.dirs.children.get(&path).copied().unwrap_or(0)
    }

    /// Rows of directories, ascending, each with its [`Identity::who`].
    pub fn dirs(&self) -> &[(u32, u64)] {
        &self.dirs.who
    }

    /// The position in [`Index::dirs`] of the directory with this path hash. Tries `likely` first.
    pub fn find_dir_near(&self, path: u64, likely: usize) -> Option<usize> {
        match self.dirs().get(likely) {
            Some(&(row, _)) if self.row(row).path == path => Some(likely),
            _ => {
                let row = self.find(path)?;
                self.dirs().binary_search_by_key(&row, |(row, _)| *row).ok()
            }
        }
    }

    /// Reads the identities of some rows, given in ascending order.
    pub(crate) fn identities(&self, reader: &Reader, rows: &[u32]) -> Result<Vec<Identity>, Error> {
        if self.is_by_name {
            let paths = rows.iter().map(|&row| self.row(row).path);
            return Ok(paths.map(Identity::from_path).collect());
        }
        let places: Vec<u32> = rows.iter().map(|&row| self.place(row)).collect();
        let mut all = Vec::with_capacity(places.len());
        for (group, first, here) in by_group(reader, &places) {
            let here = within(here, first);
            identities(reader, group, here, |one, _| all.push(one))?;
        }
        Ok(all)
    }

    /// The row with this path hash. Tries `likely` first.
    pub fn find_near(&self, path: u64, likely: u32) -> Option<u32> {
        match self.rows.get(likely as usize) {
            Some(row) if row.path == path => Some(likely),
            _ => self.find(path),
        }
    }

    /// The row with this path hash.
    pub fn find(&self, path: u64) -> Option<u32> {
        let mut rows = self.slots.rows(path);
        rows.find(|&row| self.row(row).path == path)
    }
}

/// Converts positions in the catalog to positions in a row group.
fn within(places: &[u32], first: u64) -> impl Iterator<Item = usize> + Clone {
    let places = places.iter();
    places.map(move |&place| (u64::from(place) - first) as usize)
}

/// Creates rows with default values, and a table with room for them.
fn empty(many: usize) -> (Vec<IndexedRow>, PathHashTable) {
    let mut rows = large_room(many).unwrap_or_default();
    rows.resize_with(many, IndexedRow::default);
    (rows, PathHashTable::new(many))
}

/// Loads rows of a row group, by position, into `into`, which is numbered from `first`; returns the
/// directories among them. Columns are read and dropped one after the other, to save memory.
fn load(
    reader: &Reader,
    group: usize,
    wanted: impl Iterator<Item = usize> + Clone,
    (first, into): (u32, &mut [IndexedRow]),
) -> Result<Dirs, Error> {
    let mut all = Dirs {
        children: load_paths(reader, group, wanted.clone(), into)?,
        who: Vec::new(),
    };
    let mut left = into.iter_mut();
    let mut granularities = Vec::with_capacity(left.len());
    let known = |Identity { who, generation }, granularity| {
        // Until the rest of the metadata is read, `fingerprint` holds the identity, which is then
        // hashed with that metadata.
        if let Some(old) = left.next() {
            (old.fingerprint, old.generation) = (who, generation);
            granularities.push(granularity);
        }
    };
    identities(reader, group, wanted.clone(), known)?;
    let at_rest_before = reader.about().at_rest_before();
    let (modes, sizes) = (reader.read(MODE, group)?, reader.read(SIZE, group)?);
    let (mtimes, ctimes) = (reader.read(MTIME, group)?, reader.read(CTIME, group)?);
    let rows = (first..).zip(into).zip(wanted).zip(granularities);
    for (((row, old), at), granularity) in rows {
        let meta = Meta {
            mode: modes[at],
            size: sizes[at],
            mtime: mtimes.at(at),
            ctime: ctimes.at(at),
            ..Meta::default()
        };
        let (who, is_dir) = (old.fingerprint, meta.is_dir());
        all.who.extend(is_dir.then_some((row, who)));
        let may_be_since = may_be_since(meta.ctime, granularity, at_rest_before);
        old.set(fingerprint(who, &meta), is_dir, may_be_since);
    }
    Ok(all)
}

/// Loads path hashes of rows; returns the number of rows in each directory.
fn load_paths(
    reader: &Reader,
    group: usize,
    wanted: impl Iterator<Item = usize>,
    into: &mut [IndexedRow],
) -> Result<HashMap<u64, u32>, Error> {
    let mut children: HashMap<u64, u32> = HashMap::new();
    let (dirs, names) = (reader.read(DIR, group)?, reader.read(NAME, group)?);
    let tops = reader.read(TOP, group)?;
    // Cache of the last directory: index of DIR, relative path, and hash.
    let mut dir: (u32, &[u8], u64) = (0, b"", path_id::top(0));
    let mut inside = 0;
    for (old, at) in into.iter_mut().zip(wanted) {
        if (dir.0, dir.1) != (tops[at], &dirs[at]) {
            *children.entry(dir.2).or_default() += std::mem::take(&mut inside);
            dir = (tops[at], &dirs[at], hash(tops[at], &dirs[at]));
        }
        let name = &names[at];
        inside += u32::from(!name.is_empty());
        old.path = path_hash(dir.2, name);
    }
    *children.entry(dir.2).or_default() += inside;
    Ok(children)
}

/// Reads the identities of some rows of a row group, by position.
fn identities(
    reader: &Reader,
    group: usize,
    wanted: impl Iterator<Item = usize>,
    mut take: impl FnMut(Identity, Granularity),
) -> Result<(), Error> {
    let (parts, inos) = (reader.read(PART, group)?, reader.read(INO, group)?);
    let (btimes, generations) = (reader.read(BTIME, group)?, reader.read(GENERATION, group)?);
    for at in wanted {
        let (part, ino, btime) = (parts[at], inos[at], btimes.at(at));
        let magic = magic_of(&reader.about().parts, part as usize);
        let granularity = Granularity::new(magic, btime.is_some());
        take(
            Identity::new(part, ino, btime, generations[at]),
            granularity,
        );
    }
    Ok(())
}

/// Reads row groups in several threads, and passes the results to `take` one at a time, in any
/// order.
///
/// # Errors
/// The errors of `read`. After the first error, no more row groups are read.
pub fn each_group<T>(
    reader: &Reader,
    read: impl Fn(usize) -> Result<T, Error> + Sync,
    take: impl FnMut(usize, T) + Send,
) -> Result<(), Error> {
    each(reader.groups(), read, take)
}

/// Groups ascending positions in a catalog by row group: the group, the position of its first row,
/// and the positions in it.
pub fn by_group<'a>(
    reader: &Reader,
    places: &'a [u32],
) -> impl Iterator<Item = (usize, u64, &'a [u32])> {
    let (mut left, mut first) = (places, 0u64);
    let groups = (0..reader.groups()).map(move |group| {
        let begin = first;
        first += reader.rows(group) as u64;
        let (here, later) = left.split_at(left.partition_point(|&place| u64::from(place) < first));
        left = later;
        (group, begin, here)
    });
    groups.filter(|(.., here)| !here.is_empty())
}

/// The [`path_id`] of an entry; for an empty name, of the directory.
pub(crate) fn path_hash(dir: u64, name: &[u8]) -> u64 {
    match name {
        b"" => dir,
        name => path_id::below(dir, name),
    }
}

/// The [`path_id`] of a path relative to a DIR.
pub(crate) fn hash(top: u32, path: &[u8]) -> u64 {
    names(path).fold(path_id::top(top as usize), path_id::below)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Probing may begin near the end of the table, and several path hashes may begin at the
        /// same slot.
        #[test]
        fn rows_are_found_by_their_paths(first: u64, steps in proptest::collection::vec(1..4u64, 0..99), is_far: bool) {
            let step = if is_far { 1 << 57 } else { 1 };
            let mut path = first;
            let paths: Vec<u64> = steps
                .iter()
                .map(|n| {
                    path = path.wrapping_add(n * step);
                    path
                })
                .collect();
            let index = Index::new(paths.iter().map(|&path| (path, Meta::default())), HashMap::new());
            for path in paths.iter().copied().chain([first, path.wrapping_add(1), 0, u64::MAX]) {
                let found = index.find(path).map(|row| paths[row as usize]);
                prop_assert_eq!(found, Some(path).filter(|path| paths.contains(path)));
            }
        }
    }

    #[test]
    fn a_generation_counts_where_both_are_known() {
        let meta = |generation| Meta {
            ino: 7,
            generation,
            ..Meta::default()
        };
        let identity = |generation| Identity::from_meta(0, &meta(generation));
        let is = |then, now| {
            let index = Index::new([(1, meta(then))].into_iter(), HashMap::new());
            let is_unchanged = index
                .row(0)
                .is_unchanged(&identity(now), fingerprint(identity(now).who, &meta(now)));
            assert_eq!(is_unchanged, identity(then).is_same_file(&identity(now)));
            is_unchanged
        };
        assert!(is(None, None) && is(None, Some(3)) && is(Some(3), None) && is(Some(3), Some(3)));
        assert!(!is(Some(3), Some(4)));
    }

    #[test]
    fn a_better_fate_is_kept() {
        let old = IndexedRow::default();
        assert!(
            old.record_match(RowMatch::Doubtful)
                && !old.record_match(RowMatch::Doubtful)
                && old.record_match(RowMatch::Found)
        );
        assert!(!old.record_match(RowMatch::Doubtful) && old.row_match() == RowMatch::Found);
    }
}
