//! What is known of directories from before: as long as one bears the same times, nothing has been added to it, taken out of it, or
//! renamed in it, and its names need not be read again.

use std::fmt::Debug;

use crate::entry::Meta;

/// The names that were in directories when these were looked at last.
pub trait Known: Debug + Sync {
    /// The directory that a [hash](crate::Dir::hash) stands for, by a number, if anything is known of it.
    fn find(&self, hash: u64) -> Option<u32>;

    /// Tells of each name in it: the name, the inode number, and whether it is a directory. All of them or, if by what is seen `now`
    /// it may be another one or have changed since, none; and which of the two it is.
    fn names(&self, directory: u32, now: &Meta, each: &mut dyn FnMut(&[u8], u64, bool)) -> bool;
}
