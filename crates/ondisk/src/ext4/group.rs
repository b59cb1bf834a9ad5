//! Group descriptors: the inode table of each block group, and how many of its inodes were ever
//! used.

use super::bytes::{crc32c, le16, wide64};
use super::features::{BITS64, GDT_CSUM, METADATA_CSUM};
use super::superblock::Superblock;

/// The inode table of a block group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Group {
    /// Offset of the table on the device, in bytes.
    pub table: u64,
    /// Number of inodes at the start of the table, beyond which none was ever used.
    pub used: u32,
}

/// Parses the descriptor of a group. `None` if its table would lie outside the file system.
///
/// A descriptor with a wrong checksum is damaged or was being written; the whole table then counts
/// as used.
pub fn parse(superblock: &Superblock, group: u32, bytes: &[u8]) -> Option<Group> {
    const INODE_UNINIT: u16 = 0x1;
    let bytes = bytes.get(..superblock.descriptor_size as usize)?;
    let wide = superblock.has(BITS64);
    let table = wide64(bytes, 0x8, wide.then_some(0x28));
    let table_bytes = u64::from(superblock.inodes_per_group) * u64::from(superblock.inode_size);
    let end = table.checked_add(table_bytes.div_ceil(u64::from(superblock.block_size)))?;
    if table <= superblock.first_block || end > superblock.blocks {
        return None;
    }
    let unused = u32::from(le16(bytes, 0x1c))
        | if wide {
            u32::from(le16(bytes, 0x32)) << 16
        } else {
            0
        };
    let used = if checksum(superblock, group, bytes) != Some(le16(bytes, 0x1e)) {
        superblock.inodes_per_group
    } else if le16(bytes, 0x12) & INODE_UNINIT != 0 {
        0
    } else {
        superblock.inodes_per_group.saturating_sub(unused)
    };
    Some(Group {
        table: table * u64::from(superblock.block_size),
        used,
    })
}

/// The expected checksum of a descriptor; `None` in a file system without descriptor checksums,
/// where the count of unused inodes is not valid either.
fn checksum(superblock: &Superblock, group: u32, bytes: &[u8]) -> Option<u16> {
    const AT: usize = 0x1e;
    let (before, after) = (bytes.get(..AT)?, bytes.get(AT + 2..)?);
    if superblock.has(METADATA_CSUM) {
        let crc = crc32c(superblock.seed, &group.to_le_bytes());
        Some(crc32c(crc32c(crc32c(crc, before), &[0; 2]), after) as u16)
    } else if superblock.has(GDT_CSUM) {
        let after = if superblock.has(BITS64) { after } else { &[] };
        let parts = [&superblock.uuid[..], &group.to_le_bytes(), before, after];
        Some(parts.into_iter().fold(!0, crc16))
    } else {
        None
    }
}

/// CRC-16 with the polynomial 0x8005, bits reflected.
fn crc16(crc: u16, bytes: &[u8]) -> u16 {
    bytes.iter().fold(crc, |crc, &byte| {
        (0..8).fold(crc ^ u16::from(byte), |crc, _| {
            if crc & 1 == 0 {
                crc >> 1
            } else {
                crc >> 1 ^ 0xa001
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::superblock::tests::plain;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn crc16_gives_the_check_value_of_crc_16_arc() {
        assert_eq!(crc16(0, b"123456789"), 0xbb3d);
    }

    #[test]
    fn without_a_checksum_the_whole_table_counts_as_used() {
        let superblock = Superblock::parse(&plain()).unwrap();
        let mut bytes = [0; 64];
        bytes[0x8] = 35;
        bytes[0x1c] = 50;
        assert_eq!(
            parse(&superblock, 0, &bytes),
            Some(Group {
                table: 35 * 4096,
                used: 64
            })
        );
        bytes[0x9] = 0xff;
        assert_eq!(parse(&superblock, 0, &bytes), None);
        assert_eq!(parse(&superblock, 0, &bytes[..32]), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80), group: u32) {
            let superblock = Superblock::parse(&plain()).unwrap();
            if let Some(found) = parse(&superblock, group, &bytes) {
                prop_assert!(found.used <= 64 && found.table < 2048 * 4096);
            }
        }
    }
}
