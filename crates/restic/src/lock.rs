//! Locks. restic removes data only under an exclusive lock, which it cannot get while there is
//! another one; the engine knows no locks. So a lock that is not exclusive is held while a snapshot is
//! made (`internal/repository/lock_file.go`).

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use gate::clock::time_of_day;
use gate::fs::{At, Want};
use gate::long::statx_long;
use gate::sync::Mutex;
use gate::{Errno, interrupt};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::error::{Action, Error, Locker};
use crate::id::Id;
use crate::repository::{Fault, HeldFile, RepositoryFiles};
use crate::seal::Cipher;

/// The directory of the locks.
const DIR: &str = "locks";

/// A lock that was not renewed for so long is stale.
const STALE: Duration = Duration::from_secs(30 * 60);
/// How often our own is renewed.
const RENEWED: Duration = Duration::from_secs(5 * 60);
/// How often the holder of a lock looks for a signal that waits for its removal.
const SIGNALS: Duration = Duration::from_millis(100);
/// An exclusive lock that was made at the same time appears within this time.
const SETTLING: Duration = Duration::from_millis(200);

/// The process that locks a repository.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    pub(crate) host: String,
    pub(crate) user: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// A lock of a repository, until it is dropped or a signal ends the process.
pub(crate) struct Lock {
    place: Arc<RepositoryLocks>,
    made: Instant,
    renewal: Option<Task>,
    removal: Option<Task>,
}

/// A thread that works until the sender is dropped.
type Task = (Sender<()>, JoinHandle<()>);

fn start(work: impl FnOnce(Receiver<()>) + Send + 'static) -> Option<Task> {
    let (sender, ended) = channel();
    Some((sender, spawn(move || work(ended))))
}

fn end(task: &mut Option<Task>) {
    if let Some((sender, thread)) = task.take() {
        drop(sender);
        let _ = thread.join();
    }
}

impl Lock {
    /// Locks a repository, but not for this process alone. Before anything is written, the lock must be [settled](Lock::settle).
    ///
    /// # Errors
    /// Another process has locked it for itself; or the lock cannot be written.
    pub(crate) fn acquire(
        repository: &Arc<RepositoryFiles>,
        cipher: Arc<Cipher>,
        owner: Owner,
    ) -> Result<Lock, Error> {
        let place = Arc::new(RepositoryLocks {
            files: Arc::clone(repository),
            held: Mutex::default(),
            cipher,
            owner,
        });
        place.check_others()?;
        // Before the lock is written: requests that are made after a signal wait until it ends the process.
        let signals = (!repository.is_local()).then(interrupt::hold);
        let (held, again) = (Arc::clone(&place), Arc::clone(&place));
        let removal = start(move |ended| {
            let is_timeout = |limit| ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
            while is_timeout(SIGNALS) && (signals.is_none() || interrupt::asked().is_none()) {}
            held.remove_all_but(0);
            drop(signals); // raises the signal
        });
        let mut lock = Lock {
            place,
            made: Instant::now(),
            renewal: None,
            removal,
        };
        lock.place.write()?;
        lock.made = Instant::now();
        lock.renewal = start(move |ended| {
            while ended.recv_timeout(RENEWED) == Err(RecvTimeoutError::Timeout) {
                // The old lock holds for 25 more minutes.
                if again.write().is_ok() {
                    again.remove_all_but(1);
                }
            }
        });
        Ok(lock)
    }

    /// Waits until an exclusive lock that was made at the same time has appeared. What was read meanwhile is right if there is
    /// none: its owner saw this lock and gave up.
    ///
    /// # Errors
    /// Another process has locked the repository for itself.
    pub(crate) fn settle(&self) -> Result<(), Error> {
        sleep(SETTLING.saturating_sub(self.made.elapsed()));
        self.place.check_others()
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        end(&mut self.renewal);
        end(&mut self.removal);
    }
}

/// The locks of a repository.
struct RepositoryLocks {
    files: Arc<RepositoryFiles>,
    /// Our own: one, or two while it is renewed.
    held: Mutex<Vec<HeldFile>>,
    cipher: Arc<Cipher>,
    owner: Owner,
}

impl RepositoryLocks {
    /// Removes our oldest locks.
    fn remove_all_but(&self, left: usize) {
        let mut held = self.held.lock();
        let last = held.len().saturating_sub(left);
        let old: Vec<HeldFile> = held.drain(..last).collect();
        drop(held);
        drop(old);
    }

    /// Writes a lock. It disappears when it is removed, and when a signal ends the process.
    fn write(&self) -> Result<(), Error> {
        let lock = json!({
            "time": now().to_string(),
            "exclusive": false,
            "hostname": self.owner.host,
            "username": self.owner.user,
            "pid": std::process::id(),
            "uid": self.owner.uid,
            "gid": self.owner.gid,
        });
        let sealed = self.cipher.seal_file(lock.to_string().as_bytes(), None);
        let made = sealed.map_err(Fault::Errno).and_then(|sealed| {
            let path = format!("{DIR}/{}", Id::hash(&sealed));
            self.files.hold_file(&path, &sealed, &self.held)
        });
        made.map_err(|fault| self.files.error_at(Action::Lock, DIR, fault))
    }

    /// Fails if another process has locked the repository for itself. A lock that cannot be read may
    /// be being written or removed; it does not count.
    fn check_others(&self) -> Result<(), Error> {
        let listed = self.files.list_dir(DIR);
        let listed = listed.map_err(|fault| self.files.error_at(Action::List, DIR, fault))?;
        for (name, _) in listed {
            let lock = self.files.read_part(&format!("{DIR}/{name}"), None);
            let lock = lock.ok().and_then(|bytes| self.parse(bytes.to_vec()));
            let Some(lock) = lock.filter(|lock| lock["exclusive"] == true) else {
                continue;
            };
            let text = |field: &str| lock[field].as_str().unwrap_or("").to_owned();
            let locker = Locker {
                pid: lock["pid"].as_u64().unwrap_or(0),
                user: text("username"),
                host: text("hostname"),
                since: text("time"),
            };
            if !self.is_stale(&locker) {
                return Err(Error::Locked(locker));
            }
        }
        Ok(())
    }

    fn parse(&self, mut sealed: Vec<u8>) -> Option<Value> {
        serde_json::from_slice(&self.cipher.open_file(&mut sealed)?).ok()
    }

    /// Whether nobody holds a lock any more: it was not renewed in time, or its process on this host
    /// has ended.
    fn is_stale(&self, locker: &Locker) -> bool {
        let age = locker.since.parse::<Timestamp>().map(|since| {
            let age = now().as_second() - since.as_second();
            age > STALE.as_secs() as i64
        });
        let proc = |name: &str| statx_long(name.as_bytes(), At::empty(), Want::TYPE);
        let has_ended = || {
            proc("/proc/self").is_ok()
                && proc(&format!("/proc/{}", locker.pid)).err() == Some(Errno::ENOENT)
        };
        age.unwrap_or(false) || (locker.host == self.owner.host && has_ended())
    }
}

fn now() -> Timestamp {
    Timestamp::from_microsecond(time_of_day() as i64).unwrap_or_default()
}
