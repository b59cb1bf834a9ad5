//! `btrfs`: the trees of the subvolumes, read by `BTRFS_IOC_TREE_SEARCH_V2`. One call gives some
//! hundred inodes with their names, where statx(2) takes one for each.
//!
//! - The search sees what is in the trees: syncfs(2) first puts everything there. Whatever has
//!   changed since, by its ctime or mtime, and whatever does not fit together, is looked at singly
//!   with statx(2).
//! - Threads claim pieces of the inode numbers in ascending order (`work.rs`). A directory is
//!   mostly older than what is in it, so it is mostly known by then; one that is not is looked up,
//!   upwards to one that is (`tree.rs`). So every entry is handed over at once, and of the whole
//!   only the directories are kept.
//! - Subvolumes are trees of their own. The tree of trees says where they should lie; what is
//!   really at those names, statx says.
//! - The search knows nothing of mounts: the mount table says where they lie.
//!
//! While others write, a name that is replaced by another file may come twice, as both, and a file
//! that is moved at two places, or at none.

use std::collections::HashSet;
use std::sync::Arc;

use gate::btrfs::{BTRFS_SUPER_MAGIC, SEARCH_HEAD, SearchKey, get_subvol_info, tree_search_v2};
use gate::fs::{At, Statfs, Time, fstatfs, statx, syncfs};
use gate::sync::Mutex;
use gate::{Errno, Fd, Gate};
use mounts::Warning;
use ondisk::Dev;
use ondisk::btrfs::{
    FIRST_INODE, FS_TREE, Inode, Link, ROOT_TREE, Subvolume, is_name, items, kind, root_ref,
};

use self::scan::{BUFFER, Found, Scan, ScannedInode, next_inode, readable_after};
use self::tree::{Tree, View};
use self::work::{End, Piece, Work};
use super::crew::crew;
use super::{Engine, MountContext, stat};
use crate::digest;
use crate::entry::{Dir, Entry, Meta, Type, time};
use crate::error::{EngineAction, EngineRefusal, WarningKind};
use crate::job::{Below, Crossing, Job, Place};
use crate::kind::EngineKind;
use crate::moment::Moment;
use crate::sink::Worker;

mod scan;
pub mod since;
mod tree;
mod work;

/// btrfs's trees, searched.
#[derive(Clone, Copy, Debug)]
pub struct Btrfs;

/// With fewer bytes available than this, writes may have failed. The inodes of the files that they
/// were to are then in the kernel's memory with other times than in the trees, and statx(2) shows
/// those: so every entry is looked at singly.
const FULL: u64 = 16 << 20;

/// Searches in one piece, after which the rest of it is left to others.
const SEARCHES: u32 = 64;

/// Bytes of a search for a single inode.
const SMALL: usize = 4096;

impl Engine for Btrfs {
    fn possible(&self, context: &MountContext<'_>) -> Result<(), EngineRefusal> {
        const KIND: EngineKind = EngineKind::Btrfs;
        if context.statfs.magic != BTRFS_SUPER_MAGIC {
            return Err(EngineRefusal::WrongFileSystem(KIND));
        }
        if context.mount.is_none() {
            return Err(EngineRefusal::UnknownMount(KIND));
        }
        if context.is_idmapped() {
            return Err(EngineRefusal::Idmapped(KIND));
        }
        let key = SearchKey {
            tree: 0,
            first: (FIRST_INODE, 0, 0),
            last: (FIRST_INODE, u8::MAX, u64::MAX),
            min_transid: 0,
            items: 1,
        };
        match tree_search_v2(&context.top.fd, &key, &mut [0; SMALL]) {
            Ok(_) => Ok(()),
            Err(Errno::EPERM | Errno::EACCES) => Err(EngineRefusal::NotRoot(KIND)),
            Err(Errno::ENOTTY | Errno::ENOSYS) => Err(EngineRefusal::KernelTooOld {
                call: "BTRFS_IOC_TREE_SEARCH_V2",
                since: "3.14",
            }),
            Err(e) => Err(EngineAction::SearchTree.failed(e)),
        }
    }

