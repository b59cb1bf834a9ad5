//! Decodes pages to values.

use std::cell::RefCell;
use std::ops::Index;

use ondisk::varint;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageReader};
use parquet::errors::{ParquetError, Result};
use zstd::bulk::Decompressor;

use crate::format::schema::GROUP;

/// Decodes Parquet's RLE/bit-packing hybrid: `left` numbers of `bits` bits, each passed to `take`
/// with its number of repetitions. `None` if `bytes` has fewer numbers.
pub(super) fn runs(
    mut bytes: &[u8],
    bits: u32,
    mut left: usize,
    mut take: impl FnMut(u32, usize) -> Option<()>,
) -> Option<()> {
    while left > 0 {
        let header = varint::take(&mut bytes)?;
        let many = usize::try_from(header >> 1).ok()?;
        if header & 1 == 0 {
            let value = bytes.split_off(..bits.div_ceil(8) as usize)?.iter().rev();
            let number = value.fold(0, |number, &byte| number << 8 | u32::from(byte));
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
                let places = (from..from + bits as usize).rev();
                take(places.fold(0, |number, at| number << 1 | bit(at)), 1)?;
            }
            left -= values;
        }
    }
    Some(())
}

/// The pages of a column of a row group.
pub struct Pages<'a> {
    pub(in crate::format) pages: &'a mut dyn PageReader,
    pub(in crate::format) rows: usize,
    pub(in crate::format) is_optional: bool,
    /// For zstd pages: the maximum total size after decompression. `None` for uncompressed pages.
    pub(in crate::format) unpacked: Option<usize>,
}

