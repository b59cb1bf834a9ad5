//! Matches differing entries with the catalog's unmatched rows, to tell added, changed, removed and
//! renamed entries apart.

use std::collections::{HashMap, HashSet};

use walk::path_id;

use super::compare::{DifferingEntries, DifferingEntry};
use crate::error::Error;
use crate::format::Reader;
use crate::since::index::{Identity, Index, RowMatch};

/// The outcome for an entry or a row. Entries are indexes into [`DifferingEntries::entries`], rows
/// are indexes into the catalog's index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EntryOutcome {
    Added(usize),
    /// A changed entry, and its row, or the row of the entry that it has replaced.
    Changed(usize, u32),
    /// A renamed entry, and its former row.
    Renamed(usize, u32),
    /// An unchanged entry below a renamed directory.
    Carried(usize),
    Removed(u32),
}

/// Determines the outcome of every differing entry and every unmatched row.
///
/// # Errors
/// The catalog cannot be read.
pub(super) fn resolve(
    reader: &Reader,
    index: &Index,
    found: &DifferingEntries,
) -> Result<Vec<EntryOutcome>, Error> {
    let is_lost = |&row: &u32| index.row(row).row_match() != RowMatch::Found;
    let lost: Vec<u32> = (0..index.rows().len() as u32).filter(is_lost).collect();
    let mut resolver = Resolver {
        index,
        found,
        identities: index.identities(reader, &lost)?,
        lost,
        moved: HashMap::new(),
        outcomes: Vec::new(),
    };
    // Directories come first, top-down, because their entries move with them. Other entries are
    // sorted, so that the result does not depend on the engine.
    let entry = |at: usize| &found.entries[at];
    let mut order: Vec<usize> = (0..found.entries.len()).collect();
    order.sort_by(|&a, &b| {
        let (a, b) = (entry(a), entry(b));
        let place = |entry: &DifferingEntry| (!entry.is_dir, entry.depth);
        place(a).cmp(&place(b)).then_with(|| found.compare(a, b))
    });
    let (dirs, others) = order.split_at(order.partition_point(|&at| entry(at).is_dir));
    let mut in_place = resolver.find_rows(dirs, true);
    in_place.extend(resolver.find_rows(others, false));
    resolver.settle_the_rest(in_place);
    Ok(resolver.outcomes)
}

struct Resolver<'a> {
    index: &'a Index,
    found: &'a DifferingEntries,
    /// Rows that were not matched, ascending, parallel to `identities`.
    lost: Vec<u32>,
    identities: Vec<Identity>,
    /// Maps hashes of new directory paths to those of the former paths.
    moved: HashMap<u64, u64>,
    outcomes: Vec<EntryOutcome>,
}

