//! Reads names and inode numbers by getdents64 alone.
//!
//! Each thread keeps its results in a list: the bytes of names in pages, one name after another,
//! and for each name a [`NameEntry`] of 16 bytes. Directories are numbered. The names of a
//! directory are contiguous, so a [`NameEntry`] needs only the distance from the directory's first
//! name.

use std::ffi::CStr;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};

use gate::machine::processors;
use gate::process::spare_open_files;
use gate::sync::{Condvar, Mutex};
use gate::usage::blocks_read;
use gate::{Errno, Gate};
use ondisk::FileType;
use ondisk::dirent::{Entry, entries};
use ondisk::xfs::Geometry;

use super::inodes::Readahead;
use crate::engine::crew::crew;
use crate::engine::node::DirectoryNode;
use crate::engine::opened::{OpenDirs, OpenedDirectory};
use crate::engine::stat::BUFFER;
use crate::entry::append;
use crate::filter::Matcher;
use crate::job::{Job, JobDirectory, MountHints, look_at};
use crate::key::DirKey;

/// A name in a directory, to be joined with its inode.
#[derive(Clone, Copy, Debug)]
pub(super) struct NameEntry {
    pub(super) ino: u64,
    /// Number of the directory that has the name.
    pub(super) dir: u32,
    /// Distance of the name's bytes from the directory's first name, and the flag [`IS_DIR`].
    place: u32,
}

/// Flag in [`NameEntry::place`]: the file was a directory when its name was read.
const IS_DIR: u32 = 1 << 31;
/// Value of [`ReadDirectory::place`] for the continuation of a large directory: the names that are
/// too far from the directory's first name. `parent` is the preceding part of the directory.
const PART: u32 = u32::MAX;

impl NameEntry {
    #[cfg(test)]
    pub(super) fn new(ino: u64) -> NameEntry {
        NameEntry {
            ino,
            dir: 0,
            place: 0,
        }
    }

