//! Searches in btrfs trees, and the metadata of inodes found there.

use std::os::fd::AsFd;

use base::btrfs::search;
use gate::Errno;
use gate::btrfs::get_subvol_info;
use gate::fs::{Attributes, Statfs, Time};
use ondisk::Dev;
use ondisk::btrfs::{Inode, LAST_INODE, Subvolume, kind, links};

use crate::entry::{FileType, Meta};

/// Buffer size of a search for a single inode.
pub(super) const SMALL: usize = 4096;

/// The first inode number from `ino` on that has items in the tree.
pub(super) fn next_inode(
    fd: impl AsFd,
    tree: u64,
    ino: u64,
    buffer: &mut [u8],
) -> Result<Option<u64>, Errno> {
    let keys = (ino, 0, 0)..=(LAST_INODE, u8::MAX, u64::MAX);
    let mut items = search(fd, tree, keys, 1, buffer)?;
    Ok(items.next().map(|item| item.key.0))
}

/// The first readable inode number after an unreadable one. Unreadable leaves hold neighbouring
/// inodes, so doubling the step soon gets past them.
pub(super) fn readable_after(
    fd: impl AsFd,
    tree: u64,
    unreadable: u64,
    buffer: &mut [u8],
) -> Option<u64> {
    let mut is_readable = |ino| next_inode(&fd, tree, ino, buffer).is_ok();
    let (mut bad, mut step) = (unreadable, 1_u64);
    let mut good = loop {
        let next = bad.checked_add(step).filter(|&next| next <= LAST_INODE)?;
        if is_readable(next) {
            break next;
        }
        (bad, step) = (next, step.saturating_mul(2));
    };
    while good - bad > 1 {
        let middle = bad + (good - bad) / 2;
        if is_readable(middle) {
            good = middle
        } else {
            bad = middle
        }
    }
    Some(good)
}

/// The parent of a directory, and the name of the directory in the parent; `None` for the root, or
/// a file that is no directory.
pub(super) fn parent_of(
    fd: impl AsFd,
    tree: u64,
    ino: u64,
    buffer: &mut [u8],
) -> Result<Option<(u64, Vec<u8>)>, Errno> {
    let keys = (ino, kind::INODE_ITEM, 0)..=(ino, kind::INODE_REF, u64::MAX);
    let (mut is_dir, mut parent) = (false, None);
    for item in search(fd, tree, keys, 2, buffer)? {
        if item.key.1 == kind::INODE_ITEM {
            let inode = Inode::parse(item.data);
            is_dir =
                inode.is_some_and(|inode| FileType::from_mode(inode.mode) == FileType::Directory);
        }
        let mut links = links(item).map(|link| (link.dir, link.name.to_vec()));
        parent = parent.or(links.next());
    }
    Ok(parent.filter(|_| is_dir))
}

pub(super) fn subvolume(fd: impl AsFd) -> Result<Subvolume, Errno> {
    Subvolume::parse(&get_subvol_info(fd)?).ok_or(Errno::EIO)
}

/// Whether the file system is so full that writes may have failed. File times in the kernel's
/// memory (statx(2)) then differ from those in the trees.
pub(super) fn is_full(statfs: &Statfs) -> bool {
    const FULL: u64 = 16 << 20;
    statfs.available < FULL
}

/// The fields of statx(2) that are not in the inode item: device, mount and sector size.
#[derive(Clone, Copy, Debug)]
pub(super) struct MetaSource {
    pub(super) dev: Dev,
    pub(super) mount: u64,
    pub(super) sector: u64,
}

#[inline]
pub(super) fn meta_of(ino: u64, inode: &Inode, xattrs: bool, source: MetaSource) -> Meta {
    let mode = inode.mode & 0xffff;
    let rdev = match FileType::from_mode(mode) {
        FileType::Block | FileType::Char => {
            let rdev = inode.rdev as u32; // the kernel keeps only 32 bits of a device number
            Dev::new(rdev >> 20, rdev & 0xf_ffff)
        }
        _ => Dev::default(),
    };
    let mut attributes = Attributes::empty();
    for (flag, attribute) in [
        (Inode::APPEND, Attributes::APPEND),
        (Inode::COMPRESS, Attributes::COMPRESSED),
        (Inode::IMMUTABLE, Attributes::IMMUTABLE),
        (Inode::NODUMP, Attributes::NODUMP),
        (Inode::VERITY, Attributes::VERITY),
    ] {
        attributes.set(attribute, inode.flags & flag != 0);
    }
    let allocated = inode.nbytes.checked_next_multiple_of(source.sector);
    Meta {
        ino,
        mode,
        nlink: inode.nlink,
        uid: inode.uid,
        gid: inode.gid,
        size: inode.size,
        blocks: allocated.unwrap_or(inode.nbytes) >> 9,
        atime: inode.atime,
        mtime: inode.mtime,
        ctime: inode.ctime,
        btime: Some(inode.otime),
        rdev,
        dev: source.dev,
        mount: source.mount,
        attributes: attributes.bits(),
        generation: Some(inode.generation as u32),
        xattrs: Some(xattrs),
    }
}

/// Whether an inode may have changed at `since` or later, by ctime or mtime.
pub(super) fn may_have_changed(meta: &Meta, since: Time) -> bool {
    meta.ctime >= since || meta.mtime >= since
}

/// Reuses the allocation of a vector whose items borrow from a buffer that is read again.
pub(super) fn recycle<T, U>(mut old: Vec<T>) -> Vec<U> {
    old.clear();
    old.into_iter().filter_map(|_| None).collect()
}