    fn walk(&self, job: &Job<'_>) -> Result<(), EngineRefusal> {
        let fd = &job.top.fd;
        // Before the sync, which may take long: what is written during it need not be all in the
        // trees after it.
        let start = Moment::now();
        syncfs(fd).map_err(|e| EngineAction::Sync.failed(e))?;
        let refusal = |e| EngineAction::SubvolumeInfo.failed(e);
        let subvolume = subvolume(fd).map_err(refusal)?;
        let statfs = fstatfs(fd).map_err(refusal)?;
        let ino = job.top.meta.ino;
        if ino < FIRST_INODE {
            return Ok(()); // what is left of a subvolume in a snapshot is empty
        }
        next_inode(fd, subvolume.tree, FIRST_INODE, &mut [0; SMALL]).map_err(refusal)?;
        let fresh = fresh(&start, &statfs);
        let top = Tree::new(
            subvolume.tree,
            job.top.meta.dev,
            has_stubs(&subvolume),
            ino,
            job.place(),
            Some(job.below),
        );
        let shared = Shared {
            job,
            fresh,
            strays: Mutex::default(),
            settled: Mutex::default(),
        };
        let work = Work::new(shared.trees(top));
        crew(job.threads, usize::MAX, || Reader::new(&shared).run(&work));
        shared.settle_strays();
        Ok(())
    }
}

/// What is said of the subvolume that a directory is in.
fn subvolume(fd: &Fd) -> Result<Subvolume, Errno> {
    Subvolume::parse(&get_subvol_info(fd)?).ok_or(Errno::EIO)
}

/// Whether names in a subvolume may lead to subvolumes that are not there.
fn has_stubs(subvolume: &Subvolume) -> bool {
    subvolume.tree != FS_TREE && (subvolume.is_snapshot() || subvolume.uuid == [0; 16])
}

/// How inodes become metadata.
#[derive(Clone, Copy, Debug)]
struct Fresh {
    /// What has changed at this time or later is not believed.
    from: Time,
    sector: u64,
}

fn fresh(start: &Moment, statfs: &Statfs) -> Fresh {
    let from = if statfs.available < FULL {
        Time {
            sec: i64::MIN,
            nsec: 0,
        }
    } else {
        start.changed_since()
    };
    Fresh {
        from,
        sector: statfs.block_size.max(1),
    }
}

impl Fresh {
    /// Whether an inode may have changed since the walk began.
    fn has_changed(&self, meta: &Meta) -> bool {
        meta.ctime >= self.from || meta.mtime >= self.from
    }
}

/// What statx(2) would say of an inode.
#[inline]
fn meta_of(ino: u64, inode: &Inode, xattrs: bool, dev: Dev, mount: u64, sector: u64) -> Meta {
    use gate::fs::Attributes;
    let attribute = |flag: u64, attribute: Attributes| {
        if inode.flags & flag != 0 {
            attribute.bits()
        } else {
            0
        }
    };
    let mode = inode.mode & 0xffff;
    let rdev = match Type::from_mode(mode) {
        Type::Block | Type::Char => {
            let rdev = inode.rdev as u32; // the kernel keeps no more of it
            Dev {
                major: rdev >> 20,
                minor: rdev & 0xf_ffff,
            }
        }
        _ => Dev::default(),
    };
    Meta {
        ino,
        mode,
        nlink: inode.nlink,
        uid: inode.uid,
        gid: inode.gid,
        size: inode.size,
        blocks: inode
            .nbytes
            .checked_next_multiple_of(sector)
            .unwrap_or(inode.nbytes)
            >> 9,
        atime: time(inode.atime),
        mtime: time(inode.mtime),
        ctime: time(inode.ctime),
        btime: Some(time(inode.otime)),
        rdev,
        dev,
        mount,
        attributes: attribute(Inode::APPEND, Attributes::APPEND)
            | attribute(Inode::COMPRESS, Attributes::COMPRESSED)
            | attribute(Inode::IMMUTABLE, Attributes::IMMUTABLE)
            | attribute(Inode::NODUMP, Attributes::NODUMP)
            | attribute(Inode::VERITY, Attributes::VERITY),
        generation: Some(inode.generation as u32),
        xattrs: Some(xattrs),
    }
}

/// What the threads share.
struct Shared<'a, 'j> {
    job: &'a Job<'j>,
    fresh: Fresh,
    /// Names at which something else was found than the tree says.
    strays: Mutex<Vec<Crossing>>,
    /// What stands for the names that were handed over as statx saw them.
    settled: Mutex<HashSet<u64>>,
}

