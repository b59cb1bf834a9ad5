//! Parses inodes of ext4, in the terms of statx(2).

use super::bytes::{crc32c, le16, le32};
use super::features::{BITS64, DIR_INDEX, HUGE_FILE, INLINE_DATA, LARGEDIR};
use super::superblock::Superblock;
use crate::{Dev, Time};

/// Length of the part of an inode that all versions of ext have.
const OLD_SIZE: usize = 128;
/// Magic number before the extended attributes in an inode.
const XATTR_MAGIC: u32 = 0xea02_0000;

const COMPR_FL: u32 = 0x4;
const IMMUTABLE_FL: u32 = 0x10;
const APPEND_FL: u32 = 0x20;
const NODUMP_FL: u32 = 0x40;
const ENCRYPT_FL: u32 = 0x800;
const INDEX_FL: u32 = 0x1000;
const HUGE_FILE_FL: u32 = 0x4_0000;
const EXTENTS_FL: u32 = 0x8_0000;
const VERITY_FL: u32 = 0x10_0000;
const INLINE_DATA_FL: u32 = 0x1000_0000;

const S_IFMT: u16 = 0o170_000;
const S_IFCHR: u16 = 0o020_000;
const S_IFDIR: u16 = 0o040_000;
const S_IFBLK: u16 = 0o060_000;
const S_IFREG: u16 = 0o100_000;
const S_IFLNK: u16 = 0o120_000;

/// Decodes a time: 32 signed bits of seconds, and an extra word with two more bits of seconds and
/// 30 bits of nanoseconds.
#[inline]
fn time(base: u32, extra: u32) -> Time {
    Time::new(
        i64::from(base as i32) + (i64::from(extra & 3) << 32),
        extra >> 2,
    )
}

/// A valid inode in use, with the features of its file system.
#[derive(Clone, Copy, Debug)]
pub struct Inode<'a> {
    superblock: &'a Superblock,
    old: &'a [u8; OLD_SIZE],
    raw: &'a [u8],
    /// Length of the valid fields after the first 128 bytes.
    extra: usize,
    number: u32,
}

