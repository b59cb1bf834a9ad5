//! XFS: the owner of each block, by FS_IOC_GETFSMAP.
//!
//! With reverse mappings (`mkfs.xfs -m rmapbt=1`), the file system reports the owner of each block, without them only which
//! blocks are free. df(1) counts a reserve as used although its blocks are free: for the trees of each allocation group, and
//! a pool that lets a full file system still free files.

use base::Warning;
use gate::Gate;
use gate::extent::{FSMAP_HEAD, FSMAP_LEN, getfsmap};
use gate::fs::Statfs;
use gate::xfs::{BulkBuffer, xfs_bulkstat, xfs_fscounts, xfs_fsgeometry};
use ondisk::fsmap::{Record, SpecialOwner, parse};
use ondisk::xfs::{Geometry, Inode};

use crate::bill::{Item, ItemKind, ItemPart, sum};
use crate::error::WarningKind;
use crate::loop_images::LoopImage;
use crate::source::{TableSource, signed};

/// Adds metadata and reserves, and subtracts blocks that files share.
pub(crate) fn add(
    source: &TableSource<'_>,
    statfs: &Statfs,
    items: &mut Vec<Item>,
    warnings: &mut Vec<Warning>,
) {
    let fd = &source.top.fd;
    let Some(geometry) = read_geometry(source) else {
        let kind = WarningKind::Owners;
        return warnings.push(Warning::about(source.mount_point, kind));
    };
    let block = u64::from(geometry.block);
    let log = geometry.log_blocks.saturating_mul(block);
    items.push(Item {
        is_in_used: false,
        ..Item::new(ItemKind::Journal, signed(log))
    });
    let owned = match BytesByOwner::read(source) {
        Ok(owned) => owned,
        Err(errno) => {
            let kind = WarningKind::Owners;
            let path = source.mount_point;
            return warnings.push(Warning::failed(path, Gate::FsIocGetfsmap, errno, kind));
        }
    };
    let reserve = signed(owned.free) - signed(statfs.free);
    items.push(Item::new(ItemKind::Reserved, reserve).part(ItemPart::FileSystem));
    if owned.has_owners {
        for (kind, part, bytes) in [
            (ItemKind::Metadata, ItemPart::Headers, owned.headers),
            (ItemKind::Metadata, ItemPart::Inodes, owned.inodes),
            (ItemKind::Metadata, ItemPart::Trees, owned.trees),
            (ItemKind::Shared, ItemPart::CopyOnWrite, owned.copies),
        ] {
            items.push(Item::new(kind, signed(bytes)).part(part));
        }
        items.push(Item::new(ItemKind::Shared, -signed(owned.repeated)));
        return;
    }
    if geometry.has_owners {
        let (path, kind) = (source.mount_point, WarningKind::Owners);
        warnings.push(Warning::about(path, kind));
    }
    let inodes = xfs_fscounts(fd).map_or(0, |[_, _, _, inodes]| inodes);
    let inodes = inodes.saturating_mul(geometry.inode.into());
    items.push(Item::new(ItemKind::Metadata, signed(inodes)).part(ItemPart::Inodes));
    if geometry.has_reflink {
        // If the files have more blocks than are allocated, some blocks are shared.
        let allocated = geometry.blocks.saturating_mul(block);
        let allocated = allocated.saturating_sub(log).saturating_sub(owned.free);
        let others = items
            .iter()
            .filter(|item| item.is_in_used && item.kind != ItemKind::Reserved);
        let excess = sum(others).saturating_sub(signed(allocated));
        if excess > 0 {
            items.push(Item {
                is_exact: false,
                ..Item::new(ItemKind::Shared, -excess).part(ItemPart::AtLeast)
            });
        }
    }
}

fn read_geometry(source: &TableSource<'_>) -> Option<Geometry> {
    Geometry::parse(&xfs_fsgeometry(&source.top.fd).ok()?)
}