impl<'a> Shared<'a, '_> {
    /// The tree of the top and of every subvolume below it, whose roots are handed over.
    fn trees(&self, top: Tree<'a>) -> Vec<Arc<Tree<'a>>> {
        let mut worker = self.job.sink.worker();
        let mut trees = vec![Arc::new(top)];
        let mut next = 0;
        while let Some(tree) = trees.get(next).cloned() {
            if self.job.is_over() {
                break;
            }
            if let Err(e) = self.subvolumes(&tree, &mut *worker, &mut trees) {
                let what = WarningKind::ReadSubvolumes;
                self.job.warn(Warning::failed(
                    &self.job.top.path,
                    Gate::BtrfsTreeSearchV2,
                    e,
                    what,
                ));
            }
            next += 1;
        }
        trees
    }

    /// Hands over the roots of the subvolumes in a tree, and adds their trees.
    fn subvolumes(
        &self,
        tree: &Tree<'a>,
        worker: &mut dyn Worker,
        trees: &mut Vec<Arc<Tree<'a>>>,
    ) -> Result<(), Errno> {
        let (job, fd) = (self.job, &self.job.top.fd);
        let (mut buffer, mut small) = (vec![0; BUFFER], [0; SMALL]);
        let last = (tree.id, kind::ROOT_REF, u64::MAX);
        let mut first = (tree.id, kind::ROOT_REF, 0);
        let mut view = View::default();
        loop {
            let key = SearchKey {
                tree: ROOT_TREE,
                first,
                last,
                min_transid: 0,
                items: u32::MAX,
            };
            let count = tree_search_v2(fd, &key, &mut buffer)?;
            for item in items(buffer.get(SEARCH_HEAD..).unwrap_or_default(), count) {
                first.2 = item.key.2.saturating_add(1);
                let Some(Link { dir, name }) = root_ref(item).filter(|link| is_name(link.name))
                else {
                    continue;
                };
                tree.turn_to(job, fd, dir, &mut view, &mut small);
                if view.is_open() && job.filter.keeps(&view.path, name) {
                    trees.extend(self.subvolume(tree, &view, name, worker).map(Arc::new));
                }
            }
            if count == 0 || first.2 == u64::MAX {
                return Ok(());
            }
        }
    }

    /// Hands over the root of a subvolume, and gives its tree if that is in the walk.
    fn subvolume(
        &self,
        tree: &Tree<'a>,
        view: &View<'a>,
        name: &[u8],
        worker: &mut dyn Worker,
    ) -> Option<Tree<'a>> {
        let job = self.job;
        let place = tree.place(view);
        let below = view.below.and_then(|below| below.step(name));
        if below.is_some_and(Below::is_mount) {
            job.cross(Crossing {
                dir: place,
                name: name.to_vec(),
            });
            return None;
        }
        let meta = self.look(&place, name)?;
        let dir = Dir {
            path: &view.path,
            hash: view.hash,
            depth: view.depth,
        };
        let root = place.below(name);
        if !meta.is_dir() || meta.ino != FIRST_INODE || meta.dev == tree.dev {
            self.stray(place, name);
            return None;
        }
        let entered = job.enters(meta.dev) && job.filter.enters(root.depth);
        let opened = entered.then(|| {
            let fd = job.open(&root)?;
            let seen = statx(&fd, c"", At::EMPTY_PATH, Meta::WANT)?;
            Ok((Meta::from_statx(&seen), subvolume(&fd)?))
        });
        let (meta, subvolume) = match opened {
            None => (meta, None),
            Some(Ok((meta, subvolume))) => (meta, Some(subvolume)),
            Some(Err(Errno::EXDEV)) => {
                job.cross(Crossing {
                    dir: place,
                    name: name.to_vec(),
                });
                return None;
            }
            Some(Err(e)) => {
                job.failed(&root, b"", Gate::Openat2, e);
                (meta, None)
            }
        };
        self.settled.lock().insert(root.hash);
        job.give(worker, &dir, &[Entry { name, meta }]);
        subvolume.map(|known| {
            Tree::new(
                known.tree,
                meta.dev,
                has_stubs(&known),
                FIRST_INODE,
                root,
                below,
            )
        })
    }

    /// What statx(2) says of a name, unless that is gone, or another mount lies there.
    fn look(&self, place: &Place, name: &[u8]) -> Option<Meta> {
        match self.job.look(place, name) {
            Ok(seen) if self.job.is_crossing(&seen) => {
                self.job.cross(Crossing {
                    dir: place.clone(),
                    name: name.to_vec(),
                });
                None
            }
            Ok(seen) => Some(Meta::from_statx(&seen)),
            Err(e) => {
                self.job.failed(place, name, Gate::Statx, e);
                None
            }
        }
    }

    fn stray(&self, dir: Place, name: &[u8]) {
        let stray = Crossing {
            dir,
            name: name.to_vec(),
        };
        self.strays.lock().push(stray);
    }

    /// Looks at the names at which something else was found than the tree says. What has not come
    /// by its own inode is handed over, and what is in it.
    fn settle_strays(&self) {
        let job = self.job;
        let strays = std::mem::take(&mut *self.strays.lock());
        let mut worker = None;
        for Crossing { dir: place, name } in strays {
            let hash = digest::below(place.hash, &name);
            if job.is_over() {
                return;
            }
            if !self.settled.lock().insert(hash) {
                continue;
            }
            let Some(meta) = self.look(&place, &name) else {
                continue;
            };
            let path = if job.wants_paths() {
                job.path(&place)
            } else {
                Vec::new()
            };
            let worker = &mut **worker.get_or_insert_with(|| job.sink.worker());
            let dir = Dir {
                path: &path,
                hash: place.hash,
                depth: place.depth,
            };
            job.give(worker, &dir, &[Entry { name: &name, meta }]);
            if meta.is_dir() && job.enters(meta.dev) && job.filter.enters(place.depth + 1) {
                stat::subtree(job, worker, place.below(&name));
            }
        }
    }
}

