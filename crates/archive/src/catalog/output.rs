//! The file itself: row groups are encoded in memory, column by column, and appended.

use std::io::BufWriter;

use bytes::Bytes;
use gate::file::Writer;
use parquet::column::page::PageWriter;
use parquet::column::writer::{ColumnCloseResult, ColumnWriter, get_column_writer};
use parquet::data_type::{ByteArray, FixedLenByteArray};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::{SerializedFileWriter, SerializedPageWriter, TrackedWrite};
use parquet::schema::types::SchemaDescriptor;

use super::about::KEY;
use super::schema::{COLUMNS, Row, Values, descriptor, properties};
use super::{About, Fault, plain};

/// Rows of a row group: enough for zstd and for readers, and no more than some 16 MiB on the way.
pub(super) const GROUP: usize = 64 << 10;
/// No more row groups are made at once.
pub(super) const MOST_AT_ONCE: usize = 4;

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
    pub fn publish(self) -> std::result::Result<About, Fault> {
        let fault = |e: gate::Errno| Fault { next: hint(&e.to_string()), ..Fault::writing(&self.file, e) };
        self.writer.publish().map_err(fault)?;
        Ok(self.about)
    }
}

fn hint(error: &str) -> &'static str {
    if error.contains("os error 28") { "make room, or write it to another file system" } else { "" }
}

/// A catalog being written.
pub(super) struct Output {
    file: Vec<u8>,
    out: SerializedFileWriter<BufWriter<Writer>>,
}

impl Output {
    /// Begins a file, which has no name yet.
    pub(super) fn create(file: &[u8]) -> std::result::Result<(Layout, Output), Fault> {
        let fault = |e: ParquetError| Fault::writing(file, plain(e));
        let writing = |e: gate::Errno| Fault { next: hint(&e.to_string()), ..Fault::writing(file, e) };
        let writer = Writer::create(file).map_err(writing)?;
        let schema = descriptor().map_err(fault)?;
        let properties = WriterPropertiesPtr::new(properties());
        let out = BufWriter::with_capacity(1 << 20, writer);
        let out = SerializedFileWriter::new(out, schema.root_schema_ptr(), properties.clone()).map_err(fault)?;
        let processors = gate::process::processors().max(1);
        Ok((Layout { schema, properties, processors }, Output { file: file.to_vec(), out }))
    }

    /// That something could not be written.
    pub(super) fn fault(&self, error: String) -> Fault {
        Fault { next: hint(&error), ..Fault::writing(&self.file, error) }
    }

    /// Writes a row group; without columns there is none.
    pub(super) fn append(&mut self, columns: Vec<Encoded>) -> Result<()> {
        if columns.is_empty() {
            return Ok(());
        }
        let mut group = self.out.next_row_group()?;
        for (bytes, close) in columns {
            group.append_column(&bytes, close)?;
        }
        group.close().map(drop)
    }

    /// Writes what it says of itself, and the end.
    pub(super) fn seal(mut self, about: About) -> std::result::Result<Sealed, Fault> {
        self.out.append_key_value_metadata(KeyValue::new(KEY.to_owned(), about.to_json()));
        let Output { file, out } = self;
        let written =
            out.into_inner().map_err(plain).and_then(|out| out.into_inner().map_err(|e| e.into_error().to_string()));
        match written {
            Ok(writer) => Ok(Sealed { file, writer, about }),
            Err(error) => Err(Fault { next: hint(&error), ..Fault::writing(&file, error) }),
        }
    }
}

/// A column of a row group, as it stands in the file.
pub(super) type Encoded = (Bytes, ColumnCloseResult);

/// How rows are encoded.
pub(super) struct Layout {
    schema: SchemaDescriptor,
    properties: WriterPropertiesPtr,
    /// So many threads are of use.
    pub(super) processors: usize,
}

