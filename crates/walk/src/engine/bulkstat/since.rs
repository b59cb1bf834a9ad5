//! Finds changes of known inodes, by bulkstat alone.

use gate::fs::Time;
use gate::xfs::BulkBuffer;
use ondisk::xfs::{Geometry, Inode};

use super::inodes::{ROWS, bulkstat, geometry, is_settled, meta_of};
use super::join::{BulkstatBatchSize, inodes_near};
use crate::engine::inode_state::{Differing, InodeState};
use crate::entry::Meta;
use crate::error::{EngineAction, EngineRefusal};
use crate::top::Top;

/// The inodes of an XFS file system, to be compared with known ones.
pub(in crate::engine) struct Inodes<'a> {
    top: &'a Top,
    shape: Geometry,
}

pub(in crate::engine) fn buffer() -> BulkBuffer {
    BulkBuffer::new(ROWS)
}

impl<'a> Inodes<'a> {
    pub(in crate::engine) fn open(top: &'a Top) -> Result<Inodes<'a>, EngineRefusal> {
        let shape = geometry(&top.fd)?;
        Ok(Inodes { top, shape })
    }

    /// Compares a span of known inodes with the file system: see
    /// [`changed`](crate::engine::since::changed).
    pub(in crate::engine) fn compare<K>(
        &self,
        known: &[(u64, K)],
        since: Time,
        is_same: impl Fn(&K, &Meta) -> bool,
        buffer: &mut BulkBuffer,
    ) -> Result<Vec<Differing>, EngineRefusal> {
        let (top, shape) = (self.top, &self.shape);
        let mut differ = Vec::new();
        let (mut left, mut stride) = (known, BulkstatBatchSize::default());
        while let Some(&(from, _)) = left.first() {
            let near = inodes_near(left.iter().map(|(ino, _)| *ino));
            let most = near.max(stride.inodes.min(left.len()));
            let group = shape.group_of(from);
            bulkstat(&top.fd, group, from, most, buffer)
                .map_err(|errno| EngineAction::Bulkstat.failed(errno))?;
            // If bulkstat returns no inode, none is in use up to the end of the allocation group.
            let end_of_group = shape.first_of(group.saturating_add(1)).saturating_sub(1);
            let last = buffer.rows().last().map_or(end_of_group, Inode::parse_ino);
            let last = last.max(from);
            let (here, later) = left.split_at(left.partition_point(|(ino, _)| *ino <= last));
            let (mut rows, mut were_known) = (buffer.rows().iter().peekable(), 0);
            for &(ino, ref before) in here {
                while rows.next_if(|row| Inode::parse_ino(row) < ino).is_some() {}
                let row = rows.next_if(|row| Inode::parse_ino(row) == ino);
                were_known += usize::from(row.is_some());
                let Some(inode) = row.map(Inode::parse).filter(|inode| inode.nlink > 0) else {
                    differ.push((ino, InodeState::Deleted));
                    continue;
                };
                let meta = meta_of(&inode, &top.meta, shape);
                if meta.ctime >= since || !is_same(before, &meta) {
                    let now = match is_settled(&inode, since) {
                        true => InodeState::Present(meta),
                        false => InodeState::Unknown,
                    };
                    differ.push((ino, now));
                }
            }
            stride.update(buffer.rows().len(), were_known);
            left = later;
        }
        Ok(differ)
    }
}
