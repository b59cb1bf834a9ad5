//! Compares a tree in memory with a catalog, as an increment of GNU tar needs it: which entries are unchanged, which must be
//! dumped, and which renames bring each directory to its place.

mod moves;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use base::pool::in_pieces;
use moves::{Dir, Moves, moves};
use walk::path_id;

use crate::error::Error;
use crate::since::index::{Identity, Index, RowMatch};
pub use moves::{OldName, Rename, RenameStep, once};

/// An entry as it is now.
#[derive(Clone, Copy)]
pub struct Now<'a> {
    /// The row of its directory, which precedes its own; `None` for a top.
    pub parent: Option<u32>,
    /// Its name in that directory.
    pub name: &'a [u8],
    /// Its identity, by the parts of the catalog.
    pub identity: Identity,
    /// Its fingerprint.
    pub fingerprint: u64,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// The number of its names.
    pub nlink: u32,
}

/// What becomes of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It is not in the archive: the earlier dumps restore it.
    Kept,
    /// It is in the archive. A directory keeps the entries that its dumpdir names.
    Dumped,
    /// It is a directory in the archive. Another directory is in its place, and must be removed
    /// first.
    Replaces,
    /// It is in the archive as a hard link to an entry that is kept.
    Link,
}

/// What becomes of the tree.
pub struct TreeOutcome {
    /// By entry.
    pub fates: Vec<Fate>,
    /// The targets of links, by row.
    pub links: HashMap<u32, u32>,
    /// By entry, the row of the catalog that it is kept as, plus one; 0 for none.
    pub rows: Vec<u32>,
    /// The renames, in order, before all else. Their tops are rows.
    pub steps: Vec<RenameStep>,
    /// The number of directories that were renamed.
    pub renamed: u64,
    /// The number of rows of the catalog that were removed.
    pub removed: u64,
    /// The tree is as it was. Its tops are in the archive all the same.
    pub is_unchanged: bool,
}

