//! Sets the attributes of restored members.
//!
//! chown(2) clears set-user-ID bits and capabilities, and a mode may take away the right to set
//! attributes. So the order is: owner, extended attributes, access control lists, mode,
//! capabilities, and last the times.

use std::ffi::{CStr, CString};

use gate::fs::{StatxMask, fstat};
use gate::long::c_string;
use gate::xattr::flistxattr;
use gate::{Errno, Fd, Gate};
use ondisk::nfs4_acl;
use ondisk::pax::acl::{self, MINIMAL, permissions, permissions_without, to_binary};
use ondisk::pax::{Member, MemberKind};

use super::attributes::{
    ACCESS, AttributeTarget, COMPRESSION, DEFAULT, DeferredAttributes, InheritedAttributes, SET_ID,
    chmod, chown, is_property, times,
};
use super::entry::{DirectoryDefaults, DirectoryState};
use super::maker::Maker;
use super::not_restored::{Failure, NotRestored};
use super::report::Note;
use super::rights::ALL;

/// File capabilities, which chown(2) clears.
const CAPABILITY: &[u8] = b"security.capability";

/// The outcome of setting an access control list.
enum AclOutcome {
    /// The member has no access control list.
    None,
    /// The access control list was set, and with it these permissions.
    Set(u32),
    /// The access control list could not be set; permissions to use instead, if they can be derived
    /// from the list.
    Failed(Option<u32>),
}

impl AclOutcome {
    /// Limits a member's mode. If there is an access control list, the mode's group bits are its
    /// mask (or, from bsdtar, those of the owning group), so without the list they may permit too
    /// much.
    fn limit(&self, mode: u32) -> u32 {
        match self {
            AclOutcome::None => mode,
            AclOutcome::Set(permissions) => mode & 0o7000 | permissions,
            AclOutcome::Failed(Some(permissions)) => mode & (0o7000 | permissions),
            AclOutcome::Failed(None) => mode & 0o7707,
        }
    }
}

