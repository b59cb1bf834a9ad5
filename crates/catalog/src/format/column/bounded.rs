//! Reads column pages written by another program, within limits. The parquet crate allocates memory
//! for the sizes and numbers of values that a page claims, before it reads a value.

use std::io::Read;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use ondisk::varint;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::Result;

use super::decode::damaged;

/// Maximum size of a page in DELTA_BYTE_ARRAY encoding. Each value shares a prefix with the
/// previous value, so every value may be as long as the page.
const DELTA_PAGE: usize = 4 << 20;

/// A reader of pages that decompresses them within limits.
pub(in crate::format) struct BoundedPages<P> {
    /// The reader of the stored, compressed pages.
    pub(in crate::format) stored: P,
    pub(in crate::format) codec: Compression,
    pub(in crate::format) is_optional: bool,
    pub(in crate::format) rows: usize,
    /// Maximum total size of the remaining pages after decompression.
    pub(in crate::format) left: usize,
}

impl<P: PageReader> BoundedPages<P> {
    fn check(&mut self, mut page: Page) -> Option<Page> {
        let rows = self.rows;
        if page.num_values() as usize > rows {
            return None;
        }
        let levels = match &mut page {
            Page::DictionaryPage { buf, .. } => {
                *buf = self.decompress(&[], buf)?;
                0
            }
            Page::DataPage { buf, .. } => {
                *buf = self.decompress(&[], buf)?;
                match self.is_optional {
                    true => u32::from_le_bytes(*buf.first_chunk()?) as usize + 4,
                    false => 0,
                }
            }
            Page::DataPageV2 {
                buf,
                def_levels_byte_len: definition,
                rep_levels_byte_len: repetition,
                is_compressed,
                ..
            } => {
                let levels = (*definition as usize).checked_add(*repetition as usize)?;
                let (before, packed) = buf.split_at_checked(levels)?;
                if std::mem::take(is_compressed) && !packed.is_empty() {
                    *buf = self.decompress(before, packed)?;
                }
                levels
            }
        };
        let values = page.buffer().get(levels..)?;
        check_values(page.encoding(), values, rows)?;
        Some(page)
    }

    /// Decompresses a page and puts the uncompressed bytes `before` in front.
    fn decompress(&mut self, before: &[u8], packed: &[u8]) -> Option<Bytes> {
        let mut bytes = before.to_vec();
        let most = self.left;
        let mut read = |from: &mut dyn Read| {
            let mut from = from.take(most as u64 + 1);
            from.read_to_end(&mut bytes).ok().map(drop)
        };
        match self.codec {
            Compression::UNCOMPRESSED => bytes.extend_from_slice(packed),
            Compression::ZSTD(_) => read(&mut zstd::Decoder::with_buffer(packed).ok()?)?,
            Compression::GZIP(_) => read(&mut MultiGzDecoder::new(packed))?,
            Compression::SNAPPY => {
                let size = snap::raw::decompress_len(packed).ok()?;
                (size <= most).then_some(())?;
                bytes.extend(snap::raw::Decoder::new().decompress_vec(packed).ok()?);
            }
            Compression::LZ4_RAW => {
                /// Maximum compression ratio of LZ4.
                const RATIO: usize = 255;
                let room = most.min(packed.len().saturating_mul(RATIO));
                let mut room = vec![0; room];
                let size = lz4_flex::block::decompress_into(packed, &mut room).ok()?;
                bytes.extend_from_slice(&room[..size]);
            }
            _ => return None,
        }
        self.left = most.checked_sub(bytes.len())?;
        Some(bytes.into())
    }
}

/// Checks the lengths stored within a page's values.
fn check_values(encoding: Encoding, mut values: &[u8], rows: usize) -> Option<()> {
    match encoding {
        Encoding::DELTA_LENGTH_BYTE_ARRAY => skip_deltas(&mut values, rows),
        Encoding::DELTA_BYTE_ARRAY if values.len() > DELTA_PAGE => None,
        Encoding::DELTA_BYTE_ARRAY => {
            skip_deltas(&mut values, rows)?;
            skip_deltas(&mut values, rows)
        }
        _ => Some(()),
    }
}

