//! `percall`: a gate call for each attribute, one after the other, as programs did when there was a
//! call for each: what `dump --gather percall` is for. Nobody chooses it to be fast.
//!
//! statx(2) gives everything whatever it is asked for; so each call asks for one field, and only
//! that field of its answer is taken. The names of extended attributes, the ACLs and the file
//! capabilities follow, each by a call of its own.

use std::ffi::CStr;

use gate::fs::{At, Statx, Want, statx};
use gate::xattr::{getxattrat, listxattrat};
use gate::{Errno, Fd};

use super::stat::subtree_by;
use super::{Engine, MountContext};
use crate::attribution::{Subject, with_subject};
use crate::entry::Type;
use crate::error::EngineRefusal;
use crate::job::Job;

/// A call for each attribute.
#[derive(Clone, Copy, Debug)]
pub struct PerCall;

impl Engine for PerCall {
    fn possible(&self, _: &MountContext<'_>) -> Result<(), EngineRefusal> {
        Ok(())
    }

    fn walk(&self, job: &Job<'_>) -> Result<(), EngineRefusal> {
        subtree_by(look, job, &mut *job.sink.worker(), job.place());
        Ok(())
    }
}

/// What is asked for in a call, and which part of the answer is taken.
type Field = (Want, fn(&mut Statx, Statx));

/// What is asked for, call by call.
const FIELDS: [Field; 12] = [
    (Want::MODE, |to, s| {
        to.mode = to.mode & !0o7777 | s.mode & 0o7777
    }),
    (Want::INO, |to, s| to.ino = s.ino),
    (Want::NLINK, |to, s| to.nlink = s.nlink),
    (Want::UID, |to, s| to.uid = s.uid),
    (Want::GID, |to, s| to.gid = s.gid),
    (Want::SIZE, |to, s| to.size = s.size),
    (Want::BLOCKS, |to, s| to.blocks = s.blocks),
    (Want::ATIME, |to, s| to.atime = s.atime),
    (Want::MTIME, |to, s| to.mtime = s.mtime),
    (Want::CTIME, |to, s| to.ctime = s.ctime),
    (Want::BTIME, |to, s| to.btime = s.btime),
    (Want::MNT_ID, |to, s| to.mnt_id = s.mnt_id),
];

fn ask(dir: &Fd, name: &CStr, want: Want) -> Result<Statx, Errno> {
    statx(dir, name, At::SYMLINK_NOFOLLOW | At::NO_AUTOMOUNT, want)
}

fn look(dir: &Fd, name: &CStr) -> Result<(Statx, Option<bool>), Errno> {
    let seen = ask(dir, name, Want::TYPE)?;
    let subject = Subject::from_type(Type::from_mode(seen.mode));
    with_subject(subject, || look_further(dir, name, seen))
}

fn look_further(dir: &Fd, name: &CStr, mut seen: Statx) -> Result<(Statx, Option<bool>), Errno> {
    for (want, take) in FIELDS {
        take(&mut seen, ask(dir, name, want)?);
    }
    let mut buffer = Vec::new();
    let xattrs = match listxattrat(dir, name, &mut buffer) {
        Ok(()) => Some(!buffer.is_empty()),
        Err(Errno::EOPNOTSUPP) => Some(false),
        Err(_) => None,
    };
    let attributes: &[&CStr] = match Type::from_mode(seen.mode) {
        Type::Symlink => &[],
        Type::Directory => &[c"system.posix_acl_access", c"system.posix_acl_default"],
        _ => &[c"system.posix_acl_access", c"security.capability"],
    };
    for attribute in attributes {
        // That there is none is an answer too; who wants the value asks for it where it is needed.
        let _ = getxattrat(dir, name, attribute, &mut buffer);
    }
    Ok((seen, xattrs))
}
