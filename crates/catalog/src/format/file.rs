//! The file of a catalog: footer and column chunks.

use std::cell::Cell;
use std::io::{self, Write};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Once};

use bytes::Bytes;
use parquet::basic::{Compression, Type};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, ParquetMetaData, ParquetMetaDataReader,
};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::file::statistics::Statistics;
use parquet::schema::types::{ColumnDescPtr, ColumnDescriptor, SchemaDescriptor};

use super::about::{About, KEY};
use super::column::{BoundedPages, ForeignColumn, Pages, damaged};
use super::columns::{COLUMNS, Column, TimeColumns, Value};
use super::footer;
use super::inode_sums::InodeSums;
use super::schema::{CREATED_BY, descriptor};
use crate::destination::Destination;
use crate::error::{Action, Error, ErrorKind};
use crate::ranges::Ranges;

/// Maximum rows of a row group: more than any writer's default. A few bytes of a damaged file can
/// claim any number of equal rows.
const MOST_ROWS: u64 = 1 << 20;

/// Size of the file's end: the length of the metadata, and the magic bytes.
const END: u64 = 8;

/// A catalog file, open for reading.
#[derive(Debug)]
pub(super) struct CatalogFile {
    path: Vec<u8>,
    file: Ranges,
    metadata: ParquetMetaData,
    /// For each of [`COLUMNS`], its index among the columns of the file.
    places: Vec<usize>,
    /// Whether another program has written the file.
    is_foreign: bool,
    about: About,
}

/// The bytes of a column chunk, and their offset in the file.
struct ChunkBytes {
    offset: u64,
    bytes: Bytes,
}

impl ChunkBytes {
    fn at(&self, start: u64) -> ParquetResult<usize> {
        let at = start
            .checked_sub(self.offset)
            .and_then(|at| usize::try_from(at).ok());
        at.filter(|at| *at <= self.bytes.len()).ok_or_else(damaged)
    }
}

