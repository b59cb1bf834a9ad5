//! `threads`: statx(2) of every name, by threads that share the directories.
//!
//! Each thread walks the directories that it has found itself, deepest first, so that threads
//! seldom wait and few directories stay open. A thread without tasks takes some from the queue,
//! into which the other threads put half of theirs. The names of a single large directory are
//! shared as well, and while other threads are idle, the thread that lists this directory does
//! nothing else:
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
//! A walk begins with one thread: a small tree is done before another thread would have started.
//! Soon there is one thread per processor, which is best with a warm cache. While the processors
//! wait for a disk or server, more threads are started up to a limit, to keep many requests in
//! flight.
//!
//! The tasks of a thread are bounded, however wide the tree: a thread with many tasks stops reading
//! a directory. The rest of that directory becomes a task, below the directories that were found in
//! it.
//!
//! If the sink needs names and types only, statx(2) is called only where getdents64(2) does not
//! return the type, and for names where another mount begins by the mount table. Mounts that the
//! table does not show, and automounts, are found when a directory is opened: openat2(2) returns
//! `EXDEV`.
//!
//! The ranks of an MPI job share one walk: each has threads as above, and the main thread of each
//! rank exchanges work with the other ranks (`exchange`). A rank gives away directories and names
//! from its queue, which the threads fill as soon as another rank asks. The rest of a partly read
//! directory stays on the rank that has it open. The rank that gives work away keeps directories
//! open until the other rank has opened them by path, or does the work itself if that fails.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread::{Builder, Scope, Thread as OsThread};
use std::time::Duration;

use base::Warning;
use base::path::names;
use gate::fs::{StatxMask, fstat};
use gate::machine::processors;
use gate::meter::spawn_scoped;
use gate::process::spare_open_files;
use gate::sync::{Condvar, Mutex};
use gate::{Errno, Gate};
use ondisk::FileType;
use ondisk::dirent::{Entry as DirEntry, entries};
use team::{SingleProcess, Team};

use super::crew::{self, CpuLoadCheck};
use super::exchange::{Exchange, FAIR_SHARE, LoanId, LoanOutcome, NoPool, Pool, SharedTask};
use super::node::DirectoryNode;
use super::opened::{OpenDirs, OpenedDirectory};
use super::stat::BUFFER;
use crate::entry::{Entry, Meta};
use crate::error::{EngineRefusal, WarningKind};
use crate::filter::Matcher;
use crate::job::{Engine, Job, MountHints, look_at};

use crate::sink::Worker;

pub(super) struct Threads;

/// Maximum number of threads while the processors wait for a server.
const MOST_ON_SERVER: usize = 48;

/// Maximum number of tasks that a thread takes from the queue at a time.
const FEW_TASKS: usize = 64;

/// Number of tasks, of some 150 bytes each, from which on a thread stops reading a directory, to
/// bound memory.
const MANY_TASKS: usize = 8192;

impl Engine for Threads {
    fn walk(&self, job: &Job<'_>) -> Result<(), EngineRefusal> {
        // Ignore the result: only a walk with other ranks starts a thread here, which could fail.
        let _ = walk_together(job, &SingleProcess::NoJob, 0, false);
        Ok(())
    }
}

/// Walks a job together with the other ranks. The rank `owner` begins with the top, unless
/// `is_done`.
///
/// # Errors
/// This rank could not start a thread. All ranks have stopped then.
pub(crate) fn walk_together(
    job: &Job<'_>,
    team: &dyn Team,
    owner: usize,
    is_done: bool,
) -> Result<(), Errno> {
    let has_others = team.size() > 1;
    if is_done && !has_others {
        return Ok(());
    }
    let exchange = has_others.then(|| (std::thread::current(), team.rank()));
    let crew = Crew::new(job, exchange);
    let mut tasks = Vec::new();
    if team.rank() == owner && !is_done {
        tasks.push(DirectoryTask::Directory(
            Arc::clone(&crew.top),
            OpenFrom::Path,
        ));
    }
    std::thread::scope(|scope| {
        let crew = &crew;
        let run = move || Thread::new(crew, scope, tasks).run();
        if !has_others {
            run();
            return Ok(());
        }
        // Only the main thread communicates.
        let started = spawn_scoped(scope, Builder::new(), run);
        if started.is_err() {
            crew.stop();
        }
        Exchange::new(team, crew, owner).run();
        crew.end();
        started
            .map(drop)
            .map_err(|e| Errno(e.raw_os_error().unwrap_or(0)))
    })
}

