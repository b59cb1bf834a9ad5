//! What the user who restores may do.

use gate::create::umask;
use ondisk::pax::Member;

use super::attributes::SET_ID;

/// The permissions that the owner of a directory needs to work in it.
pub(super) const ALL: u32 = 0o700;

/// What members are given of what an archive says, beside names, contents and times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kept {
    /// Owners and groups; else everything belongs to the user who restores.
    pub owners: bool,
    /// Set-id and sticky bits, access control lists, and permissions that the umask removes.
    pub permissions: bool,
    /// Block and character devices.
    pub devices: bool,
    /// Extended attributes, with capabilities and access control lists.
    pub xattrs: bool,
}

impl Default for Kept {
    fn default() -> Kept {
        Kept {
            owners: true,
            permissions: true,
            devices: true,
            xattrs: true,
        }
    }
}

/// The user who restores.
#[derive(Clone, Copy)]
pub(super) struct Rights {
    pub(super) kept: Kept,
    pub(super) is_root: bool,
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// The permissions of a directory that no member describes.
    pub(super) plain_directory: u32,
}

impl Rights {
    /// Those of this process. From then on, members have the permissions that the archive says from
    /// their first moment: the umask is zero.
    pub(super) fn take(kept: Kept) -> Rights {
        let umask = umask(0);
        let (uid, gid) = gate::process::ids();
        Rights {
            kept,
            is_root: gate::process::is_root(),
            uid,
            gid,
            plain_directory: 0o777 & !umask,
        }
    }

    /// The mode that a member gets: a program that does not belong to its owner gets no set-id
    /// bits, since it would run in another user's name.
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
