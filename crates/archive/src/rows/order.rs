//! Archive order of what has come in any order.

use std::collections::HashMap;
use std::ops::Range;

use walk::Type;

use super::gathering::{Heap, Key};
use super::packed::{Common, NONE, Names, Packed};
use crate::head;

/// A heap in archive order.
pub(super) struct Ordered {
    pub(super) rows: Vec<Packed>,
    pub(super) names: Names,
    pub(super) ends: Vec<(u32, u32)>,
    /// For each SRC, by number, its row.
    pub(super) firsts: Vec<(u32, u32)>,
    /// How many rows were in directories that have not come.
    pub(super) lost: usize,
}

pub(super) fn order(heap: Heap, common: &Common) -> Ordered {
    let Heap { mut rows, names, pieces, dirs, mut sources } = heap;
    let mut known: HashMap<Key, u32> = HashMap::with_capacity(dirs.len());
    for (key, row) in dirs {
        known.entry(key).or_insert(row);
    }
    let pieces: Vec<u32> = pieces.iter().map(|key| known.get(key).copied().unwrap_or(NONE)).collect();
    drop(known);

    // What is in each directory, side by side: first how much it is, then each into its place.
    let mut ends_inside = vec![0u32; rows.len() + 1];
    for row in rows.iter_mut().filter(|row| row.parent != NONE) {
        row.parent = pieces[row.parent as usize];
        if row.parent != NONE {
            ends_inside[row.parent as usize + 1] += 1;
        }
    }
    drop(pieces);
    for dir in 1..ends_inside.len() {
        ends_inside[dir] += ends_inside[dir - 1];
    }
    let mut inside = vec![0u32; ends_inside[rows.len()] as usize];
    for (number, row) in rows.iter().enumerate().filter(|(_, row)| row.parent != NONE) {
        let place = &mut ends_inside[row.parent as usize];
        inside[*place as usize] = number as u32;
        *place += 1;
    }
    // Where one began, it now ends: each begins where the one before it ends.
    let range = |dir: u32| {
        let begin = dir.checked_sub(1).map_or(0, |before| ends_inside[before as usize]);
        begin as usize..ends_inside[dir as usize] as usize
    };

    let is_dir =
        |row: &Packed| Type::of_mode(common.classes[row.class as usize].mode) == Type::Directory;
    let mut sorted: Vec<u32> = Vec::with_capacity(rows.len());
    let (mut ends, mut firsts, mut twice) = (Vec::new(), Vec::new(), 0);
    let (mut open, mut scratch) = (Vec::<(u32, Range<usize>)>::new(), Vec::new());
    sources.sort_unstable();
    sources.dedup_by_key(|&mut (source, _)| source);
    for (source, first) in sources {
        firsts.push((source, sorted.len() as u32));
        let mut next = Some((first, NONE));
        while let Some((row, parent)) = next {
            let number = sorted.len() as u32;
            rows[row as usize].parent = parent;
            sorted.push(row);
            let all = range(row);
            if !all.is_empty() {
                let name = |row: u32| names.get(rows[row as usize].name);
                // What was moved onto another name while that was read may have come twice. What is in it has come to one.
                let worth = |row: u32| {
                    let packed = &rows[row as usize];
                    (is_dir(packed), !range(row).is_empty(), common.time(packed.times[2]))
                };
                let kept = by_name(&mut inside[all.clone()], &mut scratch, name, worth);
                twice += all.len() - kept;
                open.push((number, all.start..all.start + kept));
            } else if is_dir(&rows[row as usize]) {
                ends.push((number, number + 1));
            }
            next = None;
            while let Some((dir, left)) = open.last_mut() {
                if let Some(place) = left.next() {
                    next = Some((inside[place], *dir));
                    break;
                }
                ends.push((*dir, sorted.len() as u32));
                open.pop();
            }
        }
    }
    drop((inside, ends_inside));
    ends.sort_unstable();
    let kept = sorted.len();
    let lost = rows.len() - kept - twice;
    rearrange(&mut rows, &sorted);
    rows.truncate(kept);
    Ordered { rows, names, ends, firsts, lost }
}

/// Sorts what is in a directory by name, and of those with the same name keeps what is worth most. Gives how many are left.
pub(super) fn by_name<'a, W: Ord>(
    inside: &mut [u32],
    scratch: &mut Vec<(u64, u32)>,
    name: impl Fn(u32) -> &'a [u8],
    worth: impl Fn(u32) -> W,
) -> usize {
    let first = inside.first().map_or(&b""[..], |&row| name(row));
    // What all of them begin with tells none from another.
    let common = inside.iter().fold(first.len(), |common, &row| {
        let alike = |(a, b): &(&u8, &u8)| a == b;
        first[..common].iter().zip(name(row)).take_while(alike).count()
    });
    scratch.clear();
    scratch.extend(inside.iter().map(|&row| (head(&name(row)[common..]), row)));
    scratch.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| name(a.1).cmp(name(b.1))).then(a.1.cmp(&b.1)));
    scratch.dedup_by(|next, kept| {
        let is_same = next.0 == kept.0 && name(next.1) == name(kept.1);
        if is_same && worth(next.1) > worth(kept.1) {
            *kept = *next;
        }
        is_same
    });
    inside.iter_mut().zip(scratch.iter()).for_each(|(to, &(_, row))| *to = row);
    scratch.len()
}

/// Brings rows into an order: the numbers of those that come first. The others follow.
///
/// In place, and in two steps: a row that is taken to where it belongs, and the one from there to where that belongs, and so on,
/// would each be far from the one before, and waited for. So each is first brought into the right block of rows, one after the
/// other in each block; and then, within a block, which is near as a whole, to its place.
pub(super) fn rearrange(rows: &mut [Packed], order: &[u32]) {
    /// Rows of a block: what stays in a processor's second cache.
    const BLOCK: usize = if cfg!(test) { 4 } else { 1 << 12 };
    // Where each belongs.
    let mut places = vec![NONE; rows.len()];
    order.iter().zip(0..).for_each(|(&row, place)| places[row as usize] = place);
    let rest = places.iter_mut().filter(|place| **place == NONE);
    rest.zip(order.len() as u32..).for_each(|(to, place)| *to = place);

    let mut next: Vec<usize> = (0..rows.len()).step_by(BLOCK).collect();
    for block in 0..next.len() {
        let end = rows.len().min((block + 1) * BLOCK);
        while next[block] < end {
            let (at, to) = (next[block], places[next[block]] as usize / BLOCK);
            let other = next[to];
            next[to] += 1;
            rows.swap(at, other);
            places.swap(at, other);
        }
    }
    for at in 0..rows.len() {
        while places[at] as usize != at {
            let to = places[at] as usize;
            rows.swap(at, to);
            places.swap(at, to);
        }
    }
}
