//! The catalog: a Parquet file with a row for each entry of a tree. docs/catalog.md says what is in
//! it.
//!
//! | room | what is in it |
//! |---|---|
//! | [`schema`] | the columns, and how each is encoded |
//! | [`about`] | what a catalog says of itself |
//! | [`write`](mod@write) | writes one: a sink for a walk |
//! | [`rows`] | writes one of a tree that is in memory |
//! | [`columns`] | the columns, typed, for who reads |
//! | `column` | a column of a row group: from values to pages, and back |
//! | `footer` | the checksum of what stands at the end |
//! | `output` | the file itself, row group by row group |
//! | [`read`] | reads one back, a column at a time |

pub mod about;
mod column;
pub mod columns;
mod footer;
mod output;
pub mod read;
pub mod rows;
pub mod schema;
pub mod write;

pub use about::{About, Options, Root};
pub use column::Names;
pub use output::Sealed;
pub(crate) use output::rows_of_group;
pub use read::Reader;
pub use rows::{Draft, Later};
pub use write::Catalog;