/// Skips a DELTA_BINARY_PACKED sequence. `None` if the sequence has more numbers than the row group
/// has rows, or fewer numbers than it claims.
fn skip_deltas(bytes: &mut &[u8], rows: usize) -> Option<()> {
    let mut number = || varint::take(bytes).and_then(|number| usize::try_from(number).ok());
    let (block, parts, values) = (number()?, number()?, number()?);
    let _first = number()?;
    (values <= rows).then_some(())?;
    let of_part = block.checked_div(parts)?;
    let mut left = values.saturating_sub(1);
    while left > 0 {
        let _least = varint::take(bytes)?;
        let widths = bytes.split_off(..parts)?;
        for &width in widths {
            if left == 0 {
                break;
            }
            let size = of_part.checked_mul(width.into())? / 8;
            bytes.split_off(..size.min(bytes.len()))?;
            left = left.saturating_sub(of_part);
        }
        // An empty block would cause an endless loop.
        (of_part > 0).then_some(())?;
    }
    Some(())
}

impl<P: PageReader> Iterator for BoundedPages<P> {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Result<Page>> {
        self.get_next_page().transpose()
    }
}

impl<P: PageReader> PageReader for BoundedPages<P> {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.stored.get_next_page()?;
        page.map(|page| self.check(page).ok_or_else(damaged))
            .transpose()
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.stored.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.stored.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.stored.at_record_boundary()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// A page reader with a single page.
    struct Stored(Option<Page>);

    impl Iterator for Stored {
        type Item = Result<Page>;

        fn next(&mut self) -> Option<Result<Page>> {
            self.0.take().map(Ok)
        }
    }

    impl PageReader for Stored {
        fn get_next_page(&mut self) -> Result<Option<Page>> {
            Ok(self.0.take())
        }

        fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
            Ok(None)
        }

        fn skip_next_page(&mut self) -> Result<()> {
            Ok(())
        }
    }

    fn page(values: &[u8], encoding: Encoding) -> Page {
        Page::DataPage {
            buf: Bytes::copy_from_slice(values),
            num_values: 10,
            encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        }
    }

    fn read(page: Page, codec: Compression, rows: usize, left: usize) -> Option<usize> {
        let mut pages = BoundedPages {
            stored: Stored(Some(page)),
            codec,
            is_optional: false,
            rows,
            left,
        };
        let page = pages.get_next_page().ok()?;
        page.map(|page| page.buffer().len())
    }

    #[test]
    fn pages_have_no_more_bytes_than_the_column() {
        let zeros = vec![0; 1 << 20];
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(&zeros).unwrap();
        for (codec, packed) in [
            (Compression::UNCOMPRESSED, zeros.clone()),
            (
                Compression::ZSTD(Default::default()),
                zstd::bulk::compress(&zeros, 1).unwrap(),
            ),
            (
                Compression::GZIP(Default::default()),
                gzip.finish().unwrap(),
            ),
            (
                Compression::SNAPPY,
                snap::raw::Encoder::new().compress_vec(&zeros).unwrap(),
            ),
            (Compression::LZ4_RAW, lz4_flex::block::compress(&zeros)),
        ] {
            let page = page(&packed, Encoding::PLAIN);
            assert_eq!(
                read(page.clone(), codec, 10, 1 << 20),
                Some(1 << 20),
                "{codec:?}"
            );
            assert_eq!(
                read(page.clone(), codec, 10, (1 << 20) - 1),
                None,
                "{codec:?}"
            );
            assert_eq!(read(page, codec, 9, 1 << 20), None, "more values than rows");
        }
    }

    #[test]
    fn lengths_of_values_are_no_more_than_rows() {
        // A DELTA_BINARY_PACKED sequence: blocks of 128 values in 4 parts, ten values, the first is
        // 0; the minimum delta is 0, and each part has 0 bits per value.
        let ten = [128, 1, 4, 10, 0, 0, 0, 0, 0, 0];
        // The largest number of values that 63 bits can claim.
        let claim = [&[128, 1, 4][..], &[255; 8], &[127, 0, 0, 0, 0, 0, 0]].concat();
        let check = |encoding, values: &[u8]| {
            read(
                page(values, encoding),
                Compression::UNCOMPRESSED,
                10,
                1 << 30,
            )
            .is_some()
        };
        let twice = [ten, ten].concat();
        let later = [&ten[..], &claim].concat();
        assert!(check(Encoding::DELTA_LENGTH_BYTE_ARRAY, &ten));
        assert!(!check(Encoding::DELTA_LENGTH_BYTE_ARRAY, &claim));
        assert!(check(Encoding::DELTA_BYTE_ARRAY, &twice));
        assert!(!check(Encoding::DELTA_BYTE_ARRAY, &claim));
        assert!(!check(Encoding::DELTA_BYTE_ARRAY, &later));
        let long = [&twice[..], &vec![0; DELTA_PAGE]].concat();
        assert!(!check(Encoding::DELTA_BYTE_ARRAY, &long));
    }
}
