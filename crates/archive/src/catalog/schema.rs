//! The columns, and how each is encoded.

use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnPath, SchemaDescriptor};
use walk::Meta;

/// The rows of a catalog, as Parquet writes a schema down.
pub const SCHEMA: &str = "
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

/// An entry, on its way into the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    pub(crate) meta: Meta,
    pub(crate) part: u32,
    /// Number of the DIR that it is under.
    pub(crate) top: u32,
    /// Of its contents, where they have been read.
    pub(crate) blake3: Option<[u8; 32]>,
    /// Names, as pieces of what is shared by many.
    pub(crate) dir: &'a Bytes,
    pub(crate) name: (&'a Bytes, usize, usize),
}

/// Where the values of a column come from.
#[derive(Clone, Copy)]
pub(crate) enum Values {
    Bytes(fn(&Row<'_>) -> Bytes),
    I32(fn(&Row<'_>) -> u32),
    I64(fn(&Row<'_>) -> u64),
    Maybe32(fn(&Row<'_>) -> Option<u32>),
    Maybe64(fn(&Row<'_>) -> Option<u64>),
    MaybeBool(fn(&Row<'_>) -> Option<bool>),
    MaybeHash(fn(&Row<'_>) -> Option<[u8; 32]>),
}

/// How a column is encoded; each is what was fastest, or as fast and smaller, over a million entries of a source tree.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// A dictionary, for few values that are long.
    Dictionary,
    /// The values as they are, and zstd over them.
    Plain,
    /// The values as they are: nothing would make them smaller.
    Raw,
}

/// A column.
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) values: Values,
    pub(crate) how: How,
}

const fn column(name: &'static str, how: How, values: Values) -> Column {
    Column { name, values, how }
}

/// The columns, in the order of [`SCHEMA`].
pub(crate) const COLUMNS: [Column; 27] = {
    use How::{Dictionary, Plain, Raw};
    use Values::{I32, I64, Maybe32, Maybe64, MaybeBool, MaybeHash};
    [
        column("part", Plain, I32(|r| r.part)),
        column("dir", Dictionary, Values::Bytes(|r| r.dir.clone())),
        column("name", Plain, Values::Bytes(|r| r.name.0.slice(r.name.1..r.name.2))),
        column("ino", Plain, I64(|r| r.meta.ino)),
        column("generation", Raw, Maybe32(|r| r.meta.generation)),
        column("mode", Plain, I32(|r| r.meta.mode)),
        column("nlink", Plain, I32(|r| r.meta.nlink)),
        column("uid", Plain, I32(|r| r.meta.uid)),
        column("gid", Plain, I32(|r| r.meta.gid)),
        column("size", Plain, I64(|r| r.meta.size)),
        column("blocks", Plain, I64(|r| r.meta.blocks)),
        column("atime", Plain, I64(|r| r.meta.atime.sec.cast_unsigned())),
        column("atime_ns", Plain, I32(|r| r.meta.atime.nsec)),
        column("mtime", Plain, I64(|r| r.meta.mtime.sec.cast_unsigned())),
        column("mtime_ns", Plain, I32(|r| r.meta.mtime.nsec)),
        column("ctime", Plain, I64(|r| r.meta.ctime.sec.cast_unsigned())),
        column("ctime_ns", Plain, I32(|r| r.meta.ctime.nsec)),
        column("btime", Plain, Maybe64(|r| r.meta.btime.map(|t| t.sec.cast_unsigned()))),
        column("btime_ns", Plain, Maybe32(|r| r.meta.btime.map(|t| t.nsec))),
        column("rdev_major", Plain, I32(|r| r.meta.rdev.major)),
        column("rdev_minor", Plain, I32(|r| r.meta.rdev.minor)),
        column("dev_major", Plain, I32(|r| r.meta.dev.major)),
        column("dev_minor", Plain, I32(|r| r.meta.dev.minor)),
        column("attributes", Plain, I64(|r| r.meta.attributes)),
        column("xattrs", Plain, MaybeBool(|r| r.meta.xattrs)),
        column("top", Plain, I32(|r| r.top)),
        column("blake3", Raw, MaybeHash(|r| r.blake3)),
    ]
};

/// The schema, as the library has it.
pub(crate) fn descriptor() -> Result<SchemaDescriptor, parquet::errors::ParquetError> {
    Ok(SchemaDescriptor::new(Arc::new(parse_message_type(SCHEMA)?)))
}

/// How the file is written.
pub(crate) fn properties() -> WriterProperties {
    let zstd = ZstdLevel::try_new(1).map_or(Compression::UNCOMPRESSED, Compression::ZSTD);
    let mut properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_created_by(concat!("fathom ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(zstd)
        .set_dictionary_enabled(false)
        .set_encoding(Encoding::PLAIN)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .set_write_batch_size(16 << 10)
        .set_data_page_row_count_limit(1 << 20)
        .set_dictionary_page_size_limit(16 << 20);
    for column in &COLUMNS {
        let path = ColumnPath::from(column.name);
        properties = match column.how {
            How::Dictionary => properties.set_column_dictionary_enabled(path, true),
            How::Plain => properties,
            How::Raw => properties.set_column_compression(path, Compression::UNCOMPRESSED),
        };
    }
    properties.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_are_those_of_the_schema() {
        let descriptor = descriptor().unwrap();
        let names: Vec<_> = descriptor.columns().iter().map(|column| column.name().to_owned()).collect();
        assert_eq!(names, COLUMNS.each_ref().map(|column| column.name));
    }
}
