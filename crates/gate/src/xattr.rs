//! Extended attributes, among them POSIX ACLs and file capabilities.
//!
//! The kernel limits the list of names, and a value, to 64 KiB. Results go into a buffer of the
//! caller, which grows as needed and should be reused.
//!
//! listxattrat and getxattrat (since Linux 6.13) take an open directory. On older kernels,
//! llistxattr and lgetxattr get a path through /proc instead; whether the new calls exist is
//! checked once.

use std::borrow::Cow;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use crate::gates::Gate;
use crate::newer::{ANY_NAME, NOT_OPEN, NewerCall};
use crate::syscall::syscall;
use crate::{Errno, Result};

/// `struct xattr_args` of linux/xattr.h.
#[repr(C)]
struct XattrArgs {
    value: u64,
    size: u32,
    flags: u32,
}

/// Makes a call that writes into a buffer, and replaces the buffer's content.
///
/// # Safety
/// The call must write at most as many bytes as its second argument, and return how many it has
/// written.
unsafe fn fill(buffer: &mut Vec<u8>, call: impl Fn(*mut u8, usize) -> Result<usize>) -> Result<()> {
    const FEW: usize = 1 << 10;
    const MOST: usize = 64 << 10; // XATTR_SIZE_MAX, XATTR_LIST_MAX
    buffer.clear();
    loop {
        buffer.reserve(FEW);
        let room = buffer.capacity();
        match call(buffer.as_mut_ptr(), room) {
            Ok(n) => {
                // SAFETY: there was room for `room` bytes, and the call has written `n` of them.
                unsafe { buffer.set_len(n.min(room)) };
                return Ok(());
            }
            Err(Errno::ERANGE) if room < MOST => buffer.reserve(MOST),
            Err(e) => return Err(e),
        }
    }
}

/// Reads the names of the extended attributes of an open file, each terminated by NUL.
/// [flistxattr(2)](https://man7.org/linux/man-pages/man2/listxattr.2.html)
///
/// # Errors
/// `EOPNOTSUPP` if the file system does not support them; `EBADF` for a descriptor that was opened
/// with `O_PATH`.
pub fn flistxattr(fd: impl AsFd, names: &mut Vec<u8>) -> Result<()> {
    let fd = fd.as_fd();
    // SAFETY: the kernel writes at most `room` bytes to `to`, and returns how many.
    unsafe { fill(names, |to, room| syscall!(Gate::Flistxattr, fd, to, room)) }
}

/// Reads an extended attribute of an open file.
/// [fgetxattr(2)](https://man7.org/linux/man-pages/man2/getxattr.2.html)
///
/// # Errors
/// `ENODATA` if the file has no such attribute; `EOPNOTSUPP` if the file system does not support
/// attributes of this kind.
pub fn fgetxattr(fd: impl AsFd, attribute: &CStr, value: &mut Vec<u8>) -> Result<()> {
    let fd = fd.as_fd();
    // SAFETY: `attribute` is NUL-terminated, and the kernel writes at most `room` bytes to `to`.
    unsafe {
        fill(value, |to, room| {
            syscall!(Gate::Fgetxattr, fd, attribute, to, room)
        })
    }
}

/// Reads the names of the extended attributes of a file, each terminated by NUL; does not follow a
/// symlink. [llistxattr(2)](https://man7.org/linux/man-pages/man2/listxattr.2.html)
///
/// # Errors
/// The errors of [`flistxattr`].
pub fn llistxattr(path: &CStr, names: &mut Vec<u8>) -> Result<()> {
    // SAFETY: `path` is NUL-terminated, and the kernel writes at most `room` bytes to `to`.
    unsafe { fill(names, |to, room| syscall!(Gate::Llistxattr, path, to, room)) }
}

/// Reads an extended attribute of a file; does not follow a symlink.
/// [lgetxattr(2)](https://man7.org/linux/man-pages/man2/getxattr.2.html)
///
/// # Errors
/// The errors of [`fgetxattr`].
pub fn lgetxattr(path: &CStr, attribute: &CStr, value: &mut Vec<u8>) -> Result<()> {
    // SAFETY: both names are NUL-terminated, and the kernel writes at most `room` bytes to `to`.
    unsafe {
        fill(value, |to, room| {
            syscall!(Gate::Lgetxattr, path, attribute, to, room)
        })
    }
}

static LISTXATTRAT: NewerCall = NewerCall::new();
static GETXATTRAT: NewerCall = NewerCall::new();

/// Reads the names of the extended attributes of a file in an open directory, each terminated by
/// NUL; does not follow a symlink.
/// [listxattrat(2)](https://man7.org/linux/man-pages/man2/listxattr.2.html), or [`llistxattr`] if
/// the kernel lacks it.
///
/// # Errors
/// The errors of [`flistxattr`].
pub fn listxattrat(dir: impl AsFd, name: &CStr, names: &mut Vec<u8>) -> Result<()> {
    let (dir, at) = (dir.as_fd(), libc::AT_SYMLINK_NOFOLLOW);
    let call = |dir: RawFd, name: &CStr, to: *mut u8, room: usize| {
        // SAFETY: `name` is NUL-terminated, and `to` has room for `room` bytes.
        unsafe { syscall!(Gate::Listxattrat, dir, name, at, to, room) }
    };
    if !LISTXATTRAT.is_missing() {
        // SAFETY: the kernel writes at most `room` bytes, and returns how many.
        let listed = unsafe { fill(names, |to, room| call(dir.as_raw_fd(), name, to, room)) };
        let ask = || call(NOT_OPEN, ANY_NAME, std::ptr::null_mut(), 0);
        match listed {
            Err(errno) if LISTXATTRAT.explains(errno, ask) => {}
            listed => return listed,
        }
    }
    llistxattr(&path(dir, name)?, names)
}

