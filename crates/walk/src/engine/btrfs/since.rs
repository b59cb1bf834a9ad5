//! The changes in a subvolume since one of its generations, at a cost in proportion to the changes:
//! each node of a btrfs tree has the transaction that wrote it last, so a search skips older
//! branches.
//!
//! ```text
//! generation ──► walk, catalog ──► ... ──► changed_since(generation) ──► changed inodes
//! ```
//!
//! Read the generation before the walk that it describes: changes during the walk are then found
//! the next time. The following changes are not found:
//! - removed names: compare the directories that contained them, which have changed. An inode whose
//!   last name was removed is not among the changes.
//! - changes in other subvolumes, nested ones included. A new subvolume shows as a change of the
//!   directory that contains it.
//! - changes of contents that keep all times: deduplication, balance, defragmentation.
//! - changes that are written after [`subvolume`] was called.
//!
//! Without `noatime`, files that were only read are among the changes.
//!
//! A generation is meaningful only within one subvolume, identified by its UUID ([`subvolume`]),
//! and not after a file system was restored from a copy of its disk: the restored file system may
//! reach the same generation with other contents. To detect this, record some of the inodes that
//! were written last, and compare them with [`written_in`].

use std::collections::HashMap;
use std::iter::successors;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use base::btrfs::{BUFFER, search};
use base::pool::share;
use gate::fs::{fstat, fstatfs, syncfs};
use gate::sync::Mutex;
use gate::{Errno, Fd, Result};
use ondisk::btrfs::{
    FIRST_INODE, LAST_INODE, Link, ROOT_TREE, Subvolume, UUID_TREE, kind, parent_uuid, uuid_key,
};

use super::scan::{FoundItem, Scan, ScannedInode};
use super::search::{MetaSource, SMALL, is_full, meta_of, next_inode, parent_of, recycle};
use crate::engine::crew::crew;
use crate::entry::{Meta, Time};

/// An inode that has changed, or is new.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChangedInode {
    /// Present metadata. A directory also changes when an entry is added, removed or renamed.
    pub meta: Meta,
    /// All names of the inode; none for the root of the subvolume.
    pub names: Vec<InodeName>,
}

/// A name of an inode: a hard link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InodeName {
    /// Inode number of the directory that has the name.
    pub dir: u64,
    /// File name within that directory.
    pub name: Vec<u8>,
}

/// The subvolume that contains a directory, after syncfs(2).
///
/// # Errors
/// The errors of syncfs(2) and `BTRFS_IOC_GET_SUBVOL_INFO`: `ENOTTY` if the file system is not
/// btrfs.
pub fn subvolume(fd: &Fd) -> Result<Subvolume> {
    syncfs(fd)?;
    super::search::subvolume(fd)
}

/// UUIDs of the origins of a subvolume: of the subvolume of which it is a snapshot, of that
/// origin's own origin, and so on until an origin was deleted; at most 100. Without CAP_SYS_ADMIN
/// only the first.
pub fn ancestors(fd: &Fd, subvolume: &Subvolume) -> Vec<[u8; 16]> {
    const MOST: usize = 100;
    let mut buffer = [0; SMALL];
    let mut parent_of = |uuid: &[u8; 16]| {
        let key = uuid_key(*uuid);
        let found = search(fd, UUID_TREE, key..=key, 1, &mut buffer)
            .ok()?
            .next()?;
        let tree = u64::from_le_bytes(*found.data.first_chunk()?);
        let keys = (tree, kind::ROOT_ITEM, 0)..=(tree, kind::ROOT_ITEM, u64::MAX);
        parent_uuid(
            search(fd, ROOT_TREE, keys, 1, &mut buffer)
                .ok()?
                .next()?
                .data,
        )
    };
    let parent = subvolume.is_snapshot().then_some(subvolume.parent_uuid);
    successors(parent, |uuid| parent_of(uuid))
        .take(MOST)
        .collect()
}

