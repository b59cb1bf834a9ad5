//! Encodes values to pages.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use crc32fast::Hasher;
use ondisk::varint;
use parquet::basic::{Compression, ConvertedType, Encoding, PageType, Type, ZstdLevel};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::Result;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescPtr;

use crate::compressor::FrameCompressor;

/// The zstd level: higher levels cost more time than they save.
const LEVEL: i32 = 1;
/// Maximum size of a page of names; most columns have one page.
const PAGE: usize = 4 << 20;
/// Maximum size of a dictionary, in bytes.
const DICTIONARY: usize = if cfg!(test) { 400 } else { 16 << 20 };

/// An encoded column chunk.
pub(in crate::format) struct Encoded {
    pub(in crate::format) bytes: Bytes,
    pub(in crate::format) close: ColumnCloseResult,
    /// CRC-32 of the encoded bytes.
    pub(in crate::format) checksum: u32,
}

/// How a column is encoded. Each column has the encoding that is fastest for a million entries of a
/// source tree, or one that is as fast and smaller.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnEncoding {
    /// A dictionary, compressed with zstd, for long values that repeat often.
    Dictionary,
    /// Plain values, compressed with zstd.
    Plain,
    /// Plain values without compression, for values that zstd cannot make smaller.
    Raw,
}

/// Compresses pages, with reused buffers.
pub(crate) struct PageCompressor {
    frames: FrameCompressor,
    /// A buffer for the levels and values of a page.
    page: Vec<u8>,
}

impl PageCompressor {
    pub(in crate::format) fn new() -> Result<PageCompressor> {
        Ok(PageCompressor {
            frames: FrameCompressor::new(LEVEL)?,
            page: Vec::new(),
        })
    }
}

/// A column chunk being encoded. Closing it keeps most buffers for the next chunk.
pub(crate) struct Chunk {
    descriptor: ColumnDescPtr,
    how: ColumnEncoding,
    /// Values of the next page; booleans take one byte each.
    plain: Vec<u8>,
    /// Width of a value in bytes; `None` if values have different lengths.
    width: Option<usize>,
    /// Runs of rows of the next page: whether the rows of a run have a value, and the length of the
    /// run.
    present: Vec<(bool, u32)>,
    dictionary: Option<Dictionary>,
    /// An empty dictionary with allocated buffers, for the next chunk.
    next_dictionary: Option<Dictionary>,
    file: Vec<u8>,
    checksum: Hasher,
    rows: u64,
    /// Total size of all pages before compression.
    uncompressed: usize,
    dictionary_at: Option<i64>,
    data_at: Option<i64>,
    encodings: Vec<Encoding>,
}

#[derive(Default)]
struct Dictionary {
    numbers: HashMap<Vec<u8>, u32>,
    /// The dictionary's values, encoded as in its page.
    plain: Vec<u8>,
    last: Vec<u8>,
    /// Runs of rows with the same value: its index, and the number of rows.
    runs: Vec<(u32, u32)>,
}

impl Chunk {
    pub(in crate::format) fn new(
        descriptor: ColumnDescPtr,
        how: ColumnEncoding,
        rows: usize,
    ) -> Chunk {
        let width = match descriptor.physical_type() {
            Type::BOOLEAN => Some(1),
            Type::INT32 => Some(4),
            Type::INT64 => Some(8),
            Type::FIXED_LEN_BYTE_ARRAY => usize::try_from(descriptor.type_length()).ok(),
            _ => None,
        };
        Chunk {
            plain: Vec::with_capacity(width.map_or(0, |width| width * rows)),
            width,
            present: Vec::new(),
            dictionary: (how == ColumnEncoding::Dictionary).then(Dictionary::default),
            next_dictionary: None,
            file: Vec::new(),
            checksum: Hasher::new(),
            rows: 0,
            uncompressed: 0,
            dictionary_at: None,
            data_at: None,
            encodings: Vec::new(),
            descriptor,
            how,
        }
    }

    pub(crate) fn numbers<const N: usize>(
        &mut self,
        values: impl ExactSizeIterator<Item = [u8; N]>,
    ) {
        self.add_rows(true, values.len() as u32);
        let from = self.plain.len();
        self.plain.resize(from + values.len() * N, 0);
        let room = self.plain[from..].as_chunks_mut().0.iter_mut();
        room.zip(values).for_each(|(to, value)| *to = value);
    }

