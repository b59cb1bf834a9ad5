//! From values to pages.

use std::collections::HashMap;

use bytes::Bytes;
use crc32fast::Hasher;
use parquet::basic::{Compression, Encoding, PageType, Type, ZstdLevel};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::Result;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::schema::types::ColumnDescPtr;
use zstd::bulk::Compressor;

/// zstd's level: more takes longer than it saves.
const LEVEL: i32 = 1;
/// Bytes that a page has about, at most: mostly there is one of a column.
const PAGE: usize = 4 << 20;
/// Bytes of a dictionary, at most.
const DICTIONARY: usize = if cfg!(test) { 400 } else { 16 << 20 };

/// A column of a row group, as it stands in the file.
pub(in crate::catalog) struct Encoded {
    pub(in crate::catalog) bytes: Bytes,
    pub(in crate::catalog) close: ColumnCloseResult,
    /// CRC-32 of its bytes.
    pub(in crate::catalog) checksum: u32,
}

/// How a column is encoded; each is what was fastest, or as fast and smaller, over a million
/// entries of a source tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum How {
    /// A dictionary, for few values that are long.
    Dictionary,
    /// The values as they are, and zstd over them.
    Plain,
    /// The values as they are: nothing would make them smaller.
    Raw,
}

/// What compresses pages.
pub(in crate::catalog) fn compressor() -> Result<Compressor<'static>> {
    Ok(Compressor::new(LEVEL)?)
}

/// A column, as it comes.
pub(crate) struct Chunk {
    of: ColumnDescPtr,
    how: How,
    /// Values for the next page, one after the other; of truth values one in a byte.
    plain: Vec<u8>,
    /// Bytes that each has, if that is the same for all.
    width: Option<usize>,
    /// For the rows of the next page, whether they have a value: so many in turn, each time.
    there: Vec<(bool, u32)>,
    dictionary: Option<Dictionary>,
    file: Vec<u8>,
    checksum: Hasher,
    written: Written,
}

/// Values by number.
#[derive(Default)]
struct Dictionary {
    numbers: HashMap<Vec<u8>, u32>,
    /// All of them, as they are to stand in its page.
    plain: Vec<u8>,
    /// The last one.
    last: Vec<u8>,
    /// The number that so many rows in turn have.
    runs: Vec<(u32, u32)>,
}

/// What is to be said of all pages.
#[derive(Default)]
struct Written {
    rows: u64,
    compressed: usize,
    uncompressed: usize,
    dictionary_at: Option<u64>,
    data_at: Option<u64>,
    encodings: Vec<Encoding>,
}

impl Chunk {
    /// An empty one, with room for so many rows.
    pub(in crate::catalog) fn new(of: ColumnDescPtr, how: How, rows: usize) -> Chunk {
        let width = match of.physical_type() {
            Type::BOOLEAN => Some(1),
            Type::INT32 => Some(4),
            Type::INT64 => Some(8),
            Type::FIXED_LEN_BYTE_ARRAY => usize::try_from(of.type_length()).ok(),
            _ => None,
        };
        Chunk {
            plain: Vec::with_capacity(width.map_or(0, |width| width * rows)),
            width,
            there: Vec::new(),
            dictionary: (how == How::Dictionary).then(Dictionary::default),
            file: Vec::new(),
            checksum: Hasher::new(),
            written: Written::default(),
            of,
            how,
        }
    }

    /// Adds numbers.
    pub(crate) fn numbers<const N: usize>(
        &mut self,
        values: impl ExactSizeIterator<Item = [u8; N]>,
    ) {
        self.are(true, values.len() as u32);
        let from = self.plain.len();
        self.plain.resize(from + values.len() * N, 0);
        self.plain[from..]
            .as_chunks_mut()
            .0
            .iter_mut()
            .zip(values)
            .for_each(|(to, value)| *to = value);
    }

    /// Adds what may be missing.
    pub(crate) fn maybe<const N: usize>(
        &mut self,
        values: impl ExactSizeIterator<Item = Option<[u8; N]>>,
    ) {
        let mut end = self.plain.len();
        self.plain.resize(end + values.len() * N, 0);
        for value in values {
            self.are(value.is_some(), 1);
            if let Some(value) = value {
                self.plain[end..end + N].copy_from_slice(&value);
                end += N;
            }
        }
        self.plain.truncate(end);
    }

