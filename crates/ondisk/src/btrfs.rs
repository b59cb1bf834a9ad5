//! btrfs: items of the trees, as `BTRFS_IOC_TREE_SEARCH_V2` returns them, and subvolumes. [On-disk
//! format](https://btrfs.readthedocs.io/en/latest/dev/On-disk-format.html)
//!
//! The headers of a search are in native byte order, the items in little-endian.

use crate::{Time, le16, le32, le64, u32_at, u64_at};

/// A key of a tree item: (object, type, offset), in the order of the trees.
pub type Key = (u64, u8, u64);

/// Types of items: `BTRFS_*_KEY`.
#[allow(missing_docs, reason = "named as in the kernel")]
pub mod kind {
    pub const INODE_ITEM: u8 = 1;
    pub const INODE_REF: u8 = 12;
    pub const INODE_EXTREF: u8 = 13;
    pub const XATTR_ITEM: u8 = 24;
    pub const DIR_ITEM: u8 = 84;
    pub const DIR_INDEX: u8 = 96;
    pub const EXTENT_DATA: u8 = 108;
    pub const ROOT_ITEM: u8 = 132;
    pub const ROOT_REF: u8 = 156;
    pub const UUID_SUBVOL: u8 = 251;
}

/// `BTRFS_ROOT_TREE_OBJECTID`: the tree of all trees.
pub const ROOT_TREE: u64 = 1;
/// `BTRFS_FS_TREE_OBJECTID`: the subvolume that mkfs creates.
pub const FS_TREE: u64 = 5;
/// `BTRFS_UUID_TREE_OBJECTID`: the index of subvolumes by UUID.
pub const UUID_TREE: u64 = 9;
/// `BTRFS_FIRST_FREE_OBJECTID`: the first inode number, that of a subvolume's root directory.
pub const FIRST_INODE: u64 = 256;
/// `BTRFS_LAST_FREE_OBJECTID`: the last inode number.
pub const LAST_INODE: u64 = 256u64.wrapping_neg();

/// Maximum length of a file name in bytes.
const NAME_MAX: usize = 255;

/// Inode numbers of the files that refer to an extent, one per reference, from the `struct
/// btrfs_data_container` of BTRFS_IOC_LOGICAL_INO_V2; `None` if the buffer was too small for all
/// references.
pub fn parse_references(buffer: &[u64]) -> Option<Vec<u64>> {
    /// Lengths in 64-bit words: of the container before its elements, and of an element (inode,
    /// offset, subvolume).
    const HEAD: usize = 2;
    const ELEMENT: usize = 3;
    let counts = buffer.get(1)?.to_ne_bytes();
    let words = u32_at(&counts, 0)? as usize;
    let missing = u32_at(&counts, 4)?;
    let elements = buffer.get(HEAD..HEAD.checked_add(words)?)?;
    let inodes = elements.chunks_exact(ELEMENT).map(|element| element[0]);
    (missing == 0).then(|| inodes.collect())
}

/// An item of a btrfs tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Item<'a> {
    pub key: Key,
    /// The transaction that wrote the leaf with this item.
    pub transid: u64,
    pub data: &'a [u8],
}

/// The items in the buffer of a search (without `struct btrfs_ioctl_search_args_v2`), at most
/// `count`. Ends early at malformed bytes.
#[inline]
pub fn items(buffer: &[u8], count: usize) -> Items<'_> {
    Items {
        rest: buffer,
        left: count,
    }
}

/// Iterates over the items of a search; see [`items`].
#[derive(Clone, Debug)]
pub struct Items<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> Items<'a> {
    /// The bytes of the search result that have not been parsed.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Item<'a>;

    #[inline]
    fn next(&mut self) -> Option<Item<'a>> {
        // struct btrfs_ioctl_search_header: transid u64, objectid u64, offset u64, type u32, len
        // u32
        const HEAD: usize = 32;
        self.left = self.left.checked_sub(1)?;
        let (head, rest) = self.rest.split_first_chunk::<HEAD>()?;
        let kind = u8::try_from(u32_at(head, 24)?).ok()?;
        let (data, rest) = rest.split_at_checked(u32_at(head, 28)? as usize)?;
        self.rest = rest;
        Some(Item {
            key: (u64_at(head, 8)?, kind, u64_at(head, 16)?),
            transid: u64_at(head, 0)?,
            data,
        })
    }
}

