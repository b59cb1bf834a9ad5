//! What became of what: of the entries that differ, and the rows of the catalog that were not found, makes what was added,
//! changed, removed and renamed.

use std::collections::{HashMap, HashSet};

use super::compare::Found;
use super::index::{Fate, Index};

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
pub(super) fn resolve(index: &Index, found: &Found) -> Vec<Outcome> {
    let rows = index.rows();
    let mut outcomes = Vec::new();

    // What is where it was, and the same file, has changed in place. None of that is looked for elsewhere.
    let mut order: Vec<usize> = Vec::with_capacity(found.entries.len());
    let mut in_place: Vec<(usize, u32)> = Vec::new();
    for (at, entry) in found.entries.iter().enumerate() {
        match entry.row().filter(|&row| rows[row as usize].identity().is(&entry.identity)) {
            Some(row) => {
                index.settle(row, Fate::Found);
                in_place.push((at, row));
            }
            None => order.push(at),
        }
    }

    // Rows whose file is no longer at their path, by identity.
    let key = |row: u32| (rows[row as usize].identity().part, rows[row as usize].identity().ino);
    let mut homeless: Vec<u32> = (0..rows.len() as u32).filter(|&row| index.fate(row) != Fate::Found).collect();
    homeless.sort_by_key(|&row| (key(row), rows[row as usize].path));

    // From above: the directory before what is in it; else in an order that does not depend on who walked. `moved` leads from
    // where a directory is to where it was.
    order.sort_by_key(|&at| (found.entries[at].depth, found.entries[at].path));
    let mut moved: HashMap<u64, u64> = HashMap::new();
    for at in order {
        let entry = &found.entries[at];
        let is_free = |row: u32| index.fate(row) != Fate::Found && rows[row as usize].identity().is(&entry.identity);
        let was = moved.get(&entry.parent).map(|&dir| found.in_other(entry, dir));
        let carried = was.and_then(|path| index.find(path)).filter(|&row| is_free(row));
        let renamed = || {
            let from = homeless.partition_point(|&row| key(row) < (entry.identity.part, entry.identity.ino));
            let same =
                homeless[from..].iter().take_while(|&&row| key(row) == (entry.identity.part, entry.identity.ino));
            same.copied().find(|&row| is_free(row) && rows[row as usize].is_dir() == entry.is_dir)
        };
        let row = carried.or_else(renamed);
        outcomes.push(match row {
            Some(row) if carried.is_none() => Outcome::Renamed(at, row),
            Some(row) if rows[row as usize].is_unchanged(entry.print) => Outcome::Carried(at),
            Some(_) => Outcome::Changed(at),
            None => Outcome::Added(at),
        });
        if let Some(row) = row {
            index.settle(row, Fate::Found);
            if entry.is_dir {
                moved.insert(entry.path, rows[row as usize].path);
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
            && let Some(row) = found.entries[at].row().filter(|&row| index.fate(row) != Fate::Found)
        {
            match stayed_behind(at) {
                true => replaced.push(Outcome::Removed(row)),
                false => *outcome = Outcome::Changed(at),
            }
        }
    }
    outcomes.append(&mut replaced);
    let is_missing = |&row: &u32| index.fate(row) == Fate::Missing;
    outcomes.extend(homeless.into_iter().filter(is_missing).map(Outcome::Removed));
    outcomes
}
