//! `percall`: a separate system call for each attribute, as if statx(2) returned only one: the
//! baseline that `dump --gather percall` measures.
//!
//! statx(2) returns all fields whatever is requested. So each call requests one field, and only
//! that field of the result is used. The names of extended attributes, the ACLs and the file
//! capabilities follow, each by its own call.

use std::ffi::CStr;

use gate::attribution::{CallSubject, with_subject};
use gate::fs::{Statx, StatxMask, lstatat};
use gate::xattr::{getxattrat, listxattrat};
use gate::{Errno, Fd};

use super::stat::walk_alone;
use crate::entry::FileType;
use crate::error::EngineRefusal;
use crate::job::{Engine, Job};

pub(super) struct PerCall;

impl Engine for PerCall {
    fn walk(&self, job: &Job<'_>) -> Result<(), EngineRefusal> {
        walk_alone(look, job);
        Ok(())
    }
}

/// The field that a statx(2) call requests, and a function that copies this field from its result.
type Field = (StatxMask, fn(&mut Statx, Statx));

const FIELDS: [Field; 12] = [
    (StatxMask::MODE, |to, s| {
        to.mode = to.mode & !0o7777 | s.mode & 0o7777
    }),
    (StatxMask::INO, |to, s| to.ino = s.ino),
    (StatxMask::NLINK, |to, s| to.nlink = s.nlink),
    (StatxMask::UID, |to, s| to.uid = s.uid),
    (StatxMask::GID, |to, s| to.gid = s.gid),
    (StatxMask::SIZE, |to, s| to.size = s.size),
    (StatxMask::BLOCKS, |to, s| to.blocks = s.blocks),
    (StatxMask::ATIME, |to, s| to.atime = s.atime),
    (StatxMask::MTIME, |to, s| to.mtime = s.mtime),
    (StatxMask::CTIME, |to, s| to.ctime = s.ctime),
    (StatxMask::BTIME, |to, s| to.btime = s.btime),
    (StatxMask::MNT_ID, |to, s| to.mnt_id = s.mnt_id),
];

fn look(dir: &Fd, name: &CStr) -> Result<(Statx, Option<bool>), Errno> {
    let seen = lstatat(dir, name, StatxMask::TYPE)?;
    let subject = CallSubject::from_type(FileType::from_mode(seen.mode));
    with_subject(subject, || look_further(dir, name, seen))
}

fn look_further(dir: &Fd, name: &CStr, mut seen: Statx) -> Result<(Statx, Option<bool>), Errno> {
    for (want, take) in FIELDS {
        take(&mut seen, lstatat(dir, name, want)?);
    }
    let mut buffer = Vec::new();
    let xattrs = match listxattrat(dir, name, &mut buffer) {
        Ok(()) => Some(!buffer.is_empty()),
        Err(Errno::EOPNOTSUPP) => Some(false),
        Err(_) => None,
    };
    let attributes: &[&CStr] = match FileType::from_mode(seen.mode) {
        FileType::Symlink => &[],
        FileType::Directory => &[c"system.posix_acl_access", c"system.posix_acl_default"],
        _ => &[c"system.posix_acl_access", c"security.capability"],
    };
    for attribute in attributes {
        // Only the call itself matters here; the dump reads the values that it needs again.
        let _ = getxattrat(dir, name, attribute, &mut buffer);
    }
    Ok((seen, xattrs))
}
