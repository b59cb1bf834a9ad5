//! The thread that makes all requests, and its cleanup when a signal ends the program.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use catalog::StoreError;
use gate::interrupt::{self, Guard};
use gate::sync::Mutex;
use tokio::runtime::{Builder, Handle};
use tokio::task::AbortHandle;

/// A thread with a current-thread runtime, which ends with the process.
#[derive(Debug)]
pub(crate) struct Runtime {
    handle: Handle,
    uploads: Arc<Mutex<Uploads>>,
}

/// A future that removes the parts of an upload.
type Abort = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The multipart uploads that must be aborted on a signal.
#[derive(Default)]
struct Uploads {
    aborts: BTreeMap<String, Abort>,
    /// Handles that cancel the requests in flight.
    tasks: Vec<AbortHandle>,
    /// A guard, present while there are uploads: signals that would end the program are only
    /// recorded.
    guard: Option<Guard>,
    is_watched: bool,
}

impl std::fmt::Debug for Uploads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.aborts.keys()).finish()
    }
}

/// The result of a task on the runtime's thread. Dropping it cancels the task.
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
    pub(crate) fn wait(self) -> Result<T, StoreError> {
        let stopped = |_| StoreError::Other("the request was not finished".to_owned());
        let result = self.result.recv().map_err(stopped).flatten();
        stop_if_interrupted();
        result
    }

    /// Waits until the task has ended, but not longer than `until`.
    pub(crate) fn settle(self, until: Instant) {
        let left = until.saturating_duration_since(Instant::now());
        let _ = self.result.recv_timeout(left);
    }
}

/// How long an error or a signal waits for the store to remove the parts of an upload.
pub(crate) const ABORT: Duration = Duration::from_secs(10);

/// How long to wait for requests in flight when an upload is aborted. The store may keep a part
/// that arrives later.
pub(crate) const SETTLE: Duration = Duration::from_secs(3);

/// After a signal, blocks until the signal ends the program, so that no new task begins and no
/// error of the aborted uploads is reported.
fn stop_if_interrupted() {
    while interrupt::pending_signal().is_some() {
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
                // Writing to a closed standard output must end the program by SIGPIPE; a closed
                // connection is only an error.
                gate::process::block_sigpipe();
                runtime.block_on(std::future::pending::<()>());
            })
            .map_err(failed)?;
        Ok(Runtime {
            handle,
            uploads: Arc::default(),
        })
    }

    /// Starts a task on the runtime's thread.
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
        let mut uploads = self.uploads.lock();
        uploads.tasks.retain(|task| !task.is_finished());
        uploads.tasks.push(task.clone());
        Pending {
            result: receiver,
            task,
        }
    }

    /// Runs a cleanup task, even when a signal is about to end the program. The program then waits
    /// some seconds for the task.
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
            if end.is_none() && interrupt::pending_signal().is_some() {
                end = Some(Instant::now() + ABORT);
            }
            match receiver.recv_timeout(Duration::from_millis(100)) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Timeout) if end.is_none_or(|end| Instant::now() < end) => {}
                Err(_) => return Err(StoreError::NoConnection("no answer".to_owned())),
            }
        }
    }

    /// Makes SIGINT, SIGTERM and SIGHUP abort an upload before they end the program, until it is
    /// [settled](Runtime::is_settled). A second signal ends the program at once.
    pub(crate) fn abort_on_signal(&self, id: &str, abort: Abort) {
        let mut uploads = self.uploads.lock();
        uploads.guard.get_or_insert_with(interrupt::defer_signals);
        uploads.aborts.insert(id.to_owned(), abort);
        if !std::mem::replace(&mut uploads.is_watched, true) {
            self.handle.spawn(watch(Arc::clone(&self.uploads)));
        }
    }

    /// Records that an upload is complete or aborted. After the last upload, raises a recorded
    /// signal.
    pub(crate) fn is_settled(&self, id: &str) {
        let mut uploads = self.uploads.lock();
        uploads.aborts.remove(id);
        if uploads.aborts.is_empty() {
            uploads.guard = None;
        }
    }
}

/// Waits for a signal, then for the requests in flight, aborts all uploads, and raises the signal
/// again.
async fn watch(uploads: Arc<Mutex<Uploads>>) {
    const PERIOD: Duration = Duration::from_millis(50);
    loop {
        tokio::time::sleep(PERIOD).await;
        if interrupt::pending_signal().is_none() {
            continue;
        }
        let (tasks, aborts) = {
            let mut uploads = uploads.lock();
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
        uploads.lock().guard = None;
    }
}