impl Maker<'_> {
    /// Sets all attributes of a new file. If `is_exact`, the file already has its mode, except for
    /// bits that chown(2) clears.
    pub(super) fn set_all(
        &mut self,
        on: AttributeTarget<'_>,
        path: &[u8],
        member: &Member,
        is_exact: bool,
        traits: &mut DirectoryDefaults,
    ) {
        let inherits = traits.inherits;
        let is_symlink = member.kind == MemberKind::Symlink;
        let mut mode = self.rights.mode(member);
        if let Some(owner) = self.owner(member)
            && !self.has_owner(on, owner, traits)
            && !chown(on, owner, path, &mut self.remarks)
        {
            mode &= !SET_ID;
        }
        self.xattrs(on, path, member, |name| name != CAPABILITY);
        if !is_symlink {
            let listed = self.list(on, path, ACCESS, member.acl_access.as_deref());
            if !matches!(listed, AclOutcome::Set(_)) && inherits.acl {
                self.unlist(on, path, ACCESS);
            }
            mode = listed.limit(mode);
            let is_exact = is_exact && !matches!(listed, AclOutcome::Failed(_));
            if !is_exact || inherits.acl || mode & 0o7000 != 0 {
                chmod(on, mode, path, &mut self.remarks);
            }
        }
        self.xattrs(on, path, member, |name| name == CAPABILITY);
        if inherits.property && member.kind == MemberKind::File {
            self.unlist(on, path, COMPRESSION);
        }
        for (name, value) in self.properties(member) {
            self.set_xattr(on, path, name.to_bytes(), &value);
        }
        let (atime, mtime) = (member.atime, Some(member.mtime));
        times(on, atime, mtime, path, &mut self.remarks);
    }

    /// Sets the attributes of a directory that do not hinder creating entries in it; the others are
    /// set when the directory is complete. `is_new`: the directory was created for this member.
    pub(super) fn give_early(
        &mut self,
        dir: &Fd,
        path: &[u8],
        member: &Member,
        is_new: bool,
        (inherits, is_later): (InheritedAttributes, bool),
    ) -> DirectoryState {
        let on = AttributeTarget::Open(dir);
        let (mut has, mut keeps_property) = (Vec::new(), false);
        if !is_new || inherits != InheritedAttributes::default() {
            // If flistxattr(2) fails, no attribute counts as present, so none is removed.
            let _ = flistxattr(dir, &mut has);
        }
        for name in has.split(|&b| b == 0).filter(|name| !name.is_empty()) {
            let is_named = member.xattrs.iter().any(|(kept, _)| kept == name);
            let is_stale = match name {
                b"system.posix_acl_access" => member.acl_access.is_none(),
                b"system.posix_acl_default" => member.acl_default.is_none(),
                // The archive's property is set when the directory is complete: until then, new
                // entries would inherit it.
                b"btrfs.compression" => is_new || is_later || is_named,
                // The first archive does not remove capabilities of existing directories.
                CAPABILITY => is_later && !is_named,
                name => {
                    is_later
                        && !is_named
                        && (name.starts_with(b"user.") || name.starts_with(b"trusted."))
                }
            };
            if !is_stale {
                keeps_property |= name == COMPRESSION.to_bytes();
            } else if let Ok(name) = c_string(name) {
                self.unlist(on, path, &name);
            }
        }
        self.xattrs(on, path, member, |_| true);
        let listed = self.list(on, path, ACCESS, member.acl_access.as_deref());
        self.list(on, path, DEFAULT, member.acl_default.as_deref());
        if matches!(listed, AclOutcome::Set(_)) {
            // Setting the access control list has changed the mode, but the directory must be
            // writable until it is complete.
            chmod(on, ALL, path, &mut self.remarks);
        }
        let mode = self.rights.mode(member);
        let late = DeferredAttributes {
            owner: self.owner(member),
            mode: Some(listed.limit(mode)),
            atime: member.atime,
            mtime: Some(member.mtime),
            properties: self.properties(member).take(4).collect(),
        };
        let inherits = InheritedAttributes {
            acl: member.acl_default.is_some(),
            property: keeps_property,
        };
        DirectoryState::new(Some(Box::new(late)), inherits)
    }

    /// Whether a new file already has its owner. The first file created in a directory tells the
    /// owner of all others.
    fn has_owner(
        &self,
        on: AttributeTarget<'_>,
        owner: (u32, u32),
        traits: &mut DirectoryDefaults,
    ) -> bool {
        if owner != (self.rights.uid, self.rights.gid) {
            return false;
        }
        if let (None, AttributeTarget::Open(fd)) = (traits.owner, on) {
            let seen = fstat(fd, StatxMask::BASIC_STATS);
            traits.owner = seen.ok().map(|seen| (seen.uid, seen.gid));
        }
        traits.owner == Some(owner)
    }

    /// The owner to set for a member; `None` if owners are not restored, or without root.
    fn owner(&mut self, member: &Member) -> Option<(u32, u32)> {
        if !self.rights.kept.owners {
            return None;
        }
        if self.rights.is_root {
            return Some(self.owners.of_member(member));
        }
        if (member.uid, member.gid) != (self.rights.uid, self.rights.gid) {
            self.remarks.note(Note::OwnersIgnored);
        }
        None
    }

    fn xattrs(
        &mut self,
        on: AttributeTarget<'_>,
        path: &[u8],
        member: &Member,
        which: impl Fn(&[u8]) -> bool,
    ) {
        let kept = self.rights.kept;
        let is_kept = |name: &[u8]| {
            let is_permitted = kept.permissions || !gives_permissions(name);
            // Like set-user-ID bits, capabilities must not be given to a program of a different
            // owner.
            kept.xattrs && is_permitted && (kept.owners || name != CAPABILITY)
        };
        let wanted = member.xattrs.iter();
        for (name, value) in wanted.filter(|(name, _)| is_kept(name) && which(name)) {
            let is_user = name.starts_with(b"user.");
            if !is_user && !self.rights.is_root && !is_property(name, value) {
                self.remarks.note(Note::XattrsLeftOut);
                continue;
            }
            // btrfs properties of a directory are set last, because entries created in the
            // directory would inherit them.
            if is_property(name, value) {
                continue;
            }
            self.set_xattr(on, path, name, value);
        }
    }

    /// The btrfs properties among a member's extended attributes.
    fn properties<'m>(
        &self,
        member: &'m Member,
    ) -> impl Iterator<Item = (CString, Vec<u8>)> + use<'m> {
        let kept = self.rights.kept.xattrs;
        let all = member.xattrs.iter();
        all.filter(move |(name, value)| kept && is_property(name, value))
            .filter_map(|(name, value)| Some((c_string(name).ok()?, value.clone())))
    }

    fn set_xattr(&mut self, on: AttributeTarget<'_>, path: &[u8], name: &[u8], value: &[u8]) {
        let spaces = ["user.", "trusted.", "security.", "system.", "btrfs."];
        let mut spaces = spaces.into_iter();
        let space = spaces.find(|space| name.starts_with(space.as_bytes()));
        let is_mode = || name == nfs4_acl::NAME && nfs4_acl::is_minimal(value);
        match c_string(name).and_then(|name| on.set(&name, value)) {
            Ok(()) => {}
            Err(Errno::EOPNOTSUPP) if is_mode() => {}
            Err(e) => self.warn_of_set(on, path, e, NotRestored::Xattrs(space.unwrap_or(""))),
        }
    }

    /// Sets an access control list, if the member has one.
    fn list(
        &mut self,
        on: AttributeTarget<'_>,
        path: &[u8],
        which: &CStr,
        text: Option<&[u8]>,
    ) -> AclOutcome {
        let Some(text) = text else {
            return AclOutcome::None;
        };
        if !self.rights.kept.xattrs || !self.rights.kept.permissions {
            return AclOutcome::Failed(permissions_without(text));
        }
        let id = |who, name: &[u8], number| self.owners.id(who, name, number);
        let Some(binary) = to_binary(text, id) else {
            self.remarks.warn(path, NotRestored::BadAcl);
            return AclOutcome::Failed(permissions_without(text));
        };
        match on.set(which, &binary) {
            Ok(()) => permissions(&binary).map_or(AclOutcome::None, AclOutcome::Set),
            // An access control list of three entries is equivalent to the mode.
            Err(Errno::EOPNOTSUPP) if binary.len() <= MINIMAL => AclOutcome::None,
            Err(e) => {
                self.warn_of_set(on, path, e, NotRestored::Acl);
                AclOutcome::Failed(permissions_without(text))
            }
        }
    }

    /// Removes an extended attribute.
    fn unlist(&mut self, on: AttributeTarget<'_>, path: &[u8], name: &CStr) {
        if let Err(e) = on.remove(name)
            && ![Errno::ENODATA, Errno::EOPNOTSUPP].contains(&e)
        {
            let gate = on.gate(Gate::Fremovexattr, Gate::Lremovexattr);
            let failure = Failure::call(gate, e, NotRestored::StaleXattrs);
            self.remarks.warn(path, failure);
        }
    }

    fn warn_of_set(
        &mut self,
        on: AttributeTarget<'_>,
        path: &[u8],
        errno: Errno,
        reason: NotRestored,
    ) {
        let gate = on.gate(Gate::Fsetxattr, Gate::Lsetxattr);
        self.remarks.warn(path, Failure::call(gate, errno, reason));
    }
}

/// Whether an extended attribute grants permissions: access control lists in any form, and
/// capabilities.
fn gives_permissions(name: &[u8]) -> bool {
    let is_list = name.starts_with(b"system.") && name.windows(3).any(|part| part == b"acl");
    // Windows ACLs, as stored by Samba and the SMB client.
    let of_windows = [&b"NTACL"[..], b"ntsd", b"ntsd_full"];
    is_list
        || of_windows.iter().any(|end| name.ends_with(end))
        || acl::is_xfs_form(name)
        || name == CAPABILITY
}
