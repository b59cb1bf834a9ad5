//! The entries: the names, sorted by the place of their inodes, and the inode tables.

use std::sync::OnceLock;

use gate::fs::Time;
use gate::{Errno, Fd, Gate};
use ondisk::Dev;
use ondisk::ext4::Inode;

use super::Crew;
use super::tree::{Item, Names, State, Tree, WINDOW};
use crate::engine::stat::{cross_at, subtree};
use crate::entry::{Dir, Entry, Meta, append, time};
use crate::job::{Crossing, Place, c_name, look_at};
use crate::moment::may_be_since;
use crate::sink::Worker;

/// Gives every name that was found on the device, with the row of its inode. What has changed since
/// a time is settled with statx.
pub(super) fn give(crew: &Crew<'_>, tree: &Tree, since: Time) {
    let superblock = &crew.device.superblock;
    // The inode tables in shares of a power of two of rows, so that it takes no division to tell
    // where one belongs.
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
        let mut clerk = Clerk::new(crew, tree, since, shift);
        for share in claims.flatten() {
            let portions = tree
                .names
                .iter()
                .zip(sorted.iter().filter_map(OnceLock::get));
            clerk.share(
                share,
                portions.map(|(names, sorted)| (names, sorted.share(share))),
            );
        }
    });
}

/// The names of a portion, by shares of the inode tables. Within a share they are as they were
/// read: by directory.
struct Sorted {
    order: Vec<u32>,
    /// Where each share ends in `order`; it begins where the one before ends.
    ends: Vec<u32>,
}

