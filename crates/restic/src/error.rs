//! Why there is no snapshot.

use std::time::Duration;

use catalog::StoreError;
use gate::Errno;

/// Why there is no snapshot.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no repository in this place.
    #[error("there is no restic repository")]
    NoRepository,
    /// The repository cannot be decrypted with the password.
    #[error("wrong password")]
    WrongPassword,
    /// The file of a key is malformed, or asks for more memory or time than that of any program.
    #[error("the key '{0}' cannot be used")]
    BadKey(String),
    /// Another process has locked the repository for itself.
    #[error("locked by {0}")]
    Locked(Locker),
    /// A lock cannot be read: it may be that of a process that has locked the repository for itself.
    #[error("the lock '{0}' cannot be read")]
    UnreadableLock(String),
    /// The lock of this process was not held all the time, so that data may have been removed.
    #[error("{0}, so that another process may have removed data")]
    LockLost(LockLoss),
    /// Whether the lock was held is not known, or it was not, when the snapshot had its name already; and it cannot be removed.
    #[error("{why}; the snapshot {id} was written before, and cannot be removed: {error}")]
    UnsafeSnapshot {
        /// The id of the snapshot.
        id: String,
        /// What is wrong with the lock.
        why: Box<Error>,
        /// Why the snapshot cannot be removed.
        error: Box<Error>,
    },
    /// A SRC lies below another one, which does not contain it.
    #[error("'{}' lies below another SRC, but was skipped there", String::from_utf8_lossy(.0))]
    Nested(Vec<u8>),
    /// Two SRCs have the same path in the snapshot, or that of one contains the other.
    #[error("'{}' and '{}' have the same path in a snapshot", String::from_utf8_lossy(.0), String::from_utf8_lossy(.1))]
    SamePath(Vec<u8>, Vec<u8>),
    /// A SRC has no absolute path.
    #[error("'{}' has no absolute path", String::from_utf8_lossy(.0))]
    NoPath(Vec<u8>),
    /// A file of the repository cannot be read or written.
    #[error("{action} '{}': {errno}", String::from_utf8_lossy(.path))]
    File {
        /// What was being done.
        action: Action,
        /// The file.
        path: Vec<u8>,
        /// The error.
        errno: Errno,
    },
    /// The location has a scheme that is not supported.
    #[error("'{0}:' is not supported")]
    Scheme(String),
    /// The location of a repository that is no local directory is not UTF-8, or malformed.
    #[error("the location is malformed")]
    Location,
    /// A file of a repository that is no local directory cannot be read or written.
    #[error("{action} '{path}': {error}")]
    Remote {
        /// What was being done.
        action: Action,
        /// The file, by its path in the repository.
        path: String,
        /// The error.
        error: StoreError,
    },
    /// The configuration cannot be decrypted with the key, or parsed.
    #[error("the configuration of the repository is damaged")]
    BadConfig,
    /// The format has a version that is not supported.
    #[error("repository version `{0}` not supported")]
    Version(u32),
    /// The repository has no data: it is the hot one of two, as rustic makes them.
    #[error("the hot part of a repository is not supported")]
    HotRepository,
    /// The rules by which files are cut into blobs are not supported.
    #[error("the chunker parameters of the repository are not supported")]
    Chunking,
}

/// What was being done when an error occurred.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each one means")]
pub enum Action {
    #[error("cannot open")]
    Open,
    #[error("cannot list")]
    List,
    #[error("cannot read")]
    Read,
    #[error("cannot write")]
    Write,
    #[error("cannot remove")]
    Remove,
    #[error("cannot write a lock into")]
    Lock,
    #[error("cannot use the damaged index file")]
    UseIndex,
    #[error("cannot compress")]
    Compress,
    #[error("cannot encrypt")]
    Encrypt,
    #[error("found a hardware error when encrypting")]
    VerifyEncrypted,
}

/// What has happened to the lock of this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LockLoss {
    /// Another process has removed it.
    #[error("the lock of this process was removed meanwhile")]
    Removed,
    /// It was not renewed for so long that others may remove it.
    #[error("the lock of this process was not renewed for {} minutes", .0.as_secs() / 60)]
    Stale(Duration),
}

/// A process that has locked a repository.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("process {pid} of {user} on {host}, since {since}")]
pub struct Locker {
    /// The process.
    pub pid: u64,
    /// The name of its user.
    pub user: String,
    /// The name of its host.
    pub host: String,
    /// When the lock was last renewed.
    pub since: String,
}

impl Error {
    /// The error number, if a system call failed.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Error::File { errno, .. } => Some(*errno),
            _ => None,
        }
    }
}
