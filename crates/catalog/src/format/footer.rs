//! The checksum of the footer: a CRC-32 of everything after the column chunks, including the
//! offsets and checksums of the chunks. So the checksum covers every byte of the file.
//!
//! The checksum is a member of the description in the same footer, and is computed with zeros in
//! place of its digits.

use std::ops::Range;

use parquet::errors::Result;
use parquet::file::metadata::{FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataWriter};

/// Placeholder digits while the checksum is computed.
pub(super) const ZEROS: &str = "00000000";

/// The position of the checksum's digits. No file name in the footer can look like the checksum
/// member, because JSON escapes quotation marks in strings.
fn place(footer: &[u8]) -> Option<Range<usize>> {
    const BEFORE: &[u8] = b"\"checksum\":\"";
    let at = footer.windows(BEFORE.len()).rposition(|w| w == BEFORE)? + BEFORE.len();
    Some(at..at + ZEROS.len()).filter(|place| place.end <= footer.len())
}

fn digits(footer: &mut [u8], place: Range<usize>) -> String {
    footer[place].copy_from_slice(ZEROS.as_bytes());
    format!("{:08x}", crc32fast::hash(footer))
}

/// Sets the checksum in the footer.
pub(super) fn seal(footer: &mut [u8]) {
    if let Some(place) = place(footer) {
        let digits = digits(footer, place.clone());
        footer[place].copy_from_slice(digits.as_bytes());
    }
}

/// The footer of a file with the same row groups and a new description.
pub(super) fn describe(metadata: &ParquetMetaData, description: KeyValue) -> Result<Vec<u8>> {
    let file = metadata.file_metadata();
    let mut pairs = file.key_value_metadata().cloned().unwrap_or_default();
    pairs.retain(|pair| pair.key != description.key);
    pairs.push(description);
    let file = FileMetaData::new(
        file.version(),
        file.num_rows(),
        file.created_by().map(str::to_owned),
        Some(pairs),
        file.schema_descr_ptr(),
        file.column_orders().cloned(),
    );
    let metadata = ParquetMetaData::new(file, metadata.row_groups().to_vec());
    let mut footer = Vec::new();
    ParquetMetaDataWriter::new(&mut footer, &metadata).finish()?;
    seal(&mut footer);
    Ok(footer)
}

/// Whether the footer's checksum is right; `None` if the footer has no checksum.
pub(super) fn is_right(footer: &[u8]) -> Option<bool> {
    let place = place(footer)?;
    let mut bare = footer.to_vec();
    Some(digits(&mut bare, place.clone()).as_bytes() == &footer[place])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_is_detected() {
        let mut footer =
            b"before {\"name\":\"\\\"checksum\\\":\\\"x\",\"checksum\":\"00000000\"} after"
                .to_vec();
        seal(&mut footer);
        assert_eq!(is_right(&footer), Some(true));
        for bit in 0..footer.len() * 8 {
            let mut other = footer.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(
                is_right(&other),
                Some(true),
                "{}",
                String::from_utf8_lossy(&other)
            );
        }
        assert_eq!(is_right(b"{\"checksum\":\"1234"), None);
        assert_eq!(is_right(b""), None);
    }
}
