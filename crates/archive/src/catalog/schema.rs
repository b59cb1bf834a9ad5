//! The columns, and how each is encoded: what all of a row group have alike stands there once in
//! any case.

use std::sync::Arc;

use parquet::errors::Result;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::SchemaDescriptor;
use walk::Meta;
use zstd::bulk::Compressor;

use super::column::{Chunk, How};

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
pub(crate) struct Record<'a> {
    pub(crate) meta: Meta,
    pub(crate) part: u32,
    /// Number of the DIR that it is under.
    pub(crate) top: u32,
    /// Of its contents, where they have been read.
    pub(crate) blake3: Option<[u8; 32]>,
    /// Its directory below DIR, and its name there.
    pub(crate) dir: &'a [u8],
    pub(crate) name: &'a [u8],
}

/// Puts the values of some rows into a column.
type Put = fn(&mut Chunk, &[Record<'_>], &mut Compressor<'_>) -> Result<()>;

/// A column.
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) how: How,
    pub(crate) put: Put,
}

const fn column(name: &'static str, how: How, put: Put) -> Column {
    Column { name, how, put }
}

/// Of each row a number.
macro_rules! number {
    (|$row:ident| $value:expr) => {
        |to, rows, _| {
            to.numbers(rows.iter().map(|$row| $value.to_le_bytes()));
            Ok(())
        }
    };
}

/// Of some rows a value.
macro_rules! maybe {
    (|$row:ident| $value:expr) => {
        |to, rows, _| {
            to.maybe(rows.iter().map(|$row| $value));
            Ok(())
        }
    };
}

/// The columns, in the order of [`SCHEMA`].
pub(crate) const COLUMNS: [Column; 27] = {
    use How::{Dictionary, Plain, Raw};
    [
        column("part", Plain, number!(|r| r.part)),
        column("dir", Dictionary, |to, rows, zstd| {
            to.names(rows.iter().map(|r| r.dir), zstd)
        }),
        column("name", Plain, |to, rows, zstd| {
            to.names(rows.iter().map(|r| r.name), zstd)
        }),
        column("ino", Plain, number!(|r| r.meta.ino)),
        column(
            "generation",
            Raw,
            maybe!(|r| r.meta.generation.map(u32::to_le_bytes)),
        ),
        column("mode", Plain, number!(|r| r.meta.mode)),
        column("nlink", Plain, number!(|r| r.meta.nlink)),
        column("uid", Plain, number!(|r| r.meta.uid)),
        column("gid", Plain, number!(|r| r.meta.gid)),
        column("size", Plain, number!(|r| r.meta.size)),
        column("blocks", Plain, number!(|r| r.meta.blocks)),
        column("atime", Plain, number!(|r| r.meta.atime.sec)),
        column("atime_ns", Plain, number!(|r| r.meta.atime.nsec)),
        column("mtime", Plain, number!(|r| r.meta.mtime.sec)),
        column("mtime_ns", Plain, number!(|r| r.meta.mtime.nsec)),
        column("ctime", Plain, number!(|r| r.meta.ctime.sec)),
        column("ctime_ns", Plain, number!(|r| r.meta.ctime.nsec)),
        column(
            "btime",
            Plain,
            maybe!(|r| r.meta.btime.map(|t| t.sec.to_le_bytes())),
        ),
        column(
            "btime_ns",
            Plain,
            maybe!(|r| r.meta.btime.map(|t| t.nsec.to_le_bytes())),
        ),
        column("rdev_major", Plain, number!(|r| r.meta.rdev.major)),
        column("rdev_minor", Plain, number!(|r| r.meta.rdev.minor)),
        column("dev_major", Plain, number!(|r| r.meta.dev.major)),
        column("dev_minor", Plain, number!(|r| r.meta.dev.minor)),
        column("attributes", Plain, number!(|r| r.meta.attributes)),
        column(
            "xattrs",
            Plain,
            maybe!(|r| r.meta.xattrs.map(|has| [has.into()])),
        ),
        column("top", Plain, number!(|r| r.top)),
        column("blake3", Raw, maybe!(|r| r.blake3)),
    ]
};

/// The schema, as the library has it.
pub(crate) fn descriptor() -> Result<SchemaDescriptor> {
    Ok(SchemaDescriptor::new(Arc::new(parse_message_type(SCHEMA)?)))
}

/// How the file is written, beside its columns.
pub(crate) fn properties() -> WriterProperties {
    WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_created_by(concat!("fathom ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_are_those_of_the_schema() {
        let descriptor = descriptor().unwrap();
        let names: Vec<_> = descriptor
            .columns()
            .iter()
            .map(|column| column.name().to_owned())
            .collect();
        assert_eq!(names, COLUMNS.each_ref().map(|column| column.name));
    }
}
