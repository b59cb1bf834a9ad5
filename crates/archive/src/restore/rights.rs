//! The permissions of the user who restores.

use gate::create::umask;
use ondisk::pax::Member;

use super::attributes::SET_ID;

/// Permissions that a directory's owner needs to create entries in it.
pub(super) const ALL: u32 = 0o700;

/// Which attributes in an archive are restored, besides names, contents and times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RestoredAttributes {
    /// Owners and groups; otherwise all files belong to the restoring user.
    pub owners: bool,
    /// Set-user-ID, set-group-ID and sticky bits, access control lists, and permissions outside the
    /// umask.
    pub permissions: bool,
    /// Block and character devices.
    pub devices: bool,
    /// Extended attributes, including capabilities and access control lists.
    pub xattrs: bool,
}

impl Default for RestoredAttributes {
    fn default() -> RestoredAttributes {
        RestoredAttributes {
            owners: true,
            permissions: true,
            devices: true,
            xattrs: true,
        }
    }
}

/// Identity and rights of the user who restores.
#[derive(Clone, Copy)]
pub(super) struct RestoringUser {
    pub(super) kept: RestoredAttributes,
    pub(super) is_root: bool,
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// Permissions of a directory that is not in the archive.
    pub(super) plain_directory: u32,
}

impl RestoringUser {
    /// Reads the rights of this process, and sets the umask to 0, so that members are created with
    /// their final permissions.
    pub(super) fn take(kept: RestoredAttributes) -> RestoringUser {
        let umask = umask(0);
        let (uid, gid) = gate::process::ids();
        RestoringUser {
            kept,
            is_root: gate::process::is_root(),
            uid,
            gid,
            plain_directory: 0o777 & !umask,
        }
    }

    /// The mode to set for a member. Without its original owner, a program gets no set-user-ID
    /// bits, since it would run as a different user.
    pub(super) fn mode(&self, member: &Member) -> u32 {
        let is_same = member.uid == self.uid && member.gid == self.gid;
        let is_owned = self.kept.owners && (is_same || self.is_root);
        let kept = match (self.kept.permissions, is_owned) {
            (false, _) => self.plain_directory,
            (true, false) => 0o7777 & !SET_ID,
            (true, true) => 0o7777,
        };
        member.mode & kept
    }
}
