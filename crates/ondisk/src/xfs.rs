//! XFS: `struct xfs_fsop_geom` and `struct xfs_bulkstat` of xfs_fs.h.
//! [ioctl_xfs_fsgeometry(2)](https://man7.org/linux/man-pages/man2/ioctl_xfs_fsop_geometry.2.html),
//! [ioctl_xfs_bulkstat(2)](https://man7.org/linux/man-pages/man2/ioctl_xfs_bulkstat.2.html)

use crate::{Dev, Time, u16_at, u32_at, u64_at};

/// The geometry of an XFS file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Block size in bytes: a power of two.
    pub block: u32,
    /// Number of allocation groups, at least one.
    pub groups: u32,
    /// Inode size in bytes.
    pub inode: u32,
    /// Number of blocks of the data device.
    pub blocks: u64,
    /// Number of blocks of the journal on the data device; 0 if the journal is on a separate
    /// device.
    pub log_blocks: u64,
    /// Whether inodes have a birth time (version 5, with checksums).
    pub has_btime: bool,
    /// Whether the file system has reverse mappings: the owner of each block.
    pub has_owners: bool,
    /// Whether files can share blocks.
    pub has_reflink: bool,
    /// Number of low bits of an inode number that count within its allocation group.
    group_bits: u32,
}

impl Geometry {
    /// Parses a `struct xfs_fsop_geom`; `None` if its values are impossible.
    pub fn parse(bytes: &[u8]) -> Option<Geometry> {
        const FLAGS: usize = 92;
        const V5SB: u32 = 1 << 15;
        const RMAPBT: u32 = 1 << 19;
        const REFLINK: u32 = 1 << 20;
        let block = u32_at(bytes, 0).filter(|block| block.is_power_of_two())?;
        let group_blocks = u32_at(bytes, 8).filter(|&blocks| blocks > 0)?;
        let groups = u32_at(bytes, 12).filter(|&groups| groups > 0)?;
        let inode = u32_at(bytes, 24).filter(|inode| inode.is_power_of_two() && *inode <= block)?;
        // A block number within an allocation group needs as many bits as that of the last block.
        let bits_of_block = u32::BITS - (group_blocks - 1).leading_zeros();
        let group_bits = bits_of_block + (block / inode).ilog2();
        let flags = u32_at(bytes, FLAGS)?;
        let has_internal_log = u64_at(bytes, 56)? > 0;
        (group_bits < u64::BITS).then_some(Geometry {
            block,
            groups,
            inode,
            blocks: u64_at(bytes, 32)?,
            log_blocks: match has_internal_log {
                true => u32_at(bytes, 16)?.into(),
                false => 0,
            },
            has_btime: flags & V5SB != 0,
            has_owners: flags & RMAPBT != 0,
            has_reflink: flags & REFLINK != 0,
            group_bits,
        })
    }

    /// The smallest possible inode number of an allocation group; for the group after the last one,
    /// the end of all numbers.
    pub fn first_of(&self, group: u32) -> u64 {
        u64::from(group)
            .checked_shl(self.group_bits)
            .unwrap_or(u64::MAX)
    }

    /// The allocation group of an inode. An invalid inode number gives a group that does not exist.
    pub fn group_of(&self, ino: u64) -> u32 {
        u32::try_from(ino >> self.group_bits).unwrap_or(u32::MAX)
    }
}

/// An XFS inode. Fields without a comment are those of `struct stat`, without the prefix `st_`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs, reason = "stat(2) describes the fields")]
pub struct Inode {
    pub ino: u64,
    pub size: u64,
    /// Allocated blocks of the file system. 0 for content inside the inode, even if extended
    /// attributes have blocks.
    pub blocks: u64,
    /// The `FS_XFLAG_*` flags (`bs_xflags`).
    pub xflags: u32,
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
    /// Birth time; 0 if the inode has none.
    pub btime: Time,
    pub generation: u32,
    pub uid: u32,
    pub gid: u32,
    pub rdev: Dev,
    pub nlink: u32,
    /// Number of extents of the extended attributes (`bs_aextents`).
    pub attribute_extents: u32,
    pub mode: u16,
}

impl Inode {
    /// Length of a `struct xfs_bulkstat`, in bytes.
    pub const LEN: usize = 192;
    /// `FS_XFLAG_IMMUTABLE`
    pub const IMMUTABLE: u32 = 0x8;
    /// `FS_XFLAG_APPEND`
    pub const APPEND: u32 = 0x10;
    /// `FS_XFLAG_NODUMP`
    pub const NODUMP: u32 = 0x80;
    /// `FS_XFLAG_HASATTR`: without it, the inode has no extended attributes.
    pub const HAS_ATTRIBUTES: u32 = 0x8000_0000;

