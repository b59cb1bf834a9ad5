//! The checksum of the footer: of all that is in the file after the row groups, where they are and
//! what they are of included. Whoever has that right has the checksums of the columns, and so of
//! every byte.
//!
//! It stands in what the catalog says of itself, which is in the footer: so it is of the footer
//! with noughts in its place.

use std::ops::Range;

/// The member that has it.
pub(super) const MEMBER: &str = "checksum";

/// What stands in its place while it is made: eight digits.
pub(super) const NOTHING: &str = "00000000";

/// Where its digits are. No name could be taken for it: within one, JSON has a backslash before
/// each quotation mark.
fn place(footer: &[u8]) -> Option<Range<usize>> {
    let before = format!("\"{MEMBER}\":\"");
    let is_it = |at: &usize| footer[*at] == b'"' && footer[*at..].starts_with(before.as_bytes());
    let at = (0..footer.len()).rev().find(is_it)? + before.len();
    Some(at..at + NOTHING.len()).filter(|place| place.end <= footer.len())
}

fn digits(footer: &mut [u8], place: Range<usize>) -> String {
    footer[place].copy_from_slice(NOTHING.as_bytes());
    format!("{:08x}", crc32fast::hash(footer))
}

/// Enters it.
pub(super) fn seal(footer: &mut [u8]) {
    if let Some(place) = place(footer) {
        let digits = digits(footer, place.clone());
        footer[place].copy_from_slice(digits.as_bytes());
    }
}

/// Whether it is right; `None` where there is none.
pub(super) fn is_right(footer: &[u8]) -> Option<bool> {
    let place = place(footer)?;
    let mut bare = footer.to_vec();
    Some(digits(&mut bare, place.clone()).as_bytes() == &footer[place])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_other_bit_is_noticed() {
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