/// The key of a subvolume in [`UUID_TREE`]. The item there has the number of the subvolume's tree.
pub fn uuid_key(uuid: [u8; 16]) -> Key {
    let half = |at: usize| u64_at(&uuid, at).unwrap_or_default();
    (half(0), kind::UUID_SUBVOL, half(8))
}

/// The UUID of the subvolume of which this one is a snapshot, from its `ROOT_ITEM`; `None` if it is
/// not a snapshot, or was created before Linux 3.6.
pub fn parent_uuid(root_item: &[u8]) -> Option<[u8; 16]> {
    // struct btrfs_root_item: inode item[160], six u64, flags u64, refs u32, drop_progress[17],
    // drop_level u8, level u8, generation_v2 u64, uuid[16], parent_uuid[16], ...
    const PARENT: usize = 160 + 7 * 8 + 4 + 17 + 2 + 8 + 16;
    let uuid: [u8; 16] = root_item.get(PARENT..PARENT + 16)?.try_into().ok()?;
    Some(uuid).filter(|uuid| *uuid != [0; 16])
}

/// A `btrfs_timespec` in an item.
#[inline]
fn time_at(item: &[u8], at: usize) -> Option<Time> {
    Some(Time::new(
        le64(item, at)?.cast_signed(),
        le32(item, at + 8)?,
    ))
}

/// The root of a subvolume's tree, from its `ROOT_ITEM`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SubvolumeRoot {
    /// Whether the subvolume is a snapshot of a different one.
    pub is_snapshot: bool,
    /// Time of creation of the subvolume; 0 before Linux 3.6.
    pub created: Time,
}

impl SubvolumeRoot {
    /// Parses a `ROOT_ITEM`; `None` if it is too short, or the subvolume has been deleted.
    pub fn parse(root_item: &[u8]) -> Option<SubvolumeRoot> {
        const REFS: usize = 216;
        const OTIME: usize = 339;
        if le32(root_item, REFS)? == 0 {
            return None;
        }
        Some(SubvolumeRoot {
            is_snapshot: parent_uuid(root_item).is_some(),
            created: time_at(root_item, OTIME).unwrap_or_default(),
        })
    }
}

/// A reference of a file to an extent of data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataExtent {
    /// Address of the extent in the logical address space.
    pub start: u64,
    /// Length in bytes of the whole extent at this address: the length of the compressed data, and
    /// of all data that was written as one extent, even if the file refers to a part of it.
    pub bytes: u64,
}

/// The extent of an `EXTENT_DATA` item; `None` for holes, inline data, and other items.
#[inline]
pub fn data_extent(item: Item<'_>) -> Option<DataExtent> {
    // struct btrfs_file_extent_item: generation u64, ram_bytes u64, compression u8, encryption u8,
    // other_encoding u16, type u8, disk_bytenr u64, disk_num_bytes u64, ...
    const INLINE: u8 = 0;
    if item.key.1 != kind::EXTENT_DATA || *item.data.get(20)? == INLINE {
        return None;
    }
    let extent = DataExtent {
        start: le64(item.data, 21)?,
        bytes: le64(item.data, 29)?,
    };
    (extent.start > 0).then_some(extent)
}

/// The block groups of one kind: a record of `BTRFS_IOC_SPACE_INFO`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockGroups {
    flags: u64,
    /// Bytes of all these block groups, without copies; for the global reserve, its size.
    pub total: u64,
    /// Bytes in use in these block groups.
    pub used: u64,
}

#[allow(missing_docs, reason = "the names say it")]
impl BlockGroups {
    const DATA: u64 = 1;
    const SYSTEM: u64 = 1 << 1;
    const METADATA: u64 = 1 << 2;
    const RAID1: u64 = 1 << 4;
    const DUP: u64 = 1 << 5;
    const RAID10: u64 = 1 << 6;
    const RAID1C3: u64 = 1 << 9;
    const RAID1C4: u64 = 1 << 10;
    const GLOBAL_RESERVE: u64 = 1 << 49;

    /// Parses a record of `BTRFS_IOC_SPACE_INFO`.
    pub fn parse([flags, total, used]: [u64; 3]) -> BlockGroups {
        BlockGroups { flags, total, used }
    }

    /// Whether the block groups are for data, or for data and metadata.
    pub fn is_data(self) -> bool {
        self.flags & BlockGroups::DATA != 0
    }

    /// Whether the block groups are for both data and metadata (`mkfs.btrfs --mixed`).
    pub fn is_mixed(self) -> bool {
        self.is_data() && self.flags & BlockGroups::METADATA != 0
    }

