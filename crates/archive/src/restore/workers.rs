//! Threads that create the entries of directories while the archive is read.
//!
//! The reader makes and opens the directories, and passes on what is in them in batches. The batches of
//! a directory go to one thread until all are done, so that its entries are created in the order of
//! the archive, and its own times are set last. Where the order matters otherwise (a directory that
//! takes the name of a file, a hard link into another directory, the renames of an increment), the
//! reader waits for the batches that it concerns.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use gate::Fd;
use gate::meter::spawn_scoped;
use gate::sync::{Condvar, Mutex};

use super::attributes::Late;
use super::entry::{NewEntry, OpenDirectory, Traits};
use super::maker::Maker;
use super::report::{Counts, Remarks};
use super::room::Room;

/// Entries, and their bytes, in a batch.
const BATCH: (usize, u64) = (64, 256 << 10);
/// Batches that wait for a thread.
const QUEUE: usize = 8;

/// The names that work which is still to be done creates or needs.
struct Affected {
    /// The path of the directory in which it is done.
    dir: Vec<u8>,
    /// The names in it on which it depends, by [`number_of`].
    names: Vec<u64>,
}

impl Affected {
    /// Whether it is in a directory, or below it.
    fn is_at_or_below(&self, dir: &[u8]) -> bool {
        self.dir == dir || relative(&self.dir, dir).is_some()
    }

    /// Whether it depends on the last name of a path, or on that of a directory above.
    fn has_part_of(&self, path: &[u8]) -> bool {
        let name = relative(path, &self.dir).and_then(|rest| rest.split(|&b| b == b'/').next());
        name.is_some_and(|name| self.names.contains(&number_of(name)))
    }
}

/// The path of something as seen from a directory that it is in or below.
fn relative<'a>(path: &'a [u8], dir: &[u8]) -> Option<&'a [u8]> {
    match path.strip_prefix(dir)? {
        rest if dir.is_empty() => Some(rest),
        [b'/', rest @ ..] => Some(rest),
        _ => None,
    }
}

/// A number that all names have that can be one to a file system that ignores case.
fn number_of(name: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(&name.to_ascii_lowercase());
    hasher.finish()
}

/// Work in one directory.
pub(super) struct Batch {
    here: Arc<Fd>,
    affected: Affected,
    traits: Traits,
    entries: Vec<NewEntry>,
    /// The size of the entries.
    bytes: u64,
    /// What the directory gets after that, and the number of the member at which it was left.
    late: Option<(u64, Box<Late>)>,
}

impl Batch {
    pub(super) fn new(here: Arc<Fd>, dir: Vec<u8>, traits: Traits) -> Batch {
        Batch {
            here,
            affected: Affected {
                dir,
                names: Vec::new(),
            },
            traits,
            entries: Vec::new(),
            bytes: 0,
            late: None,
        }
    }

    pub(super) fn push(&mut self, entry: NewEntry) {
        self.bytes += entry.size();
        self.affected.names.extend(entry.names().map(number_of));
        self.entries.push(entry);
    }

    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= BATCH.0 || self.bytes >= BATCH.1
    }

    /// Whether an entry depends on the last name of a path, or on that of a directory above.
    pub(super) fn has_part_of(&self, path: &[u8]) -> bool {
        self.affected.has_part_of(path)
    }

    /// The directory gets its attributes after the entries.
    pub(super) fn end(&mut self, number: u64, late: Box<Late>) {
        self.late = Some((number, late));
    }
}

impl Maker<'_> {
    /// Does the work of a batch. Failures are warnings.
    pub(super) fn batch(&mut self, batch: Batch) {
        let mut traits = batch.traits;
        for entry in batch.entries {
            let place = OpenDirectory {
                here: &batch.here,
                traits: &mut traits,
            };
            self.remarks.set_member(entry.number);
            if let Err(failure) = self.entry(place, &entry) {
                self.counts.skipped += 1;
                self.failures.add(&entry.path);
                self.remarks.warn(&entry.member.path, failure);
            }
        }
        if let Some((number, late)) = batch.late {
            self.remarks.set_member(number);
            let path = match &batch.affected.dir[..] {
                b"" => b".",
                path => path,
            };
            late.give(&batch.here, path, &mut self.remarks);
        }
    }
}

/// The threads, and what was passed to them.
pub(super) struct Workers<'a> {
    threads: Vec<Worker<'a>>,
    done: Arc<Done>,
    /// Batches that may not be done.
    passed: Vec<Passed>,
    /// How many there may be: each holds its directory open.
    most: usize,
}

struct Worker<'a> {
    queue: SyncSender<Batch>,
    handle: ScopedJoinHandle<'a, (Counts, Remarks)>,
    /// Batches that were passed to it.
    sent: u64,
}

/// A batch that was passed on.
struct Passed {
    thread: usize,
    /// The number of batches of the thread, this one included.
    turn: u64,
    affected: Affected,
}