impl<'a> Resolver<'a> {
    fn entry(&self, at: usize) -> &'a DifferingEntry {
        &self.found.entries[at]
    }

    fn is_lost(&self, row: u32) -> bool {
        self.index.row(row).row_match() != RowMatch::Found
    }

    /// The index of a row in `lost`.
    fn place(&self, row: u32) -> Option<usize> {
        self.lost.binary_search(&row).ok()
    }

    /// Whether an unmatched row is still available, and has the identity of an entry.
    fn is_free(&self, nth: usize, at: usize) -> bool {
        self.is_lost(self.lost[nth]) && self.identities[nth].is_same_file(&self.entry(at).identity)
    }

    /// The unmatched row of an entry that moved with its renamed directory.
    fn carried(&self, at: usize) -> Option<usize> {
        let entry = self.entry(at);
        let dir = *self.moved.get(&entry.parent)?;
        let was = path_id::below(dir, self.found.name(entry));
        let nth = self.place(self.index.find(was)?);
        nth.filter(|&nth| self.is_free(nth, at))
    }

    /// Matches entries with rows; all entries are directories, or none is. Returns the entries that
    /// are still at their former path, with their rows. All other entries have an outcome
    /// afterwards.
    fn find_rows(&mut self, order: &[usize], is_dir: bool) -> Vec<(usize, u32)> {
        // A file at its former path is not searched elsewhere, unless it is a hard link that moved
        // with its directory.
        let is_here = |at: &usize| {
            let own = self.entry(*at).row().and_then(|row| self.place(row));
            own.is_some_and(|nth| self.is_free(nth, *at)) && self.carried(*at).is_none()
        };
        let (here, elsewhere): (Vec<usize>, Vec<usize>) = order.iter().copied().partition(is_here);
        let mut in_place = Vec::new();
        for at in here {
            let Some(row) = self.entry(at).row() else {
                continue;
            };
            self.index.row(row).record_match(RowMatch::Found);
            in_place.push((at, row));
        }
        // Unmatched rows whose file is no longer at its path, sorted by identity.
        let is_homeless = |&nth: &usize| {
            let row = self.lost[nth];
            self.is_lost(row) && self.index.row(row).is_dir() == is_dir
        };
        let mut homeless: Vec<usize> = (0..self.lost.len()).filter(is_homeless).collect();
        homeless.sort_by_key(|&nth| self.identities[nth].who);
        for at in elsewhere {
            self.find_row(at, &homeless);
        }
        in_place
    }

    /// Finds the former row of an entry that has a new path, and sets the outcome of both.
    fn find_row(&mut self, at: usize, homeless: &[usize]) {
        let entry = self.entry(at);
        let carried = self.carried(at);
        let renamed = || {
            let who = entry.identity.who;
            let from = homeless.partition_point(|&nth| self.identities[nth].who < who);
            let same = homeless[from..].iter().copied();
            let mut same = same.take_while(|&nth| self.identities[nth].who == who);
            same.find(|&nth| self.is_free(nth, at))
        };
        let row = carried.or_else(renamed).map(|nth| self.lost[nth]);
        self.outcomes.push(match row {
            Some(row) if carried.is_none() => EntryOutcome::Renamed(at, row),
            Some(row) if self.index.row(row).may_be_unchanged(entry.fingerprint) => {
                EntryOutcome::Carried(at)
            }
            Some(row) => EntryOutcome::Changed(at, row),
            None => EntryOutcome::Added(at),
        });
        if let Some(row) = row {
            self.index.row(row).record_match(RowMatch::Found);
            if entry.is_dir {
                self.moved.insert(entry.path, self.index.row(row).path);
            }
        }
    }

    /// Sets the outcome of entries still at their former path, and of the remaining rows.
    fn settle_the_rest(&mut self, in_place: Vec<(usize, u32)>) {
        let moved = std::mem::take(&mut self.moved);
        let other = other_directories(self.found, &self.outcomes, moved);
        let is_in_other = |entry: &DifferingEntry| other.contains(&entry.parent);
        // A directory rename moves all its entries: an entry still at its path must have been
        // renamed from the old directory into the new one.
        for (at, row) in in_place {
            let entry = self.entry(at);
            let old = self.index.row(row);
            if is_in_other(entry) {
                self.outcomes.push(EntryOutcome::Renamed(at, row));
            } else if !old.is_unchanged(&entry.identity, entry.fingerprint) {
                self.outcomes.push(EntryOutcome::Changed(at, row));
            }
        }
        // If the former file at an entry's path no longer exists, the entry has replaced it, and
        // counts as changed. But if the path is in a different directory now, the former file
        // counts as removed.
        let mut removed = Vec::new();
        for nth in 0..self.outcomes.len() {
            let (EntryOutcome::Added(at)
            | EntryOutcome::Changed(at, _)
            | EntryOutcome::Renamed(at, _)
            | EntryOutcome::Carried(at)) = self.outcomes[nth]
            else {
                continue;
            };
            let entry = self.entry(at);
            if let Some(row) = entry.row().filter(|&row| self.is_lost(row)) {
                if is_in_other(entry) {
                    removed.push(EntryOutcome::Removed(row));
                } else if self.outcomes[nth] == EntryOutcome::Added(at) {
                    self.outcomes[nth] = EntryOutcome::Changed(at, row);
                }
            }
        }
        self.outcomes.append(&mut removed);
        let is_missing = |row: &u32| self.index.row(*row).row_match() == RowMatch::Missing;
        let missing = self.lost.iter().copied().filter(is_missing);
        self.outcomes.extend(missing.map(EntryOutcome::Removed));
    }
}

/// Hashes of directory paths that now belong to a different directory: old and new paths of renamed
/// directories, and new directories below them.
fn other_directories(
    found: &DifferingEntries,
    outcomes: &[EntryOutcome],
    moved: HashMap<u64, u64>,
) -> HashSet<u64> {
    let mut others: HashSet<u64> = moved.into_iter().flat_map(<[u64; 2]>::from).collect();
    for outcome in outcomes {
        // Directories are ordered by depth, so parents come first.
        if let EntryOutcome::Added(at) = *outcome
            && let entry = &found.entries[at]
            && entry.is_dir
            && others.contains(&entry.parent)
        {
            others.insert(entry.path);
        }
    }
    others
}
