//! Where every byte of a file system is: what df(1) reports as used, by item, and what can be freed.
//!
//! | module | contents |
//! |---|---|
//! | [`bill`] | the items and their sums |
//! | `view` | the mount through which the file system is read, and its copy without the mounts on it |
//! | `source` | a mount, its copy, and the paths that mounts on it cover |
//! | `files` | the files by directory, owner and age, and those beneath mounts: a sink of `walk` |
//! | [`caches`] | directories whose contents a command can free |
//! | `deleted` | deleted files that processes hold open |
//! | `loop_images` | deleted files that loop devices hold open |
//! | `ext4` | metadata, journal and reserve of ext4 |
//! | `xfs` | the owners of the blocks of XFS |
//! | `btrfs` | block groups, extents and subvolumes of btrfs |
#![forbid(unsafe_code)]

pub mod bill;
mod btrfs;
pub mod caches;
mod deleted;
mod error;
mod ext4;
mod files;
mod loop_images;
mod source;
mod view;
mod xfs;

pub use bill::{
    AgeSums, Bill, Holder, InodeSums, Item, ItemKind, ItemPart, OwnerSums, Remedy, Unit,
};
pub use error::{Error, WarningKind};
pub use view::{ExaminedMount, read_capacity};