/// How many batches each thread has done.
#[derive(Default)]
struct Done {
    batches: Mutex<Vec<u64>>,
    changed: Condvar,
}

impl<'a> Workers<'a> {
    /// Starts threads; fewer if there is no room for them, or the system refuses.
    pub(super) fn start<'env>(
        scope: &'a Scope<'a, 'env>,
        count: usize,
        room: Room,
        maker: impl Fn() -> Maker<'a>,
    ) -> Workers<'a> {
        let count = count.min(room.threads);
        let done = Arc::new(Done {
            batches: Mutex::new(vec![0; count]),
            changed: Condvar::default(),
        });
        let mut threads = Vec::new();
        for index in 0..count {
            let (queue, batches) = sync_channel(QUEUE);
            let (maker, done) = (maker(), Arc::clone(&done));
            let thread = Builder::new().name("restore".to_owned());
            let Ok(handle) =
                spawn_scoped(scope, thread, move || run(maker, &batches, &done, index))
            else {
                break;
            };
            threads.push(Worker {
                queue,
                handle,
                sent: 0,
            });
        }
        Workers {
            threads,
            done,
            passed: Vec::new(),
            most: room.batches,
        }
    }

    /// Whether there are none, so that all is done by the reader.
    pub(super) fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// Passes a batch on: to the thread that has others of this directory, or to the one with the fewest.
    pub(super) fn send(&mut self, mut batch: Batch) {
        let done = self.wait_for_room();
        let same = self
            .passed
            .iter()
            .find(|passed| passed.affected.dir == batch.affected.dir);
        let waiting = |(index, worker): &(usize, &Worker<'_>)| {
            worker.sent - done.get(*index).unwrap_or(&0).min(&worker.sent)
        };
        let thread = same.map(|passed| passed.thread).or_else(|| {
            let threads = self.threads.iter().enumerate();
            threads.min_by_key(waiting).map(|(index, _)| index)
        });
        let Some((thread, worker)) =
            thread.and_then(|index| Some((index, self.threads.get_mut(index)?)))
        else {
            return;
        };
        worker.sent += 1;
        self.passed.push(Passed {
            thread,
            turn: worker.sent,
            affected: Affected {
                dir: batch.affected.dir.clone(),
                names: std::mem::take(&mut batch.affected.names),
            },
        });
        // The thread ends before its queue does only if it panics, and then so does `join`.
        let _ = worker.queue.send(batch);
    }

    /// Waits until another batch may be passed on. Returns how many batches each thread has done.
    fn wait_for_room(&mut self) -> Vec<u64> {
        let mut done = self.done.batches.lock();
        loop {
            self.passed.retain(|passed| !passed.is_done(&done));
            if self.passed.len() < self.most {
                return done.clone();
            }
            done = self.done.changed.wait(done);
        }
    }

    /// Waits until nothing is left to do for a path, for the directories above it, and below it.
    pub(super) fn wait_for(&mut self, path: &[u8]) {
        self.wait(|passed| {
            passed.affected.is_at_or_below(path) || passed.affected.has_part_of(path)
        });
    }

    /// Waits until nothing is left to do in a directory and below it.
    pub(super) fn wait_for_below(&mut self, dir: &[u8]) {
        self.wait(|passed| passed.affected.is_at_or_below(dir));
    }

    fn wait(&mut self, which: impl Fn(&Passed) -> bool) {
        if !self.passed.iter().any(&which) {
            return;
        }
        let mut done = self.done.batches.lock();
        loop {
            self.passed.retain(|passed| !passed.is_done(&done));
            if !self.passed.iter().any(&which) {
                return;
            }
            done = self.done.changed.wait(done);
        }
    }

    /// Waits until all is done, and ends the threads.
    pub(super) fn end(&mut self) -> Vec<(Counts, Remarks)> {
        let ended = self.threads.drain(..).map(|worker| {
            drop(worker.queue);
            worker.handle.join()
        });
        ended
            .map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    }
}

impl Passed {
    fn is_done(&self, done: &[u64]) -> bool {
        done.get(self.thread).is_none_or(|&done| done >= self.turn)
    }
}

/// Lets nobody wait for a thread that has panicked.
struct Ending<'a>(&'a Done, usize);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.set(self.1, |_| u64::MAX);
    }
}

impl Done {
    fn set(&self, thread: usize, batches: impl Fn(u64) -> u64) {
        if let Some(count) = self.batches.lock().get_mut(thread) {
            *count = batches(*count);
        }
        self.changed.notify_all();
    }
}

fn run(
    mut maker: Maker<'_>,
    batches: &Receiver<Batch>,
    done: &Done,
    index: usize,
) -> (Counts, Remarks) {
    let _ending = Ending(done, index);
    while let Ok(batch) = batches.recv() {
        maker.batch(batch);
        done.set(index, |count| count + 1);
    }
    (maker.counts, maker.remarks)
}
