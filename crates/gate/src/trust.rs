//! Who owns a file, and which other users may change it.

use std::ffi::CStr;

use crate::fs::Statx;
use crate::process::ids;
use crate::{Errno, Result};

/// Whether a file has an access control list, given the result of reading its attribute [`ACL`].
pub fn has_acl(read: Result<()>) -> bool {
    !matches!(read, Err(Errno::ENODATA | Errno::EOPNOTSUPP))
}

/// The extended attribute with the access control list of a file.
pub const ACL: &CStr = c"system.posix_acl_access";

const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;

impl Statx {
    /// Whether the file belongs to the user of this process, or to root.
    pub fn is_ours(&self) -> bool {
        [0, ids().0].contains(&self.uid)
    }

    /// Whether users other than that of this process and root may write to the file, or change
    /// names in the directory, by its owner or its mode. The group bits include permissions of
    /// access control lists. A group with the same number as the owner is private to the owner (as
    /// with umask 002), if this process is also in it; then `acl` tells whether there is an access
    /// control list.
    pub fn others_may_write(&self, acl: impl FnOnce() -> bool) -> bool {
        let group_is_owner = self.gid == self.uid && [0, ids().1].contains(&self.gid);
        !self.is_ours()
            || self.mode & OTHERS_WRITE != 0
            || self.mode & GROUP_WRITES != 0 && (!group_is_owner || acl())
    }
}
