//! Snapshots in restic repositories, of a tree that `archive` has collected, in versions 1 and 2 of the format, which restic's
//! `doc/design.rst` describes.
//!
//! | module | contents |
//! |---|---|
//! | `snapshot` | makes a snapshot: opens the repository, locks it, and archives |
//! | `options` | how a repository is opened, and what a snapshot records about itself |
//! | `snapshot_file` | the files of snapshots, and the last one of the same host and paths |
//! | `report` | what a snapshot was, and what it took |
//! | `layout` | where the SRCs are in the snapshot, and the directories above them |
//! | `archiver`, `queue` | archives a tree by several threads |
//! | `parent` | the trees of the last snapshot: what need not be read |
//! | `trees` | the trees of the next snapshot |
//! | `node`, `text`, `times` | an entry in a tree, byte for byte as restic writes it |
//! | `contents`, `chunker` | the contents of files, and where they are cut into blobs |
//! | `blobs`, `seal`, `packer` | blobs are compressed, encrypted, and written in packs, which are listed in index files |
//! | `index`, `id` | the blobs that a repository has |
//! | `cache` | files of a repository on a server that were read or written before |
//! | `repository` | the files of a repository, wherever it is |
//! | `sftp` | the files of a repository on a host that ssh reaches |
//! | `local` | reads and writes local files and directories |
//! | `file_type` | the types of files, and where they are |
//! | `key` | the keys of a repository, and the password |
//! | `config` | the configuration of a repository |
//! | `lock` | locks that restic respects, and the locks of others |
//! | `connection` | requests of SFTP, by the standard streams of ssh |
//! | `error` | why there is no snapshot |
//!
//! The crate is empty without its feature `restic`.
#![cfg(feature = "restic")]
#![forbid(unsafe_code)]

mod archiver;
mod blobs;
mod cache;
mod chunker;
mod config;
mod connection;
mod contents;
mod error;
mod id;
mod index;
mod key;
mod layout;
mod local;
mod lock;
mod node;
mod options;
mod packer;
mod parent;
mod report;
mod repository;
mod repository_file;
mod seal;
mod sftp;
mod snapshot;
mod snapshot_file;
mod text;
mod times;
mod trees;

pub use error::{Action, Error, LockLoss, Locker};
pub use layout::distinct_sources;
pub use node::DeviceIds;
pub use options::{OnSilence, RepositoryOptions, RetryLock, SnapshotOptions};
pub use report::Snapshot;
pub use repository::{host_of_plain_password, without_password};
pub use snapshot::{LastSnapshot, Repository};
pub use snapshot_file::SnapshotSummary;
