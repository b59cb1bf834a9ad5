//! The catalog: a Parquet file with a row for each entry of a tree. docs/catalog.md says what is in
//! it.
//!
//! | room | what is in it |
//! |---|---|
//! | [`schema`] | the columns, and how each is encoded |
//! | [`about`] | what a catalog says of itself |
//! | [`write`](mod@write) | writes one: a sink for a walk |
//! | [`rows`] | writes one of a tree that is in memory |
//! | `column` | a column of a row group: from values to pages, and back |
//! | `footer` | the checksum of what stands at the end |
//! | `output` | the file itself, row group by row group |
//! | [`read`] | reads one back, a column at a time |

use std::fmt;

use parquet::errors::ParquetError;

pub mod about;
mod column;
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

/// Why a catalog could not be written, or read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// What was being done.
    pub doing: &'static str,
    /// The catalog.
    pub path: Vec<u8>,
    /// What happened.
    pub error: String,
    /// What would help; empty where nothing is known to.
    pub next: &'static str,
}

impl Fault {
    pub(crate) fn writing(path: &[u8], error: impl fmt::Display) -> Fault {
        Fault {
            doing: "cannot write catalog",
            path: path.to_vec(),
            error: error.to_string(),
            next: "",
        }
    }

    fn reading(path: &[u8], error: impl fmt::Display) -> Fault {
        Fault {
            doing: "cannot read catalog",
            path: path.to_vec(),
            error: error.to_string(),
            next: "",
        }
    }
}

/// What went wrong, without the library's name for the kind of it.
fn plain(error: ParquetError) -> String {
    match error {
        ParquetError::External(e) => e.to_string(),
        ParquetError::General(what) | ParquetError::NYI(what) | ParquetError::EOF(what) => what,
        other => other.to_string(),
    }
}
