//! `btrfs`: the trees of the subvolumes, read by `BTRFS_IOC_TREE_SEARCH_V2`. One call returns
//! hundreds of inodes with their names, where statx(2) takes one call for each.
//!
//! - The search reads the trees on disk, so syncfs(2) writes all changes to them first. Inodes that
//!   have changed since, by ctime or mtime, or that are inconsistent, are read singly with
//!   statx(2).
//! - Threads claim ranges of inode numbers in ascending order (`work.rs`). Most directories are
//!   older than their entries, and are then known already; otherwise the parents of a directory are
//!   searched for (`tree.rs`). So every entry is emitted at once, and only directories are kept in
//!   memory.
//! - Subvolumes are separate trees. The tree of tree roots has their names; statx(2) checks that
//!   each subvolume still exists.
//! - Mounts do not appear in a search, so mount points come from the mount table.
//!
//! During writes, a name that is replaced by another file may be emitted twice, once for each file;
//! a file that is moved may be emitted at both places, or at none.

use std::collections::HashSet;
use std::sync::Arc;

use base::Warning;
use base::btrfs::{BUFFER, each_item, search};
use gate::btrfs::BTRFS_SUPER_MAGIC;
use gate::fs::{Time, fstat, fstatfs, syncfs};
use gate::sync::Mutex;
use gate::{Errno, Gate};
use ondisk::btrfs::{FIRST_INODE, FS_TREE, Link, ROOT_TREE, Subvolume, is_name, kind, root_ref};

use self::scan::{FoundItem, Scan, ScannedInode};
use self::search::{
    MetaSource, SMALL, is_full, may_have_changed, meta_of, next_inode, readable_after, recycle,
    subvolume,
};
use self::tree::{EmittedDirectory, SubvolumeTree};
use self::work::{End, InodeRange, InodeWork};
use super::crew::{crew, most_threads};
use super::stat::walk_below;
use crate::entry::{Entry, Meta};
use crate::error::{EngineAction, EngineRefusal, WarningKind};
use crate::job::{Crossing, Engine, Job, JobDirectory, MountHints};
use crate::key::DirKey;
use crate::kind::EngineKind;
use crate::moment::Moment;
use crate::sink::Worker;
use crate::top::MountContext;

mod scan;
mod search;
pub mod since;
mod tree;
mod work;

pub(super) struct Btrfs;

/// Maximum number of searches for one range of inodes; the rest of the range is left to other
/// threads.
const SEARCHES: u32 = 64;

