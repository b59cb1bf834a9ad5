//! Where every byte of a file system is: what df(1) reports as used, item by item, and what can be freed.
//!
//! | module | contents |
//! |---|---|
//! | [`bill`] | the items and their sums |
//! | [`view`](mod@view) | the mount through which the file system is seen, and its copy without the mounts on it |
//! | [`source`] | a mount, its copy, and what the mounts on it cover |
//! | [`files`] | the files by directory, owner and age, and those beneath mounts: a sink of `walk` |
//! | [`caches`] | directories whose contents can be freed by a command |
//! | [`deleted`] | files that are deleted, but that processes hold open |
//! | [`ext4`] | the tables, the journal and the reserve of ext4 |
//! | [`xfs`] | who owns the blocks of XFS |
//! | [`btrfs`] | block groups, extents and subvolumes of btrfs |
#![forbid(unsafe_code)]

pub mod bill;
mod btrfs;
pub mod caches;
mod deleted;
mod error;
mod ext4;
mod files;
mod source;
mod view;
mod xfs;

pub use bill::{AgeSums, Bill, Holder, Item, Kind, OwnerSums, Part, Remedy, Unit};
pub use error::{Error, WarningKind};
pub use view::View;
