//! Checks files that decide what is removed, restored or taken for dumped: only this user and root
//! may be able to write them.

use std::os::fd::AsFd;

use gate::Fd;
use gate::fs::{StatxMask, fstat};
use gate::trust::{ACL, has_acl};
use gate::xattr::fgetxattr;

use crate::error::ErrorKind;

/// Opens a directory of trusted files.
///
/// # Errors
/// The directory cannot be opened, other users can write to it, or may have replaced it by a
/// symlink.
pub fn open_directory(path: &[u8]) -> Result<Fd, ErrorKind> {
    let dir = gate::file::open_directory(path)?;
    check(&dir)?;
    Ok(dir)
}

/// Checks that only this user and root can write to an open file or directory.
///
/// # Errors
/// Other users can write to the file or directory.
pub fn check(file: impl AsFd) -> Result<(), ErrorKind> {
    let seen = fstat(&file, StatxMask::BASIC_STATS)?;
    if !seen.is_ours() {
        return Err(ErrorKind::OtherOwner { uid: seen.uid });
    }
    match seen.others_may_write(|| has_acl(fgetxattr(&file, ACL, &mut Vec::new()))) {
        true => Err(ErrorKind::OthersMayWrite { mode: seen.mode }),
        false => Ok(()),
    }
}