impl Engine for Btrfs {
    fn possible(&self, context: &MountContext<'_>) -> Result<(), EngineRefusal> {
        const KIND: EngineKind = EngineKind::Btrfs;
        context.check(KIND, BTRFS_SUPER_MAGIC)?;
        let keys = (FIRST_INODE, 0, 0)..=(FIRST_INODE, u8::MAX, u64::MAX);
        match search(&context.top.fd, 0, keys, 1, &mut [0; SMALL]) {
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
        // Read the clock before syncfs, which may take long: changes during it may not be in the
        // trees.
        let start = Moment::now();
        syncfs(fd).map_err(|e| EngineAction::Sync.failed(e))?;
        let refusal = |e| EngineAction::SubvolumeInfo.failed(e);
        let subvolume = subvolume(fd).map_err(refusal)?;
        let statfs = fstatfs(fd).map_err(refusal)?;
        let ino = job.top.meta.ino;
        if ino < FIRST_INODE {
            return Ok(()); // this directory is the empty stub of a subvolume in a snapshot
        }
        next_inode(fd, subvolume.tree, FIRST_INODE, &mut [0; SMALL]).map_err(refusal)?;
        let top = SubvolumeTree::new(
            subvolume.tree,
            job.top.meta.dev,
            has_stubs(&subvolume),
            ino,
            job.place(),
            Some(job.below),
        );
        let shared = BtrfsWalkState {
            job,
            since: if is_full(&statfs) {
                Time::new(i64::MIN, 0)
            } else {
                start.changed_since()
            },
            sector: statfs.block_size.max(1),
            strays: Mutex::default(),
            settled: Mutex::default(),
        };
        let work = InodeWork::new(shared.trees(top));
        crew(job.threads, most_threads(), || {
            SubvolumeReader::new(&shared).run(&work)
        });
        shared.settle_strays();
        Ok(())
    }
}

/// Whether a subvolume may have stubs (empty directories) in place of nested subvolumes.
fn has_stubs(subvolume: &Subvolume) -> bool {
    subvolume.tree != FS_TREE && (subvolume.is_snapshot() || subvolume.uuid == [0; 16])
}

struct BtrfsWalkState<'a, 'j> {
    job: &'a Job<'j>,
    /// Inodes that changed at this time or later are read with statx(2).
    since: Time,
    sector: u64,
    /// Names for which statx(2) found a different file than the subvolume's tree has.
    strays: Mutex<Vec<Crossing>>,
    /// Directory keys of the entries that were emitted with metadata from statx(2).
    settled: Mutex<HashSet<DirKey>>,
}

impl<'a> BtrfsWalkState<'a, '_> {
    /// The subvolume trees of the walk: that of the top, and those of all subvolumes below it,
    /// whose roots are emitted here.
    fn trees(&self, top: SubvolumeTree<'a>) -> Vec<Arc<SubvolumeTree<'a>>> {
        let mut worker = self.job.sink.worker();
        let mut trees = vec![Arc::new(top)];
        let mut next = 0;
        while let Some(tree) = trees.get(next).cloned() {
            if self.job.is_over() {
                break;
            }
            if let Err(e) = self.subvolumes(&tree, &mut *worker, &mut trees) {
                let (gate, kind) = (Gate::BtrfsTreeSearchV2, WarningKind::ReadSubvolumes);
                let warning = Warning::failed(&self.job.top.path, gate, e, kind);
                self.job.warn(warning);
            }
            next += 1;
        }
        trees
    }

    /// Emits the roots of the subvolumes that are nested in a subvolume, and adds their trees to
    /// `trees`.
    fn subvolumes(
        &self,
        tree: &SubvolumeTree<'a>,
        worker: &mut dyn Worker,
        trees: &mut Vec<Arc<SubvolumeTree<'a>>>,
    ) -> Result<(), Errno> {
        let (job, fd) = (self.job, &self.job.top.fd);
        let keys = (tree.id, kind::ROOT_REF, 0)..=(tree.id, kind::ROOT_REF, u64::MAX);
        let (mut small, mut view) = ([0; SMALL], EmittedDirectory::new(job));
        each_item(fd, ROOT_TREE, keys, |item| {
            if let Some(Link { dir, name }) = root_ref(item).filter(|link| is_name(link.name)) {
                tree.turn_to(job, fd, dir, &mut view, &mut small);
                if view.keeps(name) {
                    trees.extend(self.subvolume(tree, &view, name, worker).map(Arc::new));
                }
            }
        })
    }

    /// Emits the root of a subvolume, and returns its tree if the walk enters the subvolume.
    fn subvolume(
        &self,
        tree: &SubvolumeTree<'a>,
        view: &EmittedDirectory<'a>,
        name: &[u8],
        worker: &mut dyn Worker,
    ) -> Option<SubvolumeTree<'a>> {
        let job = self.job;
        let place = tree.place(view);
        if MountHints::is_mount(view.below, name) {
            job.cross(place, name);
            return None;
        }
        let meta = self.look(&place, name)?;
        let root = place.below(name);
        if !meta.is_dir() || meta.ino != FIRST_INODE || meta.dev == tree.dev {
            self.stray(place, name);
            return None;
        }
        let opened = job.enters_entry(&meta, place.key, name).then(|| {
            let fd = job.open(&root)?;
            let seen = fstat(&fd, Meta::WANT)?;
            Ok((Meta::from_statx(&seen), subvolume(&fd)?))
        });
        let (meta, subvolume) = match opened {
            None => (meta, None),
            Some(Ok((meta, subvolume))) => (meta, Some(subvolume)),
            Some(Err(Errno::EXDEV)) => {
                job.cross(place, name);
                return None;
            }
            Some(Err(e)) => {
                job.failed(&root, b"", Gate::Openat2, e);
                (meta, None)
            }
        };
        self.settled.lock().insert(root.key);
        job.emit(worker, &view.key.dir(&view.path), &[Entry { name, meta }]);
        let subvolume = subvolume?;
        Some(SubvolumeTree::new(
            subvolume.tree,
            meta.dev,
            has_stubs(&subvolume),
            FIRST_INODE,
            root,
            view.below.and_then(|below| below.step(name)),
        ))
    }

