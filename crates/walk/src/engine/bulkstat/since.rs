//! What has changed of inodes that were known, by bulkstat alone: no name is read, and no directory
//! opened.
//!
//! Whatever is done to a file or a directory on XFS changes its inode, at least the change time:
//! what is in a directory whose inode is as it was has the names that it had. (Not so if a file
//! system was repaired meanwhile, which XFS has to be unmounted for, or `xfs_scrub` has mended a
//! directory: whoever goes by this sees that the mount is the one that it was.)

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use gate::Errno;
use gate::sync::Mutex;
use gate::xfs::BulkBuffer;
use ondisk::xfs::{Geometry, Inode};

use super::join::{Stride, inodes_near};
use super::{ROWS, bulkstat, geometry, is_settled, meta_of};
use crate::engine::crew::crew;
use crate::entry::{Meta, Time};
use crate::error::{EngineAction, EngineRefusal};
use crate::job::Top;
use crate::moment::Moment;

/// What has become of an inode that was known.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Now {
    /// It is not in use, or only of somebody who has it open.
    Gone,
    /// It is like this.
    Is(Meta),
    /// It must be looked at by its name: it changes right now, or bulkstat does not say all of it.
    Unsettled,
}

/// Holds inodes that were known, by their numbers, which rise, against what is there, and gives
/// those that are not as they were, in that order. `is_same` holds what was known of one against
/// what there is, where 0 blocks may be more ([`Inode::blocks`]). What was dirty has been written
/// since the file system was asked to at a moment: what has changed after that is not believed.
///
/// `None` if it is not worth going on, with so many that differ of so many that were looked at.
///
/// # Errors
/// Those of `XFS_IOC_BULKSTAT` and `XFS_IOC_FSGEOMETRY`.
pub fn changed<K: Sync>(
    top: &Top,
    known: &[(u64, K)],
    is_same: impl Fn(&K, &Meta) -> bool + Sync,
    written: Moment,
    is_worth: impl Fn(usize, usize) -> bool + Sync,
) -> Result<Option<Vec<(u64, Now)>>, EngineRefusal> {
    /// So many a thread takes at a time.
    const SPAN: usize = 8192;
    let shape = geometry(&top.fd)?;
    let spans: Vec<&[(u64, K)]> = known.chunks(SPAN).collect();
    let (next, found) = (AtomicUsize::new(0), Mutex::new((0, Ok(Some(Vec::new())))));
    crew(None, spans.len(), || {
        let mut buffer = BulkBuffer::new(ROWS);
        while let Some(span) = spans.get(next.fetch_add(1, Relaxed)) {
            let differ = look(
                top,
                span,
                &shape,
                written.changed_since(),
                &is_same,
                &mut buffer,
            );
            let (seen, found) = &mut *found.lock();
            *seen += span.len();
            match (&mut *found, differ) {
                (Ok(Some(all)), Ok(differ)) => {
                    all.extend(differ);
                    if is_worth(all.len(), *seen) {
                        continue;
                    }
                    *found = Ok(None);
                }
                (_, Err(errno)) => *found = Err(errno),
                (Ok(None) | Err(_), Ok(_)) => {}
            }
            return next.store(spans.len(), Relaxed);
        }
    });
    let (_, found) = found.into_inner();
    let mut found = found.map_err(|errno| EngineAction::Bulkstat.failed(errno))?;
    found
        .iter_mut()
        .for_each(|all| all.sort_unstable_by_key(|(ino, _)| *ino));
    Ok(found)
}

/// Looks at a span of them.
fn look<K>(
    top: &Top,
    known: &[(u64, K)],
    shape: &Geometry,
    since: Time,
    is_same: impl Fn(&K, &Meta) -> bool,
    buffer: &mut BulkBuffer,
) -> Result<Vec<(u64, Now)>, Errno> {
    let mut differ = Vec::new();
    let (mut left, mut stride) = (known, Stride::default());
    while let Some(&(from, _)) = left.first() {
        let most = inodes_near(left.iter().map(|(ino, _)| *ino)).max(stride.inodes.min(left.len()));
        let group = shape.group_of(from);
        bulkstat(&top.fd, group, from, most, buffer)?;
        // Where none came, there are none up to the end of the group.
        let last = buffer
            .rows()
            .last()
            .map_or(
                shape.first_of(group.saturating_add(1)).saturating_sub(1),
                Inode::parse_ino,
            )
            .max(from);
        let (here, later) = left.split_at(left.partition_point(|(ino, _)| *ino <= last));
        let (mut rows, mut were_known) = (buffer.rows().iter().peekable(), 0);
        for &(ino, ref before) in here {
            while rows.next_if(|row| Inode::parse_ino(row) < ino).is_some() {}
            let row = rows.next_if(|row| Inode::parse_ino(row) == ino);
            were_known += usize::from(row.is_some());
            let Some(inode) = row.map(Inode::parse).filter(|inode| inode.nlink > 0) else {
                differ.push((ino, Now::Gone));
                continue;
            };
            let meta = meta_of(&inode, &top.meta, shape);
            if meta.ctime >= since || !is_same(before, &meta) {
                differ.push((
                    ino,
                    if is_settled(&inode, since) {
                        Now::Is(meta)
                    } else {
                        Now::Unsettled
                    },
                ));
            }
        }
        stride.came(buffer.rows().len(), were_known);
        left = later;
    }
    Ok(differ)
}
