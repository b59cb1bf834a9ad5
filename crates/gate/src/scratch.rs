//! Files that are made to be experimented on, and what is done to them.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd};

use libc::{c_int, syscall};

use crate::errno::check;
use crate::gates::Gate;
use crate::meter::pass;
use crate::{Fd, Result};

fn open(dir: impl AsFd, name: &CStr, how: c_int) -> Result<Fd> {
    pass(Gate::Openat, || {
        let how = how | libc::O_CLOEXEC;
        // SAFETY: `name` is NUL-terminated.
        check(unsafe {
            syscall(
                libc::SYS_openat,
                dir.as_fd().as_raw_fd(),
                name.as_ptr(),
                how,
                0o600,
            )
        })
    })
    .map(Fd::take)
}

/// A file without a name in a directory, for reading and writing: it goes with its last descriptor,
/// whatever happens. [openat(2)](https://man7.org/linux/man-pages/man2/openat.2.html), `O_TMPFILE`
///
/// # Errors
/// `EOPNOTSUPP` where the file system has no such thing; some say `EISDIR`, `EINVAL`, `ENOENT` or
/// `ENOSYS`.
pub fn open_unnamed(dir: impl AsFd) -> Result<Fd> {
    open(dir, c".", libc::O_TMPFILE | libc::O_RDWR)
}

/// Makes a file, for reading and writing, that nobody else may open.
/// [openat(2)](https://man7.org/linux/man-pages/man2/openat.2.html)
///
/// # Errors
/// `EEXIST` when the name is taken.
pub fn open_new(dir: impl AsFd, name: &CStr) -> Result<Fd> {
    open(
        dir,
        name,
        libc::O_CREAT | libc::O_EXCL | libc::O_RDWR | libc::O_NOFOLLOW,
    )
}

/// Opens a file for reading past the page cache.
/// [openat(2)](https://man7.org/linux/man-pages/man2/openat.2.html), `O_DIRECT`
///
/// # Errors
/// `EINVAL` where the file system has no such thing.
pub fn open_direct(dir: impl AsFd, name: &CStr) -> Result<Fd> {
    open(dir, name, libc::O_DIRECT)
}

/// Locks an open file for this process alone, without waiting; the lock goes with the last
/// descriptor. [flock(2)](https://man7.org/linux/man-pages/man2/flock.2.html)
///
/// # Errors
/// `EAGAIN` while another has it.
pub fn flock(fd: impl AsFd) -> Result<()> {
    pass(Gate::Flock, || {
        // SAFETY: no pointers.
        check(unsafe {
            syscall(
                libc::SYS_flock,
                fd.as_fd().as_raw_fd(),
                libc::LOCK_EX | libc::LOCK_NB,
            )
        })
    })
    .map(drop)
}

/// How reads past the page cache must be aligned: in memory and in the file, in bytes. `None` where
/// the kernel does not say (before 6.1, or for this file system); 0 means that there are no such
/// reads. [statx(2)](https://man7.org/linux/man-pages/man2/statx.2.html), `STATX_DIOALIGN`
pub fn direct_alignment(fd: impl AsFd) -> Result<Option<(u32, u32)>> {
    const STATX_DIOALIGN: u32 = 0x2000;
    /// Of `stx_mask`, `stx_dio_mem_align` and `stx_dio_offset_align`, in 32-bit words.
    const MASK: usize = 0;
    const MEMORY: usize = 152 / 4;
    const OFFSET: usize = 156 / 4;
    let mut buffer = [0_u32; 64]; // struct statx is 256 bytes long
    pass(Gate::Statx, || {
        // SAFETY: the empty name is NUL-terminated, and `buffer` has room for one struct statx.
        check(unsafe {
            let fd = fd.as_fd().as_raw_fd();
            syscall(
                libc::SYS_statx,
                fd,
                c"".as_ptr(),
                libc::AT_EMPTY_PATH,
                STATX_DIOALIGN,
                buffer.as_mut_ptr(),
            )
        })
    })?;
    Ok((buffer[MASK] & STATX_DIOALIGN != 0).then_some((buffer[MEMORY], buffer[OFFSET])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create::{ftruncate, pwrite64};
    use crate::fs::{CWD, Open, openat};

    #[test]
    fn a_file_without_a_name_can_be_written_and_opened_again() {
        let dir = openat(CWD, c"/tmp", Open::SCAN).unwrap();
        let Ok(file) = open_unnamed(&dir) else { return };
        ftruncate(&file, 8192).unwrap();
        assert_eq!(pwrite64(&file, b"x", 5000), Ok(1));
        flock(&file).unwrap();
        let name = std::ffi::CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
        let again = openat(CWD, &name, Open::empty()).unwrap();
        let mut byte = [0];
        assert_eq!(
            (crate::fs::pread64(&again, &mut byte, 5000), byte),
            (Ok(1), *b"x")
        );
    }
}
