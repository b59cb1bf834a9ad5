//! Rows as they came from several threads.

use std::ops::Range;

use gate::heap::large_room;

use super::packed::{NONE, Names, Packed};

/// What stands for a directory: what stands for its path in digests, and a hash of it with a seed
/// that nobody knows, so that nobody can make up two paths for which both are the same.
pub(super) type Key = (u64, u64);

/// Rows of a directory that came one after the other.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) dir: Key,
    pub(super) rows: Range<u32>,
}

/// Rows as they came.
#[derive(Debug, Default)]
pub(super) struct Heap {
    pub(super) rows: Vec<Packed>,
    pub(super) names: Names,
    pub(super) pieces: Vec<Piece>,
    /// The rows that are directories.
    pub(super) dirs: Vec<(Key, u32)>,
    /// The rows that are a SRC, and its number.
    pub(super) sources: Vec<(u32, u32)>,
}

impl Heap {
    /// More rows than this have no numbers.
    pub(super) const MOST: usize = NONE as usize;

    /// Makes room for the rows of so many files, if there is none yet: rows need not move then when
    /// there are more of them. It costs nothing until they come.
    pub(super) fn expect(&mut self, files: u64) {
        /// The tree need not be all of the file system.
        const MOST: u64 = 2 << 20;
        /// About as many bytes as a name has.
        const NAME: usize = 24;
        // Some have several names.
        let rows = (files + files / 8).min(MOST) as usize;
        if self.rows.capacity() == 0
            && let (Some(rows), Some(names)) = (large_room(rows), large_room(NAME * rows))
        {
            (self.rows, self.names.0) = (rows, names);
        }
    }

    /// Takes over what is in another one, which is empty then. False when there is no room for it.
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
        let moved = |piece: Piece| Piece {
            rows: piece.rows.start + rows..piece.rows.end + rows,
            ..piece
        };
        self.pieces.extend(other.pieces.drain(..).map(moved));
        self.dirs
            .extend(other.dirs.drain(..).map(|(key, row)| (key, row + rows)));
        self.sources.extend(
            other
                .sources
                .drain(..)
                .map(|(source, row)| (source, row + rows)),
        );
        true
    }
}
