//! Whether a directory is still the one that a catalog is of.

use crate::catalog::Root;
use crate::part::Part;

/// Why a directory is not the one that a catalog is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OtherRoot {
    /// It is on another file system.
    FileSystem,
    /// It is another directory, at another path.
    Directory,
}

/// Compares a directory with a root of a catalog, and with the part that begins there. A directory
/// with another inode number is the same root if it has the same absolute path: it was restored.
pub(crate) fn check_root(
    root: &Root,
    old: &Part,
    new: &Part,
    absolute: impl FnOnce() -> Option<Vec<u8>>,
) -> Result<(), OtherRoot> {
    let has_same_path = || root.absolute.is_some() && root.absolute == absolute();
    if !old.is_same_file_system(new) {
        Err(OtherRoot::FileSystem)
    } else if old.ino != new.ino && !has_same_path() {
        Err(OtherRoot::Directory)
    } else {
        Ok(())
    }
}
