//! Appends lines to files.

use crate::fs::{FileType, Open, StatxMask, create, fstat, fsync, write};
use crate::long::{c_string, open_long, split_path};
use crate::{Errno, Result};

/// Appends bytes to a regular file, and waits until they are on disk. Creates a missing file,
/// accessible to its owner only.
///
/// # Errors
/// `EACCES` for a file of another user, `EINVAL` for a file that is not regular, `ELOOP` for a
/// symlink, `EMLINK` for a file with several names; the errors of openat(2) and write(2). Some of the bytes may have been written.
pub fn append(path: &[u8], bytes: &[u8]) -> Result<()> {
    let (dir, name) = split_path(path);
    let dir = open_long(dir, Open::DIRECTORY)?;
    let how = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = create(&dir, &c_string(name)?, how, 0o600)?;
    let seen = fstat(&file, StatxMask::BASIC_STATS)?;
    if seen.file_type != FileType::Regular {
        return Err(Errno::EINVAL);
    }
    if !seen.is_ours() {
        return Err(Errno::EACCES);
    }
    // Another user may have planted a hard link to a file of this user.
    if seen.nlink > 1 {
        return Err(Errno::EMLINK);
    }
    let mut rest = bytes;
    while !rest.is_empty() {
        let n = write(&file, rest)?;
        rest = &rest[n..];
    }
    fsync(&file)
}