    /// Whether the file was a directory when its name was read. If so, the directory has been read,
    /// too, unless excluded.
    pub(super) fn is_dir(self) -> bool {
        self.place & IS_DIR != 0
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct ReadDirectory {
    /// Offset of the first name in [`Pages`]; the highest 16 bits are the number of the thread.
    names: u64,
    key: DirKey,
    parent: u32,
    /// [`NameEntry::place`] of the name of this directory.
    place: u32,
}

/// Threads reserve directory numbers in blocks of this size.
const BLOCK: usize = 256;

/// Bytes of names, in pages, so that growth moves no bytes. Each name ends with a NUL, and is
/// wholly in one page.
#[derive(Debug, Default)]
struct Pages(Vec<Vec<u8>>);

impl Pages {
    const BITS: u32 = 20;

    /// Offset of the next name, if the name fits into the page.
    fn end(&self) -> u64 {
        match self.0.last() {
            Some(page) => ((self.0.len() as u64 - 1) << Pages::BITS) + page.len() as u64,
            None => 0,
        }
    }

    /// Adds the bytes of a name, and returns their offset.
    fn add(&mut self, name: &[u8]) -> u64 {
        let is_full = |page: &Vec<u8>| page.len() + name.len() >= 1 << Pages::BITS;
        if self.0.last().is_none_or(is_full) {
            self.0.push(Vec::with_capacity(1 << Pages::BITS));
        }
        let at = self.end();
        if let Some(page) = self.0.last_mut() {
            page.extend_from_slice(name);
            page.push(0);
        }
        at
    }

    fn get(&self, at: u64) -> &[u8] {
        let offset = (at & ((1 << Pages::BITS) - 1)) as usize;
        let page = self.0.get((at >> Pages::BITS) as usize);
        let rest = page.and_then(|page| page.get(offset..)).unwrap_or_default();
        CStr::from_bytes_until_nul(rest).map_or(&[], CStr::to_bytes)
    }
}

#[derive(Debug, Default)]
pub(super) struct NameLists {
    /// Names by thread, each list sorted by inode number.
    pub(super) lists: Vec<Vec<NameEntry>>,
    pages: Vec<Pages>,
    directories: Vec<Vec<ReadDirectory>>,
}

impl NameLists {
    fn directory(&self, number: u32) -> ReadDirectory {
        let block = self.directories.get(number as usize / BLOCK);
        block
            .and_then(|block| block.get(number as usize % BLOCK))
            .copied()
            .unwrap_or_default()
    }

    fn bytes(&self, dir: u32, place: u32) -> &[u8] {
        let names = self.directory(dir).names;
        let pages = self.pages.get((names >> 48) as usize);
        pages.map_or(&[], |pages| {
            pages.get((names & (u64::MAX >> 16)) + u64::from(place & !IS_DIR))
        })
    }

    pub(super) fn name(&self, name: NameEntry) -> &[u8] {
        self.bytes(name.dir, name.place)
    }

    pub(super) fn key(&self, dir: u32) -> DirKey {
        self.directory(dir).key
    }

    pub(super) fn place(&self, dir: u32) -> JobDirectory {
        let mut names = Vec::new();
        let mut at = dir;
        while at != 0 {
            let directory = self.directory(at);
            if directory.place != PART {
                names.push(self.bytes(directory.parent, directory.place));
            }
            at = directory.parent;
        }
        let mut rel = Vec::new();
        names.iter().rev().for_each(|name| append(&mut rel, name));
        let key = self.key(dir);
        JobDirectory { rel, key }
    }
}

/// Reads the names below a job's top. Failures and other mounts are reported to the job.
pub(super) fn names(job: &Job<'_>, shape: &Geometry) -> NameLists {
    let spare = spare_open_files();
    let shared = SharedNames {
        job,
        inodes: Readahead::new(&job.top.fd, shape),
        are_read: AtomicBool::new(false),
        blocks_before: blocks_read(),
        queue: Mutex::default(),
        news: Condvar::new(),
        idle: AtomicUsize::new(0),
        queued: AtomicUsize::new(0),
        readers: AtomicUsize::new(0),
        blocks: AtomicU32::new(0),
        open: OpenDirs::within(spare / 2),
        found: Mutex::default(),
    };
    let mut reader = NameReader::new(&shared);
    match shared.open.directory(job, || job.place(), b"", None) {
        Ok(opened) => {
            let top = ReadDirectory {
                key: job.top.key,
                ..ReadDirectory::default()
            };
            let node = DirectoryNode::new(job.place(), Some(job.below));
            reader.read(top, Arc::new(node), &opened);
        }
        Err(e) => job.failed(&job.place(), b"", Gate::Openat2, e),
    }
    let pending = reader.hand_in();
    if !pending.is_empty() {
        shared.queue.lock().pending = pending;
        // Each thread opens a few directories, besides those that stay open for their
        // subdirectories.
        crew(job.threads, spare / 8 + 1, || {
            NameReader::new(&shared).work()
        });
    }
    shared.found.into_inner()
}

/// Subdirectories of one directory that are still to be read. Threads take one after another.
struct SiblingQueue<'a> {
    parent: Arc<DirectoryNode<'a>>,
    /// The open parent directory, unless too many directories are open.
    opened: Option<Arc<OpenedDirectory>>,
    children: Vec<Child>,
    /// Names of the subdirectories, each with its NUL.
    names: Vec<u8>,
    next: AtomicUsize,
}

#[derive(Clone, Copy)]
struct Child {
    name: NameEntry,
    offset: usize,
}

impl SiblingQueue<'_> {
    fn is_taken(&self) -> bool {
        self.next.load(Relaxed) >= self.children.len()
    }
}

struct SharedNames<'a> {
    job: &'a Job<'a>,
    inodes: Readahead<'a>,
    are_read: AtomicBool,
    /// Blocks that this process had read from disks before the walk.
    blocks_before: u64,
    queue: Mutex<DirectoryQueue<'a>>,
    /// Signalled when directories are queued, and when no directory is left.
    news: Condvar,
    idle: AtomicUsize,
    queued: AtomicUsize,
    readers: AtomicUsize,
    /// Number of blocks of directory numbers that threads have reserved.
    blocks: AtomicU32,
    open: OpenDirs,
    found: Mutex<NameLists>,
}