    /// Calls statx(2) for a name; `None` if the file is gone, or another mount begins there.
    fn look(&self, place: &JobDirectory, name: &[u8]) -> Option<Meta> {
        let seen = self.job.look(place, name);
        self.job.sort_out(seen, || place.clone(), name)
    }

    fn stray(&self, dir: JobDirectory, name: &[u8]) {
        let name = name.to_vec();
        self.strays.lock().push(Crossing {
            dir,
            name,
            is_emitted: false,
        });
    }

    /// Emits the names for which statx(2) found a different file than the tree has, unless they
    /// were emitted meanwhile, together with everything below them.
    fn settle_strays(&self) {
        let job = self.job;
        let strays = std::mem::take(&mut *self.strays.lock());
        let mut worker = None;
        for Crossing {
            dir: place, name, ..
        } in strays
        {
            let key = place.key.below(&name);
            if job.is_over() {
                return;
            }
            if !self.settled.lock().insert(key) {
                continue;
            }
            let Some(meta) = self.look(&place, &name) else {
                continue;
            };
            let worker = &mut **worker.get_or_insert_with(|| job.sink.worker());
            let path = job.dir_path(|| &place);
            job.emit(
                worker,
                &place.key.dir(&path),
                &[Entry { name: &name, meta }],
            );
            if job.enters_entry(&meta, place.key, &name) {
                walk_below(job, worker, place.below(&name));
            }
        }
    }
}

struct SubvolumeReader<'s, 'a, 'j> {
    shared: &'s BtrfsWalkState<'a, 'j>,
    worker: Box<dyn Worker + 'a>,
    view: EmittedDirectory<'a>,
    small: [u8; SMALL],
}

impl<'s, 'a, 'j> SubvolumeReader<'s, 'a, 'j> {
    fn new(shared: &'s BtrfsWalkState<'a, 'j>) -> Self {
        SubvolumeReader {
            shared,
            worker: shared.job.sink.worker(),
            view: EmittedDirectory::new(shared.job),
            small: [0; SMALL],
        }
    }

