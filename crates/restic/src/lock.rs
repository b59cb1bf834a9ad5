//! Locks. restic removes data only under an exclusive lock, which it cannot get while any other
//! lock exists. So a non-exclusive lock is held while a snapshot is made
//! (`internal/repository/lock_file.go`), and the snapshot is discarded if the lock was not held all
//! the time.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use catalog::StoreError;
use gate::clock::{boot_time, time_of_day};
use gate::sync::Mutex;
use gate::{Errno, interrupt};
use serde_json::{Value, json};

use crate::error::{Action, Error, LockLoss, Locker};
use crate::id::Id;
use crate::options::RetryLock;
use crate::repository::{Fault, HeldFile, RepositoryFiles};
use crate::seal::Cipher;
use crate::times::now;

/// The directory of the locks.
const DIR: &str = "locks";

/// The age from which a lock without renewal is stale: `restic unlock` removes it.
const STALE: Duration = Duration::from_secs(30 * 60);
/// The interval of renewing this process's lock; `RENEWED_AGAIN` after a failure.
const RENEWED: Duration = Duration::from_secs(5 * 60);
const RENEWED_AGAIN: Duration = Duration::from_secs(30);
/// The interval of checking for signals while a lock is held: a signal must remove the lock.
const SIGNALS: Duration = Duration::from_millis(100);
/// The time within which an exclusive lock that was created at the same moment becomes visible.
const SETTLING: Duration = Duration::from_millis(200);

/// The process that locks a repository.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    pub(crate) host: String,
    pub(crate) user: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// A lock of a repository, which is removed on drop or when a signal ends the process.
pub(crate) struct Lock {
    place: Arc<RepositoryLocks>,
    made: Instant,
    retry: Mutex<Waiting>,
    renewal: Option<Background>,
    removal: Option<Background>,
}

/// A thread that works until the sender is dropped.
type Background = (Sender<()>, JoinHandle<()>);

fn start(work: impl FnOnce(Receiver<()>) + Send + 'static) -> Option<Background> {
    let (sender, ended) = channel();
    Some((sender, spawn(move || work(ended))))
}

fn end(task: &mut Option<Background>) {
    if let Some((sender, thread)) = task.take() {
        drop(sender);
        let _ = thread.join();
    }
}

impl Lock {
    /// Locks a repository non-exclusively. Before writing anything, call
    /// [`Lock::wait_for_exclusive_locks`].
    ///
    /// # Errors
    /// If another process holds an exclusive lock; or the lock cannot be written.
    pub(crate) fn acquire(
        repository: &Arc<RepositoryFiles>,
        cipher: Arc<Cipher>,
        owner: Owner,
        retry: RetryLock,
    ) -> Result<Lock, Error> {
        let place = Arc::new(RepositoryLocks {
            files: Arc::clone(repository),
            held: Mutex::default(),
            renewed: Mutex::new(LockTime::now()),
            left: Mutex::default(),
            cipher,
            owner,
        });
        let mut retry = Waiting::new(retry);
        retry.until_free(&place)?;
        // Defer signals before writing the lock file: after a signal, requests to a server wait
        // until it ends the process.
        let signals = (!repository.is_local()).then(interrupt::defer_signals);
        let (held, again) = (Arc::clone(&place), Arc::clone(&place));
        let removal = start(move |ended| {
            let is_timeout = |limit| ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
            while is_timeout(SIGNALS)
                && (signals.is_none() || interrupt::pending_signal().is_none())
            {}
            held.remove_all_but(0);
            drop(signals); // dropping raises a held signal
        });
        let mut lock = Lock {
            place,
            made: Instant::now(),
            retry: Mutex::new(retry),
            renewal: None,
            removal,
        };
        *lock.place.renewed.lock() = LockTime::now();
        lock.place.write()?;
        lock.made = Instant::now();
        lock.renewal = start(move |ended| {
            let mut wait = RENEWED;
            while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                wait = match again.renew() {
                    Ok(()) => RENEWED,
                    Err(Error::LockLost(_)) => return,
                    Err(_) => RENEWED_AGAIN,
                };
            }
        });
        Ok(lock)
    }

    /// Waits until an exclusive lock that was created at the same time has become visible. If there
    /// is none, data read meanwhile is valid, because the exclusive locker saw this lock and gave
    /// up.
    ///
    /// # Errors
    /// If another process holds an exclusive lock.
    pub(crate) fn wait_for_exclusive_locks(&self) -> Result<(), Error> {
        sleep(SETTLING.saturating_sub(self.made.elapsed()));
        self.retry.lock().until_free(&self.place)
    }

    /// Checks that the lock exists and was never stale.
    ///
    /// # Errors
    /// If the lock was removed or was stale, so that others could remove it; or the locks cannot be
    /// listed.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let renewed = self.place.renewed.lock();
        self.place.check_held(*renewed)
    }

    /// Removes the lock. Returns why one of its files is left behind.
    pub(crate) fn release(mut self) -> Option<Error> {
        end(&mut self.renewal);
        end(&mut self.removal);
        self.place.left.lock().take()
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        end(&mut self.renewal);
        end(&mut self.removal);
    }
}

