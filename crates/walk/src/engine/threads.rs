//! `threads`: statx(2) of every name, by threads that share the directories.
//!
//! Each thread goes down the directories that it has found itself, deepest first, so that few wait
//! and their descriptors stay few; whoever has nothing left takes half of what another has waiting,
//! and where a single large directory is all there is, its names are shared out as well:
//!
//! ```text
//!   thread 1:  open a, read a ──► statx a/1 a/2 a/3 ... ──► open a/d, read ──► ...
//!                 │ somebody is idle: the rest of the names, or the older directories
//!                 ▼
//!   queue:     [names of a: 33..64] [a/x] [a/y]
//!                 │
//!                 ▼
//!   thread 2:  statx a/33 ... a/64 ──► open a/x, read ──► ...
//! ```
//!
//! A walk begins with one thread; a small tree is done before another would have started. Soon
//! there is one for each processor, which is best where everything is in the cache; and where the
//! processors turn out to be waiting for disk or server meanwhile, there are more and more, up to a
//! bound: they keep so many requests in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::Scope;
use std::time::Duration;

use gate::machine::processors;
use gate::process::raise_open_files;
use gate::sync::{Condvar, Mutex, MutexGuard};
use gate::{Errno, Gate};
use ondisk::dirent::entries;

use super::crew::{self, Pace};
use super::opened::{OpenDirs, Opened};
use super::stat::{BUFFER, cross_at, sort_out};
use super::{Engine, MountContext};
use crate::digest::below;
use crate::entry::{Dir, append};
use crate::error::EngineRefusal;
use crate::job::{Job, Place, look_at};
use crate::sink::Worker;

/// Threads, statx(2) of every name.
#[derive(Clone, Copy, Debug)]
pub struct Threads;

/// As many requests as are kept in flight where the processors wait for a server.
const MOST_ON_SERVER: usize = 48;

impl Engine for Threads {
    fn possible(&self, _: &MountContext<'_>) -> Result<(), EngineRefusal> {
        Ok(())
    }

    fn walk(&self, job: &Job<'_>) -> Result<(), EngineRefusal> {
        let is_remote = job
            .mount
            .is_some_and(|mount| mounts::may_hang(&mount.content.fstype));
        let limit = raise_open_files();
        // Each thread has a directory open, whatever is kept.
        let most = job
            .threads
            .unwrap_or(if is_remote {
                MOST_ON_SERVER
            } else {
                crew::MOST
            })
            .clamp(1, limit / 8 + 1);
        let crew = Crew {
            job,
            first: job.threads.unwrap_or_else(processors).min(most),
            most,
            open: OpenDirs::within(limit / 2),
            queue: Mutex::new(Queue {
                tasks: Vec::new(),
                over: false,
            }),
            threads: AtomicUsize::new(1),
            news: Condvar::new(),
            idle: AtomicUsize::new(0),
            queued: AtomicUsize::new(0),
            pace: Mutex::new(Pace::new()),
        };
        let (hash, depth) = (job.top.hash, job.top.depth);
        let top = Node {
            parent: None,
            name: Box::default(),
            hash,
            depth,
        };
        std::thread::scope(|scope| crew.work(scope, vec![Task::Directory(Arc::new(top), None)]));
        Ok(())
    }
}

/// A directory that was found.
struct Node {
    parent: Option<Arc<Node>>,
    name: Box<[u8]>,
    hash: u64,
    depth: u32,
}

impl Node {
    fn place(&self) -> Place {
        let mut names = Vec::new();
        let mut at = Some(self);
        while let Some(node) = at {
            if node.parent.is_some() {
                names.push(&node.name);
            }
            at = node.parent.as_deref();
        }
        let mut rel = Vec::new();
        names
            .into_iter()
            .rev()
            .for_each(|name| append(&mut rel, name));
        Place {
            rel,
            hash: self.hash,
            depth: self.depth,
        }
    }
}

