//! What became of a known inode.

use crate::entry::Meta;

/// The present state of a known inode.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum InodeState {
    /// It has no name any more.
    Deleted,
    /// It has this metadata.
    Present(Meta),
    /// It must be looked at by its name: it is changing, or the engine does not return all metadata.
    Unknown,
}

/// An inode that differs, by its number.
pub(super) type Differing = (u64, InodeState);
