//! Files that are made to be experimented on, and what is done to them.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd};

use libc::{c_int, c_long, syscall};

use crate::meter::{Gate, answer, pass};
use crate::{Fd, Result};

fn open(dir: impl AsFd, name: &CStr, how: c_int) -> Result<Fd> {
    pass(Gate::Openat, || {
        let how = how | libc::O_CLOEXEC;
        // SAFETY: `name` is NUL-terminated.
        answer(unsafe { syscall(libc::SYS_openat, dir.as_fd().as_raw_fd(), name.as_ptr(), how, 0o600) })
    })
    .map(Fd::take)
}

/// A file without a name in a directory, for reading and writing: it goes with its last descriptor, whatever happens.
/// [openat(2)](https://man7.org/linux/man-pages/man2/openat.2.html), `O_TMPFILE`
///
/// # Errors
/// `EOPNOTSUPP` where the file system has no such thing; some say `EISDIR`, `EINVAL`, `ENOENT` or `ENOSYS`.
pub fn open_unnamed(dir: impl AsFd) -> Result<Fd> {
    open(dir, c".", libc::O_TMPFILE | libc::O_RDWR)
}

/// Makes a file, for reading and writing, that nobody else may open.
/// [openat(2)](https://man7.org/linux/man-pages/man2/openat.2.html)
///
/// # Errors
/// `EEXIST` when the name is taken.
pub fn open_new(dir: impl AsFd, name: &CStr) -> Result<Fd> {
    open(dir, name, libc::O_CREAT | libc::O_EXCL | libc::O_RDWR | libc::O_NOFOLLOW)
}

/// Opens a file for reading past the page cache.
/// [openat(2)](https://man7.org/linux/man-pages/man2/openat.2.html), `O_DIRECT`
///
/// # Errors
/// `EINVAL` where the file system has no such thing.
pub fn open_direct(dir: impl AsFd, name: &CStr) -> Result<Fd> {
    open(dir, name, libc::O_DIRECT)
}

/// Writes at a place in a file. [pwrite(2)](https://man7.org/linux/man-pages/man2/pwrite.2.html)
pub fn pwrite64(fd: impl AsFd, bytes: &[u8], offset: u64) -> Result<usize> {
    pass(Gate::Pwrite64, || {
        // SAFETY: the kernel reads at most `bytes.len()` bytes of `bytes`.
        answer(unsafe {
            let fd = fd.as_fd().as_raw_fd();
            syscall(libc::SYS_pwrite64, fd, bytes.as_ptr(), bytes.len() as c_long, offset as c_long)
        })
    })
}

/// Makes a file shorter or longer; what it grows by is a hole.
/// [ftruncate(2)](https://man7.org/linux/man-pages/man2/truncate.2.html)
pub fn ftruncate(fd: impl AsFd, len: u64) -> Result<()> {
    // SAFETY: no pointers.
    pass(Gate::Ftruncate, || answer(unsafe { syscall(libc::SYS_ftruncate, fd.as_fd().as_raw_fd(), len as c_long) }))
        .map(drop)
}

/// Locks an open file for this process alone, without waiting; the lock goes with the last descriptor.
/// [flock(2)](https://man7.org/linux/man-pages/man2/flock.2.html)
///
/// # Errors
/// `EAGAIN` while another has it.
pub fn flock(fd: impl AsFd) -> Result<()> {
    pass(Gate::Flock, || {
        // SAFETY: no pointers.
        answer(unsafe { syscall(libc::SYS_flock, fd.as_fd().as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) })
    })
    .map(drop)
}

/// Makes a directory that nobody else may look into.
/// [mkdirat(2)](https://man7.org/linux/man-pages/man2/mkdir.2.html)
pub fn mkdirat(dir: impl AsFd, name: &CStr) -> Result<()> {
    pass(Gate::Mkdirat, || {
        // SAFETY: `name` is NUL-terminated.
        answer(unsafe { syscall(libc::SYS_mkdirat, dir.as_fd().as_raw_fd(), name.as_ptr(), 0o700) })
    })
    .map(drop)
}

/// Takes an empty directory away. [unlinkat(2)](https://man7.org/linux/man-pages/man2/unlink.2.html), `AT_REMOVEDIR`
///
/// # Errors
/// `ENOTEMPTY` where something is in it.
pub fn unlinkat_directory(dir: impl AsFd, name: &CStr) -> Result<()> {
    pass(Gate::Unlinkat, || {
        // SAFETY: `name` is NUL-terminated.
        answer(unsafe { syscall(libc::SYS_unlinkat, dir.as_fd().as_raw_fd(), name.as_ptr(), libc::AT_REMOVEDIR) })
    })
    .map(drop)
}

/// How reads past the page cache must be aligned: in memory and in the file, in bytes. `None` where the kernel does not say
/// (before 6.1, or for this file system); 0 means that there are no such reads.
/// [statx(2)](https://man7.org/linux/man-pages/man2/statx.2.html), `STATX_DIOALIGN`
pub fn direct_alignment(fd: impl AsFd) -> Result<Option<(u32, u32)>> {
    const STATX_DIOALIGN: u32 = 0x2000;
    /// Of `stx_mask`, `stx_dio_mem_align` and `stx_dio_offset_align`, in 32-bit words.
    const MASK: usize = 0;
    const MEMORY: usize = 152 / 4;
    const OFFSET: usize = 156 / 4;
    let mut buffer = [0_u32; 64]; // struct statx is 256 bytes long
    pass(Gate::Statx, || {
        // SAFETY: the empty name is NUL-terminated, and `buffer` has room for one struct statx.
        answer(unsafe {
            let fd = fd.as_fd().as_raw_fd();
            syscall(libc::SYS_statx, fd, c"".as_ptr(), libc::AT_EMPTY_PATH, STATX_DIOALIGN, buffer.as_mut_ptr())
        })
    })?;
    Ok((buffer[MASK] & STATX_DIOALIGN != 0).then_some((buffer[MEMORY], buffer[OFFSET])))
}

/// The names of the extended attributes of a file, into `names`; gives how many bytes they take.
/// [llistxattr(2)](https://man7.org/linux/man-pages/man2/listxattr.2.html)
///
/// # Errors
/// `EOPNOTSUPP` where the file system has none; `ERANGE` when there is too little room.
pub fn llistxattr(path: &CStr, names: &mut [u8]) -> Result<usize> {
    pass(Gate::Llistxattr, || {
        // SAFETY: `path` is NUL-terminated, and the kernel writes at most `names.len()` bytes.
        answer(unsafe { syscall(libc::SYS_llistxattr, path.as_ptr(), names.as_mut_ptr(), names.len() as c_long) })
    })
}

/// An extended attribute of a file, into `value`; gives how many bytes it takes.
/// [lgetxattr(2)](https://man7.org/linux/man-pages/man2/getxattr.2.html)
///
/// # Errors
/// `ENODATA` where it has no such attribute; `ERANGE` when there is too little room.
pub fn lgetxattr(path: &CStr, attribute: &CStr, value: &mut [u8]) -> Result<usize> {
    pass(Gate::Lgetxattr, || {
        // SAFETY: both names are NUL-terminated, and the kernel writes at most `value.len()` bytes.
        answer(unsafe {
            let (path, attribute) = (path.as_ptr(), attribute.as_ptr());
            syscall(libc::SYS_lgetxattr, path, attribute, value.as_mut_ptr(), value.len() as c_long)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
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
        assert_eq!((crate::fs::pread64(&again, &mut byte, 5000), byte), (Ok(1), *b"x"));
    }
}
