//! The checksum of an inode, for which the two checksum fields count as zero. Computing the CRC
//! over the whole inode and then removing the contribution of these fields takes half the time of
//! computing the CRC in pieces. This is possible because a CRC is linear.

use super::bytes::{crc32c, le16};

/// Offset of the lower half of the checksum in an inode.
const LOW: usize = 0x7c;
/// Offset of the upper half of the checksum, which only long inodes have.
const HIGH: usize = 0x82;

/// The contribution of each value of the four checksum bytes to the CRC.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct CrcContributions(Box<[[u32; 256]; 4]>);

impl CrcContributions {
    /// Computes the contributions for inodes of `size` bytes.
    pub(super) fn new(size: u32) -> CrcContributions {
        let mut tables = Box::new([[0; 256]; 4]);
        for (table, offset) in tables.iter_mut().zip([LOW, LOW + 1, HIGH, HIGH + 1]) {
            let mut raw = vec![0; (size as usize).saturating_sub(offset)];
            for (value, contribution) in (0..=u8::MAX).zip(table) {
                if let Some(byte) = raw.first_mut() {
                    *byte = value;
                    *contribution = crc32c(0, &raw);
                }
            }
        }
        CrcContributions(tables)
    }

    /// Whether the checksum of an inode is right. `has_high`: the inode has the upper half.
    #[inline]
    pub(super) fn checksum_holds(&self, raw: &[u8], seed: u32, has_high: bool) -> bool {
        let low = le16(raw, LOW);
        let high = if has_high { le16(raw, HIGH) } else { 0 };
        let ([a, b], [c, d]) = (low.to_le_bytes(), high.to_le_bytes());
        let [table_a, table_b, table_c, table_d] = &*self.0;
        let crc = crc32c(seed, raw)
            ^ table_a[usize::from(a)]
            ^ table_b[usize::from(b)]
            ^ table_c[usize::from(c)]
            ^ table_d[usize::from(d)];
        if has_high {
            crc == u32::from(low) | u32::from(high) << 16
        } else {
            crc & 0xffff == u32::from(low)
        }
    }
}

impl std::fmt::Debug for CrcContributions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Contributions")
    }
}