    /// Adds values of an optional column.
    pub(crate) fn maybe<const N: usize>(
        &mut self,
        values: impl ExactSizeIterator<Item = Option<[u8; N]>>,
    ) {
        let mut end = self.plain.len();
        self.plain.resize(end + values.len() * N, 0);
        for value in values {
            self.add_rows(value.is_some(), 1);
            if let Some(value) = value {
                self.plain[end..end + N].copy_from_slice(&value);
                end += N;
            }
        }
        self.plain.truncate(end);
    }

    pub(crate) fn names<'a>(
        &mut self,
        values: impl Iterator<Item = &'a [u8]>,
        zstd: &mut PageCompressor,
    ) -> Result<()> {
        for value in values {
            self.add_rows(true, 1);
            if let Some(dictionary) = &mut self.dictionary {
                dictionary.add(value);
                if dictionary.plain.len() > DICTIONARY {
                    self.finish_dictionary(zstd)?;
                }
            } else {
                put_name(value, &mut self.plain);
                if self.plain.len() > PAGE {
                    self.finish_page(zstd)?;
                }
            }
        }
        Ok(())
    }

    /// Adds rows that all have a value, or all have none.
    fn add_rows(&mut self, present: bool, rows: u32) {
        match self.present.last_mut() {
            Some((last, n)) if *last == present => *n += rows,
            _ => self.present.push((present, rows)),
        }
    }

    pub(in crate::format) fn close(&mut self, zstd: &mut PageCompressor) -> Result<Encoded> {
        let equal = self.width_if_all_equal();
        let statistics = self.statistics(equal);
        if self.dictionary.is_some() {
            self.finish_dictionary(zstd)?;
        } else if let Some(width) = equal {
            let value = self.plain[..width].to_vec();
            let rows = (self.plain.len() / width) as u32;
            self.put_dictionary(&value, 1, &[(0, rows)], zstd)?;
        }
        self.finish_page(zstd)?;
        self.encodings.push(Encoding::RLE);
        let size = self.file.len();
        let mut metadata = ColumnChunkMetaData::builder(Arc::clone(&self.descriptor))
            .set_compression(match self.how {
                ColumnEncoding::Raw => Compression::UNCOMPRESSED,
                ColumnEncoding::Plain | ColumnEncoding::Dictionary => {
                    Compression::ZSTD(ZstdLevel::try_new(LEVEL)?)
                }
            })
            .set_encodings(std::mem::take(&mut self.encodings))
            .set_num_values(self.rows.cast_signed())
            .set_total_compressed_size(size as i64)
            .set_total_uncompressed_size(self.uncompressed as i64)
            .set_dictionary_page_offset(self.dictionary_at.take())
            .set_data_page_offset(self.data_at.take().unwrap_or_default());
        if let Some(statistics) = statistics {
            metadata = metadata.set_statistics(statistics);
        }
        let metadata = metadata.build()?;
        let close = ColumnCloseResult {
            bytes_written: size as u64,
            rows_written: std::mem::take(&mut self.rows),
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        self.uncompressed = 0;
        self.dictionary = self.next_dictionary.take();
        Ok(Encoded {
            bytes: std::mem::take(&mut self.file).into(),
            close,
            checksum: std::mem::take(&mut self.checksum).finalize(),
        })
    }

    /// Takes back the buffer of an encoded chunk for reuse.
    pub(in crate::format) fn reuse(&mut self, bytes: Bytes) {
        self.file = bytes.into();
        self.file.clear();
    }

    /// Minimum and maximum of a numeric column without missing values, by which readers skip row
    /// groups. Such a column has a single page. `equal` is the width of a value if all values are
    /// equal.
    fn statistics(&self, equal: Option<usize>) -> Option<Statistics> {
        if self.descriptor.max_def_level() > 0 || self.plain.is_empty() {
            return None;
        }
        let is_unsigned = matches!(
            self.descriptor.converted_type(),
            ConvertedType::UINT_32 | ConvertedType::UINT_64
        );
        let values = &self.plain[..equal.unwrap_or(self.plain.len())];
        match self.descriptor.physical_type() {
            Type::INT32 => {
                let values = values.as_chunks().0.iter();
                let limits = match is_unsigned {
                    true => limits(values.map(|value| u32::from_le_bytes(*value)))?
                        .map(u32::cast_signed),
                    false => limits(values.map(|value| i32::from_le_bytes(*value)))?,
                };
                let [min, max] = limits.map(Some);
                Some(Statistics::int32(min, max, None, Some(0), false))
            }
            Type::INT64 => {
                let values = values.as_chunks().0.iter();
                let limits = match is_unsigned {
                    true => limits(values.map(|value| u64::from_le_bytes(*value)))?
                        .map(u64::cast_signed),
                    false => limits(values.map(|value| i64::from_le_bytes(*value)))?,
                };
                let [min, max] = limits.map(Some);
                Some(Statistics::int64(min, max, None, Some(0), false))
            }
            _ => None,
        }
    }

    /// The width of a value, if there are at least two values and all are equal.
    fn width_if_all_equal(&self) -> Option<usize> {
        let is_boolean = self.descriptor.physical_type() == Type::BOOLEAN;
        let width = self.width.filter(|_| !is_boolean)?;
        let later = self.plain.get(width..)?;
        (!later.is_empty() && later == &self.plain[..later.len()]).then_some(width)
    }

    /// Writes a page of the values added so far.
    fn finish_page(&mut self, zstd: &mut PageCompressor) -> Result<()> {
        let mut values = std::mem::take(&mut self.plain);
        if !self.present.is_empty() {
            if self.descriptor.physical_type() == Type::BOOLEAN {
                let bits = |some: &[u8]| some.iter().rev().fold(0, |bits, &bit| bits << 1 | bit);
                values = values.chunks(8).map(bits).collect();
            }
            self.put_page(&values, Encoding::PLAIN, zstd)?;
        }
        values.clear();
        self.plain = values;
        Ok(())
    }

    /// Writes the dictionary, and a page of indexes for the values added so far. Further values are
    /// written plain.
    fn finish_dictionary(&mut self, zstd: &mut PageCompressor) -> Result<()> {
        let Some(mut dictionary) = self.dictionary.take() else {
            return Ok(());
        };
        let values = dictionary.numbers.len() as u32;
        self.put_dictionary(&dictionary.plain, values, &dictionary.runs, zstd)?;
        dictionary.clear();
        self.next_dictionary = Some(dictionary);
        Ok(())
    }

    /// Writes a dictionary page, and a page of indexes into the dictionary.
    fn put_dictionary(
        &mut self,
        plain: &[u8],
        values: u32,
        numbers: &[(u32, u32)],
        zstd: &mut PageCompressor,
    ) -> Result<()> {
        let at = self.put(
            plain,
            PageType::DICTIONARY_PAGE,
            values,
            Encoding::PLAIN,
            zstd,
        )?;
        self.dictionary_at = Some(at);
        self.encodings.push(Encoding::PLAIN);
        // Some readers reject a bit width of 0.
        let bits = (u32::BITS - values.saturating_sub(1).leading_zeros()).max(1);
        let mut page = vec![bits as u8];
        put_runs(bits, numbers, &mut page);
        self.plain.clear();
        self.put_page(&page, Encoding::RLE_DICTIONARY, zstd)
    }

    /// Writes a data page; in an optional column, definition levels precede the values.
    fn put_page(
        &mut self,
        values: &[u8],
        encoding: Encoding,
        zstd: &mut PageCompressor,
    ) -> Result<()> {
        let present = std::mem::take(&mut self.present);
        let rows: u32 = present.iter().map(|(_, rows)| rows).sum();
        let mut page = std::mem::take(&mut zstd.page);
        page.clear();
        if self.descriptor.max_def_level() > 0 {
            let levels: Vec<(u32, u32)> = present
                .iter()
                .map(|&(present, rows)| (present.into(), rows))
                .collect();
            page.extend([0; 4]);
            put_runs(1, &levels, &mut page);
            let len = page.len() as u32 - 4;
            page[..4].copy_from_slice(&len.to_le_bytes());
            page.extend_from_slice(values);
        }
        let values = if page.is_empty() { values } else { &page };
        let at = self.put(values, PageType::DATA_PAGE, rows, encoding, zstd)?;
        zstd.page = page;
        self.data_at.get_or_insert(at);
        self.encodings.push(encoding);
        self.rows += u64::from(rows);
        Ok(())
    }

    fn put(
        &mut self,
        bytes: &[u8],
        kind: PageType,
        values: u32,
        encoding: Encoding,
        zstd: &mut PageCompressor,
    ) -> Result<i64> {
        let size = bytes.len();
        let bytes = match self.how {
            ColumnEncoding::Raw => bytes,
            ColumnEncoding::Plain | ColumnEncoding::Dictionary => zstd.frames.compress(bytes)?,
        };
        let mut checksum = Hasher::new();
        checksum.update(bytes);
        let sizes = [i32::try_from(size)?, i32::try_from(bytes.len())?];
        let header = header(kind, sizes, checksum.clone().finalize(), values, encoding);
        self.checksum.update(&header);
        self.checksum.combine(&checksum);
        let at = self.file.len() as i64;
        self.file.extend_from_slice(&header);
        self.file.extend_from_slice(bytes);
        self.uncompressed += header.len() + size;
        Ok(at)
    }
}

