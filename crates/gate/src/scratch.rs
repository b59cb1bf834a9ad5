//! Temporary files for experiments, and calls on them.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd};

use crate::fs::{create, raw_statx};
use crate::gates::Gate;
use crate::syscall::syscall;
use crate::{Fd, Result};

/// Creates a file without a name, for reading and writing. It disappears when its last descriptor
/// is closed. [openat(2)](https://man7.org/linux/man-pages/man2/openat.2.html), `O_TMPFILE`
///
/// # Errors
/// `EOPNOTSUPP` if the file system does not support it; some return `EISDIR`, `EINVAL`, `ENOENT` or
/// `ENOSYS`.
pub fn open_unnamed(dir: impl AsFd) -> Result<Fd> {
    create(dir, c".", libc::O_TMPFILE | libc::O_RDWR, 0o600)
}

/// Creates a file that only its owner may open, for reading and writing.
/// [openat(2)](https://man7.org/linux/man-pages/man2/openat.2.html)
///
/// # Errors
/// `EEXIST` if the name exists.
pub fn open_new(dir: impl AsFd, name: &CStr) -> Result<Fd> {
    let how = libc::O_CREAT | libc::O_EXCL | libc::O_RDWR | libc::O_NOFOLLOW;
    create(dir, name, how, 0o600)
}

/// Opens a file for reading that bypasses the page cache.
/// [openat(2)](https://man7.org/linux/man-pages/man2/openat.2.html), `O_DIRECT`
///
/// # Errors
/// `EINVAL` if the file system does not support it.
pub fn open_direct(dir: impl AsFd, name: &CStr) -> Result<Fd> {
    create(dir, name, libc::O_DIRECT, 0)
}

/// Opens or creates a lock file that only its owner can open.
pub fn open_lock(dir: impl AsFd, name: &CStr) -> Result<Fd> {
    create(
        dir,
        name,
        libc::O_RDWR | libc::O_CREAT | libc::O_NOFOLLOW,
        0o600,
    )
}

/// Locks an open file exclusively, without waiting. The lock ends when the last descriptor is
/// closed. [flock(2)](https://man7.org/linux/man-pages/man2/flock.2.html)
///
/// # Errors
/// `EAGAIN` while another process holds the lock.
pub fn flock(fd: impl AsFd) -> Result<()> {
    // SAFETY: no pointers.
    unsafe { syscall!(Gate::Flock, fd.as_fd(), libc::LOCK_EX | libc::LOCK_NB) }.map(drop)
}

/// The alignment that direct I/O requires, in memory and in the file, in bytes. `None` if the
/// kernel does not report it (before 6.1, or for this file system); 0 if direct I/O is not
/// supported. [statx(2)](https://man7.org/linux/man-pages/man2/statx.2.html), `STATX_DIOALIGN`
pub fn direct_alignment(fd: impl AsFd) -> Result<Option<(u32, u32)>> {
    let s = raw_statx(
        fd.as_fd().as_raw_fd(),
        c"",
        libc::AT_EMPTY_PATH,
        libc::STATX_DIOALIGN,
    )?;
    let is_known = s.stx_mask & libc::STATX_DIOALIGN != 0;
    Ok(is_known.then_some((s.stx_dio_mem_align, s.stx_dio_offset_align)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create::{ftruncate, in_proc, pwrite64};
    use crate::fs::{CWD, Open, openat};

    #[test]
    fn a_file_without_a_name_can_be_written_and_opened_again() {
        let dir = openat(CWD, c"/tmp", Open::SCAN).unwrap();
        let Ok(file) = open_unnamed(&dir) else { return };
        ftruncate(&file, 8192).unwrap();
        assert_eq!(pwrite64(&file, b"x", 5000), Ok(1));
        flock(&file).unwrap();
        let name = in_proc(&file, b"").unwrap();
        let again = openat(CWD, &name, Open::empty()).unwrap();
        let mut byte = [0];
        assert_eq!(
            (crate::fs::pread64(&again, &mut byte, 5000), byte),
            (Ok(1), *b"x")
        );
    }
}
