//! Deleted files that loop devices hold open: the kernel holds them, and no process.
//!
//! `/sys/block/loopN/loop/backing_file` ends with ` (deleted)`, as in `losetup -a`. The inode number comes from the device, which
//! needs permission to open it. No interface of loop devices has the allocated size, so each file system finds it by the inode.

use base::directory::each_entry;
use gate::Errno;
use gate::file::read_kernel_in;
use gate::fs::{CWD, Open, openat};
use gate::long::c_string;
use gate::loop_device::backing_file;
use mounts::names::device_path;
use ondisk::{Dev, Mount};

use crate::bill::{Holder, Item, ItemKind, Remedy, sum};
use crate::deleted::DELETED;
use crate::source::signed;

/// Minimum of unaccounted bytes for which deleted files without a process are searched.
pub(crate) const LEAST_MISSING: i64 = 1 << 20;

/// The deleted file of a loop device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LoopImage {
    /// The path of the loop device.
    device: Vec<u8>,
    /// The path of the file before its deletion.
    path: Vec<u8>,
    /// The inode number of the file.
    pub(crate) ino: u64,
    /// The size of the device in bytes. A sparse file has fewer allocated bytes.
    size: u64,
    /// The command that detaches the device, if it is known what uses it.
    remedy: Option<Remedy>,
}

impl LoopImage {
    /// The item of the file, with its allocated size.
    pub(crate) fn item(&self, bytes: u64) -> Item {
        Item {
            path: Some(self.path.clone()),
            ino: Some(self.ino),
            holder: Some(Holder {
                pid: None,
                program: self.device.clone(),
                processes: 0,
                fd: None,
                unit: None,
            }),
            remedy: self.remedy.clone(),
            ..Item::new(ItemKind::Deleted, signed(bytes))
        }
    }
}

/// Finds the loop devices with a deleted file whose device number is one of `devs`.
pub(crate) fn deleted_images(devs: &[Dev], table: &[Mount]) -> Vec<LoopImage> {
    let mut names: Vec<Vec<u8>> = Vec::new();
    if let Ok(block) = openat(CWD, c"/sys/block", Open::DIRECTORY) {
        let _ = each_entry(&block, |entry| names.push(entry.name.to_bytes().to_vec()));
    }
    let images = names.into_iter().filter_map(|name| {
        name.strip_prefix(b"loop")?;
        let dir = [b"/sys/block/", &name[..]].concat();
        let file = read_kernel_in(&dir, b"loop/backing_file").ok()?;
        let path = deleted_path(&file)?.to_vec();
        let device = device_path(&name);
        let opened = openat(CWD, &c_string(&device).ok()?, Open::NONBLOCK).ok()?;
        let (dev, ino) = backing_file(&opened).ok()?;
        let sectors = read_kernel_in(&dir, b"size").ok()?;
        devs.contains(&dev).then(|| LoopImage {
            remedy: remedy(&dir, &device, table),
            device,
            path,
            ino,
            size: parse_sectors(&sectors),
        })
    });
    images.collect()
}

/// The command that detaches a loop device. LOOP_CLR_FD succeeds for a device in use, but then frees the file only when the
/// device is closed, so its mounts must be unmounted first. `None` if something else uses the device: a mount in a different
/// namespace, a partition, the device mapper.
fn remedy(dir: &[u8], device: &[u8], table: &[Mount]) -> Option<Remedy> {
    let number = read_kernel_in(dir, b"dev").unwrap_or_default();
    let is_on_it = |row: &&Mount| {
        row.dev.to_string().as_bytes() == number.trim_ascii_end()
            || row.content.source.as_deref() == Some(device)
    };
    let on_it = table.iter().filter(is_on_it);
    let mount_points: Vec<Vec<u8>> = on_it.filter_map(|row| row.target.clone()).collect();
    let exclusive = openat(CWD, &c_string(device).ok()?, Open::NONBLOCK | Open::EXCL);
    let is_in_use = matches!(exclusive, Err(Errno::EBUSY));
    let autoclear = read_kernel_in(dir, b"loop/autoclear").unwrap_or_default();
    (!is_in_use || !mount_points.is_empty()).then(|| Remedy::Detach {
        device: device.to_vec(),
        mount_points,
        is_autoclear: autoclear.trim_ascii_end() == b"1",
    })
}

/// The path in the text of `backing_file`, if the file is deleted.
fn deleted_path(text: &[u8]) -> Option<&[u8]> {
    text.strip_suffix(b"\n")
        .unwrap_or(text)
        .strip_suffix(DELETED)
}

/// The bytes of a device from the text of its `size`, which has sectors.
fn parse_sectors(text: &[u8]) -> u64 {
    const SECTOR: u64 = 512;
    let sectors = str::from_utf8(text).ok();
    let sectors = sectors.and_then(|text| text.trim().parse::<u64>().ok());
    sectors.map_or(0, |sectors| sectors.saturating_mul(SECTOR))
}

/// Adds the images whose allocated size is unknown: at most the size of the device, and at most the space that no other item
/// accounts for.
pub(crate) fn add_rest(images: &[LoopImage], used: u64, items: &mut Vec<Item>) {
    for image in images {
        let is_known = items.iter().any(|item| is_image(item, image));
        let others = sum(items.iter().filter(|item| item.is_in_used));
        let missing = signed(used).saturating_sub(others);
        if !is_known && missing >= LEAST_MISSING {
            items.push(Item {
                is_exact: false,
                ..image.item(image.size.min(missing.cast_unsigned()))
            });
        }
    }
}

/// Whether the item is the file of this loop device. A process can hold the same file.
pub(crate) fn is_image(item: &Item, image: &LoopImage) -> bool {
    item.kind == ItemKind::Deleted && item.ino == Some(image.ino)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(ino: u64, size: u64) -> LoopImage {
        LoopImage {
            device: b"/dev/loop7".to_vec(),
            path: b"/srv/image".to_vec(),
            ino,
            size,
            remedy: None,
        }
    }

    #[test]
    fn only_deleted_files_are_images() {
        assert_eq!(deleted_path(b"/a b (deleted)\n"), Some(&b"/a b"[..]));
        assert_eq!(deleted_path(b"/a\n (deleted)\n"), Some(&b"/a\n"[..]));
        assert_eq!(deleted_path(b"/a (deleted) b\n"), None);
        assert_eq!((parse_sectors(b"8\n"), parse_sectors(b"")), (4096, 0));
    }

    #[test]
    fn an_image_of_unknown_size_is_at_most_what_is_missing() {
        const MIB: u64 = 1 << 20;
        let images = [image(5, 4 * MIB), image(6, 90 * MIB), image(7, MIB)];
        let mut items = vec![Item::new(ItemKind::Files, signed(10 * MIB))];
        add_rest(&images, 20 * MIB, &mut items);
        let found: Vec<_> = items.iter().map(|it| (it.ino, it.bytes)).collect();
        let expected = [(None, 10), (Some(5), 4), (Some(6), 6)];
        assert_eq!(found, expected.map(|(ino, n)| (ino, signed(n * MIB))));
        assert!(items[0].is_exact && !items[1].is_exact);
        add_rest(&images[..1], 40 * MIB, &mut items);
        assert_eq!(items.len(), 3);
    }
}
