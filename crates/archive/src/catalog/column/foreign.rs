//! Columns of catalogs that another program has written again. The library decodes them: in any encoding, with any
//! codec that it has, in pages of both versions.

use parquet::column::page::PageReader;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::DataType;
use parquet::errors::{ParquetError, Result};
use parquet::schema::types::ColumnDescPtr;

use super::decode::{Names, damaged};

/// A column of a row group.
pub struct ForeignColumn {
    reader: ColumnReader,
    is_optional: bool,
    rows: usize,
}

impl ForeignColumn {
    pub(in crate::catalog) fn new(
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

    /// Integers of 32 or 64 bits, converted by `narrow` and `wide`.
    pub(in crate::catalog) fn integers<T>(
        self,
        narrow: impl Fn(i32) -> Option<T>,
        wide: impl Fn(i64) -> Option<T>,
    ) -> Result<Vec<Option<T>>> {
        let (rows, is_optional) = (self.rows, self.is_optional);
        match self.reader {
            ColumnReader::Int32ColumnReader(reader) => read(reader, rows, is_optional, narrow),
            ColumnReader::Int64ColumnReader(reader) => read(reader, rows, is_optional, wide),
            _ => Err(damaged()),
        }
    }

    pub(in crate::catalog) fn names(self) -> Result<Names> {
        let mut names = Names::default();
        for name in required(self.bytes(|name| Some(name.to_vec()))?)? {
            names.push(&name)?;
        }
        Ok(names)
    }

    pub(in crate::catalog) fn flags(self) -> Result<Vec<Option<bool>>> {
        let (rows, is_optional) = (self.rows, self.is_optional);
        match self.reader {
            ColumnReader::BoolColumnReader(reader) => read(reader, rows, is_optional, Some),
            _ => Err(damaged()),
        }
    }

    /// Byte strings, of a fixed length or not, converted by `convert`.
    pub(in crate::catalog) fn bytes<T>(
        self,
        convert: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Vec<Option<T>>> {
        let (rows, is_optional) = (self.rows, self.is_optional);
        match self.reader {
            ColumnReader::ByteArrayColumnReader(reader) => {
                read(reader, rows, is_optional, |value| convert(value.data()))
            }
            ColumnReader::FixedLenByteArrayColumnReader(reader) => {
                read(reader, rows, is_optional, |value| convert(value.data()))
            }
            _ => Err(damaged()),
        }
    }
}

/// Reads all values, by row. `convert` returns `None` for a value that is impossible.
fn read<D: DataType, T>(
    mut reader: ColumnReaderImpl<D>,
    rows: usize,
    is_optional: bool,
    convert: impl Fn(D::T) -> Option<T>,
) -> Result<Vec<Option<T>>> {
    let (mut values, mut levels, mut read) = (Vec::new(), Vec::new(), 0);
    while read < rows {
        let levels = is_optional.then_some(&mut levels);
        match reader
            .read_records(rows - read, levels, None, &mut values)?
            .0
        {
            0 => return Err(ParquetError::EOF("a column has too few values".to_owned())),
            records => read += records,
        }
    }
    let mut values = values.into_iter();
    let mut next = || convert(values.next()?).map(Some);
    let all: Option<Vec<Option<T>>> = match is_optional {
        true => levels
            .into_iter()
            .map(|level| if level > 0 { next() } else { Some(None) })
            .collect(),
        false => (0..rows).map(|_| next()).collect(),
    };
    all.ok_or_else(damaged)
}

/// The values of a column in which each row must have one.
pub(in crate::catalog) fn required<T>(values: Vec<Option<T>>) -> Result<Vec<T>> {
    let all: Option<Vec<T>> = values.into_iter().collect();
    all.ok_or_else(|| ParquetError::General("some rows have no value".to_owned()))
}
