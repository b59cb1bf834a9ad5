//! The changes of known inodes, by bulkstat alone: no name is read, and no directory opened.
//!
//! Every change of a file or a directory on XFS changes its inode, at least the change time: a
//! directory with an unchanged inode has the same names. (Except after a repair: xfs_repair needs the
//! file system to be unmounted, and `xfs_scrub` can repair a directory. The caller checks that the
//! mount is still the same.)

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use gate::Errno;
use gate::sync::Mutex;
use gate::xfs::BulkBuffer;
use ondisk::xfs::{Geometry, Inode};

use super::inodes::{ROWS, bulkstat, geometry, is_settled, meta_of};
use super::join::{Stride, inodes_near};
use crate::engine::crew::crew;
use crate::entry::{Meta, Time};
use crate::error::{EngineAction, EngineRefusal};
use crate::moment::Moment;
use crate::top::Top;

/// The present state of a known inode.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Now {
    /// It has no name any more.
    Gone,
    /// It has this metadata.
    Is(Meta),
    /// It must be looked at by its name: it is changing, or bulkstat does not return all metadata.
    Unsettled,
}

/// Compares known inodes, in ascending order of their numbers, with those of the file system, and
/// returns those that differ, in that order. `is_same` compares one with its metadata now, where 0
/// blocks may be more ([`Inode::blocks`]). `written` is the time of the last syncfs(2): inodes that
/// have changed later count as different.
///
/// `None` if `is_worth` stops it, given how many differ of how many.
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
    /// Inodes that a thread takes at a time.
    const SPAN: usize = 8192;
    let shape = geometry(&top.fd)?;
    let spans: Vec<&[(u64, K)]> = known.chunks(SPAN).collect();
    let (next, found) = (AtomicUsize::new(0), Mutex::new((0, Ok(Some(Vec::new())))));
    crew(None, spans.len(), || {
        let mut buffer = BulkBuffer::new(ROWS);
        while let Some(span) = spans.get(next.fetch_add(1, Relaxed)) {
            let since = written.changed_since();
            let differ = compare(top, span, &shape, since, &is_same, &mut buffer);
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
    if let Some(all) = &mut found {
        all.sort_unstable_by_key(|(ino, _)| *ino);
    }
    Ok(found)
}

/// Compares a span of them.
fn compare<K>(
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
        // Without rows, there are none up to the end of the group.
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
                differ.push((ino, Now::Gone));
                continue;
            };
            let meta = meta_of(&inode, &top.meta, shape);
            if meta.ctime >= since || !is_same(before, &meta) {
                let is_settled = is_settled(&inode, since);
                differ.push((
                    ino,
                    if is_settled {
                        Now::Is(meta)
                    } else {
                        Now::Unsettled
                    },
                ));
            }
        }
        stride.update(buffer.rows().len(), were_known);
        left = later;
    }
    Ok(differ)
}
