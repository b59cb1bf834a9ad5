//! Names and inode numbers, read by getdents64 alone.
//!
//! Each thread keeps what it finds in a list of its own: names in pages, one after the other, and
//! for each name a [`Name`] of 16 bytes. A directory is known by a number; what is in it lies
//! together, so that a name needs only its distance from where the directory's names begin.

use std::ffi::CStr;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};

use gate::fs::FileType;
use gate::machine::processors;
use gate::process::raise_open_files;
use gate::sync::{Condvar, Mutex, MutexGuard};
use gate::usage::blocks_read;
use gate::{Errno, Gate};
use ondisk::dirent::{Entry, EntryType, entries};
use ondisk::xfs::Geometry;

use super::Traversal;
use crate::engine::crew::crew;
use crate::engine::opened::{OpenDirs, Opened};
use crate::engine::stat::BUFFER;
use crate::entry::append;
use crate::job::{Below, Crossing, Job, Place, look_at};

/// A name: what bulkstat is to be joined with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name {
    /// The inode that it stands for.
    pub(super) ino: u64,
    /// The directory that it is in.
    pub(super) dir: u32,
    /// How far its bytes are from where the directory's begin; in the highest bit, whether it was a
    /// directory.
    place: u32,
}

/// In [`Name::place`]: it was a directory.
const IS_DIR: u32 = 1 << 31;
/// In the place of a name's place: this is no directory of its own, but a further part of its
/// parent, whose names would else be too far away.
const PART: u32 = u32::MAX;

impl Name {
    /// Some name of an inode.
    #[cfg(test)]
    pub(super) fn new(ino: u64) -> Name {
        Name {
            ino,
            dir: 0,
            place: 0,
        }
    }

    /// Whether it was a directory when its name was read; it has been read as well, if it was to
    /// be.
    pub(super) fn is_dir(self) -> bool {
        self.place & IS_DIR != 0
    }
}

/// A directory whose names have been read.
#[derive(Clone, Copy, Debug, Default)]
struct Directory {
    /// Where its names begin, see [`Pages`]; the thread's list in the highest 16 bits.
    names: u64,
    hash: u64,
    parent: u32,
    /// Where its own name is among those of its parent.
    place: u32,
    depth: u32,
}

/// Directories are numbered by whole blocks of numbers that a thread takes at a time.
const BLOCK: usize = 256;

/// Bytes of names, in pages: they need not move when there are more of them. Each name ends with a
/// NUL, and none goes over the end of a page.
#[derive(Debug, Default)]
struct Pages(Vec<Vec<u8>>);

impl Pages {
    const BITS: u32 = 20;

    /// Where the next name would be, if it is short enough.
    fn end(&self) -> u64 {
        match self.0.last() {
            Some(page) => ((self.0.len() as u64 - 1) << Pages::BITS) + page.len() as u64,
            None => 0,
        }
    }

    /// Adds a name, and says where it is.
    fn add(&mut self, name: &[u8]) -> u64 {
        let room = self
            .0
            .last()
            .map_or(0, |page| (1 << Pages::BITS) - page.len());
        if room <= name.len() {
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
        let page = self
            .0
            .get((at >> Pages::BITS) as usize)
            .map_or(&[][..], Vec::as_slice);
        let rest = page
            .get((at & ((1 << Pages::BITS) - 1)) as usize..)
            .unwrap_or_default();
        CStr::from_bytes_until_nul(rest).map_or(&[], CStr::to_bytes)
    }
}

/// Everything that was read.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// The names, by inode number; a list for each thread.
    pub(super) lists: Vec<Vec<Name>>,
    pages: Vec<Pages>,
    directories: Vec<Vec<Directory>>,
}