    fn run(mut self, work: &InodeWork<'a>) {
        let job = self.shared.job;
        let mut buffer = vec![0; BUFFER];
        while let Some(piece) = work.claim() {
            self.view = EmittedDirectory::new(job);
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

    /// Reads a range of inodes; `None` if it was empty. Only unreadable items are skipped: halving
    /// the range finds the readable items before them, and [`readable_after`] those after them.
    fn piece(&mut self, piece: &InodeRange<'a>, buffer: &mut [u8]) -> Option<End> {
        let (job, tree) = (self.shared.job, &*piece.tree);
        let (mut batch, mut links): (Vec<Entry<'_>>, Vec<Link<'_>>) = Default::default();
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
                let (mut entries, mut names) = (recycle(batch), recycle(links));
                scan.rows(buffer, count, &mut names, |found| match found {
                    FoundItem::Inode(row) => {
                        rows += 1;
                        self.row(tree, &row, &mut entries);
                    }
                    FoundItem::Subvolume(link) => self.subvolume_name(tree, link, &mut entries),
                });
                self.flush(&mut entries);
                (batch, links) = (recycle(entries), recycle(names));
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
            let kind = WarningKind::UnreadableTree { tree: tree.id, ino };
            let path = job.path(&tree.base);
            job.warn(Warning::failed(&path, Gate::BtrfsTreeSearchV2, e, kind));
            return beyond.or(Some(End::Rows(rows)));
        }
        (rows > 0).then_some(End::Rows(rows))
    }

    fn flush(&mut self, entries: &mut Vec<Entry<'_>>) {
        if !entries.is_empty() {
            let dir = self.view.key.dir(&self.view.path);
            self.shared.job.emit(&mut *self.worker, &dir, entries);
            entries.clear();
        }
    }

    fn turn_to(&mut self, tree: &SubvolumeTree<'a>, ino: u64, entries: &mut Vec<Entry<'_>>) {
        if self.view.ino != ino {
            self.flush(entries);
            let job = self.shared.job;
            tree.turn_to(job, &job.top.fd, ino, &mut self.view, &mut self.small);
        }
    }

    fn row<'b>(
        &mut self,
        tree: &SubvolumeTree<'a>,
        row: &ScannedInode<'_, 'b>,
        entries: &mut Vec<Entry<'b>>,
    ) {
        let job = self.shared.job;
        let source = MetaSource {
            dev: tree.dev,
            mount: job.top.meta.mount,
            sector: self.shared.sector,
        };
        let meta = row
            .inode
            .map(|inode| meta_of(row.ino, &inode, row.xattrs, source));
        let fits = |meta: &Meta| !row.is_whole || meta.nlink as usize == row.links.len();
        let is_settled = |meta: &Meta| fits(meta) && !may_have_changed(meta, self.shared.since);
        let settled = meta.filter(is_settled);
        for &Link { dir, name } in row.links {
            if dir == row.ino {
                continue; // the root of a subvolume is its own parent, by the name ".."
            }
            if !is_name(name) {
                let (ino, tree_id) = (row.ino, tree.id);
                let kind = WarningKind::InvalidName { ino, tree: tree_id };
                job.warn(Warning::about(&job.path(&tree.base), kind));
                continue;
            }
            self.turn_to(tree, dir, entries);
            // A directory that is empty now is recorded later, when the scan finds its first entry.
            if meta.is_some_and(|meta| meta.is_dir() && meta.size > 0) {
                tree.add(job, &self.view, name, row.ino);
            }
            if !self.view.keeps(name) {
                continue;
            }
            if MountHints::is_mount(self.view.below, name) {
                job.cross(tree.place(&self.view), name);
                continue;
            }
            let meta = settled.or_else(|| self.reread_name(tree, row.ino, name));
            entries.extend(meta.map(|meta| Entry { name, meta }));
        }
    }

    /// Reads a name whose inode may have changed, with statx(2).
    #[cold]
    fn reread_name(&self, tree: &SubvolumeTree<'a>, ino: u64, name: &[u8]) -> Option<Meta> {
        let place = tree.place(&self.view);
        let meta = self.shared.look(&place, name)?;
        if (meta.ino, meta.dev) == (ino, tree.dev) {
            let key = self.view.key.below(name);
            self.shared.settled.lock().insert(key);
            return Some(meta);
        }
        self.shared.stray(place, name);
        None
    }

    /// Records the name of a nested subvolume for [`BtrfsWalkState::settle_strays`]: its root was
    /// emitted already, or a stub is in its place.
    #[cold]
    fn subvolume_name<'b>(
        &mut self,
        tree: &SubvolumeTree<'a>,
        Link { dir, name }: Link<'b>,
        entries: &mut Vec<Entry<'b>>,
    ) {
        self.turn_to(tree, dir, entries);
        if is_name(name) && self.view.keeps(name) {
            self.shared.stray(tree.place(&self.view), name);
        }
    }
}
