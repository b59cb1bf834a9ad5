//! Files that say what is removed, restored or taken for dumped: nobody but this user and root may have written them.

use std::os::fd::AsFd;

use gate::Fd;
use gate::fs::{At, Want, statx};
use gate::trust::{ACL, has_acl};
use gate::xattr::fgetxattr;

use crate::error::ErrorKind;

/// Opens a directory with such files.
///
/// # Errors
/// It cannot be opened, or others may have written to it, or have put a symlink in its place.
pub fn open_directory(path: &[u8]) -> Result<Fd, ErrorKind> {
    let dir = gate::file::open_directory(path)?;
    check(&dir)?;
    Ok(dir)
}

/// Checks an open file or directory.
///
/// # Errors
/// Others may have written to it.
pub fn check(file: impl AsFd) -> Result<(), ErrorKind> {
    let seen = statx(&file, c"", At::EMPTY_PATH, Want::BASIC_STATS)?;
    if !seen.is_ours() {
        return Err(ErrorKind::OtherOwner { uid: seen.uid });
    }
    match seen.others_may_write(|| has_acl(fgetxattr(&file, ACL, &mut Vec::new()))) {
        true => Err(ErrorKind::OthersMayWrite { mode: seen.mode }),
        false => Ok(()),
    }
}
