//! What has changed in a subvolume since a generation of it, at a cost in proportion to the change:
//! a btrfs tree carries in each node the transaction that wrote it last, so that a search passes
//! over whole branches that are older.
//!
//! ```text
//! generation ──► walk, catalog ──► ... ──► changed_since(generation) ──► names to add, to look at, to take away
//! ```
//!
//! Take the generation before the walk that it is to stand for: what changes meanwhile is then
//! found the next time.
//!
//! Not seen:
//! - Names that are gone. The directories that they were in have changed, and are among the
//!   answers: hold what was in them against what is. An inode whose last name is gone is not among
//!   the answers.
//! - Other subvolumes, those below included. Ask each of them; a new one shows by the directory
//!   that it is in.
//! - Changes of contents that leave all times alone and write no inode: a deduplication, a balance,
//!   a defragmentation.
//! - What is written after the subvolume was asked about; whoever must not miss it asks again.
//!
//! Seen as changed, though nothing but the time of the last reading is: files on a mount without
//! `noatime`.
//!
//! A generation means something within one subvolume only, which is known by its UUID
//! ([`subvolume`]); and nothing after a file system has been put back to an earlier state, from a
//! copy of its disk: it has gone on from there, and may have come to the same number by another
//! way. Note some of what was written last ([`written_in`]): where any of it is still so, it is the
//! same way.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use gate::fs::{At, fstatfs, statx, syncfs};
use gate::sync::Mutex;
use gate::{Errno, Fd, Result};
use ondisk::btrfs::{FIRST_INODE, LAST_INODE, Subvolume};

use super::meta_of;
use super::scan::{BUFFER, Found, Scan, ScannedInode, next_inode, parent_of};
use crate::engine::crew::crew;
use crate::entry::{Meta, Time, time};

/// An inode that has changed, or is new.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// What is known of it now. That of a directory means that something in it was added, removed
    /// or renamed, or that it itself has changed.
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

/// What is said of the subvolume that a directory is in, after everything that was done to it has
/// been written.
///
/// # Errors
/// Those of syncfs(2) and `BTRFS_IOC_GET_SUBVOL_INFO`: `ENOTTY` where it is not btrfs.
pub fn subvolume(fd: &Fd) -> Result<Subvolume> {
    syncfs(fd)?;
    super::subvolume(fd)
}

/// The generation of a subvolume: the transaction in which it was last written. As long as it stays
/// the same, nothing in the subvolume has changed.
///
/// # Errors
/// Those of [`subvolume`].
pub fn generation(fd: &Fd) -> Result<u64> {
    subvolume(fd).map(|subvolume| subvolume.generation)
}

/// The inodes of a [`subvolume`] that were written after a generation, in the order of their
/// numbers. What has been written after the subvolume's own may be among them, and may have changed
/// again. Of extended attributes it is only said that there are some, or that it is not known.
///
/// # Errors
/// Those of [`subvolume`]; `EPERM` without CAP_SYS_ADMIN; `ENOSPC` when the file system is so full
/// that writes may have failed: then inodes in the kernel's memory are not as those in the tree.
pub fn changed_since(fd: &Fd, known: &Subvolume, generation: u64) -> Result<Vec<Change>> {
    let seen = statx(fd, c"", At::EMPTY_PATH, Meta::WANT)?;
    let statfs = fstatfs(fd)?;
    if statfs.available < super::FULL {
        return Err(Errno::ENOSPC);
    }
    let Some(after) = generation.checked_add(1) else {
        return Ok(Vec::new());
    };
    let (sector, mount) = (statfs.block_size.max(1), seen.mnt_id.unwrap_or(0));
    let change = |row: &ScannedInode<'_, '_>| {
        let inode = row
            .inode
            .filter(|inode| inode.transid > generation && inode.nlink > 0)?;
        let meta = meta_of(row.ino, &inode, row.xattrs, seen.dev.into(), mount, sector);
        let links = row.links.iter().filter(|link| link.dir != row.ino);
        let names = links
            .map(|link| Name {
                dir: link.dir,
                name: link.name.to_vec(),
            })
            .collect();
        Some(Change {
            meta: Meta {
                xattrs: row.xattrs.then_some(true),
                ..meta
            },
            names,
        })
    };
    let ranges = ranges(fd, known.tree)?;
    let found = share_out(&ranges, |range, buffer| {
        let written = Scan::new(known.tree, *range.start(), *range.end(), false).since(after);
        let mut changes = collect(fd, written, buffer, change)?;
        for found in changes.iter_mut().filter(|change| !change.has_all_names()) {
            // They lie in a leaf that was not written.
            let all = collect(
                fd,
                Scan::new(known.tree, found.meta.ino, found.meta.ino, false),
                buffer,
                change,
            )?;
            all.into_iter().for_each(|one| *found = one);
        }
        Ok(changes)
    })?;
    Ok(found.into_iter().flatten().collect())
}

