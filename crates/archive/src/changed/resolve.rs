//! What became of what: of the entries that differ, and the rows of the catalog that were not found, makes what was added,
//! changed, removed and renamed.

use std::collections::{HashMap, HashSet};

use super::compare::Found;
use super::index::{Fate, Index};
use crate::catalog::{Fault, Reader};

/// What became of an entry. Entries are by their place in [`Found::entries`], rows by their place in the catalog.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    Added(usize),
    Changed(usize),
    /// An entry, and the row that it was.
    Renamed(usize, u32),
    /// An entry that is as it was, in a directory that was renamed, or below one.
    Carried(usize),
    Removed(u32),
}

/// Settles every entry that differs and every row.
///
/// # Errors
/// The catalog cannot be read.
pub(super) fn resolve(reader: &Reader, index: &Index, found: &Found) -> Result<Vec<Outcome>, Fault> {
    let is_lost = |&row: &u32| index.row(row).fate() != Fate::Found;
    let mut outcomes = Vec::new();

    // The rows that have not been found as they were, and who they are. They go by their places among these.
    let lost: Vec<u32> = (0..index.rows().len() as u32).filter(is_lost).collect();
    let identities = index.identities(reader, &lost)?;
    let place = |row: u32| lost.binary_search(&row).ok();

    // What is where it was, and the same file, has changed in place. None of that is looked for elsewhere.
    let mut order: Vec<usize> = Vec::with_capacity(found.entries.len());
    let mut in_place: Vec<(usize, u32)> = Vec::new();
    for (at, entry) in found.entries.iter().enumerate() {
        match entry.row().filter(|&row| place(row).is_some_and(|nth| identities[nth].is(&entry.identity))) {
            Some(row) => {
                index.row(row).settle(Fate::Found);
                in_place.push((at, row));
            }
            None => order.push(at),
        }
    }

    // Rows whose file is no longer at their path, by identity.
    let mut homeless: Vec<usize> = (0..lost.len()).filter(|&nth| is_lost(&lost[nth])).collect();
    homeless.sort_by_key(|&nth| (identities[nth].who, index.row(lost[nth]).path));

    // From above: the directory before what is in it; else in an order that does not depend on who walked. `moved` leads from
    // where a directory is to where it was.
    order.sort_by_key(|&at| (found.entries[at].depth, found.entries[at].path));
    let mut moved: HashMap<u64, u64> = HashMap::new();
    for at in order {
        let entry = &found.entries[at];
        let is_free = |nth: usize| is_lost(&lost[nth]) && identities[nth].is(&entry.identity);
        let was = moved.get(&entry.parent).map(|&dir| found.in_other(entry, dir));
        let carried = was.and_then(|path| place(index.find(path)?)).filter(|&nth| is_free(nth));
        let renamed = || {
            let from = homeless.partition_point(|&nth| identities[nth].who < entry.identity.who);
            let mut same =
                homeless[from..].iter().copied().take_while(|&nth| identities[nth].who == entry.identity.who);
            same.find(|&nth| is_free(nth) && index.row(lost[nth]).is_dir() == entry.is_dir)
        };
        let row = carried.or_else(renamed).map(|nth| lost[nth]);
        outcomes.push(match row {
            Some(row) if carried.is_none() => Outcome::Renamed(at, row),
            Some(row) if index.row(row).may_be_unchanged(entry.print) => Outcome::Carried(at),
            Some(_) => Outcome::Changed(at),
            None => Outcome::Added(at),
        });
        if let Some(row) = row {
            index.row(row).settle(Fate::Found);
            if entry.is_dir {
                moved.insert(entry.path, index.row(row).path);
            }
        }
    }
    // Whoever carries a renamed directory away carries with it all that was in it: so what has stayed behind at its path has
    // been renamed from there to there, and what has taken another's place is new where that was removed.
    let gone: HashSet<u64> = moved.into_values().collect();
    let stayed_behind = |at: usize| gone.contains(&found.entries[at].parent);
    outcomes.extend(in_place.into_iter().map(|(at, row)| match stayed_behind(at) {
        true => Outcome::Renamed(at, row),
        false => Outcome::Changed(at),
    }));
    // What is new at a path whose file is nowhere else now has replaced it.
    let mut replaced = Vec::new();
    for outcome in &mut outcomes {
        if let Outcome::Added(at) = *outcome
            && let Some(row) = found.entries[at].row().filter(is_lost)
        {
            match stayed_behind(at) {
                true => replaced.push(Outcome::Removed(row)),
                false => *outcome = Outcome::Changed(at),
            }
        }
    }
    outcomes.append(&mut replaced);
    let is_missing = |&row: &u32| index.row(row).fate() == Fate::Missing;
    outcomes.extend(homeless.into_iter().map(|nth| lost[nth]).filter(is_missing).map(Outcome::Removed));
    Ok(outcomes)
}
