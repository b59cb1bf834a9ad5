//! Reads columns of catalogs that another program has rewritten. The parquet crate decodes such
//! columns in any encoding, with any codec that it supports, and in pages of both versions.

use parquet::column::page::PageReader;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{ByteArray, DataType, FixedLenByteArray};
use parquet::errors::{ParquetError, Result};
use parquet::schema::types::ColumnDescPtr;

use super::decode::{Names, damaged};

/// A column of a row group, to be decoded by the parquet crate.
pub struct ForeignColumn {
    reader: ColumnReader,
    is_optional: bool,
    rows: usize,
}

impl ForeignColumn {
    pub(in crate::format) fn new(
        descriptor: ColumnDescPtr,
        pages: Box<dyn PageReader>,
        rows: usize,
    ) -> ForeignColumn {
        ForeignColumn {
            is_optional: descriptor.max_def_level() > 0,
            reader: get_column_reader(descriptor, pages),
            rows,
        }
    }

    /// Reads integers of 32 or 64 bits, converted by `narrow` and `wide`.
    pub(in crate::format) fn integers<T>(
        self,
        narrow: impl Fn(i32) -> Option<T>,
        wide: impl Fn(i64) -> Option<T>,
    ) -> Result<Vec<Option<T>>> {
        let (rows, is_optional) = (self.rows, self.is_optional);
        match self.reader {
            ColumnReader::Int32ColumnReader(reader) => convert(reader, rows, is_optional, narrow),
            ColumnReader::Int64ColumnReader(reader) => convert(reader, rows, is_optional, wide),
            _ => Err(damaged()),
        }
    }

    pub(in crate::format) fn names(self) -> Result<Names> {
        let mut names = Names::default();
        let mut take = |name: Option<&[u8]>| names.push(name.ok_or_else(absent)?);
        match self.reader {
            ColumnReader::ByteArrayColumnReader(reader) => {
                let take = |name: Option<ByteArray>| take(name.as_ref().map(ByteArray::data));
                read(reader, self.rows, self.is_optional, take)?;
            }
            ColumnReader::FixedLenByteArrayColumnReader(reader) => {
                let take =
                    |name: Option<FixedLenByteArray>| take(name.as_ref().map(|name| name.data()));
                read(reader, self.rows, self.is_optional, take)?;
            }
            _ => return Err(damaged()),
        }
        Ok(names)
    }

    pub(in crate::format) fn flags(self) -> Result<Vec<Option<bool>>> {
        match self.reader {
            ColumnReader::BoolColumnReader(reader) => {
                convert(reader, self.rows, self.is_optional, Some)
            }
            _ => Err(damaged()),
        }
    }

    /// Reads byte strings, of fixed length or not, converted by `to`.
    pub(in crate::format) fn bytes<T>(
        self,
        to: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Vec<Option<T>>> {
        let (rows, is_optional) = (self.rows, self.is_optional);
        match self.reader {
            ColumnReader::ByteArrayColumnReader(reader) => {
                convert(reader, rows, is_optional, |value| to(value.data()))
            }
            ColumnReader::FixedLenByteArrayColumnReader(reader) => {
                convert(reader, rows, is_optional, |value| to(value.data()))
            }
            _ => Err(damaged()),
        }
    }
}

/// Reads all values, by row. `to` returns `None` for an invalid value.
fn convert<D: DataType, T>(
    reader: ColumnReaderImpl<D>,
    rows: usize,
    is_optional: bool,
    to: impl Fn(D::T) -> Option<T>,
) -> Result<Vec<Option<T>>> {
    let mut all = Vec::new();
    read(reader, rows, is_optional, |value: Option<D::T>| {
        let value = value.map(|value| to(value).ok_or_else(damaged));
        all.push(value.transpose()?);
        Ok(())
    })?;
    Ok(all)
}

fn read<D: DataType>(
    mut reader: ColumnReaderImpl<D>,
    rows: usize,
    is_optional: bool,
    mut take: impl FnMut(Option<D::T>) -> Result<()>,
) -> Result<()> {
    /// Number of rows read at a time: few, because the value of each row may be as long as a page.
    const SOME: usize = 64;
    let (mut values, mut levels, mut left) = (Vec::new(), Vec::new(), rows);
    while left > 0 {
        let to = is_optional.then_some(&mut levels);
        let (records, _, _) = reader.read_records(left.min(SOME), to, None, &mut values)?;
        if records == 0 {
            return Err(ParquetError::EOF("a column has too few values".to_owned()));
        }
        left = left.checked_sub(records).ok_or_else(damaged)?;
        let mut found = values.drain(..);
        match is_optional {
            true => levels.drain(..).try_for_each(|level| {
                let value = (level > 0).then(|| found.next().ok_or_else(damaged));
                take(value.transpose()?)
            })?,
            false => found.try_for_each(|value| take(Some(value)))?,
        }
    }
    Ok(())
}

fn absent() -> ParquetError {
    ParquetError::General("some rows have no value".to_owned())
}

/// Checks that each row has a value, for a required column.
pub(in crate::format) fn required<T>(values: Vec<Option<T>>) -> Result<Vec<T>> {
    let all: Option<Vec<T>> = values.into_iter().collect();
    all.ok_or_else(absent)
}