impl<'a> Inode<'a> {
    /// Parses inode `number` of the inode table. `None` if statx(2) must be called instead: the
    /// inode is unused, its checksum is wrong (damaged, or being written), or the kernel would
    /// refuse it.
    #[inline]
    pub fn parse(superblock: &'a Superblock, number: u32, raw: &'a [u8]) -> Option<Inode<'a>> {
        let mut inode = Inode::read(superblock, number, raw)?;
        if inode.mode() == 0 || inode.nlink() == 0 {
            return None;
        }
        if superblock.has_checksums() && !inode.checksum_holds() {
            return None;
        }
        if inode.size() > i64::MAX as u64
            || inode.has(INLINE_DATA_FL) && !superblock.has(INLINE_DATA)
            || inode.has(INDEX_FL)
                && inode.is_directory()
                && superblock.has_checksums()
                && !superblock.has(DIR_INDEX)
        {
            return None;
        }
        if inode.extra == 0 && inode.raw.len() > OLD_SIZE {
            // If i_extra_isize is 0, the kernel uses the fields that it knows.
            inode.extra = 32.min(inode.raw.len() - OLD_SIZE);
        }
        Some(inode)
    }

    /// Whether an entry of the inode table is an inode without names. Always false in a file system
    /// without checksums, where an entry that is being written looks the same.
    pub fn is_deleted(superblock: &Superblock, number: u32, raw: &[u8]) -> bool {
        superblock.has_checksums()
            && Inode::read(superblock, number, raw)
                .is_some_and(|inode| inode.nlink() == 0 && inode.checksum_holds())
    }

    /// Parses an entry of the inode table whose inode has lost its last name. `None` for any other
    /// entry, and in a file system without checksums, where an entry that is being written looks
    /// the same.
    pub fn parse_deleted(
        superblock: &'a Superblock,
        number: u32,
        raw: &'a [u8],
    ) -> Option<Inode<'a>> {
        if !superblock.has_checksums() {
            return None;
        }
        let inode = Inode::read(superblock, number, raw)?;
        (inode.nlink() == 0 && inode.mode() != 0 && inode.checksum_holds()).then_some(inode)
    }

    /// Reads an entry of the inode table, and checks that the inode's fields are inside the entry.
    #[inline]
    fn read(superblock: &'a Superblock, number: u32, raw: &'a [u8]) -> Option<Inode<'a>> {
        let raw = raw.get(..superblock.inode_size as usize)?;
        let old: &[u8; OLD_SIZE] = raw.first_chunk()?;
        let extra = match raw.len() > OLD_SIZE {
            true => usize::from(le16(raw, OLD_SIZE)),
            false => 0,
        };
        let is_within = OLD_SIZE + extra <= raw.len() && extra & 3 == 0;
        is_within.then_some(Inode {
            superblock,
            old,
            raw,
            extra,
            number,
        })
    }

    #[inline]
    fn checksum_holds(&self) -> bool {
        let contributions = &self.superblock.checksum_contributions;
        contributions.checksum_holds(self.raw, self.seed(), self.extra >= 4)
    }

    /// The seed of all checksums of the inode's metadata.
    #[inline]
    pub fn seed(&self) -> u32 {
        let start = [self.number.to_le_bytes(), self.generation().to_le_bytes()];
        crc32c(self.superblock.seed, start.as_flattened())
    }

    #[inline]
    fn has(&self, flag: u32) -> bool {
        le32(self.old, 0x20) & flag != 0
    }

    /// The inode number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whether the inode belongs to the file system itself and has no name.
    #[inline]
    pub fn is_reserved(&self) -> bool {
        const ROOT: u32 = 2;
        self.number < self.superblock.first_inode && self.number != ROOT
    }

    /// File type and permissions: `st_mode`.
    #[inline]
    pub fn mode(&self) -> u16 {
        le16(self.old, 0)
    }

    /// Whether the inode is a directory.
    #[inline]
    pub fn is_directory(&self) -> bool {
        self.mode() & S_IFMT == S_IFDIR
    }

    #[inline]
    fn is_regular(&self) -> bool {
        self.mode() & S_IFMT == S_IFREG
    }

    /// User id of the owner, all 32 bits.
    #[inline]
    pub fn uid(&self) -> u32 {
        u32::from(le16(self.old, 0x2)) | u32::from(le16(self.old, 0x78)) << 16
    }

    /// Group id, all 32 bits.
    #[inline]
    pub fn gid(&self) -> u32 {
        u32::from(le16(self.old, 0x18)) | u32::from(le16(self.old, 0x7a)) << 16
    }

    /// Number of hard links; 1 for a directory with more subdirectories than the field can count.
    #[inline]
    pub fn nlink(&self) -> u32 {
        u32::from(le16(self.old, 0x1a))
    }

    /// Size in bytes.
    #[inline]
    pub fn size(&self) -> u64 {
        let low = u64::from(le32(self.old, 0x4));
        let high = u64::from(le32(self.old, 0x6c)) << 32;
        if self.is_regular() || self.superblock.has(LARGEDIR) {
            low | high
        } else {
            low
        }
    }

    /// Allocated space, in units of 512 bytes: `st_blocks`.
    #[inline]
    pub fn blocks(&self) -> u64 {
        let mut blocks = u64::from(le32(self.old, 0x1c));
        if self.superblock.has(HUGE_FILE) {
            blocks |= u64::from(le16(self.old, 0x74)) << 32;
            if self.has(HUGE_FILE_FL) {
                blocks *= u64::from(self.superblock.block_size / 512);
            }
        }
        if self.is_regular() && self.has(INLINE_DATA_FL) && self.inline_value().is_some() {
            blocks += self.size().div_ceil(512);
        }
        blocks
    }

    /// The 32-bit word at an offset beyond the first 128 bytes, if the inode is long enough.
    #[inline]
    fn extra_word(&self, at: usize) -> Option<u32> {
        (at + 4 <= OLD_SIZE + self.extra).then(|| le32(self.raw, at))
    }

    /// Time of the last access.
    #[inline]
    pub fn atime(&self) -> Time {
        time(le32(self.old, 0x8), self.extra_word(0x8c).unwrap_or(0))
    }

    /// Time of the last change of the inode.
    #[inline]
    pub fn ctime(&self) -> Time {
        time(le32(self.old, 0xc), self.extra_word(0x84).unwrap_or(0))
    }

    /// Time of the last change of the content.
    #[inline]
    pub fn mtime(&self) -> Time {
        time(le32(self.old, 0x10), self.extra_word(0x88).unwrap_or(0))
    }

    /// Birth time; `None` if the inode is too short.
    #[inline]
    pub fn btime(&self) -> Option<Time> {
        let base = self.extra_word(0x90)?;
        Some(time(base, self.extra_word(0x94).unwrap_or(0)))
    }

    /// Device number of a device file: `st_rdev`.
    #[inline]
    pub fn rdev(&self) -> Dev {
        if !matches!(self.mode() & S_IFMT, S_IFCHR | S_IFBLK) {
            return Dev::default();
        }
        match (le32(self.old, 0x28), le32(self.old, 0x2c)) {
            (0, new) => Dev::decode(new),
            (old, _) => Dev::new(old >> 8 & 0xff, old & 0xff),
        }
    }

    /// The flags of the inode as `STATX_ATTR_*` bits.
    #[inline]
    pub fn attributes(&self) -> u64 {
        // The bits of statx(2) equal the inode flags of ext2.
        const SAME: u32 = COMPR_FL | IMMUTABLE_FL | APPEND_FL | NODUMP_FL | ENCRYPT_FL | VERITY_FL;
        u64::from(le32(self.old, 0x20) & SAME)
    }

    /// Generation: distinguishes the inode from an earlier one with the same number.
    #[inline]
    pub fn generation(&self) -> u32 {
        le32(self.old, 0x64)
    }

    /// The number of the block with extended attributes, if the inode has one.
    #[inline]
    pub fn xattr_block(&self) -> Option<u64> {
        let high = match self.superblock.has(BITS64) {
            true => le16(self.old, 0x76),
            false => 0,
        };
        let block = u64::from(high) << 32 | u64::from(le32(self.old, 0x68));
        (block != 0).then_some(block)
    }

    /// Whether the inode may have extended attributes that listxattr(2) lists.
    #[inline]
    pub fn has_xattrs(&self) -> bool {
        // listxattr(2) does not list inline data and encryption contexts.
        self.xattr_block().is_some() || self.xattrs().any(|xattr| !matches!(xattr.space, 7 | 9))
    }

    /// Whether the names in the directory are encrypted: the kernel shows different names,
    /// depending on the keys.
    #[inline]
    pub fn is_encrypted(&self) -> bool {
        self.has(ENCRYPT_FL)
    }

    /// Whether the directory has a hash index, whose root may be its first block.
    #[inline]
    pub fn is_indexed(&self) -> bool {
        self.has(INDEX_FL)
    }

    /// Whether the inode is an encrypted symlink: statx(2) returns the size of the decrypted
    /// target.
    #[inline]
    pub fn is_encrypted_symlink(&self) -> bool {
        self.has(ENCRYPT_FL) && self.mode() & S_IFMT == S_IFLNK
    }

    /// The 60 bytes with the root of the extent tree, the block map, or inline content.
    #[inline]
    pub fn body(&self) -> &'a [u8; 60] {
        self.old[0x28..].first_chunk().unwrap_or(&[0; 60])
    }

    /// Whether the content is mapped by extents instead of a block map.
    #[inline]
    pub(super) fn has_extents(&self) -> bool {
        self.has(EXTENTS_FL)
    }

    /// Whether the content is inside the inode.
    #[inline]
    pub fn is_inline(&self) -> bool {
        self.has(INLINE_DATA_FL)
    }

    /// The inline content that does not fit into [`Inode::body`]: the extended attribute
    /// `system.data`.
    pub fn inline_value(&self) -> Option<&'a [u8]> {
        self.xattrs()
            .find(|xattr| xattr.space == 7 && xattr.name == b"data")
            .and_then(|xattr| xattr.value)
    }

    /// The extended attributes inside the inode; ends early at malformed bytes.
    fn xattrs(&self) -> impl Iterator<Item = Xattr<'a>> {
        let start = OLD_SIZE + self.extra;
        let space = match self.raw.get(start..) {
            Some(space) if space.len() >= 8 && le32(space, 0) == XATTR_MAGIC => &space[4..],
            _ => &[],
        };
        let mut at = 0;
        std::iter::from_fn(move || {
            const HEADER: usize = 16;
            let entry = space.get(at..at + HEADER)?;
            if le32(entry, 0) == 0 {
                return None; // an entry of zeros ends the list
            }
            let name = space.get(at + HEADER..at + HEADER + usize::from(entry[0]))?;
            let place = usize::from(le16(entry, 2));
            let is_elsewhere = le32(entry, 4) != 0; // the value is stored in a separate inode
            let end = place.checked_add(le32(entry, 8) as usize);
            let value = end
                .filter(|_| !is_elsewhere)
                .and_then(|end| space.get(place..end));
            at += HEADER + name.len().next_multiple_of(4);
            Some(Xattr {
                space: entry[1],
                name,
                value,
            })
        })
    }
}

