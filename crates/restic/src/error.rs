//! Why a snapshot could not be made.

use std::time::Duration;

use catalog::StoreError;
use gate::Errno;

/// Why a snapshot could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The location contains no repository.
    #[error("there is no restic repository")]
    NoRepository,
    /// The password decrypts no key of the repository.
    #[error("wrong password")]
    WrongPassword,
    /// A key file is malformed, or demands more memory or time than any program uses.
    #[error("the key '{0}' cannot be used")]
    BadKey(String),
    /// Another process holds an exclusive lock.
    #[error("locked by {0}")]
    Locked(Locker),
    /// A lock file cannot be read: it may be an exclusive lock.
    #[error("the lock '{0}' cannot be read")]
    UnreadableLock(String),
    /// This process did not hold its lock all the time, so data may have been removed.
    #[error("{0}, so that another process may have removed data")]
    LockLost(LockLoss),
    /// The snapshot was already written when the lock was lost or could not be checked; and the
    /// snapshot cannot be removed.
    #[error("{why}; the snapshot {id} was written before, and cannot be removed: {error}")]
    UnsafeSnapshot {
        /// The id of the snapshot.
        id: String,
        /// The error about the lock.
        why: Box<Error>,
        /// The error of removing the snapshot.
        error: Box<Error>,
    },
    /// A SRC is below another SRC, but was excluded there.
    #[error("'{}' lies below another SRC, but was skipped there", String::from_utf8_lossy(.0))]
    Nested(Vec<u8>),
    /// Two SRCs have the same path in the snapshot, or one path contains the other.
    #[error("'{}' and '{}' have the same path in a snapshot", String::from_utf8_lossy(.0), String::from_utf8_lossy(.1))]
    SamePath(Vec<u8>, Vec<u8>),
    /// The absolute path of a SRC cannot be determined.
    #[error("'{}' has no absolute path", String::from_utf8_lossy(.0))]
    NoPath(Vec<u8>),
    /// A file of the repository cannot be read or written.
    #[error("{action} '{}': {errno}", String::from_utf8_lossy(.path))]
    File {
        /// The failed action.
        action: Action,
        /// The path of the file.
        path: Vec<u8>,
        /// The error number.
        errno: Errno,
    },
    /// The location has a scheme that is not supported.
    #[error("'{0}:' is not supported")]
    Scheme(String),
    /// The location of a remote repository is not UTF-8, or malformed.
    #[error("the location is malformed")]
    Location,
    /// A file of a remote repository cannot be read or written.
    #[error("{action} '{path}': {error}")]
    Remote {
        /// The failed action.
        action: Action,
        /// The path of the file in the repository.
        path: String,
        /// The error of the server or connection.
        error: StoreError,
    },
    /// The configuration cannot be decrypted or parsed.
    #[error("the configuration of the repository is damaged")]
    BadConfig,
    /// The repository has an unsupported format version.
    #[error("repository version `{0}` not supported")]
    Version(u32),
    /// The repository is the hot part of a rustic hot/cold pair, which has no data.
    #[error("the hot part of a repository is not supported")]
    HotRepository,
    /// The chunking parameters are not supported.
    #[error("the chunker parameters of the repository are not supported")]
    Chunking,
}

/// The action that failed.
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

/// How this process lost its lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LockLoss {
    /// Another process removed the lock.
    #[error("the lock of this process was removed meanwhile")]
    Removed,
    /// The lock was not renewed for so long that others may remove it as stale.
    #[error("the lock of this process was not renewed for {} minutes", .0.as_secs() / 60)]
    Stale(Duration),
}

/// A process that has locked a repository.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("process {pid} of {user} on {host}, since {since}")]
pub struct Locker {
    /// The process id.
    pub pid: u64,
    /// The name of the user.
    pub user: String,
    /// The name of the host.
    pub host: String,
    /// When the lock of the repository was last renewed.
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
