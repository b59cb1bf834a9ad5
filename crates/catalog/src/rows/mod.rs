//! The metadata of a whole tree in memory: 76 bytes per entry, plus its name.
//!
//! ```text
//! worker ─ batch ─┐
//! worker ─ batch ─┼─► heap ─► pieces of each directory side by side, by name ─► archive order
//! worker ─ batch ─┘
//! ```
//!
//! Entries are added by several threads in any order, those of one directory in pieces. A piece
//! refers to its directory by a hash of the path; directories are resolved when all entries are
//! there. Rows are not moved. Values that many entries share (mode, owner, device, ...) are stored
//! once.
//!
//! Archive order is depth first, a directory before its entries, and names in a directory sorted by
//! bytes: the row after a directory is its first entry, and [`Rows::end`] is the row after its last
//! descendant.

mod collector;
mod heap;
mod order;
mod packed;
#[cfg(test)]
mod tests;
mod tree;

pub use collector::Collector;
pub use tree::{Rows, Source};
