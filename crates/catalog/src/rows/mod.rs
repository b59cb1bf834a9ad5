//! The metadata of a whole tree in memory: 76 bytes an entry, and its name.
//!
//! ```text
//! worker ─ batch ─┐
//! worker ─ batch ─┼─► heap ─► pieces of each directory side by side, by name ─► archive order
//! worker ─ batch ─┘
//! ```
//!
//! Entries come from several threads in any order, those of one directory in pieces. A piece refers
//! to its directory by a hash of the path; when all have come, directories are found by it. Rows
//! stay where they came. What many entries have in common (mode, owner, device, ...) is stored
//! once.
//!
//! Archive order is depth first, a directory before its entries, and the names in a directory
//! sorted by their bytes: the row after a directory is its first entry, and [`Rows::end`] is the
//! row after its last descendant.

mod collector;
mod heap;
mod order;
mod packed;
#[cfg(test)]
mod tests;
mod tree;

pub use collector::Collector;
pub use tree::{Rows, Source};
