//! The present state of a known inode, in a comparison by inodes alone.

use crate::entry::Meta;

/// The present state of a known inode.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum InodeState {
    /// The inode has been deleted.
    Deleted,
    /// The present metadata of the inode.
    Present(Meta),
    /// The file must be read by name: it is changing, or the engine does not return all metadata.
    Unknown,
}

/// The number of an inode that differs from the known one, and its present state.
pub(super) type Differing = (u64, InodeState);
