//! The packed metadata of a tree, in archive order.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use gate::Fd;
use ondisk::Dev;
use walk::entry::{Time, append};
use walk::{FileType, Meta, Moment, Totals};

use super::packed::{NONE, Packed, PackedNames, RowClass, SharedValues};
use crate::part::Part;
use crate::tick::after_a_tick;

/// The packed metadata of a tree, in archive order.
#[derive(Debug)]
pub struct Rows {
    pub(super) sources: Vec<Source>,
    /// Packed rows, in the order in which they were added.
    pub(super) rows: Vec<Packed>,
    /// For each row in archive order, its index in `rows`.
    pub(super) order: Vec<u32>,
    pub(super) names: PackedNames,
    pub(super) common: SharedValues,
    /// For each directory, ascending: its row, and the row after its last descendant.
    pub(super) ends: Vec<(u32, u32)>,
    pub(super) parts: Vec<Part>,
    pub(super) begun: Moment,
    /// Whether a tick of the clock passed before anything was read.
    pub(super) has_waited: bool,
    /// Totals over all entries, if requested and still valid.
    pub(super) totals: Option<Totals>,
}

/// A SRC of a dump.
#[derive(Clone, Debug)]
pub struct Source {
    /// Path, as given.
    pub path: Vec<u8>,
    /// Absolute path, for a directory.
    pub absolute: Option<Vec<u8>>,
    /// Rows of the SRC: itself first, then its descendants.
    pub rows: Range<usize>,
    /// An open descriptor, if this process collected the SRC and had a descriptor to spare.
    pub open: OnceLock<Arc<Fd>>,
}

/// Rows are numbered from 0; functions that take a number panic if there is no such row.
impl Rows {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The SRCs, in the order given.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// The file systems of the tree, with tokens taken before any entry was read.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// When the walk started: see [`About::started`](crate::format::About::started).
    pub(crate) fn started(&self) -> Time {
        let begun = self.begun.time();
        if self.has_waited {
            after_a_tick(begun)
        } else {
            begun
        }
    }

    /// Totals over all entries, if known.
    pub(crate) fn totals(&self) -> Option<Totals> {
        self.totals
    }

    /// The metadata of a row.
    pub fn meta(&self, row: usize) -> Meta {
        self.common.meta(self.packed(row))
    }

    /// Inode number of a row; cheaper than [`Rows::meta`].
    pub fn ino(&self, row: usize) -> u64 {
        self.packed(row).ino
    }

    /// Size of a row in bytes; cheaper than [`Rows::meta`].
    pub fn size(&self, row: usize) -> u64 {
        self.packed(row).size
    }

    /// File type of a row; cheaper than [`Rows::meta`].
    pub fn kind(&self, row: usize) -> FileType {
        FileType::from_mode(self.class(row).mode)
    }

    /// Whether a row is a directory.
    pub fn is_dir(&self, row: usize) -> bool {
        self.kind(row) == FileType::Directory
    }

    /// Whether any row has this device number.
    pub fn are_on(&self, dev: Dev) -> bool {
        self.common.classes.iter().any(|class| class.dev == dev)
    }

    /// Whether a row is no directory and has further hard links, in the tree or elsewhere.
    pub fn is_linked(&self, row: usize) -> bool {
        self.class(row).nlink > 1 && !self.is_dir(row)
    }

    /// The part of a row, as an index into [`Rows::parts`].
    pub fn part(&self, row: usize) -> usize {
        self.class(row).part as usize
    }

    /// The name of a row in its directory; empty for a SRC.
    pub fn name(&self, row: usize) -> &[u8] {
        self.names.get(self.packed(row).name)
    }

    /// The parent directory of a row; `None` for a SRC.
    pub fn parent(&self, row: usize) -> Option<usize> {
        let parent = self.packed(row).parent;
        (parent != NONE).then_some(parent as usize)
    }

    /// Index of a row's SRC.
    pub fn top(&self, row: usize) -> usize {
        self.sources
            .partition_point(|source| source.rows.end <= row)
    }

    /// Rows of directories, ascending.
    pub fn directories(&self) -> impl ExactSizeIterator<Item = u32> {
        self.ends.iter().map(|&(dir, _)| dir)
    }

    /// The row after the last descendant of a row, or after the row itself if it has none.
    pub fn end(&self, row: usize) -> usize {
        if !self.is_dir(row) {
            return row + 1;
        }
        let known = self
            .ends
            .binary_search_by_key(&row, |&(dir, _)| dir as usize);
        known.map_or(row + 1, |at| self.ends[at].1 as usize)
    }

    /// Entries of a directory, sorted by name.
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

    /// The path of a row, which begins with SRC as given.
    pub fn full_path(&self, row: usize) -> Vec<u8> {
        let mut path = Vec::new();
        self.path(row, &mut path);
        path
    }

    /// Sets `path` to the path of a row, which begins with SRC as given.
    pub fn path(&self, row: usize, path: &mut Vec<u8>) {
        path.clear();
        path.extend_from_slice(&self.sources[self.top(row)].path);
        let up = std::iter::successors(Some(row), |&row| self.parent(row));
        for row in up.collect::<Vec<usize>>().into_iter().rev() {
            if !self.name(row).is_empty() {
                append(path, self.name(row));
            }
        }
    }

    #[inline]
    fn packed(&self, row: usize) -> &Packed {
        &self.rows[self.order[row] as usize]
    }

    fn class(&self, row: usize) -> &RowClass {
        &self.common.classes[self.packed(row).class as usize]
    }
}
