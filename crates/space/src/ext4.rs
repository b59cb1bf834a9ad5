//! ext2, ext3 and ext4: tables and journal, by the superblock on the device; and the reserves.
//!
//! With the default, `bsddf`, df(1) subtracts the tables and the journal from the size, so that they are not in what is used.

use base::Warning;
use gate::Gate;
use gate::file::{read_full_at, read_kernel};
use gate::fs::Statfs;
use gate::long::c_string;
use mounts::names::{UnopenedDevice, kernel_name, open_device};
use ondisk::ext4::{Superblock, superblock};
use ondisk::split_options;

use crate::bill::{Item, Kind, Part, Remedy};
use crate::error::WarningKind;
use crate::source::{Source, signed};

/// Adds what is not a file.
pub(crate) fn add(
    source: &Source<'_>,
    statfs: &Statfs,
    items: &mut Vec<Item>,
    warnings: &mut Vec<Warning>,
) {
    let (dev, device) = (source.mount.dev, source.mount.content.source.as_deref());
    let mut cluster = statfs.block_size;
    let device = match open_device(dev, device) {
        Ok((fd, path)) => {
            let mut bytes = [0; superblock::LENGTH];
            let read = read_full_at(&fd, superblock::OFFSET, &mut bytes);
            let parsed = read.ok().and_then(|_| Superblock::parse(&bytes).ok());
            match parsed {
                Some(superblock) => {
                    cluster = superblock.cluster_size;
                    add_tables(source, &superblock, statfs, items);
                }
                None => warnings.push(Warning::about(&path, WarningKind::Superblock)),
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
    source: &Source<'_>,
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
        Item::new(Kind::Metadata, signed(overhead - journal)).part(Part::Tables),
        Item::new(Kind::Journal, signed(journal)),
    ] {
        items.push(Item {
            is_in_used: is_minixdf,
            ..item
        });
    }
}

/// Adds what is reserved for root, and what the file system keeps for itself, in case it has promised too much.
fn add_reserves(device: Option<Vec<u8>>, own: u64, statfs: &Statfs, items: &mut Vec<Item>) {
    /// The reserve that `tune2fs -m 1` leaves.
    const LEFT: u64 = 100;
    /// Freeing less is not worth a word.
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
        ..Item::new(Kind::Reserved, signed(for_root)).part(Part::Root)
    });
    items.push(Item {
        is_in_used: false,
        ..Item::new(Kind::Reserved, signed(own)).part(Part::FileSystem)
    });
}

/// The clusters that the file system keeps for itself; without bigalloc, a cluster is a block.
fn reserved_clusters(source: &Source<'_>) -> Option<u64> {
    let name = kernel_name(source.mount.dev)?;
    let path = [b"/sys/fs/ext4/", &name[..], b"/reserved_clusters"].concat();
    let text = read_kernel(&c_string(&path).ok()?).ok()?;
    str::from_utf8(&text).ok()?.trim().parse().ok()
}
