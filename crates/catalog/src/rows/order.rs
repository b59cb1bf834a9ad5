//! Sorts the rows of a heap into archive order.

use std::collections::HashMap;
use std::ops::Range;

use base::pool::in_pieces;

use super::heap::{DirectoryRows, Heap, Key};
use super::packed::{NONE, Packed, PackedNames, SharedValues};
use crate::head;

/// Rows with parents resolved, and their archive order.
pub(super) struct OrderedRows {
    pub(super) rows: Vec<Packed>,
    pub(super) order: Vec<u32>,
    pub(super) names: PackedNames,
    pub(super) ends: Vec<(u32, u32)>,
    /// Indexes of SRCs, ascending, and their first rows.
    pub(super) firsts: Vec<(u32, u32)>,
    /// Number of rows whose directory was never added.
    pub(super) lost: usize,
}

/// The entries of all directories, grouped by directory.
struct EntriesByDirectory {
    rows: Vec<u32>,
    /// Position of each directory's first entry, by directory number.
    begins: Vec<u32>,
    /// Number of each directory's entries, without duplicates.
    kept: Vec<u32>,
}

impl EntriesByDirectory {
    /// Groups runs of rows by directory number, with a counting sort; runs of unknown directories
    /// are dropped.
    fn new(
        pieces: Vec<DirectoryRows>,
        numbers: &HashMap<Key, u32>,
        dirs: usize,
    ) -> EntriesByDirectory {
        let number = |piece: &DirectoryRows| numbers.get(&piece.dir).copied();
        let dir_of: Vec<Option<u32>> = pieces.iter().map(number).collect();
        let mut begins = vec![0u32; dirs + 2];
        for (piece, dir) in pieces.iter().zip(&dir_of) {
            if let Some(dir) = dir {
                begins[*dir as usize + 2] += piece.rows.len() as u32;
            }
        }
        for dir in 2..begins.len() {
            begins[dir] += begins[dir - 1];
        }
        let mut rows = vec![0; begins[dirs + 1] as usize];
        for (piece, dir) in pieces.into_iter().zip(dir_of) {
            if let Some(dir) = dir {
                let place = &mut begins[dir as usize + 1];
                let len = piece.rows.len();
                for (to, row) in rows[*place as usize..][..len].iter_mut().zip(piece.rows) {
                    *to = row;
                }
                *place += len as u32;
            }
        }
        EntriesByDirectory {
            rows,
            begins,
            kept: vec![0; dirs],
        }
    }

    fn sort(&mut self, rows: &[Packed], names: &PackedNames, common: &SharedValues) {
        /// Minimum number of directories for a thread.
        const WORTH: usize = if cfg!(test) { 2 } else { 1 << 10 };
        let begins = &self.begins;
        let mut rest = &mut self.rows[..];
        let pairs = begins.windows(2).take(self.kept.len());
        let mut entries: Vec<&mut [u32]> = pairs
            .map(|pair| rest.split_off_mut(..(pair[1] - pair[0]) as usize))
            .map(Option::unwrap_or_default)
            .collect();
        in_pieces((&mut entries, &mut self.kept), WORTH, |_, entries, kept| {
            let mut scratch = Vec::new();
            for (entries, kept) in entries.iter_mut().zip(kept) {
                *kept = sort_entries(entries, &mut scratch, rows, names, common, begins) as u32;
            }
        });
    }
}

/// Positions of a directory's entries, with duplicates last; empty for [`NONE`].
fn places(begins: &[u32], dir: u32) -> Range<usize> {
    match dir {
        NONE => 0..0,
        _ => begins[dir as usize] as usize..begins[dir as usize + 1] as usize,
    }
}

/// Numbers the directories: stores each number in the row's field `parent`, and returns the numbers
/// by key.
fn number_directories(rows: &mut [Packed], dirs: &[(Key, u32)]) -> HashMap<Key, u32> {
    let mut numbers = HashMap::with_capacity(dirs.len());
    for ((key, row), number) in dirs.iter().zip(0..) {
        numbers.entry(*key).or_insert_with(|| {
            rows[*row as usize].parent = number;
            number
        });
    }
    numbers
}

