//! Joins the names of directory entries with the inode tables, in the order of the tables.

use std::sync::OnceLock;

use gate::fs::{EXT4_SUPER_MAGIC, Time};
use gate::{Errno, Fd};
use mounts::listed::is_gone;
use ondisk::ext4::Inode;

use super::crew::Crew;
use super::near::WINDOW;
use super::tree::{DirectoryState, DirectoryTree, FoundNames, ListedInode};
use crate::engine::stat::walk_below;
use crate::entry::{Entry, Meta};
use crate::job::{JobDirectory, c_name, look_at};
use crate::moment::{Granularity, may_be_since};
use crate::sink::Worker;

/// Whether an inode may have changed at `since` or later.
pub(super) fn may_have_changed(inode: &Inode<'_>, since: Time) -> bool {
    let granularity = Granularity::new(EXT4_SUPER_MAGIC, inode.btime().is_some());
    may_be_since(inode.ctime(), granularity, since)
}

/// The metadata of an inode, with device and mount of the top; `None` if statx(2) must be called.
#[inline]
pub(super) fn settled(inode: &Inode<'_>, since: Time, top: &Meta) -> Option<Meta> {
    let is_doubtful =
        may_have_changed(inode, since) || inode.is_encrypted_symlink() || inode.is_reserved();
    if is_doubtful {
        return None;
    }
    Some(Meta {
        ino: u64::from(inode.number()),
        mode: u32::from(inode.mode()),
        nlink: inode.nlink(),
        uid: inode.uid(),
        gid: inode.gid(),
        size: inode.size(),
        blocks: inode.blocks(),
        atime: inode.atime(),
        mtime: inode.mtime(),
        ctime: inode.ctime(),
        btime: inode.btime(),
        rdev: inode.rdev(),
        dev: top.dev,
        mount: top.mount,
        attributes: inode.attributes(),
        generation: Some(inode.generation()),
        xattrs: Some(inode.has_xattrs()),
    })
}

/// Emits every name that was found on the device, with the metadata of its inode. Files that have
/// changed since a time are read with statx(2).
pub(super) fn emit(crew: &Crew<'_>, tree: &DirectoryTree, since: Time) {
    let superblock = &crew.device.superblock;
    // A share of the inode tables is a power of two of rows, so that a shift finds the share of an
    // inode.
    let shift = (WINDOW as u32 / superblock.inode_size).max(1).ilog2();
    let shares = (superblock.inodes as usize >> shift) + 1;
    let sorted: Vec<OnceLock<Sorted>> = tree.names.iter().map(|_| OnceLock::new()).collect();
    let mut threads = vec![(); crew.threads];
    crew.share(sorted.len(), 1, &mut threads, |(), claims| {
        for nth in claims.flatten() {
            let _ = sorted[nth].set(Sorted::new(&tree.names[nth].list, shift, shares));
        }
    });
    crew.share(shares, 1, &mut threads, |(), claims| {
        let mut joiner = Ext4Joiner::new(crew, tree, since, shift);
        for share in claims.flatten() {
            let sorted = sorted.iter().filter_map(OnceLock::get);
            let orders = sorted.map(|sorted| sorted.share(share));
            joiner.share(share, tree.names.iter().zip(orders));
        }
    });
}

/// The names that one thread has found, sorted by shares of the inode tables. Within a share they
/// keep the order in which they were read, by directory.
struct Sorted {
    order: Vec<u32>,
    /// For each share of the inode tables, the end of its names in `order`.
    ends: Vec<u32>,
}

impl Sorted {
    fn new(list: &[ListedInode], shift: u32, shares: usize) -> Sorted {
        let share = |item: &ListedInode| (item.inode.wrapping_sub(1) >> shift) as usize;
        let mut ends = vec![0_u32; shares];
        list.iter().for_each(|item| ends[share(item)] += 1);
        let mut sum = 0;
        for end in &mut ends {
            // At first, `ends` gets the start of each share; the loop below advances it to the end.
            sum += std::mem::replace(end, sum);
        }
        let mut order = vec![0; list.len()];
        for (nth, item) in (0..).zip(list) {
            let at = &mut ends[share(item)];
            order[*at as usize] = nth;
            *at += 1;
        }
        Sorted { order, ends }
    }

    fn share(&self, share: usize) -> &[u32] {
        let start = if share == 0 { 0 } else { self.ends[share - 1] };
        &self.order[start as usize..self.ends[share] as usize]
    }
}

struct Ext4Joiner<'a> {
    crew: &'a Crew<'a>,
    tree: &'a DirectoryTree,
    since: Time,
    shift: u32,
    worker: Box<dyn Worker + 'a>,
    rows: Vec<u8>,
    /// The same inodes, read a second time: without checksums, a difference shows that an inode was
    /// being written.
    again: Vec<u8>,
    /// Index of the directory that `entries` are in.
    dir: u32,
    entries: Vec<Entry<'a>>,
    /// The directory that was last opened to call statx(2) for its entries.
    opened: Option<(u32, Result<Fd, Errno>)>,
    /// Directories that were created after the names had been read from the device.
    unknown: Vec<JobDirectory>,
}

