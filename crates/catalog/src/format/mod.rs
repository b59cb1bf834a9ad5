//! The catalog format: a Parquet file with one row per entry of a tree. See docs/catalog.md.

mod about;
mod column;
pub mod columns;
mod compact;
mod file;
mod footer;
mod inode_sums;
mod lazy;
mod output;
mod parts;
mod read;
mod resume;
mod rows;
mod schema;
mod sums;
#[cfg(test)]
mod tests;
mod write;

pub use about::{About, Options, Root, ShardOfRun, SnapshotRecord};
pub use column::Names;
pub(crate) use compact::compact;
pub use compact::copy;
pub use inode_sums::InodeSumsPlace;
pub(crate) use inode_sums::{InodeSums, Sum, state_words};
pub use lazy::RowColumns;
pub use output::SealedCatalog;
pub use output::rows_of_group;
pub use parts::catalogs_in;
pub use parts::{missing_parts, names_in};
pub(crate) use parts::{named_parts, recorded_parts};
pub use read::{Columns, Reader};
pub use resume::{Finished, Writer, finished_part, remove_part};
pub use rows::sums_of_pieces;
pub use rows::{CatalogDraft, RowInclusion, RowUpdates};
pub use sums::Sums;
pub use write::Catalog;