    pub fn is_system(self) -> bool {
        self.flags & BlockGroups::SYSTEM != 0
    }

    pub fn is_global_reserve(self) -> bool {
        self.flags & BlockGroups::GLOBAL_RESERVE != 0
    }

    /// Number of copies of each byte, by the RAID profile.
    pub fn copies(self) -> u64 {
        let has = |profiles: u64| self.flags & profiles != 0;
        match () {
            () if has(BlockGroups::RAID1C4) => 4,
            () if has(BlockGroups::RAID1C3) => 3,
            () if has(BlockGroups::RAID1 | BlockGroups::DUP | BlockGroups::RAID10) => 2,
            () => 1,
        }
    }
}

/// An `INODE_ITEM`. Fields without a comment are those of `struct stat`, without the prefix `st_`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "stat(2) describes the fields")]
pub struct Inode {
    /// The transaction that created the inode.
    pub generation: u64,
    /// The transaction that last changed the inode.
    pub transid: u64,
    pub size: u64,
    /// Allocated bytes; `st_blocks` rounds them up to whole sectors.
    pub nbytes: u64,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    pub mode: u32,
    /// Device number: 12 bits major, 20 bits minor.
    pub rdev: u64,
    /// The `BTRFS_INODE_*` flags in the lower half, the read-only ones in the upper half.
    pub flags: u64,
    pub atime: Time,
    pub ctime: Time,
    pub mtime: Time,
    /// Birth time of the inode.
    pub otime: Time,
}

#[allow(missing_docs, reason = "named as in the kernel")]
impl Inode {
    pub const IMMUTABLE: u64 = 1 << 6;
    pub const APPEND: u64 = 1 << 7;
    pub const NODUMP: u64 = 1 << 8;
    pub const COMPRESS: u64 = 1 << 11;
    pub const VERITY: u64 = 1 << 32;

    /// Parses an `INODE_ITEM`; `None` if it is too short.
    #[inline]
    pub fn parse(data: &[u8]) -> Option<Inode> {
        let data = data.first_chunk::<160>()?;
        let time = |at| time_at(data, at);
        Some(Inode {
            generation: le64(data, 0)?,
            transid: le64(data, 8)?,
            size: le64(data, 16)?,
            nbytes: le64(data, 24)?,
            nlink: le32(data, 40)?,
            uid: le32(data, 44)?,
            gid: le32(data, 48)?,
            mode: le32(data, 52)?,
            rdev: le64(data, 56)?,
            flags: le64(data, 64)?,
            atime: time(112)?,
            ctime: time(124)?,
            mtime: time(136)?,
            otime: time(148)?,
        })
    }
}

/// A name of an inode in a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link<'a> {
    /// Inode number of the directory.
    pub dir: u64,
    /// The file name, unchecked: see [`is_name`].
    pub name: &'a [u8],
}

/// Whether bytes are a valid file name: 1 to 255 bytes, without slash or NUL.
#[inline]
pub fn is_name(name: &[u8]) -> bool {
    (1..=NAME_MAX).contains(&name.len()) && !name.iter().any(|&b| b == b'/' || b == 0)
}

