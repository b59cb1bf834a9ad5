//! Searches of the inode tables of ext4: for inodes without a name that still have blocks, which are deleted files that are still
//! open; and for blocks that several inodes count.

use std::collections::HashSet;

use gate::fs::syncfs;
use ondisk::Time;
use ondisk::ext4::{Inode, Superblock};

use super::device::{Device, sees_ids_as_stored};
use crate::error::{EngineAction, EngineRefusal};
use crate::kind::EngineKind;
use crate::top::Top;

/// A deleted file that has not been freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnnamedInode {
    /// The inode number.
    pub ino: u64,
    /// Allocated space, in units of 512 bytes.
    pub blocks: u64,
    /// The owner.
    pub uid: u32,
    /// When the file lost its last name, or when its inode changed after that.
    pub ctime: Time,
}

/// Reads the inode tables of the ext4 file system that `top` is on for inodes without a name. The
/// kernel frees the blocks of such an inode when the last user closes the file, so an inode that
/// has blocks is in use. Needs checksums of metadata: without them, a row that is being written
/// looks like such an inode.
///
/// # Errors
/// The device cannot be read, or the file system has no checksums.
pub fn unnamed_inodes(
    top: &Top,
    mount: &ondisk::Mount,
) -> Result<Vec<UnnamedInode>, EngineRefusal> {
    let mut found = Vec::new();
    each_row(top, mount, |superblock, number, raw| {
        let inode = Inode::parse_deleted(superblock, number, raw);
        let inode = inode.filter(|inode| inode.blocks() > 0 && !inode.is_reserved());
        found.extend(inode.map(|inode| UnnamedInode {
            ino: number.into(),
            blocks: inode.blocks(),
            uid: inode.uid(),
            ctime: inode.ctime(),
        }));
    })?;
    Ok(found)
}

/// The bytes of the blocks with extended attributes that are counted more than once in `st_blocks`,
/// because several inodes with the same attributes share a block and each counts it.
///
/// # Errors
/// The device cannot be read.
pub fn repeated_xattr_blocks(top: &Top, mount: &ondisk::Mount) -> Result<u64, EngineRefusal> {
    let (mut blocks, mut repeated, mut size) = (HashSet::new(), 0, 0);
    each_row(top, mount, |superblock, number, raw| {
        let inode = Inode::parse(superblock, number, raw);
        let block = inode.and_then(|inode| inode.xattr_block());
        repeated += u64::from(block.is_some_and(|block| !blocks.insert(block)));
        size = superblock.cluster_size;
    })?;
    Ok(repeated.saturating_mul(size))
}

/// Calls `visit` for each row of the inode tables, in use or not, with the number of the inode.
fn each_row(
    top: &Top,
    mount: &ondisk::Mount,
    mut visit: impl FnMut(&Superblock, u32, &[u8]),
) -> Result<(), EngineRefusal> {
    /// Number of rows (inodes) per read.
    const ROWS: u32 = 4096;
    if !gate::process::is_root() {
        return Err(EngineRefusal::NotRoot(EngineKind::Ext4));
    }
    sees_ids_as_stored()?;
    syncfs(&top.fd).map_err(|e| EngineAction::Sync.failed(e))?;
    let mut device = Device::open(top.meta.dev, mount)?;
    device
        .read_groups()
        .map_err(|e| EngineAction::GroupDescriptors.failed(e))?;
    let superblock = &device.superblock;
    let size = superblock.inode_size as usize;
    let mut buffer = Vec::new();
    let all = superblock
        .groups
        .saturating_mul(superblock.inodes_per_group);
    for from in (0..all).step_by(ROWS as usize) {
        let rows = from..from.saturating_add(ROWS).min(all);
        device.read_rows(rows, &mut buffer);
        for (number, raw) in (from + 1..).zip(buffer.chunks_exact(size)) {
            visit(superblock, number, raw);
        }
    }
    Ok(())
}