/// Takes part in the message exchange of ranks, without walking.
pub(crate) fn stand_by(team: &dyn Team, owner: usize) {
    Exchange::new(team, &NoPool, owner).run();
}

impl<'a> Crew<'a> {
    fn new(job: &'a Job<'a>, exchange: Option<(OsThread, usize)>) -> Crew<'a> {
        let (exchange, rank) = exchange.unzip();
        let is_remote = job
            .mount
            .is_some_and(|mount| mounts::may_hang(&mount.content.fstype));
        let spare = spare_open_files();
        let useful = if is_remote {
            MOST_ON_SERVER
        } else {
            crew::MOST
        };
        // Each thread opens a few directories, besides those that stay open for their
        // subdirectories.
        let most = job.threads.unwrap_or(useful).clamp(1, spare / 8 + 1);
        let top = DirectoryNode::new(job.place(), Some(job.below));
        Crew {
            job,
            top: Arc::new(top),
            first: job.threads.unwrap_or_else(processors).min(most),
            most,
            open: OpenDirs::within(spare / 2),
            queue: Mutex::default(),
            threads: AtomicUsize::new(1),
            news: Condvar::new(),
            exchange,
            rank: rank.unwrap_or(0),
            loans: Mutex::default(),
            idle: AtomicUsize::new(0),
            queued: AtomicUsize::new(0),
            askers: AtomicUsize::new(0),
            is_stopped: AtomicBool::new(false),
            pace: Mutex::new(CpuLoadCheck::new()),
        }
    }
}

/// How the directory of a task is opened.
enum OpenFrom {
    /// By name in this open parent directory; for [`DirectoryTask::Names`], the directory itself is
    /// open.
    Open(Arc<OpenedDirectory>),
    /// Like `Open`, but this rank must do the task: another rank could not open the directory by
    /// path.
    Returned(Arc<OpenedDirectory>),
    /// By path, because too many directories are open.
    Path,
    /// By path. If that fails, the lending rank does the task.
    Lent(LoanId),
}