/// A time by two clocks: the wall clock, which locks use and which can be set; and a clock that
/// includes suspend.
#[derive(Clone, Copy, Debug)]
struct LockTime {
    wall: Duration,
    boot: Duration,
}

impl LockTime {
    fn now() -> LockTime {
        LockTime {
            wall: Duration::from_micros(time_of_day()),
            boot: Duration::from_nanos(boot_time()),
        }
    }

    /// The larger of both clocks' differences: what another process may consider the age of a lock.
    fn elapsed(self, now: LockTime) -> Duration {
        let wall = now.wall.saturating_sub(self.wall);
        wall.max(now.boot.saturating_sub(self.boot))
    }
}

/// Waits for another process, with growing pauses like restic.
struct Waiting {
    retry: RetryLock,
    pause: Duration,
    begun: Option<Instant>,
}

impl Waiting {
    fn new(retry: RetryLock) -> Waiting {
        Waiting {
            retry,
            pause: Duration::from_secs(5),
            begun: None,
        }
    }

    /// Waits until no other process holds an exclusive lock.
    fn until_free(&mut self, place: &RepositoryLocks) -> Result<(), Error> {
        const LONGEST: Duration = Duration::from_secs(60);
        loop {
            let locked = match place.check_others() {
                Err(error @ Error::Locked(_)) => error,
                other => return other,
            };
            let waited = self.begun.map_or(Duration::ZERO, |begun| begun.elapsed());
            let left = self.retry.most.saturating_sub(waited);
            if left.is_zero() {
                return Err(locked);
            }
            if self.begun.is_none()
                && let Some(on_wait) = self.retry.on_wait
            {
                on_wait(&locked, self.retry.most);
            }
            self.begun.get_or_insert_with(Instant::now);
            sleep(self.pause.min(left));
            self.pause = (self.pause * 2).min(LONGEST);
        }
    }
}

/// The locks of a repository.
struct RepositoryLocks {
    files: Arc<RepositoryFiles>,
    /// This process's lock files: one, or two during renewal.
    held: Mutex<Vec<HeldFile>>,
    /// The time of the last renewal. Its mutex is held during renewal.
    renewed: Mutex<LockTime>,
    /// Why a lock file of this process could not be removed.
    left: Mutex<Option<Error>>,
    cipher: Arc<Cipher>,
    owner: Owner,
}

impl RepositoryLocks {
    /// Removes the lock files of this process, except the `left` newest ones.
    fn remove_all_but(&self, left: usize) {
        let mut held = self.held.lock();
        let last = held.len().saturating_sub(left);
        let old: Vec<HeldFile> = held.drain(..last).collect();
        drop(held);
        let failed = old.into_iter().filter_map(|file| file.remove().err());
        if let Some(error) = failed.last() {
            *self.left.lock() = Some(error);
        }
    }

    /// Writes a lock file. It is removed on drop, and when a signal ends the process.
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

    /// Renews the lock: writes a new file before the old one is removed, so that a lock file exists
    /// at each moment.
    ///
    /// # Errors
    /// If the lock is [lost](Error::LockLost), which is final; or the new file cannot be written.
    fn renew(&self) -> Result<(), Error> {
        let mut renewed = self.renewed.lock();
        let (began, count) = (LockTime::now(), self.held.lock().len());
        self.check_held(*renewed)?;
        let made = self.write().and_then(|()| self.check_held(*renewed));
        if made.is_err() {
            // Remove the new file even after an error: the server may have created it without a
            // response.
            let new = self.held.lock().split_off(count);
            drop(new);
            return made;
        }
        *renewed = began;
        drop(renewed);
        self.remove_all_but(1);
        Ok(())
    }

    /// Checks that this process's oldest lock file, written at `written`, exists and was never
    /// stale.
    fn check_held(&self, written: LockTime) -> Result<(), Error> {
        let listed = self.list()?;
        // Read the clock after the response of the server, which may have taken long.
        let age = written.elapsed(LockTime::now());
        let held = self.held.lock();
        let is_there = |own: &HeldFile| listed.iter().any(|(name, _)| own.is_named(name));
        let lost = match held.first() {
            _ if age > STALE => Some(LockLoss::Stale(age)),
            Some(own) if is_there(own) => None,
            _ => Some(LockLoss::Removed),
        };
        match lost {
            None => Ok(()),
            Some(loss) => {
                self.files.stop_writing(loss);
                Err(Error::LockLost(loss))
            }
        }
    }

    fn list(&self) -> Result<Vec<(String, u64)>, Error> {
        let listed = self.files.list_dir(DIR);
        listed.map_err(|fault| self.files.error_at(Action::List, DIR, fault))
    }

