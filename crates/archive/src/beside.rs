//! Work that is done beside other work, in a thread of its own. Where none can be begun (`ulimit
//! -u`, or pids.max of a cgroup) it is done by whoever asked for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::{Builder, Result, Scope, ScopedJoinHandle};

use gate::sync::Mutex;

/// Such work, and what it comes to.
pub(crate) struct Beside<'scope, T, F> {
    thread: Option<ScopedJoinHandle<'scope, Option<T>>>,
    /// What could not be begun does not come back: so whoever comes to it takes it from here.
    work: Arc<Mutex<Option<F>>>,
    done: Option<T>,
}

/// Begins it; where that cannot be, does it at once. It must not wait for what is done after it.
pub(crate) fn beside<'scope, T, F>(
    scope: &'scope Scope<'scope, '_>,
    work: F,
) -> Beside<'scope, T, F>
where
    T: Send + 'scope,
    F: FnOnce() -> T + Send + 'scope,
{
    let mut beside = begin(scope, work);
    beside.now();
    beside
}

/// Begins it, if that can be.
pub(crate) fn begin<'scope, T, F>(scope: &'scope Scope<'scope, '_>, work: F) -> Beside<'scope, T, F>
where
    T: Send + 'scope,
    F: FnOnce() -> T + Send + 'scope,
{
    let work = Arc::new(Mutex::new(Some(work)));
    let its = Arc::clone(&work);
    let begun = Builder::new().spawn_scoped(scope, move || {
        let done = take(&its).map(|work| work());
        gate::meter::flush();
        done
    });
    Beside {
        thread: begun.ok(),
        work,
        done: None,
    }
}

fn take<F>(work: &Mutex<Option<F>>) -> Option<F> {
    work.lock().take()
}

impl<T, F: FnOnce() -> T> Beside<'_, T, F> {
    /// Does what could not be begun.
    pub(crate) fn now(&mut self) {
        if self.thread.is_none() && self.done.is_none() {
            self.done = take(&self.work).map(|work| work());
        }
    }

    /// Waits for it, or does it. As with a thread, the error is what it panicked with.
    pub(crate) fn join(mut self) -> Result<T> {
        self.now();
        let done = match self.thread {
            Some(thread) => thread.join()?,
            None => self.done,
        };
        done.ok_or_else(|| Box::new("it was not done") as _)
    }
}

/// Does two things at once.
pub(crate) fn both<A, B: Send>(
    here: impl FnOnce() -> A,
    there: impl FnOnce() -> B + Send,
) -> (A, B) {
    std::thread::scope(|scope| {
        let there = beside(scope, there);
        let here = here();
        (
            here,
            there
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        )
    })
}

/// Reads something of each of so many, several of them at once, and takes one after the other, in
/// any order.
///
/// # Errors
/// Those of `read`: after one, nothing more is read.
pub(crate) fn each<T, E: Send>(
    many: usize,
    read: impl Fn(usize) -> std::result::Result<T, E> + Sync,
    take: impl FnMut(usize, T) + Send,
) -> std::result::Result<(), E> {
    /// So many threads are of use: what they read is in memory already, or the disk is what they
    /// wait for.
    const MOST: usize = 4;
    let (next, taken) = (AtomicUsize::new(0), Mutex::new((take, None)));
    let work = || {
        loop {
            let nth = next.fetch_add(1, Relaxed);
            if nth >= many {
                return;
            }
            let read = read(nth);
            let (take, failed) = &mut *taken.lock();
            match read {
                Ok(read) => take(nth, read),
                Err(error) => {
                    next.store(many, Relaxed);
                    failed.get_or_insert(error);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..gate::machine::processors().min(MOST).min(many) {
            beside(scope, work);
        }
        work();
    });
    let (_, failed) = taken.into_inner();
    failed.map_or(Ok(()), Err)
}
