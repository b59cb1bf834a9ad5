//! The Parquet schema of a catalog, and its writer properties.

use std::sync::Arc;

use parquet::errors::Result;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::SchemaDescriptor;
use walk::Meta;

/// Maximum rows of a row group: enough for good compression with zstd and for readers, and at most
/// about 16 MiB in memory.
pub(super) const GROUP: usize = 64 << 10;

/// Prefix of `created_by` in catalogs written by fathom.
pub(super) const CREATED_BY: &str = "fathom ";

/// Bytes of names and directory paths at which a row group ends, so that memory for deep trees with
/// long names does not depend on the number of directories.
pub(super) const GROUP_BYTES: usize = if cfg!(test) { 12 << 10 } else { 4 << 20 };

const SCHEMA: &str = "
message entry {
  required int32 part (INTEGER(32,false));
  required binary dir;
  required binary name;
  required int64 ino (INTEGER(64,false));
  optional int32 generation (INTEGER(32,false));
  required int32 mode (INTEGER(32,false));
  required int32 nlink (INTEGER(32,false));
  required int32 uid (INTEGER(32,false));
  required int32 gid (INTEGER(32,false));
  required int64 size (INTEGER(64,false));
  required int64 blocks (INTEGER(64,false));
  required int64 atime;
  required int32 atime_ns;
  required int64 mtime;
  required int32 mtime_ns;
  required int64 ctime;
  required int32 ctime_ns;
  optional int64 btime;
  optional int32 btime_ns;
  required int32 rdev_major (INTEGER(32,false));
  required int32 rdev_minor (INTEGER(32,false));
  required int32 dev_major (INTEGER(32,false));
  required int32 dev_minor (INTEGER(32,false));
  required int64 attributes (INTEGER(64,false));
  optional boolean xattrs;
  required int32 top (INTEGER(32,false));
  optional fixed_len_byte_array(32) blake3;
}
";

/// A row to be written.
#[derive(Clone, Copy)]
pub(crate) struct Record<'a> {
    pub(crate) meta: Meta,
    pub(crate) part: u32,
    /// Index of the row's DIR.
    pub(crate) top: u32,
    /// Checksum of the contents, if they were read.
    pub(crate) blake3: Option<[u8; 32]>,
    /// Path of the row's directory, relative to DIR.
    pub(crate) dir: &'a [u8],
    pub(crate) name: &'a [u8],
}

pub(crate) fn descriptor() -> Result<SchemaDescriptor> {
    Ok(SchemaDescriptor::new(Arc::new(parse_message_type(SCHEMA)?)))
}

pub(crate) fn properties() -> WriterProperties {
    WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_created_by(format!("{CREATED_BY}{}", env!("CARGO_PKG_VERSION")))
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .build()
}
