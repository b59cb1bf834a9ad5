//! Fields of a header block: their ranges, and the encoding of numbers.

use std::ops::Range;

/// Block size in bytes: a header is a block, and data is padded to whole blocks.
pub const BLOCK: usize = 512;

pub(super) const NAME: Range<usize> = 0..100;
pub(super) const MODE: Range<usize> = 100..108;
pub(super) const UID: Range<usize> = 108..116;
pub(super) const GID: Range<usize> = 116..124;
pub(super) const SIZE: Range<usize> = 124..136;
pub(super) const MTIME: Range<usize> = 136..148;
const SUM: Range<usize> = 148..156;
pub(super) const TYPE: usize = 156;
pub(super) const LINK: Range<usize> = 157..257;
/// The magic of a header: [`POSIX`], or [`GNU`] as GNU tar wrote it before pax.
pub(super) const MAGIC: Range<usize> = 257..265;
pub(super) const UNAME: Range<usize> = 265..297;
pub(super) const GNAME: Range<usize> = 297..329;
pub(super) const MAJOR: Range<usize> = 329..337;
pub(super) const MINOR: Range<usize> = 337..345;
pub(super) const PREFIX: Range<usize> = 345..500;

pub(super) const POSIX: &[u8; 8] = b"ustar\x0000";
pub(super) const GNU: &[u8; 8] = b"ustar  \0";

/// Fields of GNU's headers in place of the prefix: times, and the first extents of a sparse file.
pub(super) mod gnu {
    use std::ops::Range;

    pub(in crate::pax) const ATIME: Range<usize> = 345..357;
    pub(in crate::pax) const CTIME: Range<usize> = 357..369;
    pub(in crate::pax) const EXTENTS: Range<usize> = 386..482;
    pub(in crate::pax) const IS_EXTENDED: usize = 482;
    pub(in crate::pax) const REAL_SIZE: Range<usize> = 483..495;
    /// Range of the extents in a block that has only extents, after the header.
    pub(in crate::pax) const MORE_EXTENTS: Range<usize> = 0..504;
    pub(in crate::pax) const IS_EXTENDED_FURTHER: usize = 504;
    /// Length of an extent in a header: offset and length of 12 bytes each.
    pub(in crate::pax) const EXTENT: usize = 24;
}

/// Fields of star's headers: a shorter prefix, and the first extents of a sparse file in its place.
pub(super) mod star {
    use std::ops::Range;

    pub(in crate::pax) const PREFIX: Range<usize> = 345..476;
    pub(in crate::pax) const IS_EXTENDED: usize = 355;
    pub(in crate::pax) const EXTENTS: Range<usize> = 356..452;
    pub(in crate::pax) const REAL_SIZE: Range<usize> = 452..464;
    pub(in crate::pax) const MAGIC: Range<usize> = 508..512;
}

pub(super) type Block = [u8; BLOCK];

/// The checksum of a header, in which the checksum field counts as blanks: as a sum of unsigned
/// bytes (POSIX), and of signed bytes (some old programs).
fn sums(block: &Block) -> (i64, i64) {
    let mut sums = (0, 0);
    for (at, &byte) in block.iter().enumerate() {
        let byte = if SUM.contains(&at) { b' ' } else { byte };
        sums.0 += i64::from(byte);
        sums.1 += i64::from(byte.cast_signed());
    }
    sums
}

pub(super) fn sum_is_right(block: &Block) -> bool {
    let (unsigned, signed) = sums(block);
    number(&block[SUM]).is_some_and(|sum| sum == unsigned || sum == signed)
}

/// Writes the checksum of an otherwise complete header.
pub(super) fn put_sum(block: &mut Block) {
    block[SUM].fill(b' ');
    // Sum the bytes at even and odd positions in pairs of 16-bit sums, which 64 words of 8 bytes
    // cannot overflow: this takes a third of the time of a sum byte by byte.
    const EVEN: u64 = 0x00ff_00ff_00ff_00ff;
    let words = block.as_chunks().0.iter();
    let sums: u64 = words
        .map(|&word| u64::from_ne_bytes(word))
        .map(|word| (word & EVEN) + (word >> 8 & EVEN))
        .sum();
    let sum = (0..4).map(|lane| sums >> (16 * lane) & 0xffff).sum();
    put(block, 148..155, sum);
    block[155] = b' ';
}

/// Writes a number in octal, followed by a NUL; the largest possible one if it does not fit.
pub(super) fn put(block: &mut Block, field: Range<usize>, value: u64) {
    let Some((end, digits)) = block.get_mut(field).and_then(<[u8]>::split_last_mut) else {
        return;
    };
    *end = 0;
    let most = u64::MAX >> (u64::BITS as usize).saturating_sub(3 * digits.len());
    let mut value = value.min(most);
    for eight in digits.rchunks_mut(8) {
        let octal = octal(value);
        eight.copy_from_slice(&octal[8 - eight.len()..]);
        value >>= 24;
    }
}

