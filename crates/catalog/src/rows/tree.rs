//! A tree in memory, in archive order.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use gate::Fd;
use ondisk::Dev;
use walk::entry::{Time, append};
use walk::{FileType, Meta, Moment, Totals};

use super::packed::{Class, Common, NONE, Packed, PackedNames};
use crate::part::Part;
use crate::tick::after_a_tick;

/// A tree in archive order.
#[derive(Debug)]
pub struct Rows {
    pub(super) sources: Vec<Source>,
    /// The rows as they came.
    pub(super) rows: Vec<Packed>,
    /// Their places in `rows`.
    pub(super) order: Vec<u32>,
    pub(super) names: PackedNames,
    pub(super) common: Common,
    /// For each directory in turn, its row and the row after its last descendant.
    pub(super) ends: Vec<(u32, u32)>,
    pub(super) parts: Vec<Part>,
    pub(super) begun: Moment,
    /// A tick passed before anything was read.
    pub(super) has_waited: bool,
    /// The totals over all entries, if they were requested and still hold.
    pub(super) totals: Option<Totals>,
}

/// A SRC.
#[derive(Clone, Debug)]
pub struct Source {
    /// The path, as it was given.
    pub path: Vec<u8>,
    /// The absolute path of a directory.
    pub absolute: Option<Vec<u8>>,
    /// Its rows: first itself, then its descendants.
    pub rows: Range<usize>,
    /// The file, if it was collected by this process, and a descriptor could be spared for it.
    pub open: OnceLock<Arc<Fd>>,
}

/// Rows are numbered from 0; functions that take a number panic if there is no such row.
impl Rows {
    /// The number of rows.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The sources, in the order in which they were given.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// The file systems of the tree, with the tokens that they had before anything was read.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// See [`About::started`](crate::format::About::started).
    pub(crate) fn started(&self) -> Time {
        let begun = self.begun.time();
        if self.has_waited {
            after_a_tick(begun)
        } else {
            begun
        }
    }

    /// The totals over all entries, if they are known.
    pub(crate) fn totals(&self) -> Option<Totals> {
        self.totals
    }

    /// The metadata of a row.
    pub fn meta(&self, row: usize) -> Meta {
        self.common.meta(self.packed(row))
    }

    /// The inode number; cheaper than [`Rows::meta`].
    pub fn ino(&self, row: usize) -> u64 {
        self.packed(row).ino
    }

    /// The size in bytes; cheaper than [`Rows::meta`].
    pub fn size(&self, row: usize) -> u64 {
        self.packed(row).size
    }

    /// The type; cheaper than [`Rows::meta`].
    pub fn kind(&self, row: usize) -> FileType {
        FileType::from_mode(self.class(row).mode)
    }

    /// Whether a row is a directory.
    pub fn is_dir(&self, row: usize) -> bool {
        self.kind(row) == FileType::Directory
    }

    /// Whether any row is on a device.
    pub fn are_on(&self, dev: Dev) -> bool {
        self.common.classes.iter().any(|class| class.dev == dev)
    }

    /// Whether a row is no directory and has other names, in the tree or elsewhere.
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

    /// The directory of a row; `None` for a SRC.
    pub fn parent(&self, row: usize) -> Option<usize> {
        let parent = self.packed(row).parent;
        (parent != NONE).then_some(parent as usize)
    }

    /// The number of the SRC of a row.
    pub fn top(&self, row: usize) -> usize {
        self.sources
            .partition_point(|source| source.rows.end <= row)
    }

    /// The rows of directories, in ascending order.
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

    /// The entries of a directory, by name.
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

    fn class(&self, row: usize) -> &Class {
        &self.common.classes[self.packed(row).class as usize]
    }
}
