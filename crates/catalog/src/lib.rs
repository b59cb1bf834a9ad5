//! Catalogs: what a tree consisted of when it was walked, in a Parquet file with a row for each entry, and what changed since.
//!
//! | module | contents |
//! |---|---|
//! | `format` | reads and writes catalogs; docs/catalog.md has the format |
//! | [`changed`](mod@changed) | what was added, changed, removed and renamed since a catalog |
//! | [`compare`](mod@compare) | which entries of a tree an increment must contain |
//! | [`compressor`] | compresses frames with zstd in one buffer |
//! | [`destination`] | a file or an object that is complete or absent |
//! | `error`, `warning` | why something was not done, or is missing |
//! | [`hidden`] | entries that may exist although a walk has not found them |
//! | [`part`] | the file systems of a tree, identified by source and subvolume |
//! | [`query`] | passes the entries of catalogs to a sink |
//! | [`ranges`] | a file or an object that is read at any offset |
//! | [`remote`] | objects of a store, named by a URL |
//! | [`rows`] | the metadata of a whole tree in memory, packed |
//! | [`since`] | the cheapest way to tell what has changed since a catalog |
//! | [`stored`] | how values are stored in the footer of a catalog |
//! | [`stream`] | a file, a pipe or an object that is read in order |
//! | [`tick`] | the ticks of a file system's clock |
//! | [`token`] | the state of a file system (a generation, a log position), to prove that nothing changed |
//! | [`trusted`] | files that nobody else may have written |
#![forbid(unsafe_code)]

pub mod changed;
pub mod compare;
pub mod compressor;
pub mod destination;
mod error;
mod format;
pub mod hidden;
pub mod part;
pub mod query;
pub mod ranges;
pub mod remote;
pub mod rows;
pub mod since;
#[expect(missing_docs, reason = "each module is a form for serde's `with`")]
pub mod stored;
pub mod stream;
pub mod tick;
pub mod token;
pub mod trusted;
mod warning;

pub use error::{Action, Error, ErrorKind, FileSystemId, MissingParts};
pub use format::{
    About, Catalog, Columns, Draft, Finished, InodeSumsPlace, Keep, Later, Names, Options, Reader,
    Root, Sealed, ShardOfRun, SnapshotRecord, Sums, Writer, catalogs_in, columns, copy,
    finished_part, missing_parts, names_in, remove_part, rows_of_group, sums_of_pieces,
};
pub use remote::StoreError;
pub use warning::WarningKind;

/// The first eight bytes of a name as a number, which decide the order of most pairs of names.
fn head(name: &[u8]) -> u64 {
    let mut head = [0; 8];
    let len = name.len().min(8);
    head[..len].copy_from_slice(&name[..len]);
    u64::from_be_bytes(head)
}
