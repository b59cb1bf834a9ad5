//! The result of FS_IOC_GETFSMAP: who owns the space of a device.
//! [ioctl_getfsmap(2)](https://man7.org/linux/man-pages/man2/ioctl_getfsmap.2.html)

use crate::{u32_at, u64_at};

/// A `struct fsmap`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// Offset on the device, in bytes.
    pub physical: u64,
    /// In bytes.
    pub length: u64,
    /// The inode number of the file whose data or metadata it is; `None` for metadata of the file
    /// system itself, and where the file system does not know.
    pub ino: Option<u64>,
}

impl Record {
    const LEN: usize = 64;
}

/// The records that follow the head of a buffer that the kernel has filled, at most `count`.
pub fn parse(records: &[u8], count: usize) -> impl Iterator<Item = Record> {
    const FMR_OF_SPECIAL_OWNER: u32 = 0x10;
    let records = records.chunks_exact(Record::LEN).take(count);
    records.filter_map(|record| {
        let owner = u64_at(record, 16)?;
        let is_special = u32_at(record, 4)? & FMR_OF_SPECIAL_OWNER != 0;
        Some(Record {
            physical: u64_at(record, 8)?,
            length: u64_at(record, 32)?,
            ino: (!is_special).then_some(owner),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn owners_are_inodes_unless_they_are_special() {
        let record = |flags: u32, owner: u64| {
            let mut bytes = [0; Record::LEN];
            bytes[4..8].copy_from_slice(&flags.to_ne_bytes());
            for (at, value) in [(8, 4096), (16, owner), (32, 8192)] {
                bytes[at..at + 8].copy_from_slice(&u64::to_ne_bytes(value));
            }
            bytes
        };
        let bytes = [record(0x20, 133), record(0x10, 1), record(0, 7)].concat();
        let inos: Vec<_> = parse(&bytes, 2).map(|record| record.ino).collect();
        assert_eq!(inos, [Some(133), None]);
        let first = parse(&bytes, 1).next().unwrap();
        assert_eq!((first.physical, first.length), (4096, 8192));
    }

    proptest! {
        #[test]
        fn no_buffer_makes_it_panic(bytes: Vec<u8>, count: usize) {
            prop_assert!(parse(&bytes, count).count() <= bytes.len() / Record::LEN);
        }
    }
}
