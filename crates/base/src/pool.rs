//! Work in threads; in the calling thread if no thread can be started (`ulimit -u`, or pids.max of
//! a cgroup).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::{Builder, Result, Scope, ScopedJoinHandle};

use gate::meter::spawn_scoped;
use gate::sync::{Condvar, Mutex, RwLock};

/// A piece of work for a thread.
pub struct Task<'scope, T, F> {
    thread: Option<ScopedJoinHandle<'scope, Option<T>>>,
    /// The closure until it begins. It is shared with the thread, because a closure cannot be
    /// recovered from a thread that fails to start.
    work: Arc<Mutex<Option<F>>>,
}

/// Starts work in a thread. If no thread can be started, [`Task::join`] does the work.
pub fn spawn<'scope, T, F>(scope: &'scope Scope<'scope, '_>, work: F) -> Task<'scope, T, F>
where
    T: Send + 'scope,
    F: FnOnce() -> T + Send + 'scope,
{
    let work = Arc::new(Mutex::new(Some(work)));
    let shared = Arc::clone(&work);
    let thread = spawn_scoped(scope, Builder::new(), move || run(&shared));
    Task {
        thread: thread.ok(),
        work,
    }
}

fn run<T, F: FnOnce() -> T>(work: &Mutex<Option<F>>) -> Option<T> {
    let work = work.lock().take();
    work.map(|work| work())
}

impl<T, F: FnOnce() -> T> Task<'_, T, F> {
    /// Waits for the result. The error is the value that the work panicked with, as in
    /// [`std::thread::JoinHandle::join`].
    pub fn join(self) -> Result<T> {
        let done = match self.thread {
            Some(thread) => thread.join()?,
            None => run(&self.work),
        };
        done.ok_or_else(|| Box::new("the work was not done") as _)
    }
}

/// Runs two closures in parallel.
pub fn both<A, B: Send>(here: impl FnOnce() -> A, there: impl FnOnce() -> B + Send) -> (A, B) {
    std::thread::scope(|scope| {
        let there = spawn(scope, there);
        let here = here();
        let there = there.join();
        (here, there.unwrap_or_else(|e| std::panic::resume_unwind(e)))
    })
}

/// Runs `work` for each item in a thread of its own, the first in the calling one. Returns the
/// results in the order of the items.
pub fn in_threads<I: Send, T: Send>(
    items: impl IntoIterator<Item = I>,
    work: impl Fn(I) -> T + Sync,
) -> Vec<T> {
    let work = &work;
    std::thread::scope(|scope| {
        let mut items = items.into_iter();
        let own = items.next();
        let others = items.map(|item| spawn(scope, move || work(item)));
        let others: Vec<_> = others.collect();
        let mut done: Vec<T> = own.into_iter().map(work).collect();
        let others = others.into_iter().map(Task::join);
        done.extend(others.map(|other| other.unwrap_or_else(|e| std::panic::resume_unwind(e))));
        done
    })
}

/// Runs `work` for each item in a thread of its own. No thread begins before all are started.
///
/// # Errors
/// A thread cannot be started; then nothing is done.
pub fn together<I: Send, T: Send>(
    items: impl IntoIterator<Item = I>,
    work: impl Fn(I) -> T + Sync,
) -> io::Result<Vec<T>> {
    let (work, are_started) = (&work, &RwLock::new(false));
    std::thread::scope(|scope| {
        let mut held = are_started.write();
        let start = |item| {
            let run = move || {
                let is_begun = *are_started.read();
                is_begun.then(|| work(item))
            };
            spawn_scoped(scope, Builder::new(), run)
        };
        let threads: io::Result<Vec<_>> = items.into_iter().map(start).collect();
        *held = threads.is_ok();
        drop(held);
        let done = threads?.into_iter().map(ScopedJoinHandle::join);
        let done = done.filter_map(|done| done.unwrap_or_else(|e| std::panic::resume_unwind(e)));
        Ok(done.collect())
    })
}

/// Runs `work` for each of `count` items, in any order. `start` starts the threads, and each thread
/// calls the function that `start` gets, with the thread's own state. After an error no further
/// item begins; returns the first error.
pub fn share<S, E: Send>(
    count: usize,
    start: impl FnOnce(&(dyn Fn(S) + Sync)),
    work: impl Fn(&mut S, usize) -> std::result::Result<(), E> + Sync,
) -> std::result::Result<(), E> {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
    start(&|mut state| {
        let _on_panic = OnPanic(|| next.store(count, Relaxed));
        loop {
            let nth = next.fetch_add(1, Relaxed);
            if nth >= count {
                return;
            }
            if let Err(error) = work(&mut state, nth) {
                next.store(count, Relaxed);
                failed.lock().get_or_insert(error);
            }
        }
    });
    failed.into_inner().map_or(Ok(()), Err)
}

/// Runs `work` for each of `count` items in up to `most` threads including the calling one, in any
/// order. After an error no further item begins; returns the first error.
pub fn try_each<E: Send>(
    count: usize,
    most: usize,
    work: impl Fn(usize) -> std::result::Result<(), E> + Sync,
) -> std::result::Result<(), E> {
    let threads = gate::machine::processors().min(most).min(count);
    let start = |run: &(dyn Fn(()) + Sync)| drop(in_threads(0..threads, |_| run(())));
    share(count, start, |(), nth| work(nth))
}