    /// Fails if another process holds an exclusive lock. Whether that process is alive cannot be
    /// known: it may be in a container, and its clock may be wrong; only `restic unlock` decides.
    /// An unreadable lock may be exclusive, or may be about to be removed, so it is read again.
    fn check_others(&self) -> Result<(), Error> {
        const TRIES: u32 = 4;
        let mut pause = Duration::from_millis(100);
        for _ in 1..TRIES {
            match self.check_others_once() {
                Err(Error::UnreadableLock { .. } | Error::Remote { .. } | Error::File { .. }) => {}
                other => return other,
            }
            sleep(pause);
            pause *= 2;
        }
        self.check_others_once()
    }

    fn check_others_once(&self) -> Result<(), Error> {
        for (name, size) in self.list()? {
            // An interrupted program leaves an empty file where writes are not atomic, and others
            // leave files with names of their own; restic skips both, too.
            if size == 0
                || Id::parse(name.as_bytes()).is_none()
                || self.held.lock().iter().any(|own| own.is_named(&name))
            {
                continue;
            }
            let path = format!("{DIR}/{name}");
            let lock = match self.files.read_part(&path, None) {
                Ok(bytes) => self.parse(bytes.to_vec()),
                // The lock was removed meanwhile.
                Err(Fault::Errno(Errno::ENOENT) | Fault::Store(StoreError::NotFound)) => continue,
                Err(fault) => return Err(self.files.error_at(Action::Read, &path, fault)),
            };
            let lock = lock.ok_or(Error::UnreadableLock(path))?;
            if lock["exclusive"] != true {
                continue;
            }
            let text = |field: &str| lock[field].as_str().unwrap_or("").to_owned();
            return Err(Error::Locked(Locker {
                pid: lock["pid"].as_u64().unwrap_or(0),
                user: text("username"),
                host: text("hostname"),
                since: text("time"),
            }));
        }
        Ok(())
    }

    fn parse(&self, mut sealed: Vec<u8>) -> Option<Value> {
        serde_json::from_slice(&self.cipher.open_file(&mut sealed)?).ok()
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the tests look past the gate")]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt;

    use super::*;
    use crate::options::RepositoryOptions;
    use crate::repository_file::RepositoryFile;
    use crate::seal::tests::cipher;

    /// The locks of a repository, with one of this process.
    fn locked(dir: &std::path::Path) -> RepositoryLocks {
        fs::write(dir.join("config"), "config").unwrap();
        let location = dir.as_os_str().as_bytes();
        let (files, _) = RepositoryFiles::open(location, &RepositoryOptions::default()).unwrap();
        let locks = RepositoryLocks {
            files: Arc::new(files),
            held: Mutex::default(),
            renewed: Mutex::new(LockTime::now()),
            left: Mutex::default(),
            cipher: Arc::new(cipher()),
            owner: Owner {
                host: "here".to_owned(),
                user: "me".to_owned(),
                uid: 1,
                gid: 1,
            },
        };
        locks.write().unwrap();
        locks
    }

    fn names(dir: &std::path::Path) -> Vec<std::ffi::OsString> {
        let entries = fs::read_dir(dir.join("locks")).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn a_lock_is_renewed_while_it_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let locks = locked(dir.path());
        let first = names(dir.path());
        locks.renew().unwrap();
        let second = names(dir.path());
        assert_eq!((first.len(), second.len()), (1, 1));
        assert_ne!(first, second);
        assert!(locks.check_others().is_ok());
        fs::remove_file(dir.path().join("locks").join(&second[0])).unwrap();
        let lost = locks.renew();
        assert!(matches!(lost, Err(Error::LockLost(LockLoss::Removed))));
        assert!(names(dir.path()).is_empty());
        // After the loss of the lock, nothing more is written.
        let written = locks.files.write(RepositoryFile::Index, Vec::new());
        assert!(matches!(written, Err(Error::LockLost(_))));
    }

    #[test]
    fn a_lock_that_was_stale_is_lost_although_it_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let locks = locked(dir.path());
        let now = LockTime::now();
        *locks.renewed.lock() = LockTime {
            wall: now.wall.saturating_sub(STALE + Duration::from_secs(60)),
            ..now
        };
        let lost = locks.renew();
        assert!(matches!(lost, Err(Error::LockLost(LockLoss::Stale(_)))));
        assert_eq!(names(dir.path()).len(), 1);
    }

    #[test]
    fn the_age_of_a_lock_is_that_of_the_faster_clock() {
        let moment = |wall, boot| LockTime {
            wall: Duration::from_secs(wall),
            boot: Duration::from_secs(boot),
        };
        let written = moment(1000, 50);
        for (now, age) in [
            (moment(1010, 60), 10),
            // The machine was suspended, and its wall clock was set after that.
            (moment(1010, 2000), 1950),
            // The wall clock was set forward, and back.
            (moment(9000, 60), 8000),
            (moment(10, 60), 10),
        ] {
            assert_eq!(written.elapsed(now), Duration::from_secs(age), "{now:?}");
        }
    }
}
