//! A whole tree in memory, small: 76 bytes an entry beside its name.
//!
//! ```text
//! worker ─ batch ─┐
//! worker ─ batch ─┼─► heap ─► each directory's pieces side by side, by name ─► archive order
//! worker ─ batch ─┘
//! ```
//!
//! Entries come from several threads, in any order, those of one directory in pieces. A piece names
//! its directory by a hash of the path; when all have come, directories are found by that. The rows
//! stay where they are. What many entries have in common (mode, owner, device, ...) is stored once.
//!
//! | module | contents |
//! |---|---|
//! | `packed` | a row in 72 bytes, and what rows have in common |
//! | `heap` | rows as they came |
//! | `order` | puts a heap into archive order |
//! | `tree` | the tree, in archive order |
//! | `collector` | the sink that fills a heap, and makes a tree of it |
//!
//! Archive order is depth first, a directory before what is in it, and the names in a directory
//! sorted by their bytes: the row after a directory is the first that is in it, and [`Rows::end`]
//! is the row after the last one.

mod collector;
mod heap;
mod order;
mod packed;
#[cfg(test)]
mod tests;
mod tree;

pub(crate) use collector::Collector;
pub use tree::{Rows, Source, TreeRow};
