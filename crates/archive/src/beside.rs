//! Work that is done beside other work, in a thread of its own. Where none can be begun (`ulimit -u`, or pids.max of a cgroup) it is
//! done at once, by whoever asked for it.

use std::sync::{Arc, Mutex};
use std::thread::{Builder, Result, Scope, ScopedJoinHandle};

/// What it comes to.
pub(crate) enum Beside<'scope, T> {
    Begun(ScopedJoinHandle<'scope, Option<T>>),
    Done(Option<T>),
}

/// Begins it. It must not wait for what is done after it.
pub(crate) fn beside<'scope, T, F>(scope: &'scope Scope<'scope, '_>, work: F) -> Beside<'scope, T>
where
    T: Send + 'scope,
    F: FnOnce() -> T + Send + 'scope,
{
    // What could not be begun does not come back: so whoever comes to it takes it.
    let work = Arc::new(Mutex::new(Some(work)));
    let take = |work: &Mutex<Option<F>>| work.lock().unwrap_or_else(|e| e.into_inner()).take();
    let its = Arc::clone(&work);
    let begun = Builder::new().spawn_scoped(scope, move || {
        let done = take(&its).map(|work| work());
        gate::meter::hand_in();
        done
    });
    match begun {
        Ok(thread) => Beside::Begun(thread),
        Err(_) => Beside::Done(take(&work).map(|work| work())),
    }
}

impl<T> Beside<'_, T> {
    /// Waits for it. As with a thread, the error is what it panicked with.
    pub(crate) fn join(self) -> Result<T> {
        let done = match self {
            Beside::Begun(thread) => thread.join()?,
            Beside::Done(done) => done,
        };
        done.ok_or_else(|| Box::new("it was not done") as _)
    }
}