/// Sorts rows into archive order by an array of indexes. The rows themselves stay, because those of
/// a directory are mostly adjacent, and moving them would take longer than the indirection.
pub(super) fn order(heap: Heap, common: &SharedValues) -> OrderedRows {
    let Heap {
        mut rows,
        names,
        pieces,
        dirs,
        mut sources,
    } = heap;
    // Until a directory's parent is resolved, its field `parent` holds the number of the directory
    // itself.
    let numbers = number_directories(&mut rows, &dirs);
    let mut inside = EntriesByDirectory::new(pieces, &numbers, dirs.len());
    drop(numbers);
    inside.sort(&rows, &names, common);
    let mut order: Vec<u32> = Vec::with_capacity(rows.len());
    let (mut ends, mut firsts, mut twice) = (Vec::with_capacity(dirs.len()), Vec::new(), 0);
    // A stack of directories, with the positions of their remaining entries.
    let mut open = Vec::<(u32, Range<usize>)>::new();
    sources.sort_unstable();
    sources.dedup_by_key(|&mut (source, _)| source);
    for (source, first) in sources {
        firsts.push((source, order.len() as u32));
        let mut next = Some((first, NONE));
        while let Some((row, parent)) = next {
            let number = order.len() as u32;
            let dir = std::mem::replace(&mut rows[row as usize].parent, parent);
            order.push(row);
            if common.is_dir(&rows[row as usize]) {
                let entries = places(&inside.begins, dir);
                let kept = inside
                    .kept
                    .get(dir as usize)
                    .map_or(0, |&kept| kept as usize);
                twice += entries.len() - kept;
                open.push((number, entries.start..entries.start + kept));
            }
            next = None;
            while let Some((dir, rest)) = open.last_mut() {
                if let Some(place) = rest.next() {
                    next = Some((inside.rows[place], *dir));
                    break;
                }
                ends.push((*dir, order.len() as u32));
                open.pop();
            }
        }
    }
    ends.sort_unstable();
    let lost = rows.len() - order.len() - twice;
    OrderedRows {
        rows,
        order,
        names,
        ends,
        firsts,
        lost,
    }
}

/// Sorts the entries of a directory by name, drops duplicates, and returns the number left. A name
/// can occur twice if another file was renamed to it during the walk.
fn sort_entries(
    entries: &mut [u32],
    scratch: &mut Vec<(u64, u32)>,
    rows: &[Packed],
    names: &PackedNames,
    common: &SharedValues,
    begins: &[u32],
) -> usize {
    let name = |row: u32| names.get(rows[row as usize].name);
    let worth = |row: u32| {
        let row = &rows[row as usize];
        let is_dir = common.is_dir(row);
        // If two rows have the same name, prefer a directory that has entries: the entries were
        // added to only one of the two rows.
        let has_entries = is_dir && !places(begins, row.parent).is_empty();
        (is_dir, has_entries, common.time(row.times[2]))
    };
    let first = entries.first().map_or(&b""[..], |&row| name(row));
    // Skip the common prefix of all names, which does not help sorting.
    let prefix = entries.iter().fold(first.len(), |prefix, &row| {
        let pairs = first[..prefix].iter().zip(name(row));
        pairs.take_while(|(a, b)| a == b).count()
    });
    scratch.clear();
    scratch.extend(entries.iter().map(|&row| (head(&name(row)[prefix..]), row)));
    scratch.sort_unstable_by(|a, b| {
        a.0.cmp(&b.0)
            .then_with(|| name(a.1).cmp(name(b.1)))
            .then(a.1.cmp(&b.1))
    });
    scratch.dedup_by(|next, kept| {
        let is_same = next.0 == kept.0 && name(next.1) == name(kept.1);
        if is_same && worth(next.1) > worth(kept.1) {
            *kept = *next;
        }
        is_same
    });
    for (to, &(_, row)) in entries.iter_mut().zip(scratch.iter()) {
        *to = row;
    }
    scratch.len()
}