impl Layout {
    /// Encodes a row group, the columns shared among threads.
    pub(super) fn encode_together<'a>(
        &self,
        rows: usize,
        row: impl Fn(usize) -> Row<'a> + Sync,
    ) -> Result<Vec<Encoded>> {
        let threads = self.processors.min(COLUMNS.len());
        let share = |thread: usize| self.encode((thread..COLUMNS.len()).step_by(threads).collect(), rows, &row);
        let shares: Result<Vec<_>> = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|thread| scope.spawn(move || share(thread))).collect();
            let own = share(0);
            let died = || Err(ParquetError::General("a thread has died".to_owned()));
            std::iter::once(own)
                .chain(others.into_iter().map(|other| other.join().unwrap_or_else(|_| died())))
                .collect()
        });
        let mut columns: Vec<_> = shares?.into_iter().flatten().collect();
        columns.sort_by_key(|(column, _)| *column);
        Ok(columns.into_iter().map(|(_, encoded)| encoded).collect())
    }

    /// Encodes columns into memory, side by side: a few rows at a time, so that each row is asked for only once, in order.
    pub(super) fn encode<'a>(
        &self,
        columns: Vec<usize>,
        rows: usize,
        mut row: impl FnMut(usize) -> Row<'a>,
    ) -> Result<Vec<(usize, Encoded)>> {
        /// So many rows stay in the processor's second cache.
        const NEAR: usize = 1 << 10;
        let mut memory: Vec<_> = columns.iter().map(|_| TrackedWrite::new(Vec::new())).collect();
        let mut writers: Vec<ColumnWriter<'_>> = columns
            .iter()
            .zip(&mut memory)
            .map(|(&column, memory)| {
                let pages: Box<dyn PageWriter + '_> = Box::new(SerializedPageWriter::new(memory));
                get_column_writer(self.schema.column(column), self.properties.clone(), pages)
            })
            .collect();
        let mut near = Vec::with_capacity(NEAR);
        for first in (0..rows).step_by(NEAR) {
            near.clear();
            near.extend((first..rows.min(first + NEAR)).map(&mut row));
            for (&column, writer) in columns.iter().zip(&mut writers) {
                put(writer, COLUMNS[column].values, &near)?;
            }
        }
        let closed: Vec<ColumnCloseResult> = writers.into_iter().map(ColumnWriter::close).collect::<Result<_>>()?;
        columns
            .into_iter()
            .zip(memory)
            .zip(closed)
            .map(|((column, memory), close)| Ok((column, (memory.into_inner()?.into(), close))))
            .collect()
    }
}

/// Puts the values of some rows into a column.
fn put(writer: &mut ColumnWriter<'_>, values: Values, rows: &[Row<'_>]) -> Result<()> {
    let written = match (writer, values) {
        (ColumnWriter::ByteArrayColumnWriter(to), Values::Bytes(of)) => {
            let values: Vec<ByteArray> = rows.iter().map(|row| of(row).into()).collect();
            to.write_batch(&values, None, None)
        }
        (ColumnWriter::Int32ColumnWriter(to), Values::I32(of)) => {
            let values: Vec<i32> = rows.iter().map(|row| of(row).cast_signed()).collect();
            to.write_batch(&values, None, None)
        }
        (ColumnWriter::Int64ColumnWriter(to), Values::I64(of)) => {
            let values: Vec<i64> = rows.iter().map(|row| of(row).cast_signed()).collect();
            to.write_batch(&values, None, None)
        }
        (ColumnWriter::Int32ColumnWriter(to), Values::Maybe32(of)) => {
            let (values, there) = split(rows, |row| of(row).map(u32::cast_signed));
            to.write_batch(&values, Some(&there), None)
        }
        (ColumnWriter::Int64ColumnWriter(to), Values::Maybe64(of)) => {
            let (values, there) = split(rows, |row| of(row).map(u64::cast_signed));
            to.write_batch(&values, Some(&there), None)
        }
        (ColumnWriter::BoolColumnWriter(to), Values::MaybeBool(of)) => {
            let (values, there) = split(rows, of);
            to.write_batch(&values, Some(&there), None)
        }
        (ColumnWriter::FixedLenByteArrayColumnWriter(to), Values::MaybeHash(of)) => {
            let (values, there) = split(rows, of);
            let bytes = Bytes::from(values.concat());
            to.write_batch(&hashes(&bytes), Some(&there), None)
        }
        _ => Err(ParquetError::General("a column is of another type than its values".to_owned())),
    };
    written.map(drop)
}

/// The values that are there, and for each row whether it has one.
fn split<T>(rows: &[Row<'_>], of: impl Fn(&Row<'_>) -> Option<T>) -> (Vec<T>, Vec<i16>) {
    let mut values = Vec::with_capacity(rows.len());
    let there = rows.iter().map(|row| {
        let value = of(row);
        let is_there = i16::from(value.is_some());
        values.extend(value);
        is_there
    });
    let there = there.collect();
    (values, there)
}

/// Hashes, as parts of one buffer.
fn hashes(bytes: &Bytes) -> Vec<FixedLenByteArray> {
    (0..bytes.len()).step_by(32).map(|at| ByteArray::from(bytes.slice(at..at + 32)).into()).collect()
}
