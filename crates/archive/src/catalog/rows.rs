//! Writes the catalog of a tree that is in memory, in its order.

use bytes::Bytes;
use walk::entry::append;
use walk::{Dir, Entry, Meta, Totals, digest};

use super::about::{before_a_tick, now};
use super::output::{GROUP, Layout, Output, Sealed};
use super::schema::Row;
use super::{About, Fault, Options, Root, plain};
use crate::rows::Rows;

/// Writes the catalog of the rows that are `kept`, each with the hash of what is in it, where that is known. `complete` says that
/// nothing was skipped, before or since: else the catalog has no tokens, so that whoever compares with it looks for himself.
///
/// # Errors
/// It could not be written.
pub fn write_rows(
    file: &[u8],
    rows: &Rows,
    options: Options,
    complete: bool,
    kept: impl Fn(usize) -> bool,
    blake3: impl Fn(usize) -> Option<[u8; 32]>,
) -> Result<Sealed, Fault> {
    let (layout, mut out) = Output::create(file)?;
    let started = rows.started();
    let at_rest_before = before_a_tick(started);
    let (mut totals, mut racy, mut left_out) = (Totals::default(), 0, false);
    let mut above = Above::default();
    let mut group = Group::default();
    for row in 0..rows.len() {
        let at = above.of(rows, row);
        if !kept(row) {
            left_out = true;
            continue;
        }
        let (name, meta) = (rows.name(row), rows.meta(row));
        totals.add(&Dir { path: b"", hash: at.hash, depth: at.depth }, &Entry { name, meta });
        racy += u64::from(meta.ctime >= at_rest_before);
        group.add(rows, row, meta, at.path, blake3(row));
        if group.items.len() == GROUP {
            group.write(&layout, &mut out)?;
        }
    }
    if !group.items.is_empty() {
        group.write(&layout, &mut out)?;
    }
    let complete = complete && !left_out;
    let mut parts = rows.parts().to_vec();
    if !complete {
        parts.iter_mut().for_each(|part| part.token = None);
    }
    out.seal(About {
        roots: rows.sources().iter().map(|s| Root { path: s.path.clone(), absolute: s.absolute.clone() }).collect(),
        started,
        finished: now(),
        entries: totals.entries,
        racy,
        digest: totals.digest.to_string(),
        complete,
        options,
        parts,
    })
}

/// The directories that are above a row, each with the row after all that is in it.
#[derive(Default)]
struct Above(Vec<(usize, Place)>);

/// A directory that rows are in.
#[derive(Clone)]
struct Place {
    /// Its name below its SRC.
    path: Bytes,
    hash: u64,
    depth: u32,
}

impl Above {
    /// The directory that the next row is in; a SRC is in itself.
    fn of(&mut self, rows: &Rows, row: usize) -> Place {
        while self.0.last().is_some_and(|(end, _)| *end <= row) {
            self.0.pop();
        }
        let (name, end) = (rows.name(row), rows.end(row));
        let (place, own) = match self.0.last() {
            None => {
                let top = Place { path: Bytes::new(), hash: digest::top(rows.top(row)), depth: 0 };
                (top.clone(), top)
            }
            Some((_, place)) => {
                let below = || {
                    let mut path = place.path.to_vec();
                    append(&mut path, name);
                    Place { path: path.into(), hash: digest::below(place.hash, name), depth: place.depth + 1 }
                };
                (place.clone(), if end > row + 1 { below() } else { place.clone() })
            }
        };
        if end > row + 1 {
            self.0.push((end, own));
        }
        place
    }
}

/// The rows of a row group.
#[derive(Default)]
struct Group {
    items: Vec<Item>,
    names: Vec<u8>,
}

struct Item {
    meta: Meta,
    part: u32,
    top: u32,
    dir: Bytes,
    name: (usize, usize),
    blake3: Option<[u8; 32]>,
}

impl Group {
    fn add(&mut self, rows: &Rows, row: usize, meta: Meta, dir: Bytes, blake3: Option<[u8; 32]>) {
        let from = self.names.len();
        self.names.extend_from_slice(rows.name(row));
        let name = (from, self.names.len());
        let (part, top) = (rows.part(row) as u32, rows.top(row) as u32);
        self.items.push(Item { meta, part, top, dir, name, blake3 });
    }

    /// Writes them, and is empty then.
    fn write(&mut self, layout: &Layout, out: &mut Output) -> Result<(), Fault> {
        let names = Bytes::from(std::mem::take(&mut self.names));
        let row = |nth: usize| {
            let Item { meta, part, top, dir, name: (from, to), blake3 } = &self.items[nth];
            Row { meta, part: *part, top: *top, blake3: *blake3, dir, name: (&names, *from, *to) }
        };
        let written = layout.encode_together(self.items.len(), row).and_then(|columns| out.append(columns));
        self.items.clear();
        written.map_err(|e| out.fault(plain(e)))
    }
}
