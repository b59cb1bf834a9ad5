//! Finds changes of known inodes, by the inode tables alone.

use gate::fs::Time;
use ondisk::ext4::Inode;

use super::KIND;
use super::device::Device;
use super::near::each_row;
use super::rows::settled;
use crate::engine::inode_state::{Differing, InodeState};
use crate::entry::Meta;
use crate::error::{EngineAction, EngineRefusal};
use crate::top::MountContext;

/// The inode tables of an ext4 file system, to be compared with known inodes.
pub(in crate::engine) struct Tables<'a> {
    device: Device,
    top: &'a Meta,
}

impl<'a> Tables<'a> {
    /// Calls syncfs(2), and opens the device.
    pub(in crate::engine) fn open(context: &MountContext<'a>) -> Result<Tables<'a>, EngineRefusal> {
        let mount = context.mount.ok_or(EngineRefusal::UnknownMount(KIND))?;
        let top = &context.top.meta;
        let mut device = Device::open(top.dev, mount)?;
        // Without checksums, a row that is being written would look like a changed inode.
        if !device.superblock.has_checksums() {
            return Err(EngineRefusal::NoChecksums);
        }
        device
            .read_groups()
            .map_err(|e| EngineAction::GroupDescriptors.failed(e))?;
        Ok(Tables { device, top })
    }

    /// Compares a span of known inodes with the file system: see
    /// [`changed`](crate::engine::since::changed).
    pub(in crate::engine) fn compare<K>(
        &self,
        known: &[(u64, K)],
        since: Time,
        is_same: impl Fn(&K, &Meta) -> bool,
        buffer: &mut Vec<u8>,
    ) -> Vec<Differing> {
        let superblock = &self.device.superblock;
        // An inode number beyond 32 bits becomes 0, which has no inode, so the result is "unknown".
        let number = |(ino, _): &(u64, K)| u32::try_from(*ino).unwrap_or(0);
        let mut differ = Vec::new();
        each_row(&self.device, known, number, buffer, |one, raw| {
            let (ino, before) = one;
            let inode = raw.and_then(|raw| Inode::parse(superblock, number(one), raw));
            let now = match inode {
                Some(inode) => match settled(&inode, since, self.top) {
                    Some(meta) if is_same(before, &meta) => return,
                    Some(meta) => InodeState::Present(meta),
                    None => InodeState::Unknown,
                },
                None if raw.is_some_and(|raw| Inode::is_deleted(superblock, number(one), raw)) => {
                    InodeState::Deleted
                }
                None => InodeState::Unknown,
            };
            differ.push((*ino, now));
        });
        differ
    }
}
