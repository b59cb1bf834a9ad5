//! `threads`: statx(2) of every name, by threads that share the directories.
//!
//! Each thread walks the directories that it has found itself, deepest first, so that threads seldom
//! wait and few directories stay open. A thread without tasks takes some of the queue, and the others
//! put half of theirs there. The names of a single large directory are shared as well:
//!
//! ```text
//!   thread 1:  open a, read a ──► statx a/1 a/2 a/3 ... ──► open a/d, read ──► ...
//!                 │ a thread is idle: the rest of the names, or the older directories
//!                 ▼
//!   queue:     [names of a: 33..64] [a/x] [a/y]
//!                 │
//!                 ▼
//!   thread 2:  statx a/33 ... a/64 ──► open a/x, read ──► ...
//! ```
//!
//! A walk begins with one thread: a small tree is done before another would have started. Soon there
//! is one for each processor, which is best with a warm cache. While the processors wait for a disk
//! or server, more are started up to a limit, to keep many requests in flight.
//!
//! If the sink needs names and types only, statx(2) is called only where getdents64(2) does not say
//! the type, and for names where another mount begins by the mount table. Mounts that the table does
//! not show, and automounts, are found when a directory is opened: openat2(2) returns `EXDEV`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::Scope;
use std::time::Duration;

use gate::machine::processors;
use gate::process::spare_open_files;
use gate::sync::{Condvar, Mutex};
use gate::{Errno, Gate};
use ondisk::dirent::{Entry as DirEntry, EntryType, entries};

use super::crew::{self, Pace};
use super::opened::{OpenDirs, Opened};
use super::stat::BUFFER;
use crate::digest::DirKey;
use crate::entry::{Entry, Meta, append};
use crate::error::EngineRefusal;
use crate::job::{Below, Engine, Job, Place, look_at};
use crate::sink::Worker;

pub(super) struct Threads;

/// The most threads while the processors wait for a server.
const MOST_ON_SERVER: usize = 48;

impl Engine for Threads {
    fn walk(&self, job: &Job<'_>) -> Result<(), EngineRefusal> {
        let is_remote = job
            .mount
            .is_some_and(|mount| mounts::may_hang(&mount.content.fstype));
        let spare = spare_open_files();
        let useful = if is_remote {
            MOST_ON_SERVER
        } else {
            crew::MOST
        };
        // Each thread opens a few directories, in addition to those that are kept.
        let most = job.threads.unwrap_or(useful).clamp(1, spare / 8 + 1);
        let crew = Crew {
            job,
            first: job.threads.unwrap_or_else(processors).min(most),
            most,
            open: OpenDirs::within(spare / 2),
            queue: Mutex::default(),
            threads: AtomicUsize::new(1),
            news: Condvar::new(),
            idle: AtomicUsize::new(0),
            queued: AtomicUsize::new(0),
            pace: Mutex::new(Pace::new()),
        };
        let top = Node {
            parent: None,
            name: Box::default(),
            key: job.top.key(),
            below: Some(job.below),
        };
        let tasks = vec![Task::Directory(Arc::new(top), None)];
        std::thread::scope(|scope| Thread::new(&crew, scope, tasks).run());
        Ok(())
    }
}

struct Node<'a> {
    parent: Option<Arc<Node<'a>>>,
    name: Box<[u8]>,
    key: DirKey,
    /// The mounts below it, by the table.
    below: Option<&'a Below>,
}

impl Node<'_> {
    fn place(&self) -> Place {
        let mut names = Vec::new();
        let mut at = self;
        while let Some(parent) = &at.parent {
            names.push(&at.name);
            at = parent;
        }
        let mut rel = Vec::new();
        names.iter().rev().for_each(|name| append(&mut rel, name));
        let key = self.key;
        Place { rel, key }
    }
}

/// Drops a chain of nodes in a loop: recursion would need a stack as deep as the tree.
impl Drop for Node<'_> {
    fn drop(&mut self) {
        let mut parent = self.parent.take();
        while let Some(node) = parent {
            parent = Arc::into_inner(node).and_then(|mut node| node.parent.take());
        }
    }
}

