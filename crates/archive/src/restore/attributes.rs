//! Owner, mode, times, extended attributes, access control lists.
//!
//! A change of owner takes set-user-id bits and capabilities away, and a mode may take away the
//! right to set attributes. So the order is: owner, extended attributes, access control lists,
//! mode, capabilities, and at the end the times.

use std::ffi::{CStr, CString};

use gate::create::{
    fchmod, fchownat, fremovexattr, fsetxattr, futimens, in_proc, lremovexattr, lsetxattr,
    utimensat,
};
use gate::fs::{Statx, Time};
use gate::long::c_string;
use gate::xattr::{fgetxattr, flistxattr};
use gate::{Errno, Fd, Gate};
use ondisk::pax::acl::{Who, to_binary};
use ondisk::pax::{Kind, Member};
use walk::entry::time;

use super::{Remarks, Restorer, Rights, Trouble, change_mode};

const ACCESS: &CStr = c"system.posix_acl_access";
const DEFAULT: &CStr = c"system.posix_acl_default";
/// What belongs to the program in a file, and goes with a change of owner.
const CAPABILITY: &[u8] = b"security.capability";
const SET_ID: u32 = 0o6000;

/// What gets attributes.
#[derive(Clone, Copy)]
pub(super) enum On<'a> {
    /// An open file.
    Open(&'a Fd),
    /// What has a name in an open directory: a symlink, a fifo, a device.
    Name(&'a Fd, &'a CStr),
}

impl On<'_> {
    fn set(self, name: &CStr, value: &[u8]) -> gate::Result<()> {
        match self {
            On::Open(fd) => fsetxattr(fd, name, value),
            On::Name(dir, file) => lsetxattr(&in_proc(dir, file.to_bytes())?, name, value),
        }
    }

    fn remove(self, name: &CStr) -> gate::Result<()> {
        match self {
            On::Open(fd) => fremovexattr(fd, name),
            On::Name(dir, file) => lremovexattr(&in_proc(dir, file.to_bytes())?, name),
        }
    }

    fn own(self, uid: u32, gid: u32) -> gate::Result<()> {
        match self {
            On::Open(fd) => fchownat(fd, c"", uid, gid),
            On::Name(dir, file) => fchownat(dir, file, uid, gid),
        }
    }

    fn mode(self, mode: u32) -> gate::Result<()> {
        match self {
            On::Open(fd) => fchmod(fd, mode),
            On::Name(dir, file) => change_mode(dir, file, mode),
        }
    }

    fn times(self, atime: Option<Time>, mtime: Option<Time>) -> gate::Result<()> {
        match self {
            On::Open(fd) => futimens(fd, atime, mtime),
            On::Name(dir, file) => utimensat(dir, file, atime, mtime),
        }
    }
}

/// Whether what is made in a directory gets an access control list from it.
pub(super) fn inherits(dir: &Fd) -> bool {
    let mut value = Vec::new();
    fgetxattr(dir, DEFAULT, &mut value).is_ok()
}

/// What a directory gets when the work goes on outside it: before that it must be writable, and
/// every entry made in it would move its times.
#[derive(Debug)]
pub(super) struct Late {
    owner: Option<(u32, u32)>,
    mode: Option<u32>,
    atime: Option<Time>,
    mtime: Option<Time>,
    /// What btrfs is told by attributes (`btrfs.compression`): what is made in a directory would
    /// get it, too.
    properties: Vec<(CString, Vec<u8>)>,
}

/// Whether an attribute is one of those. They mean nothing elsewhere, and are short.
fn is_property(name: &[u8], value: &[u8]) -> bool {
    const LONGEST: usize = 64;
    name.starts_with(b"btrfs.") && name.len() + value.len() < LONGEST
}

impl Late {
    /// For a directory that was finished before: its times as they are now, and its mode if that
    /// had to be changed.
    pub(super) fn put_back(seen: &Statx, is_mode_changed: bool) -> Late {
        Late {
            owner: None,
            mode: is_mode_changed.then_some(seen.mode & 0o7777),
            atime: Some(seen.atime),
            mtime: Some(seen.mtime),
            properties: Vec::new(),
        }
    }

    /// Gives the directory all that.
    pub(super) fn give(&self, dir: &Fd, path: &[u8], remarks: &mut Remarks) {
        let on = On::Open(dir);
        let is_owned = self
            .owner
            .is_none_or(|(uid, gid)| own(on, uid, gid, path, remarks));
        for (name, value) in &self.properties {
            let _ = on.set(name, value);
        }
        if let Some(mode) = self.mode {
            chmod(
                on,
                if is_owned { mode } else { mode & !SET_ID },
                path,
                remarks,
            );
        }
        times(on, self.atime, self.mtime, path, remarks);
    }
}

