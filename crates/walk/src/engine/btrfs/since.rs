//! What has changed in a subvolume since a generation of it, at a cost in proportion to the change: a btrfs tree carries in
//! each node the transaction that wrote it last, so that a search passes over whole branches that are older.
//!
//! ```text
//! generation ──► walk, catalog ──► ... ──► changed_since(generation) ──► names to add, to look at, to take away
//! ```
//!
//! Take the generation before the walk that it is to stand for: what changes meanwhile is then found the next time.
//!
//! Not seen:
//! - Names that are gone. The directories that they were in have changed, and are among the answers: hold what was in them
//!   against what is. An inode whose last name is gone is not among the answers.
//! - Other subvolumes, those below included. Ask each of them; a new one shows by the directory that it is in.
//! - Changes of contents that leave all times alone and write no inode: a deduplication, a balance, a defragmentation.
//! - What is written after this has begun; whoever must not miss it asks again.
//!
//! Seen as changed, though nothing but the time of the last reading is: files on a mount without `noatime`.
//!
//! A generation means something within one subvolume only, which is known by its UUID ([`subvolume`]); and nothing after a
//! file system has been put back to an earlier state: then its generation is smaller than what was noted.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use gate::fs::{At, fstatfs, statx, syncfs};
use gate::{Errno, Fd, Result};
use ondisk::btrfs::{FIRST_INODE, Inode, LAST_INODE, Subvolume};

use super::meta_of;
use super::scan::{BUFFER, Found, Row, Scan, parent_of};
use crate::entry::Meta;

/// An inode that has changed, or is new.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// What is known of it now. That of a directory means that something in it was added, removed or renamed, or that it
    /// itself has changed.
    pub meta: Meta,
    /// All its names; none for the root of the subvolume.
    pub names: Vec<Name>,
}

/// A name of an inode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Name {
    /// Inode number of the directory that it is in.
    pub dir: u64,
    /// The name there.
    pub name: Vec<u8>,
}

/// What is said of the subvolume that a directory is in, after everything that was done to it has been written.
///
/// # Errors
/// Those of syncfs(2) and `BTRFS_IOC_GET_SUBVOL_INFO`: `ENOTTY` where it is not btrfs.
pub fn subvolume(fd: &Fd) -> Result<Subvolume> {
    syncfs(fd)?;
    super::subvolume(fd)
}

/// The generation of a subvolume: the transaction in which it was last written. As long as it stays the same, nothing in
/// the subvolume has changed.
///
/// # Errors
/// Those of [`subvolume`].
pub fn generation(fd: &Fd) -> Result<u64> {
    subvolume(fd).map(|subvolume| subvolume.generation)
}

/// The inodes of a subvolume that were written after a generation, in the order of their numbers. Whatever has a ctime of
/// this very moment may have changed again.
///
/// # Errors
/// Those of [`subvolume`]; `EPERM` without CAP_SYS_ADMIN; `ENOSPC` when the file system is so full that writes may have
/// failed: then inodes in the kernel's memory are not as those in the tree.
pub fn changed_since(fd: &Fd, generation: u64) -> Result<Vec<Change>> {
    let known = subvolume(fd)?;
    let seen = statx(fd, c"", At::EMPTY_PATH, Meta::WANT)?;
    let statfs = fstatfs(fd)?;
    if statfs.available < super::FULL {
        return Err(Errno::ENOSPC);
    }
    let (sector, mount) = (statfs.block_size.max(1), seen.mnt_id.unwrap_or(0));
    let mut buffer = vec![0; BUFFER];
    let mut links = Vec::new();
    let mut changes = Vec::new();
    for range in ranges(fd, known.tree, generation, &mut buffer)? {
        let mut scan = Scan::new(known.tree, *range.start(), *range.end(), false);
        while let Some(count) = scan.fill(fd, &mut buffer)? {
            let mut names = super::recycle_links(links);
            scan.rows(&buffer, count, &mut names, |found| {
                let Found::Row(row) = found else { return };
                let is_wanted = |inode: &Inode| inode.transid > generation && inode.nlink > 0;
                let Some(inode) = row.inode.filter(is_wanted) else { return };
                let links = row.links.iter().filter(|link| link.dir != row.ino);
                let names = links.map(|link| Name { dir: link.dir, name: link.name.to_vec() });
                match changes.last_mut() {
                    Some(Change { meta, names: all }) if meta.ino == row.ino => all.extend(names),
                    _ => {
                        let meta = meta_of(row.ino, &inode, row.xattrs, seen.dev.into(), mount, sector);
                        changes.push(Change { meta, names: names.collect() });
                    }
                }
            });
            links = super::recycle_links(names);
        }
    }
    Ok(changes)
}

/// For some directories of a subvolume and all that are above them, the directory that each is in, and its name there.
///
/// # Errors
/// `EPERM` without CAP_SYS_ADMIN.
pub fn parents(fd: &Fd, tree: u64, dirs: impl IntoIterator<Item = u64>) -> Result<HashMap<u64, Name>> {
    let mut buffer = vec![0; BUFFER];
    let mut parents = HashMap::new();
    for dir in dirs {
        let mut at = dir;
        while at != FIRST_INODE && !parents.contains_key(&at) {
            let Some((dir, name)) = parent_of(fd, tree, at, &mut buffer)? else { break };
            parents.insert(at, Name { dir, name });
            at = dir;
        }
    }
    Ok(parents)
}

/// The inodes that were written after a generation. Of what belongs to them, some may lie in leaves that were not, so they
/// are to be read again; those that are close together, at once.
fn ranges(fd: &Fd, tree: u64, generation: u64, buffer: &mut [u8]) -> Result<Vec<RangeInclusive<u64>>> {
    const CLOSE: u64 = 16;
    let Some(after) = generation.checked_add(1) else { return Ok(Vec::new()) };
    let mut ranges: Vec<RangeInclusive<u64>> = Vec::new();
    let mut scan = Scan::new(tree, FIRST_INODE, LAST_INODE, false).since(after);
    while let Some(count) = scan.fill(fd, buffer)? {
        scan.rows(buffer, count, &mut Vec::new(), |found| {
            let Found::Row(Row { ino, inode: Some(inode), .. }) = found else { return };
            if inode.transid <= generation {
                return;
            }
            match ranges.last_mut().filter(|last| ino.saturating_sub(*last.end()) <= CLOSE) {
                Some(last) => *last = *last.start()..=ino,
                None => ranges.push(ino..=ino),
            }
        });
    }
    Ok(ranges)
}
