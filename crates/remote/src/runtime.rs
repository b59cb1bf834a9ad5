//! The thread that makes all requests, and what it does when a signal ends the program.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use catalog::StoreError;
use gate::interrupt::{self, Guard};
use tokio::runtime::{Builder, Handle};
use tokio::task::AbortHandle;

/// A thread with a current-thread runtime. It ends with the process.
#[derive(Debug)]
pub(crate) struct Runtime {
    handle: Handle,
    uploads: Arc<Mutex<Uploads>>,
}

/// Removes the parts of an upload.
type Abort = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The multipart uploads that a signal must not leave behind.
#[derive(Default)]
struct Uploads {
    aborts: BTreeMap<String, Abort>,
    /// Requests on their way.
    tasks: Vec<AbortHandle>,
    /// While there are uploads, signals that end the program are only recorded.
    guard: Option<Guard>,
    is_watched: bool,
}

impl std::fmt::Debug for Uploads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.aborts.keys()).finish()
    }
}

/// The result of a task that the thread works on. Dropping it cancels the task.
#[derive(Debug)]
pub(crate) struct Pending<T> {
    result: Receiver<Result<T, StoreError>>,
    task: AbortHandle,
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<T> Pending<T> {
    /// Waits for the result.
    pub(crate) fn wait(self) -> Result<T, StoreError> {
        let stopped = |_| StoreError::Other("the request was not finished".to_owned());
        let result = self.result.recv().map_err(stopped).flatten();
        stop_if_interrupted();
        result
    }

    /// Waits until the task has ended, or the time has come.
    pub(crate) fn settle(self, until: Instant) {
        let left = until.saturating_duration_since(Instant::now());
        let _ = self.result.recv_timeout(left);
    }
}

/// How long an error or a signal waits for the store to remove what was uploaded.
pub(crate) const ABORT: Duration = Duration::from_secs(10);

/// How long requests may take that are on their way when an upload is aborted. The store may keep a part
/// that arrives after that.
pub(crate) const SETTLE: Duration = Duration::from_secs(3);

/// After a signal that ends the program, does not return before that, so that nothing is begun and no
/// error is reported that comes from the abort.
fn stop_if_interrupted() {
    while interrupt::asked().is_some() {
        thread::sleep(Duration::from_millis(100));
    }
}

impl Runtime {
    pub(crate) fn start() -> Result<Runtime, StoreError> {
        let failed = |e: std::io::Error| StoreError::Other(e.to_string());
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let handle = runtime.handle().clone();
        thread::Builder::new()
            .name("requests".to_owned())
            .spawn(move || {
                // The program ends by SIGPIPE when its standard output is closed; a connection that is closed
                // is only an error.
                gate::process::block_sigpipe();
                runtime.block_on(std::future::pending::<()>());
            })
            .map_err(failed)?;
        Ok(Runtime {
            handle,
            uploads: Arc::default(),
        })
    }

    /// Starts a task.
    pub(crate) fn start_task<T: Send + 'static>(
        &self,
        task: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Pending<T> {
        stop_if_interrupted();
        let (sender, receiver) = sync_channel(1);
        let task = self.handle.spawn(async move {
            let _ = sender.send(task.await);
        });
        let task = task.abort_handle();
        let mut uploads = lock(&self.uploads);
        uploads.tasks.retain(|task| !task.is_finished());
        uploads.tasks.push(task.clone());
        Pending {
            result: receiver,
            task,
        }
    }

    /// Runs a task that cleans up: also after a signal that is about to end the program, which then waits for some seconds.
    pub(crate) fn clean_up(
        &self,
        task: impl Future<Output = Result<(), StoreError>> + Send + 'static,
    ) -> Result<(), StoreError> {
        let (sender, receiver) = sync_channel(1);
        self.handle.spawn(async move {
            let _ = sender.send(task.await);
        });
        let mut end = None;
        loop {
            if end.is_none() && interrupt::asked().is_some() {
                end = Some(Instant::now() + ABORT);
            }
            match receiver.recv_timeout(Duration::from_millis(100)) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Timeout) if end.is_none_or(|end| Instant::now() < end) => {}
                Err(_) => return Err(StoreError::NoConnection("no answer".to_owned())),
            }
        }
    }

    /// Has SIGINT, SIGTERM and SIGHUP abort an upload before they end the program, until it is
    /// [settled](Runtime::is_settled). A second signal ends the program at once.
    pub(crate) fn abort_on_signal(&self, id: &str, abort: Abort) {
        let mut uploads = lock(&self.uploads);
        uploads.guard.get_or_insert_with(interrupt::hold);
        uploads.aborts.insert(id.to_owned(), abort);
        if !std::mem::replace(&mut uploads.is_watched, true) {
            self.handle.spawn(watch(Arc::clone(&self.uploads)));
        }
    }

    /// An upload is complete, or was aborted. After the last one a recorded signal is raised.
    pub(crate) fn is_settled(&self, id: &str) {
        let mut uploads = lock(&self.uploads);
        uploads.aborts.remove(id);
        if uploads.aborts.is_empty() {
            uploads.guard = None;
        }
    }
}

fn lock(uploads: &Mutex<Uploads>) -> MutexGuard<'_, Uploads> {
    uploads.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a signal, then for the requests on their way, aborts all uploads, and raises the signal again.
async fn watch(uploads: Arc<Mutex<Uploads>>) {
    const PERIOD: Duration = Duration::from_millis(50);
    loop {
        tokio::time::sleep(PERIOD).await;
        if interrupt::asked().is_none() {
            continue;
        }
        let (tasks, aborts) = {
            let mut uploads = lock(&uploads);
            (
                std::mem::take(&mut uploads.tasks),
                std::mem::take(&mut uploads.aborts),
            )
        };
        let until = Instant::now() + SETTLE;
        while tasks.iter().any(|task| !task.is_finished()) && Instant::now() < until {
            tokio::time::sleep(PERIOD).await;
        }
        tasks.iter().for_each(AbortHandle::abort);
        for (_, abort) in aborts {
            let _ = tokio::time::timeout(ABORT, abort).await;
        }
        // Dropping the guard raises the signal.
        lock(&uploads).guard = None;
    }
}