impl Names {
    fn directory(&self, number: u32) -> Directory {
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

    /// Its bytes.
    pub(super) fn name(&self, name: Name) -> &[u8] {
        self.bytes(name.dir, name.place)
    }

    /// What stands for a directory's name in digests, and its depth.
    pub(super) fn hash_and_depth(&self, dir: u32) -> (u64, u32) {
        let directory = self.directory(dir);
        (directory.hash, directory.depth)
    }

    /// A directory's name below the top.
    pub(super) fn rel(&self, dir: u32) -> Vec<u8> {
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
        names
            .into_iter()
            .rev()
            .for_each(|name| append(&mut rel, name));
        rel
    }

    /// A directory, as a place.
    pub(super) fn place(&self, dir: u32) -> Place {
        let (hash, depth) = self.hash_and_depth(dir);
        Place {
            rel: self.rel(dir),
            hash,
            depth,
        }
    }
}

/// Reads the names below a job's top. What cannot be read, and where other mounts lie, goes to the
/// job.
pub(super) fn names(job: &Job<'_>, shape: &Geometry) -> Names {
    let limit = raise_open_files();
    let shared = Shared {
        job,
        inodes: Traversal::new(&job.top.fd, shape),
        are_read: AtomicBool::new(false),
        blocks_before: blocks_read(),
        queue: Mutex::default(),
        news: Condvar::new(),
        idle: AtomicUsize::new(0),
        queued: AtomicUsize::new(0),
        readers: AtomicUsize::new(0),
        blocks: AtomicU32::new(0),
        open: OpenDirs::within(limit / 2),
        found: Mutex::default(),
    };
    let mut reader = Reader::new(&shared);
    match shared.open.directory(job, || job.place(), b"", None) {
        Ok(opened) => {
            let top = Directory {
                hash: job.top.hash,
                depth: job.top.depth,
                ..Directory::default()
            };
            reader.read(top, job.place(), &opened, Some(job.below));
        }
        Err(e) => job.failed(&job.place(), b"", Gate::Openat2, e),
    }
    let broods = reader.hand_in();
    if !broods.is_empty() {
        shared.lock().broods = broods;
        // Each thread has a directory open, whatever is kept.
        crew(job.threads, limit / 8 + 1, || Reader::new(&shared).work());
    }
    shared.found.into_inner()
}

/// Directories that are in one directory, and are to be read. Threads take one after the other.
struct Brood<'a> {
    /// The directory that they are in.
    place: Place,
    /// It itself, unless too many are open.
    from: Option<Arc<Opened>>,
    below: Option<&'a Below>,
    children: Vec<Child>,
    /// Their names, each with its NUL.
    names: Vec<u8>,
    /// The next one that is to be read.
    next: AtomicUsize,
}

struct Child {
    ino: u64,
    /// The parent's number, and where it has the name.
    dir: u32,
    place: u32,
    /// Where its name is in the brood's.
    name: usize,
}

impl Brood<'_> {
    fn is_taken(&self) -> bool {
        self.next.load(Relaxed) >= self.children.len()
    }
}

/// What threads share.
struct Shared<'a> {
    job: &'a Job<'a>,
    /// All inodes, to be brought near.
    inodes: Traversal<'a>,
    /// All directories have been read.
    are_read: AtomicBool,
    /// Blocks that had been read from disks before.
    blocks_before: u64,
    queue: Mutex<Queue<'a>>,
    /// Something was queued, or all is over.
    news: Condvar,
    /// Threads that wait for something to do.
    idle: AtomicUsize,
    /// Broods in the queue.
    queued: AtomicUsize,
    /// How many readers there have been.
    readers: AtomicUsize,
    /// How many blocks of numbers of directories are taken.
    blocks: AtomicU32,
    open: OpenDirs,
    found: Mutex<Names>,
}

#[derive(Default)]
struct Queue<'a> {
    broods: Vec<Arc<Brood<'a>>>,
    /// Threads that have something to do.
    working: usize,
}

impl<'a> Shared<'a> {
    fn lock(&self) -> MutexGuard<'_, Queue<'a>> {
        self.queue.lock()
    }
}

/// One thread, and what it has found.
struct Reader<'s, 'a> {
    shared: &'s Shared<'a>,
    job: &'a Job<'a>,
    /// Which one it is.
    number: usize,
    /// Whether it is among the queue's working ones.
    is_working: bool,
    /// Broods that it has found or got, the deepest one last.
    broods: Vec<Arc<Brood<'a>>>,
    list: Vec<Name>,
    pages: Pages,
    /// Directories by blocks of numbers; the last one is being filled.
    blocks: Vec<(u32, Vec<Directory>)>,
    buffer: Vec<u8>,
}

impl<'s, 'a> Reader<'s, 'a> {
    fn new(shared: &'s Shared<'a>) -> Reader<'s, 'a> {
        Reader {
            shared,
            job: shared.job,
            number: shared.readers.fetch_add(1, Relaxed),
            is_working: false,
            broods: Vec::new(),
            list: Vec::new(),
            pages: Pages::default(),
            blocks: Vec::new(),
            buffer: vec![0; BUFFER],
        }
    }

    /// Goes on until no directory is left.
    fn work(mut self) {
        self.bring_inodes_near();
        while let Some((brood, child)) = self.next() {
            self.child(&brood, child);
            self.share();
        }
        self.hand_in();
    }