    /// Parses only the inode number of a `struct xfs_bulkstat`.
    pub fn parse_ino(bytes: &[u8; Inode::LEN]) -> u64 {
        u64_at(bytes, 0).unwrap_or_default()
    }

    /// Parses a `struct xfs_bulkstat`. Any bytes are valid.
    pub fn parse(bytes: &[u8; Inode::LEN]) -> Inode {
        let half = |at| u16_at(bytes, at).unwrap_or_default();
        let word = |at| u32_at(bytes, at).unwrap_or_default();
        let long = |at| u64_at(bytes, at).unwrap_or_default();
        let time = |sec, nsec| Time::new(long(sec).cast_signed(), word(nsec));
        let rdev = word(100); // major and minor number in the encoding of System V
        Inode {
            ino: long(0),
            size: long(8),
            blocks: long(16),
            xflags: long(24) as u32,
            atime: time(32, 80),
            mtime: time(40, 84),
            ctime: time(48, 88),
            btime: time(56, 92),
            generation: word(64),
            uid: word(68),
            gid: word(72),
            rdev: Dev::new(rdev >> 18, rdev & 0x3_ffff),
            nlink: word(112),
            attribute_extents: word(120),
            mode: half(132),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn geometry(block: u32, group_blocks: u32, groups: u32, inode: u32) -> Option<Geometry> {
        let mut bytes = [0; 256];
        for (at, value) in [
            (0, block),
            (8, group_blocks),
            (12, groups),
            (24, inode),
            (92, 1 << 15),
        ] {
            bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        Geometry::parse(&bytes)
    }

    #[test]
    fn inode_numbers_contain_the_group() {
        // The file system has 100 MiB in 4 groups: block numbers below 6400 take 13 bits, and 8
        // inodes per block take 3 bits.
        let shape = geometry(4096, 6400, 4, 512).unwrap();
        assert!(shape.has_btime && shape.groups == 4);
        assert_eq!(
            [128, 65535, 65536, 3 << 16 | 5, u64::MAX].map(|ino| shape.group_of(ino)),
            [0, 0, 1, 3, u32::MAX]
        );
        assert_eq!((shape.first_of(0), shape.first_of(3)), (0, 3 << 16));
        assert_eq!(geometry(4096, 8192, 4, 4096).unwrap().group_of(8192), 1);
        assert_eq!(geometry(4096, 1, 4, 4096).unwrap().group_of(3), 3);
    }

    #[test]
    fn an_impossible_geometry_is_refused() {
        for (block, group_blocks, groups, inode) in [
            (0, 9, 1, 256),
            (4095, 9, 1, 256),
            (4096, 0, 1, 256),
            (4096, 9, 0, 256),
            (512, 9, 1, 1024),
            (512, 9, 1, 0),
        ] {
            assert_eq!(geometry(block, group_blocks, groups, inode), None);
        }
        assert_eq!(Geometry::parse(&[1; 90]), None);
    }

    #[test]
    fn inode_fields_are_parsed() {
        let mut bytes = [0; Inode::LEN];
        let words: [(usize, u32); 12] = [
            (0, 131),
            (8, 5),
            (24, 0x8000_0010),
            (48, 7),
            (64, 9),
            (68, 1000),
            (88, 123),
            (100, 8 << 18 | 17),
            (112, 3),
            (116, 1),
            (120, 2),
            (132, 0o060_644),
        ];
        for (at, value) in words {
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        if cfg!(target_endian = "little") {
            let inode = Inode::parse(&bytes);
            assert_eq!(
                (inode.ino, inode.size, inode.nlink, inode.mode),
                (131, 5, 3, 0o060_644)
            );
            assert_eq!(
                (inode.ctime, inode.generation, inode.uid),
                (Time::new(7, 123), 9, 1000)
            );
            assert_eq!(inode.rdev, Dev::new(8, 17));
            assert_eq!(inode.xflags, Inode::HAS_ATTRIBUTES | Inode::APPEND);
            assert_eq!(inode.attribute_extents, 2);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), ino: u64) {
            if let Some(shape) = Geometry::parse(&bytes) {
                shape.first_of(shape.group_of(ino));
            }
            for row in bytes.as_chunks::<{ Inode::LEN }>().0 {
                prop_assert_eq!(Inode::parse(row).ino, Inode::parse_ino(row));
            }
        }
    }
}
