//! From pages to values.

use std::ops::Index;

use parquet::basic::Encoding;
use parquet::column::page::{Page, PageReader};
use parquet::errors::{ParquetError, Result};

/// Reads numbers of so many bits, until there are `left`: each, and how often it comes in turn.
/// `None` if there are not so many. Beside runs there are packs: eight times so many, each in its
/// bits.
pub(super) fn runs(
    mut bytes: &[u8],
    bits: u32,
    mut left: usize,
    mut take: impl FnMut(u32, usize) -> Option<()>,
) -> Option<()> {
    while left > 0 {
        let header = varint(&mut bytes)?;
        let many = usize::try_from(header >> 1).ok()?;
        if header & 1 == 0 {
            let value = bytes.split_off(..bits.div_ceil(8) as usize)?;
            let number = value
                .iter()
                .rev()
                .fold(0, |number, &byte| number << 8 | u32::from(byte));
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
                take(
                    (from..from + bits as usize)
                        .rev()
                        .fold(0, |number, at| number << 1 | bit(at)),
                    1,
                )?;
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

/// Goes through the pages of a column of so many rows, and no more. For a column in which values
/// may be missing, `are` is told of which rows they are there.
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
        Page::DictionaryPage {
            buf, num_values, ..
        } => take(Data::Dictionary(buf, *num_values as usize)),
        Page::DataPage {
            buf,
            num_values,
            encoding,
            def_level_encoding,
            ..
        } => {
            let (mut bytes, rows) = (&buf[..], *num_values as usize);
            let mut values = rows;
            if is_optional {
                let len = u32::from_le_bytes(*bytes.split_off(..4)?.first_chunk()?);
                let levels = bytes
                    .split_off(..len as usize)
                    .filter(|_| *def_level_encoding == Encoding::RLE)?;
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

pub(in crate::catalog) fn damaged() -> ParquetError {
    ParquetError::General("a page of a column makes no sense".to_owned())
}

/// Reads a column of numbers, or of bytes that are as many for each value; for each row, or for
/// those that have one. `are` is told of which rows they are.
pub(in crate::catalog) fn numbers<const N: usize, T: Copy>(
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
            into.extend(
                bytes
                    .as_chunks()
                    .0
                    .get(..values)?
                    .iter()
                    .map(|value| of(*value)),
            );
            Some(())
        };
        match data {
            Data::Dictionary(bytes, values) => some(bytes, values, &mut dictionary),
            Data::Plain(bytes, values) => some(bytes, values, into),
            Data::Numbers(bytes, bits, values) => runs(bytes, bits, values, |number, times| {
                into.extend(std::iter::repeat_n(
                    *dictionary.get(number as usize)?,
                    times,
                ));
                Some(())
            }),
        }
    })
}

/// Reads a column of what is so or not, a bit for each: for each row, or for those that have one,
/// of which `are` is told.
pub(in crate::catalog) fn flags(
    pages: &mut dyn PageReader,
    rows: usize,
    is_optional: bool,
    are: impl FnMut(bool, usize),
    mut take: impl FnMut(bool),
) -> Result<()> {
    each_page(pages, rows, is_optional, are, |data| match data {
        Data::Plain(bytes, values) if bytes.len() >= values.div_ceil(8) => {
            (0..values).for_each(|nth| take(bytes[nth / 8] >> (nth % 8) & 1 == 1));
            Some(())
        }
        _ => None,
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
    pub(in crate::catalog) fn read(pages: &mut dyn PageReader, rows: usize) -> Result<Names> {
        let (mut names, mut dictionary) = (Names::default(), Vec::new());
        each_page(
            pages,
            rows,
            false,
            |_, _| {},
            |data| {
                let Names { bytes, places } = &mut names;
                match data {
                    Data::Dictionary(some, values) => {
                        add_places(some, values, bytes, &mut dictionary)
                    }
                    Data::Plain(some, values) => add_places(some, values, bytes, places),
                    Data::Numbers(some, bits, values) => {
                        runs(some, bits, values, |number, times| {
                            places.extend(std::iter::repeat_n(
                                *dictionary.get(number as usize)?,
                                times,
                            ));
                            Some(())
                        })
                    }
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
fn add_places(
    some: &[u8],
    values: usize,
    bytes: &mut Vec<u8>,
    places: &mut Vec<(usize, usize)>,
) -> Option<()> {
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