    /// What some of those do first that were started because the others wait, if it is for a disk:
    /// that is then read in its order.
    fn bring_inodes_near(&self) {
        /// So many keep a disk busy; to the others the directories are left.
        const SOME: usize = 4;
        /// Less than this is read for one directory or another. Where nothing is, others have the
        /// processors.
        const COLD: u64 = 256;
        let shared = self.shared;
        if blocks_read().saturating_sub(shared.blocks_before) < COLD {
            return;
        }
        // The first reader has read the top, and ended.
        let company = self
            .number
            .checked_sub(processors() + 1)
            .filter(|&nth| nth < SOME);
        if let (Some(nth), None) = (company, self.job.threads) {
            // What cannot be read so is found out again by whoever needs it.
            let _ = shared.inodes.go(nth, || {
                !shared.are_read.load(Relaxed) && !self.job.is_over()
            });
        }
    }

    /// Hands in what it has found, and gives back the broods that it still has.
    fn hand_in(mut self) -> Vec<Arc<Brood<'a>>> {
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
        self.broods
    }

    /// The next directory to be read: one of its own, or of those that others have left. `None`
    /// when nobody has any.
    fn next(&mut self) -> Option<(Arc<Brood<'a>>, usize)> {
        loop {
            while let Some(brood) = self.broods.last() {
                let child = brood.next.fetch_add(1, Relaxed);
                let is_last = child + 1 >= brood.children.len();
                let brood = if is_last {
                    self.broods.pop()?
                } else {
                    Arc::clone(brood)
                };
                if child < brood.children.len() && !self.job.is_over() {
                    return Some((brood, child));
                }
            }
            let brood = self.wait()?;
            self.broods.push(brood);
        }
    }

    /// Waits for a brood in the queue.
    fn wait(&mut self) -> Option<Arc<Brood<'a>>> {
        let shared = self.shared;
        let mut queue = shared.lock();
        if mem::take(&mut self.is_working) {
            queue.working -= 1;
        }
        loop {
            if let Some(brood) = queue.broods.pop() {
                shared.queued.store(queue.broods.len(), Relaxed);
                queue.working += 1;
                self.is_working = true;
                return Some(brood);
            }
            if queue.working == 0 {
                // Whoever waits will find the same.
                shared.are_read.store(true, Relaxed);
                shared.news.notify_all();
                return None;
            }
            shared.idle.fetch_add(1, Relaxed);
            queue = shared.news.wait(queue);
            shared.idle.fetch_sub(1, Relaxed);
        }
    }

    /// Lets others take from the brood that has most below it, if they have nothing to do.
    fn share(&mut self) {
        let shared = self.shared;
        if shared.idle.load(Relaxed) > shared.queued.load(Relaxed)
            && let Some(brood) = self.broods.iter().find(|brood| !brood.is_taken())
        {
            let mut queue = shared.lock();
            queue.broods.push(Arc::clone(brood));
            shared.queued.store(queue.broods.len(), Relaxed);
            shared.news.notify_one();
        }
    }

    /// Gives a directory a number.
    fn number(&mut self, directory: Directory) -> u32 {
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

    /// Opens one of a brood, and reads it.
    fn child(&mut self, brood: &Brood<'a>, child: usize) {
        let child = &brood.children[child];
        let Ok(name) = CStr::from_bytes_until_nul(&brood.names[child.name..]) else {
            return;
        };
        let place = brood.place.below(name.to_bytes());
        let from = brood.from.as_deref();
        let own = Name {
            ino: child.ino,
            dir: child.dir,
            place: child.place | IS_DIR,
        };
        match self
            .shared
            .open
            .directory(self.job, || place.clone(), name.to_bytes(), from)
        {
            Ok(opened) => {
                self.list.push(own);
                let below = brood.below.and_then(|below| below.step(name.to_bytes()));
                let (hash, depth) = (place.hash, place.depth);
                let directory = Directory {
                    names: 0,
                    hash,
                    parent: child.dir,
                    place: child.place,
                    depth,
                };
                self.read(directory, place, &opened, below);
            }
            Err(Errno::EXDEV) => {
                self.job.cross(Crossing {
                    dir: brood.place.clone(),
                    name: name.to_bytes().to_vec(),
                });
            }
            // It, or what it is in, has been moved meanwhile. If it turns out to be there after
            // all, it is read then.
            Err(Errno::ENOENT) => self.list.push(Name {
                place: child.place,
                ..own
            }),
            Err(e) => {
                self.list.push(own);
                self.job.failed(&place, b"", Gate::Openat2, e);
            }
        }
    }

    /// Reads an open directory. Those that are in it, and are to be read, make a brood.
    fn read(
        &mut self,
        mut directory: Directory,
        place: Place,
        opened: &Arc<Opened>,
        below: Option<&'a Below>,
    ) {
        let job = self.job;
        let path = if job.filter.wants_paths() {
            job.path(&place)
        } else {
            Vec::new()
        };
        let enters = job.filter.enters(place.depth + 1) && job.enters(job.top.meta.dev);
        let mut number = None;
        let (mut children, mut names) = (Vec::new(), Vec::new());
        let mut buffer = mem::take(&mut self.buffer);
        loop {
            let records = match opened.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => &buffer[..n],
                Err(e) => {
                    job.failed(&place, b"", Gate::Getdents64, e);
                    break;
                }
            };
            for entry in entries(records) {
                let name = entry.name.to_bytes();
                if !job.filter.keeps(&path, name) {
                    continue;
                }
                if below
                    .and_then(|below| below.step(name))
                    .is_some_and(Below::is_mount)
                {
                    job.cross(Crossing {
                        dir: place.clone(),
                        name: name.to_vec(),
                    });
                    continue;
                }
                let Some(is_dir) = is_dir(job, &place, opened, &entry) else {
                    continue;
                };
                let at = self.pages.add(name);
                let (dir, place) = match number.map(|number| (number, at - directory.names)) {
                    Some((number, far)) if far < u64::from(IS_DIR) - 1 => (number, far as u32),
                    whole_or_part => {
                        // The first name, or one that is too far away from the first.
                        if let Some((parent, _)) = whole_or_part {
                            directory = Directory {
                                parent,
                                place: PART,
                                ..directory
                            };
                        }
                        directory.names = at;
                        let names = (self.number as u64) << 48 | at;
                        (
                            *number.insert(self.number(Directory { names, ..directory })),
                            0,
                        )
                    }
                };
                if is_dir && enters {
                    children.push(Child {
                        ino: entry.ino,
                        dir,
                        place,
                        name: names.len(),
                    });
                    names.extend_from_slice(entry.name.to_bytes_with_nul());
                } else {
                    let place = if is_dir { place | IS_DIR } else { place };
                    self.list.push(Name {
                        ino: entry.ino,
                        dir,
                        place,
                    });
                }
            }
            if job.is_over() {
                break;
            }
        }
        self.buffer = buffer;
        if !children.is_empty() {
            let from = self.shared.open.keep(opened);
            self.broods.push(Arc::new(Brood {
                place,
                from,
                below,
                children,
                names,
                next: AtomicUsize::new(0),
            }));
        }
    }
}

