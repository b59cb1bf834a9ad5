//! Threads that create directory entries while the archive is read.
//!
//! The reader creates and opens directories, and passes their entries on in batches. All pending
//! batches of a directory go to the same thread, so that entries are created in archive order, and
//! the directory's times are set last. Where order matters otherwise (a directory that replaces a
//! file, a hard link into a different directory, renames of an increment), the reader waits for the
//! batches concerned.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use base::path::or_dot;
use gate::Fd;
use gate::meter::spawn_scoped;
use gate::sync::{Condvar, Mutex};

use super::attributes::DeferredAttributes;
use super::entry::{DirectoryDefaults, NewEntry, OpenDirectory};
use super::maker::Maker;
use super::report::{Counts, RestoreMessages};
use super::room::DescriptorShares;
use crate::list::{is_within, relative};

/// Maximum number of entries in a batch, and of their bytes.
const BATCH: (usize, u64) = (64, 256 << 10);
/// Maximum number of batches queued per thread.
const QUEUE: usize = 8;

/// The names that a pending batch creates or depends on.
struct BatchNames {
    /// Path of the batch's directory.
    dir: Vec<u8>,
    /// Hashes of names in the directory, by [`number_of`].
    names: Vec<u64>,
}

impl BatchNames {
    /// Whether the batch's directory is `dir`, or below it.
    fn is_at_or_below(&self, dir: &[u8]) -> bool {
        is_within(&self.dir, dir)
    }

    /// Whether the batch affects a component of a path: the path itself or one of its ancestors.
    fn has_part_of(&self, path: &[u8]) -> bool {
        let name = relative(path, &self.dir).and_then(|rest| rest.split(|&b| b == b'/').next());
        name.is_some_and(|name| self.names.contains(&number_of(name)))
    }
}

/// A hash that is equal for names that a case-insensitive file system may treat as equal.
fn number_of(name: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(&name.to_ascii_lowercase());
    hasher.finish()
}

/// A batch of entries to create in one directory.
pub(super) struct Batch {
    here: Arc<Fd>,
    affected: BatchNames,
    traits: DirectoryDefaults,
    entries: Vec<NewEntry>,
    /// Total size of the entries.
    bytes: u64,
    /// The directory's deferred attributes, which are set after the entries are created; and a
    /// member number, to sort warnings about these attributes.
    late: Option<(u64, Box<DeferredAttributes>)>,
}

impl Batch {
    pub(super) fn new(here: Arc<Fd>, dir: Vec<u8>, traits: DirectoryDefaults) -> Batch {
        Batch {
            here,
            affected: BatchNames {
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

    /// Whether an entry of the batch affects a path itself or one of its ancestors.
    pub(super) fn has_part_of(&self, path: &[u8]) -> bool {
        self.affected.has_part_of(path)
    }

    /// Ends the batch by setting the directory's deferred attributes.
    pub(super) fn end(&mut self, number: u64, late: Box<DeferredAttributes>) {
        self.late = Some((number, late));
    }
}

impl Maker<'_> {
    /// Creates the entries of a batch. Failures become warnings.
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
                self.failures.add(&entry.path, entry.is_replacement);
                self.remarks.warn(&entry.member.path, failure);
            }
        }
        if let Some((number, late)) = batch.late {
            self.remarks.set_member(number);
            let path = or_dot(&batch.affected.dir);
            late.set_deferred(&batch.here, path, &mut self.remarks);
        }
    }
}

/// The worker threads, and the batches passed to them.
pub(super) struct Workers<'a> {
    threads: Vec<Worker<'a>>,
    done: Arc<CompletedBatches>,
    /// Batches passed to threads, and possibly not done yet.
    passed: Vec<PendingBatch>,
    /// Maximum number of pending batches, since each keeps its directory open.
    most: usize,
}

struct Worker<'a> {
    queue: SyncSender<Batch>,
    handle: ScopedJoinHandle<'a, (Counts, RestoreMessages)>,
    /// Number of batches sent to this thread.
    sent: u64,
}

/// A batch passed to a thread.
struct PendingBatch {
    thread: usize,
    /// Index of the batch among those of its thread, from 1.
    turn: u64,
    affected: BatchNames,
}

/// Number of batches that each thread has done.
#[derive(Default)]
struct CompletedBatches {
    batches: Mutex<Vec<u64>>,
    changed: Condvar,
}

impl<'a> Workers<'a> {
    /// Starts threads; fewer if descriptors are short, or if the system refuses.
    pub(super) fn start<'env>(
        scope: &'a Scope<'a, 'env>,
        count: usize,
        room: DescriptorShares,
        maker: impl Fn() -> Maker<'a>,
    ) -> Workers<'a> {
        let count = count.min(room.threads);
        let done = Arc::new(CompletedBatches {
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

    /// Whether there are no threads, so that the reader does all the work.
    pub(super) fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// Passes a batch to the thread that has pending batches of the same directory, or else to the
    /// least loaded one.
    pub(super) fn send(&mut self, mut batch: Batch) {
        let most = self.most;
        let done = self.wait_until(|passed| passed.len() < most);
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
        self.passed.push(PendingBatch {
            thread,
            turn: worker.sent,
            affected: BatchNames {
                dir: batch.affected.dir.clone(),
                names: std::mem::take(&mut batch.affected.names),
            },
        });
        // Sending fails only if the thread has panicked, and then `end` panics, too.
        let _ = worker.queue.send(batch);
    }

    /// Waits until the pending batches satisfy a condition. Returns the number of batches done by
    /// each thread.
    fn wait_until(&mut self, is_met: impl Fn(&[PendingBatch]) -> bool) -> Vec<u64> {
        let mut done = self.done.batches.lock();
        loop {
            self.passed.retain(|passed| !passed.is_done(&done));
            if is_met(&self.passed) {
                return done.clone();
            }
            done = self.done.changed.wait(done);
        }
    }

    /// Waits for all batches that affect a path, its ancestors, or entries below it.
    pub(super) fn wait_for(&mut self, path: &[u8]) {
        self.wait(|passed| {
            passed.affected.is_at_or_below(path) || passed.affected.has_part_of(path)
        });
    }

    /// Waits for all batches in a directory or below it.
    pub(super) fn wait_for_below(&mut self, dir: &[u8]) {
        self.wait(|passed| passed.affected.is_at_or_below(dir));
    }

    fn wait(&mut self, which: impl Fn(&PendingBatch) -> bool) {
        if self.passed.iter().any(&which) {
            self.wait_until(|passed| !passed.iter().any(&which));
        }
    }

    /// Waits for all batches, and joins the threads.
    pub(super) fn end(&mut self) -> Vec<(Counts, RestoreMessages)> {
        let ended = self.threads.drain(..).map(|worker| {
            drop(worker.queue);
            worker.handle.join()
        });
        ended
            .map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    }
}

impl PendingBatch {
    fn is_done(&self, done: &[u64]) -> bool {
        done.get(self.thread).is_none_or(|&done| done >= self.turn)
    }
}

/// Marks all batches of a thread as done on drop, so that nobody waits for a panicked thread.
struct DoneOnDrop<'a>(&'a CompletedBatches, usize);

impl Drop for DoneOnDrop<'_> {
    fn drop(&mut self) {
        self.0.set(self.1, |_| u64::MAX);
    }
}

impl CompletedBatches {
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
    done: &CompletedBatches,
    index: usize,
) -> (Counts, RestoreMessages) {
    let _ending = DoneOnDrop(done, index);
    while let Ok(batch) = batches.recv() {
        maker.batch(batch);
        done.set(index, |count| count + 1);
    }
    (maker.counts, maker.remarks)
}