/// A thread that reads.
struct Reader<'s, 'a, 'j> {
    shared: &'s Shared<'a, 'j>,
    worker: Box<dyn Worker + 'a>,
    view: View<'a>,
    small: [u8; SMALL],
}

impl<'s, 'a, 'j> Reader<'s, 'a, 'j> {
    fn new(shared: &'s Shared<'a, 'j>) -> Self {
        Reader {
            shared,
            worker: shared.job.sink.worker(),
            view: View::default(),
            small: [0; SMALL],
        }
    }

    fn run(mut self, work: &Work<'a>) {
        let job = self.shared.job;
        let mut buffer = vec![0; BUFFER];
        while let Some(piece) = work.claim() {
            self.view = View::default();
            let end = self.piece(&piece, &mut buffer);
            let end = match end {
                Some(end) => end,
                None => match next_inode(&job.top.fd, piece.tree.id, piece.last + 1, &mut buffer) {
                    Ok(Some(next)) => End::Gap(next),
                    Ok(None) => End::Nothing,
                    Err(_) => End::Rows(0),
                },
            };
            work.done(piece, &end);
            if job.is_over() {
                work.stop();
            }
        }
    }

    /// Reads a piece; `None` when there was nothing in it. Where something cannot be read, only
    /// that is left out: what lies before it is found by halving, and what lies behind it by steps
    /// that double.
    fn piece(&mut self, piece: &Piece<'a>, buffer: &mut [u8]) -> Option<End> {
        let (job, tree) = (self.shared.job, &*piece.tree);
        let (mut batch, mut links) = (Vec::new(), Vec::new());
        let (mut rows, mut searches) = (0, 0);
        let (mut damage, mut beyond) = (None, None);
        let mut ranges = vec![(piece.first, piece.last)];
        'ranges: while let Some((first, last)) = ranges.pop() {
            let mut scan = Scan::new(tree.id, first, last, tree.has_stubs);
            while !job.is_over() {
                let count = match scan.fill(&job.top.fd, buffer) {
                    Ok(Some(count)) => count,
                    Ok(None) => break,
                    Err(Errno::ENOENT) => return Some(End::Nothing), // the subvolume has been deleted
                    Err(e) => {
                        let at = scan.ino();
                        damage = damage.or(Some((at, e)));
                        if next_inode(&job.top.fd, tree.id, at, buffer).is_err() {
                            match readable_after(&job.top.fd, tree.id, at, buffer) {
                                Some(next) if next <= last => ranges.push((next, last)),
                                next if ranges.is_empty() => {
                                    beyond = Some(next.map_or(End::Nothing, End::Gap))
                                }
                                _ => {}
                            }
                        } else if at < last {
                            let middle = at + (last - at) / 2;
                            ranges.extend([(middle + 1, last), (at, middle)]);
                        } else if !scan.is_head() {
                            scan = scan.head();
                            continue;
                        }
                        continue 'ranges;
                    }
                };
                let (mut entries, mut names) = (recycle(batch), recycle_links(links));
                scan.rows(buffer, count, &mut names, |found| match found {
                    Found::Inode(row) => {
                        rows += 1;
                        self.row(tree, &row, &mut entries);
                    }
                    Found::Subvolume(link) => self.way(tree, link, &mut entries),
                });
                self.give(&mut entries);
                (batch, links) = (recycle(entries), recycle_links(names));
                searches += 1;
                if searches >= SEARCHES
                    && damage.is_none()
                    && let Some(ino) = scan.between().filter(|&ino| ino <= last)
                {
                    return Some(End::Rest(ino));
                }
            }
        }
        if let Some((ino, e)) = damage {
            let what = WarningKind::UnreadableTree { tree: tree.id, ino };
            job.warn(Warning::failed(
                &job.path(tree.base()),
                Gate::BtrfsTreeSearchV2,
                e,
                what,
            ));
            return beyond.or(Some(End::Rows(rows)));
        }
        (rows > 0).then_some(End::Rows(rows))
    }

    /// Hands over what is held back.
    fn give(&mut self, entries: &mut Vec<Entry<'_>>) {
        if !entries.is_empty() {
            let dir = Dir {
                path: &self.view.path,
                hash: self.view.hash,
                depth: self.view.depth,
            };
            self.shared.job.give(&mut *self.worker, &dir, entries);
            entries.clear();
        }
    }

    /// Turns to a directory.
    fn turn_to(&mut self, tree: &Tree<'a>, ino: u64, entries: &mut Vec<Entry<'_>>) {
        if self.view.ino != ino {
            self.give(entries);
            let job = self.shared.job;
            tree.turn_to(job, &job.top.fd, ino, &mut self.view, &mut self.small);
        }
    }

    /// An inode: an entry for each of its names.
    fn row<'b>(
        &mut self,
        tree: &Tree<'a>,
        row: &ScannedInode<'_, 'b>,
        entries: &mut Vec<Entry<'b>>,
    ) {
        let job = self.shared.job;
        let mount = job.top.meta.mount;
        let meta = row.inode.map(|inode| {
            meta_of(
                row.ino,
                &inode,
                row.xattrs,
                tree.dev,
                mount,
                self.shared.fresh.sector,
            )
        });
        let is_dir = meta.is_some_and(|meta| meta.is_dir());
        let fits = |meta: &Meta| !row.is_whole || meta.nlink as usize == row.links.len();
        let settled = meta.filter(|meta| fits(meta) && !self.shared.fresh.has_changed(meta));
        for &Link { dir, name } in row.links {
            if dir == row.ino {
                continue; // the root of a subvolume is in itself, as ".."
            }
            if !is_name(name) {
                let what = WarningKind::InvalidName {
                    ino: row.ino,
                    tree: tree.id,
                };
                job.warn(Warning::about(&job.path(tree.base()), what));
                continue;
            }
            self.turn_to(tree, dir, entries);
            // An empty one that gets something in it later is found when that is.
            if is_dir && meta.is_some_and(|meta| meta.size > 0) {
                tree.note(job, &self.view, name, row.ino);
            }
            if !self.view.is_open() || !job.filter.keeps(&self.view.path, name) {
                continue;
            }
            if self
                .view
                .below
                .and_then(|below| below.step(name))
                .is_some_and(Below::is_mount)
            {
                job.cross(Crossing {
                    dir: tree.place(&self.view),
                    name: name.to_vec(),
                });
                continue;
            }
            match settled {
                Some(meta) => entries.push(Entry { name, meta }),
                None => entries.extend(
                    self.settle(tree, row.ino, name)
                        .map(|meta| Entry { name, meta }),
                ),
            }
        }
    }

    /// Looks at a name whose inode may have changed.
    #[cold]
    fn settle(&self, tree: &Tree<'a>, ino: u64, name: &[u8]) -> Option<Meta> {
        let place = tree.place(&self.view);
        let meta = self.shared.look(&place, name)?;
        if (meta.ino, meta.dev) == (ino, tree.dev) {
            let hash = digest::below(self.view.hash, name);
            self.shared.settled.lock().insert(hash);
            return Some(meta);
        }
        self.shared.stray(place, name);
        None
    }

    /// The name of a subvolume: a link to another tree. a subvolume, handed over already, or what is left of one
    /// in a snapshot.
    #[cold]
    fn way<'b>(&mut self, tree: &Tree<'a>, way: Link<'b>, entries: &mut Vec<Entry<'b>>) {
        self.turn_to(tree, way.dir, entries);
        let job = self.shared.job;
        if self.view.is_open() && is_name(way.name) && job.filter.keeps(&self.view.path, way.name) {
            self.shared.stray(tree.place(&self.view), way.name);
        }
    }
}

/// An empty vector in the place of another, for entries that borrow from something else.
fn recycle<'b>(mut entries: Vec<Entry<'_>>) -> Vec<Entry<'b>> {
    entries.clear();
    entries
        .into_iter()
        .map(|entry| Entry {
            name: b"",
            meta: entry.meta,
        })
        .collect()
}

/// [`recycle`] for names.
fn recycle_links<'b>(mut links: Vec<Link<'_>>) -> Vec<Link<'b>> {
    links.clear();
    links
        .into_iter()
        .map(|link| Link {
            dir: link.dir,
            name: b"",
        })
        .collect()
}