impl Length for ChunkBytes {
    fn len(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

impl ChunkReader for ChunkBytes {
    type T = io::Cursor<Bytes>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        Ok(io::Cursor::new(self.bytes.slice(self.at(start)?..)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let at = self.at(start)?;
        if length > self.bytes.len() - at {
            return Err(damaged());
        }
        Ok(self.bytes.slice(at..at + length))
    }
}

fn read_bytes(file: &Ranges, start: u64, len: usize) -> ParquetResult<Bytes> {
    let short = || ParquetError::EOF("it is truncated".to_owned());
    // Check before allocating memory: a damaged file may claim any length.
    let end = start.checked_add(len as u64).ok_or_else(short)?;
    if end > file.len() {
        return Err(short());
    }
    let mut bytes = vec![0; len];
    match file.read_at(start, &mut bytes) {
        Ok(n) if n == len => Ok(bytes.into()),
        Ok(_) => Err(short()),
        Err(e) => Err(ParquetError::External(Box::new(e))),
    }
}

/// Reads everything after the column chunks.
fn read_footer(file: &Ranges) -> ParquetResult<Bytes> {
    let end = file.len().checked_sub(END).ok_or_else(damaged)?;
    let len = read_bytes(file, end, 4)?.first_chunk().copied();
    // Limit for a damaged length: the metadata of a billion entries takes 50 MB.
    const MOST: u32 = 128 << 20;
    let from = len
        .filter(|len| u32::from_le_bytes(*len) <= MOST)
        .and_then(|len| end.checked_sub(u32::from_le_bytes(len).into()))
        .filter(|from| *from >= 4)
        .ok_or_else(damaged)?;
    read_bytes(file, from, (file.len() - from) as usize)
}

/// Whether fathom has written a file.
fn is_by_fathom(file: &FileMetaData) -> bool {
    file.created_by()
        .is_some_and(|by| by.starts_with(CREATED_BY))
}

/// For each of [`COLUMNS`], its index among the columns of the file, and whether another program
/// has written the file: then there may be further columns, in any order.
fn find_columns(file: &FileMetaData) -> Result<(Vec<usize>, bool), ErrorKind> {
    let wanted = descriptor().map_err(ErrorKind::from)?;
    let columns = file.schema_descr().columns();
    let is_same = |(is, wanted): (&ColumnDescPtr, &ColumnDescPtr)| {
        is.path() == wanted.path()
            && is.physical_type() == wanted.physical_type()
            && is.max_def_level() == wanted.max_def_level()
            && is.max_rep_level() == wanted.max_rep_level()
    };
    let is_alike = columns.len() == wanted.num_columns();
    if is_alike && is_by_fathom(file) && columns.iter().zip(wanted.columns()).all(is_same) {
        return Ok(((0..columns.len()).collect(), false));
    }
    let place = |wanted: &ColumnDescPtr| {
        let name = wanted.name().to_owned();
        let found = columns.iter().position(|is| is.path() == wanted.path());
        match found {
            Some(nth) if can_stand_for(&columns[nth], wanted) => Ok(nth),
            Some(nth) => Err(ErrorKind::OtherType {
                name,
                is: columns[nth].physical_type().to_string(),
                wanted: wanted.physical_type().to_string(),
            }),
            None => Err(ErrorKind::NoColumn { name }),
        }
    };
    let places = wanted.columns().iter().map(place);
    Ok((places.collect::<Result<_, _>>()?, true))
}

/// Whether a column can be read as one of another type: some programs widen integers, or do not
/// know fixed-length strings.
fn can_stand_for(is: &ColumnDescriptor, wanted: &ColumnDescriptor) -> bool {
    let kind = |column: &ColumnDescriptor| match column.physical_type() {
        Type::INT64 => Type::INT32,
        Type::FIXED_LEN_BYTE_ARRAY => Type::BYTE_ARRAY,
        other => other,
    };
    is.max_rep_level() == 0 && is.max_def_level() <= 1 && kind(is) == kind(wanted)
}

/// Maximum bytes of a column in a row group, compressed or not. The names of a row group take 4 MiB
/// when written by this version, and seldom more than 20 MiB when written by an older version.
const MOST_COLUMN: u64 = 64 << 20;
/// [`MOST_COLUMN`] for files of other programs, which may write a million rows per row group, and
/// paths without a dictionary.
const MOST_FOREIGN_COLUMN: u64 = 256 << 20;

/// Checks the metadata of a column: the codec must be known, and the claimed sizes and offsets must
/// be possible.
fn check_column(
    column: Option<&ColumnChunkMetaData>,
    rows: i64,
    most: u64,
) -> Result<(), ErrorKind> {
    let is_sound = |column: &&ColumnChunkMetaData| {
        column.num_values() == rows
            && column.data_page_offset() >= 4
            && column.dictionary_page_offset().is_none_or(|at| at >= 4)
            && column.compressed_size() >= 0
    };
    let column = column.filter(is_sound).ok_or(ErrorKind::DamagedCatalog)?;
    let sizes = [column.compressed_size(), column.uncompressed_size()];
    let bytes = sizes.map(|size| u64::try_from(size).unwrap_or(u64::MAX));
    let bytes = bytes[0].max(bytes[1]);
    if bytes > most {
        return Err(ErrorKind::TooLong { bytes, most });
    }
    match column.compression() {
        Compression::UNCOMPRESSED
        | Compression::SNAPPY
        | Compression::GZIP(_)
        | Compression::LZ4_RAW
        | Compression::ZSTD(_) => Ok(()),
        Compression::BROTLI(_) => Err(ErrorKind::UnknownCodec("brotli")),
        Compression::LZ4 => Err(ErrorKind::UnknownCodec("LZ4 in the format of Hadoop")),
        Compression::LZO => Err(ErrorKind::UnknownCodec("LZO")),
    }
}

thread_local! {
    /// Whether this thread is within [`catch_panics`], where the panic hook prints no message.
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Calls code of the parquet crate, which panics on some damaged bytes: a panic becomes an error,
/// without a message.
fn catch_panics<T>(read: impl FnOnce() -> ParquetResult<T>) -> ParquetResult<T> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !IS_CAUGHT.get() {
                before(panic);
            }
        }));
    });
    let outer = IS_CAUGHT.replace(true);
    let read = std::panic::catch_unwind(AssertUnwindSafe(read));
    IS_CAUGHT.set(outer);
    read.unwrap_or_else(|_| Err(damaged()))
}