impl Sorted {
    fn new(list: &[Item], shift: u32, shares: usize) -> Sorted {
        let share = |item: &Item| (item.inode.wrapping_sub(1) >> shift) as usize;
        let mut ends = vec![0_u32; shares];
        list.iter().for_each(|item| ends[share(item)] += 1);
        let mut sum = 0;
        for end in &mut ends {
            // For now, where it begins.
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

/// One thread that gives entries.
struct Clerk<'a> {
    crew: &'a Crew<'a>,
    tree: &'a Tree,
    since: Time,
    shift: u32,
    worker: Box<dyn Worker + 'a>,
    /// Rows of the inode tables.
    rows: Vec<u8>,
    /// The same, read once more where no checksum shows that one was being written.
    again: Vec<u8>,
    /// The directory of the entries at hand, and its name, if anybody looks at names.
    dir: u32,
    path: Vec<u8>,
    entries: Vec<Entry<'a>>,
    /// A directory that was opened to ask about what is in it.
    opened: Option<(u32, Result<Fd, Errno>)>,
    /// Directories that nobody had heard of.
    unknown: Vec<Place>,
}

impl<'a> Clerk<'a> {
    fn new(crew: &'a Crew<'a>, tree: &'a Tree, since: Time, shift: u32) -> Clerk<'a> {
        Clerk {
            crew,
            tree,
            since,
            shift,
            worker: crew.job.sink.worker(),
            rows: Vec::new(),
            again: Vec::new(),
            dir: u32::MAX,
            path: Vec::new(),
            entries: Vec::new(),
            opened: None,
            unknown: Vec::new(),
        }
    }

    /// Gives the names whose inodes are in a share of the tables.
    fn share(
        &mut self,
        share: usize,
        portions: impl Iterator<Item = (&'a Names, &'a [u32])> + Clone,
    ) {
        let device = self.crew.device;
        let superblock = &device.superblock;
        let size = superblock.inode_size as usize;
        let items = portions.flat_map(|(names, order)| {
            order.iter().map(move |&nth| {
                let item = &names.list[nth as usize];
                (names, item, item.inode.wrapping_sub(1))
            })
        });
        // Few names do not need all the rows.
        let Some((first, last)) = self.bounds(share, items.clone().map(|(_, _, index)| index))
        else {
            return;
        };
        device.read_rows(first..last + 1, &mut self.rows);
        if !superblock.has_checksums() {
            device.read_rows(first..last + 1, &mut self.again);
        }
        for (names, item, index) in items {
            if self.tree.nodes[item.dir as usize].state != State::Raw {
                continue;
            }
            if item.dir != self.dir {
                self.flush();
                self.dir = item.dir;
            }
            let from = (index - first) as usize * size;
            let raw = &self.rows[from..from + size];
            let is_torn = !superblock.has_checksums() && raw != &self.again[from..from + size];
            let inode = if is_torn {
                None
            } else {
                Inode::parse(superblock, item.inode, raw)
            };
            let meta = inode.and_then(|inode| self.meta(&inode));
            let name = names.name(item);
            let Some(meta) = meta.or_else(|| self.settle(name)) else {
                continue;
            };
            if meta.is_dir() && !self.tree.has(meta.ino) {
                self.enter(name);
            }
            self.entries.push(Entry { name, meta });
        }
        self.flush();
        for place in std::mem::take(&mut self.unknown) {
            subtree(self.crew.job, &mut *self.worker, place);
        }
    }

    /// The first and the last row that are needed of a share; `None` if there are none.
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

    /// What an inode says, unless the kernel has to be asked.
    #[inline]
    fn meta(&self, inode: &Inode<'_>) -> Option<Meta> {
        let ctime = time(inode.ctime());
        if may_be_since(ctime, self.since) || inode.is_encrypted_symlink() || inode.is_reserved() {
            return None;
        }
        let (major, minor) = inode.rdev();
        let top = &self.crew.job.top.meta;
        Some(Meta {
            ino: u64::from(inode.number()),
            mode: u32::from(inode.mode()),
            nlink: inode.nlink(),
            uid: inode.uid(),
            gid: inode.gid(),
            size: inode.size(),
            blocks: inode.blocks(),
            atime: time(inode.atime()),
            mtime: time(inode.mtime()),
            ctime,
            btime: inode.btime().map(time),
            rdev: Dev { major, minor },
            dev: top.dev,
            mount: top.mount,
            attributes: inode.attributes(),
            generation: Some(inode.generation()),
            xattrs: Some(inode.has_xattrs()),
        })
    }

    /// What the kernel says of a name in the directory at hand. `None` if it is gone, is another
    /// mount's, or cannot be told.
    #[cold]
    fn settle(&mut self, name: &[u8]) -> Option<Meta> {
        let job = self.crew.job;
        let dir = self.dir;
        if self
            .opened
            .as_ref()
            .is_none_or(|(opened, _)| *opened != dir)
        {
            let place = self.tree.place(dir);
            let opened = job.open(&place);
            match opened {
                Ok(_) => {}
                Err(Errno::EXDEV) => cross_at(job, &place),
                Err(e) => job.failed(&place, b"", Gate::Openat2, e),
            }
            self.opened = Some((dir, opened));
        }
        let Some((_, Ok(fd))) = &self.opened else {
            return None;
        };
        match look_at(fd, &c_name(name)?) {
            Ok(seen) if job.is_crossing(&seen) => {
                job.cross(Crossing {
                    dir: self.tree.place(dir),
                    name: name.to_vec(),
                });
                None
            }
            Ok(seen) => Some(Meta::from_statx(&seen)),
            Err(e) => {
                job.failed(&self.tree.place(dir), name, Gate::Statx, e);
                None
            }
        }
    }

    /// There is a directory that was not there before.
    #[cold]
    fn enter(&mut self, name: &[u8]) {
        let place = self.tree.place(self.dir).below(name);
        if self.crew.job.filter.enters(place.depth) {
            self.unknown.push(place);
        }
    }

    /// Gives the entries at hand.
    fn flush(&mut self) {
        if self.entries.is_empty() {
            return;
        }
        let job = self.crew.job;
        let node = &self.tree.nodes[self.dir as usize];
        if job.wants_paths() {
            let mut rel = Vec::new();
            self.tree.rel(self.dir, &mut rel);
            self.path.clear();
            self.path.extend_from_slice(&job.top.path);
            if !rel.is_empty() {
                append(&mut self.path, &rel);
            }
        }
        let dir = Dir {
            path: &self.path,
            hash: node.hash,
            depth: node.depth,
        };
        job.give(&mut *self.worker, &dir, &self.entries);
        self.entries.clear();
    }
}