thread_local! {
    /// Each thread's decompressor, and a buffer for the current page.
    static ZSTD: RefCell<(Option<Decompressor<'static>>, Vec<u8>)> = RefCell::default();
}

/// Passes the bytes of a page to `take`, after decompression if needed.
fn unpacked<T>(
    page: &[u8],
    most: Option<usize>,
    take: impl FnOnce(&[u8]) -> Option<T>,
) -> Option<T> {
    let Some(most) = most else {
        return take(page);
    };
    ZSTD.with_borrow_mut(|(zstd, bytes)| {
        // A zstd frame written as a stream need not state its size.
        let size = zstd::zstd_safe::get_frame_content_size(page).ok()?;
        let room = size.map_or(Some(most), |size| usize::try_from(size).ok())?;
        let zstd = match zstd {
            Some(zstd) => zstd,
            none => none.insert(Decompressor::new().ok()?),
        };
        bytes.clear();
        let room = (room <= most).then_some(room)?;
        bytes.try_reserve_exact(room).ok()?;
        zstd.decompress_to_buffer(page, bytes).ok()?;
        take(bytes)
    })
}

/// The encoded values of a page, and their number.
enum Data<'a> {
    Dictionary(&'a [u8], usize),
    Plain(&'a [u8], usize),
    /// Indexes into the dictionary, the number of bits of each index, and the number of indexes.
    Numbers(&'a [u8], u32, usize),
}

/// Decodes every page of a column. `are` is called with runs of rows with and without a value,
/// before `take` is called with the values.
fn each_page(
    Pages {
        pages,
        mut rows,
        is_optional,
        unpacked: mut most,
    }: Pages<'_>,
    mut are: impl FnMut(bool, usize),
    mut take: impl FnMut(Data<'_>) -> Option<()>,
) -> Result<()> {
    while let Some(page) = pages.get_next_page()? {
        if let Page::DataPage { num_values, .. } = &page {
            rows = rows.checked_sub(*num_values as usize).ok_or_else(damaged)?;
        }
        let room = most;
        let decode = |bytes: &[u8]| {
            // All pages together must not exceed the column's stated size.
            if let Some(most) = &mut most {
                *most = most.checked_sub(bytes.len())?;
            }
            decode_page(&page, bytes, is_optional, &mut are, &mut take)
        };
        unpacked(page.buffer(), room, decode).ok_or_else(damaged)?;
    }
    if rows > 0 {
        return Err(ParquetError::EOF("a column has too few values".to_owned()));
    }
    Ok(())
}

fn decode_page(
    page: &Page,
    mut bytes: &[u8],
    is_optional: bool,
    are: &mut impl FnMut(bool, usize),
    take: &mut impl FnMut(Data<'_>) -> Option<()>,
) -> Option<()> {
    let (rows, encoding, levels) = match page {
        Page::DictionaryPage { num_values, .. } => {
            return take(Data::Dictionary(bytes, *num_values as usize));
        }
        Page::DataPage {
            num_values,
            encoding,
            def_level_encoding,
            ..
        } => (*num_values as usize, encoding, def_level_encoding),
        Page::DataPageV2 { .. } => return None,
    };
    let mut values = rows;
    if is_optional {
        let len = u32::from_le_bytes(*bytes.split_off(..4)?.first_chunk()?);
        let levels = bytes
            .split_off(..len as usize)
            .filter(|_| *levels == Encoding::RLE)?;
        values = 0;
        runs(levels, 1, rows, |level, times| {
            values += if level == 1 { times } else { 0 };
            are(level == 1, times);
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

pub(in crate::format) fn damaged() -> ParquetError {
    ParquetError::General("a page of a column makes no sense".to_owned())
}

/// Decodes a column of fixed-width values. `are` is called with runs of rows with and without a
/// value.
pub(in crate::format) fn numbers<const N: usize, T: Copy>(
    pages: Pages<'_>,
    decode: impl Fn([u8; N]) -> T,
    are: impl FnMut(bool, usize),
    into: &mut Vec<T>,
) -> Result<()> {
    let mut dictionary: Vec<T> = Vec::new();
    each_page(pages, are, |data| {
        let some = |bytes: &[u8], values: usize, into: &mut Vec<T>| {
            let values = bytes.as_chunks().0.get(..values)?;
            into.extend(values.iter().map(|value| decode(*value)));
            Some(())
        };
        match data {
            Data::Dictionary(bytes, values) => some(bytes, values, &mut dictionary),
            Data::Plain(bytes, values) => some(bytes, values, into),
            Data::Numbers(bytes, bits, values) => runs(bytes, bits, values, |number, times| {
                let value = *dictionary.get(number as usize)?;
                into.extend(std::iter::repeat_n(value, times));
                Some(())
            }),
        }
    })
}

/// Decodes a column of booleans, one bit each.
pub(in crate::format) fn flags(
    pages: Pages<'_>,
    are: impl FnMut(bool, usize),
    mut take: impl FnMut(bool),
) -> Result<()> {
    each_page(pages, are, |data| match data {
        Data::Plain(bytes, values) if bytes.len() >= values.div_ceil(8) => {
            (0..values).for_each(|nth| take(bytes[nth / 8] >> (nth % 8) & 1 == 1));
            Some(())
        }
        _ => None,
    })
}

/// Maximum bytes of names in a row group written by another program.
const MOST_FOREIGN_NAMES: usize = 256 << 20;

/// The values of a column of names, in one buffer.
#[derive(Debug, Default)]
pub struct Names {
    bytes: Vec<u8>,
    /// Start and end of each row's name in the buffer.
    places: Vec<(u32, u32)>,
}

impl Names {
    pub(in crate::format) fn read(pages: Pages<'_>) -> Result<Names> {
        let (mut bytes, mut dictionary) = (Vec::new(), Vec::new());
        let mut places = Vec::with_capacity(pages.rows.min(GROUP));
        let take = |data: Data<'_>| match data {
            Data::Dictionary(some, values) => add_places(some, values, &mut bytes, &mut dictionary),
            Data::Plain(some, values) => add_places(some, values, &mut bytes, &mut places),
            Data::Numbers(some, bits, values) => runs(some, bits, values, |number, times| {
                let place = *dictionary.get(number as usize)?;
                places.extend(std::iter::repeat_n(place, times));
                Some(())
            }),
        };
        each_page(pages, |_, _| {}, take)?;
        Ok(Names { bytes, places })
    }

    /// Appends the name of the next row. A repeated name is not stored again.
    pub(super) fn push(&mut self, name: &[u8]) -> Result<()> {
        let place = match self.places.last() {
            Some(&(from, to)) if self.bytes[from as usize..to as usize] == *name => (from, to),
            _ => {
                let (from, to) = (self.bytes.len(), self.bytes.len() + name.len());
                if to > MOST_FOREIGN_NAMES {
                    let most = MOST_FOREIGN_NAMES >> 20;
                    let told = format!("a row group has names of more than {most} MiB");
                    return Err(ParquetError::General(told));
                }
                self.bytes.extend_from_slice(name);
                (from as u32, to as u32)
            }
        };
        self.places.push(place);
        Ok(())
    }

    /// Number of rows, each of which has a name.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether two rows share a stored name, and so have the same name. Equal names may also be
    /// stored separately.
    #[inline]
    pub fn are_same(&self, a: usize, b: usize) -> bool {
        self.places[a] == self.places[b]
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The names of all rows.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|nth| &self[nth])
    }
}

impl Index<usize> for Names {
    type Output = [u8];

    #[inline]
    fn index(&self, nth: usize) -> &[u8] {
        let (from, to) = self.places[nth];
        &self.bytes[from as usize..to as usize]
    }
}

/// Appends length-prefixed names, and their positions. The names of a row group must take less than
/// 4 GiB.
fn add_places(
    some: &[u8],
    values: usize,
    bytes: &mut Vec<u8>,
    places: &mut Vec<(u32, u32)>,
) -> Option<()> {
    let end = u32::try_from(bytes.len() + some.len()).ok()?;
    let mut rest = some;
    for _ in 0..values {
        let len = u32::from_le_bytes(*rest.split_off(..4)?.first_chunk()?);
        rest.split_off(..len as usize)?;
        let end = end - rest.len() as u32;
        places.push((end - len, end));
    }
    bytes.extend_from_slice(some);
    Some(())
}