impl Change {
    /// Whether these are all its names. (The root of a subvolume has none.)
    fn has_all_names(&self) -> bool {
        self.meta.ino == FIRST_INODE || self.names.len() == self.meta.nlink as usize
    }
}

/// Goes through a range of a tree, and collects what has changed there.
fn collect(
    fd: &Fd,
    mut scan: Scan,
    buffer: &mut [u8],
    change: impl Fn(&ScannedInode<'_, '_>) -> Option<Change>,
) -> Result<Vec<Change>> {
    let (mut changes, mut links) = (Vec::<Change>::new(), Vec::new());
    while let Some(count) = scan.fill(fd, buffer)? {
        let mut names = super::recycle_links(links);
        scan.rows(buffer, count, &mut names, |found| {
            let Found::Inode(row) = found else { return };
            let Some(one) = change(&row) else { return };
            match changes.last_mut().filter(|last| last.meta.ino == row.ino) {
                Some(last) => last.names.extend(one.names),
                None => changes.push(one),
            }
        });
        links = super::recycle_links(names);
    }
    Ok(changes)
}

/// The first of the inodes in a range that were last written in a generation: the number of each,
/// and when it was last changed, and read. It is as many as a search gives at once.
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
            let Found::Inode(ScannedInode {
                ino,
                inode: Some(inode),
                ..
            }) = found
            else {
                return;
            };
            some.extend(
                (inode.transid == generation).then(|| (ino, time(inode.ctime), time(inode.atime))),
            );
        });
    }
    Ok(some)
}

/// For some directories of a subvolume and all that are above them, the directory that each is in,
/// and its name there.
///
/// # Errors
/// `EPERM` without CAP_SYS_ADMIN.
pub fn parents(
    fd: &Fd,
    tree: u64,
    dirs: impl IntoIterator<Item = u64>,
) -> Result<HashMap<u64, Name>> {
    /// So many are worth a thread's while.
    const SOME: usize = 256;
    let mut dirs: Vec<u64> = dirs.into_iter().collect();
    dirs.sort_unstable();
    dirs.dedup();
    let some: Vec<&[u64]> = dirs.chunks(SOME).collect();
    let found = share_out(&some, |dirs, buffer| {
        let mut parents = HashMap::new();
        for &dir in *dirs {
            let mut at = dir;
            while at != FIRST_INODE && !parents.contains_key(&at) {
                let Some((dir, name)) = parent_of(fd, tree, at, buffer)? else {
                    break;
                };
                parents.insert(at, Name { dir, name });
                at = dir;
            }
        }
        Ok(parents)
    })?;
    Ok(found.into_iter().flatten().collect())
}

/// All inode numbers of a tree, in ranges that have about as many that are in use.
fn ranges(fd: &Fd, tree: u64) -> Result<Vec<RangeInclusive<u64>>> {
    const MANY: u64 = 64;
    let mut small = [0; super::SMALL];
    // The last one that is in use is between these.
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

/// Does something with each, several at once, each thread with a buffer of its own; the answers are
/// in order.
fn share_out<T: Sync, A: Send>(
    all: &[T],
    work: impl Fn(&T, &mut [u8]) -> Result<A> + Sync,
) -> Result<Vec<A>> {
    let (next, answers) = (
        AtomicUsize::new(0),
        Mutex::new(Vec::with_capacity(all.len())),
    );
    crew(None, all.len(), || {
        let mut buffer = vec![0; BUFFER];
        loop {
            let nth = next.fetch_add(1, Relaxed);
            let Some(one) = all.get(nth) else { return };
            let answer = work(one, &mut buffer);
            answers.lock().push((nth, answer));
        }
    });
    let mut answers = answers.into_inner();
    answers.sort_unstable_by_key(|(nth, _)| *nth);
    answers.into_iter().map(|(_, answer)| answer).collect()
}
