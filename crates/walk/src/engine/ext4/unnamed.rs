//! Inodes without a name that still have blocks: deleted files that are still open.

use gate::fs::syncfs;
use ondisk::Time;
use ondisk::ext4::Inode;

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
    let (mut found, mut buffer) = (Vec::new(), Vec::new());
    let all = superblock
        .groups
        .saturating_mul(superblock.inodes_per_group);
    for from in (0..all).step_by(ROWS as usize) {
        let rows = from..from.saturating_add(ROWS).min(all);
        device.read_rows(rows, &mut buffer);
        for (number, raw) in (from + 1..).zip(buffer.chunks_exact(size)) {
            let inode = Inode::parse_deleted(superblock, number, raw);
            let inode = inode.filter(|inode| inode.blocks() > 0 && !inode.is_reserved());
            found.extend(inode.map(|inode| UnnamedInode {
                ino: number.into(),
                blocks: inode.blocks(),
                uid: inode.uid(),
                ctime: inode.ctime(),
            }));
        }
    }
    Ok(found)
}
