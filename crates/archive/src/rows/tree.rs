//! A tree in memory, in archive order.

use std::ops::Range;

use ondisk::Dev;
use walk::entry::{Time, append};
use walk::{Meta, Moment, Totals, Type};

use super::packed::{Class, Common, NONE, Names, Packed};
use crate::part::Part;
use crate::tick::after_a_tick;

/// A tree, in archive order: for each SRC in turn, depth first, a directory before what is in it,
/// names sorted by their bytes.
#[derive(Debug)]
pub struct Rows {
    pub(super) sources: Vec<Source>,
    /// As they came.
    pub(super) rows: Vec<Packed>,
    /// Where they are in `rows`.
    pub(super) order: Vec<u32>,
    pub(super) names: Names,
    pub(super) common: Common,
    /// For each directory, its row and the row after all that is in it; by row.
    pub(super) ends: Vec<(u32, u32)>,
    pub(super) parts: Vec<Part>,
    pub(super) begun: Moment,
    /// A tick passed before anything was read.
    pub(super) has_waited: bool,
    /// The totals over all entries, if they were wanted and still hold.
    pub(super) totals: Option<Totals>,
}

/// A SRC.
#[derive(Clone, Debug)]
pub struct Source {
    /// As it was given.
    pub path: Vec<u8>,
    /// Its absolute name, if it is a directory and has one.
    pub absolute: Option<Vec<u8>>,
    /// The rows that are of it: first itself, then what is in it.
    pub rows: Range<usize>,
}

/// A row.
#[derive(Clone, Copy, Debug)]
pub struct TreeRow<'a> {
    /// Number of the SRC that it is under.
    pub top: usize,
    /// The row of the directory that it is in; `None` for a SRC.
    pub parent: Option<usize>,
    /// Its name in that directory; empty for a SRC.
    pub name: &'a [u8],
    /// Its metadata.
    pub meta: Meta,
}

impl Rows {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Each SRC, in the order in which they were given.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// The file systems that the tree is made of, with the tokens that were taken before anything
    /// was read.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// When reading began, as in [`About::started`](crate::catalog::About::started).
    pub fn started(&self) -> Time {
        let begun = self.begun.time();
        if self.has_waited {
            after_a_tick(begun)
        } else {
            begun
        }
    }

    /// The totals over all entries, if they are known already.
    pub(crate) fn totals(&self) -> Option<Totals> {
        self.totals
    }

    /// A row.
    ///
    /// # Panics
    /// When there is none of that number; as all that takes one.
    pub fn row(&self, row: usize) -> TreeRow<'_> {
        TreeRow {
            top: self.top(row),
            parent: self.parent(row),
            name: self.name(row),
            meta: self.meta(row),
        }
    }

    /// The metadata of a row.
    pub fn meta(&self, row: usize) -> Meta {
        self.common.meta(self.packed(row))
    }

    /// The inode number of a row; cheaper than [`Rows::meta`].
    pub fn ino(&self, row: usize) -> u64 {
        self.packed(row).ino
    }

    /// The size of a row in bytes; cheaper than [`Rows::meta`].
    pub fn size(&self, row: usize) -> u64 {
        self.packed(row).size
    }

    /// `st_mode` of a row; cheaper than [`Rows::meta`].
    pub fn mode(&self, row: usize) -> u32 {
        self.class(row).mode
    }

    /// The type of a row.
    pub fn kind(&self, row: usize) -> Type {
        Type::from_mode(self.mode(row))
    }

    /// Whether a row is a directory.
    pub fn is_dir(&self, row: usize) -> bool {
        self.kind(row) == Type::Directory
    }

    /// Whether any row is on a device.
    pub fn are_on(&self, dev: Dev) -> bool {
        self.common.classes.iter().any(|class| class.dev == dev)
    }

    /// Whether a row is no directory and has other names, in the tree or elsewhere.
    pub fn is_linked(&self, row: usize) -> bool {
        self.class(row).nlink > 1 && !self.is_dir(row)
    }

    /// Number of the part that a row is in: an index into [`Rows::parts`].
    pub fn part(&self, row: usize) -> usize {
        self.class(row).part as usize
    }

    /// The name of a row in the directory that it is in; empty for a SRC.
    pub fn name(&self, row: usize) -> &[u8] {
        self.names.get(self.packed(row).name)
    }

    /// The row of the directory that a row is in; `None` for a SRC.
    pub fn parent(&self, row: usize) -> Option<usize> {
        Some(self.packed(row).parent)
            .filter(|&parent| parent != NONE)
            .map(|parent| parent as usize)
    }

    /// Number of the SRC that a row is under.
    pub fn top(&self, row: usize) -> usize {
        self.sources
            .partition_point(|source| source.rows.end <= row)
    }

    /// The rows that are directories, in their order.
    pub fn directories(&self) -> impl ExactSizeIterator<Item = u32> {
        self.ends.iter().map(|&(dir, _)| dir)
    }

    /// The row after everything below a row; for a file or an empty directory, the next row.
    pub fn end(&self, row: usize) -> usize {
        if !self.is_dir(row) {
            return row + 1;
        }
        let known = self
            .ends
            .binary_search_by_key(&row, |&(dir, _)| dir as usize);
        known.map_or(row + 1, |at| self.ends[at].1 as usize)
    }

    /// The rows that are in a directory, by name.
    pub fn children(&self, row: usize) -> impl Iterator<Item = usize> {
        let (mut next, end) = (row + 1, self.end(row));
        std::iter::from_fn(move || {
            let child = next;
            (child < end).then(|| {
                next = self.end(child);
                child
            })
        })
    }

    /// Replaces `path` by the path of a row, which begins with SRC as it was given.
    pub fn path(&self, row: usize, path: &mut Vec<u8>) {
        path.clear();
        if let Some(source) = self.sources.get(self.top(row)) {
            path.extend_from_slice(&source.path);
        }
        self.add_names(row, path);
    }

    /// Replaces `path` by the path of a row below its SRC; empty for a SRC.
    pub fn relative(&self, row: usize, path: &mut Vec<u8>) {
        path.clear();
        self.add_names(row, path);
    }

    fn add_names(&self, row: usize, path: &mut Vec<u8>) {
        let up = |&row: &usize| self.parent(row);
        let on_the_way: Vec<usize> = std::iter::successors(Some(row), up).collect();
        on_the_way
            .iter()
            .rev()
            .map(|&row| self.name(row))
            .filter(|name| !name.is_empty())
            .for_each(|name| append(path, name));
    }

    #[inline]
    fn packed(&self, row: usize) -> &Packed {
        &self.rows[self.order[row] as usize]
    }

    fn class(&self, row: usize) -> &Class {
        &self.common.classes[self.packed(row).class as usize]
    }
}