    /// Adds names.
    pub(crate) fn names<'a>(
        &mut self,
        values: impl Iterator<Item = &'a [u8]>,
        zstd: &mut Compressor<'_>,
    ) -> Result<()> {
        for value in values {
            self.are(true, 1);
            match &mut self.dictionary {
                Some(dictionary) => {
                    dictionary.add(value);
                    if dictionary.plain.len() > DICTIONARY {
                        self.finish_dictionary(zstd)?;
                    }
                }
                None => {
                    put_name(value, &mut self.plain);
                    if self.plain.len() > PAGE {
                        self.finish_page(zstd)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// So many more rows have a value, or have none.
    fn are(&mut self, there: bool, rows: u32) {
        match self.there.last_mut() {
            Some((last, n)) if *last == there => *n += rows,
            _ => self.there.push((there, rows)),
        }
    }

    /// All of it.
    pub(in crate::catalog) fn close(mut self, zstd: &mut Compressor<'_>) -> Result<Encoded> {
        if self.dictionary.is_some() {
            self.finish_dictionary(zstd)?;
        } else if let Some(width) = self.all_alike() {
            let value = self.plain[..width].to_vec();
            let rows = (self.plain.len() / width) as u32;
            self.put_dictionary(value, 1, zstd)?;
            self.put_numbers(1, &[(0, rows)], zstd)?;
        }
        self.finish_page(zstd)?;
        let Written {
            rows,
            compressed,
            uncompressed,
            dictionary_at,
            data_at,
            mut encodings,
        } = self.written;
        encodings.push(Encoding::RLE);
        let metadata = ColumnChunkMetaData::builder(self.of)
            .set_compression(match self.how {
                How::Raw => Compression::UNCOMPRESSED,
                How::Plain | How::Dictionary => Compression::ZSTD(ZstdLevel::try_new(LEVEL)?),
            })
            .set_encodings(encodings)
            .set_num_values(rows.cast_signed())
            .set_total_compressed_size(compressed as i64)
            .set_total_uncompressed_size(uncompressed as i64)
            .set_dictionary_page_offset(dictionary_at.map(u64::cast_signed))
            .set_data_page_offset(data_at.unwrap_or_default().cast_signed())
            .build()?;
        let close = ColumnCloseResult {
            bytes_written: compressed as u64,
            rows_written: rows,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        Ok(Encoded {
            bytes: self.file.into(),
            close,
            checksum: self.checksum.finalize(),
        })
    }

    /// The bytes of each value, if there are several and they are all the same.
    fn all_alike(&self) -> Option<usize> {
        let width = self
            .width
            .filter(|_| self.of.physical_type() != Type::BOOLEAN)?;
        let (all, later) = (&self.plain[..], self.plain.get(width..)?);
        (!later.is_empty() && later == &all[..later.len()]).then_some(width)
    }

    /// Writes a page of the values that there are.
    fn finish_page(&mut self, zstd: &mut Compressor<'_>) -> Result<()> {
        let mut values = std::mem::take(&mut self.plain);
        if self.there.is_empty() {
            return Ok(());
        }
        if self.of.physical_type() == Type::BOOLEAN {
            let bits = |some: &[u8]| some.iter().rev().fold(0, |bits, &bit| bits << 1 | bit);
            values = values.chunks(8).map(bits).collect();
        }
        self.put_page(values, Encoding::PLAIN, zstd)
    }

    /// Writes the dictionary, and a page of the numbers of the values that there are. What follows
    /// has none.
    fn finish_dictionary(&mut self, zstd: &mut Compressor<'_>) -> Result<()> {
        let Some(Dictionary {
            numbers,
            plain,
            runs,
            ..
        }) = self.dictionary.take()
        else {
            return Ok(());
        };
        self.put_dictionary(plain, numbers.len() as u32, zstd)?;
        // Some readers do not take it well that a number has no bits.
        let bits = (u32::BITS - (numbers.len() as u32).saturating_sub(1).leading_zeros()).max(1);
        self.put_numbers(bits, &runs, zstd)
    }

    fn put_dictionary(
        &mut self,
        plain: Vec<u8>,
        values: u32,
        zstd: &mut Compressor<'_>,
    ) -> Result<()> {
        self.written.dictionary_at = Some(self.put(
            plain,
            PageType::DICTIONARY_PAGE,
            values,
            Encoding::PLAIN,
            zstd,
        )?);
        self.written.encodings.push(Encoding::PLAIN);
        Ok(())
    }

    /// Writes a page of numbers of values, of so many bits.
    fn put_numbers(
        &mut self,
        bits: u32,
        numbers: &[(u32, u32)],
        zstd: &mut Compressor<'_>,
    ) -> Result<()> {
        let mut values = vec![bits as u8];
        put_runs(bits, numbers, &mut values);
        self.plain.clear();
        self.put_page(values, Encoding::RLE_DICTIONARY, zstd)
    }

    /// Writes a page of data, with the levels before it if values may be missing.
    fn put_page(
        &mut self,
        values: Vec<u8>,
        encoding: Encoding,
        zstd: &mut Compressor<'_>,
    ) -> Result<()> {
        let there = std::mem::take(&mut self.there);
        let rows: u32 = there.iter().map(|(_, rows)| rows).sum();
        let mut bytes = values;
        if self.of.max_def_level() > 0 {
            let levels: Vec<(u32, u32)> = there
                .iter()
                .map(|&(there, rows)| (there.into(), rows))
                .collect();
            let mut page = vec![0; 4];
            put_runs(1, &levels, &mut page);
            let len = page.len() as u32 - 4;
            page[..4].copy_from_slice(&len.to_le_bytes());
            page.append(&mut bytes);
            bytes = page;
        }
        let at = self.put(bytes, PageType::DATA_PAGE, rows, encoding, zstd)?;
        self.written.data_at.get_or_insert(at);
        self.written.encodings.push(encoding);
        self.written.rows += u64::from(rows);
        Ok(())
    }

    /// Writes a page of so many values, and says where it is.
    fn put(
        &mut self,
        bytes: Vec<u8>,
        kind: PageType,
        values: u32,
        encoding: Encoding,
        zstd: &mut Compressor<'_>,
    ) -> Result<u64> {
        let size = bytes.len();
        let bytes = if self.how == How::Raw {
            bytes
        } else {
            zstd.compress(&bytes)?
        };
        let mut checksum = Hasher::new();
        checksum.update(&bytes);
        let sizes = [i32::try_from(size)?, i32::try_from(bytes.len())?];
        let header = header(kind, sizes, checksum.clone().finalize(), values, encoding);
        self.checksum.update(&header);
        self.checksum.combine(&checksum);
        let at = self.file.len() as u64;
        self.file.extend_from_slice(&header);
        self.file.extend_from_slice(&bytes);
        self.written.compressed += header.len() + bytes.len();
        self.written.uncompressed += header.len() + size;
        Ok(at)
    }
}

/// The header of a page: its sizes unpacked and as it stands in the file, its checksum, how many
/// values it has, and in which encoding. Thrift's compact protocol: before each field the distance
/// of its number from the last one's, and its type.
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
    fn put(number: i32, header: &mut Vec<u8>) {
        header.push(1 << 4 | I32);
        put_varint((number << 1 ^ number >> 31).cast_unsigned().into(), header);
    }
    let mut header = Vec::with_capacity(32);
    [kind as i32, sizes[0], sizes[1], checksum.cast_signed()]
        .into_iter()
        .for_each(|number| put(number, &mut header));
    let distance = if kind == PageType::DATA_PAGE { 1 } else { 3 };
    header.push(distance << 4 | STRUCT);
    [values.cast_signed(), encoding as i32]
        .into_iter()
        .for_each(|number| put(number, &mut header));
    if kind == PageType::DATA_PAGE {
        // How levels are encoded.
        [Encoding::RLE as i32; 2]
            .into_iter()
            .for_each(|number| put(number, &mut header));
    } else {
        // Whether it is sorted.
        header.push(1 << 4 | FALSE);
    }
    header.extend([END, END]);
    header
}

impl Dictionary {
    /// Adds a value, which is mostly the last one.
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

fn put_name(name: &[u8], to: &mut Vec<u8>) {
    to.extend_from_slice(&(name.len() as u32).to_le_bytes());
    to.extend_from_slice(name);
}

fn put_varint(mut number: u64, to: &mut Vec<u8>) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Writes numbers of so many bits, each as often as it comes in turn.
fn put_runs(bits: u32, runs: &[(u32, u32)], to: &mut Vec<u8>) {
    for (number, times) in runs {
        put_varint(u64::from(*times) << 1, to);
        to.extend_from_slice(&number.to_le_bytes()[..bits.div_ceil(8) as usize]);
    }
}
