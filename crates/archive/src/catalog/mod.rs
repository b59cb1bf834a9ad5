//! The catalog: a Parquet file with a row for each entry of a tree. docs/catalog.md has the format.
//!
//! | module | contents |
//! |---|---|
//! | [`schema`] | the columns, and how each is encoded |
//! | [`about`] | what a catalog says of itself |
//! | [`write`](mod@write) | a sink that writes the catalog of a walk |
//! | [`rows`] | writes the catalog of a tree in memory |
//! | [`columns`] | typed columns, for reading |
//! | `column` | encodes and decodes the pages of a column |
//! | `footer` | the checksum of the footer |
//! | `output` | writes the file, row group by row group |
//! | [`read`] | reads a catalog, a column of a row group at a time |

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