/// Whether the owner is now as it should be.
fn own(on: On<'_>, uid: u32, gid: u32, path: &[u8], remarks: &mut Remarks) -> bool {
    let done = on.own(uid, gid);
    if let Err(e) = done {
        remarks.warn_once(
            path,
            Gate::Fchownat,
            e,
            "its owner cannot be set, so that it has no set-user-id bits either",
        );
    }
    done.is_ok()
}

fn chmod(on: On<'_>, mode: u32, path: &[u8], remarks: &mut Remarks) {
    if let Err(e) = on.mode(mode) {
        remarks.warn_once(path, Gate::Fchmod, e, "its mode cannot be set");
    }
}

fn times(on: On<'_>, atime: Option<Time>, mtime: Option<Time>, path: &[u8], remarks: &mut Remarks) {
    if let Err(e) = on.times(atime, mtime) {
        remarks.warn_once(path, Gate::Utimensat, e, "its times cannot be set");
    }
}

impl Rights {
    /// The mode that a member gets: who is not its owner makes no program that runs in another's
    /// name.
    pub(super) fn mode(&self, member: &Member) -> u32 {
        let is_owned = self.is_root || (member.uid == self.uid && member.gid == self.gid);
        member.mode & if is_owned { 0o7777 } else { 0o7777 & !SET_ID }
    }
}

