//! ext2, ext3 and ext4: metadata and journal, from the superblock on the device; the reserves; and deleted files that no visible
//! process holds open.
//!
//! With the mount option `bsddf`, the default, df(1) subtracts metadata and journal from the size, so they are not in the used
//! space.

use std::collections::HashSet;

use base::Warning;
use gate::Gate;
use gate::file::read_kernel;
use gate::fs::Statfs;
use gate::long::c_string;
use mounts::names::{UnopenedDevice, kernel_name, open_device};
use ondisk::ext4::Superblock;
use ondisk::{option_value, split_options};
use walk::engine::ext4::{read_superblock, repeated_xattr_blocks, unnamed_inodes};

use crate::bill::{Item, ItemKind, ItemPart, Remedy};
use crate::error::WarningKind;
use crate::loop_images::{LEAST_MISSING, LoopImage};
use crate::source::{TableSource, signed};

/// Adds the metadata, the journal and the reserves.
pub(crate) fn add(
    source: &TableSource<'_>,
    statfs: &Statfs,
    items: &mut Vec<Item>,
    warnings: &mut Vec<Warning>,
) {
    let (dev, device) = (source.mount.dev, source.mount.content.source.as_deref());
    let mut cluster = statfs.block_size;
    let device = match open_device(dev, device) {
        Ok((fd, path)) => {
            match read_superblock(&fd, String::new()) {
                Ok(superblock) => {
                    cluster = superblock.cluster_size;
                    add_tables(source, &superblock, statfs, items);
                }
                Err(_) => warnings.push(Warning::about(&path, WarningKind::Superblock)),
            }
            Some(path)
        }
        Err(Some(UnopenedDevice { path, errno })) => {
            let kind = WarningKind::Superblock;
            warnings.push(Warning::failed(&path, Gate::Openat, errno, kind));
            Some(path)
        }
        Err(None) => {
            warnings.push(Warning::about(source.mount_point, WarningKind::Superblock));
            None
        }
    };
    let own = reserved_clusters(source).map_or(0, |clusters| clusters.saturating_mul(cluster));
    let users = ReserveUsers::from_options(&source.mount.content.options);
    add_reserves(device, own, users, statfs, items);
}

fn add_tables(
    source: &TableSource<'_>,
    superblock: &Superblock,
    statfs: &Statfs,
    items: &mut Vec<Item>,
) {
    let block = u64::from(superblock.block_size);
    let is_minixdf =
        split_options(&source.mount.content.options).any(|option| option == b"minixdf");
    let overhead = match is_minixdf {
        true => superblock.overhead_blocks.saturating_mul(block),
        false => superblock
            .blocks
            .saturating_mul(block)
            .saturating_sub(statfs.size),
    };
    let journal = superblock.journal_size.unwrap_or(0).min(overhead);
    for item in [
        Item::new(ItemKind::Metadata, signed(overhead - journal)).part(ItemPart::Tables),
        Item::new(ItemKind::Journal, signed(journal)),
    ] {
        items.push(Item {
            is_in_used: is_minixdf,
            ..item
        });
    }
}

/// Adds deleted files that no visible process holds open, if more than a little used space is unaccounted for: a loop device,
/// a process in a different PID namespace, or the kernel holds them.
pub(crate) fn add_unnamed(
    source: &TableSource<'_>,
    missing: i64,
    images: &[LoopImage],
    items: &mut Vec<Item>,
) {
    if missing < LEAST_MISSING {
        return;
    }
    let known: HashSet<u64> = items.iter().filter_map(|item| item.ino).collect();
    let unnamed = unnamed_inodes(source.top, source.mount).unwrap_or_default();
    let unnamed = unnamed
        .into_iter()
        .filter(|inode| !known.contains(&inode.ino));
    items.extend(unnamed.map(|inode| {
        let bytes = inode.blocks.saturating_mul(512);
        let image = images.iter().find(|image| image.ino == inode.ino);
        let item = image.map_or_else(
            || Item::new(ItemKind::Deleted, signed(bytes)),
            |image| image.item(bytes),
        );
        Item {
            ino: Some(inode.ino),
            owner: Some(inode.uid),
            since: Some(inode.ctime),
            ..item
        }
    }));
}

