//! Locks. restic removes data only under an exclusive lock, which it cannot get while there is
//! another one; the engine knows no locks. So a lock that is not exclusive is held while a snapshot is
//! made (`internal/repository/lock_file.go`).

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use gate::clock::time_of_day;
use gate::file::Held;
use gate::fs::{At, Open, Want};
use gate::long::{c_string, open_long, statx_long};
use gate::{Errno, Fd};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::error::{Error, Locker};
use crate::id::Id;
use crate::repository::{LocalRepository, names, read_file};
use crate::seal::Cipher;

/// A lock that is older is stale, if nobody has renewed it.
const STALE: Duration = Duration::from_secs(30 * 60);
/// How often our own is renewed.
const RENEWED: Duration = Duration::from_secs(5 * 60);
/// An exclusive lock that was made at the same time appears within this time.
const SETTLING: Duration = Duration::from_millis(200);

/// Who locks a repository.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    pub(crate) host: String,
    pub(crate) user: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// A lock of a repository, until it is dropped or a signal ends the process.
pub(crate) struct Lock {
    place: Arc<LockPlace>,
    made: Instant,
    renewal: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Lock {
    /// Locks a repository, but not for this process alone. Before anything is written, the lock must be [settled](Lock::settle).
    ///
    /// # Errors
    /// Another process has locked it for itself; or the lock cannot be written.
    pub(crate) fn acquire(
        repository: &LocalRepository,
        cipher: Arc<Cipher>,
        owner: Owner,
    ) -> Result<Lock, Error> {
        let place = Arc::new(LockPlace::new(repository, cipher, owner)?);
        place.check_others()?;
        let mut held = place.write()?;
        let made = Instant::now();
        let (sender, ended) = channel();
        let again = place.clone();
        let renew = move || {
            while ended.recv_timeout(RENEWED) == Err(RecvTimeoutError::Timeout) {
                // The old lock holds for 25 more minutes.
                if let Ok(renewed) = again.write() {
                    held = renewed;
                }
            }
            drop(held);
        };
        Ok(Lock {
            place,
            made,
            renewal: Some((sender, spawn(renew))),
        })
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
        if let Some((sender, thread)) = self.renewal.take() {
            drop(sender);
            let _ = thread.join();
        }
    }
}

/// The directory of the locks of a repository.
struct LockPlace {
    dir: Fd,
    path: Vec<u8>,
    cipher: Arc<Cipher>,
    owner: Owner,
}

impl LockPlace {
    fn new(repository: &LocalRepository, cipher: Arc<Cipher>, owner: Owner) -> Result<Self, Error> {
        let path = repository.below("locks");
        let opened = open_long(&path, Open::DIRECTORY);
        let dir = opened.map_err(|errno| Error::File {
            action: "cannot open",
            path: path.clone(),
            errno,
        })?;
        Ok(LockPlace {
            dir,
            path,
            cipher,
            owner,
        })
    }

    /// Writes a lock. It disappears when it is dropped, and when a signal ends the process.
    fn write(&self) -> Result<Held, Error> {
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
        let made = sealed.and_then(|sealed| {
            let name = Id::of(&sealed).to_string();
            Held::create(&self.dir, &c_string(name.as_bytes())?, &sealed)
        });
        made.map_err(|errno| Error::File {
            action: "cannot write a lock into",
            path: self.path.clone(),
            errno,
        })
    }

    /// Fails if another process has locked the repository for itself. A lock that cannot be read may
    /// be being written or removed; it does not count.
    fn check_others(&self) -> Result<(), Error> {
        let listed = open_long(&self.path, Open::DIRECTORY).and_then(|dir| names(&dir));
        let listed = listed.map_err(|errno| Error::File {
            action: "cannot list",
            path: self.path.clone(),
            errno,
        })?;
        for name in listed {
            let path = [&self.path, &b"/"[..], name.as_bytes()].concat();
            let lock = read_file(&path, None)
                .ok()
                .and_then(|bytes| self.parse(bytes));
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
