//! Catalogs: the entries of a tree at the time of a walk, in a Parquet file with one row per entry,
//! and comparisons with them.
//!
//! | module | contents |
//! |---|---|
//! | `format` | reads and writes catalogs; docs/catalog.md has the format |
//! | [`changed`](mod@changed) | finds entries added, changed, removed and renamed since a catalog |
//! | [`compare`](mod@compare) | chooses the entries of a tree that an increment must contain |
//! | [`compressor`] | compresses frames with zstd in one buffer |
//! | [`destination`] | a file or object that is written atomically |
//! | `error`, `warning` | why an operation failed, or an entry is missing |
//! | [`hidden`] | entries that may exist although a walk could not see them |
//! | [`part`] | the file systems of a tree, identified by source and subvolume |
//! | [`query`] | passes the entries of catalogs to a sink |
//! | [`ranges`] | a file or object that is read at any offset |
//! | [`remote`] | objects in a store, named by a URL |
//! | [`rows`] | the metadata of a whole tree in memory, packed |
//! | [`since`] | the cheapest way to find changes since a catalog |
//! | [`stored`] | how values are stored in the footer of a catalog |
//! | [`stream`] | a file, pipe or object that is read sequentially |
//! | [`tick`] | the ticks of a file system's clock |
//! | [`token`] | a state of a file system (such as its generation), to prove that nothing changed |
//! | [`trusted`] | files that no other user can have written |
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
    About, Catalog, CatalogDraft, Columns, Finished, InodeSumsPlace, Names, Options, Reader, Root,
    RowColumns, RowInclusion, RowUpdates, SealedCatalog, ShardOfRun, SnapshotRecord, Sums, Writer,
    catalogs_in, columns, copy, finished_part, missing_parts, names_in, remove_part, rows_of_group,
    sums_of_pieces,
};
pub use remote::StoreError;
pub use warning::WarningKind;

/// The first eight bytes of a name as a big-endian number: comparing these decides the order of
/// most names.
fn head(name: &[u8]) -> u64 {
    let mut head = [0; 8];
    let len = name.len().min(8);
    head[..len].copy_from_slice(&name[..len]);
    u64::from_be_bytes(head)
}
