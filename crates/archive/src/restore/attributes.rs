//! Sets the owner, mode, times and extended attributes of a file.

use std::ffi::{CStr, CString};

use gate::create::{
    fchmod, fchmodat, fchmodat2, fchownat, fremovexattr, fsetxattr, futimens, in_proc,
    lremovexattr, lsetxattr, utimensat,
};
use gate::fs::{Open, Statx, Time, openat};
use gate::xattr::flistxattr;
use gate::{Errno, Fd, Gate};

use super::not_restored::{Failure, NotRestored};
use super::report::RestoreMessages;

pub(super) const ACCESS: &CStr = c"system.posix_acl_access";
pub(super) const DEFAULT: &CStr = c"system.posix_acl_default";
/// The only btrfs property that new entries inherit.
pub(super) const COMPRESSION: &CStr = c"btrfs.compression";
pub(super) const SET_ID: u32 = 0o6000;

/// The file whose attributes are set.
#[derive(Clone, Copy)]
pub(super) enum AttributeTarget<'a> {
    Open(&'a Fd),
    /// A symlink, FIFO or device, by name in an open directory.
    Name(&'a Fd, &'a CStr),
}

impl AttributeTarget<'_> {
    pub(super) fn set(self, name: &CStr, value: &[u8]) -> gate::Result<()> {
        match self {
            AttributeTarget::Open(fd) => fsetxattr(fd, name, value),
            AttributeTarget::Name(dir, file) => {
                lsetxattr(&in_proc(dir, file.to_bytes())?, name, value)
            }
        }
    }

    pub(super) fn remove(self, name: &CStr) -> gate::Result<()> {
        match self {
            AttributeTarget::Open(fd) => fremovexattr(fd, name),
            AttributeTarget::Name(dir, file) => lremovexattr(&in_proc(dir, file.to_bytes())?, name),
        }
    }

    /// The system call to name in a warning: `open` for an open file, `name` for a file by name.
    pub(super) fn gate(self, open: Gate, name: Gate) -> Gate {
        match self {
            AttributeTarget::Open(_) => open,
            AttributeTarget::Name(..) => name,
        }
    }

    fn own(self, uid: u32, gid: u32) -> gate::Result<()> {
        match self {
            AttributeTarget::Open(fd) => fchownat(fd, c"", uid, gid),
            AttributeTarget::Name(dir, file) => fchownat(dir, file, uid, gid),
        }
    }

    fn mode(self, mode: u32) -> gate::Result<()> {
        match self {
            AttributeTarget::Open(fd) => fchmod(fd, mode),
            AttributeTarget::Name(dir, file) => change_mode(dir, file, mode),
        }
    }

    fn set_times(self, atime: Option<Time>, mtime: Option<Time>) -> gate::Result<()> {
        match self {
            AttributeTarget::Open(fd) => futimens(fd, atime, mtime),
            AttributeTarget::Name(dir, file) => utimensat(dir, file, atime, mtime),
        }
    }
}

/// Attributes that new entries inherit from their directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct InheritedAttributes {
    /// A default access control list.
    pub(super) acl: bool,
    /// A btrfs property, which new files and directories inherit.
    pub(super) property: bool,
}

impl InheritedAttributes {
    pub(super) fn from_directory(dir: &Fd) -> InheritedAttributes {
        let mut names = Vec::new();
        let _ = flistxattr(dir, &mut names);
        let has = |name: &CStr| names.split(|&b| b == 0).any(|has| has == name.to_bytes());
        InheritedAttributes {
            acl: has(DEFAULT),
            property: has(COMPRESSION),
        }
    }
}

/// Attributes of a directory to set once it is complete: until then it must be writable, and each
/// new entry would change its times.
#[derive(Debug)]
pub(super) struct DeferredAttributes {
    pub(super) owner: Option<(u32, u32)>,
    pub(super) mode: Option<u32>,
    pub(super) atime: Option<Time>,
    pub(super) mtime: Option<Time>,
    /// btrfs properties (`btrfs.compression`), which new entries would inherit.
    pub(super) properties: Vec<(CString, Vec<u8>)>,
}

/// Whether an extended attribute is a btrfs property. Properties have short values, so a longer
/// attribute is none.
pub(super) fn is_property(name: &[u8], value: &[u8]) -> bool {
    const LONGEST: usize = 64;
    name.starts_with(b"btrfs.") && name.len() + value.len() < LONGEST
}

impl DeferredAttributes {
    /// The attributes to restore on a directory that was already complete before a change in it:
    /// its current times, and its mode if that was changed.
    pub(super) fn put_back(seen: &Statx, is_mode_changed: bool) -> DeferredAttributes {
        DeferredAttributes {
            owner: None,
            mode: is_mode_changed.then_some(seen.mode & 0o7777),
            atime: Some(seen.atime),
            mtime: Some(seen.mtime),
            properties: Vec::new(),
        }
    }

    /// Sets the attributes that were deferred until the directory was complete.
    pub(super) fn set_deferred(&self, dir: &Fd, path: &[u8], remarks: &mut RestoreMessages) {
        let on = AttributeTarget::Open(dir);
        let is_owned = self
            .owner
            .is_none_or(|owner| chown(on, owner, path, remarks));
        for (name, value) in &self.properties {
            if let Err(e) = on.set(name, value) {
                let reason = NotRestored::Xattrs("btrfs.");
                remarks.warn(path, Failure::call(Gate::Fsetxattr, e, reason));
            }
        }
        if let Some(mode) = self.mode {
            let mode = if is_owned { mode } else { mode & !SET_ID };
            chmod(on, mode, path, remarks);
        }
        times(on, self.atime, self.mtime, path, remarks);
    }
}

/// Changes the owner, and warns on failure. Returns whether it succeeded.
pub(super) fn chown(
    on: AttributeTarget<'_>,
    (uid, gid): (u32, u32),
    path: &[u8],
    remarks: &mut RestoreMessages,
) -> bool {
    let done = on.own(uid, gid);
    warn(done, Gate::Fchownat, NotRestored::Owner, path, remarks);
    done.is_ok()
}

pub(super) fn chmod(
    on: AttributeTarget<'_>,
    mode: u32,
    path: &[u8],
    remarks: &mut RestoreMessages,
) {
    warn(
        on.mode(mode),
        Gate::Fchmod,
        NotRestored::Mode,
        path,
        remarks,
    );
}

pub(super) fn times(
    on: AttributeTarget<'_>,
    atime: Option<Time>,
    mtime: Option<Time>,
    path: &[u8],
    remarks: &mut RestoreMessages,
) {
    let done = on.set_times(atime, mtime);
    warn(done, Gate::Utimensat, NotRestored::Times, path, remarks);
}

fn warn(
    done: gate::Result<()>,
    gate: Gate,
    reason: NotRestored,
    path: &[u8],
    remarks: &mut RestoreMessages,
) {
    if let Err(e) = done {
        remarks.warn(path, Failure::call(gate, e, reason));
    }
}

/// Changes the mode of a file by name, without following a symlink.
pub(super) fn change_mode(here: &Fd, name: &CStr, mode: u32) -> gate::Result<()> {
    match fchmodat2(here, name, mode) {
        // Seccomp filters that do not know fchmodat2(2), such as Docker's, return EPERM.
        Err(refused @ (Errno::ENOSYS | Errno::EPERM)) => {
            let fd = openat(here, name, Open::PATH | Open::NOFOLLOW)?;
            let changed = fchmodat(&in_proc(&fd, b"")?, mode);
            changed.map_err(|errno| match refused {
                Errno::EPERM => Errno::EPERM,
                _ => errno,
            })
        }
        other => other,
    }
}