#[derive(Default)]
struct DirectoryQueue<'a> {
    pending: Vec<Arc<SiblingQueue<'a>>>,
    working: usize,
}

/// The state of one thread, and the names that the thread has read.
struct NameReader<'s, 'a> {
    shared: &'s SharedNames<'a>,
    job: &'a Job<'a>,
    number: usize,
    /// Whether this thread is counted in [`DirectoryQueue::working`].
    is_working: bool,
    /// Directories that this thread has found or taken, the deepest ones last.
    pending: Vec<Arc<SiblingQueue<'a>>>,
    list: Vec<NameEntry>,
    pages: Pages,
    /// Blocks of directories by number; the last block is being filled.
    blocks: Vec<(u32, Vec<ReadDirectory>)>,
    buffer: Vec<u8>,
    matcher: Matcher<'a>,
}

impl<'s, 'a> NameReader<'s, 'a> {
    fn new(shared: &'s SharedNames<'a>) -> NameReader<'s, 'a> {
        NameReader {
            shared,
            job: shared.job,
            number: shared.readers.fetch_add(1, Relaxed),
            is_working: false,
            pending: Vec::new(),
            list: Vec::new(),
            pages: Pages::default(),
            blocks: Vec::new(),
            buffer: vec![0; BUFFER],
            matcher: shared.job.filter.matcher(),
        }
    }

    fn work(mut self) {
        self.read_inodes_ahead();
        while let Some((siblings, child)) = self.next() {
            self.child(&siblings, child);
            self.share();
        }
        self.hand_in();
    }

    /// Reads all inodes in disk order. Only some of the threads that were started because other
    /// threads wait for a disk call this, before they read directories.
    fn read_inodes_ahead(&self) {
        /// Maximum number of threads that read inodes ahead: enough for a disk. Others read
        /// directories.
        const SOME: usize = 4;
        /// Minimum number of blocks that the process has read from disks since the walk began: with
        /// fewer, the cache is warm, and reading inodes ahead would not help.
        const COLD: u64 = 256;
        let shared = self.shared;
        if blocks_read().saturating_sub(shared.blocks_before) < COLD {
            return;
        }
        // Number 0 is the reader of the top, which is no thread of the walk; the next ones were
        // started for the processors.
        let nth = self.number.checked_sub(processors() + 1);
        if let (Some(nth), None) = (nth.filter(|&nth| nth < SOME), self.job.threads) {
            let is_wanted = || !shared.are_read.load(Relaxed) && !self.job.is_over();
            // A failed readahead is ignored: the error recurs when the inode is needed.
            let _ = shared.inodes.run(nth, is_wanted);
        }
    }

