//! What the user who restores may do.

use gate::create::umask;
use ondisk::pax::Member;

use super::attributes::SET_ID;

/// The permissions that the owner of a directory needs to work in it.
pub(super) const ALL: u32 = 0o700;

/// The user who restores.
#[derive(Clone, Copy)]
pub(super) struct Rights {
    pub(super) is_root: bool,
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// The permissions of a directory that no member describes.
    pub(super) plain_directory: u32,
}

impl Rights {
    /// Those of this process. From then on, members have the permissions that the archive says from
    /// their first moment: the umask is zero.
    pub(super) fn take() -> Rights {
        let umask = umask(0);
        let (uid, gid) = gate::process::ids();
        Rights {
            is_root: gate::process::is_root(),
            uid,
            gid,
            plain_directory: 0o777 & !umask,
        }
    }

    /// The mode that a member gets: a program that does not belong to its owner gets no set-id
    /// bits, since it would run in another user's name.
    pub(super) fn mode(&self, member: &Member) -> u32 {
        let is_owned = self.is_root || (member.uid == self.uid && member.gid == self.gid);
        member.mode & if is_owned { 0o7777 } else { 0o7777 & !SET_ID }
    }
}
