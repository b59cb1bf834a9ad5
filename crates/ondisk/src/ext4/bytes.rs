//! Little-endian integers, and the checksum of ext4 metadata.

/// Defines a function that reads an integer at an offset. Callers check the length beforehand;
/// beyond the end the function returns zero.
macro_rules! little_endian {
    ($name:ident, $t:ty) => {
        #[inline(always)]
        pub(super) fn $name(bytes: &[u8], at: usize) -> $t {
            bytes
                .get(at..)
                .and_then(|rest| rest.first_chunk())
                .map_or(0, |chunk| <$t>::from_le_bytes(*chunk))
        }
    };
}
little_endian!(le16, u16);
little_endian!(le32, u32);

/// A 64-bit number in two halves. The high half is ignored unless the file system has it.
pub(super) fn wide64(bytes: &[u8], low: usize, high: Option<usize>) -> u64 {
    u64::from(le32(bytes, low)) | high.map_or(0, |high| u64::from(le32(bytes, high)) << 32)
}

/// CRC-32C as the kernel computes it, without the initial and final inversion.
#[inline]
pub(super) fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
    !crc32c::crc32c_append(!crc, bytes)
}
