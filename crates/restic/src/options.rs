//! How a repository is opened, and what a snapshot records about itself.

use std::time::Duration;

use jiff::tz::TimeZone;

use crate::error::Error;
use crate::node::DeviceIds;

/// How long to wait for a process that has locked a repository for itself, and who is told.
#[derive(Clone, Copy, Debug, Default)]
pub struct RetryLock {
    /// How long at most.
    pub most: Duration,
    /// Is told who holds the lock, when the waiting begins.
    pub on_wait: Option<fn(&Error, Duration)>,
}

/// What a snapshot records about itself.
#[derive(Clone, Debug, Default)]
pub struct SnapshotOptions {
    /// Its tags.
    pub tags: Vec<String>,
    /// The name of the host.
    pub host: String,
    /// The program and its version.
    pub program: String,
    /// The number of threads, if it is not the usual one.
    pub threads: Option<usize>,
}

/// How a repository is opened and written.
#[derive(Clone, Debug, Default)]
pub struct RepositoryOptions {
    /// Its password.
    pub password: Vec<u8>,
    /// The name of this host, for the lock.
    pub host: String,
    /// The directory with the caches of repositories that are not local.
    pub caches: Option<Vec<u8>>,
    /// The id of the key to try first, or the beginning of it.
    pub key_hint: String,
    /// The level of zstd, 0 for no compression.
    pub compression: Option<i32>,
    /// The size of packs of data in MiB.
    pub pack_size: Option<u32>,
    /// The nodes that have the number of the device.
    pub device_ids: DeviceIds,
    /// The local time zone; none for UTC.
    pub zone: Option<TimeZone>,
    /// Whether to wait for a process that has locked it for itself.
    pub retry: RetryLock,
    /// Nothing is written, not even a lock.
    pub is_dry: bool,
    /// Is told that a host does not answer, and for how long.
    pub on_silence: Option<OnSilence>,
}

/// What the program does while a host does not answer.
pub type OnSilence = fn(&str, Duration);