enum Task<'a> {
    /// Read a directory, and look at its entries. Its parent comes along, unless too many are open.
    Directory(Arc<Node<'a>>, Option<Arc<Opened>>),
    /// Look at these names in a directory: records of getdents64.
    Names(Arc<Node<'a>>, Arc<Opened>, Box<[u8]>),
}

struct Crew<'a> {
    job: &'a Job<'a>,
    /// Threads for a warm cache.
    first: usize,
    most: usize,
    open: OpenDirs,
    queue: Mutex<Queue<'a>>,
    /// The number of threads; changed with the queue locked.
    threads: AtomicUsize,
    /// Signalled when a task is queued, and at the end.
    news: Condvar,
    idle: AtomicUsize,
    queued: AtomicUsize,
    pace: Mutex<Pace>,
}

#[derive(Default)]
struct Queue<'a> {
    tasks: Vec<Task<'a>>,
    is_over: bool,
}

impl<'a> Crew<'a> {
    fn is_hungry(&self) -> bool {
        self.idle.load(Relaxed) > self.queued.load(Relaxed)
    }

    fn put(&self, tasks: impl IntoIterator<Item = Task<'a>>) {
        let mut queue = self.queue.lock();
        queue.tasks.extend(tasks);
        self.queued.store(queue.tasks.len(), Relaxed);
        self.news.notify_all();
    }
}

struct Thread<'scope, 'env, 'a> {
    crew: &'env Crew<'a>,
    scope: &'scope Scope<'scope, 'env>,
    worker: Box<dyn Worker + 'env>,
    tasks: Vec<Task<'a>>,
}