    /// Stores the names in the shared lists, and returns the unread directories.
    fn hand_in(mut self) -> Vec<Arc<SiblingQueue<'a>>> {
        self.list.sort_unstable_by_key(|name| name.ino);
        let mut found = self.shared.found.lock();
        let readers = found.lists.len().max(self.number + 1);
        found.lists.resize_with(readers, Vec::new);
        found.pages.resize_with(readers, Pages::default);
        found.lists[self.number] = self.list;
        found.pages[self.number] = self.pages;
        for (number, block) in self.blocks {
            let blocks = found.directories.len().max(number as usize + 1);
            found.directories.resize_with(blocks, Vec::new);
            found.directories[number as usize] = block;
        }
        self.pending
    }

    /// The next directory to read, from this thread's list or the queue; `None` when no thread has
    /// any.
    fn next(&mut self) -> Option<(Arc<SiblingQueue<'a>>, usize)> {
        loop {
            while let Some(siblings) = self.pending.last() {
                let child = siblings.next.fetch_add(1, Relaxed);
                let is_last = child + 1 >= siblings.children.len();
                let siblings = if is_last {
                    self.pending.pop()?
                } else {
                    Arc::clone(siblings)
                };
                if child < siblings.children.len() && !self.job.is_over() {
                    return Some((siblings, child));
                }
            }
            let siblings = self.wait()?;
            self.pending.push(siblings);
        }
    }

    fn wait(&mut self) -> Option<Arc<SiblingQueue<'a>>> {
        let shared = self.shared;
        let mut queue = shared.queue.lock();
        if mem::take(&mut self.is_working) {
            queue.working -= 1;
        }
        loop {
            if let Some(siblings) = queue.pending.pop() {
                shared.queued.store(queue.pending.len(), Relaxed);
                queue.working += 1;
                self.is_working = true;
                return Some(siblings);
            }
            if queue.working == 0 {
                shared.are_read.store(true, Relaxed);
                shared.news.notify_all();
                return None;
            }
            shared.idle.fetch_add(1, Relaxed);
            queue = shared.news.wait(queue);
            shared.idle.fetch_sub(1, Relaxed);
        }
    }

    /// Puts directories into the queue if other threads are idle: those nearest to the top, which
    /// have most entries below them.
    fn share(&mut self) {
        let shared = self.shared;
        if shared.idle.load(Relaxed) > shared.queued.load(Relaxed)
            && let Some(siblings) = self.pending.iter().find(|siblings| !siblings.is_taken())
        {
            let mut queue = shared.queue.lock();
            queue.pending.push(Arc::clone(siblings));
            shared.queued.store(queue.pending.len(), Relaxed);
            shared.news.notify_one();
        }
    }

    fn number(&mut self, directory: ReadDirectory) -> u32 {
        if self
            .blocks
            .last()
            .is_none_or(|(_, block)| block.len() == BLOCK)
        {
            self.blocks.push((
                self.shared.blocks.fetch_add(1, Relaxed),
                Vec::with_capacity(BLOCK),
            ));
        }
        self.blocks.last_mut().map_or(0, |(number, block)| {
            block.push(directory);
            *number * BLOCK as u32 + block.len() as u32 - 1
        })
    }

    fn child(&mut self, siblings: &SiblingQueue<'a>, child: usize) {
        let job = self.job;
        let Child { name: own, offset } = siblings.children[child];
        let Ok(name) = CStr::from_bytes_until_nul(&siblings.names[offset..]) else {
            return;
        };
        let name = name.to_bytes();
        let node = siblings.parent.child(name, 0);
        let from = siblings.opened.as_deref();
        match self.shared.open.directory(job, || node.place(), name, from) {
            Ok(opened) => {
                self.list.push(own);
                let directory = ReadDirectory {
                    names: 0,
                    key: node.key,
                    parent: own.dir,
                    place: own.place & !IS_DIR,
                };
                self.read(directory, node, &opened);
            }
            Err(Errno::EXDEV) => job.cross(siblings.parent.place(), name),
            // The directory, or its parent, has been moved. If it still exists, `join` reads it.
            Err(Errno::ENOENT) => self.list.push(NameEntry {
                place: own.place & !IS_DIR,
                ..own
            }),
            Err(e) => {
                self.list.push(own);
                job.failed(&node.place(), b"", Gate::Openat2, e);
            }
        }
    }

    /// Adds a name of a directory. The first name assigns the `number` of the directory. Returns
    /// the number and the distance from the first name.
    fn add_name(
        &mut self,
        name: &[u8],
        directory: &mut ReadDirectory,
        number: &mut Option<u32>,
    ) -> (u32, u32) {
        let at = self.pages.add(name);
        if let Some(number) = *number {
            let distance = at - directory.names;
            if distance < u64::from(IS_DIR) - 1 {
                return (number, distance as u32);
            }
            // The distance from the directory's first name is too large: begin a continuation of
            // the directory.
            (directory.parent, directory.place) = (number, PART);
        }
        directory.names = at;
        let names = (self.number as u64) << 48 | at;
        let new = self.number(ReadDirectory {
            names,
            ..*directory
        });
        (*number.insert(new), 0)
    }

    /// Reads an open directory. Subdirectories that are to be read become a [`SiblingQueue`].
    fn read(
        &mut self,
        mut directory: ReadDirectory,
        node: Arc<DirectoryNode<'a>>,
        opened: &Arc<OpenedDirectory>,
    ) {
        let job = self.job;
        if job.filter.wants_paths() {
            self.matcher.enter(&job.path(&node.place()));
        }
        let enters = job.filter.enters(node.key.depth + 1) && job.enters(job.top.meta.dev);
        let mut number = None;
        let (mut children, mut names) = (Vec::new(), Vec::new());
        let mut buffer = mem::take(&mut self.buffer);
        loop {
            let records = match opened.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => &buffer[..n],
                Err(e) => {
                    job.failed(&node.place(), b"", Gate::Getdents64, e);
                    break;
                }
            };
            for entry in entries(records) {
                let name = entry.name.to_bytes();
                if !self.matcher.keeps(name) || !opened.tags.keep(name) {
                    continue;
                }
                if MountHints::is_mount(node.below, name) {
                    job.cross(node.place(), name);
                    continue;
                }
                let Some(is_dir) = is_dir(job, &node, opened, &entry) else {
                    continue;
                };
                let (dir, place) = self.add_name(name, &mut directory, &mut number);
                let name = NameEntry {
                    ino: entry.ino,
                    dir,
                    place: if is_dir { place | IS_DIR } else { place },
                };
                if is_dir && enters {
                    let offset = names.len();
                    children.push(Child { name, offset });
                    names.extend_from_slice(entry.name.to_bytes_with_nul());
                } else {
                    self.list.push(name);
                }
            }
            if job.is_over() {
                break;
            }
        }
        self.buffer = buffer;
        if !children.is_empty() {
            self.pending.push(Arc::new(SiblingQueue {
                parent: node,
                opened: self.shared.open.keep(opened),
                children,
                names,
                next: AtomicUsize::new(0),
            }));
        }
    }
}