impl Restorer<'_> {
    /// Gives a new file all its attributes. Its mode is right already if `is_exact`, apart from
    /// what a change of owner takes; `inherits` says that it may have an access control list from
    /// its directory.
    pub(super) fn give(
        &mut self,
        on: On<'_>,
        path: &[u8],
        member: &Member,
        is_exact: bool,
        inherits: bool,
    ) {
        let is_symlink = member.kind == Kind::Symlink;
        let mut mode = self.rights.mode(member);
        if let Some((uid, gid)) = self.owner(member)
            && !own(on, uid, gid, path, &mut self.remarks)
        {
            mode &= !SET_ID;
        }
        self.xattrs(on, path, member, |name| name != CAPABILITY);
        if !is_symlink {
            let listed = self.list(on, path, ACCESS, member.acl_access.as_deref());
            if listed.is_none() && inherits {
                self.unlist(on, path, ACCESS);
            }
            mode = listed.map_or(mode, |listed| mode & 0o7000 | listed);
            if !is_exact || inherits || mode & 0o7000 != 0 {
                chmod(on, mode, path, &mut self.remarks);
            }
        }
        self.xattrs(on, path, member, |name| name == CAPABILITY);
        for (name, value) in member
            .xattrs
            .iter()
            .filter(|(name, value)| is_property(name, value))
        {
            let _ = c_string(name).and_then(|name| on.set(&name, value));
        }
        times(
            on,
            member.atime.map(time),
            Some(time(member.mtime)),
            path,
            &mut self.remarks,
        );
    }

    /// Gives a directory what it can have from the first, and says what it gets when it is left.
    /// `is_new` says that it was made for this member.
    pub(super) fn give_early(
        &mut self,
        dir: &Fd,
        path: &[u8],
        member: &Member,
        is_new: bool,
        inherits: bool,
    ) -> Late {
        let on = On::Open(dir);
        let mut has = Vec::new();
        if !is_new || inherits {
            // Where there are none, there is nothing to be taken away.
            let _ = flistxattr(dir, &mut has);
        }
        for name in has.split(|&b| b == 0).filter(|name| !name.is_empty()) {
            let is_named = member.xattrs.iter().any(|(kept, _)| kept == name);
            let is_stale = match name {
                b"system.posix_acl_access" => member.acl_access.is_none(),
                b"system.posix_acl_default" => member.acl_default.is_none(),
                // The first archive takes nothing away.
                CAPABILITY => self.is_later && !is_named,
                name => {
                    self.is_later
                        && !is_named
                        && (name.starts_with(b"user.") || name.starts_with(b"trusted."))
                }
            };
            if is_stale && let Ok(name) = c_string(name) {
                self.unlist(on, path, &name);
            }
        }
        self.xattrs(on, path, member, |_| true);
        let listed = self.list(on, path, ACCESS, member.acl_access.as_deref());
        self.list(on, path, DEFAULT, member.acl_default.as_deref());
        if listed.is_some() {
            // The list has set the mode; for now, it is still to be worked in.
            chmod(on, 0o700, path, &mut self.remarks);
        }
        let mode = self.rights.mode(member);
        Late {
            owner: self.owner(member),
            mode: Some(listed.map_or(mode, |listed| mode & 0o7000 | listed)),
            atime: member.atime.map(time),
            mtime: Some(time(member.mtime)),
            properties: member
                .xattrs
                .iter()
                .filter(|(name, value)| is_property(name, value))
                .filter_map(|(name, value)| Some((c_string(name).ok()?, value.clone())))
                .take(4)
                .collect(),
        }
    }

    /// The owner that a member is given; `None` where that is not ours to give.
    fn owner(&mut self, member: &Member) -> Option<(u32, u32)> {
        if self.rights.is_root {
            let (uid, gid) = (member.uid, member.gid);
            return Some((
                self.owners.user(&member.uname).unwrap_or(uid),
                self.owners.group(&member.gname).unwrap_or(gid),
            ));
        }
        if (member.uid, member.gid) != (self.rights.uid, self.rights.gid) {
            self.remarks
                .note("what is restored belongs to you, and not to the owners that the archive names: that takes root");
        }
        None
    }

    fn xattrs(&mut self, on: On<'_>, path: &[u8], member: &Member, which: impl Fn(&[u8]) -> bool) {
        for (name, value) in member.xattrs.iter().filter(|(name, _)| which(name)) {
            let is_user = name.starts_with(b"user.");
            if !is_user && !self.rights.is_root && !is_property(name, value) {
                self.remarks.note(
                    "extended attributes other than user.*, capabilities among them, are left out: they take root",
                );
                continue;
            }
            // The others are the system's: access control lists, which have records of their own,
            // and properties.
            let what = match name {
                _ if is_user => "its extended attributes user.* cannot be set",
                name if name.starts_with(b"trusted.") => {
                    "its extended attributes trusted.* cannot be set"
                }
                name if name.starts_with(b"security.") => {
                    "its extended attributes security.* cannot be set"
                }
                _ => continue,
            };
            if let Err(e) = c_string(name).and_then(|name| on.set(&name, value)) {
                self.remarks.warn_once(path, set_gate(on), e, what);
            }
        }
    }

    /// Sets an access control list, if there is one; gives the permissions that it makes.
    fn list(&mut self, on: On<'_>, path: &[u8], which: &CStr, text: Option<&[u8]>) -> Option<u32> {
        let text = text?;
        let id = |who, name: &[u8]| match who {
            Who::User => self.owners.user(name),
            Who::Group => self.owners.group(name),
        };
        let Some(binary) = to_binary(text, id) else {
            self.remarks.warn(
                path,
                Trouble::because("its access control list cannot be read, and is left out"),
            );
            return None;
        };
        if let Err(e) = on.set(which, &binary) {
            self.remarks.warn_once(
                path,
                set_gate(on),
                e,
                "its access control list cannot be set",
            );
            return None;
        }
        permissions(&binary)
    }

    /// Takes an extended attribute away.
    fn unlist(&mut self, on: On<'_>, path: &[u8], name: &CStr) {
        match on.remove(name) {
            Ok(()) | Err(Errno::ENODATA | Errno::EOPNOTSUPP) => {}
            Err(e) => {
                let gate = if matches!(on, On::Open(_)) {
                    Gate::Fremovexattr
                } else {
                    Gate::Lremovexattr
                };
                self.remarks.warn_once(
                    path,
                    gate,
                    e,
                    "extended attributes that it has no more cannot be taken away",
                );
            }
        }
    }
}

/// The permissions that go with an access control list, as the kernel has both. The mode in an
/// archive of bsdtar is another one: it has the owning group's, and not the mask.
fn permissions(list: &[u8]) -> Option<u32> {
    const VERSION: usize = 4;
    const OWNER: u16 = 0x01;
    const OWNING_GROUP: u16 = 0x04;
    const MASK: u16 = 0x10;
    const OTHER: u16 = 0x20;
    let (entries, _) = list.get(VERSION..)?.as_chunks::<8>();
    let of = |wanted: u16| {
        let mut found = entries
            .iter()
            .filter(|[a, b, ..]| u16::from_le_bytes([*a, *b]) == wanted);
        found
            .next()
            .map(|[_, _, a, b, ..]| u32::from(u16::from_le_bytes([*a, *b])) & 7)
    };
    Some(of(OWNER)? << 6 | of(MASK).or(of(OWNING_GROUP))? << 3 | of(OTHER)?)
}

fn set_gate(on: On<'_>) -> Gate {
    if matches!(on, On::Open(_)) {
        Gate::Fsetxattr
    } else {
        Gate::Lsetxattr
    }
}
