//! The changes of known inodes on ext4 and XFS, by the inodes alone: no name is read, and no
//! directory opened.
//!
//! On these file systems every change of a file or a directory changes its inode, at least the
//! change time: a directory with an unchanged inode has the same names. (Except after a repair:
//! e2fsck and xfs_repair need the file system to be unmounted, and `xfs_scrub` can repair a
//! directory. The caller checks that the mount is still the same.)

use base::pool;
use gate::sync::Mutex;

use super::bulkstat::since as bulkstat;
use super::crew::crew;
use super::ext4::since as ext4;
use super::inode_state::Differing;
pub use super::inode_state::InodeState;
use crate::entry::Meta;
use crate::error::EngineRefusal;
use crate::kind::EngineKind;
use crate::moment::Moment;
use crate::top::MountContext;

/// Compares known inodes, which are sorted by number, with those of the file system, and returns
/// those that differ, in the same order. `is_same` compares a known inode with its present
/// metadata, whose number of blocks may be wrong if it is 0 ([`ondisk::xfs::Inode::blocks`]).
/// `written` is the time of the last syncfs(2): inodes that have changed later count as different.
///
/// `None` if `is_worth` ends the comparison, given the number of differing and of compared inodes.
///
/// # Errors
/// The engine is neither `ext4` nor `bulkstat`, or cannot work on the mount.
pub fn changed<K: Sync>(
    by: EngineKind,
    context: &MountContext<'_>,
    known: &[(u64, K)],
    is_same: impl Fn(&K, &Meta) -> bool + Sync,
    written: Moment,
    is_worth: impl Fn(usize, usize) -> bool + Sync,
) -> Result<Option<Vec<Differing>>, EngineRefusal> {
    if by == EngineKind::Ext4 {
        let tables = ext4::Tables::open(context)?;
        let compare = |buffer: &mut Vec<u8>, known: &[(u64, K)]| {
            Ok(tables.compare(known, written.changed_since(), &is_same, buffer))
        };
        share(known, Vec::new, compare, is_worth)
    } else {
        let inodes = bulkstat::Inodes::open(context.top)?;
        let compare = |buffer: &mut _, known: &[(u64, K)]| {
            inodes.compare(known, written.changed_since(), &is_same, buffer)
        };
        share(known, bulkstat::buffer, compare, is_worth)
    }
}

/// Distributes spans of known inodes to threads, which call `compare` for each. Each thread has a
/// buffer.
fn share<K: Sync, B>(
    known: &[(u64, K)],
    buffer: impl Fn() -> B + Sync,
    compare: impl Fn(&mut B, &[(u64, K)]) -> Result<Vec<Differing>, EngineRefusal> + Sync,
    is_worth: impl Fn(usize, usize) -> bool + Sync,
) -> Result<Option<Vec<Differing>>, EngineRefusal> {
    /// Number of inodes that a thread takes at a time.
    const SPAN: usize = 8192;
    let spans: Vec<&[(u64, K)]> = known.chunks(SPAN).collect();
    let found = Mutex::new((0, Vec::new()));
    let start = |run: &(dyn Fn(B) + Sync)| crew(None, spans.len(), || run(buffer()));
    let ended = pool::share(spans.len(), start, |buffer, nth| {
        let differ = compare(buffer, spans[nth]).map_err(Some)?;
        let (seen, all) = &mut *found.lock();
        *seen += spans[nth].len();
        all.extend(differ);
        is_worth(all.len(), *seen).then_some(()).ok_or(None)
    });
    match ended {
        Err(Some(refusal)) => Err(refusal),
        Err(None) => Ok(None),
        Ok(()) => {
            let (_, mut all) = found.into_inner();
            all.sort_unstable_by_key(|(ino, _): &Differing| *ino);
            Ok(Some(all))
        }
    }
}