/// Reads an extended attribute of a file in an open directory; does not follow a symlink.
/// [getxattrat(2)](https://man7.org/linux/man-pages/man2/getxattr.2.html), or [`lgetxattr`] if the
/// kernel lacks it.
///
/// # Errors
/// The errors of [`fgetxattr`].
pub fn getxattrat(
    dir: impl AsFd,
    name: &CStr,
    attribute: &CStr,
    value: &mut Vec<u8>,
) -> Result<()> {
    let dir = dir.as_fd();
    let call = |dir: RawFd, name: &CStr, to: *mut u8, room: usize| {
        let args = XattrArgs {
            value: to.expose_provenance() as u64,
            size: u32::try_from(room).unwrap_or(u32::MAX),
            flags: 0,
        };
        let (at, size, args) = (
            libc::AT_SYMLINK_NOFOLLOW,
            size_of::<XattrArgs>(),
            &raw const args,
        );
        // SAFETY: both names are NUL-terminated, `args` has `size` bytes, and `to` room for `room`.
        unsafe { syscall!(Gate::Getxattrat, dir, name, at, attribute, args, size) }
    };
    if !GETXATTRAT.is_missing() {
        // SAFETY: the kernel writes at most `room` bytes, and returns how many.
        let got = unsafe { fill(value, |to, room| call(dir.as_raw_fd(), name, to, room)) };
        let ask = || call(NOT_OPEN, ANY_NAME, std::ptr::null_mut(), 0);
        match got {
            Err(errno) if GETXATTRAT.explains(errno, ask) => {}
            got => return got,
        }
    }
    lgetxattr(&path(dir, name)?, attribute, value)
}

/// The path through /proc/self/fd of a file in an open directory.
fn path<'a>(dir: BorrowedFd<'_>, name: &'a CStr) -> Result<Cow<'a, CStr>> {
    let dir = dir.as_raw_fd();
    if dir == libc::AT_FDCWD || name.to_bytes().starts_with(b"/") {
        return Ok(Cow::Borrowed(name));
    }
    let path = [format!("/proc/self/fd/{dir}/").as_bytes(), name.to_bytes()].concat();
    CString::new(path)
        .map(Cow::Owned)
        .map_err(|_| Errno::EINVAL)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the tests look past the gate")]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;
    use crate::create::lsetxattr;
    use crate::fs::{Open, openat};
    use crate::long::open_long;

    #[test]
    fn attributes_are_read_by_name_and_by_descriptor() {
        let top = std::env::temp_dir().join(format!("fathom-gate-{}-xattr", std::process::id()));
        std::fs::create_dir(&top).unwrap();
        std::fs::write(top.join("file"), b"").unwrap();
        std::os::unix::fs::symlink("file", top.join("link")).unwrap();
        let whole = |name: &str| CString::new(top.join(name).as_os_str().as_bytes()).unwrap();
        let large = vec![7; 3000];
        let file = whole("file");
        let set = |attribute, value| lsetxattr(&file, attribute, value).is_ok();
        if !set(c"user.one", b"1") || !set(c"user.large", &large) {
            std::fs::remove_dir_all(&top).unwrap();
            let top = top.display();
            return crate::skip::skip(format_args!("{top} has no room for extended attributes"));
        }
        let dir = open_long(top.as_os_str().as_bytes(), Open::DIRECTORY).unwrap();
        let fd = openat(&dir, c"file", Open::NONBLOCK).unwrap();
        let own = |names: &[u8]| {
            let mut own: Vec<_> = names
                .split(|&b| b == 0)
                .filter(|name| name.starts_with(b"user."))
                .collect();
            own.sort();
            own.concat()
        };
        for is_missing in [false, true] {
            LISTXATTRAT.pretend(is_missing);
            GETXATTRAT.pretend(is_missing);
            let mut buffer = Vec::new();
            listxattrat(&dir, c"file", &mut buffer).unwrap();
            assert_eq!(own(&buffer), b"user.largeuser.one");
            listxattrat(&dir, c"link", &mut buffer).unwrap();
            assert_eq!(own(&buffer), b"");
            getxattrat(&dir, c"file", c"user.large", &mut buffer).unwrap();
            assert_eq!(buffer, large);
            getxattrat(&dir, c"file", c"user.one", &mut buffer).unwrap();
            assert_eq!(buffer, b"1");
            assert_eq!(
                getxattrat(&dir, c"file", c"user.two", &mut buffer),
                Err(Errno::ENODATA)
            );
            assert_eq!(
                getxattrat(&dir, c"gone", c"user.one", &mut buffer),
                Err(Errno::ENOENT)
            );
            assert_eq!(listxattrat(&dir, c"gone", &mut buffer), Err(Errno::ENOENT));
            listxattrat(crate::fs::CWD, &file, &mut buffer).unwrap();
            assert_eq!(own(&buffer), b"user.largeuser.one");
        }
        let mut buffer = Vec::new();
        flistxattr(&fd, &mut buffer).unwrap();
        assert_eq!(own(&buffer), b"user.largeuser.one");
        fgetxattr(&fd, c"user.large", &mut buffer).unwrap();
        assert_eq!(buffer, large);
        std::fs::remove_dir_all(&top).unwrap();
    }
}