impl CatalogFile {
    /// Opens a catalog, and checks that the file is a complete catalog of a known version.
    pub(super) fn open(path: &[u8]) -> Result<CatalogFile, Error> {
        let error = |kind| Error::new(Action::ReadCatalog, path, kind);
        let file = Ranges::open(path).map_err(error)?;
        let (mut head, mut tail) = ([0; 4], [0; 4]);
        if let Some(end) = file.len().checked_sub(4) {
            file.read_at(end, &mut tail).map_err(error)?;
            // For an object in a store, skip the request for the magic bytes at the beginning: the
            // checksums cover all other bytes.
            match file.is_remote() && tail == *b"PAR1" {
                true => head = tail,
                false => _ = file.read_at(0, &mut head).map_err(error)?,
            }
        }
        match (&head, &tail) {
            (b"PAR1", b"PAR1") if file.len() > 12 => {}
            (b"PAR1", _) => return Err(error(ErrorKind::CutShort)),
            _ => return Err(error(ErrorKind::NotParquet)),
        }
        let damaged = || error(ErrorKind::DamagedCatalog);
        let footer = read_footer(&file).map_err(|e| match ErrorKind::from(e) {
            unread @ (ErrorKind::Call { .. } | ErrorKind::Store(_)) => error(unread),
            _ => damaged(),
        })?;
        let is_right = footer::is_right(&footer);
        let metadata = &footer[..footer.len() - END as usize];
        let metadata = catch_panics(|| ParquetMetaDataReader::decode_metadata(metadata))
            .map_err(|_| damaged())?;
        if is_right == Some(false) {
            return Err(error(match is_by_fathom(metadata.file_metadata()) {
                true => ErrorKind::DamagedCatalog,
                false => ErrorKind::StaleChecksum,
            }));
        }
        let pairs = metadata.file_metadata().key_value_metadata();
        let about = pairs
            .and_then(|pairs| pairs.iter().find(|pair| pair.key == KEY))
            .and_then(|pair| pair.value.as_deref())
            .ok_or(ErrorKind::NotCatalog)
            .and_then(About::from_json)
            .map_err(error)?;
        let (places, is_foreign) = find_columns(metadata.file_metadata()).map_err(error)?;
        let reader = CatalogFile {
            path: path.to_vec(),
            file,
            metadata,
            places,
            is_foreign,
            about,
        };
        reader.check(is_right.is_some()).map_err(error)?;
        Ok(reader)
    }

    pub(super) fn check_trusted(&self) -> Result<(), ErrorKind> {
        self.file.check_trusted()
    }

    pub(super) fn path(&self) -> &[u8] {
        &self.path
    }

    /// Copies the catalog to `path`, atomically, with a new description of the same rows.
    pub(super) fn copy_to(&self, path: &[u8], about: &About) -> Result<(), Error> {
        let read = |e: ParquetError| Error::new(Action::ReadCatalog, &self.path, e);
        let write = |kind: ErrorKind| Error::new(Action::WriteCatalog, path, kind);
        let footer = read_footer(&self.file).map_err(read)?;
        let mut to = Destination::create(path).map_err(write)?;
        let mut at = 0;
        let end = self.file.len() - footer.len() as u64;
        while at < end {
            let piece = (end - at).min(1 << 20) as usize;
            let bytes = read_bytes(&self.file, at, piece).map_err(read)?;
            to.write_all(&bytes).map_err(|e| write(e.into()))?;
            at += piece as u64;
        }
        let footer =
            footer::describe(&self.metadata, about.to_pair()).map_err(|e| write(e.into()))?;
        to.write_all(&footer).map_err(|e| write(e.into()))?;
        to.publish().map_err(|e| write(e.into()))
    }

    /// Reads the sums over inodes; `None` if they are missing or damaged.
    pub(super) fn inode_sums(&self) -> Option<InodeSums> {
        let place = self.about.inode_sums?;
        let length = usize::try_from(place.length).ok()?;
        let bytes = read_bytes(&self.file, place.offset, length).ok()?;
        let is_right = crc32fast::hash(&bytes) == place.crc32;
        is_right.then(|| InodeSums::decode(&bytes)).flatten()
    }

    /// Checks columns and row counts and, if the footer has a checksum, that every column has one,
    /// too. Catalogs without checksums were written by an older version or by a different program.
    fn check(&self, has_checksum: bool) -> Result<(), ErrorKind> {
        let most = match self.is_foreign {
            true => MOST_FOREIGN_COLUMN,
            false => MOST_COLUMN,
        };
        let mut entries = 0;
        for group in self.metadata.row_groups() {
            let rows = u64::try_from(group.num_rows()).map_err(|_| ErrorKind::DamagedCatalog)?;
            if rows > MOST_ROWS {
                return Err(ErrorKind::LargeRowGroup { rows });
            }
            entries += rows;
            for &nth in &self.places {
                check_column(group.columns().get(nth), group.num_rows(), most)?;
            }
        }
        let (checksums, columns) = (&self.about.checksums, self.schema().num_columns());
        let has_all = checksums.len() == self.groups()
            && checksums.iter().all(|group| group.len() == columns);
        let has_right_checksums = checksums.is_empty() || has_checksum && has_all;
        match has_right_checksums && entries == self.about.entries {
            true => Ok(()),
            false => Err(ErrorKind::DamagedCatalog),
        }
    }

    fn schema(&self) -> &SchemaDescriptor {
        self.metadata.file_metadata().schema_descr()
    }