/// An extended attribute that is stored inside an inode.
struct Xattr<'a> {
    /// `e_name_index`: a number for the prefix of the attribute's name.
    space: u8,
    name: &'a [u8],
    value: Option<&'a [u8]>,
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::superblock::tests::plain;
    use super::*;
    use proptest::prelude::*;

    /// The inode of a directory with a size of 256 bytes, and these flags, size and body.
    pub(in crate::ext4) fn directory(flags: u32, size: u32, body: &[u8]) -> Vec<u8> {
        let mut raw = vec![0; 256];
        raw[..2].copy_from_slice(&(S_IFDIR | 0o755).to_le_bytes());
        raw[0x4..0x8].copy_from_slice(&size.to_le_bytes());
        raw[0x1a] = 2;
        raw[0x20..0x24].copy_from_slice(&flags.to_le_bytes());
        raw[0x28..0x28 + body.len()].copy_from_slice(body);
        raw[0x80] = 32;
        raw
    }

    #[test]
    fn times_range_from_1901_to_2446() {
        assert_eq!(time(0x8000_0000, 0), Time::new(-0x8000_0000, 0));
        assert_eq!(time(0, 5 << 2), Time::new(0, 5));
        assert_eq!(time(0x7fff_ffff, 3), Time::new(0x3_7fff_ffff, 0));
    }

    #[test]
    fn both_encodings_of_devices_are_read() {
        let superblock = Superblock::parse(&plain()).unwrap();
        let rdev = |old: u32, new: u32| {
            let mut raw = directory(0, 0, &[old.to_le_bytes(), new.to_le_bytes()].concat());
            raw[..2].copy_from_slice(&S_IFCHR.to_le_bytes());
            Inode::parse(&superblock, 12, &raw).unwrap().rdev()
        };
        assert_eq!(rdev(0x0803, 0), Dev::new(8, 3));
        assert_eq!(rdev(0, 0x1234_567f), Dev::new(0x456, 0x1_237f));
    }

    #[test]
    fn fields_that_the_inode_has_no_room_for_are_absent() {
        let superblock = Superblock::parse(&plain()).unwrap();
        let mut raw = directory(0, 4096, &[]);
        raw[0x84..0x88].copy_from_slice(&(7u32 << 2).to_le_bytes());
        assert_eq!(Inode::parse(&superblock, 12, &raw).unwrap().ctime().nsec, 7);
        assert!(
            Inode::parse(&superblock, 12, &raw)
                .unwrap()
                .btime()
                .is_some()
        );
        raw[0x80] = 4;
        assert_eq!(Inode::parse(&superblock, 12, &raw).unwrap().ctime().nsec, 0);
        assert_eq!(Inode::parse(&superblock, 12, &raw).unwrap().btime(), None);
        raw[0x80] = 0; // i_extra_isize is 0: the kernel still uses the fields
        assert_eq!(Inode::parse(&superblock, 12, &raw).unwrap().ctime().nsec, 7);
        raw[0x80] = 132;
        assert!(Inode::parse(&superblock, 12, &raw).is_none());
        assert!(Inode::parse(&superblock, 12, &raw[..255]).is_none());
    }

    #[test]
    fn attributes_in_the_inode_are_read() {
        let superblock = Superblock::parse(&plain()).unwrap();
        let mut raw = directory(0, 4096, &[]);
        assert!(!Inode::parse(&superblock, 12, &raw).unwrap().has_xattrs());
        raw[0xa0..0xa4].copy_from_slice(&XATTR_MAGIC.to_le_bytes());
        assert!(!Inode::parse(&superblock, 12, &raw).unwrap().has_xattrs());
        raw[0xa4..0xbc].copy_from_slice(b"\x04\x07\x20\0\0\0\0\0\x03\0\0\0\0\0\0\0data\0\0\0\0");
        raw[0xc4..0xc7].copy_from_slice(b"abc");
        let inode = Inode::parse(&superblock, 12, &raw).unwrap();
        assert!(!inode.has_xattrs());
        assert_eq!(inode.inline_value(), Some(&b"abc"[..]));
        raw[0xa5] = 1;
        let inode = Inode::parse(&superblock, 12, &raw).unwrap();
        assert!(inode.has_xattrs());
        assert_eq!(inode.inline_value(), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(raw in proptest::collection::vec(any::<u8>(), 256), extra in 0u8..130, xattrs: bool) {
            let superblock = Superblock::parse(&plain()).unwrap();
            let mut raw = raw;
            raw[0x80..0x82].copy_from_slice(&[extra & !3, 0]);
            let start = OLD_SIZE + usize::from(extra & !3);
            if xattrs && start + 4 <= 256 {
                raw[start..start + 4].copy_from_slice(&XATTR_MAGIC.to_le_bytes());
            }
            if let Some(inode) = Inode::parse(&superblock, 12, &raw) {
                inode.inline_value();
                let _ = (inode.size(), inode.blocks(), inode.atime(), inode.btime(), inode.rdev(), inode.has_xattrs());
                let _ = (inode.attributes(), inode.seed(), inode.uid(), inode.gid(), inode.mtime(), inode.is_encrypted_symlink());
            }
        }
    }
}
