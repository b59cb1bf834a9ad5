//! What became of what: of the entries that differ, and the rows of the catalog that were not found, makes what was added,
//! changed, removed and renamed.

use std::collections::HashMap;

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

    // What is where it was, and the same file, has changed in place. None of that can have moved.
    let mut order: Vec<usize> = Vec::with_capacity(found.entries.len());
    for (at, entry) in found.entries.iter().enumerate() {
        match entry.row().filter(|&row| rows[row as usize].identity().is(&entry.identity)) {
            Some(row) => {
                index.settle(row, Fate::Found);
                outcomes.push(Outcome::Changed(at));
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
    // What is new at a path whose file is nowhere else now has replaced it.
    for outcome in &mut outcomes {
        if let Outcome::Added(at) = *outcome
            && found.entries[at].row().is_some_and(|row| index.fate(row) != Fate::Found)
        {
            *outcome = Outcome::Changed(at);
        }
    }
    let is_missing = |&row: &u32| index.fate(row) == Fate::Missing;
    outcomes.extend(homeless.into_iter().filter(is_missing).map(Outcome::Removed));
    outcomes
}