/// Encodes a page header in Thrift's compact protocol: each field has its type and the difference
/// of its id from that of the previous field. `sizes` has the page's size before and after
/// compression.
fn header(
    kind: PageType,
    sizes: [i32; 2],
    checksum: u32,
    values: u32,
    encoding: Encoding,
) -> Vec<u8> {
    const I32: u8 = 5;
    const FALSE: u8 = 2;
    const STRUCT: u8 = 12;
    const END: u8 = 0;
    fn put(numbers: &[i32], header: &mut Vec<u8>) {
        for number in numbers {
            header.push(1 << 4 | I32);
            varint::put((number << 1 ^ number >> 31).cast_unsigned().into(), header);
        }
    }
    let mut header = Vec::with_capacity(32);
    let [size, compressed] = sizes;
    put(
        &[kind as i32, size, compressed, checksum.cast_signed()],
        &mut header,
    );
    let is_data = kind == PageType::DATA_PAGE;
    header.push(if is_data { 1 } else { 3 } << 4 | STRUCT);
    put(&[values.cast_signed(), encoding as i32], &mut header);
    if is_data {
        // The encoding of definition levels and of repetition levels is RLE.
        put(&[Encoding::RLE as i32; 2], &mut header);
    } else {
        // The field `is_sorted` of the dictionary page is false.
        header.push(1 << 4 | FALSE);
    }
    header.extend([END, END]);
    header
}