/// Whether an entry is a directory; `None` if it is on a different mount, or statx(2) fails.
fn is_dir(
    job: &Job<'_>,
    node: &DirectoryNode<'_>,
    opened: &OpenedDirectory,
    entry: &Entry<'_>,
) -> Option<bool> {
    match entry.file_type {
        FileType::Directory => Some(true),
        // File systems made with ftype=0 do not store the type.
        FileType::Unknown => {
            let seen = look_at(&opened.fd, entry.name);
            let meta = job.sort_out(seen, || node.place(), entry.name.to_bytes());
            meta.map(|meta| meta.is_dir())
        }
        _ => Some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_return_names_of_any_length() {
        let mut pages = Pages::default();
        let names: Vec<Vec<u8>> = (0..20_000_usize)
            .map(|n| vec![b'a' + (n % 26) as u8; n % 256])
            .collect();
        let places: Vec<u64> = names.iter().map(|name| pages.add(name)).collect();
        assert!(pages.0.len() > 1 && places.is_sorted());
        assert!(
            names
                .iter()
                .zip(places)
                .all(|(name, at)| pages.get(at) == name)
        );
        assert!(pages.get(u64::MAX).is_empty());
    }

    #[test]
    fn directory_in_parts_has_one_path() {
        let key = |depth, hash| DirKey { depth, hash, id: 0 };
        let mut pages = Pages::default();
        let (a, b, c) = (pages.add(b"a"), pages.add(b"b"), pages.add(b"c"));
        let number = BLOCK as u32;
        let top = ReadDirectory {
            names: a,
            key: key(0, 1),
            ..ReadDirectory::default()
        };
        // The second part of the top, a directory in it, and the second part of that directory.
        let part = ReadDirectory {
            names: b,
            parent: 0,
            place: PART,
            ..top
        };
        let below = ReadDirectory {
            names: c,
            key: key(1, 2),
            parent: 1,
            place: IS_DIR,
        };
        let its_part = ReadDirectory {
            parent: number,
            place: PART,
            ..below
        };
        let mut first = vec![top, part];
        first.resize(BLOCK, ReadDirectory::default());
        let names = NameLists {
            lists: Vec::new(),
            pages: vec![pages],
            directories: vec![first, vec![below, its_part]],
        };
        assert_eq!(
            [0, 1, number, number + 1].map(|dir| names.place(dir).rel),
            [&b""[..], b"", b"b", b"b"]
        );
        let place = names.place(number + 1);
        assert_eq!(place.key, key(1, 2));
        assert_eq!(names.bytes(number, 0), b"c");
    }
}
