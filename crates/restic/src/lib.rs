//! Snapshots in restic repositories, of a tree that `archive` has collected, in versions 1 and 2 of
//! the format, which restic's `doc/design.rst` describes.
//!
//! | module | contents |
//! |---|---|
//! | `snapshot` | makes a snapshot: opens the repository, locks it, and archives |
//! | `options` | options of opening a repository, and the metadata of a snapshot |
//! | `snapshot_file` | the files of snapshots, and the last one of the same host and paths |
//! | `report` | the report on a snapshot |
//! | `layout` | the paths of SRCs in the snapshot, and the directories above them |
//! | `archiver`, `queue` | archives a tree by several threads |
//! | `parent` | the trees of the last snapshot, by which unchanged files are found |
//! | `trees` | the trees of the next snapshot |
//! | `node`, `text`, `times` | an entry in a tree, byte for byte as restic writes it |
//! | `contents`, `chunker` | the contents of files, and their division into blobs |
//! | `blobs`, `seal`, `packer` | compresses and encrypts blobs, and writes packs and index files |
//! | `index`, `id` | the blobs of a repository |
//! | `cache` | the local cache of a remote repository's files |
//! | `repository` | the files of a repository, local or remote |
//! | `sftp` | the files of a repository on an SSH host |
//! | `local` | reads and writes local files and directories |
//! | `repository_file` | the types of repository files, and their directories |
//! | `key` | the keys of a repository, and the password |
//! | `config` | the configuration of a repository |
//! | `lock` | the lock of this process, and checks for the locks of others |
//! | `connection` | SFTP requests, through the standard streams of ssh |
//! | `error` | why a snapshot could not be made |
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
