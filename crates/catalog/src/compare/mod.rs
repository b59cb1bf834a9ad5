//! Compares a tree in memory with a catalog, for an increment in the format of GNU tar: which
//! entries are unchanged, which must be dumped, and which renames move each directory to its new
//! path.

mod moves;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use base::pool::in_pieces;
use moves::{Dir, DirectoryMoves, moves};
use walk::path_id;

use crate::error::Error;
use crate::since::index::{Identity, Index, RowMatch};
pub use moves::{OldName, Rename, RenameStep, merge_renames};

/// An entry of the current tree.
#[derive(Clone, Copy)]
pub struct CurrentEntry<'a> {
    /// Row of the parent directory, which precedes the entry's own row; `None` for the directory of
    /// a SRC (a top).
    pub parent: Option<u32>,
    /// Name in the parent directory.
    pub name: &'a [u8],
    /// Identity of the file; its part is numbered as in the catalog.
    pub identity: Identity,
    /// Hash of the metadata.
    pub fingerprint: u64,
    /// Whether the entry is a directory.
    pub is_dir: bool,
    /// Number of hard links.
    pub nlink: u32,
}

/// How an entry is treated in the archive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryTreatment {
    /// Not in the archive: earlier dumps restore the entry.
    Kept,
    /// In the archive. A directory keeps the entries that its dumpdir lists.
    Dumped,
    /// A directory in the archive that replaces a different directory, which must be removed first.
    Replaces,
    /// In the archive, as a hard link to an unchanged entry.
    Link,
}

/// The result of comparing a tree with a catalog.
pub struct TreeOutcome {
    /// How each entry is treated, by row.
    pub fates: Vec<EntryTreatment>,
    /// Targets of hard links, by row.
    pub links: HashMap<u32, u32>,
    /// For each entry, the unchanged row of the catalog plus one; 0 for none.
    pub rows: Vec<u32>,
    /// The renames, in order, which a restore makes before anything else. The tops are row numbers.
    pub steps: Vec<RenameStep>,
    /// Number of renamed directories.
    pub renamed: u64,
    /// Number of removed rows of the catalog.
    pub removed: u64,
    /// Whether the tree is unchanged. The archive contains its tops nevertheless.
    pub is_unchanged: bool,
}

/// Compares the entries `0..len`, given by `entry`. `dirs` are the rows of directories. `top`
/// returns the hash of a row's top; `names` reads the names of catalog rows, with the hashes of
/// their tops.
///
/// # Errors
/// The errors of `names`.
pub fn compare<'a>(
    len: u32,
    entry: impl Fn(u32) -> CurrentEntry<'a> + Sync,
    dirs: impl Iterator<Item = u32>,
    top: impl Fn(u32) -> u64 + Sync,
    then: &Index,
    names: impl FnOnce(&[u32]) -> Result<Vec<(u64, OldName)>, Error>,
) -> Result<TreeOutcome, Error> {
    let mut now = Directories::default();
    for row in dirs {
        now.add(row, &entry(row), || top(row), then);
    }
    let old = now.find_homes(then, names)?;
    let was_dir = |was| then.find(was).map(|row| then.row(row).is_dir());
    let DirectoryMoves {
        kept,
        is_taken,
        mut steps,
    } = moves(&now.dirs, &now.unmoved, old, was_dir);
    for step in &mut steps {
        step.top = now.rows[step.top as usize];
    }

    let (mut fates, mut rows) = (
        vec![EntryTreatment::Kept; len as usize],
        vec![0; len as usize],
    );
    let entries = ComparedEntries {
        entry,
        top,
        then,
        now,
        stays: kept.iter().map(|_| AtomicU32::default()).collect(),
        is_touched: kept.iter().map(|_| AtomicBool::default()).collect(),
        kept,
    };
    let compare = |first, fates: &mut [_], rows: &mut [_]| entries.compare(first, fates, rows);
    let (mut linked, mut renamed, mut found) = (Vec::new(), 0, 0);
    /// Minimum number of rows for a thread.
    const WORTH: usize = if cfg!(test) { 3 } else { 1 << 14 };
    for piece in in_pieces((&mut fates, &mut rows), WORTH, compare) {
        linked.extend(piece.linked);
        renamed += piece.renamed;
        found += piece.found;
    }
    let mut tops = 0;
    for (at, &row) in entries.now.rows.iter().enumerate() {
        let is_top = (entries.entry)(row).parent.is_none();
        fates[row as usize] = match entries.kept[at] {
            None if is_taken[at] => EntryTreatment::Replaces,
            // Every archive contains each SRC directory, with its dumpdir.
            Some(_) if is_top => {
                tops += usize::from(entries.is_same_top(row));
                EntryTreatment::Dumped
            }
            Some(was) if entries.is_unchanged(at, was) => EntryTreatment::Kept,
            _ => EntryTreatment::Dumped,
        };
    }
    let removed = then.rows().len() as u64 - found;
    let changed = fates
        .iter()
        .filter(|fate| **fate != EntryTreatment::Kept)
        .count();
    let is_unchanged = removed == 0 && steps.is_empty() && changed == tops;
    let links = find_links(entries.entry, &linked, &fates);
    for &row in links.keys() {
        fates[row as usize] = EntryTreatment::Link;
    }
    Ok(TreeOutcome {
        fates,
        links,
        rows,
        steps,
        renamed,
        removed,
        is_unchanged,
    })
}