/// A long chain of nodes is taken apart link by link: dropped as it comes, it would need a stack as
/// deep as the tree.
impl Drop for Node {
    fn drop(&mut self) {
        let mut parent = self.parent.take();
        while let Some(node) = parent {
            parent = Arc::into_inner(node).and_then(|mut node| node.parent.take());
        }
    }
}

/// Something to do.
enum Task {
    /// Read a directory, and look at what is in it. The directory that it is in comes along, unless
    /// too many are open.
    Directory(Arc<Node>, Option<Arc<Opened>>),
    /// Look at these names in it: records of getdents64.
    Names(Arc<Node>, Arc<Opened>, Box<[u8]>),
}

/// What threads share.
struct Crew<'a> {
    job: &'a Job<'a>,
    /// Threads for a warm cache.
    first: usize,
    /// Threads at most.
    most: usize,
    open: OpenDirs,
    queue: Mutex<Queue>,
    /// Threads that there are; changed with the queue locked.
    threads: AtomicUsize,
    /// Something was queued, or all is over.
    news: Condvar,
    /// Threads that wait for something to do.
    idle: AtomicUsize,
    /// Tasks in the queue.
    queued: AtomicUsize,
    pace: Mutex<Pace>,
}

struct Queue {
    tasks: Vec<Task>,
    over: bool,
}

impl<'a> Crew<'a> {
    /// The work of one thread.
    fn work<'scope, 'env>(&'env self, scope: &'scope Scope<'scope, 'env>, mut mine: Vec<Task>) {
        let mut worker = self.job.sink.worker();
        let mut buffer = vec![0; BUFFER];
        while let Some(task) = self.next(&mut mine) {
            match task {
                Task::Directory(node, from) => {
                    self.directory(scope, &node, from, &mut *worker, &mut buffer, &mut mine);
                }
                Task::Names(node, opened, records) => {
                    let path = self.path(&node);
                    self.names(
                        scope,
                        &node,
                        &path,
                        &opened,
                        &records,
                        &mut *worker,
                        &mut mine,
                    );
                }
            }
            self.share(&mut mine);
        }
        gate::meter::flush();
    }

