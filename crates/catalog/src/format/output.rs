//! Writes the file of a catalog: row groups are encoded in memory, column by column, and appended.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use base::pool::in_threads;
use gate::sync::Mutex;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::SchemaDescriptor;

use super::about::About;
use super::column::{Chunk, Encoded, PageCompressor};
use super::columns::COLUMNS;
use super::footer;
use super::inode_sums::{InodeSums, InodeSumsPlace};
use super::schema::{GROUP, Record, descriptor, properties};
use crate::destination::Destination;
use crate::error::{Action, Error, ErrorKind};
use crate::token::Token;

/// Maximum number of row groups encoded at the same time, which bounds the memory.
pub(super) const MOST_AT_ONCE: usize = 4;

/// Number of rows per row group, for a catalog with this many rows. Even a small catalog has
/// several row groups, so that several threads can write and read it.
pub fn rows_of_group(rows: usize) -> usize {
    const FEW: usize = if cfg!(test) { 16 } else { 8 << 10 };
    (rows / 8).clamp(FEW, GROUP)
}

/// A catalog that is written, but not yet renamed into place. Dropping this value removes the file.
#[derive(Debug)]
pub struct SealedCatalog {
    file: Vec<u8>,
    writer: Destination,
    about: About,
}

impl SealedCatalog {
    /// The description of the catalog.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Syncs the file to disk, and renames it into place.
    pub fn publish(self) -> Result<About, Error> {
        let error = |e| Error::new(Action::WriteCatalog, &self.file, e);
        self.writer.publish().map_err(error)?;
        Ok(self.about)
    }
}

/// The output file of a catalog.
pub(super) struct CatalogOutput {
    file: Vec<u8>,
    out: SerializedFileWriter<Buffered>,
    /// Checksums of the columns of each row group.
    checksums: Vec<Vec<u32>>,
    inode_sums: InodeSums,
    spare: EncoderPool,
}

/// An encoded row group.
pub(super) struct EncodedGroup {
    columns: Vec<Encoded>,
    inode_sums: InodeSums,
    /// The encoder of this row group, whose buffers are reused for the next row group.
    next: Option<GroupEncoder>,
}

/// The buffers for encoding a row group: about 10 MiB. They are reused across threads, because
/// malloc would keep this memory for each thread.
struct GroupEncoder {
    columns: Vec<Chunk>,
    zstd: PageCompressor,
}

/// Encoders that no thread uses, kept for their buffers.
type EncoderPool = Arc<Mutex<Vec<GroupEncoder>>>;

/// The file as seen by the parquet crate. The footer is held back until its checksum is set.
struct Buffered {
    file: BufWriter<Destination>,
    footer: Option<Vec<u8>>,
}

impl Write for Buffered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.footer {
            Some(footer) => footer.write(bytes),
            None => self.file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Buffered {
    /// Writes the footer with its checksum, and flushes the buffer.
    fn end(mut self) -> io::Result<Destination> {
        let mut footer = self.footer.unwrap_or_default();
        footer::seal(&mut footer);
        self.file.write_all(&footer)?;
        self.file
            .into_inner()
            .map_err(io::IntoInnerError::into_error)
    }
}

impl CatalogOutput {
    /// Creates the file of a catalog, which is renamed into place later.
    pub(super) fn create(file: &[u8]) -> Result<(Encoder, CatalogOutput), Error> {
        let error = |e: ParquetError| Error::new(Action::WriteCatalog, file, e);
        let writer = Destination::create(file)
            .map_err(|kind| Error::new(Action::WriteCatalog, file, kind))?;
        let schema = descriptor().map_err(error)?;
        let properties = WriterPropertiesPtr::new(properties());
        let out = Buffered {
            file: BufWriter::with_capacity(1 << 20, writer),
            footer: None,
        };
        let root = schema.root_schema_ptr();
        let output = CatalogOutput {
            file: file.to_vec(),
            out: SerializedFileWriter::new(out, root, properties).map_err(error)?,
            checksums: Vec::new(),
            inode_sums: InodeSums::default(),
            spare: EncoderPool::default(),
        };
        let encoder = Encoder {
            schema,
            processors: gate::machine::processors().max(1),
            spare: Arc::clone(&output.spare),
        };
        Ok((encoder, output))
    }

    pub(super) fn error(&self, kind: ErrorKind) -> Error {
        Error::new(Action::WriteCatalog, &self.file, kind)
    }

    pub(super) fn append(&mut self, group: EncodedGroup) -> ParquetResult<()> {
        let EncodedGroup {
            columns,
            inode_sums,
            next,
        } = group;
        self.inode_sums.merge(inode_sums);
        let mut group = self.out.next_row_group()?;
        self.checksums
            .push(columns.iter().map(|column| column.checksum).collect());
        let mut written = Vec::with_capacity(columns.len());
        for Encoded { bytes, close, .. } in columns {
            group.append_column(&bytes, close)?;
            written.push(bytes);
        }
        if let Some(mut next) = next {
            let columns = next.columns.iter_mut().zip(written);
            columns.for_each(|(column, bytes)| column.reuse(bytes));
            self.spare.lock().push(next);
        }
        group.close().map(drop)
    }