/// If the items have more bytes than df(1) counts as used: subtracts the blocks with extended attributes that several files share, because
/// each file counts them.
pub(crate) fn add_shared_xattrs(source: &TableSource<'_>, missing: i64, items: &mut Vec<Item>) {
    /// Minimum of the bytes in excess for which the inode tables are read.
    const LEAST_EXCESS: i64 = 64 << 10;
    if missing > -LEAST_EXCESS {
        return;
    }
    if let Ok(repeated) = repeated_xattr_blocks(source.top, source.mount) {
        items.push(Item::new(ItemKind::Shared, -signed(repeated)));
    }
}

/// The user and group, other than root, that may use the reserve.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct ReserveUsers {
    user: Option<u32>,
    group: Option<u32>,
}

impl ReserveUsers {
    /// The kernel reports `resuid=` and `resgid=` also if they come from the superblock
    /// (`tune2fs -u`).
    fn from_options(options: &[u8]) -> ReserveUsers {
        let id = |name: &[u8]| {
            let text = option_value(options, name)?;
            let id: u32 = str::from_utf8(&text).ok()?.parse().ok()?;
            (id != 0).then_some(id)
        };
        ReserveUsers {
            user: id(b"resuid="),
            group: id(b"resgid="),
        }
    }

    fn is_root_only(self) -> bool {
        self == ReserveUsers::default()
    }
}

/// Adds the reserve for root, and the clusters that the file system keeps for delayed allocations.
/// A reserve for a different user or group is wanted, so lowering it is not suggested.
fn add_reserves(
    device: Option<Vec<u8>>,
    own: u64,
    users: ReserveUsers,
    statfs: &Statfs,
    items: &mut Vec<Item>,
) {
    /// `tune2fs -m 1` leaves 1/100 of the blocks reserved.
    const LEFT: u64 = 100;
    /// Minimum of freed bytes for which lowering the reserve is suggested.
    const LEAST: u64 = 1 << 30;
    let reserved = statfs.free.saturating_sub(statfs.available);
    let own = own.min(reserved);
    let for_root = reserved - own;
    let freeable = for_root.saturating_sub(statfs.size / LEFT);
    let remedy = device
        .filter(|_| freeable >= LEAST && users.is_root_only())
        .map(|device| Remedy::LowerReserve { device });
    items.push(Item {
        is_in_used: false,
        freeable: remedy.is_some().then_some(freeable),
        remedy,
        owner: users.user,
        ..Item::new(ItemKind::Reserved, signed(for_root)).part(match users.is_root_only() {
            true => ItemPart::Root,
            false => ItemPart::User,
        })
    });
    items.push(Item {
        is_in_used: false,
        ..Item::new(ItemKind::Reserved, signed(own)).part(ItemPart::FileSystem)
    });
}

/// Number of clusters that the file system keeps for itself; without bigalloc, a cluster is a
/// block.
fn reserved_clusters(source: &TableSource<'_>) -> Option<u64> {
    let name = kernel_name(source.mount.dev)?;
    let path = [b"/sys/fs/ext4/", &name[..], b"/reserved_clusters"].concat();
    let text = read_kernel(&c_string(&path).ok()?).ok()?;
    str::from_utf8(&text).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::ReserveUsers;

    #[test]
    fn a_reserve_can_be_for_a_user_or_group() {
        let users = |options: &[u8]| {
            let users = ReserveUsers::from_options(options);
            (users.user, users.group, users.is_root_only())
        };
        assert_eq!(users(b"rw,relatime"), (None, None, true));
        assert_eq!(users(b"rw,resuid=0,resgid=0"), (None, None, true));
        assert_eq!(users(b"rw,resuid=1000"), (Some(1000), None, false));
        assert_eq!(users(b"rw,resgid=27,noatime"), (None, Some(27), false));
    }
}