/// The names in an `INODE_REF` or `INODE_EXTREF`; none in other items. Ends early at malformed
/// bytes.
#[inline]
pub fn links(item: Item<'_>) -> impl Iterator<Item = Link<'_>> {
    let is_ref = item.key.1 == kind::INODE_REF;
    let is_ext = item.key.1 == kind::INODE_EXTREF;
    let mut rest = if is_ref || is_ext { item.data } else { &[] };
    std::iter::from_fn(move || {
        // struct btrfs_inode_ref: index u64, name_len u16, name; struct btrfs_inode_extref has
        // parent_objectid u64 before these fields
        let before = if is_ext { 8 } else { 0 };
        let dir = if is_ext { le64(rest, 0)? } else { item.key.2 };
        let len = usize::from(le16(rest, before + 8)?);
        let (name, tail) = rest.get(before + 10..)?.split_at_checked(len)?;
        rest = tail;
        Some(Link { dir, name })
    })
}

/// The key offset of the `DIR_ITEM` for a name in a directory: `btrfs_name_hash`. Different names
/// may have the same hash.
pub fn name_hash(name: &[u8]) -> u64 {
    u64::from(!crc32c::crc32c_append(1, name))
}

/// The file name in a `DIR_INDEX` that refers to a subvolume; `None` for other items.
#[inline]
pub fn way_to_root(item: Item<'_>) -> Option<&[u8]> {
    // struct btrfs_dir_item: location (objectid u64, type u8, offset u64), transid u64, data_len
    // u16, name_len u16, type u8, name
    if item.key.1 != kind::DIR_INDEX || *item.data.get(8)? != kind::ROOT_ITEM {
        return None;
    }
    let len = usize::from(le16(item.data, 27)?);
    item.data.get(30..30 + len)
}

/// The directory and name of a subvolume in its parent subvolume, from a `ROOT_REF`; `None` for
/// other items.
pub fn root_ref(item: Item<'_>) -> Option<Link<'_>> {
    // struct btrfs_root_ref: dirid u64, sequence u64, name_len u16, name
    if item.key.1 != kind::ROOT_REF {
        return None;
    }
    let len = usize::from(le16(item.data, 16)?);
    Some(Link {
        dir: le64(item.data, 0)?,
        name: item.data.get(18..18 + len)?,
    })
}

/// A subvolume: fields of `struct btrfs_ioctl_get_subvol_info_args`.
/// [btrfs-ioctl(2)](https://btrfs.readthedocs.io/en/latest/btrfs-ioctl.html)
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subvolume {
    /// Number of the subvolume's tree.
    pub tree: u64,
    /// The transaction that last changed the subvolume.
    pub generation: u64,
    /// UUID of the subvolume; all 0 if it was created before Linux 3.6.
    pub uuid: [u8; 16],
    /// UUID of the subvolume of which this one is a snapshot; all 0 if it is not a snapshot.
    pub parent_uuid: [u8; 16],
    /// UUID of the subvolume that `btrfs send` read; all 0 if this one was not received.
    pub received_uuid: [u8; 16],
    /// Time of the last change of an inode in the subvolume.
    pub ctime: Time,
}

impl Subvolume {
    /// Parses `struct btrfs_ioctl_get_subvol_info_args`; `None` if it is too short.
    pub fn parse(info: &[u8]) -> Option<Subvolume> {
        // treeid u64, name[256], parent_id u64, dirid u64, generation u64, flags u64, uuid[16],
        // parent_uuid[16], received_uuid[16], four transaction ids u64, ctime { sec u64, nsec u32
        // }, ...
        const GENERATION: usize = 8 + 256 + 2 * 8;
        const UUID: usize = GENERATION + 2 * 8;
        const CTIME: usize = UUID + 3 * 16 + 4 * 8;
        let uuid = |at: usize| info.get(at..at + 16)?.try_into().ok();
        Some(Subvolume {
            tree: u64_at(info, 0)?,
            generation: u64_at(info, GENERATION)?,
            uuid: uuid(UUID)?,
            parent_uuid: uuid(UUID + 16)?,
            received_uuid: uuid(UUID + 32)?,
            ctime: Time::new(u64_at(info, CTIME)?.cast_signed(), u32_at(info, CTIME + 8)?),
        })
    }

    /// Whether the subvolume is a snapshot of a different one.
    pub fn is_snapshot(&self) -> bool {
        self.parent_uuid != [0; 16]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_parent_uuid_makes_a_snapshot() {
        let mut info = [0u8; 504];
        assert!(!Subvolume::parse(&info).unwrap().is_snapshot());
        info[327] = 1; // the last byte of parent_uuid
        assert!(Subvolume::parse(&info).unwrap().is_snapshot());
        assert_eq!(Subvolume::parse(&info[..387]), None);
        (info[280], info[376], info[384]) = (9, 10, 11);
        info[328] = 12; // the first byte of received_uuid
        let Subvolume {
            generation,
            ctime,
            received_uuid,
            ..
        } = Subvolume::parse(&info).unwrap();
        assert_eq!((generation, ctime), (9, Time::new(10, 11)));
        assert_eq!(received_uuid[0], 12);
    }

    #[test]
    fn a_subvolume_is_found_by_its_uuid() {
        let uuid = std::array::from_fn(|at| at as u8);
        let key = (0x0706_0504_0302_0100, 251, 0x0f0e_0d0c_0b0a_0908);
        assert_eq!(uuid_key(uuid), key);
        // A struct btrfs_root_item has 439 bytes.
        let mut item = [0; 439];
        assert_eq!(parent_uuid(&item), None);
        item[263..279].copy_from_slice(&uuid);
        assert_eq!(
            (parent_uuid(&item), parent_uuid(&item[..278])),
            (Some(uuid), None)
        );
    }

    #[test]
    fn a_data_extent_is_neither_a_hole_nor_inline() {
        let mut data = [0; 53];
        let extent = |data: &[u8], kind| {
            data_extent(Item {
                key: (257, kind, 0),
                transid: 0,
                data,
            })
        };
        (data[20], data[22], data[30]) = (1, 16, 32);
        let expected = DataExtent {
            start: 4096,
            bytes: 8192,
        };
        assert_eq!(extent(&data, kind::EXTENT_DATA), Some(expected));
        assert_eq!(extent(&data, kind::INODE_ITEM), None);
        assert_eq!(extent(&data[..36], kind::EXTENT_DATA), None);
        data[20] = 0;
        assert_eq!(extent(&data, kind::EXTENT_DATA), None, "inline");
        (data[20], data[22]) = (1, 0);
        assert_eq!(extent(&data, kind::EXTENT_DATA), None, "a hole");
    }

    #[test]
    fn a_root_without_references_is_being_deleted() {
        let mut item = [0; 439];
        assert_eq!(SubvolumeRoot::parse(&item), None);
        (item[216], item[339]) = (1, 7);
        let plain = SubvolumeRoot::parse(&item).unwrap();
        assert_eq!((plain.is_snapshot, plain.created.sec), (false, 7));
        item[263] = 1;
        assert!(SubvolumeRoot::parse(&item).unwrap().is_snapshot);
        // A ROOT_ITEM from before Linux 3.6 is shorter.
        let old = SubvolumeRoot::parse(&item[..239]).unwrap();
        assert_eq!((old.is_snapshot, old.created), (false, Time::default()));
    }

    #[test]
    fn block_groups_have_copies_by_their_profile() {
        let groups = |flags| BlockGroups::parse([flags, 10, 5]);
        for (flags, copies) in [
            (1, 1),
            (4 | 1 << 5, 2),
            (4 | 1 << 9, 3),
            (1 | 1 << 10, 4),
            (1 | 1 << 7, 1),
        ] {
            assert_eq!(groups(flags).copies(), copies, "{flags:#x}");
        }
        assert!(groups(5).is_mixed() && !groups(4).is_data() && groups(2).is_system());
        assert!(groups(1 << 49 | 4).is_global_reserve());
    }

    #[test]
    fn references_are_incomplete_when_some_are_missing() {
        let counts = |words: u32, missing: u32| {
            let bytes = [words.to_ne_bytes(), missing.to_ne_bytes()].concat();
            u64::from_ne_bytes(bytes.try_into().unwrap())
        };
        let buffer = |counts| vec![0, counts, 257, 4096, 5, 258, 0, 256, 0, 0, 0];
        let found = parse_references(&buffer(counts(6, 0)));
        assert_eq!(found, Some(vec![257, 258]));
        assert_eq!(parse_references(&buffer(counts(6, 3))), None);
        assert_eq!(parse_references(&buffer(counts(12, 0))), None);
    }

    fn found(transid: u64, key: Key, data: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [transid, key.0, key.2] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(u32::from(key.1).to_ne_bytes());
        bytes.extend((data.len() as u32).to_ne_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn a_search_returns_items_with_their_names() {
        let buffer = [
            found(7, (257, kind::INODE_REF, 256), b"\x02\0\0\0\0\0\0\0\x01\0a"),
            found(8, (258, 1, 0), b""),
        ];
        let buffer = buffer.concat();
        let all: Vec<_> = items(&buffer, 9).collect();
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].key, (257, 12, 256));
        assert_eq!(all[1].transid, 8);
        assert_eq!(items(&buffer, 1).count(), 1);
        assert_eq!(items(&buffer[..buffer.len() - 1], 9).count(), 1);
        assert_eq!(
            links(all[0]).collect::<Vec<_>>(),
            [Link {
                dir: 256,
                name: b"a"
            }]
        );
        assert_eq!(links(all[1]).count(), 0);
    }

    #[test]
    fn an_extref_has_several_names() {
        let mut data = Vec::new();
        for (dir, name) in [(300u64, &b"one"[..]), (301, b"two")] {
            data.extend(dir.to_le_bytes());
            data.extend([0; 8]);
            data.extend((name.len() as u16).to_le_bytes());
            data.extend(name);
        }
        let item = Item {
            key: (400, kind::INODE_EXTREF, 12345),
            transid: 0,
            data: &data,
        };
        let expected = [
            Link {
                dir: 300,
                name: b"one",
            },
            Link {
                dir: 301,
                name: b"two",
            },
        ];
        assert_eq!(links(item).collect::<Vec<_>>(), expected);
        let cut = Item {
            data: &data[..data.len() - 1],
            ..item
        };
        assert_eq!(links(cut).collect::<Vec<_>>(), expected[..1]);
    }

    #[test]
    fn inode_fields_are_parsed() {
        let mut data = [0u8; 160];
        for (at, byte) in [
            (0, 1),
            (8, 2),
            (16, 3),
            (24, 4),
            (40, 5),
            (44, 6),
            (48, 7),
            (52, 8),
            (56, 9),
            (64, 10),
        ] {
            data[at] = byte;
        }
        for (at, byte) in [(112, 11), (124, 12), (136, 13), (148, 14), (156, 15)] {
            data[at] = byte;
        }
        let inode = Inode::parse(&data).unwrap();
        assert_eq!(
            (inode.generation, inode.transid, inode.size, inode.nbytes),
            (1, 2, 3, 4)
        );
        assert_eq!(
            (inode.nlink, inode.uid, inode.gid, inode.mode),
            (5, 6, 7, 8)
        );
        assert_eq!((inode.rdev, inode.flags), (9, 10));
        assert_eq!(
            (
                inode.atime.sec,
                inode.ctime.sec,
                inode.mtime.sec,
                inode.otime
            ),
            (11, 12, 13, Time::new(14, 15))
        );
        assert_eq!(Inode::parse(&data[..159]), None);
    }

    #[test]
    fn references_to_subvolumes_are_parsed() {
        let mut data = [0u8; 33];
        (data[0], data[8], data[27]) = (5, kind::ROOT_ITEM, 3);
        data[30..].copy_from_slice(b"sub");
        let item = Item {
            key: (256, kind::DIR_INDEX, 2),
            transid: 0,
            data: &data,
        };
        assert_eq!(way_to_root(item), Some(&b"sub"[..]));
        assert_eq!(
            way_to_root(Item {
                data: &data[..32],
                ..item
            }),
            None
        );
        data[8] = kind::INODE_ITEM;
        assert_eq!(
            way_to_root(Item {
                key: (256, kind::DIR_INDEX, 2),
                transid: 0,
                data: &data
            }),
            None
        );
        let mut data = [0u8; 21];
        (data[1], data[16]) = (1, 3);
        data[18..].copy_from_slice(b"sub");
        let item = Item {
            key: (5, kind::ROOT_REF, 257),
            transid: 0,
            data: &data,
        };
        assert_eq!(
            root_ref(item),
            Some(Link {
                dir: 256,
                name: b"sub"
            })
        );
        assert_eq!(
            root_ref(Item {
                data: &data[..20],
                ..item
            }),
            None
        );
    }

    proptest! {
        #[test]
        fn no_container_makes_it_panic(words in prop::collection::vec(any::<u64>(), 0..20)) {
            let found = parse_references(&words);
            prop_assert!(found.is_none_or(|found| found.len() * 3 <= words.len()));
        }

        #[test]
        fn no_buffer_makes_it_panic(buffer in proptest::collection::vec(any::<u8>(), 0..600), count in 0usize..9) {
            for item in items(&buffer, count) {
                for kind in [item.key.1, kind::INODE_REF, kind::INODE_EXTREF, kind::DIR_INDEX, kind::ROOT_REF, kind::EXTENT_DATA] {
                    let item = Item { key: (item.key.0, kind, item.key.2), ..item };
                    let _ = links(item).filter(|link| is_name(link.name)).count();
                    let _ = (way_to_root(item), root_ref(item), Inode::parse(item.data));
                    let _ = (data_extent(item), SubvolumeRoot::parse(item.data));
                }
            }
            let _ = Subvolume::parse(&buffer);
        }

        #[test]
        fn no_item_makes_it_panic(data in proptest::collection::vec(any::<u8>(), 0..400), kind in any::<u8>()) {
            let item = Item { key: (256, kind, 256), transid: 0, data: &data };
            prop_assert!(links(item).all(|link| link.name.len() <= data.len()));
            let _ = (way_to_root(item), root_ref(item), Inode::parse(&data));
        }

        #[test]
        fn written_items_are_found(
            rows in proptest::collection::vec((any::<Key>(), proptest::collection::vec(any::<u8>(), 0..40)), 0..8)
        ) {
            let buffer: Vec<u8> = rows.iter().flat_map(|(key, data)| found(1, *key, data)).collect();
            let back: Vec<_> = items(&buffer, usize::MAX).map(|item| (item.key, item.data.to_vec())).collect();
            prop_assert_eq!(back, rows);
        }
    }
}
