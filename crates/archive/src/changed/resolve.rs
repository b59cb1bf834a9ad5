//! What became of what: of the entries that differ, and the rows of the catalog that were not
//! found, makes what was added, changed, removed and renamed.

use crate::error::Error;
use std::collections::{HashMap, HashSet};

use super::compare::Found;
use crate::catalog::Reader;
use crate::since::index::{Fate, Index};

/// What became of an entry. Entries are by their place in [`Found::entries`], rows by their place
/// in the catalog.
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
pub(super) fn resolve(
    reader: &Reader,
    index: &Index,
    found: &Found,
) -> Result<Vec<Outcome>, Error> {
    let is_lost = |&row: &u32| index.row(row).fate() != Fate::Found;
    let mut outcomes = Vec::new();

    // The rows that have not been found as they were, and who they are. They go by their places
    // among these.
    let lost: Vec<u32> = (0..index.rows().len() as u32).filter(is_lost).collect();
    let identities = index.identities(reader, &lost)?;
    let place = |row: u32| lost.binary_search(&row).ok();

    // Directories before all else, and from above; else in an order that does not depend on who
    // walked.
    let entry = |at: usize| &found.entries[at];
    let mut order: Vec<usize> = (0..found.entries.len()).collect();
    order.sort_by_key(|&at| (!entry(at).is_dir, entry(at).depth, entry(at).path));
    let (dirs, others) = order.split_at(order.partition_point(|&at| entry(at).is_dir));
    // From where a directory is to where it was.
    let mut moved: HashMap<u64, u64> = HashMap::new();
    let is_free =
        |nth: usize, at: usize| is_lost(&lost[nth]) && identities[nth].is(&entry(at).identity);
    let carried = |at: usize, moved: &HashMap<u64, u64>| {
        let was = found.in_other(entry(at), *moved.get(&entry(at).parent)?);
        place(index.find(was)?).filter(|&nth| is_free(nth, at))
    };
    let mut in_place: Vec<(usize, u32)> = Vec::new();
    for (order, is_dir) in [(dirs, true), (others, false)] {
        // What is where it was, and the same file, is looked for nowhere else, unless it has
        // another name of that file, and has come with its directory.
        let is_here = |at: &usize| {
            let own = entry(*at).row().and_then(place);
            own.is_some_and(|nth| is_free(nth, *at)) && carried(*at, &moved).is_none()
        };
        let (here, elsewhere): (Vec<usize>, Vec<usize>) = order.iter().copied().partition(is_here);
        for at in here {
            let Some(row) = entry(at).row() else { continue };
            index.row(row).settle(Fate::Found);
            in_place.push((at, row));
        }
        // Rows whose file is not where it was, by identity.
        let is_homeless =
            |&nth: &usize| is_lost(&lost[nth]) && index.row(lost[nth]).is_dir() == is_dir;
        let mut homeless: Vec<usize> = (0..lost.len()).filter(is_homeless).collect();
        homeless.sort_by_key(|&nth| (identities[nth].who, index.row(lost[nth]).path));
        for at in elsewhere {
            let carried = carried(at, &moved);
            let renamed = || {
                let who = entry(at).identity.who;
                let from = homeless.partition_point(|&nth| identities[nth].who < who);
                let mut same = homeless[from..]
                    .iter()
                    .copied()
                    .take_while(|&nth| identities[nth].who == who);
                same.find(|&nth| is_free(nth, at))
            };
            let row = carried.or_else(renamed).map(|nth| lost[nth]);
            outcomes.push(match row {
                Some(row) if carried.is_none() => Outcome::Renamed(at, row),
                Some(row) if index.row(row).may_be_unchanged(entry(at).print) => {
                    Outcome::Carried(at)
                }
                Some(_) => Outcome::Changed(at),
                None => Outcome::Added(at),
            });
            if let Some(row) = row {
                index.row(row).settle(Fate::Found);
                if is_dir {
                    moved.insert(entry(at).path, index.row(row).path);
                }
            }
        }
    }

    let other = other_directories(found, &outcomes, moved);
    let is_in_other = |at: usize| other.contains(&entry(at).parent);
    // Whoever carries a directory away carries with it all that was in it: so what has stayed
    // behind at its path has been renamed from there to there.
    for (at, row) in in_place {
        if is_in_other(at) {
            outcomes.push(Outcome::Renamed(at, row));
        } else if !index
            .row(row)
            .is_unchanged(&entry(at).identity, entry(at).print)
        {
            outcomes.push(Outcome::Changed(at));
        }
    }
    // What was at the path of an entry, and is nowhere now, has been replaced by it, or removed
    // where that was in another directory.
    let mut removed = Vec::new();
    for outcome in &mut outcomes {
        let (Outcome::Added(at)
        | Outcome::Changed(at)
        | Outcome::Renamed(at, _)
        | Outcome::Carried(at)) = *outcome
        else {
            continue;
        };
        if let Some(row) = entry(at).row().filter(is_lost) {
            if is_in_other(at) {
                removed.push(Outcome::Removed(row));
            } else if *outcome == Outcome::Added(at) {
                *outcome = Outcome::Changed(at);
            }
        }
    }
    outcomes.append(&mut removed);
    let is_missing = |&row: &u32| index.row(row).fate() == Fate::Missing;
    outcomes.extend(lost.into_iter().filter(is_missing).map(Outcome::Removed));
    Ok(outcomes)
}

/// Where there is another directory than there was: one that has come there, one in the place of
/// one that has gone elsewhere, and what is new in such.
fn other_directories(
    found: &Found,
    outcomes: &[Outcome],
    moved: HashMap<u64, u64>,
) -> HashSet<u64> {
    let mut others: HashSet<u64> = moved.into_iter().flat_map(<[u64; 2]>::from).collect();
    for outcome in outcomes {
        // Those above come before.
        if let Outcome::Added(at) = *outcome
            && let entry = &found.entries[at]
            && entry.is_dir
            && others.contains(&entry.parent)
        {
            others.insert(entry.path);
        }
    }
    others
}