impl<'scope, 'env, 'a> Thread<'scope, 'env, 'a> {
    fn new(
        crew: &'env Crew<'a>,
        scope: &'scope Scope<'scope, 'env>,
        tasks: Vec<Task<'a>>,
    ) -> Thread<'scope, 'env, 'a> {
        Thread {
            crew,
            scope,
            worker: crew.job.sink.worker(),
            tasks,
        }
    }

    fn run(mut self) {
        let mut buffer = vec![0; BUFFER];
        while let Some(task) = self.next() {
            match task {
                Task::Directory(node, from) => self.directory(&node, from, &mut buffer),
                Task::Names(node, opened, records) => {
                    let path = self.path(&node);
                    self.names(&node, &path, &opened, &records);
                }
            }
            // Leave the older half of the tasks to idle threads: it has more below it.
            if self.tasks.len() > 1 && self.crew.is_hungry() {
                self.crew.put(self.tasks.drain(..self.tasks.len() / 2));
            }
        }
        gate::meter::flush();
    }

    /// The next task, its own or from the queue; `None` when no thread has any left.
    fn next(&mut self) -> Option<Task<'a>> {
        let crew = self.crew;
        if crew.job.is_over() {
            crew.queue.lock().is_over = true;
            crew.news.notify_all();
            return None;
        }
        if let Some(task) = self.tasks.pop() {
            return Some(task);
        }
        let mut queue = crew.queue.lock();
        loop {
            if queue.is_over {
                return None;
            }
            if !queue.tasks.is_empty() {
                let some = (queue.tasks.len() / crew.threads.load(Relaxed)).clamp(1, 64);
                let from = queue.tasks.len() - some;
                self.tasks.extend(queue.tasks.drain(from..));
                crew.queued.store(queue.tasks.len(), Relaxed);
                return self.tasks.pop();
            }
            if crew.idle.fetch_add(1, Relaxed) + 1 == crew.threads.load(Relaxed) {
                queue.is_over = true;
                crew.news.notify_all();
                return None;
            }
            queue = crew.news.wait(queue);
            crew.idle.fetch_sub(1, Relaxed);
        }
    }

    fn path(&self, node: &Node<'_>) -> Vec<u8> {
        if self.crew.job.wants_paths() {
            self.crew.job.path(&node.place())
        } else {
            Vec::new()
        }
    }

    fn directory(&mut self, node: &Arc<Node<'a>>, from: Option<Arc<Opened>>, buffer: &mut [u8]) {
        let Crew { job, open, .. } = self.crew;
        let opened = match open.directory(job, || node.place(), &node.name, from.as_deref()) {
            Ok(opened) => opened,
            Err(errno) => {
                return match &node.parent {
                    Some(parent) if errno == Errno::EXDEV && job.names_suffice => {
                        job.cross_emitted(parent.place(), &node.name);
                    }
                    _ => job.unopened(&node.place(), errno),
                };
            }
        };
        let path = self.path(node);
        loop {
            let records = match opened.read(buffer) {
                Ok(0) => return,
                Ok(n) => &buffer[..n],
                Err(e) => return job.failed(&node.place(), b"", Gate::Getdents64, e),
            };
            self.names(node, &path, &opened, records);
            if job.is_over() {
                return;
            }
        }
    }

    /// Looks at every name of some records. When other threads are idle, they get the rest.
    fn names(&mut self, node: &Arc<Node<'a>>, path: &[u8], opened: &Arc<Opened>, records: &[u8]) {
        /// Calls of statx(2) between two checks for idle threads.
        const ROUND: usize = 16;
        let crew = self.crew;
        let job = crew.job;
        let mut found = Vec::with_capacity(records.len() / 32);
        let mut names = entries(records);
        let mut looked = 0;
        while let Some(entry) = names.next() {
            let name = entry.name.to_bytes();
            if !job.filter.keeps(path, name)
                || !opened.tags.keep(name)
                || job.is_elsewhere(node.key, entry)
            {
                continue;
            }
            let by_name = meta_by_name(job, node.below, entry);
            let meta = by_name.or_else(|| {
                let seen = look_at(&opened.fd, entry.name);
                job.sort_out(seen, || node.place(), name)
            });
            if let Some(meta) = meta {
                found.push(Entry { name, meta });
                if job.enters_entry(&meta, node.key, name) {
                    let child = Node {
                        parent: Some(Arc::clone(node)),
                        name: name.into(),
                        key: node.key.below(name),
                        below: node.below.and_then(|below| below.step(name)),
                    };
                    let from = crew.open.keep(opened);
                    self.tasks.push(Task::Directory(Arc::new(child), from));
                }
            }
            if by_name.is_some() {
                continue;
            }
            looked += 1;
            if looked % ROUND == 0 {
                self.grow();
                if crew.is_hungry() {
                    crew.put(chunks(names.rest()).map(|some| {
                        Task::Names(Arc::clone(node), Arc::clone(opened), some.into())
                    }));
                    break;
                }
            }
        }
        job.emit(&mut *self.worker, &node.key.dir(path), &found);
        self.grow();
    }

    /// Starts more threads when they would help.
    fn grow(&self) {
        /// A shorter walk is not worth another thread.
        const SHORT: Duration = Duration::from_micros(200);
        let (crew, scope) = (self.crew, self.scope);
        let threads = crew.threads.load(Relaxed);
        if threads >= crew.most {
            return;
        }
        let Some(mut pace) = crew.pace.try_lock() else {
            return;
        };
        let wanted = if threads < crew.first {
            if pace.elapsed() < SHORT {
                return;
            }
            crew.first
        } else {
            if pace.is_waiting(threads) != Some(true) || crew.idle.load(Relaxed) > 0 {
                return;
            }
            (threads * 2).min(crew.most)
        };
        for _ in threads..wanted {
            let queue = crew.queue.lock();
            if queue.is_over {
                return;
            }
            // Count it before it runs, so that no thread believes itself to be the last one.
            crew.threads.fetch_add(1, Relaxed);
            drop(queue);
            let run = move || Thread::new(crew, scope, Vec::new()).run();
            if std::thread::Builder::new()
                .spawn_scoped(scope, run)
                .is_err()
            {
                let _queue = crew.queue.lock();
                crew.threads.fetch_sub(1, Relaxed);
                return;
            }
        }
    }
}

/// The type of a file by its entry in a directory, if the sink needs nothing else; `None` if statx(2)
/// must be called.
fn meta_by_name(job: &Job<'_>, below: Option<&Below>, entry: DirEntry<'_>) -> Option<Meta> {
    // With -x, btrfs's subvolumes are told by their devices.
    let is_sure = job.names_suffice
        && !(entry.entry_type == EntryType::Directory && job.one_device.is_some())
        && !Below::is_mount(below, entry.name.to_bytes());
    let mode = entry.type_bits.filter(|_| is_sure)?;
    Some(Meta {
        mode,
        ..Meta::default()
    })
}

/// Records in pieces that are worth a task.
fn chunks(records: &[u8]) -> impl Iterator<Item = &[u8]> {
    const SOME: usize = 16;
    let mut rest = records;
    std::iter::from_fn(move || {
        let mut names = entries(rest);
        (&mut names).take(SOME).for_each(drop);
        let piece = &rest[..rest.len() - names.rest().len()];
        rest = &rest[piece.len()..];
        (!piece.is_empty()).then_some(piece)
    })
}