/// Compares the entries `0..len` that `entry` gives. `dirs` are the directories among them. `top`
/// gives the hash of the top of a row; `names` reads the names of rows of the catalog, with the
/// hashes of their tops.
///
/// # Errors
/// Those of `names`.
pub fn compare<'a>(
    len: u32,
    entry: impl Fn(u32) -> Now<'a> + Sync,
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
    let Moves {
        kept,
        is_taken,
        mut steps,
    } = moves(&now.dirs, &now.unmoved, old, was_dir);
    for step in &mut steps {
        step.top = now.rows[step.top as usize];
    }

    let (mut fates, mut rows) = (vec![Fate::Kept; len as usize], vec![0; len as usize]);
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
    /// Fewer rows are not worth a thread.
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
            None if is_taken[at] => Fate::Replaces,
            // Each SRC that is a directory is in every archive, with the list of its names.
            Some(_) if is_top => {
                tops += usize::from(entries.is_same_top(row));
                Fate::Dumped
            }
            Some(was) if entries.is_unchanged(at, was) => Fate::Kept,
            _ => Fate::Dumped,
        };
    }
    let removed = then.rows().len() as u64 - found;
    let changed = fates.iter().filter(|fate| **fate != Fate::Kept).count();
    let is_unchanged = removed == 0 && steps.is_empty() && changed == tops;
    let links = find_links(entries.entry, &linked, &fates);
    for &row in links.keys() {
        fates[row as usize] = Fate::Link;
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

/// The entries as they are now and as they were, for all threads.
struct ComparedEntries<'t, 'n, E, T> {
    entry: E,
    top: T,
    then: &'t Index,
    now: Directories<'n>,
    /// For each directory that is kept, the hash of the path that it had.
    kept: Vec<Option<u64>>,
    /// For each directory, how many of its entries are still in it.
    stays: Vec<AtomicU32>,
    /// For each directory, whether anything else differs.
    is_touched: Vec<AtomicBool>,
}

impl<'n, E: Fn(u32) -> Now<'n>, T: Fn(u32) -> u64> ComparedEntries<'_, 'n, E, T> {
    fn touch_if(&self, dir: usize, differs: bool) {
        if differs {
            self.is_touched[dir].store(true, Relaxed);
        }
    }

    /// A directory that had a path has all its entries, and nothing else differs.
    fn is_unchanged(&self, dir: usize, was: u64) -> bool {
        let has_all = self.stays[dir].load(Relaxed) == self.then.children(was);
        has_all && !self.is_touched[dir].load(Relaxed)
    }

    /// Whether a top has the metadata that it had.
    fn is_same_top(&self, row: u32) -> bool {
        let old = self.then.find((self.top)(row));
        old.is_some_and(|old| self.then.row(old).has((self.entry)(row).fingerprint))
    }

    /// Compares the entries from `first` on.
    fn compare(&self, first: u32, fates: &mut [Fate], rows: &mut [u32]) -> Piece {
        let (then, kept) = (self.then, &self.kept);
        let find = |old: u32| u64::from(then.row(old).settle(RowMatch::Found));
        let mut piece = Piece::default();
        // Most entries have the directory of the previous one, and follow it in the catalog as
        // well.
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
                    *fate = Fate::Dumped;
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

/// The result for some entries.
#[derive(Default)]
struct Piece {
    /// Files with several names.
    linked: Vec<u32>,
    /// The number of directories that were renamed.
    renamed: u64,
    /// The number of rows of the catalog that were found.
    found: u64,
}

/// Among files with several names, finds those that must be dumped and are the same file as one
/// that is kept: the hard links, and their targets.
fn find_links<'a>(
    entry: impl Fn(u32) -> Now<'a>,
    linked: &[u32],
    fates: &[Fate],
) -> HashMap<u32, u32> {
    let entry = &entry;
    let with_fate = |wanted: Fate| {
        let rows = linked
            .iter()
            .filter(move |row| fates[**row as usize] == wanted);
        rows.map(move |&row| (row, entry(row)))
    };
    let dumped = with_fate(Fate::Dumped);
    let wanted: HashSet<u64> = dumped.map(|(_, entry)| entry.identity.who).collect();
    if wanted.is_empty() {
        return HashMap::new();
    }
    let mut names: HashMap<u64, (u32, Now<'_>)> = HashMap::new();
    for (row, entry) in with_fate(Fate::Kept) {
        if wanted.contains(&entry.identity.who) {
            names.entry(entry.identity.who).or_insert((row, entry));
        }
    }
    let same = with_fate(Fate::Dumped).filter_map(|(row, entry)| {
        let (kept, known) = names.get(&entry.identity.who)?;
        (known.identity.is(&entry.identity) && known.fingerprint == entry.fingerprint)
            .then_some((row, *kept))
    });
    same.collect()
}

/// The directories as they are now. They are matched with the old ones by what every engine gives,
/// so that all engines write the same archive: a directory that reuses an inode number counts as
/// the old one, renamed and changed.
#[derive(Default)]
struct Directories<'a> {
    dirs: Vec<Dir<'a>>,
    /// Their rows, in ascending order.
    rows: Vec<u32>,
    /// The directory and everything above it have the same path as before.
    unmoved: Vec<bool>,
    /// The hash of the top of each.
    tops: Vec<u64>,
    /// The others, by identity.
    homeless: HashMap<u64, Vec<u32>>,
    /// The directory of the catalog that the next one most likely is.
    likely: usize,
}

impl<'a> Directories<'a> {
    /// The place of a row among the directories.
    fn place(&self, row: u32) -> Option<usize> {
        self.rows.binary_search(&row).ok()
    }

    fn add(&mut self, row: u32, entry: &Now<'a>, top: impl FnOnce() -> u64, then: &Index) {
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

    /// Finds the old paths of directories that were renamed, and reads the names that they had.
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