    /// The index of a column in the file.
    fn place(&self, name: &str) -> Option<usize> {
        let nth = COLUMNS.iter().position(|column| column.name == name)?;
        self.places.get(nth).copied()
    }

    /// The description of the catalog.
    pub(super) fn about(&self) -> &About {
        &self.about
    }

    /// The number of row groups.
    pub(super) fn groups(&self) -> usize {
        self.metadata.num_row_groups()
    }

    /// The number of rows in a row group.
    pub(super) fn rows(&self, group: usize) -> usize {
        let group = self.metadata.row_groups().get(group);
        group.map_or(0, |group| group.num_rows() as usize)
    }

    /// Minimum and maximum of an unsigned column in a row group; `None` in catalogs of older
    /// versions.
    pub(super) fn unsigned_limits<V>(&self, column: Column<V>, group: usize) -> Option<(u64, u64)> {
        match self.statistics(column.name, group)? {
            Statistics::Int32(s) => Some((
                s.min_opt()?.cast_unsigned().into(),
                s.max_opt()?.cast_unsigned().into(),
            )),
            Statistics::Int64(s) => {
                Some((s.min_opt()?.cast_unsigned(), s.max_opt()?.cast_unsigned()))
            }
            _ => None,
        }
    }

    /// Minimum and maximum of a time's seconds in a row group.
    pub(super) fn time_limits(
        &self,
        times: TimeColumns<i64, u32>,
        group: usize,
    ) -> Option<(i64, i64)> {
        match self.statistics(times.0.name, group)? {
            Statistics::Int64(s) => Some((*s.min_opt()?, *s.max_opt()?)),
            _ => None,
        }
    }

    fn statistics(&self, name: &str, group: usize) -> Option<&Statistics> {
        // Other programs may compare unsigned numbers as signed ones.
        let nth = self.place(name).filter(|_| !self.is_foreign)?;
        let column = self.metadata.row_groups().get(group)?.column(nth);
        let statistics = column.statistics();
        statistics.filter(|it| !it.is_min_max_deprecated())
    }

    /// Reads a column of a row group.
    pub(super) fn decode<V: Value>(
        &self,
        Column { name, .. }: Column<V>,
        group: usize,
    ) -> Result<V::Values, Error> {
        let absent =
            || ParquetError::General(format!("it has no column {name} in row group {group}"));
        let read = || {
            let nth = self.place(name).ok_or_else(absent)?;
            let meta = self.metadata.row_groups().get(group).ok_or_else(absent)?;
            let (column, rows) = (meta.column(nth), meta.num_rows() as usize);
            let (offset, len) = column.byte_range();
            let bytes = read_bytes(&self.file, offset, len as usize)?;
            let checksums = self.about.checksums.get(group);
            let checksum = checksums.and_then(|group| group.get(nth));
            if checksum.is_some_and(|checksum| *checksum != crc32fast::hash(&bytes)) {
                return Err(ParquetError::General(format!(
                    "column {name} has another checksum in row group {group}"
                )));
            }
            let chunk = Arc::new(ChunkBytes { offset, bytes });
            // `Pages` and `BoundedPages` decompress the pages: the parquet crate would create a
            // compressor and a decompressor for each column, and allocate the size that a page
            // claims. So the metadata passed to the parquet crate says that the pages are
            // uncompressed.
            let stored = column.clone().into_builder();
            let stored = stored.set_compression(Compression::UNCOMPRESSED).build()?;
            let mut stored = SerializedPageReader::new(chunk, &stored, rows, None)?;
            let is_optional = column.column_descr().max_def_level() > 0;
            let unpacked = usize::try_from(column.uncompressed_size()).unwrap_or(0);
            if self.is_foreign {
                let pages = BoundedPages {
                    stored,
                    codec: column.compression(),
                    is_optional,
                    rows,
                    // Some programs omit dictionaries from the stated size of a column, or state 0.
                    left: MOST_FOREIGN_COLUMN as usize,
                };
                let descriptor = column.column_descr_ptr();
                let column = ForeignColumn::new(descriptor, Box::new(pages), rows);
                return V::decode_foreign(column);
            }
            let is_zstd = matches!(column.compression(), Compression::ZSTD(_));
            V::decode(Pages {
                pages: &mut stored,
                rows,
                is_optional,
                unpacked: is_zstd.then_some(unpacked),
            })
        };
        catch_panics(read).map_err(|e| {
            let kind = match ErrorKind::from(e) {
                ErrorKind::Parquet(error) => ErrorKind::DamagedColumn(error),
                unread => unread,
            };
            Error::new(Action::ReadCatalog, &self.path, kind)
        })
    }
}
