//! Tasks that several threads do, and that make further tasks. The last one that was added is done first, so that few are
//! waiting: the directories that are begun are those above one another.

use gate::sync::{Condvar, Mutex};

use crate::error::Error;

/// Tasks to be done.
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    /// There is a task, or nothing more will come.
    ready: Condvar,
}

struct State<T> {
    waiting: Vec<T>,
    /// Tasks that are waiting or being done.
    left: usize,
    /// A task has failed, or a thread has panicked: nothing more is done.
    is_stopped: bool,
    error: Option<Error>,
}

/// A task that is being done.
struct Running<'a, T>(&'a Queue<T>);

impl<T> Queue<T> {
    pub(crate) fn new() -> Queue<T> {
        Queue {
            state: Mutex::new(State {
                waiting: Vec::new(),
                left: 0,
                is_stopped: false,
                error: None,
            }),
            ready: Condvar::default(),
        }
    }

    pub(crate) fn push(&self, task: T) {
        let mut state = self.state.lock();
        state.waiting.push(task);
        state.left += 1;
        self.ready.notify_one();
    }

    /// Does tasks until there are no more, or one fails. Other threads do the same.
    pub(crate) fn work(&self, mut with: impl FnMut(T) -> Result<(), Error>) {
        while let Some(task) = self.next() {
            let _running = Running(self);
            if let Err(error) = with(task) {
                let mut state = self.state.lock();
                state.is_stopped = true;
                state.error.get_or_insert(error);
            }
        }
    }

    /// The first error.
    pub(crate) fn into_result(self) -> Result<(), Error> {
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

impl<T> Drop for Running<'_, T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.left -= 1;
        state.is_stopped |= std::thread::panicking();
        if state.left == 0 || state.is_stopped {
            self.0.ready.notify_all();
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

    fn run(queue: &Queue<u64>, with: impl Fn(u64) -> Result<(), Error> + Sync) {
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
            3 => Err(Error::WrongPassword),
            _ => Ok(()),
        });
        assert!(matches!(queue.into_result(), Err(Error::WrongPassword)));
    }
}