impl Dictionary {
    fn clear(&mut self) {
        self.numbers.clear();
        self.plain.clear();
        self.last.clear();
        self.runs.clear();
    }

    fn add(&mut self, value: &[u8]) {
        match self.runs.last_mut() {
            Some((_, n)) if self.last == value => *n += 1,
            _ => {
                let next = self.numbers.len() as u32;
                let number = self.numbers.get(value).copied().unwrap_or_else(|| {
                    self.numbers.insert(value.to_vec(), next);
                    put_name(value, &mut self.plain);
                    next
                });
                self.runs.push((number, 1));
                self.last.clear();
                self.last.extend_from_slice(value);
            }
        }
    }
}

/// The minimum and the maximum of some numbers.
fn limits<N: Copy + Ord>(mut numbers: impl Iterator<Item = N>) -> Option<[N; 2]> {
    let first = numbers.next()?;
    Some(numbers.fold([first, first], |[min, max], number| {
        [min.min(number), max.max(number)]
    }))
}

fn put_name(name: &[u8], to: &mut Vec<u8>) {
    to.extend_from_slice(&(name.len() as u32).to_le_bytes());
    to.extend_from_slice(name);
}

/// Encodes runs of numbers of `bits` bits (RLE).
fn put_runs(bits: u32, runs: &[(u32, u32)], to: &mut Vec<u8>) {
    for (number, times) in runs {
        varint::put(u64::from(*times) << 1, to);
        to.extend_from_slice(&number.to_le_bytes()[..bits.div_ceil(8) as usize]);
    }
}
