//! ext2, ext3 and ext4: metadata and journal, from the superblock on the device; the reserves; and deleted files that no visible
//! process holds open.
//!
//! With the mount option `bsddf`, the default, df(1) subtracts metadata and journal from the size, so they are not in the used
//! space.

use std::collections::HashSet;

use base::Warning;
use base::directory::each_entry;
use gate::Gate;
use gate::file::read_kernel;
use gate::fs::{CWD, Open, Statfs, openat};
use gate::long::c_string;
use gate::loop_device::backing_file;
use mounts::names::{UnopenedDevice, device_path, kernel_name, open_device};
use ondisk::ext4::Superblock;
use ondisk::{Dev, split_options};
use walk::engine::ext4::{read_superblock, unnamed_inodes};

use crate::bill::{Holder, Item, ItemKind, ItemPart, Remedy};
use crate::error::WarningKind;
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
    add_reserves(device, own, statfs, items);
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
pub(crate) fn add_unnamed(source: &TableSource<'_>, missing: i64, items: &mut Vec<Item>) {
    /// Minimum of unaccounted bytes for which the inode tables are read.
    const LEAST: i64 = 1 << 20;
    if missing < LEAST {
        return;
    }
    let known: HashSet<u64> = items.iter().filter_map(|item| item.ino).collect();
    let mut unnamed = unnamed_inodes(source.top, source.mount).unwrap_or_default();
    unnamed.retain(|inode| !known.contains(&inode.ino));
    if unnamed.is_empty() {
        return;
    }
    let loops = loop_devices();
    items.extend(unnamed.into_iter().map(|inode| {
        let id = (source.mount.dev, inode.ino);
        let on = loops.iter().find(|(_, file)| *file == id);
        let device = on.map(|(device, _)| device.clone());
        Item {
            ino: Some(inode.ino),
            owner: Some(inode.uid),
            since: Some(inode.ctime),
            holder: device.clone().map(|device| Holder {
                pid: None,
                program: device,
                processes: 0,
                unit: None,
            }),
            remedy: device.map(|device| Remedy::Detach { device }),
            ..Item::new(ItemKind::Deleted, signed(inode.blocks.saturating_mul(512)))
        }
    }));
}

/// The paths of the loop devices, with the device and inode numbers of their files.
fn loop_devices() -> Vec<(Vec<u8>, (Dev, u64))> {
    let mut names: Vec<Vec<u8>> = Vec::new();
    if let Ok(block) = openat(CWD, c"/sys/block", Open::DIRECTORY) {
        let _ = each_entry(&block, |entry| names.push(entry.name.to_bytes().to_vec()));
    }
    let devices = names.into_iter().filter_map(|name| {
        name.strip_prefix(b"loop")?;
        let path = device_path(&name);
        let device = openat(CWD, &c_string(&path).ok()?, Open::NONBLOCK).ok()?;
        Some((path, backing_file(&device).ok()?))
    });
    devices.collect()
}

/// Adds the reserve for root, and the clusters that the file system keeps for delayed allocations.
fn add_reserves(device: Option<Vec<u8>>, own: u64, statfs: &Statfs, items: &mut Vec<Item>) {
    /// `tune2fs -m 1` leaves 1/100 of the blocks reserved.
    const LEFT: u64 = 100;
    /// Minimum of freed bytes for which lowering the reserve is suggested.
    const LEAST: u64 = 1 << 30;
    let reserved = statfs.free.saturating_sub(statfs.available);
    let own = own.min(reserved);
    let for_root = reserved - own;
    let freeable = for_root.saturating_sub(statfs.size / LEFT);
    let remedy = device
        .filter(|_| freeable >= LEAST)
        .map(|device| Remedy::LowerReserve { device });
    items.push(Item {
        is_in_used: false,
        freeable: remedy.is_some().then_some(freeable),
        remedy,
        ..Item::new(ItemKind::Reserved, signed(for_root)).part(ItemPart::Root)
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