    /// What to do next: something of one's own, or from the queue. `None` when nobody has anything
    /// left.
    fn next(&self, mine: &mut Vec<Task>) -> Option<Task> {
        if self.job.is_over() {
            self.lock().over = true;
            self.news.notify_all();
            return None;
        }
        if let Some(task) = mine.pop() {
            return Some(task);
        }
        let mut queue = self.lock();
        loop {
            if queue.over {
                return None;
            }
            if !queue.tasks.is_empty() {
                let some = (queue.tasks.len() / self.threads.load(Relaxed)).clamp(1, 64);
                let from = queue.tasks.len() - some;
                mine.extend(queue.tasks.drain(from..));
                self.queued.store(queue.tasks.len(), Relaxed);
                return mine.pop();
            }
            if self.idle.fetch_add(1, Relaxed) + 1 == self.threads.load(Relaxed) {
                queue.over = true;
                self.news.notify_all();
                return None;
            }
            queue = self.news.wait(queue);
            self.idle.fetch_sub(1, Relaxed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    fn is_hungry(&self) -> bool {
        self.idle.load(Relaxed) > self.queued.load(Relaxed)
    }

    fn put(&self, tasks: impl IntoIterator<Item = Task>) {
        let mut queue = self.lock();
        queue.tasks.extend(tasks);
        self.queued.store(queue.tasks.len(), Relaxed);
        self.news.notify_all();
    }

    /// Gives the older half of what one has to those who have nothing: it has more below it.
    fn share(&self, mine: &mut Vec<Task>) {
        if mine.len() > 1 && self.is_hungry() {
            self.put(mine.drain(..mine.len() / 2));
        }
    }

    fn path(&self, node: &Node) -> Vec<u8> {
        if self.job.wants_paths() {
            self.job.path(&node.place())
        } else {
            Vec::new()
        }
    }

    fn directory<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        node: &Arc<Node>,
        from: Option<Arc<Opened>>,
        worker: &mut dyn Worker,
        buffer: &mut [u8],
        mine: &mut Vec<Task>,
    ) {
        let job = self.job;
        let opened = match self
            .open
            .directory(job, || node.place(), &node.name, from.as_deref())
        {
            Ok(opened) => opened,
            Err(Errno::EXDEV) => return cross_at(job, &node.place()),
            Err(e) => return job.failed(&node.place(), b"", Gate::Openat2, e),
        };
        let path = self.path(node);
        loop {
            let records = match opened.read(buffer) {
                Ok(0) => return,
                Ok(n) => &buffer[..n],
                Err(e) => return job.failed(&node.place(), b"", Gate::Getdents64, e),
            };
            self.names(scope, node, &path, &opened, records, worker, mine);
            if job.is_over() {
                return;
            }
        }
    }

    /// Looks at every name of some records. When others have nothing to do meanwhile, they get what
    /// is left.
    #[allow(
        clippy::too_many_arguments,
        reason = "they are what a thread has at hand"
    )]
    fn names<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        node: &Arc<Node>,
        path: &[u8],
        opened: &Arc<Opened>,
        records: &[u8],
        worker: &mut dyn Worker,
        mine: &mut Vec<Task>,
    ) {
        /// Names that are looked at before it is asked again whether somebody is idle.
        const ROUND: usize = 16;
        let job = self.job;
        let dir = Dir {
            path,
            hash: node.hash,
            depth: node.depth,
        };
        let mut found = Vec::with_capacity(records.len() / 32);
        let mut names = entries(records);
        let mut asked = 0;
        while let Some(entry) = names.next() {
            let name = entry.name.to_bytes();
            if !job.filter.keeps(path, name) {
                continue;
            }
            let known = found.len();
            match look_at(opened.fd(), entry.name) {
                Ok(seen) => sort_out(job, || node.place(), entry.name, &seen, &mut found),
                Err(e) => job.failed(&node.place(), name, Gate::Statx, e),
            }
            if let Some(new) = found.get(known)
                && new.meta.is_dir()
                && job.filter.enters(dir.depth + 1)
                && job.enters(new.meta.dev)
            {
                let parent = Some(Arc::clone(node));
                let (hash, depth) = (below(node.hash, name), node.depth + 1);
                let from = self.open.keep(opened);
                mine.push(Task::Directory(
                    Arc::new(Node {
                        parent,
                        name: name.into(),
                        hash,
                        depth,
                    }),
                    from,
                ));
            }
            asked += 1;
            if asked % ROUND == 0 {
                self.grow(scope);
                if self.is_hungry() {
                    let left = names.rest();
                    self.put(chunks(left).map(|some| {
                        Task::Names(Arc::clone(node), Arc::clone(opened), some.into())
                    }));
                    break;
                }
            }
        }
        job.give(worker, &dir, &found);
        self.grow(scope);
    }

    /// Starts more threads when they would help.
    fn grow<'scope, 'env>(&'env self, scope: &'scope Scope<'scope, 'env>) {
        /// A walk that is done in less time than this is not worth a thread.
        const SHORT: Duration = Duration::from_micros(200);
        let threads = self.threads.load(Relaxed);
        if threads >= self.most {
            return;
        }
        let Some(mut pace) = self.pace.try_lock() else {
            return;
        };
        let wanted = if threads < self.first {
            if pace.elapsed() < SHORT {
                return;
            }
            self.first
        } else {
            if pace.is_waiting(threads) != Some(true) || self.idle.load(Relaxed) > 0 {
                return;
            }
            (threads * 2).min(self.most)
        };
        for _ in threads..wanted {
            let queue = self.lock();
            if queue.over {
                return;
            }
            // Counted before it runs, so that nobody takes himself for the last one.
            self.threads.fetch_add(1, Relaxed);
            drop(queue);
            let started = std::thread::Builder::new()
                .spawn_scoped(scope, move || self.work(scope, Vec::new()));
            if started.is_err() {
                let _queue = self.lock();
                self.threads.fetch_sub(1, Relaxed);
                return;
            }
        }
    }
}

/// Records in pieces that are worth a thread's while.
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