/// The inodes of a [`subvolume`] that were written after a generation, in ascending order, without
/// those for which `is_same` is true; `None` if `is_worth` ends the search, given the number of
/// changes so far. Inodes written after the call of [`subvolume`] may be included, and may have
/// changed again. [`Meta::xattrs`] is `Some(true)`, or `None` for unknown.
///
/// # Errors
/// The errors of [`subvolume`]; `EPERM` without CAP_SYS_ADMIN; `ENOSPC` when the file system is so
/// full that writes may have failed: inodes in the kernel's memory then differ from those in the
/// tree.
pub fn changed_since(
    fd: &Fd,
    known: &Subvolume,
    generation: u64,
    is_same: impl Fn(&Meta) -> bool + Sync,
    is_worth: impl Fn(usize) -> bool + Sync,
) -> Result<Option<Vec<ChangedInode>>> {
    let seen = fstat(fd, Meta::WANT)?;
    let statfs = fstatfs(fd)?;
    if is_full(&statfs) {
        return Err(Errno::ENOSPC);
    }
    let Some(after) = generation.checked_add(1) else {
        return Ok(Some(Vec::new()));
    };
    let source = MetaSource {
        dev: seen.dev,
        mount: seen.mnt_id.unwrap_or(0),
        sector: statfs.block_size.max(1),
    };
    let change = |row: &ScannedInode<'_, '_>| {
        let inode = row
            .inode
            .filter(|inode| inode.transid > generation && inode.nlink > 0)?;
        let meta = Meta {
            xattrs: row.xattrs.then_some(true),
            ..meta_of(row.ino, &inode, row.xattrs, source)
        };
        if is_same(&meta) {
            return None;
        }
        let links = row.links.iter().filter(|link| link.dir != row.ino);
        let names = links.map(|link| InodeName {
            dir: link.dir,
            name: link.name.to_vec(),
        });
        let names = names.collect();
        Some(ChangedInode { meta, names })
    };
    let ranges = ranges(fd, known.tree)?;
    let count = AtomicUsize::new(0);
    let may_go_on = |more| is_worth(count.fetch_add(more, Relaxed) + more);
    let found = in_parallel(&ranges, |range, buffer| {
        let written = Scan::new(known.tree, *range.start(), *range.end(), false).since(after);
        let mut changes = collect(fd, written, buffer, change, may_go_on)?;
        for found in changes.iter_mut().filter(|change| !change.has_all_names()) {
            // The other names of the inode are in a leaf that has not been written since.
            let whole = Scan::new(known.tree, found.meta.ino, found.meta.ino, false);
            for change in collect(fd, whole, buffer, change, |_| true)? {
                *found = change;
            }
        }
        Ok(changes)
    })?;
    Ok(is_worth(count.into_inner()).then(|| found.into_iter().flatten().collect()))
}

impl ChangedInode {
    /// Whether all names of the inode are known. (The root of a subvolume has none.)
    fn has_all_names(&self) -> bool {
        self.meta.ino == FIRST_INODE || self.names.len() == self.meta.nlink as usize
    }
}

