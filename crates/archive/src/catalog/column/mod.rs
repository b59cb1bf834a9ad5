//! A column of a row group: from values to pages, and back.
//!
//! ```text
//! few pages, each: ─ levels (which rows have a value) ─ values, one after the other, or their numbers in a dictionary ─ zstd
//! ```
//!
//! The library has this too, for every type and encoding that there is, one value at a time. A
//! catalog has millions of them, of few types, and many of its columns say the same in every row:
//! what is alike is found by one comparison, and stands there once.
//!
//! Before each page stands its header, with the checksum of the page as Parquet has it, for whoever
//! reads; the library would write none.
//!
//! | room | what is in it |
//! |---|---|
//! | `encode` | from values to pages |
//! | `decode` | from pages to values |
//!
//! [Parquet's encodings](https://parquet.apache.org/docs/file-format/data-pages/encodings/),
//! [its checksums](https://parquet.apache.org/docs/file-format/data-pages/checksumming/)

mod decode;
mod encode;

pub use decode::Names;
pub(super) use decode::{damaged, flags, numbers};
pub(crate) use encode::{Chunk, How};
pub(super) use encode::{Encoded, compressor};

#[cfg(test)]
mod tests;
