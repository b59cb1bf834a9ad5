//! Snapshots in restic repositories: of a tree that `archive` has collected, by the engine of rustic
//! (`rustic_core`), which reads and writes restic's format.
//!
//! | module | contents |
//! |---|---|
//! | `snapshot` | makes a snapshot: opens the repository, locks it, and archives |
//! | `source` | the entries of a tree as restic has them, and the contents of files |
//! | `reuse` | directories that keep the trees of the last snapshot |
//! | `node` | the metadata of an entry, as restic writes it |
//! | `repository` | the files of a repository in a local directory |
//! | `lock` | locks that restic respects, and the locks of others |
//! | `error` | why there is no snapshot |
//!
//! The crate is empty without its feature `restic`.
#![cfg(feature = "restic")]
#![forbid(unsafe_code)]

mod error;
mod lock;
mod node;
mod repository;
mod reuse;
mod snapshot;
mod source;

pub use error::{Error, Locker};
pub use snapshot::{Kept, Repository, Snapshot, SnapshotOptions};
