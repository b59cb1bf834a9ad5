//! A whole tree in memory, small: 76 bytes an entry beside its name.
//!
//! ```text
//! worker ─ batch ─┐
//! worker ─ batch ─┼─► heap ─► each directory's pieces side by side, by name ─► archive order
//! worker ─ batch ─┘
//! ```
//!
//! Entries come from several threads, in any order, and those of one directory in pieces. A piece
//! says which directory it is of by a hash of that one's path, and directories are found by it when
//! all is there; the rows themselves stay where they came. What many entries have alike (mode,
//! owner, device, ...) is kept once.
//!
//! | room | what is in it |
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
