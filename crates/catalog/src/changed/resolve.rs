//! Matches the entries that differ with the rows of the catalog that were not found: which were
//! added, changed, removed and renamed.

use std::collections::{HashMap, HashSet};

use walk::path_id;

use super::compare::{DifferingEntries, Differs};
use crate::error::Error;
use crate::format::Reader;
use crate::since::index::{Identity, Index, RowMatch};

/// What happened to an entry. Entries are places in [`DifferingEntries::entries`], rows are numbers in the
/// index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EntryOutcome {
    Added(usize),
    Changed(usize),
    /// An entry, and the row that it was.
    Renamed(usize, u32),
    /// An unchanged entry below a directory that was renamed.
    Carried(usize),
    Removed(u32),
}

/// Settles every entry that differs and every row.
///
/// # Errors
/// The catalog cannot be read.
pub(super) fn resolve(
    reader: &Reader,
    index: &Index,
    found: &DifferingEntries,
) -> Result<Vec<EntryOutcome>, Error> {
    let is_lost = |&row: &u32| index.row(row).fate() != RowMatch::Found;
    let lost: Vec<u32> = (0..index.rows().len() as u32).filter(is_lost).collect();
    let mut resolver = Resolver {
        index,
        found,
        identities: index.identities(reader, &lost)?,
        lost,
        moved: HashMap::new(),
        outcomes: Vec::new(),
    };
    // Directories come first, and from the top down: what is in them is carried along. Among
    // others, the order must not depend on the engine.
    let entry = |at: usize| &found.entries[at];
    let mut order: Vec<usize> = (0..found.entries.len()).collect();
    order.sort_by(|&a, &b| {
        let (a, b) = (entry(a), entry(b));
        let place = |entry: &Differs| (!entry.is_dir, entry.depth);
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
    /// The rows that were not found as they were, in ascending order, and their identities.
    lost: Vec<u32>,
    identities: Vec<Identity>,
    /// From the path of a directory to the path that it had.
    moved: HashMap<u64, u64>,
    outcomes: Vec<EntryOutcome>,
}

impl<'a> Resolver<'a> {
    fn entry(&self, at: usize) -> &'a Differs {
        &self.found.entries[at]
    }

    fn is_lost(&self, row: u32) -> bool {
        self.index.row(row).fate() != RowMatch::Found
    }

    /// The place of a row among those that are lost.
    fn place(&self, row: u32) -> Option<usize> {
        self.lost.binary_search(&row).ok()
    }

    /// A lost row has not been settled yet, and is of the same file as an entry.
    fn is_free(&self, nth: usize, at: usize) -> bool {
        self.is_lost(self.lost[nth]) && self.identities[nth].is(&self.entry(at).identity)
    }

    /// The lost row of an entry that came along with its directory.
    fn carried(&self, at: usize) -> Option<usize> {
        let entry = self.entry(at);
        let dir = *self.moved.get(&entry.parent)?;
        let was = path_id::below(dir, self.found.name(entry));
        let nth = self.place(self.index.find(was)?);
        nth.filter(|&nth| self.is_free(nth, at))
    }

    /// Finds the rows of entries, which are all directories or all others. Gives those that are
    /// still at their path, with their rows; all others are settled.
    fn find_rows(&mut self, order: &[usize], is_dir: bool) -> Vec<(usize, u32)> {
        // A file that is at its path is looked for nowhere else, unless this is another name of it
        // that came along with its directory.
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
            self.index.row(row).settle(RowMatch::Found);
            in_place.push((at, row));
        }
        // Rows whose file is not at its path any more, by identity.
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

    /// Finds the row of an entry that is not at its path, and settles both.
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
            Some(_) => EntryOutcome::Changed(at),
            None => EntryOutcome::Added(at),
        });
        if let Some(row) = row {
            self.index.row(row).settle(RowMatch::Found);
            if entry.is_dir {
                self.moved.insert(entry.path, self.index.row(row).path);
            }
        }
    }

    /// Settles the entries that are at their paths, and the rows that are left.
    fn settle_the_rest(&mut self, in_place: Vec<(usize, u32)>) {
        let moved = std::mem::take(&mut self.moved);
        let other = other_directories(self.found, &self.outcomes, moved);
        let is_in_other = |entry: &Differs| other.contains(&entry.parent);
        // A rename of a directory takes along all that is in it: what is still at its path was
        // renamed out of the old directory and into the new one.
        for (at, row) in in_place {
            let entry = self.entry(at);
            let old = self.index.row(row);
            if is_in_other(entry) {
                self.outcomes.push(EntryOutcome::Renamed(at, row));
            } else if !old.is_unchanged(&entry.identity, entry.fingerprint) {
                self.outcomes.push(EntryOutcome::Changed(at));
            }
        }
        // What had the path of an entry, and is nowhere now, was replaced by it; or removed, if
        // that was in another directory.
        let mut removed = Vec::new();
        for nth in 0..self.outcomes.len() {
            let (EntryOutcome::Added(at)
            | EntryOutcome::Changed(at)
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
                    self.outcomes[nth] = EntryOutcome::Changed(at);
                }
            }
        }
        self.outcomes.append(&mut removed);
        let is_missing = |row: &u32| self.index.row(*row).fate() == RowMatch::Missing;
        let missing = self.lost.iter().copied().filter(is_missing);
        self.outcomes.extend(missing.map(EntryOutcome::Removed));
    }
}

/// The paths that have another directory than before: those that directories were renamed to and
/// from, and new directories in these.
fn other_directories(
    found: &DifferingEntries,
    outcomes: &[EntryOutcome],
    moved: HashMap<u64, u64>,
) -> HashSet<u64> {
    let mut others: HashSet<u64> = moved.into_iter().flat_map(<[u64; 2]>::from).collect();
    for outcome in outcomes {
        // Outcomes of directories are in order of depth.
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
