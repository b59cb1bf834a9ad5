//! Options of opening a repository, and the metadata of a snapshot.

use std::time::Duration;

use jiff::tz::TimeZone;

use crate::error::Error;
use crate::node::DeviceIds;

/// Waiting for a process that holds an exclusive lock.
#[derive(Clone, Copy, Debug, Default)]
pub struct RetryLock {
    /// Maximum time to wait.
    pub most: Duration,
    /// Called with the holder of the lock when waiting begins.
    pub on_wait: Option<fn(&Error, Duration)>,
}

/// The metadata and options of a snapshot.
#[derive(Clone, Debug, Default)]
pub struct SnapshotOptions {
    /// The tags of the snapshot.
    pub tags: Vec<String>,
    /// The name of the host.
    pub host: String,
    /// The name and version of the program, which the snapshot records.
    pub program: String,
    /// The number of threads; `None` for the default.
    pub threads: Option<usize>,
}

/// Options of opening and writing a repository.
#[derive(Clone, Debug, Default)]
pub struct RepositoryOptions {
    /// The password of the repository.
    pub password: Vec<u8>,
    /// The name of this host, recorded in the lock.
    pub host: String,
    /// The directory of the caches of remote repositories.
    pub caches: Option<Vec<u8>>,
    /// The id of the key to try first, or a prefix of it.
    pub key_hint: String,
    /// The zstd level, 0 for no compression.
    pub compression: Option<i32>,
    /// The size of data packs in MiB.
    pub pack_size: Option<u32>,
    /// The nodes that contain the device number.
    pub device_ids: DeviceIds,
    /// The local time zone; `None` for UTC.
    pub zone: Option<TimeZone>,
    /// Waiting for a process that holds an exclusive lock.
    pub retry: RetryLock,
    /// Dry run: nothing is written, not even a lock.
    pub is_dry: bool,
    /// Called with the host's name and the time since the last packet while a host does not answer.
    pub on_silence: Option<OnSilence>,
}

/// A callback for a host that does not answer: its name, and for how long.
pub type OnSilence = fn(&str, Duration);