enum DirectoryTask<'a> {
    /// Read a directory and its entries' metadata.
    Directory(Arc<DirectoryNode<'a>>, OpenFrom),
    /// Call statx(2) for these names in a directory: records of getdents64.
    Names(Arc<DirectoryNode<'a>>, OpenFrom, Box<[u8]>),
    /// Read the rest of a directory that has been read in part.
    Rest(Arc<DirectoryNode<'a>>, Arc<OpenedDirectory>),
}

impl<'a> DirectoryTask<'a> {
    /// The size ([`SharedTask::size_of`]) of the task for another rank; `None` if only this rank
    /// can do it.
    fn size_to_give(&self) -> Option<usize> {
        let (node, source, records) = match self {
            DirectoryTask::Directory(node, source) => (node, source, 0),
            DirectoryTask::Names(node, source, records) => (node, source, records.len()),
            DirectoryTask::Rest(..) => return None,
        };
        let is_for_any = !matches!(source, OpenFrom::Returned(_));
        is_for_any.then(|| SharedTask::size_of(node.place().rel.len(), records))
    }

    /// Whether both tasks have names in the same open directory.
    fn is_of_same_names(&self, other: &DirectoryTask<'_>) -> bool {
        match (self, other) {
            (
                DirectoryTask::Names(a, OpenFrom::Open(_), _),
                DirectoryTask::Names(b, OpenFrom::Open(_), _),
            ) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

/// Work that was given to other ranks, or came from them, until it is known whether the borrower
/// can open the directories.
#[derive(Default)]
struct LoanTable<'a> {
    given: HashMap<u64, DirectoryTask<'a>>,
    next_id: u64,
    /// The outcomes of work that other ranks have lent.
    outcomes: Vec<(LoanId, LoanOutcome)>,
}

struct Crew<'a> {
    job: &'a Job<'a>,
    top: Arc<DirectoryNode<'a>>,
    /// Number of threads that suffices with a warm cache.
    first: usize,
    most: usize,
    open: OpenDirs,
    queue: Mutex<TaskQueue<'a>>,
    /// Number of running threads; changed only while the queue is locked.
    threads: AtomicUsize,
    /// Signalled when tasks are queued, and when the walk is over.
    news: Condvar,
    /// The main thread, if it exchanges work with other ranks; parked while there is nothing to
    /// exchange.
    exchange: Option<OsThread>,
    rank: usize,
    loans: Mutex<LoanTable<'a>>,
    idle: AtomicUsize,
    queued: AtomicUsize,
    /// Number of other ranks that wait for work.
    askers: AtomicUsize,
    /// Whether the walk has failed, here or on another rank.
    is_stopped: AtomicBool,
    pace: Mutex<CpuLoadCheck>,
}

#[derive(Default)]
struct TaskQueue<'a> {
    tasks: Vec<DirectoryTask<'a>>,
    is_over: bool,
}

impl<'a> Crew<'a> {
    /// Whether the queue has too few tasks for the idle threads and for the ranks that wait.
    fn is_hungry(&self) -> bool {
        let askers = self.askers.load(Relaxed);
        self.idle.load(Relaxed) + FAIR_SHARE * askers > self.queued.load(Relaxed)
    }

    fn is_over(&self) -> bool {
        self.is_stopped.load(Relaxed) || self.job.is_over()
    }

    fn end(&self) {
        self.queue.lock().is_over = true;
        self.news.notify_all();
    }

    fn put(&self, tasks: impl IntoIterator<Item = DirectoryTask<'a>>) {
        let mut queue = self.queue.lock();
        let before = queue.tasks.len();
        queue.tasks.extend(tasks);
        self.queued.store(queue.tasks.len(), Relaxed);
        let after = queue.tasks.len();
        drop(queue);
        self.news.notify_all();
        let askers = self.askers.load(Relaxed);
        let is_enough = |tasks| tasks >= FAIR_SHARE * askers;
        if askers > 0 && (before == 0 || !is_enough(before) && is_enough(after)) {
            self.wake_exchange();
        }
    }

    /// Packs a task, or tasks with names in the same directory, for another rank. Until the loan is
    /// settled, this rank keeps the directory open, unless too many are open.
    fn give(&self, tasks: &[DirectoryTask<'a>]) -> Option<SharedTask> {
        let (node, source, records) = match tasks.first()? {
            DirectoryTask::Directory(node, source) => (node, source, None),
            DirectoryTask::Names(node, source, _) => {
                let records = tasks.iter().filter_map(|task| match task {
                    DirectoryTask::Names(_, _, records) => Some(&records[..]),
                    _ => None,
                });
                (node, source, Some(records.collect::<Vec<_>>().concat()))
            }
            DirectoryTask::Rest(..) => return None,
        };
        let lend = |opened| {
            let (node, source) = (Arc::clone(node), OpenFrom::Returned(opened));
            self.lend(match &records {
                None => DirectoryTask::Directory(node, source),
                Some(records) => DirectoryTask::Names(node, source, records[..].into()),
            })
        };
        let loan = match source {
            OpenFrom::Open(opened) => self.open.keep(opened).map(lend),
            OpenFrom::Lent(loan) => Some(*loan),
            OpenFrom::Path | OpenFrom::Returned(_) => None,
        };
        Some(SharedTask {
            rel: node.place().rel,
            ino: node.ino,
            records,
            loan,
        })
    }

    /// Keeps a task that was lent to another rank, until that rank reports that it can open the
    /// directory.
    fn lend(&self, task: DirectoryTask<'a>) -> LoanId {
        let mut loans = self.loans.lock();
        let id = loans.next_id;
        loans.next_id += 1;
        loans.given.insert(id, task);
        LoanId {
            rank: self.rank,
            id,
        }
    }

    /// Number of queued tasks that are not needed by idle threads of this rank.
    fn spare_in(&self, queue: &TaskQueue<'a>) -> usize {
        queue.tasks.len().saturating_sub(self.idle.load(Relaxed))
    }

    /// Wakes the main thread, so that it exchanges messages with other ranks.
    fn wake_exchange(&self) {
        if let Some(exchange) = &self.exchange {
            exchange.unpark();
        }
    }
}

impl Pool for Crew<'_> {
    fn is_passive(&self) -> bool {
        let queue = self.queue.lock();
        let are_idle = self.idle.load(Relaxed) == self.threads.load(Relaxed);
        let has_work = !queue.tasks.is_empty() || !are_idle;
        queue.is_over || !has_work && self.loans.lock().outcomes.is_empty()
    }

    fn is_hungry(&self) -> bool {
        let queue = self.queue.lock();
        let idle = self.idle.load(Relaxed);
        !queue.is_over && queue.tasks.is_empty() && 2 * idle >= self.threads.load(Relaxed)
    }

    fn set_askers(&self, askers: usize) {
        self.askers.store(askers, Relaxed);
    }

    fn count_spare_tasks(&self) -> usize {
        self.spare_in(&self.queue.lock())
    }

    /// Takes tasks from the front of the queue, except those that are too large for a message or
    /// must stay on this rank.
    fn take_share(&self, of: usize, most: usize) -> Vec<SharedTask> {
        let mut queue = self.queue.lock();
        let spare = self.spare_in(&queue);
        let mut left = most;
        let first = queue.tasks[..spare.div_ceil(of)].iter();
        let fits = |task: &DirectoryTask<'_>| {
            left = left.checked_sub(task.size_to_give()?)?;
            Some(())
        };
        let taken = first.map_while(fits).count();
        if taken == 0 && spare > 0 {
            queue.tasks.rotate_left(1);
        }
        let tasks: Vec<_> = queue.tasks.drain(..taken).collect();
        self.queued.store(queue.tasks.len(), Relaxed);
        drop(queue); // release the lock before directories are closed
        let items = tasks.chunk_by(DirectoryTask::is_of_same_names);
        items.filter_map(|tasks| self.give(tasks)).collect()
    }

    fn put(&self, items: Vec<SharedTask>) {
        // Restart the measurement of CPU load: idle threads without work would look like waiting
        // for a server.
        *self.pace.lock() = CpuLoadCheck::new();
        let tasks = items.into_iter().map(|item| {
            let own = item.loan.filter(|loan| loan.rank == self.rank);
            if let Some(task) = own.and_then(|loan| self.loans.lock().given.remove(&loan.id)) {
                return task;
            }
            // Rebuild the directory node from the path: its key and the mounts below follow from
            // the names.
            let mut names = names(&item.rel);
            let last = names.next_back();
            let above = names.fold(Arc::clone(&self.top), |node, name| node.child(name, 0));
            let node =
                last.map_or_else(|| Arc::clone(&self.top), |name| above.child(name, item.ino));
            let source = item.loan.map_or(OpenFrom::Path, OpenFrom::Lent);
            match item.records {
                None => DirectoryTask::Directory(node, source),
                Some(records) => DirectoryTask::Names(node, source, records.into()),
            }
        });
        Crew::put(self, tasks);
    }

    fn take_outcomes(&self) -> Vec<(LoanId, LoanOutcome)> {
        std::mem::take(&mut self.loans.lock().outcomes)
    }

    fn handle_outcomes(&self, outcomes: &[(u64, LoanOutcome)]) {
        let (mut opened, mut returned) = (Vec::new(), Vec::new());
        let mut loans = self.loans.lock();
        for (id, outcome) in outcomes {
            let tasks = match outcome {
                LoanOutcome::Opened => &mut opened,
                LoanOutcome::NotOpened => &mut returned,
            };
            tasks.extend(loans.given.remove(id));
        }
        drop(loans); // release the lock before directories are closed
        drop(opened);
        if !returned.is_empty() {
            Crew::put(self, returned);
        }
    }

    fn is_stopped(&self) -> bool {
        self.is_over()
    }

    fn stop(&self) {
        self.is_stopped.store(true, Relaxed);
        self.end();
    }

    fn entries(&self) -> u64 {
        self.job.diagnostics.own_entries()
    }

    fn set_elsewhere(&self, entries: u64) {
        self.job.diagnostics.set_elsewhere(entries);
    }
}

struct Thread<'scope, 'env, 'a> {
    crew: &'env Crew<'a>,
    scope: &'scope Scope<'scope, 'env>,
    worker: Box<dyn Worker + 'env>,
    matcher: Matcher<'a>,
    tasks: Vec<DirectoryTask<'a>>,
}

