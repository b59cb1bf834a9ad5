//! Rows in the order in which threads added them.

use std::ops::Range;

use gate::heap::large_room;
use walk::DirKey;

use super::packed::{NONE, Packed, PackedNames};

/// A key for a directory: both hashes of its path.
pub(super) type Key = (u64, u64);

pub(super) fn key(dir: DirKey) -> Key {
    (dir.hash, dir.id)
}

/// Consecutive rows of one directory.
#[derive(Debug)]
pub(super) struct DirectoryRows {
    pub(super) dir: Key,
    pub(super) rows: Range<u32>,
}

#[derive(Debug, Default)]
pub(super) struct Heap {
    pub(super) rows: Vec<Packed>,
    pub(super) names: PackedNames,
    pub(super) pieces: Vec<DirectoryRows>,
    /// Rows of directories, with their keys.
    pub(super) dirs: Vec<(Key, u32)>,
    /// Indexes of SRCs, each with its row.
    pub(super) sources: Vec<(u32, u32)>,
}

impl Heap {
    /// Maximum number of rows, so that row numbers fit into 32 bits.
    pub(super) const MOST: usize = NONE as usize;

    /// Reserves address space for the rows of this many files, so that rows need not be moved while
    /// they grow. Memory is used only when rows are added.
    pub(super) fn expect(&mut self, files: u64) {
        /// Maximum number of rows to reserve space for, because the tree may be a small part of the
        /// file system.
        const MOST: u64 = 2 << 20;
        /// Approximate length of a name.
        const NAME: usize = 24;
        // Hard-linked files have more rows than inodes.
        let rows = (files + files / 8).min(MOST) as usize;
        if self.rows.capacity() == 0
            && let (Some(rows), Some(names)) = (large_room(rows), large_room(NAME * rows))
        {
            (self.rows, self.names.0) = (rows, names);
        }
    }

    /// Moves all rows from another heap to this heap. Returns false if there are too many rows.
    pub(super) fn append(&mut self, other: &mut Heap) -> bool {
        if self.rows.len() + other.rows.len() > Heap::MOST {
            return false;
        }
        let (rows, names) = (self.rows.len() as u32, self.names.0.len() as u64);
        self.rows.extend(other.rows.drain(..).map(|row| Packed {
            name: row.name + names,
            ..row
        }));
        self.names.0.append(&mut other.names.0);
        let pieces = other.pieces.drain(..).map(|piece| DirectoryRows {
            rows: piece.rows.start + rows..piece.rows.end + rows,
            ..piece
        });
        self.pieces.extend(pieces);
        let dirs = other.dirs.drain(..);
        self.dirs.extend(dirs.map(|(key, row)| (key, row + rows)));
        let sources = other.sources.drain(..);
        self.sources
            .extend(sources.map(|(nth, row)| (nth, row + rows)));
        true
    }
}
