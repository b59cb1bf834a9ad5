//! Work in other threads; in the calling thread where none can be started (`ulimit -u`, or pids.max
//! of a cgroup).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::{Builder, Result, Scope, ScopedJoinHandle};

use gate::meter::spawn_scoped;
use gate::sync::Mutex;

/// Work that was given to a thread.
pub(crate) struct Task<'scope, T, F> {
    thread: Option<ScopedJoinHandle<'scope, Option<T>>>,
    /// The work until it begins: a closure does not come back from a thread that cannot be started.
    work: Arc<Mutex<Option<F>>>,
}

/// Starts work in a thread. Where none can be started, [`Task::join`] does the work.
pub(crate) fn spawn<'scope, T, F>(scope: &'scope Scope<'scope, '_>, work: F) -> Task<'scope, T, F>
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
    /// Waits for the result. As with a thread, the error is what it panicked with.
    pub(crate) fn join(self) -> Result<T> {
        let done = match self.thread {
            Some(thread) => thread.join()?,
            None => run(&self.work),
        };
        done.ok_or_else(|| Box::new("the work was not done") as _)
    }
}

/// Does two things at once.
pub(crate) fn both<A, B: Send>(
    here: impl FnOnce() -> A,
    there: impl FnOnce() -> B + Send,
) -> (A, B) {
    std::thread::scope(|scope| {
        let there = spawn(scope, there);
        let here = here();
        let there = there.join();
        (here, there.unwrap_or_else(|e| std::panic::resume_unwind(e)))
    })
}

/// Reads each of `count` things, several at once, and passes the results to `take` one at a time,
/// in any order. After an error, nothing more is read.
pub(crate) fn each<T, E: Send>(
    count: usize,
    read: impl Fn(usize) -> std::result::Result<T, E> + Sync,
    take: impl FnMut(usize, T) + Send,
) -> std::result::Result<(), E> {
    /// More threads do not help: the data is in the page cache, or all wait for the disk.
    const MOST: usize = 4;
    let (next, taken) = (AtomicUsize::new(0), Mutex::new((take, None)));
    let work = || {
        loop {
            let nth = next.fetch_add(1, Relaxed);
            if nth >= count {
                return;
            }
            let read = read(nth);
            let (take, failed) = &mut *taken.lock();
            match read {
                Ok(read) => take(nth, read),
                Err(error) => {
                    next.store(count, Relaxed);
                    failed.get_or_insert(error);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..gate::machine::processors().min(MOST).min(count) {
            spawn(scope, work);
        }
        work();
    });
    let (_, failed) = taken.into_inner();
    failed.map_or(Ok(()), Err)
}
/// Runs `work` on pieces of two slices of the same length, each piece in a thread, the first in
/// this one. `work` gets the place at which its piece begins. Fewer items than `worth` are not worth
/// a thread.
pub(crate) fn in_pieces<A: Send, B: Send, T: Send>(
    (a, b): (&mut [A], &mut [B]),
    worth: usize,
    work: impl Fn(u32, &mut [A], &mut [B]) -> T + Sync,
) -> Vec<T> {
    /// More threads do not help.
    const MOST: usize = 4;
    let threads = gate::machine::processors().clamp(1, MOST);
    let size = a.len().div_ceil(threads).max(worth);
    let pieces = a.chunks_mut(size).zip(b.chunks_mut(size)).enumerate();
    let work = &work;
    std::thread::scope(|scope| {
        let mut works = pieces.map(|(nth, (a, b))| move || work((nth * size) as u32, a, b));
        let own = works.next();
        let others: Vec<_> = works.map(|work| spawn(scope, work)).collect();
        let mut done: Vec<T> = own.into_iter().map(|mut work| work()).collect();
        for other in others {
            done.push(
                other
                    .join()
                    .unwrap_or_else(|e| std::panic::resume_unwind(e)),
            );
        }
        done
    })
}
