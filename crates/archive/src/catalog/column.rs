//! A column of a row group: from values to pages, and back.
//!
//! ```text
//! few pages, each: ─ levels (which rows have a value) ─ values, one after the other, or their numbers in a dictionary ─ zstd
//! ```
//!
//! The library has this too, for every type and encoding that there is, one value at a time. A catalog has millions of them, of
//! few types, and many of its columns say the same in every row: what is alike is found by one comparison, and stands there once.
//!
//! Before each page stands its header, with the checksum of the page as Parquet has it, for whoever reads; the library would write
//! none.
//!
//! [Parquet's encodings](https://parquet.apache.org/docs/file-format/data-pages/encodings/),
//! [its checksums](https://parquet.apache.org/docs/file-format/data-pages/checksumming/)

use std::collections::HashMap;
use std::ops::Index;

use bytes::Bytes;
use crc32fast::Hasher;
use parquet::basic::{Compression, Encoding, PageType, Type, ZstdLevel};
use parquet::column::page::{Page, PageReader};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
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
pub(super) struct Encoded {
    pub(super) bytes: Bytes,
    pub(super) close: ColumnCloseResult,
    /// CRC-32 of its bytes.
    pub(super) checksum: u32,
}

/// How a column is encoded; each is what was fastest, or as fast and smaller, over a million entries of a source tree.
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
pub(super) fn compressor() -> Result<Compressor<'static>> {
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
    pub(super) fn new(of: ColumnDescPtr, how: How, rows: usize) -> Chunk {
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
    pub(crate) fn numbers<const N: usize>(&mut self, values: impl ExactSizeIterator<Item = [u8; N]>) {
        self.are(true, values.len() as u32);
        let room = self.room(values.len());
        room.iter_mut().zip(values).for_each(|(to, value)| *to = value);
    }

    /// Adds what may be missing.
    pub(crate) fn maybe<const N: usize>(&mut self, values: impl ExactSizeIterator<Item = Option<[u8; N]>>) {
        let (mut run, mut there) = ((true, 0), 0);
        let most = values.len();
        let room = self.room(most);
        let mut runs = Vec::new();
        for value in values {
            if value.is_some() != run.0 {
                runs.push(std::mem::replace(&mut run, (value.is_some(), 0)));
            }
            run.1 += 1;
            if let Some(value) = value {
                room[there] = value;
                there += 1;
            }
        }
        self.plain.truncate(self.plain.len() - (most - there) * N);
        runs.into_iter().chain([run]).filter(|(_, rows)| *rows > 0).for_each(|(there, rows)| self.are(there, rows));
    }

    /// Room for so many more values, at the end.
    fn room<const N: usize>(&mut self, values: usize) -> &mut [[u8; N]] {
        let from = self.plain.len();
        self.plain.resize(from + values * N, 0);
        self.plain[from..].as_chunks_mut().0
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
    pub(super) fn close(mut self, zstd: &mut Compressor<'_>) -> Result<Encoded> {
        if self.dictionary.is_some() {
            self.finish_dictionary(zstd)?;
        } else if let Some(width) = self.all_alike() {
            let value = self.plain[..width].to_vec();
            let rows = (self.plain.len() / width) as u32;
            self.put_dictionary(value, 1, zstd)?;
            self.put_numbers(1, &[(0, rows)], zstd)?;
        }
        self.finish_page(zstd)?;
        let Written { rows, compressed, uncompressed, dictionary_at, data_at, mut encodings } = self.written;
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
        Ok(Encoded { bytes: self.file.into(), close, checksum: self.checksum.finalize() })
    }

    /// The bytes of each value, if there are several and they are all the same.
    fn all_alike(&self) -> Option<usize> {
        let width = self.width.filter(|_| self.of.physical_type() != Type::BOOLEAN)?;
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

    /// Writes the dictionary, and a page of the numbers of the values that there are. What follows has none.
    fn finish_dictionary(&mut self, zstd: &mut Compressor<'_>) -> Result<()> {
        let Some(Dictionary { numbers, plain, runs, .. }) = self.dictionary.take() else { return Ok(()) };
        self.put_dictionary(plain, numbers.len() as u32, zstd)?;
        // Some readers do not take it well that a number has no bits.
        let bits = (u32::BITS - (numbers.len() as u32).saturating_sub(1).leading_zeros()).max(1);
        self.put_numbers(bits, &runs, zstd)
    }

    fn put_dictionary(&mut self, plain: Vec<u8>, values: u32, zstd: &mut Compressor<'_>) -> Result<()> {
        self.written.dictionary_at = Some(self.put(plain, PageType::DICTIONARY_PAGE, values, Encoding::PLAIN, zstd)?);
        self.written.encodings.push(Encoding::PLAIN);
        Ok(())
    }

    /// Writes a page of numbers of values, of so many bits.
    fn put_numbers(&mut self, bits: u32, numbers: &[(u32, u32)], zstd: &mut Compressor<'_>) -> Result<()> {
        let mut values = vec![bits as u8];
        put_runs(bits, numbers, &mut values);
        self.plain.clear();
        self.put_page(values, Encoding::RLE_DICTIONARY, zstd)
    }

    /// Writes a page of data, with the levels before it if values may be missing.
    fn put_page(&mut self, values: Vec<u8>, encoding: Encoding, zstd: &mut Compressor<'_>) -> Result<()> {
        let there = std::mem::take(&mut self.there);
        let rows: u32 = there.iter().map(|(_, rows)| rows).sum();
        let mut bytes = values;
        if self.of.max_def_level() > 0 {
            let levels: Vec<(u32, u32)> = there.iter().map(|&(there, rows)| (there.into(), rows)).collect();
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
        let bytes = if self.how == How::Raw { bytes } else { zstd.compress(&bytes)? };
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

/// The header of a page: its sizes unpacked and as it stands in the file, its checksum, how many values it has, and in which encoding.
/// Thrift's compact protocol: before each field the distance of its number from the last one's, and its type.
fn header(kind: PageType, sizes: [i32; 2], checksum: u32, values: u32, encoding: Encoding) -> Vec<u8> {
    const I32: u8 = 5;
    const FALSE: u8 = 2;
    const STRUCT: u8 = 12;
    const END: u8 = 0;
    fn put(number: i32, header: &mut Vec<u8>) {
        header.push(1 << 4 | I32);
        put_varint((number << 1 ^ number >> 31).cast_unsigned().into(), header);
    }
    let mut header = Vec::with_capacity(32);
    [kind as i32, sizes[0], sizes[1], checksum.cast_signed()].into_iter().for_each(|number| put(number, &mut header));
    let distance = if kind == PageType::DATA_PAGE { 1 } else { 3 };
    header.push(distance << 4 | STRUCT);
    [values.cast_signed(), encoding as i32].into_iter().for_each(|number| put(number, &mut header));
    if kind == PageType::DATA_PAGE {
        // How levels are encoded.
        [Encoding::RLE as i32; 2].into_iter().for_each(|number| put(number, &mut header));
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

/// Reads numbers of so many bits, until there are `left`: each, and how often it comes in turn. `None` if there are not so many.
/// Beside runs there are packs: eight times so many, each in its bits.
fn runs(mut bytes: &[u8], bits: u32, mut left: usize, mut take: impl FnMut(u32, usize) -> Option<()>) -> Option<()> {
    while left > 0 {
        let header = varint(&mut bytes)?;
        let many = usize::try_from(header >> 1).ok()?;
        if header & 1 == 0 {
            let value = bytes.split_off(..bits.div_ceil(8) as usize)?;
            let number = value.iter().rev().fold(0, |number, &byte| number << 8 | u32::from(byte));
            let times = many.min(left);
            if times == 0 {
                return None;
            }
            take(number, times)?;
            left -= times;
        } else {
            let values = many.checked_mul(8)?.min(left);
            let pack = bytes.split_off(..many.checked_mul(bits as usize)?.min(bytes.len()))?;
            if pack.len() * 8 < values * bits as usize || values == 0 {
                return None;
            }
            for nth in 0..values {
                let from = nth * bits as usize;
                let bit = |at: usize| u32::from(pack[at / 8] >> (at % 8) & 1);
                take((from..from + bits as usize).rev().fold(0, |number, at| number << 1 | bit(at)), 1)?;
            }
            left -= values;
        }
    }
    Some(())
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let byte = *bytes.split_off_first()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// What stands in a page.
enum Data<'a> {
    /// So many values, for others to name by their numbers.
    Dictionary(&'a [u8], usize),
    /// So many values.
    Plain(&'a [u8], usize),
    /// So many numbers of values, of so many bits.
    Numbers(&'a [u8], u32, usize),
}

/// Goes through the pages of a column of so many rows, and no more. For a column in which values may be missing, `are` is told of which
/// rows they are there.
fn each_page(
    pages: &mut dyn PageReader,
    mut rows: usize,
    is_optional: bool,
    mut are: impl FnMut(bool, usize),
    mut take: impl FnMut(Data<'_>) -> Option<()>,
) -> Result<()> {
    while let Some(page) = pages.get_next_page()? {
        if let Page::DataPage { num_values, .. } = &page {
            rows = rows.checked_sub(*num_values as usize).ok_or_else(damaged)?;
        }
        page_of(&page, is_optional, &mut are, &mut take).ok_or_else(damaged)?;
    }
    Ok(())
}

fn page_of(
    page: &Page,
    is_optional: bool,
    are: &mut impl FnMut(bool, usize),
    take: &mut impl FnMut(Data<'_>) -> Option<()>,
) -> Option<()> {
    match page {
        Page::DictionaryPage { buf, num_values, .. } => take(Data::Dictionary(buf, *num_values as usize)),
        Page::DataPage { buf, num_values, encoding, def_level_encoding, .. } => {
            let (mut bytes, rows) = (&buf[..], *num_values as usize);
            let mut values = rows;
            if is_optional {
                let len = u32::from_le_bytes(*bytes.split_off(..4)?.first_chunk()?);
                let levels = bytes.split_off(..len as usize).filter(|_| *def_level_encoding == Encoding::RLE)?;
                values = 0;
                runs(levels, 1, rows, |is_there, times| {
                    values += if is_there == 1 { times } else { 0 };
                    are(is_there == 1, times);
                    Some(())
                })?;
            } else {
                are(true, rows);
            }
            match encoding {
                Encoding::PLAIN => take(Data::Plain(bytes, values)),
                Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY if values == 0 => Some(()),
                Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY => {
                    let bits = u32::from(*bytes.split_off_first()?);
                    (bits <= u32::BITS).then(|| take(Data::Numbers(bytes, bits, values)))?
                }
                _ => None,
            }
        }
        Page::DataPageV2 { .. } => None,
    }
}

pub(super) fn damaged() -> ParquetError {
    ParquetError::General("a page of a column makes no sense".to_owned())
}

/// Reads a column of numbers, or of bytes that are as many for each value; for each row, or for those that have one. `are` is told
/// of which rows they are.
pub(super) fn numbers<const N: usize, T: Copy>(
    pages: &mut dyn PageReader,
    rows: usize,
    is_optional: bool,
    of: impl Fn([u8; N]) -> T,
    are: impl FnMut(bool, usize),
    into: &mut Vec<T>,
) -> Result<()> {
    let mut dictionary: Vec<T> = Vec::new();
    each_page(pages, rows, is_optional, are, |data| {
        let some = |bytes: &[u8], values: usize, into: &mut Vec<T>| {
            into.extend(bytes.as_chunks().0.get(..values)?.iter().map(|value| of(*value)));
            Some(())
        };
        match data {
            Data::Dictionary(bytes, values) => some(bytes, values, &mut dictionary),
            Data::Plain(bytes, values) => some(bytes, values, into),
            Data::Numbers(bytes, bits, values) => runs(bytes, bits, values, |number, times| {
                into.extend(std::iter::repeat_n(*dictionary.get(number as usize)?, times));
                Some(())
            }),
        }
    })
}

/// A column of names.
#[derive(Debug, Default)]
pub struct Names {
    bytes: Vec<u8>,
    /// Where each begins and ends.
    places: Vec<(usize, usize)>,
}

impl Names {
    /// Reads one.
    pub(super) fn read(pages: &mut dyn PageReader, rows: usize) -> Result<Names> {
        let (mut names, mut dictionary) = (Names::default(), Vec::new());
        each_page(
            pages,
            rows,
            false,
            |_, _| {},
            |data| {
                let Names { bytes, places } = &mut names;
                match data {
                    Data::Dictionary(some, values) => add_places(some, values, bytes, &mut dictionary),
                    Data::Plain(some, values) => add_places(some, values, bytes, places),
                    Data::Numbers(some, bits, values) => runs(some, bits, values, |number, times| {
                        places.extend(std::iter::repeat_n(*dictionary.get(number as usize)?, times));
                        Some(())
                    }),
                }
            },
        )?;
        Ok(names)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.places.iter().map(|&(from, to)| &self.bytes[from..to])
    }
}

impl Index<usize> for Names {
    type Output = [u8];

    #[inline]
    fn index(&self, nth: usize) -> &[u8] {
        let (from, to) = self.places[nth];
        &self.bytes[from..to]
    }
}

/// Keeps some names, and where they are.
fn add_places(some: &[u8], values: usize, bytes: &mut Vec<u8>, places: &mut Vec<(usize, usize)>) -> Option<()> {
    let (base, mut rest) = (bytes.len(), some);
    for _ in 0..values {
        let len = u32::from_le_bytes(*rest.split_off(..4)?.first_chunk()?);
        rest.split_off(..len as usize)?;
        let end = base + some.len() - rest.len();
        places.push((end - len as usize, end));
    }
    bytes.extend_from_slice(some);
    Some(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parquet::column::reader::get_column_reader;
    use parquet::column::writer::get_column_writer;
    use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, FixedLenByteArrayType, Int32Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::serialized_reader::SerializedPageReader;
    use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
    use parquet::schema::parser::parse_message_type;
    use parquet::schema::types::SchemaDescriptor;
    use proptest::prelude::*;

    use super::*;

    fn column(of: &str) -> ColumnDescPtr {
        let message = format!("message m {{ {of} a; }}");
        SchemaDescriptor::new(Arc::new(parse_message_type(&message).unwrap())).column(0)
    }

    fn encoded(of: &str, how: How, put: impl Fn(&mut Chunk, &mut Compressor<'_>)) -> Encoded {
        let (mut chunk, mut zstd) = (Chunk::new(column(of), how, 8), compressor().unwrap());
        put(&mut chunk, &mut zstd);
        chunk.close(&mut zstd).unwrap()
    }

    fn pages(Encoded { bytes, close, .. }: &Encoded) -> SerializedPageReader<Bytes> {
        SerializedPageReader::new(Arc::new(bytes.clone()), &close.metadata, close.rows_written as usize, None).unwrap()
    }

    /// What the library reads: the values that are there, and of each row whether it has one.
    fn by_the_library<D: DataType>(encoded: &Encoded) -> (Vec<D::T>, Vec<i16>) {
        let rows = encoded.close.rows_written as usize;
        let reader = get_column_reader(encoded.close.metadata.column_descr_ptr(), Box::new(pages(encoded)));
        let mut reader = D::get_column_reader(reader).unwrap();
        let (mut values, mut there) = (Vec::new(), Vec::new());
        while reader.read_records(rows, Some(&mut there), None, &mut values).unwrap().0 > 0 {}
        (values, there)
    }

    fn names_of(encoded: &Encoded) -> Vec<Vec<u8>> {
        Names::read(&mut pages(encoded), encoded.close.rows_written as usize)
            .unwrap()
            .iter()
            .map(<[u8]>::to_vec)
            .collect()
    }

    /// Values of which mostly several in turn are the same.
    fn in_turn<T: Clone + std::fmt::Debug>(of: impl Strategy<Value = T> + Clone) -> impl Strategy<Value = Vec<T>> {
        let runs = proptest::collection::vec((of, 1..9usize), 1..60);
        runs.prop_map(|runs| runs.into_iter().flat_map(|(value, n)| std::iter::repeat_n(value, n)).collect())
    }

    proptest! {
        #[test]
        fn numbers_come_back(values in in_turn(any::<u32>()), is_raw in any::<bool>()) {
            let how = if is_raw { How::Raw } else { How::Plain };
            let encoded = encoded("required int32", how, |to, _| to.numbers(values.iter().map(|n| n.to_le_bytes())));
            let (library, _) = by_the_library::<Int32Type>(&encoded);
            prop_assert!(library.iter().map(|n| n.cast_unsigned()).eq(values.iter().copied()));
            let mut ours = Vec::new();
            numbers(&mut pages(&encoded), values.len(), false, u32::from_le_bytes, |_, _| {}, &mut ours).unwrap();
            prop_assert_eq!(ours, values);
        }

        #[test]
        fn what_is_missing_stays_missing(values in in_turn(proptest::option::of(0..3u8)), are_alike in any::<bool>()) {
            let hash = |n: &u8| [if are_alike { 7 } else { *n }; 32];
            let values: Vec<Option<[u8; 32]>> = values.iter().map(|value| value.as_ref().map(hash)).collect();
            let encoded = encoded("optional fixed_len_byte_array(32)", How::Raw, |to, _| to.maybe(values.iter().copied()));
            let (library, there) = by_the_library::<FixedLenByteArrayType>(&encoded);
            prop_assert!(library.iter().map(|hash| hash.data()).eq(values.iter().flatten().map(|hash| &hash[..])));
            prop_assert!(there.iter().map(|there| *there == 1).eq(values.iter().map(Option::is_some)));
            let (mut ours, mut there) = (Vec::new(), Vec::new());
            let are = |is_there, rows| there.extend(std::iter::repeat_n(is_there, rows));
            numbers(&mut pages(&encoded), values.len(), true, |hash: [u8; 32]| hash, are, &mut ours).unwrap();
            prop_assert!(ours.iter().eq(values.iter().flatten()));
            prop_assert!(there.into_iter().eq(values.iter().map(Option::is_some)));
        }

        #[test]
        fn truth_comes_back(values in in_turn(any::<Option<bool>>())) {
            let encoded = encoded("optional boolean", How::Plain, |to, _| {
                to.maybe(values.iter().map(|value| value.map(|is| [u8::from(is)])));
            });
            let (library, there) = by_the_library::<BoolType>(&encoded);
            prop_assert!(library.iter().eq(values.iter().flatten()));
            prop_assert!(there.iter().map(|there| *there == 1).eq(values.iter().map(Option::is_some)));
        }

        /// With a dictionary, with one that is full before the end, and without.
        #[test]
        fn names_come_back(names in in_turn(proptest::collection::vec(any::<u8>(), 0..40)), is_plain in any::<bool>()) {
            let how = if is_plain { How::Plain } else { How::Dictionary };
            let encoded = encoded("required binary", how, |to, zstd| {
                to.names(names.iter().map(|name| &name[..]), zstd).unwrap();
            });
            let (library, _) = by_the_library::<ByteArrayType>(&encoded);
            prop_assert!(library.iter().map(ByteArray::data).eq(names.iter().map(|name| &name[..])));
            prop_assert_eq!(names_of(&encoded), names);
        }

        /// Catalogs that the library wrote have packs in them.
        #[test]
        fn what_the_library_writes_is_read(names in in_turn("[a-z]{0,3}")) {
            let mut file = TrackedWrite::new(Vec::new());
            let properties = WriterProperties::builder().set_dictionary_enabled(true).build();
            let pages = Box::new(SerializedPageWriter::new(&mut file));
            let writer = get_column_writer(column("required binary"), properties.into(), pages);
            let mut writer = ByteArrayType::get_column_writer(writer).unwrap();
            let values: Vec<ByteArray> = names.iter().map(|name| name.as_str().into()).collect();
            writer.write_batch(&values, None, None).unwrap();
            let close = writer.close().unwrap();
            let encoded = Encoded { bytes: file.into_inner().unwrap().into(), close, checksum: 0 };
            prop_assert!(names_of(&encoded).iter().map(|name| &name[..]).eq(names.iter().map(|name| name.as_bytes())));
        }

        #[test]
        fn no_numbers_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..40), bits in 0..33u32, left in 0..99usize) {
            let mut taken = 0;
            let all = runs(&bytes, bits, left, |_, times| {
                taken += times;
                Some(())
            });
            prop_assert_eq!(all.is_some(), taken == left);
        }
    }

    #[test]
    fn a_page_has_its_checksum() {
        let sound = encoded("required int32", How::Raw, |to, _| to.numbers((0..9u32).map(u32::to_le_bytes)));
        assert_eq!(crc32fast::hash(&sound.bytes), sound.checksum);
        assert!(pages(&sound).get_next_page().is_ok_and(|page| page.is_some()));
        let mut bytes = sound.bytes.to_vec();
        *bytes.last_mut().unwrap() ^= 1;
        let damaged = Encoded { bytes: bytes.into(), ..sound };
        assert!(pages(&damaged).get_next_page().is_err());
    }

    #[test]
    fn what_is_alike_stands_there_once() {
        let of = |value: fn(u64) -> u64| {
            encoded("required int64", How::Raw, |to, _| {
                to.numbers((0..60_000).map(|n: u32| value(n.into()).to_le_bytes()))
            })
        };
        assert!(of(|_| 1 << 40).bytes.len() < 100);
        assert!(of(|n| n).bytes.len() > 8 * 60_000);
    }
}
