//! The file itself: row groups are encoded in memory, column by column, and appended.

use std::io::{self, BufWriter, Write};

use gate::file::Writer;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::SchemaDescriptor;

use super::about::About;
use super::about::KEY;
use super::column::{Chunk, Encoded, compressor};
use super::footer;
use super::schema::{COLUMNS, Record, descriptor, properties};
use crate::beside::beside;
use crate::error::{Action, Error, ErrorKind};

/// Rows of a row group, at most: enough for zstd and for readers, and no more than some 16 MiB on
/// the way.
pub(super) const GROUP: usize = 64 << 10;
/// No more row groups are made at once.
pub(super) const MOST_AT_ONCE: usize = 4;

/// Rows of a row group in a catalog of so many. Of a small one there are several, too: they are
/// made, and read, side by side.
pub(crate) fn rows_of_group(rows: usize) -> usize {
    const FEW: usize = if cfg!(test) { 16 } else { 8 << 10 };
    (rows / 8).clamp(FEW, GROUP)
}

/// A catalog that is written, and has no name yet. Dropped, it is gone.
#[derive(Debug)]
pub struct Sealed {
    file: Vec<u8>,
    writer: Writer,
    about: About,
}

impl Sealed {
    /// Waits until it is on the disk, and gives it its name.
    ///
    /// # Errors
    /// It could not be done; whatever had the name has it still.
    pub fn publish(self) -> std::result::Result<About, Error> {
        self.writer
            .publish()
            .map_err(|e| Error::new(Action::WriteCatalog, &self.file, e))?;
        Ok(self.about)
    }
}

/// A catalog being written.
pub(super) struct Output {
    file: Vec<u8>,
    out: SerializedFileWriter<Way>,
    /// Of each row group, those of its columns.
    checksums: Vec<Vec<u32>>,
}

/// The library's way into the file. Its footer is kept back, until it has its checksum.
struct Way {
    file: BufWriter<Writer>,
    footer: Option<Vec<u8>>,
}

impl Write for Way {
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

impl Way {
    /// Writes the footer, and all that is still on its way.
    fn end(mut self) -> io::Result<Writer> {
        let mut footer = self.footer.unwrap_or_default();
        footer::seal(&mut footer);
        self.file.write_all(&footer)?;
        self.file
            .into_inner()
            .map_err(io::IntoInnerError::into_error)
    }
}

impl Output {
    /// Begins a file, which has no name yet.
    pub(super) fn create(file: &[u8]) -> std::result::Result<(Layout, Output), Error> {
        let error = |e: ParquetError| Error::new(Action::WriteCatalog, file, e);
        let writer = Writer::create(file).map_err(|e| Error::new(Action::WriteCatalog, file, e))?;
        let schema = descriptor().map_err(error)?;
        let properties = WriterPropertiesPtr::new(properties());
        let out = Way {
            file: BufWriter::with_capacity(1 << 20, writer),
            footer: None,
        };
        let out =
            SerializedFileWriter::new(out, schema.root_schema_ptr(), properties).map_err(error)?;
        let processors = gate::machine::processors().max(1);
        Ok((
            Layout { schema, processors },
            Output {
                file: file.to_vec(),
                out,
                checksums: Vec::new(),
            },
        ))
    }

    /// An error of writing this file.
    pub(super) fn error(&self, kind: ErrorKind) -> Error {
        Error::new(Action::WriteCatalog, &self.file, kind)
    }

    /// Writes a row group; without columns there is none.
    pub(super) fn append(&mut self, columns: Vec<Encoded>) -> Result<()> {
        if columns.is_empty() {
            return Ok(());
        }
        let mut group = self.out.next_row_group()?;
        self.checksums
            .push(columns.iter().map(|column| column.checksum).collect());
        for Encoded { bytes, close, .. } in columns {
            group.append_column(&bytes, close)?;
        }
        group.close().map(drop)
    }

    /// Writes what it says of itself, and the end.
    pub(super) fn seal(self, about: About) -> std::result::Result<Sealed, Error> {
        let Output {
            file,
            mut out,
            checksums,
        } = self;
        let about = About { checksums, ..about };
        out.append_key_value_metadata(KeyValue::new(KEY.to_owned(), about.to_json()));
        // What comes before the footer is not to wait with it.
        let flushed = out.flush().map_err(ErrorKind::from);
        out.inner_mut().footer = Some(Vec::new());
        let written = flushed.and_then(|()| {
            out.into_inner()
                .map_err(ErrorKind::from)?
                .end()
                .map_err(ErrorKind::from)
        });
        match written {
            Ok(writer) => Ok(Sealed {
                file,
                writer,
                about,
            }),
            Err(kind) => Err(Error::new(Action::WriteCatalog, &file, kind)),
        }
    }
}

/// How rows are encoded.
pub(super) struct Layout {
    schema: SchemaDescriptor,
    /// So many threads are of use.
    pub(super) processors: usize,
}

impl Layout {
    /// Encodes a row group, the columns shared among threads.
    pub(super) fn encode_together<'a>(
        &self,
        rows: usize,
        row: impl Fn(usize) -> Record<'a> + Sync,
    ) -> Result<Vec<Encoded>> {
        let threads = self.processors.min(COLUMNS.len());
        let share = |thread: usize| {
            self.encode(
                (thread..COLUMNS.len()).step_by(threads).collect(),
                rows,
                &row,
            )
        };
        let shares: Result<Vec<_>> = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads)
                .map(|thread| beside(scope, move || share(thread)))
                .collect();
            let own = share(0);
            let died = || Err(ParquetError::General("a thread has died".to_owned()));
            std::iter::once(own)
                .chain(
                    others
                        .into_iter()
                        .map(|other| other.join().unwrap_or_else(|_| died())),
                )
                .collect()
        });
        let mut columns: Vec<_> = shares?.into_iter().flatten().collect();
        columns.sort_by_key(|(column, _)| *column);
        Ok(columns.into_iter().map(|(_, encoded)| encoded).collect())
    }

    /// Encodes columns into memory, side by side: a few rows at a time, so that each row is asked
    /// for only once, in order.
    pub(super) fn encode<'a>(
        &self,
        columns: Vec<usize>,
        rows: usize,
        mut row: impl FnMut(usize) -> Record<'a>,
    ) -> Result<Vec<(usize, Encoded)>> {
        /// So many rows stay in the processor's second cache.
        const NEAR: usize = 1 << 10;
        let mut zstd = compressor()?;
        let new =
            |&column: &usize| Chunk::new(self.schema.column(column), COLUMNS[column].how, rows);
        let mut chunks: Vec<Chunk> = columns.iter().map(new).collect();
        let mut near = Vec::with_capacity(NEAR);
        for first in (0..rows).step_by(NEAR) {
            near.clear();
            near.extend((first..rows.min(first + NEAR)).map(&mut row));
            for (&column, chunk) in columns.iter().zip(&mut chunks) {
                (COLUMNS[column].put)(chunk, &near, &mut zstd)?;
            }
        }
        columns
            .into_iter()
            .zip(chunks)
            .map(|(column, chunk)| Ok((column, chunk.close(&mut zstd)?)))
            .collect()
    }
}