/// The current and the former entries, shared by all threads.
struct ComparedEntries<'t, 'n, E, T> {
    entry: E,
    top: T,
    then: &'t Index,
    now: Directories<'n>,
    /// For each kept directory, the hash of its former path.
    kept: Vec<Option<u64>>,
    /// For each directory, how many of its former entries are still in it.
    stays: Vec<AtomicU32>,
    /// For each directory, whether the directory itself has changed, or has an entry that is new or
    /// changed.
    is_touched: Vec<AtomicBool>,
}

impl<'n, E: Fn(u32) -> CurrentEntry<'n>, T: Fn(u32) -> u64> ComparedEntries<'_, 'n, E, T> {
    fn touch_if(&self, dir: usize, differs: bool) {
        if differs {
            self.is_touched[dir].store(true, Relaxed);
        }
    }

    /// Whether a directory has all its former entries, and neither the directory nor an entry has
    /// changed. `was` is the hash of its former path.
    fn is_unchanged(&self, dir: usize, was: u64) -> bool {
        let has_all = self.stays[dir].load(Relaxed) == self.then.children(was);
        has_all && !self.is_touched[dir].load(Relaxed)
    }

    /// Whether the metadata of a top is unchanged.
    fn is_same_top(&self, row: u32) -> bool {
        let old = self.then.find((self.top)(row));
        old.is_some_and(|old| self.then.row(old).has((self.entry)(row).fingerprint))
    }

    /// Compares a range of entries, beginning with `first`.
    fn compare(&self, first: u32, fates: &mut [EntryTreatment], rows: &mut [u32]) -> RangeMatches {
        let (then, kept) = (self.then, &self.kept);
        let find = |old: u32| u64::from(then.row(old).record_match(RowMatch::Found));
        let mut piece = RangeMatches::default();
        // An entry mostly has the parent directory of the previous entry, and its row in the catalog
        // mostly follows that of the previous entry. Trying these first avoids searches.
        let mut within: Option<(u32, usize)> = None;
        let mut likely = 0;
        for ((row, fate), kept_as) in (first..).zip(fates).zip(rows) {
            let entry = (self.entry)(row);
            let parent = entry.parent.and_then(|parent| match within {
                Some((dir, place)) if dir == parent => Some(place),
                _ => self.now.place(parent),
            });
            within = entry.parent.zip(parent);
            let at_its_path = match parent {
                Some(parent) => kept[parent].map(|dir| path_id::below(dir, entry.name)),
                None => Some((self.top)(row)),
            };
            let in_its_place = at_its_path.and_then(|path| then.find_near(path, likely));
            likely = in_its_place.map_or(likely, |row| row + 1);
            let is_there = if let Some(at) = entry.is_dir.then(|| self.now.place(row)).flatten() {
                let is_there = kept[at].is_some() && kept[at] == at_its_path;
                let old = if is_there {
                    in_its_place
                } else {
                    kept[at].and_then(|was| then.find(was))
                };
                let is_same =
                    old.is_some_and(|old| then.row(old).may_be_unchanged(entry.fingerprint));
                self.touch_if(at, !is_there || !is_same);
                piece.renamed += u64::from(kept[at].is_some() && !is_there);
                *kept_as = old.map_or(0, |old| old + 1);
                piece.found += old.map_or(0, find);
                is_there
            } else {
                let old = in_its_place.filter(|&old| {
                    then.row(old)
                        .is_unchanged(&entry.identity, entry.fingerprint)
                });
                *kept_as = old.map_or(0, |old| old + 1);
                if old.is_none() {
                    *fate = EntryTreatment::Dumped;
                }
                if entry.nlink > 1 {
                    piece.linked.push(row);
                }
                old.is_some()
            };
            piece.found += in_its_place.map_or(0, find);
            if let Some(parent) = parent {
                self.stays[parent].fetch_add(u32::from(is_there), Relaxed);
                self.touch_if(parent, !is_there);
            }
        }
        piece
    }
}

/// The result for a range of entries.
#[derive(Default)]
struct RangeMatches {
    /// Rows of files with several hard links.
    linked: Vec<u32>,
    /// Number of renamed directories.
    renamed: u64,
    /// Number of matched rows of the catalog.
    found: u64,
}