/// Adds the deleted files of loop devices, with the sizes that bulkstat reports for their inodes.
pub(crate) fn add_images(source: &TableSource<'_>, images: &[LoopImage], items: &mut Vec<Item>) {
    if images.is_empty() {
        return;
    }
    let Some(geometry) = read_geometry(source) else {
        return;
    };
    let mut buffer = BulkBuffer::new(1);
    for image in images {
        let group = geometry.group_of(image.ino);
        if xfs_bulkstat(&source.top.fd, group, image.ino, 1, &mut buffer).is_err() {
            continue;
        }
        let inode = buffer.rows().first().map(Inode::parse);
        // A file that still has a different name is counted in the directory of that name.
        if let Some(inode) = inode.filter(|inode| inode.ino == image.ino && inode.nlink == 0) {
            items.push(Item {
                owner: Some(inode.uid),
                since: Some(inode.ctime),
                ..image.item(inode.blocks.saturating_mul(geometry.block.into()))
            });
        }
    }
}

/// Bytes of the data device by owner.
#[derive(Debug, Default)]
struct BytesByOwner {
    free: u64,
    headers: u64,
    inodes: u64,
    trees: u64,
    copies: u64,
    /// The bytes of blocks that several files share, counted for every file except the first.
    repeated: u64,
    /// Whether the owners of blocks are known.
    has_owners: bool,
    /// The end of the last block seen so far that belongs to a file.
    end: u64,
}

impl BytesByOwner {
    fn read(source: &TableSource<'_>) -> gate::Result<BytesByOwner> {
        const RECORDS: usize = 8192;
        let mut buffer = vec![0; FSMAP_HEAD + RECORDS * FSMAP_LEN];
        let (mut owned, mut from) = (BytesByOwner::default(), 0);
        // Each call of GETFSMAP repeats records at the boundary, which must not be counted twice.
        let mut known: Vec<Record> = Vec::new();
        loop {
            let range = from..u64::MAX;
            let count = getfsmap(&source.top.fd, source.mount.dev, range, &mut buffer)?;
            let records: Vec<Record> = parse(&buffer[FSMAP_HEAD..], count).collect();
            let fresh = records.iter().filter(|record| !known.contains(record));
            fresh.for_each(|record| owned.add(record));
            let Some(last) = records.last().filter(|_| count == RECORDS) else {
                return Ok(owned);
            };
            if last.physical <= from && from > 0 {
                return Ok(owned);
            }
            from = last.physical;
            known = records
                .iter()
                .filter(|it| it.physical.saturating_add(it.length) > from)
                .copied()
                .collect();
        }
    }

    fn add(&mut self, record: &Record) {
        let Record {
            physical, length, ..
        } = *record;
        let is_known = !matches!(
            record.special,
            Some(SpecialOwner::Free | SpecialOwner::Unknown)
        );
        self.has_owners |= is_known;
        let sum = match record.special {
            Some(SpecialOwner::Free) => &mut self.free,
            Some(SpecialOwner::FileSystem | SpecialOwner::Other) => &mut self.headers,
            Some(SpecialOwner::Inodes) => &mut self.inodes,
            Some(
                SpecialOwner::FreeSpaceTrees
                | SpecialOwner::InodeTrees
                | SpecialOwner::ReferenceCounts,
            ) => &mut self.trees,
            Some(SpecialOwner::CopyOnWrite) => &mut self.copies,
            Some(SpecialOwner::Log | SpecialOwner::Unknown) => return,
            None => {
                let end = physical.saturating_add(length);
                let repeated = self.end.min(end).saturating_sub(physical);
                self.repeated = self.repeated.saturating_add(repeated);
                self.end = self.end.max(end);
                return;
            }
        };
        *sum = sum.saturating_add(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_several_files_are_repeated_once_for_each_further_file() {
        let mut owned = BytesByOwner::default();
        let mut add = |physical, length, ino, special| {
            owned.add(&Record {
                physical,
                length,
                ino,
                special,
            });
        };
        for (physical, length, ino) in [(0, 10, 1), (5, 10, 2), (5, 2, 3), (20, 4, 1)] {
            add(physical, length, Some(ino), None);
        }
        add(30, 100, None, Some(SpecialOwner::Free));
        add(130, 7, None, Some(SpecialOwner::Log));
        add(140, 3, None, Some(SpecialOwner::Inodes));
        assert_eq!((owned.repeated, owned.free, owned.inodes), (5 + 2, 100, 3));
        assert!(owned.has_owners);
    }
}