/// Whether an entry is a directory. `None` when it need not be considered further.
fn is_dir(job: &Job<'_>, place: &Place, opened: &Opened, entry: &Entry<'_>) -> Option<bool> {
    match entry.entry_type {
        EntryType::Directory => Some(true),
        EntryType::Other => Some(false),
        // File systems made with ftype=0 do not say.
        EntryType::Unknown => match look_at(opened.fd(), entry.name) {
            Ok(seen) if job.is_crossing(&seen) => {
                job.cross(Crossing {
                    dir: place.clone(),
                    name: entry.name.to_bytes().to_vec(),
                });
                None
            }
            Ok(seen) => Some(seen.file_type == FileType::Directory),
            Err(e) => {
                job.failed(place, entry.name.to_bytes(), Gate::Statx, e);
                None
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, Directory, IS_DIR, Names, PART, Pages};

    #[test]
    fn pages_give_back_names_of_any_length() {
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
    fn a_directory_in_parts_has_one_name() {
        let mut pages = Pages::default();
        let (a, b, c) = (pages.add(b"a"), pages.add(b"b"), pages.add(b"c"));
        let number = BLOCK as u32;
        let top = Directory {
            names: a,
            hash: 1,
            ..Directory::default()
        };
        // The second part of the top, a directory that is named in it, and that directory's second
        // part.
        let part = Directory {
            names: b,
            parent: 0,
            place: PART,
            ..top
        };
        let below = Directory {
            names: c,
            hash: 2,
            parent: 1,
            place: IS_DIR,
            depth: 1,
        };
        let its_part = Directory {
            parent: number,
            place: PART,
            ..below
        };
        let mut first = vec![top, part];
        first.resize(BLOCK, Directory::default());
        let names = Names {
            lists: Vec::new(),
            pages: vec![pages],
            directories: vec![first, vec![below, its_part]],
        };
        assert_eq!(
            [0, 1, number, number + 1].map(|dir| names.rel(dir)),
            [&b""[..], b"", b"b", b"b"]
        );
        let place = names.place(number + 1);
        assert_eq!((place.hash, place.depth), (2, 1));
        assert_eq!(names.bytes(number, 0), b"c");
    }
}