/// The last eight octal digits of a number, by moving bits in halves: 12, 6, then 3 of them.
fn octal(value: u64) -> [u8; 8] {
    let halves = (value & 0xff_f000) << 20 | value & 0xfff;
    let quarters = (halves & 0xfc0_0000_0fc0) << 10 | halves & 0x3f_0000_003f;
    let digits = (quarters & 0x38_0038_0038_0038) << 5 | quarters & 0x07_0007_0007_0007;
    (digits | u64::from_ne_bytes([b'0'; 8])).to_be_bytes()
}

/// Writes as many bytes as fit into a field.
pub(super) fn put_bytes(block: &mut Block, field: Range<usize>, bytes: &[u8]) {
    let len = bytes.len().min(field.len());
    block[field][..len].copy_from_slice(&bytes[..len]);
}

/// The largest number that fits into a header field.
pub(super) const fn most(field: &Range<usize>) -> u64 {
    u64::MAX >> (u64::BITS as usize - 3 * (field.end - field.start - 1))
}

/// Parses the number in a field: octal digits between blanks and NULs, or GNU tar's format for
/// large numbers, two's complement after a marker bit. A blank field is 0.
pub(super) fn number(field: &[u8]) -> Option<i64> {
    let (&first, rest) = field.split_first()?;
    if first & 0x80 != 0 {
        let sign = if first & 0x40 != 0 { -1 } else { 0 };
        let start = sign << 6 | i128::from(first & 0x3f);
        // A field has at most 12 bytes: the number has 95 bits.
        return i64::try_from(
            rest.iter()
                .fold(start, |value, &byte| value << 8 | i128::from(byte)),
        )
        .ok();
    }
    // A leading NUL may end the previous field; after a second one there is no number.
    let field = if first == 0 { rest } else { field };
    let is_blank = |byte: &u8| matches!(byte, b' ' | 0);
    let from = field
        .iter()
        .position(|&byte| byte != b' ')
        .unwrap_or(field.len());
    let end = field[from..]
        .iter()
        .position(is_blank)
        .map_or(field.len(), |len| from + len);
    let (digits, tail) = (&field[from..end], &field[end..]);
    if !tail.iter().all(is_blank) && !tail.starts_with(b"\0") {
        return None;
    }
    digits.iter().try_fold(0i64, |value, &digit| match digit {
        b'0'..=b'7' => value.checked_mul(8)?.checked_add((digit - b'0').into()),
        _ => None,
    })
}

/// The text in a header field: up to the first NUL.
pub(super) fn text(field: &[u8]) -> &[u8] {
    field.split(|&byte| byte == 0).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_octal_or_binary() {
        assert_eq!(number(b"0000644\0"), Some(0o644));
        assert_eq!(number(b"   644 \0"), Some(0o644));
        assert_eq!(number(b"00000000017"), Some(0o17));
        assert_eq!(number(b"\0\0\0\0\0\0\0\0"), Some(0));
        assert_eq!(number(b"        "), Some(0));
        assert_eq!(number(b"12\0garbage"), Some(0o12));
        assert_eq!(number(b"\x0012 "), Some(0o12));
        assert_eq!(number(b"\0\x0012 "), Some(0));
        assert_eq!(number(b"\x80\0\0\0\0\0\0\x02\0\0\0\0"), Some(8 << 30));
        assert_eq!(
            number(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe"),
            Some(-2)
        );
        assert_eq!(number(b"\x80\0\0\0\xff\0\0\x02\0\0\0\0"), None);
        for bad in [&b"8"[..], b"-1", b"12 3", b"0x1", b""] {
            assert_eq!(number(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn too_large_numbers_become_the_largest() {
        let mut block = [b'x'; BLOCK];
        put(&mut block, UID, 0o7777777);
        assert_eq!(&block[UID], b"7777777\0");
        put(&mut block, UID, most(&UID) + 1);
        assert_eq!(&block[UID], b"7777777\0");
        put(&mut block, SIZE, 8 << 30);
        assert_eq!(number(&block[SIZE]), Some((8 << 30) - 1));
        assert_eq!(most(&SIZE), (8 << 30) - 1);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(field in proptest::collection::vec(any::<u8>(), 0..13)) {
            number(&field);
        }

        #[test]
        fn a_written_number_is_read_back(value in 0..=most(&SIZE)) {
            let mut block = [0; BLOCK];
            put(&mut block, SIZE, value);
            prop_assert_eq!(number(&block[SIZE]), Some(value.cast_signed()));
            put_sum(&mut block);
            prop_assert!(sum_is_right(&block));
            block[SIZE.start] ^= 1;
            prop_assert!(!sum_is_right(&block));
        }

        #[test]
        fn the_sum_of_any_header_is_right(byte: u8, bytes in proptest::collection::vec(any::<u8>(), BLOCK)) {
            for mut block in [[byte; BLOCK], bytes.try_into().unwrap()] {
                put_sum(&mut block);
                prop_assert!(sum_is_right(&block));
            }
        }
    }
}