/// Reads each of `count` items, several in parallel, and passes the results to `take` one at a
/// time, in any order. After an error, nothing more is read.
pub fn each<T, E: Send>(
    count: usize,
    read: impl Fn(usize) -> std::result::Result<T, E> + Sync,
    take: impl FnMut(usize, T) + Send,
) -> std::result::Result<(), E> {
    /// More threads do not help: the data is in the page cache, or all threads wait for the disk.
    const MOST: usize = 4;
    let take = Mutex::new(take);
    try_each(count, MOST, |nth| {
        let read = read(nth)?;
        (take.lock())(nth, read);
        Ok(())
    })
}

/// Runs `work` on parts of two slices of equal length, each part in a thread, the first in the
/// calling one. `work` receives the index of the part's first item. A part has at least `worth`
/// items.
pub fn in_pieces<A: Send, B: Send, T: Send>(
    (a, b): (&mut [A], &mut [B]),
    worth: usize,
    work: impl Fn(u32, &mut [A], &mut [B]) -> T + Sync,
) -> Vec<T> {
    /// Maximum number of threads: more did not help.
    const MOST: usize = 4;
    let threads = gate::machine::processors().clamp(1, MOST);
    let size = a.len().div_ceil(threads).max(worth);
    let pieces = a.chunks_mut(size).zip(b.chunks_mut(size)).enumerate();
    in_threads(pieces, |(nth, (a, b))| work((nth * size) as u32, a, b))
}

/// Tasks that several threads execute, and that may add tasks. Last in, first out, so that few
/// tasks wait.
#[derive(Debug)]
pub struct Queue<T, E> {
    state: Mutex<QueueState<T, E>>,
    /// Signals a new task, or the end of all tasks.
    ready: Condvar,
}

#[derive(Debug)]
struct QueueState<T, E> {
    waiting: Vec<T>,
    /// Number of tasks that are waiting or running.
    left: usize,
    /// Whether a task has failed, or a thread has panicked: then no further task begins.
    is_stopped: bool,
    error: Option<E>,
}

/// A running task, which is counted as done on drop.
struct RunningTask<'a, T, E>(&'a Queue<T, E>);

impl<T, E> Queue<T, E> {
    /// An empty queue.
    #[allow(
        clippy::new_without_default,
        reason = "a queue is filled before it is used"
    )]
    pub fn new() -> Queue<T, E> {
        Queue {
            state: Mutex::new(QueueState {
                waiting: Vec::new(),
                left: 0,
                is_stopped: false,
                error: None,
            }),
            ready: Condvar::default(),
        }
    }

    /// Adds a task.
    pub fn push(&self, task: T) {
        let mut state = self.state.lock();
        state.waiting.push(task);
        state.left += 1;
        self.ready.notify_one();
    }

    /// Executes tasks until none is left, or one fails. Several threads call this.
    pub fn work(&self, mut with: impl FnMut(T) -> std::result::Result<(), E>) {
        while let Some(task) = self.next() {
            let _running = RunningTask(self);
            if let Err(error) = with(task) {
                let mut state = self.state.lock();
                state.is_stopped = true;
                state.error.get_or_insert(error);
            }
        }
    }

    /// The first error of a task.
    pub fn into_result(self) -> std::result::Result<(), E> {
        self.state.into_inner().error.map_or(Ok(()), Err)
    }

    fn next(&self) -> Option<T> {
        let mut state = self.state.lock();
        loop {
            if state.is_stopped || state.left == 0 {
                return None;
            }
            if let Some(task) = state.waiting.pop() {
                return Some(task);
            }
            state = self.ready.wait(state);
        }
    }
}

impl<T, E> Drop for RunningTask<'_, T, E> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.left -= 1;
        state.is_stopped |= std::thread::panicking();
        if state.left == 0 || state.is_stopped {
            self.0.ready.notify_all();
        }
    }
}

/// Calls a function if the thread panics while this value is alive, so that other threads do not
/// wait for the panicked thread forever.
pub struct OnPanic<F: Fn()>(pub F);

impl<F: Fn()> Drop for OnPanic<F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            (self.0)();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::disallowed_methods,
        reason = "the tests need no counts of their threads"
    )]
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::thread::scope;

    use super::*;

    fn run(
        queue: &Queue<u64, &'static str>,
        with: impl Fn(u64) -> std::result::Result<(), &'static str> + Sync,
    ) {
        scope(|threads| (0..4).for_each(|_| drop(threads.spawn(|| queue.work(&with)))));
    }

    #[test]
    fn tasks_of_tasks_are_done() {
        let (queue, sum) = (Queue::new(), AtomicU64::new(0));
        queue.push(10);
        run(&queue, |task| {
            sum.fetch_add(1, Relaxed);
            (0..2)
                .filter(|_| task > 0)
                .for_each(|_| queue.push(task - 1));
            Ok(())
        });
        assert_eq!(sum.into_inner(), (1 << 11) - 1);
        assert!(queue.into_result().is_ok());
    }

    #[test]
    fn an_error_stops_all() {
        let queue = Queue::new();
        (0..10).for_each(|task| queue.push(task));
        run(&queue, |task| match task {
            3 => Err("three"),
            _ => Ok(()),
        });
        assert_eq!(queue.into_result(), Err("three"));
    }
}