impl<'scope, 'env, 'a> Thread<'scope, 'env, 'a> {
    fn new(
        crew: &'env Crew<'a>,
        scope: &'scope Scope<'scope, 'env>,
        tasks: Vec<DirectoryTask<'a>>,
    ) -> Thread<'scope, 'env, 'a> {
        Thread {
            crew,
            scope,
            worker: crew.job.sink.worker(),
            matcher: crew.job.filter.matcher(),
            tasks,
        }
    }

    fn run(mut self) {
        let mut buffer = vec![0; BUFFER];
        while let Some(task) = self.next() {
            match task {
                DirectoryTask::Directory(node, source) => {
                    if let Some(opened) = self.open(&node, source) {
                        self.directory(&node, &opened, &mut buffer);
                    }
                }
                DirectoryTask::Rest(node, opened) => self.directory(&node, &opened, &mut buffer),
                DirectoryTask::Names(
                    node,
                    OpenFrom::Open(opened) | OpenFrom::Returned(opened),
                    records,
                ) => {
                    self.look_at_names(&node, &opened, &records);
                }
                DirectoryTask::Names(node, source, records) => {
                    if let Some(opened) = self.open(&node, source) {
                        self.look_at_names(&node, &opened, &records);
                    }
                }
            }
            // Put the older half of the tasks into the queue: older directories have more below
            // them.
            if self.tasks.len() > 1 && self.crew.is_hungry() {
                self.crew.put(self.tasks.drain(..self.tasks.len() / 2));
            }
        }
    }

    /// The next task of this thread or from the queue; `None` when no thread has any left.
    fn next(&mut self) -> Option<DirectoryTask<'a>> {
        let crew = self.crew;
        if crew.is_over() {
            crew.end();
            return None;
        }
        // If other ranks wait and this thread has few tasks, do the oldest task, which has the most
        // entries below it, so that there is soon more to share.
        if crew.askers.load(Relaxed) > 0 && (2..FEW_TASKS).contains(&self.tasks.len()) {
            return Some(self.tasks.remove(0));
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
                let some = (queue.tasks.len() / crew.threads.load(Relaxed)).clamp(1, FEW_TASKS);
                let from = queue.tasks.len() - some;
                self.tasks.extend(queue.tasks.drain(from..));
                crew.queued.store(queue.tasks.len(), Relaxed);
                return self.tasks.pop();
            }
            let idle = crew.idle.fetch_add(1, Relaxed) + 1;
            if idle == crew.threads.load(Relaxed) && crew.exchange.is_none() {
                queue.is_over = true;
                crew.news.notify_all();
                return None;
            }
            // Ask other ranks for work when half of the threads are idle, and again when all are.
            let threads = crew.threads.load(Relaxed);
            if crew.exchange.is_some() && [threads.div_ceil(2), threads].contains(&idle) {
                crew.wake_exchange();
            }
            queue = crew.news.wait(queue);
            crew.idle.fetch_sub(1, Relaxed);
        }
    }

    fn look_at_names(
        &mut self,
        node: &Arc<DirectoryNode<'a>>,
        opened: &Arc<OpenedDirectory>,
        records: &[u8],
    ) {
        let path = self.crew.job.dir_path(|| node.place());
        self.names(node, &path, opened, records);
    }

    /// Opens a directory. The parent directory is released before any other directory is opened.
    fn open(&self, node: &DirectoryNode<'a>, source: OpenFrom) -> Option<Arc<OpenedDirectory>> {
        let Crew {
            job, open, loans, ..
        } = self.crew;
        let parent = match &source {
            OpenFrom::Open(parent) | OpenFrom::Returned(parent) => Some(&**parent),
            OpenFrom::Path | OpenFrom::Lent(_) => None,
        };
        let opened = open.directory(job, || node.place(), &node.name, parent);
        let is_lost = parent.is_none() && !self.is_same(node, opened.as_ref());
        if let OpenFrom::Lent(loan) = source {
            let outcome = if is_lost {
                LoanOutcome::NotOpened
            } else {
                LoanOutcome::Opened
            };
            loans.lock().outcomes.push((loan, outcome));
            if is_lost {
                return None;
            }
        } else if is_lost && !self.is_in_place(node.parent.as_deref()) {
            let path = job.path(&node.place());
            job.warn(Warning::about(&path, WarningKind::Moved));
            return None;
        }
        let failed = |errno| match &node.parent {
            Some(parent) if errno == Errno::EXDEV && job.names_suffice => {
                job.cross_emitted(parent.place(), &node.name);
            }
            _ => job.unopened(&node.place(), errno),
        };
        opened.map_err(failed).ok()
    }

    /// Whether a directory that was opened by path has the inode number of its entry.
    fn is_same(
        &self,
        node: &DirectoryNode<'_>,
        opened: Result<&Arc<OpenedDirectory>, &Errno>,
    ) -> bool {
        let Ok(opened) = opened else {
            return false;
        };
        let seen = || fstat(&opened.fd, StatxMask::INO);
        node.ino == 0 || seen().is_ok_and(|seen| seen.ino == node.ino)
    }

    /// Whether a directory can still be found by its path.
    fn is_in_place(&self, node: Option<&DirectoryNode<'_>>) -> bool {
        let Some((node, parent)) = node.and_then(|node| Some((node, node.parent.as_ref()?))) else {
            return true;
        };
        let seen = self.crew.job.look(&parent.place(), &node.name);
        seen.is_ok_and(|seen| node.ino == 0 || seen.ino == node.ino)
    }

    /// Reads a directory from its present offset on.
    fn directory(
        &mut self,
        node: &Arc<DirectoryNode<'a>>,
        opened: &Arc<OpenedDirectory>,
        buffer: &mut [u8],
    ) {
        /// Length of getdents64 records of some 50 names.
        const MANY: usize = 2048;
        let job = self.crew.job;
        let path = self.crew.job.dir_path(|| node.place());
        loop {
            let records = match opened.read(buffer) {
                Ok(0) => return,
                Ok(n) => &buffer[..n],
                Err(e) => return job.failed(&node.place(), b"", Gate::Getdents64, e),
            };
            let before = self.tasks.len();
            // Give the names away, and continue with getdents64 at once, before idle threads wait
            // for names. A thread that was given names must call statx(2) for some of them itself,
            // or all ranks might pass the names on for ever.
            if records.len() > MANY && !job.names_suffice && self.crew.is_hungry() {
                self.share(node, opened, records);
            } else {
                self.names(node, &path, opened, records);
            }
            if self.crew.is_over() {
                return;
            }
            let found = before..self.tasks.len();
            if !found.is_empty()
                && found.end >= MANY_TASKS
                && let Some(opened) = self.crew.open.keep(opened)
            {
                let rest = DirectoryTask::Rest(Arc::clone(node), opened);
                return self.tasks.insert(found.start, rest);
            }
        }
    }

    /// Puts names in a directory into the queue for other threads.
    fn share(&self, node: &Arc<DirectoryNode<'a>>, opened: &Arc<OpenedDirectory>, records: &[u8]) {
        let source = || OpenFrom::Open(Arc::clone(opened));
        let task = |some: &[u8]| DirectoryTask::Names(Arc::clone(node), source(), some.into());
        self.crew.put(chunks(records).map(task));
    }

    /// Calls statx(2) for every name in getdents64 records. When other threads are idle, they get
    /// the rest.
    fn names(
        &mut self,
        node: &Arc<DirectoryNode<'a>>,
        path: &[u8],
        opened: &Arc<OpenedDirectory>,
        records: &[u8],
    ) {
        /// Number of statx(2) calls between two checks for idle threads.
        const ROUND: usize = 16;
        let crew = self.crew;
        let job = crew.job;
        self.matcher.enter(path);
        let mut found = Vec::with_capacity(records.len() / 32);
        let mut names = entries(records);
        let mut looked = 0;
        while let Some(entry) = names.next() {
            let name = entry.name.to_bytes();
            if !self.matcher.keeps(name)
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
                    let from = crew.open.keep(opened);
                    let source = from.map_or(OpenFrom::Path, OpenFrom::Open);
                    self.tasks
                        .push(DirectoryTask::Directory(node.child(name, meta.ino), source));
                }
            }
            if by_name.is_some() {
                continue;
            }
            looked += 1;
            if looked % ROUND == 0 {
                self.grow();
                if crew.is_hungry() {
                    self.share(node, opened, names.rest());
                    break;
                }
            }
        }
        job.emit(&mut *self.worker, &node.key.dir(path), &found);
        self.grow();
    }

    /// Starts more threads if they would help.
    fn grow(&self) {
        /// Minimum duration of a walk until more threads are started: in a shorter walk they do not
        /// pay.
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
            // Count the thread before it runs: otherwise a thread that becomes idle could take
            // itself for the last one, and end the walk.
            crew.threads.fetch_add(1, Relaxed);
            drop(queue);
            let run = move || Thread::new(crew, scope, Vec::new()).run();
            if spawn_scoped(scope, Builder::new(), run).is_err() {
                let _queue = crew.queue.lock();
                crew.threads.fetch_sub(1, Relaxed);
                return;
            }
        }
    }
}

/// The type of a file by its directory entry, if the sink needs nothing else; `None` if statx(2)
/// must be called.
fn meta_by_name(job: &Job<'_>, below: Option<&MountHints>, entry: DirEntry<'_>) -> Option<Meta> {
    // With -x, only the device number shows that a directory is a btrfs subvolume.
    let is_sure = job.names_suffice
        && !(entry.file_type == FileType::Directory && job.one_device.is_some())
        && !MountHints::is_mount(below, entry.name.to_bytes());
    let is_known = entry.file_type != FileType::Unknown;
    (is_sure && is_known).then_some(Meta {
        mode: entry.file_type.mode(),
        ..Meta::default()
    })
}

/// Divides getdents64 records into pieces that are worth a task.
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
