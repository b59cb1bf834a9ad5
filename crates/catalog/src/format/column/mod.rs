//! Encodes and decodes the pages of a column chunk.
//!
//! ```text
//! few pages, each: ─ levels (which rows have a value) ─ values, one after the other, or their numbers in a dictionary ─ zstd
//! ```
//!
//! The parquet crate does this for every type and encoding, one value at a time. A catalog has
//! millions of values of few types, and many of its columns have the same value in every row: runs
//! of equal values are found by one comparison, and stored once.
//!
//! Each page header has the checksum that Parquet defines, which the parquet crate does not write.
//!
//! [Parquet's encodings](https://parquet.apache.org/docs/file-format/data-pages/encodings/), [its
//! checksums](https://parquet.apache.org/docs/file-format/data-pages/checksumming/)

mod bounded;
mod decode;
mod encode;
mod foreign;

pub(super) use bounded::BoundedPages;
pub use decode::Names;
pub(super) use decode::{Pages, damaged, flags, numbers};
pub(super) use encode::{Chunk, ColumnEncoding, Encoded, PageCompressor};
pub(super) use foreign::{ForeignColumn, required};

#[cfg(test)]
mod tests;