    /// Writes the sums over inodes, the description and the footer.
    pub(super) fn seal(self, about: About) -> Result<SealedCatalog, Error> {
        let CatalogOutput {
            file,
            mut out,
            checksums,
            inode_sums,
            ..
        } = self;
        let mut about = About { checksums, ..about };
        let write = || -> Result<Destination, ErrorKind> {
            about.inode_sums = match has_inode_sums(&about) {
                true => write_inode_sums(&mut out, inode_sums, about.entries)?,
                false => None,
            };
            out.append_key_value_metadata(about.to_pair());
            out.flush()?;
            // From here on, the parquet crate writes only the footer: collect its bytes, so that
            // the checksum can be set.
            out.inner_mut().footer = Some(Vec::new());
            Ok(out.into_inner()?.end()?)
        };
        match write() {
            Ok(writer) => Ok(SealedCatalog {
                file,
                writer,
                about,
            }),
            Err(kind) => Err(Error::new(Action::WriteCatalog, &file, kind)),
        }
    }
}

/// Whether a later comparison can use sums over inodes: all inodes are on one file system, of a
/// type whose engine reads inodes by number.
fn has_inode_sums(about: &About) -> bool {
    let [part] = &about.parts[..] else {
        return false;
    };
    matches!(part.token, Some(Token::Ext4(_) | Token::Xfs(_)))
}

/// Writes the sums over inodes after the row groups; returns their location.
fn write_inode_sums(
    out: &mut SerializedFileWriter<Buffered>,
    sums: InodeSums,
    entries: u64,
) -> Result<Option<InodeSumsPlace>, ErrorKind> {
    let Some(bytes) = sums.encode(entries) else {
        return Ok(None);
    };
    let offset = out.bytes_written() as u64;
    out.write_all(&bytes)?;
    Ok(Some(InodeSumsPlace {
        crc32: crc32fast::hash(&bytes),
        length: bytes.len() as u64,
        offset,
    }))
}

/// Encodes row groups.
pub(super) struct Encoder {
    schema: SchemaDescriptor,
    /// Maximum number of threads that encode row groups.
    pub(super) processors: usize,
    spare: EncoderPool,
}

impl Encoder {
    /// Encodes a row group, with columns divided among threads.
    pub(super) fn encode_together<'a>(
        &self,
        rows: usize,
        row: impl Fn(usize) -> Record<'a> + Sync,
    ) -> ParquetResult<EncodedGroup> {
        let threads = self.processors.min(COLUMNS.len());
        let share = |thread: usize| {
            let columns: Vec<usize> = (thread..COLUMNS.len()).step_by(threads).collect();
            let encoded = self.group_encoder(&columns, rows)?;
            let encoded = encode_columns(encoded, &columns, rows, &row)?.0;
            Ok(columns.into_iter().zip(encoded))
        };
        let shares = in_threads(0..threads, share).into_iter();
        let shares = shares.collect::<ParquetResult<Vec<_>>>()?;
        let mut columns: Vec<_> = shares.into_iter().flatten().collect();
        columns.sort_by_key(|(column, _)| *column);
        let mut inode_sums = InodeSums::default();
        (0..rows).for_each(|nth| inode_sums.add(&row(nth).meta));
        Ok(EncodedGroup {
            columns: columns.into_iter().map(|(_, encoded)| encoded).collect(),
            inode_sums,
            next: None,
        })
    }

    /// Encodes a row group in this thread.
    pub(super) fn encode<'a>(
        &self,
        rows: usize,
        mut row: impl FnMut(usize) -> Record<'a>,
    ) -> ParquetResult<EncodedGroup> {
        let columns: Vec<usize> = (0..COLUMNS.len()).collect();
        let mut inode_sums = InodeSums::default();
        let row = |nth| {
            let row = row(nth);
            inode_sums.add(&row.meta);
            row
        };
        let spare = self.spare.lock().pop();
        let encoder = spare.map_or_else(|| self.group_encoder(&columns, rows), Ok)?;
        let (columns, encoder) = encode_columns(encoder, &columns, rows, row)?;
        Ok(EncodedGroup {
            columns,
            inode_sums,
            next: Some(encoder),
        })
    }

    fn group_encoder(&self, columns: &[usize], rows: usize) -> ParquetResult<GroupEncoder> {
        let new =
            |&column: &usize| Chunk::new(self.schema.column(column), COLUMNS[column].how, rows);
        Ok(GroupEncoder {
            columns: columns.iter().map(new).collect(),
            zstd: PageCompressor::new()?,
        })
    }
}

/// Encodes some columns of a row group. A few rows at a time are added to every column, so that
/// each row is requested once, in order.
fn encode_columns<'a>(
    mut encoder: GroupEncoder,
    columns: &[usize],
    rows: usize,
    mut row: impl FnMut(usize) -> Record<'a>,
) -> ParquetResult<(Vec<Encoded>, GroupEncoder)> {
    /// Number of rows that fit into the L2 cache.
    const CACHED: usize = 1 << 10;
    let GroupEncoder {
        columns: chunks,
        zstd,
    } = &mut encoder;
    let mut cached = Vec::with_capacity(CACHED);
    for first in (0..rows).step_by(CACHED) {
        cached.clear();
        cached.extend((first..rows.min(first + CACHED)).map(&mut row));
        for (&column, chunk) in columns.iter().zip(&mut *chunks) {
            (COLUMNS[column].put)(chunk, &cached, zstd)?;
        }
    }
    let encoded: ParquetResult<_> = chunks.iter_mut().map(|chunk| chunk.close(zstd)).collect();
    Ok((encoded?, encoder))
}