impl<'a> Ext4Joiner<'a> {
    fn new(crew: &'a Crew<'a>, tree: &'a DirectoryTree, since: Time, shift: u32) -> Ext4Joiner<'a> {
        Ext4Joiner {
            crew,
            tree,
            since,
            shift,
            worker: crew.job.sink.worker(),
            rows: Vec::new(),
            again: Vec::new(),
            dir: u32::MAX,
            entries: Vec::new(),
            opened: None,
            unknown: Vec::new(),
        }
    }

    /// Emits the names whose inodes are in one share of the inode tables.
    fn share(
        &mut self,
        share: usize,
        names: impl Iterator<Item = (&'a FoundNames, &'a [u32])> + Clone,
    ) {
        let device = self.crew.device;
        let superblock = &device.superblock;
        let size = superblock.inode_size as usize;
        let items = names.flat_map(|(names, order)| {
            order.iter().map(move |&nth| {
                let item = &names.list[nth as usize];
                (names, item, item.inode.wrapping_sub(1))
            })
        });
        let indices = items.clone().map(|(_, _, index)| index);
        let Some((first, last)) = self.bounds(share, indices) else {
            return;
        };
        device.read_rows(first..last + 1, &mut self.rows);
        if !superblock.has_checksums() {
            device.read_rows(first..last + 1, &mut self.again);
        }
        for (names, item, index) in items {
            if self.tree.nodes[item.dir as usize].state != DirectoryState::Raw {
                continue;
            }
            if item.dir != self.dir {
                self.flush();
                self.dir = item.dir;
            }
            let from = (index - first) as usize * size;
            let raw = &self.rows[from..from + size];
            let is_torn = !superblock.has_checksums() && raw != &self.again[from..from + size];
            let inode = Inode::parse(superblock, item.inode, raw).filter(|_| !is_torn);
            let meta = inode.and_then(|inode| settled(&inode, self.since, &self.crew.job.top.meta));
            let name = names.name(item);
            let Some(meta) = meta.or_else(|| self.reread_name(name)) else {
                continue;
            };
            if meta.is_dir() && !self.tree.has(meta.ino) {
                self.enter(name);
            }
            self.entries.push(Entry { name, meta });
        }
        self.flush();
        for place in std::mem::take(&mut self.unknown) {
            walk_below(self.crew.job, &mut *self.worker, place);
        }
    }

    /// The first and the last row of a share to read: the whole share, or with few names only the
    /// rows from the first to the last of their inodes; `None` without names.
    fn bounds(
        &self,
        share: usize,
        mut indices: impl Iterator<Item = u32> + Clone,
    ) -> Option<(u32, u32)> {
        let rows = 1_u64 << self.shift;
        let from = share as u64 * rows;
        let last = (from + rows).min(u64::from(self.crew.device.superblock.inodes)) - 1;
        let is_sparse = indices.clone().nth(rows as usize / 8).is_none();
        if !is_sparse {
            return Some((from as u32, last as u32));
        }
        let one = indices.next()?;
        Some(indices.fold((one, one), |(first, last), index| {
            (first.min(index), last.max(index))
        }))
    }

    /// Calls statx(2) for a name in the current directory; `None` if it is gone, on a different
    /// mount, or unreadable.
    #[cold]
    fn reread_name(&mut self, name: &[u8]) -> Option<Meta> {
        let job = self.crew.job;
        let dir = self.dir;
        if !matches!(self.opened, Some((opened, _)) if opened == dir) {
            let place = self.tree.place(dir);
            let opened = job.open(&place);
            match opened {
                Err(errno) if !is_gone(errno) => job.unopened(&place, errno),
                _ => {}
            }
            self.opened = Some((dir, opened));
        }
        let seen = match &self.opened {
            Some((_, Ok(fd))) => look_at(fd, &c_name(name)?),
            Some((_, Err(errno))) if is_gone(*errno) => Err(*errno),
            _ => return None,
        };
        job.sort_out(seen, || self.tree.place(dir), name)
    }

    #[cold]
    fn enter(&mut self, name: &[u8]) {
        let place = self.tree.place(self.dir).below(name);
        if self.crew.job.filter.enters(place.key.depth) {
            self.unknown.push(place);
        }
    }

    fn flush(&mut self) {
        if self.entries.is_empty() {
            return;
        }
        let job = self.crew.job;
        let node = &self.tree.nodes[self.dir as usize];
        let path = job.dir_path(|| self.tree.place(self.dir));
        job.emit(&mut *self.worker, &node.key.dir(&path), &self.entries);
        self.entries.clear();
    }
}