/// Finds hard links that need not be dumped with data: rows to be dumped that are the same file as
/// an unchanged row. Returns links and targets.
fn find_links<'a>(
    entry: impl Fn(u32) -> CurrentEntry<'a>,
    linked: &[u32],
    fates: &[EntryTreatment],
) -> HashMap<u32, u32> {
    let entry = &entry;
    let with_fate = |wanted: EntryTreatment| {
        let rows = linked
            .iter()
            .filter(move |row| fates[**row as usize] == wanted);
        rows.map(move |&row| (row, entry(row)))
    };
    let dumped = with_fate(EntryTreatment::Dumped);
    let wanted: HashSet<u64> = dumped.map(|(_, entry)| entry.identity.who).collect();
    if wanted.is_empty() {
        return HashMap::new();
    }
    let mut names: HashMap<u64, (u32, CurrentEntry<'_>)> = HashMap::new();
    for (row, entry) in with_fate(EntryTreatment::Kept) {
        if wanted.contains(&entry.identity.who) {
            names.entry(entry.identity.who).or_insert((row, entry));
        }
    }
    let same = with_fate(EntryTreatment::Dumped).filter_map(|(row, entry)| {
        let (kept, known) = names.get(&entry.identity.who)?;
        (known.identity.is_same_file(&entry.identity) && known.fingerprint == entry.fingerprint)
            .then_some((row, *kept))
    });
    same.collect()
}

/// The current directories. These are matched with the directories of the catalog only by metadata
/// that every engine reads, so that all engines write the same archive: a directory that reuses an
/// inode number counts as the old directory, renamed and changed.
#[derive(Default)]
struct Directories<'a> {
    dirs: Vec<Dir<'a>>,
    /// Rows of the directories, ascending.
    rows: Vec<u32>,
    /// Whether each directory and all its ancestors have the same path as before.
    unmoved: Vec<bool>,
    /// Hash of each directory's top.
    tops: Vec<u64>,
    /// Directories that are new or have a different path, by identity.
    homeless: HashMap<u64, Vec<u32>>,
    /// Index of the catalog's directory that probably matches the next directory, a shortcut for
    /// the search.
    likely: usize,
}

impl<'a> Directories<'a> {
    /// The index of a row among the directories.
    fn place(&self, row: u32) -> Option<usize> {
        self.rows.binary_search(&row).ok()
    }

    fn add(&mut self, row: u32, entry: &CurrentEntry<'a>, top: impl FnOnce() -> u64, then: &Index) {
        let at = self.dirs.len();
        let parent = entry.parent.and_then(|parent| self.place(parent));
        let was = match parent {
            None => Some(top()),
            Some(parent) if self.unmoved[parent] => {
                let dir = self.dirs[parent].was;
                let path = dir.map(|dir| path_id::below(dir, entry.name));
                let old = path.and_then(|path| then.find_dir_near(path, self.likely));
                self.likely = old.map_or(self.likely, |old| old + 1);
                path.filter(|_| old.is_some_and(|old| then.dirs()[old].1 == entry.identity.who))
            }
            Some(_) => None,
        };
        self.rows.push(row);
        self.unmoved.push(was.is_some());
        self.tops
            .push(parent.map_or(was.unwrap_or_default(), |parent| self.tops[parent]));
        self.dirs.push(Dir {
            parent: parent.unwrap_or(at) as u32,
            name: entry.name,
            was,
        });
        if was.is_none() {
            let same = self.homeless.entry(entry.identity.who).or_default();
            same.push(at as u32);
        }
    }

    /// Matches renamed directories with their former paths, and reads their former names.
    fn find_homes(
        &mut self,
        then: &Index,
        names: impl FnOnce(&[u32]) -> Result<Vec<(u64, OldName)>, Error>,
    ) -> Result<HashMap<u64, OldName>, Error> {
        if self.homeless.is_empty() {
            return Ok(HashMap::new());
        }
        let taken: HashSet<u64> = self.dirs.iter().filter_map(|dir| dir.was).collect();
        let mut homes = then.dirs().to_vec();
        homes.retain(|&(row, who)| {
            self.homeless.contains_key(&who) && !taken.contains(&then.row(row).path)
        });
        let rows: Vec<u32> = homes.iter().map(|&(row, _)| row).collect();
        let mut old = HashMap::new();
        for ((row, who), (top, name)) in homes.into_iter().zip(names(&rows)?) {
            let path = then.row(row).path;
            let mut same = self.homeless.get(&who).into_iter().flatten();
            let is_free = |at: usize| self.dirs[at].was.is_none() && self.tops[at] == top;
            if let Some(&at) = same.find(|&&at| is_free(at as usize))
                && !old.contains_key(&path)
            {
                self.dirs[at as usize].was = Some(path);
                old.insert(path, name);
            }
        }
        Ok(old)
    }
}
