//! Locks. restic removes data only under an exclusive lock, which it cannot get while there is
//! another one; the engine knows no locks. So a lock that is not exclusive is held while a snapshot is
//! made (`internal/repository/lock_file.go`).

use std::ffi::CString;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use aes256ctr_poly1305aes::aead::AeadInPlace;
use aes256ctr_poly1305aes::{Aes256CtrPoly1305Aes, Key};
use gate::clock::time_of_day;
use gate::file::Held;
use gate::fs::{At, Open, Want};
use gate::long::{c_string, open_long, statx_long};
use gate::{Errno, Fd};
use jiff::Timestamp;
use rand::Rng;
use rustic_core::repofile::MasterKey;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use zstd::stream::decode_all;

use crate::error::{Error, Locker};
use crate::repository::{LocalRepository, hex, names, read_file};

/// A lock that is older is stale, if nobody has renewed it.
const STALE: Duration = Duration::from_secs(30 * 60);
/// How often our own is renewed.
const RENEWED: Duration = Duration::from_secs(5 * 60);
/// An exclusive lock that was made at the same time appears within this time.
const SETTLING: Duration = Duration::from_millis(200);
/// The first byte of a file that is compressed with zstd, in repositories of version 2.
const COMPRESSED: u8 = 2;
const NONCE: usize = 16;
const TAG: usize = 16;

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
    renewal: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Lock {
    /// Locks a repository, but not for this process alone.
    ///
    /// # Errors
    /// Another process has locked it for itself; or the lock cannot be written.
    pub(crate) fn acquire(
        repository: &LocalRepository,
        key: &MasterKey,
        owner: Owner,
    ) -> Result<Lock, Error> {
        let place = LockPlace::new(repository, key, owner)?;
        place.check_others()?;
        let mut held = place.write()?;
        sleep(SETTLING);
        place.check_others()?;
        let (sender, ended) = channel();
        let renew = move || {
            while ended.recv_timeout(RENEWED) == Err(RecvTimeoutError::Timeout) {
                // The old lock holds for 25 more minutes.
                if let Ok(renewed) = place.write() {
                    held = renewed;
                }
            }
            drop(held);
        };
        Ok(Lock {
            renewal: Some((sender, spawn(renew))),
        })
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
    cipher: Aes256CtrPoly1305Aes,
    owner: Owner,
}

impl LockPlace {
    fn new(repository: &LocalRepository, key: &MasterKey, owner: Owner) -> Result<Self, Error> {
        let path = repository.below("locks");
        let opened = open_long(&path, Open::DIRECTORY);
        let dir = opened.map_err(|errno| Error::File {
            action: "cannot open",
            path: path.clone(),
            errno,
        })?;
        let mut all = Key::default();
        let parts = [&key.encrypt[..], &key.mac.k, &key.mac.r].concat();
        if parts.len() != all.len() {
            return Err(Error::WrongPassword);
        }
        all.copy_from_slice(&parts);
        let cipher = Aes256CtrPoly1305Aes::new(&all);
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
        let mut sealed = vec![0; NONCE];
        rand::rng().fill_bytes(&mut sealed);
        let nonce = *aes256ctr_poly1305aes::Nonce::from_slice(&sealed);
        sealed.extend_from_slice(lock.to_string().as_bytes());
        let tag = self
            .cipher
            .encrypt_in_place_detached(&nonce, &[], &mut sealed[NONCE..]);
        let made = tag.map_err(|_| Errno::EINVAL).and_then(|tag| {
            sealed.extend_from_slice(&tag);
            Held::create(&self.dir, &name_of(&sealed)?, &sealed)
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
        let tag = sealed.split_off(sealed.len().checked_sub(TAG)?);
        let nonce = *aes256ctr_poly1305aes::Nonce::from_slice(sealed.get(..NONCE)?);
        let tag = aes256ctr_poly1305aes::Tag::from_slice(&tag);
        let bytes = &mut sealed[NONCE..];
        let opened = self
            .cipher
            .decrypt_in_place_detached(&nonce, &[], bytes, tag);
        opened.ok()?;
        match bytes {
            [COMPRESSED, bytes @ ..] => serde_json::from_slice(&decode_all(&bytes[..]).ok()?).ok(),
            _ => serde_json::from_slice(bytes).ok(),
        }
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

/// The name of a file in a repository: the SHA-256 of its contents.
fn name_of(bytes: &[u8]) -> Result<CString, Errno> {
    let hash = Sha256::digest(bytes);
    c_string(hex(&hash).as_bytes())
}

fn now() -> Timestamp {
    Timestamp::from_microsecond(time_of_day() as i64).unwrap_or_default()
}