/// Collects the changes in a range of a tree, until `may_go_on` ends the search, given the number
/// of new changes.
fn collect(
    fd: &Fd,
    mut scan: Scan,
    buffer: &mut [u8],
    change: impl Fn(&ScannedInode<'_, '_>) -> Option<ChangedInode>,
    may_go_on: impl Fn(usize) -> bool,
) -> Result<Vec<ChangedInode>> {
    let (mut changes, mut links): (Vec<ChangedInode>, Vec<Link<'_>>) = Default::default();
    let mut counted = 0;
    while may_go_on(changes.len() - counted)
        && let Some(count) = scan.fill(fd, buffer)?
    {
        counted = changes.len();
        let mut names = recycle(links);
        scan.rows(buffer, count, &mut names, |found| {
            let FoundItem::Inode(row) = found else { return };
            let Some(one) = change(&row) else { return };
            match changes.last_mut().filter(|last| last.meta.ino == row.ino) {
                Some(last) => last.names.extend(one.names),
                None => changes.push(one),
            }
        });
        links = recycle(names);
    }
    Ok(changes)
}

/// The first inodes in a range that were last written in a generation, as many as one search
/// returns: number, ctime and atime of each.
///
/// # Errors
/// `EPERM` without CAP_SYS_ADMIN.
pub fn written_in(
    fd: &Fd,
    tree: u64,
    inos: RangeInclusive<u64>,
    generation: u64,
) -> Result<Vec<(u64, Time, Time)>> {
    let (mut buffer, mut some) = (vec![0; BUFFER], Vec::new());
    let mut scan = Scan::new(tree, *inos.start(), *inos.end(), false).since(generation);
    if let Some(count) = scan.fill(fd, &mut buffer)? {
        scan.rows(&buffer, count, &mut Vec::new(), |found| {
            let FoundItem::Inode(ScannedInode {
                ino,
                inode: Some(inode),
                ..
            }) = found
            else {
                return;
            };
            some.extend((inode.transid == generation).then_some((ino, inode.ctime, inode.atime)));
        });
    }
    Ok(some)
}

/// The parents of some directories of a subvolume and of all directories above them, with their
/// names.
///
/// # Errors
/// `EPERM` without CAP_SYS_ADMIN.
pub fn parents(
    fd: &Fd,
    tree: u64,
    dirs: impl IntoIterator<Item = u64>,
) -> Result<HashMap<u64, InodeName>> {
    /// Number of directories in one task of a thread.
    const SOME: usize = 256;
    let mut dirs: Vec<u64> = dirs.into_iter().collect();
    dirs.sort_unstable();
    dirs.dedup();
    let some: Vec<&[u64]> = dirs.chunks(SOME).collect();
    let found = in_parallel(&some, |dirs, buffer| {
        let mut parents = HashMap::new();
        for &dir in *dirs {
            let mut at = dir;
            while at != FIRST_INODE && !parents.contains_key(&at) {
                let Some((dir, name)) = parent_of(fd, tree, at, buffer)? else {
                    break;
                };
                parents.insert(at, InodeName { dir, name });
                at = dir;
            }
        }
        Ok(parents)
    })?;
    Ok(found.into_iter().flatten().collect())
}

/// Divides all inode numbers of a tree into ranges with about equally many inodes.
fn ranges(fd: &Fd, tree: u64) -> Result<Vec<RangeInclusive<u64>>> {
    const MANY: u64 = 64;
    let mut small = [0; SMALL];
    // The last inode number in use is between `used` and `unused`.
    let (mut used, mut unused) = (FIRST_INODE, LAST_INODE);
    let mut step = MANY;
    while unused - used > used / MANY + MANY {
        let middle = used + step.min((unused - used) / 2);
        match next_inode(fd, tree, middle, &mut small)? {
            Some(next) => (used, step) = (next.min(unused), step.saturating_mul(2)),
            None => unused = middle,
        }
    }
    let len = (used - FIRST_INODE) / MANY + 1;
    let first = |nth| FIRST_INODE + nth * len;
    let rest = first(MANY)..=LAST_INODE;
    Ok((0..MANY)
        .map(|nth| first(nth)..=first(nth + 1) - 1)
        .chain([rest])
        .collect())
}

/// Calls a function for each item, in several threads, each with a buffer. Results are in the order
/// of the items.
fn in_parallel<T: Sync, A: Send>(
    all: &[T],
    work: impl Fn(&T, &mut [u8]) -> Result<A> + Sync,
) -> Result<Vec<A>> {
    let results = Mutex::new(Vec::new());
    let start = |run: &(dyn Fn(_) + Sync)| crew(None, all.len(), || run(vec![0; BUFFER]));
    share(all.len(), start, |buffer, nth| {
        let result = work(&all[nth], buffer)?;
        results.lock().push((nth, result));
        Ok(())
    })?;
    let mut results = results.into_inner();
    results.sort_unstable_by_key(|(nth, _)| *nth);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}
