//! The result of FS_IOC_GETFSMAP: the owners of the space of a device.
//! [ioctl_getfsmap(2)](https://man7.org/linux/man-pages/man2/ioctl_getfsmap.2.html)

use crate::{u32_at, u64_at};

/// A range of a device and its owner: a `struct fsmap`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// Offset on the device, in bytes.
    pub physical: u64,
    /// Length of the range in bytes.
    pub length: u64,
    /// Inode number of the file whose data or metadata is in the range; `None` for metadata of the
    /// file system itself, and if the owner is unknown.
    pub ino: Option<u64>,
    /// The owner of the range, if it is not a file.
    pub special: Option<SpecialOwner>,
}

/// An owner of space other than a file: the values of `fmr_owner` of XFS and ext4.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpecialOwner {
    /// Free space.
    Free,
    /// Space in use whose owner the file system does not know.
    Unknown,
    /// Superblocks and other static metadata.
    FileSystem,
    /// The journal.
    Log,
    /// XFS: the trees of free space and of reverse mappings.
    FreeSpaceTrees,
    /// XFS: the inode btrees.
    InodeTrees,
    /// Inode tables (ext4) or inode chunks (XFS).
    Inodes,
    /// XFS: the reference count btree.
    ReferenceCounts,
    /// XFS: staging space for copy-on-write.
    CopyOnWrite,
    /// Any other owner, such as bitmaps.
    Other,
}

impl SpecialOwner {
    fn parse(owner: u64) -> SpecialOwner {
        const XFS: u64 = b'X' as u64;
        // `FMR_OWNER(type, code)` of linux/fsmap.h
        match (owner >> 32, owner & 0xffff_ffff) {
            (0, 1) => SpecialOwner::Free,
            (0, 2) => SpecialOwner::Unknown,
            (XFS, 1) => SpecialOwner::FileSystem,
            (XFS, 2) => SpecialOwner::Log,
            (XFS, 3) => SpecialOwner::FreeSpaceTrees,
            (XFS, 4) => SpecialOwner::InodeTrees,
            (XFS, 5) => SpecialOwner::Inodes,
            (XFS, 6) => SpecialOwner::ReferenceCounts,
            (XFS, 7) => SpecialOwner::CopyOnWrite,
            _ => SpecialOwner::Other,
        }
    }
}

impl Record {
    const LEN: usize = 64;
}

/// Parses the records after the head of a buffer that the kernel has filled, at most `count`.
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
            special: is_special.then(|| SpecialOwner::parse(owner)),
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
        let special = [record(0x10, 1), record(0x10, 0x58_0000_0002)].concat();
        let special: Vec<_> = parse(&special, 2).map(|record| record.special).collect();
        assert_eq!(special, [Some(SpecialOwner::Free), Some(SpecialOwner::Log)]);
    }

    proptest! {
        #[test]
        fn no_buffer_makes_it_panic(bytes: Vec<u8>, count: usize) {
            prop_assert!(parse(&bytes, count).count() <= bytes.len() / Record::LEN);
        }
    }
}
